"""The search behind `fit.top`: ties, known links, what it looks at and what it keeps in memory."""

import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plait
from plait.analysis.topk import branch_and_bound
from tests.support.every_cell import check
from tests.support.searching import made, watched
from tests.support.tuning import tuned


@st.composite
def factors(draw):
    """Rows of small whole numbers (many ties and zeros) or of wild floats, some repeated."""
    rank, order = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    entry = draw(st.sampled_from([st.integers(0, 2).map(float), st.floats(0, 1e6), st.floats(1e-200, 1e-60)]))
    means = []
    for _ in range(order):
        rows = draw(st.lists(st.lists(entry, min_size=rank, max_size=rank), min_size=1, max_size=5))
        repeats = draw(st.lists(st.sampled_from(range(len(rows))), max_size=4))
        means.append(rows + [rows[n] for n in repeats])
    return means


@settings(max_examples=60, deadline=None)
@given(factors(), st.integers(0, 12), st.randoms(use_true_random=False))
def test_random_rows_with_ties_and_known_links(means, k, random):
    known = {tuple(random.randrange(len(mean)) for mean in means) for _ in range(random.randrange(8))}
    fit = made(means, known)
    sizes = {"contracted_cells": (0, 1 << 20), "box_cells": (1, 6), "tree_fan_out": (2, 3)}
    with tuned(**{name: random.choice(some) for name, some in sizes.items()}), pytest.MonkeyPatch().context() as patch:
        if random.random() < 0.3:
            patch.setattr(branch_and_bound, "as_rows", lambda form: None)
        check(fit, "X", k, {})


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 10.0]), st.integers(2, 3))
def test_hundreds_of_rows_with_default_sizes(seed, concentration, order):
    rng = np.random.default_rng(seed)
    means = [rng.gamma(concentration, size=(n, 4)) * rng.lognormal(size=(n, 1)) for n in (90, 61, 40)[:order]]
    check(made(means), "X", 20, {}, known=True)


def test_equal_cells_are_in_the_order_of_their_rows():
    table = made([np.ones((4, 2)), np.ones((3, 2))], known=[(0, 1)]).top("X", 4)
    assert table.select("i", "j").rows() == [(0, 0), (0, 2), (1, 0), (1, 1)]


# --- what it looks at


def test_equal_rows_do_not_slow_the_search():
    fit = made([np.ones((3000, 3)), np.ones((2000, 3)), np.ones((1000, 3))], known=[(0, 0, 0), (0, 0, 2)])
    with watched() as seen:
        table = fit.top("X", 5)
    assert (table["mean"] == 3).all()
    assert seen.cells < 20_000
    assert seen.boxes < 40_000
    assert table.equals(fit.top("X", 5))


def test_certain_links_do_not_slow_the_search():
    with watched() as seen:
        table = made([np.full((400, 2), 30.0), np.full((500, 2), 2.0)], likelihood="bernoulli").top("X", 3)
    assert (table["mean"] == 1).all()
    assert seen.cells < 20_000


def test_most_cells_are_not_scored():
    rng = np.random.default_rng(0)
    A, B, C = means = [rng.gamma(0.3, size=(n, 10)) * rng.lognormal(size=(n, 1)) for n in (2000, 3000, 4000)]
    with watched() as seen:
        table = made(means).top("X", 10)
    assert seen.cells < 100_000  # of 2.4e10
    best = max(float((A[i] * B @ C.T).max()) for i in np.argsort(-A.max(axis=1))[:10])
    assert table["mean"][0] >= best * (1 - 1e-12)


def test_most_cells_of_each_entity_are_not_scored():
    rng = np.random.default_rng(0)
    means = [rng.gamma(0.3, size=(n, 6)) * rng.lognormal(size=(n, 1)) for n in (5, 2000, 3000)]
    with watched() as seen:
        table = made(means).top("X", 3, per="i")
    assert seen.cells < 1_000_000  # of 3e7
    for row in range(5):
        best = np.sort(((means[0][row] * means[1]) @ means[2].T).ravel())[::-1][:3]
        np.testing.assert_allclose(table.filter(pl.col("i") == row)["mean"].to_numpy(), best, rtol=1e-9)


def test_a_closed_diagonal_does_not_slow_the_search():
    # Rows of one component each, alike on both axes: every self-link is more probable than any other link.
    rng = np.random.default_rng(0)
    own = 5 * np.eye(40)[np.arange(2000) % 40] * rng.uniform(0.99, 1.0, (2000, 1)) + rng.gamma(0.3, 0.01, (2000, 40))
    kinds = rng.gamma(0.3, size=(50, 40))
    with watched() as seen:
        table = made([own, kinds, own], zeros={("i", "k"): np.stack([np.arange(2000)] * 2, axis=1)}).top("X", 10)
    assert (table["i"] != table["k"]).all()
    assert seen.cells < 4e6  # of 2e8
    best = -np.inf
    for kind in np.argsort(-kinds.max(axis=1))[:3]:
        rates = (own * kinds[kind]) @ own.T
        np.fill_diagonal(rates, -np.inf)
        best = max(best, rates.max())
    assert table["mean"][0] == pytest.approx(best, rel=1e-9)


def test_closed_slices_are_not_scored():
    rng = np.random.default_rng(0)
    means = [rng.gamma(0.3, size=(n, 4)) for n in (3000, 3000)]
    means[0][:2900] *= 1e6  # structural zeros are more probable than any candidate
    with watched() as seen:
        table = made(means, zeros={("i",): np.arange(2900)[:, None]}).top("X", 5)
    assert table["i"].min() >= 2900
    assert seen.cells < 100_000  # of 9e6
    wanted = np.sort((means[0][2900:] @ means[1].T).ravel())[::-1][:5]
    np.testing.assert_allclose(table["mean"], wanted, rtol=1e-9)


def test_cells_of_exposure_0_are_not_scored():
    V = plait.Exposure(pl.DataFrame({"i": [1, 2], "j": [3, 4], "value": [1.0, 2.0]}), default=0.0)
    fit = plait.fit(
        "X[i, j] = A[i, r] B[j, r] V[i, j]", {"X": pl.DataFrame({"i": [1], "j": [3]})}, rank=2, max_iter=2, seed=0,
        entities={"i": range(2000), "j": range(3000)}, fixed={"V": V},
    )  # fmt: skip
    with watched() as seen:
        assert fit.top("X", 10).select("i", "j").rows() == [(2, 4)]
    assert seen.cells <= 512  # one box: the entries of the table


# --- memory


def peak_of(function):
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_cells():
    # Rows so alike that hardly a bound helps: 4e7 cells are a sweep.
    rng = np.random.default_rng(0)
    fit = made([1 + 0.3 * rng.random((n, 12)) for n in (4000, 10_000)])
    fit.top("X", 10, given={"i": 0})
    assert peak_of(lambda: fit.top("X", 10)) < 40e6


def test_memory_does_not_grow_with_the_entities():
    rng, peaks = np.random.default_rng(0), []
    for count in (3000, 30_000):
        fit = made([rng.gamma(0.3, size=(n, 2)) for n in (count, 2000)])
        fit.top("X", 1, per="i", given={"i": [0, 1]})
        peaks.append(peak_of(lambda: fit.top("X", 1, per="i")))  # noqa: B023
    assert peaks[1] < 1.5 * peaks[0]  # of 10 times as many cells; the answer itself grows
