"""One small world for all commands: two csv files, a config and a run, made once; and a way to run `plait` in it."""

import os
import re
import shutil

import pytest
from typer.testing import CliRunner

from plait.cli import app

VISITS = """\
who,place,day,plays
ann lee,cafe,1,3
ann lee,park,1,1
ann lee,cafe,2,2
bob,cafe,1,2
bob,cafe,3,4
bob,gym,3,1
cem,park,2,1
cem,gym,2,5
cem,gym,3,2
dee,gym,1,1
dee,park,3,2
dee,gym,2,3
eve,cafe,2,1
eve,park,1,2
"""
FRIENDS = """\
user,friend
ann lee,bob
bob,ann lee
bob,eve
cem,dee
dee,cem
eve,ann lee
fay,cem
"""
CONFIG = """\
model = \"\"\"
visits[user, place, day] = U[user, r] P[place, r] D[day, r]
friends[user, friend] = U[user, r] F[friend, r]
friend: user
\"\"\"
rank = 2

[relations.visits]
source = "visits.csv"
value = "plays"
columns = { user = "who" }

[relations.friends]
source = "friends.csv"
likelihood = "bernoulli"
diagonal = "observed"

[fit]
adapt = "factor"
seed = 0
sweeps = 40
threads = 1
"""
CELLS = "user,place,day\nann lee,gym,3\nfay,cafe,1\n"
SEED = 'adapt = "factor"\nseed = 0'  # of the config; another method than VB adapts nothing
TEST = "who,place,day,plays\nann lee,cafe,3,2\nfay,gym,2,1\neve,gym,3,0\nbob,park,2,0\n"


class World:
    """A folder in which commands run; `plait("top run visits")` or a list of arguments."""

    def __init__(self, folder):
        self.folder = folder

    def plait(self, arguments):
        arguments = arguments.split() if isinstance(arguments, str) else arguments
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            return CliRunner().invoke(app, arguments)
        finally:
            os.chdir(before)

    def stdout(self, arguments):
        """The output of a command that works, times masked."""
        result = self.plait(arguments)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return masked(result.stdout)

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")


def masked(text):
    """Times as <time>, the memory of a process as <size>, without the blanks at the ends of lines."""
    text = re.sub(r"\d+(\.\d+)? (s|ms|min)\b", "<time>", text)
    text = re.sub(r"^(peak +about) [\d.]+ [MG]B", r"\1 <size>", text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines())


def fill(folder):
    world = World(folder)
    for name, text in {
        "visits.csv": VISITS, "friends.csv": FRIENDS, "model.toml": CONFIG, "cells.csv": CELLS, "test.csv": TEST,
    }.items():  # fmt: skip
        world.write(name, text)
    return world


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
