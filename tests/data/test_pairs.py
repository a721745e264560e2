"""Factors over pairs: which pairs have rows of their own, and settings of such factors."""

import re

import numpy as np
import polars as pl
import pytest

import plait
import plait.fitting.validation
from plait.data.binding.bind import bind
from plait.data.observation.pairs import Pairs, count_joined
from plait.errors import ParameterError
from plait.fitting.prepare import pairs_of
from tests.support.pair_factors import PAIRS, draw, fit_of, remembered

pytestmark = pytest.mark.usefixtures("sparse")


@pytest.mark.parametrize("way", ["all", "listed", "missing_cells"])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_the_sorted_links_of_all_relations(name, way):
    model, data, X, M = draw(name, way)
    for factor, pairs in pairs_of(data, model.factors).items():
        np.testing.assert_array_equal(pairs.coords, np.argwhere(remembered(model, X, M, factor)))
        assert pairs.rows == len(pairs) + pairs.sizes[0]
        assert pairs.weights.sum() == np.prod(pairs.sizes)


def test_few_pairs_are_an_array(tuning):
    model, data, *_ = draw("memory")
    tuning(max_dense_pairs=7 * 6)
    assert pairs_of(data, model.factors) == {}
    tuning(max_dense_pairs=7 * 6 - 1)
    assert list(pairs_of(data, model.factors)) == ["M"]


def random_pairs(rng, sizes, count):
    coords = np.unique(np.stack([rng.integers(0, size, count) for size in sizes], axis=1), axis=0).astype(np.uint32)
    names = tuple("uvw"[: len(sizes)])
    return Pairs((*names, "z"), names, tuple(sizes), coords)


def test_a_pair_has_its_own_row_or_that_of_its_first_entity():
    pairs = random_pairs(np.random.default_rng(0), (9, 7, 3), 40)
    own = {tuple(pair): n for n, pair in enumerate(pairs.coords.tolist())}
    cells = np.argwhere(np.ones(pairs.sizes))
    wanted = [own.get(tuple(cell), len(own) + cell[0]) for cell in cells.tolist()]
    np.testing.assert_array_equal(pairs.find(list(cells.T)), wanted)
    np.testing.assert_array_equal(pairs.others, [21 - sum(pair[0] == n for pair in own) for n in range(9)])


def test_no_pair_at_all_leaves_the_shared_rows():
    pairs = Pairs(("u", "v"), ("u", "v"), (4, 3), np.zeros((0, 2), np.uint32))
    np.testing.assert_array_equal(pairs.find([np.array([0, 3]), np.array([2, 0])]), [0, 3])
    assert pairs.others.tolist() == [3.0] * 4


@pytest.mark.parametrize("common", [[], [(1, 0)], [(0, 0)], [(0, 1), (1, 0)]])
def test_the_size_of_a_join(common):
    rng = np.random.default_rng(len(common))
    first, second = random_pairs(rng, (6, 6), 20), random_pairs(rng, (6, 6), 15)
    alike = [all(a[p] == b[q] for p, q in common) for a in first.coords.tolist() for b in second.coords.tolist()]
    assert count_joined(first, second, common) == sum(alike)


def test_a_join_larger_than_memory_is_refused(tuning):
    model, data, *_ = draw("two")
    pairs = pairs_of(data, model.factors)
    count = count_joined(pairs["M"], pairs["N"], [(1, 0)])
    tuning(memory_bytes=count * 52.0 - 1)
    with pytest.raises(
        ParameterError, match=rf"X: M\[i, j, z\] and N\[j, k, y\] .* with {count:,} combinations of i, j, k"
    ):
        fit_of(model, data)
    tuning(memory_bytes=count * 52.0)  # enough for the join
    with pytest.raises(ParameterError, match="factor M is too large"):
        fit_of(model, data)


# --- settings of such a factor


@pytest.mark.parametrize(
    "adapt_prior", ["entity", "rank-one", ("i",), {"M": ("i", "z")}, {"M": "entity", "A": "factor"}]
)
def test_a_prior_per_entity_of_pairs_is_refused_with_a_hint_that_works(adapt_prior):
    model, data, *_ = draw("memory")
    with pytest.raises(ParameterError, match="factor M, which is a factor over pairs") as error:
        fit_of(model, data, adapt_prior=adapt_prior)
    hint = eval(re.search(r"`adapt_prior=(\{.*\})`\.", str(error.value)).group(1))
    assert fit_of(model, data, adapt_prior=hint, max_iter=1).settings["adapt_prior"]["M"] == "factor"


@pytest.mark.parametrize("adapt_prior", ["auto", "factor", "component", ("r",), ("z",), {"M": ("z",)}, {"M": None}])
def test_other_ways_to_adapt_work_for_pairs(adapt_prior):
    model, data, *_ = draw("memory")
    assert np.isfinite(fit_of(model, data, adapt_prior=adapt_prior, max_iter=12).objective)


def test_a_prior_is_one_for_all_pairs():
    model, data, *_ = draw("memory")
    for shape in ((7, 6, 2), (7, 1, 1), (6, 1), (1, 1, 1, 2)):
        with pytest.raises(
            ParameterError, match=r"`prior` of M: mean has shape .* M\[i, j, z\] is a factor over pairs"
        ):
            fit_of(model, data, prior={"M": plait.Gamma(0.5, np.ones(shape))})
    fits = [fit_of(model, data, prior={"M": plait.Gamma(0.5, np.reshape([1.0, 2.0], s))}) for s in ((2,), (1, 1, 2))]
    assert fits[0].objective == fits[1].objective
    np.testing.assert_array_equal(fits[0].prior["M"].mean, [[[1.0, 2.0]]])
    with pytest.raises(ParameterError, match="does not broadcast"):
        fit_of(model, data, prior={"M": plait.Gamma(0.5, np.ones(3))})


def test_init_of_pairs_is_no_array():
    model, data, *_ = draw("memory")
    with pytest.raises(
        ParameterError, match=r"`init` cannot contain an array for M, which is a factor over pairs.*\n.*`init=fit`"
    ):
        fit_of(model, data, init={"M": np.ones((7, 6, 2))})


def test_more_pairs_than_numbers_are_refused():
    names = [f"x{n}" for n in range(7)]
    table = pl.DataFrame({name: [0] for name in names})
    text = f"X[{','.join(names)}] = M[{','.join(names)}]"
    labels = {name: range(1000) for name in names}
    data = bind(plait.Model(text), {"X": table}, labels)
    with pytest.raises(plait.errors.DataError, match="which is too many"):
        pairs_of(data, ["M"])
