"""One browser for each process of tests; every test has pages of its own, with the network off."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import NoBrowser, Opening, Watched
from tests.support.browser import browser as started


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser that lives as long as the session."""
    running = started()
    try:
        found = running.__enter__()
    except NoBrowser as reason:
        pytest.skip(str(reason))
    try:
        yield found
    finally:
        running.__exit__(None, None, None)


@pytest.fixture
def opened(browser: Any) -> Iterator[Opening]:
    """Opens a file or an address in a page of its own and watches it; closed after the test.

    scheme: "light" or "dark"; size: width and height; script: whether JavaScript runs; offline: whether the network is
    off, loopback too.
    """
    contexts = []

    def watch(
        place: Path | str, *, scheme: str = "light", size: tuple[int, int] = (1280, 900), script: bool = True,
        offline: bool = True,
    ) -> Watched:  # fmt: skip
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": size[0], "height": size[1]}, java_script_enabled=script,
            offline=offline,
        )  # fmt: skip
        contexts.append(context)
        watched = Watched.of(context.new_page())
        watched.page.goto(place.as_uri() if isinstance(place, Path) else place, wait_until="load")
        return watched

    yield watch
    for context in contexts:
        context.close()
