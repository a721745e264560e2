"""Where the shared data of the lab are, and marks for tests that read them."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


def needs(folder):
    """Skip a test where a folder of the shared data is not here."""
    return pytest.mark.skipif(not (DATA / folder).is_dir(), reason=f"{folder} is not in ../shared/data")
