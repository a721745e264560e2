"""Command line: each command is a few calls of the library."""

from plait.cli.program import app

__all__ = ["app"]
