"""Where something is measured: processors, memory, versions."""

import importlib.metadata
import platform
import resource
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from plait.machine import memory, processors, resident

ROOT = Path(__file__).resolve().parents[2]
BENEATH = ("numpy", "numba", "polars")


def machine() -> str:
    """A few words on this machine."""
    return (
        f"{processors()} × {_processor()}, {memory() / 1e9:.0f} GB, {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def _processor() -> str:
    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def version(package: str) -> str | None:
    """The installed version of a package, if it is installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Versions of dependencies and of related packages that are installed."""
    return {name: found for name in (*BENEATH, *sorted(packages)) if (found := version(name))}


def commit() -> str | None:
    """The last commit of Plait's sources, with a + if they were changed since; None outside a repository."""
    try:
        last, changed = (
            _git(*words, "--", "src") for words in (("log", "-1", "--format=%h"), ("status", "--porcelain"))
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{last}{'+' if changed else ''}" or None


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def peak() -> int:
    """Bytes that this process has held at its peak, since `forget_peak` where there is such a thing."""
    found = resident()
    unit = 1 if sys.platform == "darwin" else 1024
    return found[1] if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def held() -> int:
    """Bytes that this process holds now."""
    found = resident()
    return found[0] if found else peak()


def free() -> float:
    """Bytes of free memory; infinite if unknown."""
    lines = [line for line in _lines("/proc/meminfo") if line.startswith("MemAvailable")]
    return int(lines[0].split()[1]) * 1024.0 if lines else float("inf")


def forget_peak() -> None:
    """Reset `peak` (Linux)."""
    with suppress(OSError):  # elsewhere the peak is that of the whole process
        Path("/proc/self/clear_refs").write_text("5")


def _lines(path: str) -> list[str]:
    """Of a file that only Linux has."""
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
