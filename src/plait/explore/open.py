"""A run, opened to be explored."""

from pathlib import Path

from plait.explore.site import Site
from plait.explore.whatif import Trials
from plait.explore.worker import seal
from plait.result import load
from plait.run.folder import manifest


def open_site(run: Path, *, token: str, folder: Path | None = None, limit: float = 300.0) -> Site:
    """What pages are made from. folder: where the data of what-ifs are; limit: seconds that one may take."""
    header = manifest(run)
    trials = Trials(str(run), None if folder is None else str(folder), limit, seal(header))
    return Site(load(run), run, header, token, trials, folder)
