"""A run with unusual names, served on loopback by the real server."""

import html
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import polars as pl
from typer.testing import CliRunner

from plait.cli import app as command
from plait.explore.app import build
from plait.explore.serve import listen, open_site, server_of
from plait.explore.site import Site

TOKEN = "a token that tests know"
SCRIPT = "</script><img src=x onerror=alert(1)>"
HARD = [
    "a/b", "what?", "100 %", "%2F", ".", "..", "", " ", "x y", "🎷 jazz", "שלום עולם", "e\u0301tude", SCRIPT,
    "data.json", ".json", "1", "a+b", "a&b=c;d", "#hash", "two\nlines", "quote'\"", "back\\slash", "…",
    "long " + 1999 * "name ", "{{ 7*7 }}", "-1", "/etc/passwd", "../../secret", "a//b", "/", "nul\x00l", "%", "%zz",
    "?row=1", "café", "CAFÉ AU LAIT",
]  # fmt: skip
CONFIG = """\
model = \"\"\"
visits[user, place] = U[user, r] P[place, r]
friends[user, friend] = U[user, r] F[friend, r]
friend: user
\"\"\"
rank = 2

[relations.visits]
source = "visits.parquet"
value = "plays"

[relations.friends]
source = "friends.parquet"
likelihood = "bernoulli"
self_links = "observed"

[fit]
seed = 0
max_iter = 60
"""


def tables() -> dict[str, pl.DataFrame]:
    """Places have whole numbers for names, users text, some of it the same."""
    visits = [(name, 1 + (3 * n + k) % 7, 1 + (n + k) % 3) for n, name in enumerate(HARD) for k in range(3)]
    friends = [(name, HARD[(2 * n + k + 1) % len(HARD)]) for n, name in enumerate(HARD) for k in range(2)]
    return {
        "visits": pl.DataFrame(visits, ["user", "place", "plays"], orient="row"),
        "friends": pl.DataFrame(friends, ["user", "friend"], orient="row"),
    }


def make_run(folder: Path, more: str = "") -> Path:
    """Fit a config by the command."""
    for name, table in tables().items():
        table.write_parquet(folder / f"{name}.parquet")
    (folder / "model.toml").write_text(CONFIG + more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(command, ["fit", str(folder / "model.toml"), "-o", str(folder / "run")])
    assert done.exit_code == 0, done.output
    return folder / "run"


@dataclass
class Served:
    """A site that is served, and a way to ask it."""

    site: Site
    url: str
    client: httpx.Client

    def get(self, address: str, **more) -> httpx.Response:
        return self.client.get(self.url + address, **more)

    def crawl(self, limit: int) -> int:
        """Follow links from the first page: all lead to a page. Number of pages."""
        seen: set[str] = set()
        todo = ["/", "/index.json"]
        while todo and len(seen) < limit:
            address = todo.pop(0)
            if address not in seen:
                seen.add(address)
                answer = self.get(address)
                assert answer.status_code == 200, (address, answer.text[-400:])
                if answer.headers["content-type"].startswith("text/html"):
                    todo += map(html.unescape, re.findall(r'<a [^>]*href="(/[^"]*)"', answer.text))
        return len(seen)

    def post(self, address: str, fields: dict[str, str], **more) -> httpx.Response:
        return self.client.post(self.url + address, data={"token": TOKEN, **fields}, **more)


@contextmanager
def serving(run: Path, **options) -> Iterator[Served]:
    """A run, served."""
    site = open_site(run, token=TOKEN, **options)
    with listening_server(build(site)) as (_, address), httpx.Client(trust_env=False, timeout=60) as client:
        yield Served(site, f"http://127.0.0.1:{address[1]}", client)


@contextmanager
def listening_server(app, **options) -> Iterator:
    """The real server in a thread, at a port of its own; and its address."""
    listening = listen("127.0.0.1", 0)
    server = server_of(app, **options)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield server, listening.getsockname()
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
