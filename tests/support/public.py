"""Public objects of Plait by their dotted names, and what numpydoc says about their docstrings.

`python -m tests.support.public` (in `make check`) prints the faults. Examples are run by tests/test_docstrings.py.
"""

import doctest
import importlib
import re
import sys
from typing import Any

from numpydoc.validate import validate

import plait

FUNCTIONS = [
    "plait.compare", "plait.datasets.load", "plait.evaluate", "plait.evaluate_forecast",
    "plait.evidence.features", "plait.evidence.neighbours",
    "plait.evidence.paths", "plait.evidence.recurrence", "plait.evidence.rules",
    "plait.fit", "plait.grid_search", "plait.likelihood.as_likelihood", "plait.likelihood.from_words",
    "plait.likelihood.link_of", "plait.load", "plait.networkx.predict_links", "plait.pack", "plait.read",
    "plait.scan", "plait.train_test_split", "plait.write",
]  # fmt: skip
# Users construct these: their docstrings have Parameters.
CLASSES = {
    "plait.Checkpoint": [],
    "plait.Exposure": [],
    "plait.Gamma": [],
    "plait.GammaChain": [],
    "plait.Model": [
        "R", "axes", "axis", "bind", "equation", "factor", "factors", "indices", "latent", "ranks", "relations",
        "visible",
    ],
    "plait.Progress": [],
    "plait.Relation": [],
    "plait.executors.Dask": ["close"],
    "plait.executors.Reference": [],
    "plait.executors.Threads": [],
    "plait.likelihood.Bernoulli": [],
    "plait.likelihood.Negbin": [],
    "plait.likelihood.Poisson": [],
    "plait.likelihood.Tweedie": [],
    "plait.sklearn.PoissonFactorization": ["fit", "inverse_transform", "score", "transform"],
}  # fmt: skip
# Functions return these: their docstrings have Attributes.
RESULTS = {
    "plait.Comparison": ["notes", "table", "to_dict"],
    "plait.Explanation": ["components", "entities", "evidence", "links", "to_dict"],
    "plait.Fit": [
        "calibrate", "components", "coupling", "explain", "fold_in", "forecast", "name_components", "plot", "predict",
        "report", "responsibilities", "sample", "save", "similar", "surprising", "title", "to_datatree", "to_xarray",
        "top", "update", "with_titles",
    ],
    "plait.GridSearch": ["plot", "table", "to_dict"],
    "plait.Metrics": ["calibration", "plot", "precision_recall", "roc", "table", "to_dict"],
    "plait.Posterior": ["sd"],
    "plait.Split": ["leaks"],
    "plait.Stop": [],
    "plait.datasets.Dataset": [],
    "plait.errors.ConfigLocation": [],
    "plait.errors.FileLocation": [],
    "plait.PlaitError": ["to_dict"],
    "plait.PlaitWarning": ["to_dict"],
    "plait.errors.TableLocation": [],
    "plait.evidence.Features": ["encode", "rows"],
    "plait.evidence.LinkEvidence": [],
    "plait.evidence.Rules": [],
    "plait.executors.Executor": [],
    "plait.executors.Stats": [],
    "plait.likelihood.Entry": [],
    "plait.likelihood.KernelNames": [],
    "plait.likelihood.Likelihood": [
        "bad", "bursts", "choose", "entries", "expect", "fixed", "packed", "settings", "start", "stored", "tilt",
        "update", "variance",
    ],
    "plait.likelihood.Sums": [],
    "plait.storage.calibration.Calibration": ["is_identity", "to_dict"],
    "plait.storage.calibration.CalibrationFeature": [],
    "plait.plotting.plots.GridSearchPlot": ["rank"],
    "plait.plotting.plots.FitPlot": [
        "components", "coupling", "entity", "map", "model", "neighbourhood", "objective", "rank",
        "trends",
    ],
    "plait.plotting.plots.MetricsPlot": ["calibration", "precision_recall", "roc"],
}  # fmt: skip
MESSAGES = [
    f"plait.errors.{name}"
    for name in vars(plait.errors)
    if name.endswith(("Error", "Warning")) and name not in ("PlaitError", "PlaitWarning")
]

# Codes of numpydoc; others concern where quotes and capitals stand, and sections that Plait does not use.
FORM = {"GL03", "GL05", "GL06", "GL07", "GL08", "SS01", "SS02", "SS03", "SS04", "SS05", "SS06", "RT03", "RT05"}
CALLED = FORM | {"PR01", "PR02", "PR03", "PR04", "PR07", "PR10", "RT01"}
PRIVATE = re.compile(r"^Parameters \{('_\w+'(, )?)+\} not documented")


def public_names() -> list[str]:
    """Return the names of all public functions, classes, methods and properties."""
    members = [f"{owner}.{name}" for owner, names in (CLASSES | RESULTS).items() for name in names]
    return [*FUNCTIONS, *CLASSES, *RESULTS, *members, *MESSAGES]


def find(name: str) -> Any:
    """Return the object of a name."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        try:
            for part in parts[count:]:
                found = getattr(found, part)
        except AttributeError:
            continue
        return found
    raise LookupError(name)


def is_called(name: str) -> bool:
    """Return whether users call the object: not for properties and for what functions return."""
    return name not in (*RESULTS, *MESSAGES) and callable(find(name))


def has_example(name: str) -> bool:
    return bool(doctest.DocTestParser().get_examples(find(name).__doc__ or ""))


def faults(name: str) -> list[str]:
    """Return the faults of a docstring, one sentence each."""
    codes = CALLED if is_called(name) else FORM
    if isinstance(find(name), type):
        codes = codes - {"SS05"}
    found = [f"{code} {text}" for code, text in validate(name)["errors"] if code in codes and not PRIVATE.search(text)]
    if name in RESULTS and "Attributes\n" not in (find(name).__doc__ or ""):
        found.append("no Attributes section")
    if (name in RESULTS or is_called(name)) and not has_example(name):
        found.append("no example that runs")
    return found


def main() -> int:
    """Print all faults; return how many objects have some."""
    broken = {name: found for name in public_names() if (found := faults(name))}
    for name, found in broken.items():
        print(*(f"{name}: {fault}" for fault in found), sep="\n")
    return min(len(broken), 1)


if __name__ == "__main__":
    sys.exit(main())
