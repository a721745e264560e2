"""A small folder for commands: two csv files and a config; and ways to run `plait` in it."""

import json
import os
import re
import subprocess
import sys

from tests.support.cli_terminal import on_a_terminal
from tests.support.command_line import plait_command

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
self_links = "observed"

[fit]
adapt_prior = "factor"
seed = 0
max_iter = 40
threads = 1
"""
PLAIT = [sys.executable, "-c", "from plait.cli import app; app()"]
CELLS = "user,place,day\nann lee,gym,3\nfay,cafe,1\n"
SEED = 'adapt_prior = "factor"\nseed = 0'  # of the config; another method than VB adapts nothing
TEST = "who,place,day,plays\nann lee,cafe,3,2\nfay,gym,2,1\neve,gym,3,0\nbob,park,2,0\n"


class Ran:
    """How a command ended; phases: those that it announced on stderr, which are left out of it."""

    def __init__(self, result):
        lines = result.stderr.splitlines(keepends=True)
        self.exit_code, self.stdout, self.output = result.exit_code, result.stdout, result.output
        self.stderr = "".join(line for line in lines if not line.endswith(" …\n"))
        self.phases = [line.removesuffix(" …\n") for line in lines if line.endswith(" …\n")]


class World:
    """A folder in which commands run; `plait("top run visits")` or a list of arguments."""

    def __init__(self, folder):
        self.folder = folder

    def plait(self, arguments):
        arguments = arguments.split() if isinstance(arguments, str) else arguments
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            return Ran(plait_command(*arguments))
        finally:
            os.chdir(before)

    def on_a_terminal(self, arguments, environment):
        """Output of a command that works on a terminal and writes nothing to stderr."""
        return on_a_terminal([*PLAIT, *arguments.split()], environment, self.folder, subprocess.PIPE)

    def stdout(self, arguments):
        """The output of a command that works, times masked."""
        result = self.plait(arguments)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return masked(result.stdout)

    def json(self, arguments):
        """The document that a command prints with `--json`."""
        arguments = arguments.split() if isinstance(arguments, str) else arguments
        result = self.plait([*arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refuse(self, arguments, *words, code=2):
        """A command fails: nothing on stdout, no traceback, one message with these words."""
        result = self.plait(arguments)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.stderr
        assert [word for word in words if word not in result.stderr] == [], result.stderr
        return result.stderr

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8")

    def change(self, old, new, name="model.toml"):
        """Replace a text in a file, the config by default."""
        text = self.read(name)
        assert old in text
        self.write(name, text.replace(old, new, 1))


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
