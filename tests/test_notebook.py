"""What a notebook shows while a fit runs, asked of a real kernel, and where Plait takes a process for one."""

import importlib.util
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from plait.fitting import progress

SETUP = """
import numpy, plait
import plait.fitting.progress
plait.fitting.progress.REDRAWN = 0.0  # every state is sent
X = numpy.random.default_rng(0).poisson(2.0, (30, 25)).astype(float)
MODEL = "X[i,j] = A[i,r] B[j,r]"
"""
FITS = {
    "one": "fit = plait.fit(MODEL, {'X': X}, rank=2, seed=0, sweeps=12, tol=0.0)",
    "three": "fit = plait.fit(MODEL, {'X': X}, rank=2, seed=0, sweeps=12, tol=0.0, restarts=3, threads=2)",
    "found": "fit = plait.fit(MODEL, {'X': X}, seed=0, sweeps=12, tol=0.0)",
    "quiet": "fit = plait.fit(MODEL, {'X': X}, rank=2, seed=0, sweeps=12, tol=0.0, progress=False)",
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


@pytest.mark.parametrize(("name", "sweeps"), [("one", 12), ("three", 36), ("found", 12)])
def test_a_cell_of_a_notebook_ends_with_a_full_bar_and_the_bound(outputs, name, sweeps):
    *before, bar = texts(outputs[name])
    assert bar.startswith(f"sweep {sweeps}/{sweeps} {'█' * progress.WIDTH}  bound -")
    assert before == ([""] if name == "found" else [])  # what was tried is gone


def test_nothing_but_the_bar_is_shown_and_nothing_where_it_is_unwanted(outputs):
    assert {output["output_type"] for name in FITS for output in outputs[name]} == {"display_data"}
    assert outputs["quiet"] == []


@pytest.mark.parametrize(
    ("name", "begins"), [("explained", "Why X(i=0, j=1)?"), ("compared", "X: 1 test link, 1 test")]
)
def test_a_result_is_one_output_with_its_text_and_its_page(outputs, name, begins):
    [output] = [one for one in outputs[name] if "text/html" in one["data"]]
    assert output["output_type"] == "execute_result"
    assert output["data"]["text/plain"].startswith(begins)
    assert "<table" in output["data"]["text/html"]


@pytest.mark.parametrize(
    ("shell", "found"),
    [(None, False), (SimpleNamespace(), False), (SimpleNamespace(kernel=None), False),
     (SimpleNamespace(kernel="a kernel"), True)],
    ids=["plain Python", "IPython on a terminal", "no kernel yet", "kernel"],
)  # fmt: skip
def test_a_notebook_is_told_from_a_terminal_by_its_kernel(monkeypatch, shell, found):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert progress.in_notebook() == found


def test_without_ipython_there_is_no_notebook_and_it_is_not_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not progress.in_notebook()
    assert "IPython" not in sys.modules
