"""Docstrings of public objects: numpydoc's form, and examples that run and print what they say."""

import doctest
import inspect
import pydoc
import types
from functools import cached_property

import pytest

import plait
from tests.support.public import faults, find, has_example, public_names

NAMES = public_names()
# What the package itself asks of its results; those of `Relation` are hidden from `dir` (test_public_names).
INTERNAL = {
    "plait.Comparison.describe", "plait.Explanation.describe", "plait.GridSearch.describe", "plait.Metrics.describe",
    "plait.Metrics.title", "plait.Model.unscaled", "plait.Split.facts", "plait.Stop.from_words", "plait.Stop.to_words",
}  # fmt: skip


def run(title, names):
    """Run the examples of an object, which begin with some names; return the names that they end with."""
    test = doctest.DocTestParser().get_doctest(find(title).__doc__, names, title, None, 0)
    said = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test, out=said.append, clear_globs=False)
    if said:
        pytest.fail("".join(said), pytrace=False)
    return test.globs


@pytest.fixture(scope="module")
def setup():
    """The names that the example of the package leaves behind; all other examples start from them."""
    return run("plait", {})


@pytest.mark.parametrize("name", [name for name in NAMES if has_example(name)])
def test_examples_run(name, setup, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(name, setup)


def test_every_public_object_is_listed():
    modules = ("plait", "plait.evidence", "plait.executors", "plait.likelihood")
    named = {f"{module}.{name}" for module in modules for name in find(module).__all__}
    submodules = {name for name in named if inspect.ismodule(find(name))}
    assert named - submodules - {"plait.likelihood.State"} <= set(NAMES)  # State is a type alias
    owners = [f"plait.{name}" for name in plait.__all__ if inspect.isclass(find(f"plait.{name}"))]
    members = {f"{owner}.{name}" for owner in owners for name, one in vars(find(owner)).items() if is_member(name, one)}
    assert {name for name in members - set(NAMES) if not name.startswith("plait.Relation.")} == INTERNAL


def is_member(name, one):
    """Whether it is a method or a property with a public name."""
    return not name.startswith("_") and isinstance(one, (types.FunctionType, property, cached_property, classmethod))


@pytest.mark.budget(4)
def test_docstrings_are_numpydoc():
    assert {name: found for name in NAMES if (found := faults(name))} == {}


def test_help_fits_into_100_columns():
    texts = {name: inspect.getdoc(find(name)).splitlines() for name in NAMES}
    wide = [
        f"{name}: {line}" for name, lines in texts.items() for line in lines if len(line) > 92
    ]  # `help` indents by 8
    assert wide == []
    _, _, text = pydoc.plaintext.document(plait.fit).partition("\n")  # below the signature, which has all types
    assert max(map(len, text.splitlines())) <= 100
