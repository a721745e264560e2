"""The instruments of the other tests: contrast, accessibility, requests and errors."""

import pytest

pytestmark = pytest.mark.thorough

PAGE = """<!doctype html><html lang="en"><head><title>Page</title><link rel="icon" href="data:,"></head>
<body style="background:#fff;color:#000"><p>clear</p><p style="color:#bbb">faint</p><p style="opacity:.3">thin</p>
<svg width="200" height="60"><rect width="200" height="60" fill="#111"/><text x="10" y="30" fill="#222">hidden</text>
<text x="110" y="30" fill="#fff">drawn</text></svg><script>SCRIPT</script></body></html>"""


def _page(folder, script=""):
    path = folder / "page.html"
    path.write_text(PAGE.replace("SCRIPT", script))
    return path


def test_faint_text_and_broken_rules_are_found(opened, tmp_path):
    watched = opened(_page(tmp_path))
    found = {one["text"]: one for one in watched.faint_text()}
    assert set(found) == {"faint", "thin", "hidden"}
    assert found["hidden"]["drawn"]
    assert 1.9 < found["faint"]["contrast"] < 2.0  # #bbb on white is 1.92
    assert any(rule.startswith("color-contrast") for rule in watched.broken_rules())


def test_requests_messages_and_errors_are_recorded(opened, tmp_path):
    script = "console.warn('look'); new Image().src = 'https://example.org/x.png'; "
    path = _page(tmp_path, script + "setTimeout(() => { throw Error('no') })")
    watched = opened(path)
    watched.page.wait_for_timeout(50)
    assert watched.requests == [path.as_uri(), "https://example.org/x.png"]
    assert watched.messages[0] == "warning: look"
    assert watched.errors == ["no"]
    assert opened(path, script=False).requests == [path.as_uri()]
