"""A run that all commands share."""

import shutil

import pytest

from tests.support.cli_world import World, fill


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """The shared world with a finished run; tests only read it."""
    made = fill(tmp_path_factory.mktemp("world"))
    result = made.plait("fit model.toml -o run")
    assert result.exit_code == 0, result.output
    return made


@pytest.fixture
def scratch(world, tmp_path):
    """A copy of the world that a test may change."""
    shutil.copytree(world.folder, tmp_path / "world")
    return World(tmp_path / "world")
