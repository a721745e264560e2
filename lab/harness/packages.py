"""The packages that Plait is compared with: `python -m lab.harness.packages bench` installs those that can be had.

The reasons why others are missing are stored with them, for the page.
"""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from lab.harness.machine import version

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(sys.prefix) / "bench-missing.json"
# Begins like a path, or has two slashes: and/or stays.
_PATH = r"""(?<!\w)(?:file:|~|\.{1,2}|[A-Za-z]:)?[\\/][^\s'"(),;]+|[\w.+-]+(?:[\\/][\w.+-]+){2,}[\\/]?"""


def load(place: str) -> Any:
    """What stands at `module:name`; nothing of it is imported before."""
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)


def wanted(group: str) -> list[str]:
    """A group of dependencies of pyproject.toml, `bench` or `quality`."""
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"][group])


def install(group: str) -> dict[str, str]:
    """Install every package that can be; by package, the first line of the error of those that cannot."""
    failed = {}
    for requirement in wanted(group):
        command = [sys.executable, "-m", "pip", "install", "--quiet", requirement]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            first = (errors or ["pip failed"])[0].removeprefix("ERROR: ")
            failed[_name(requirement)] = without_paths(first)[:160]
            print(f"{requirement} does not install: {failed[_name(requirement)]}")
    kept = {name: why for name, why in _reasons().items() if name not in map(_name, wanted(group))}
    FILE.write_text(json.dumps(kept | failed, indent=1), encoding="utf-8")
    return failed


def missing(package: str) -> str:
    """Why a package is not there; nothing if it is, or if none is needed."""
    if not package or version(package):
        return ""
    reasons = _reasons()
    return f"does not install: {reasons[package]}" if package in reasons else "not installed"


def without_paths(text: str) -> str:
    """What a package or pip says, without paths and addresses of this machine: it goes onto a page."""
    return re.sub(_PATH, "…", text)


def _reasons() -> dict[str, str]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def _name(requirement: str) -> str:
    return re.split(r"[<>=!~\[; ]", requirement)[0]


if __name__ == "__main__":
    install(sys.argv[1])
