"""`likelihood="auto"`: chosen from the values when data are bound or packed, and kept from then on."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.data.dispersion import likelihood_of

MATRIX = "X[i, j] = A[i, r] B[j, r]"
SYMMETRIC = "X[i, j] = A[i, r] A[j, r]; j: i"
PAIRS = "X[i, j] = V[i, j] A[i, r] B[j, r]"
RNG = np.random.default_rng(0)
LINKS = (RNG.random((60, 50)) < 0.1).astype(float)
COUNTS = RNG.poisson(0.3, (60, 50)).astype(float)
BURSTS = np.where(RNG.random((60, 50)) < 0.1, np.floor(RNG.lognormal(4.0, 2.5, (60, 50))), 0.0)
QUICK = {"rank": 2, "seed": 0, "max_iter": 5, "warmup": 0, "progress": False}


def as_table(X):
    cells = np.argwhere(X > 0)
    return pl.DataFrame({"i": cells[:, 0], "j": cells[:, 1], "value": X[X > 0]})


def bound(data, text=MATRIX):
    return plait.Model(text).bind({"X": data}).relations["X"]


CHOICES = {
    "links": (LINKS, MATRIX, "bernoulli"),
    "true and false": (LINKS > 0, MATRIX, "bernoulli"),
    "links without a value": (as_table(LINKS).drop("value"), MATRIX, "bernoulli"),
    "rows that add up": (
        plait.Relation(pl.concat([as_table(LINKS)] * 2).drop("value"), duplicates="sum"),
        MATRIX,
        "poisson",
    ),
    "counts": (COUNTS, MATRIX, "poisson"),
    "no links": (np.zeros((3, 4)), MATRIX, "poisson"),
    "uneven counts": (BURSTS, MATRIX, "negbin"),
    "few uneven counts": (np.array([[900.0, 0.0], [0.0, 1.0]]), MATRIX, "poisson"),
    "uneven counts, each pair with a factor": (BURSTS, PAIRS, "poisson"),
    "amounts": (COUNTS * 1.5, MATRIX, "tweedie"),
    "a large amount that has no weight": (
        plait.Relation(as_table(LINKS).with_columns(value=pl.Series([2.5] + [1.0] * int(LINKS.sum() - 1)),
                                                    w=pl.Series([0.0] + [1.0] * int(LINKS.sum() - 1))), weight="w"),
        MATRIX,
        "bernoulli",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_values_decide(name):
    data, text, expected = CHOICES[name]
    relation = bound(data, text)
    assert relation.likelihood == expected
    assert f"likelihood      {expected} (auto: " in str(relation)


def test_a_likelihood_that_is_named_stays():
    relation = bound(plait.Relation(LINKS, likelihood="poisson"))
    assert (relation.likelihood, relation.likelihood_by) == ("poisson", "")
    assert "likelihood      poisson\n" in str(relation)


def test_uneven_counts_need_no_warning_when_nobody_named_poisson(recwarn):
    bound(BURSTS)
    assert not recwarn.list


def test_every_relation_has_its_own_and_print_shows_why():
    text = "X[i, j] = A[i, r] B[j, r]\nY[i, k] = A[i, r] C[k, r]"
    fit = plait.fit(text, {"X": LINKS, "Y": COUNTS}, **QUICK)
    assert fit.likelihood == {"X": "bernoulli", "Y": "poisson"}
    assert str(fit).endswith("Likelihood: X bernoulli (all values are 0 or 1), Y poisson (counts).")


WAYS = {
    "all": {},
    "zeros weigh less": {"observed": 0.5},
    "listed": {"observed": "listed"},
    "own weights": {"weight": "w"},
    "a weight": {"weight": 0.25},
    "hidden cells": {"hidden": pl.DataFrame({"i": [0, 1], "j": [0, 1]})},
}


@pytest.mark.quick(way=["all", "own weights"])
@pytest.mark.filterwarnings("ignore::plait.errors.NoZerosWarning")
@pytest.mark.parametrize("values", [LINKS, COUNTS, BURSTS, COUNTS * 1.5], ids=["links", "counts", "bursts", "amounts"])
@pytest.mark.parametrize("way", WAYS)
def test_packed_data_have_the_likelihood_of_data_in_memory(way, values, tmp_path):
    table = as_table(values).with_columns(w=pl.Series(np.linspace(0.5, 2.0, int((values > 0).sum()))))
    relation = plait.Relation(table if way == "own weights" else table.drop("w"), **WAYS[way])
    packed = plait.pack(MATRIX, {"X": relation}, tmp_path / "auto", progress=False).relations["X"]
    here = bound(relation)
    assert (packed.likelihood, packed.likelihood_by) == (here.likelihood, here.likelihood_by)
    named = plait.Relation(relation.data, likelihood=here.likelihood, **WAYS[way])
    same = plait.pack(MATRIX, {"X": named}, tmp_path / "named", progress=False).relations["X"]
    assert same.sums == packed.sums


@pytest.mark.quick(way=["hidden cells", "own weights"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", [MATRIX, SYMMETRIC])
def test_packing_measures_the_dispersion_of_data_in_memory(way, text, tmp_path, monkeypatch):
    """The excess itself, not only on which side of the threshold it is."""
    from plait.data import dispersion
    from plait.data.outofcore import pack_relation

    found = []

    def excess(*arguments):
        found.append(dispersion.excess(*arguments))
        return found[-1]

    monkeypatch.setattr(pack_relation, "excess", excess)
    square = np.triu(BURSTS[:50], 1) if text == SYMMETRIC else BURSTS
    table = as_table(square).with_columns(w=pl.Series(np.linspace(0.5, 2.0, int((square > 0).sum()))))
    relation = plait.Relation(table if way == "own weights" else table.drop("w"), **WAYS[way])
    plait.pack(text, {"X": relation}, tmp_path / "blocks", progress=False)
    here = bound(relation, text)
    links = dispersion.LinkArrays(here.cells, here.values, here.cell_weights)
    exposures = [dispersion.along(here.weights, (index,)) for index in here.indices]
    expected = dispersion.excess(links, here.shape, here.groups, exposures, dispersion._marginals(here.links))
    assert found == [pytest.approx(expected, rel=1e-9)]


def test_a_split_keeps_the_likelihood_of_all_data():
    X = LINKS.copy()
    X[3, 4] = 7.0  # the only value above 1
    split = plait.train_test_split({"X": as_table(X)}, "X", by=("index", "i"), fraction=0.5, seed=3, model=MATRIX)
    assert split.test.filter(pl.col("value") > 1).height == 1
    assert plait.Model(MATRIX).bind(split.train).relations["X"].likelihood == "poisson"
    assert "(counts)" in str(plait.fit(MATRIX, split.train, **QUICK))


def test_a_split_without_a_model_leaves_counts_to_the_fit():
    split = plait.train_test_split(as_table(BURSTS), by="links", fraction=0.1, seed=0)
    assert bound(split.train).likelihood == "negbin"
    assert plait.train_test_split(as_table(LINKS), by="links", fraction=0.1, seed=0).train.likelihood == "bernoulli"


def test_new_data_have_the_likelihood_of_the_fit():
    fit = plait.fit(MATRIX, {"X": as_table(COUNTS)}, **QUICK)
    rows = pl.DataFrame({"i": [100, 100], "j": [0, 1]})  # alone they would be links
    for grown in (fit.fold_in({"X": rows}), fit.update({"X": rows})):
        assert grown.likelihood["X"] == "poisson"
        assert "poisson (counts)" in str(grown)


def test_a_saved_fit_says_why(tmp_path):
    plait.fit(MATRIX, {"X": BURSTS}, **QUICK).save(tmp_path / "run")
    fit = plait.load(tmp_path / "run")
    assert fit.settings["likelihood_by"] == {"X": "counts that are larger or more uneven than Poisson counts"}
    assert "Likelihood: negbin (" in str(fit)


def test_a_run_goes_on_with_the_likelihood_that_it_began_with(tmp_path):
    """Another version may choose otherwise."""
    begun = plait.Relation(LINKS, likelihood="poisson")
    plait.fit(MATRIX, {"X": begun}, checkpoint=tmp_path / "run", **QUICK)
    longer = plait.fit(MATRIX, {"X": LINKS}, init=tmp_path / "run", **QUICK | {"max_iter": 8, "warmup": None})
    at_once = plait.fit(MATRIX, {"X": begun}, **QUICK | {"max_iter": 8})
    assert longer.likelihood["X"] == "poisson"
    assert longer.objective == at_once.objective


@pytest.mark.thorough
def test_a_grid_search_keeps_it_for_all_fits():
    found = plait.grid_search(MATRIX, {"X": LINKS}, rank=[1, 2], seed=0, max_iter=5, progress=False)
    assert found.fit.likelihood["X"] == "bernoulli"


@pytest.mark.parametrize("most", [0.0, 1.0, 5.0])
def test_values_that_are_not_whole_are_amounts_unless_there_is_no_link(most):
    equation = plait.Model(MATRIX).equation("X")
    assert likelihood_of(most, False, equation, lambda: True)[0] == ("tweedie" if most else "poisson")


def test_auto_is_a_word_of_data_only():
    with pytest.raises(plait.errors.ParameterError, match='"auto" is for data'):
        plait.likelihood.as_likelihood("auto")
