"""`plait warm`: kernels in the cache folder before they are needed."""

import os
import subprocess
import sys

import pytest

from plait.cli import warm_command
from plait.jit.cache import cache_folder
from tests.support.cli_world import PLAIT, World


def test_warm_counts_the_kernels_of_the_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(warm_command, "_fits", lambda ranks: iter(()))
    told = World(tmp_path).json("warm")
    assert told["folder"] == str(cache_folder())
    assert told["compiled"] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
@pytest.mark.filterwarnings("ignore::plait.errors.CacheFolderWarning")
def test_warm_refuses_a_folder_that_others_can_write_to(monkeypatch, tmp_path):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("PLAIT_CACHE_DIR", str(tmp_path))
    done = World(tmp_path).plait("warm")
    assert done.exit_code == 2
    assert "cannot be used" in done.stderr


FIRST = """
from plait import datasets, fit
nations = datasets.load("nations")
fit(nations.model, nations.data, rank=7, warmup=2, max_iter=2, progress=False, seed=0).top("relations", k=3)
"""


@pytest.mark.thorough
@pytest.mark.budget(60)
def test_after_warm_a_common_fit_compiles_nothing(tmp_path):
    folder = tmp_path / "kernels"
    environment = os.environ | {"PLAIT_CACHE_DIR": str(folder)}
    subprocess.run([*PLAIT, "warm", "--rank", "8"], env=environment, check=True, capture_output=True)
    kernels = {path.name for path in folder.glob("*.kernel")}
    assert len(kernels) > 20
    subprocess.run([sys.executable, "-W", "ignore", "-c", FIRST], env=environment, check=True, capture_output=True)
    assert {path.name for path in folder.glob("*.kernel")} == kernels
