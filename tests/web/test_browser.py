"""What the tests of pages trust in: the browser and its instruments see what they should."""

PAGE = """<!doctype html><html lang="en"><head><title>Page</title><link rel="icon" href="data:,"></head>
<body style="background:#fff;color:#000"><p>clear</p><p style="color:#bbb">faint</p><p style="opacity:.3">thin</p>
<svg width="200" height="60"><rect width="200" height="60" fill="#111"/><text x="10" y="30" fill="#222">hidden</text>
<text x="110" y="30" fill="#fff">drawn</text></svg><script>SCRIPT</script></body></html>"""


def _page(folder, script=""):
    path = folder / "page.html"
    path.write_text(PAGE.replace("SCRIPT", script))
    return path


def test_faint_text_is_found_on_the_page_and_in_drawings(opened, tmp_path):
    found = {one["text"]: one for one in opened(_page(tmp_path)).faint_text()}
    assert set(found) == {"faint", "thin", "hidden"}
    assert found["hidden"]["drawn"]
    assert 1.9 < found["faint"]["contrast"] < 2.0  # #bbb on white is 1.92


def test_requests_messages_and_errors_are_recorded(opened, tmp_path):
    script = (
        "console.warn('look'); new Image().src = 'https://example.org/x.png'; setTimeout(() => { throw Error('no') })"
    )
    path = _page(tmp_path, script)
    watched = opened(path)
    watched.page.wait_for_timeout(50)
    assert watched.requests == [path.as_uri(), "https://example.org/x.png"]
    assert watched.messages[0] == "warning: look"
    assert watched.errors == ["no"]
    assert opened(path, script=False).requests == [path.as_uri()]


def test_the_scheme_and_the_width_are_those_asked_for(opened, tmp_path):
    page = opened(_page(tmp_path), scheme="dark", size=(390, 800)).page
    assert page.evaluate("[matchMedia('(prefers-color-scheme: dark)').matches, innerWidth]") == [True, 390]


def test_rules_of_accessibility_are_checked(opened, tmp_path):
    assert any(rule.startswith("color-contrast") for rule in opened(_page(tmp_path)).broken_rules())
