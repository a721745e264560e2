"""Security: foreign hosts and pages, files, sizes, methods, and errors without a traceback."""

import hashlib
import socket
from importlib import resources

import pytest

from plait.explore import link_pages
from plait.explore.guard import HEADERS
from tests.support.explore_run import TOKEN, serving

ASKED = {"relation": "visits", "cell.user": "a/b", "cell.place": "1", "changing": "visits", "link.user": "what?",
         "link.place": "4", "change": "hide"}  # fmt: skip


def raw(served, request: bytes) -> bytes:
    """What the server answers to bytes that no client would send."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(request)
        found = b""
        while part := line.recv(65_536):
            found += part
    return found


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil", "", "[::1", "a b"]
)
def test_a_foreign_host_is_refused(served, host):
    answer = raw(served, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert TOKEN.encode() not in answer


def test_own_hosts_are_answered(served):
    port = served.url.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert served.get("/", headers={"Host": host}).status_code == 200


def test_a_post_without_the_token_is_refused(served):
    before = list(served.site.trials.jobs)
    for token in ({}, {"token": ""}, {"token": "another"}, {"token": TOKEN + "x"}):
        answer = served.client.post(served.url + "/whatif", data={**ASKED, **token})
        assert answer.status_code == 403
        assert "token" in answer.text
    assert list(served.site.trials.jobs) == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[x"},
        {"Origin": "http://127.0.0.1:1"},
        {"Referer": "http://evil.example/page"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_a_post_from_another_page_is_refused(served, headers):
    before = list(served.site.trials.jobs)
    answer = served.post("/whatif", ASKED, headers=headers)
    assert answer.status_code == 403
    assert list(served.site.trials.jobs) == before


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/../../../etc/passwd", "/static/", "/static",
     "/static/app.py", "/static/htmx.LICENSE", "/static//etc/passwd", "/static/style.css/..", "/static/C:\\x",
     "/nothing", "//evil.example/", "/static/%00"],
)  # fmt: skip
def test_there_is_no_way_to_a_file(served, path):
    answer = raw(served, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"root:" not in answer


def test_every_answer_has_security_headers(served):
    addresses = ("/", "/nothing", "/index.json", "/static/style.css", "/relation/visits.csv")
    answers = [served.get(address) for address in addresses]
    answers += [served.client.post(served.url + "/whatif"), served.get("/", headers={"Host": "evil.example"})]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "server" not in answer.headers


def test_the_policy_allows_no_inline_script_or_style(served):
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    for address in ("/", "/components", "/component/0", "/relation/visits/cell?user=a/b&place=1"):
        text = served.get(address).text
        assert " style=" not in text
        assert "<style" not in text
        assert text.count("<script") == 1
        assert " onclick" not in text


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/axis/user/" + 9000 * "a", 414, "9,0"),
        ("/search?q=" + 300 * "a", 400, "200 characters"),
        ("/search?nothing=1", 400, "has no parameter"),
        ("/search?q=a&q=b", 400, "twice"),
        ("/search?q=%ff", 400, "is invalid"),
        ("/relation/visits?" + "&".join(f"a{n}=1" for n in range(200)), 400, "is invalid"),
        ("/relation/visits?links.from=x", 400, "an integer"),
        ("/relation/visits?links.from=100000", 400, "an integer"),
        ("/relation/visits?value.least=nan", 400, "must be a number"),
        ("/relation/visits?user=nobody", 404, "is not an entity"),
        ("/relation/visits/cell", 400, "user is missing"),
        ("/relation/visits/cell?user=a/b", 400, "place is missing"),
        ("/relation/visits/cell?user=a/b&place=1&day=3", 400, "has no parameter"),
        ("/component/99", 404, "an integer"),
        ("/component/x", 404, "an integer"),
        ("/component/q/1", 404, "latent"),
        ("/surprises?relation=nothing", 404, "no relation"),
        ("/whatif/nothing", 404, "what-if does not exist"),
        ("/axis/user?from=-1", 400, "an integer"),
    ],
)  # fmt: skip
def test_a_wrong_address_gets_a_page_or_json_with_the_reason(served, address, status, said):
    path, mark, query = address.partition("?")
    for as_json in (False, True):
        answer = served.get(f"{path}.json{mark}{query}" if as_json else address)
        assert answer.status_code == status
        assert said in answer.text
        assert "Traceback" not in answer.text
        assert answer.headers["content-type"].startswith("application/json" if as_json else "text/html")


def test_a_form_that_is_too_large_or_of_another_kind_is_refused(served):
    assert served.post("/whatif", {"x": 70_000 * "a"}).status_code == 413
    json = served.client.post(served.url + "/whatif", json={"token": TOKEN})
    assert json.status_code == 415
    assert served.post("/whatif", {f"x{n}": "" for n in range(200)}).status_code == 400
    chunks = iter([b"token=", 70_000 * b"a"])
    streamed = served.client.post(served.url + "/whatif", content=chunks,
                                  headers={"Content-Type": "application/x-www-form-urlencoded"})  # fmt: skip
    assert streamed.status_code == 413


def test_other_methods_are_refused(served):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert served.client.request(method, served.url + "/").status_code == 405
    assert served.post("/", {}).status_code == 405
    assert served.get("/whatif").status_code == 405


def test_a_bug_shows_no_traceback(run, monkeypatch):
    def broken(site, asked):
        raise ZeroDivisionError("a secret of the program")

    monkeypatch.setattr(link_pages, "surprises", broken)
    with serving(run) as own:
        for address in ("/surprises", "/surprises.json"):
            answer = own.get(address)
            assert answer.status_code == 500
            assert "a bug in Plait: ZeroDivisionError" in answer.text
            assert "secret" not in answer.text
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert own.get("/").status_code == 200


def test_the_vendored_script_is_the_released_one():
    script = resources.files("plait.explore.static").joinpath("htmx.min.js").read_bytes()
    released = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"  # htmx.org 2.0.11
    assert hashlib.sha256(script).hexdigest() == released
