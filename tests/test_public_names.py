"""Public names: what `plait`, a fit and a relation show, what `import plait` is enough for, and what mypy refuses."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import plait

ROOT = Path(__file__).parents[1]
SUBMODULES = {"datasets", "errors", "evidence", "executors", "likelihood"}
CLASSES = {
    "Checkpoint", "Comparison", "Explanation", "Exposure", "Fit", "Gamma", "GammaChain", "GridSearch", "Metrics",
    "Model", "PlaitError", "PlaitWarning", "Posterior", "Progress", "Relation", "Split", "Stop",
}  # fmt: skip
FUNCTIONS = {
    "compare", "evaluate", "evaluate_forecast", "fit", "grid_search", "load", "pack", "read", "scan",
    "train_test_split", "write",
}  # fmt: skip
ATTRIBUTES = {
    "calibration", "converged", "entities", "factors", "fingerprint", "history", "known", "likelihood",
    "likelihood_params", "members", "method", "model", "objective", "plot", "prior", "rank", "seed", "settings", "stop",
    "titles",
}  # fmt: skip
METHODS = {
    "calibrate", "components", "coupling", "explain", "fold_in", "forecast", "name_components", "predict", "report",
    "responsibilities", "sample", "save", "similar", "surprising", "title", "to_datatree", "to_xarray", "top",
    "update", "with_titles",
}  # fmt: skip
OPTIONS = {
    "columns", "data", "duplicates", "hidden", "ignore_columns", "indices", "likelihood", "missing", "observed",
    "self_links", "strip", "unseen", "value", "weight",
}  # fmt: skip


def test_the_package_has_exactly_the_public_names():
    assert len(plait.__all__) == len(set(plait.__all__))
    assert set(plait.__all__) == set(dir(plait)) == SUBMODULES | CLASSES | FUNCTIONS
    assert [name for name in plait.__all__ if not hasattr(plait, name)] == []


def test_a_fit_and_a_relation_show_public_names_only():
    relation = plait.Relation(np.eye(3))
    fit = plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": relation}, rank=1, seed=0, max_iter=1)
    assert set(dir(fit)) == ATTRIBUTES | METHODS
    assert [name for name in dir(fit) if not hasattr(fit, name)] == []
    assert set(dir(relation)) == OPTIONS


def test_every_warning_is_of_one_class_and_in_one_module():
    own = {name: kind for name, kind in vars(plait.errors).items() if name.endswith("Warning")}
    assert len(own) > 10
    assert all(issubclass(kind, plait.PlaitWarning) for kind in own.values())
    assert issubclass(plait.PlaitWarning, UserWarning)
    assert [name for name in own if hasattr(plait, name)] == ["PlaitWarning"]
    declared = {
        (name, path.name)
        for path in Path(plait.__file__).parent.rglob("*.py")
        for name in re.findall(r"^class (\w*Warning)\b", path.read_text("utf-8"), re.MULTILINE)
    }
    assert declared == {(name, "errors.py") for name in own}


def test_the_module_of_errors_shows_errors_warnings_and_locations_only():
    assert [name for name in dir(plait.errors) if not name.endswith(("Error", "Warning", "Location"))] == []
    assert {"PlaitError", "DataError", "LeakWarning"} < set(dir(plait.errors))


@pytest.mark.thorough
def test_a_method_that_does_not_exist_is_an_error_of_mypy(tmp_path):
    pytest.importorskip("mypy")
    file = tmp_path / "own.py"
    calls = [f'plait.fit("X[i] = A[i]", {{}}, method="{method}")' for method in ("vb", "vbb")]
    file.write_text("\n".join(["import plait", *calls]))
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    (line,) = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert re.search(r'own\.py:3: error: Argument "method" to "fit" .*Literal\[.vbb.\].*\[arg-type\]', line), line


@pytest.mark.parametrize(
    ("call", "old", "new"),
    [
        (plait.fit, "sweeps", "max_iter"),
        (plait.fit, "adapt", "adapt_prior"),
        (plait.fit, "start", "warmup"),
        (plait.fit, "keep", "combine"),
        (plait.Relation, "universe", "unseen"),
        (plait.Relation, "diagonal", "self_links"),
        (plait.Relation, "ignore", "ignore_columns"),
        (plait.train_test_split, "test_size", "fraction"),
        (plait.train_test_split, "twins", "leakage"),
        (plait.evaluate, "rank", "target"),
        (plait.evaluate, "nonlinks", "negatives"),
        (plait.Fit.predict, "unknown", "handle_unknown"),
        (plait.Fit.predict, "new", "new_entities"),
        (plait.Fit.top, "each", "per"),
        (plait.Fit.top, "known", "include_known"),
    ],
)
def test_other_words_are_answered_with_the_option(call, old, new):
    assert new in inspect.signature(call).parameters
    with pytest.raises(plait.errors.UnknownArgumentError, match=f"unknown argument '{old}'.\nDid you mean '{new}'"):
        call(None, **{old: 1})
