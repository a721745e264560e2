"""Installing the packages one by one, and why some are missing: kept beside them, for the page to say."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from bench.measure import without_paths

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(sys.prefix) / "bench-missing.json"


def wanted(extra: str) -> list[str]:
    """An extra of pyproject.toml, `bench` or `quality`."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return list(extras[extra])


def install(extra: str) -> dict[str, str]:
    """Install every package that can be; by package, the first line of the error of those that cannot."""
    failed = {}
    for requirement in wanted(extra):
        command = [sys.executable, "-m", "pip", "install", "--quiet", requirement]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            first = (errors or ["pip failed"])[0].removeprefix("ERROR: ")
            failed[_name(requirement)] = without_paths(first)[:160]
            print(f"{requirement} does not install: {failed[_name(requirement)]}")
    kept = {name: why for name, why in _reasons().items() if name not in map(_name, wanted(extra))}
    FILE.write_text(json.dumps(kept | failed, indent=1), encoding="utf-8")
    return failed


def why_missing(package: str) -> str:
    """The reason, as far as it is known."""
    reasons = _reasons()
    return f"does not install: {reasons[package]}" if package in reasons else "not installed"


def _reasons() -> dict[str, str]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def _name(requirement: str) -> str:
    for mark in "<>=!~[; ":
        requirement = requirement.split(mark)[0]
    return requirement
