"""The notebooks of docs/notebooks tell what a run of them shows: each is executed by a kernel of its own.

Texts are compared as those of the other documents are (tests/support/printed.py), pictures by being there. With
PLAIT_UPDATE_DOCS=1 what was executed is written into the notebooks instead.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.printed import UPDATE, prints_as_shown

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
DATA = Path(__file__).parents[2] / "shared" / "data"
NEEDS = {  # a file of shared/data, if it is not a data set of Plait, and packages
    "lastfm": ("lastfm/user_listen_artist_rels.parquet", "altair", "vl_convert"),
    "network": ("", "altair", "vl_convert", "networkx"),
    "umls": ("umls/train.txt", "altair", "vl_convert"),
    "icews14": ("icews14/train.parquet", "altair", "vl_convert"),
    "uclaf": ("uclaf/aaai10.uclaf.data.mat", "altair", "vl_convert"),
}
STORIES = [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("*.ipynb"))]
PICTURE = "image/svg+xml"
LARGEST = 500_000  # bytes of a notebook
# As in tests/test_notebook.py, a process: a kernel's threads and sockets warn of themselves.
RUN = """
import json, sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
client = NotebookClient(notebook, timeout=240, kernel_name="python3", record_timing=False, coalesce_streams=True)
client.execute(cwd=sys.argv[2])
json.dump(notebook, sys.stdout)
"""


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def written(text):
    """A text of a notebook's file, which may be lines."""
    return text if isinstance(text, str) else "".join(text)


def said(output):
    """The kinds of an output, and its text; that of a picture is the name of its class."""
    if output["output_type"] == "stream":
        return [output["name"]], written(output["text"])
    assert output["output_type"] in ("display_data", "execute_result"), output
    return sorted(output["data"]), written(output["data"]["text/plain"])


def executed(path):
    """The notebook, run where it lies; skipped where its data or a package are absent."""
    file, *packages = NEEDS[path.stem]
    if file and not (DATA / file).exists():
        pytest.skip(f"there is no {file} in the folder shared/data next to the repository")
    for package in ("ipykernel", "nbclient", *packages):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    command = [sys.executable, "-c", RUN, str(path), str(path.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write_executed(path, notebook):
    """Keep what was executed, without what says something of the machine only."""
    import nbformat

    notebook["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    nbformat.write(nbformat.from_dict(notebook), path)


@pytest.mark.thorough
@pytest.mark.parametrize("path", STORIES)
def test_a_notebook_shows_what_its_run_shows(path):
    notebook = executed(path)
    if UPDATE:
        return write_executed(path, notebook)
    for cell, stored in zip(code_cells(notebook), code_cells(read(path)), strict=True):
        got, shown = ([said(output) for output in one["outputs"]] for one in (cell, stored))
        assert [kinds for kinds, _ in got] == [kinds for kinds, _ in shown], written(stored["source"])
        for (_, printed), (_, text) in zip(got, shown):
            if not prints_as_shown(printed, text):
                assert printed == text
    return None


@pytest.mark.parametrize("path", STORIES)
def test_a_stored_notebook_is_small_and_was_run_in_order(path):
    assert path.stat().st_size < LARGEST
    cells = code_cells(read(path))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    kinds = {kind for output in outputs for kind in said(output)[0]}
    assert kinds == {"stdout", "text/plain", "text/html", PICTURE} - ({"stdout"} - kinds)
    assert "<script" not in json.dumps(outputs)


def test_every_notebook_says_what_it_needs():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NEEDS)
