"""A run that is served for all tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.explore_run import Served, make_run, serving


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("hard"))


@pytest.fixture(scope="session")
def served(run) -> Iterator[Served]:
    with serving(run) as own:
        yield own
