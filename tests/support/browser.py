"""A real browser that watches a page: what it asks for, what it says, and how its text stands out."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
CONTRAST = Path(__file__).with_name("contrast.js")


class NoBrowser(Exception):
    """Why there is none."""


@contextmanager
def browser() -> Iterator[Any]:
    """A chromium of the system, driven by playwright; NoBrowser where one of them is missing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NoBrowser("playwright is not installed: pip install playwright") from None
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise NoBrowser(f"no browser: none of {', '.join(NAMES)} is installed (apt-get install chromium)")
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield running
        finally:
            running.close()


@dataclass
class Watched:
    """A page, and what happened in it: addresses asked for, messages on the console, errors of its scripts."""

    page: Any
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, page: Any) -> "Watched":
        """A new page, watched from now on."""
        watched = cls(page)
        page.on("request", lambda request: watched.requests.append(request.url))
        page.on("console", lambda message: watched.messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: watched.errors.append(str(error)))
        return watched

    def faint_text(self, least: float = 4.5) -> list[dict[str, Any]]:
        """Text that does not stand out from what is behind it, in drawings too, each with its contrast (WCAG)."""
        found: list[dict[str, Any]] = self.page.evaluate(CONTRAST.read_text(), least)
        return found

    def broken_rules(self, *but: str) -> list[str]:
        """The rules of accessibility that the page breaks, by axe, each with the places; but: rules left out."""
        from axe_playwright_python.sync_playwright import Axe

        options = {"rules": {name: {"enabled": False} for name in but}}
        broken = Axe().run(self.page, options=options).response["violations"]
        return [f"{rule['id']}: {[node['target'] for node in rule['nodes'][:3]]}" for rule in broken]


Opening = Callable[..., Watched]
