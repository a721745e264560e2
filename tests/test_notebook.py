"""Output of a fit in a real notebook kernel, and detection of notebooks."""

import importlib.util
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from plait import progress

SETUP = """
import numpy, plait
import plait.progress
plait.progress.REDRAW_SECONDS = 0.0  # every state is sent
X = numpy.random.default_rng(0).poisson(2.0, (30, 25)).astype(float)
MODEL = "X[i,j] = A[i,r] B[j,r]"
"""
FITS = {
    "one": "fit = plait.fit(MODEL, {'X': X}, rank=2, seed=0, max_iter=12, tol=0.0)",
    "three": "fit = plait.fit(MODEL, {'X': X}, rank=2, seed=0, max_iter=12, tol=0.0, restarts=3, threads=2)",
    "found": "fit = plait.fit(MODEL, {'X': X}, seed=0, max_iter=12, tol=0.0)",
    "quiet": "fit = plait.fit(MODEL, {'X': X}, rank=2, seed=0, max_iter=12, tol=0.0, progress=False)",
}
SHOWN = {
    "explained": "fit.explain('X', {'i': 0, 'j': 1})",
    "compared": "plait.compare({'a': fit, 'b': fit}, 'X', {'i': [0, 1], 'j': [1, 1], 'value': [1, 0]})",
}
# A kernel's own threads and sockets warn of themselves, which is not what is tested: so it runs in a process.
RUN = """
import json, sys
import nbformat
from nbclient import NotebookClient
cells = json.load(sys.stdin)
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
json.dump([cell["outputs"] for cell in notebook["cells"]], sys.stdout)
"""


@pytest.fixture(scope="module")
def outputs():
    """The outputs of each cell of a notebook, as its file would have them."""
    for package in ("ipykernel", "nbclient"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    cells = [SETUP, *FITS.values(), *SHOWN.values()]
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(cells), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(["setup", *FITS, *SHOWN], json.loads(done.stdout)))


def texts(cell):
    return [output["data"]["text/plain"] for output in cell]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "max_iter"), [("one", 12), ("three", 36), ("found", 12)])
def test_a_cell_of_a_notebook_ends_with_a_full_bar_and_the_objective(outputs, name, max_iter):
    *before, bar = texts(outputs[name])
    assert bar.startswith(f"sweep {max_iter}/{max_iter} {'█' * progress.BAR_CHARACTERS}  objective -")
    assert before == ([""] if name == "found" else [])  # what was tried is gone


def test_a_cell_shows_the_bar_only(outputs):
    assert {output["output_type"] for name in FITS for output in outputs[name]} == {"display_data"}
    assert outputs["quiet"] == []


@pytest.mark.parametrize(("name", "begins"), [("explained", "X(0, 1)\n"), ("compared", "X: 1 test link, 1 test")])
def test_a_result_is_one_output_with_its_text_and_its_page(outputs, name, begins):
    [output] = [one for one in outputs[name] if "text/html" in one["data"]]
    assert output["output_type"] == "execute_result"
    assert output["data"]["text/plain"].startswith(begins)
    assert "<table" in output["data"]["text/html"]


def test_a_notebook_is_recognised_by_its_kernel(monkeypatch):
    shells = [None, SimpleNamespace(), SimpleNamespace(kernel=None), SimpleNamespace(kernel="a kernel")]
    for shell, found in zip(shells, [False, False, False, True]):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        assert progress.in_notebook() == found
    monkeypatch.delitem(sys.modules, "IPython")
    assert not progress.in_notebook()
    assert "IPython" not in sys.modules
