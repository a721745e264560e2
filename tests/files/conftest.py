from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import NoServer, Server, server

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has a folder of its own, so that messages name files without a path."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server of PostgreSQL that lives as long as the session."""
    running = server()
    try:
        found = running.__enter__()
    except NoServer as reason:
        pytest.skip(str(reason))
    try:
        yield found
    finally:
        running.__exit__(None, None, None)


@pytest.fixture
def shared() -> Path:
    """The folder of real data next to the repository."""
    if not SHARED.is_dir():
        pytest.skip("the shared data are not here: no ../shared/data")
    return SHARED
