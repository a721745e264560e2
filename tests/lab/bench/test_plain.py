"""Implementations of the bench are correct: otherwise its figures compare different work."""

import numpy as np
import pytest

from lab.bench import data, plain, yardstick

CASES = {
    "cp3": data.cp3(nonzeros=300, side=12, rank=5),
    "tucker": data.tucker(nonzeros=300, side=12, rank=3),
    "digg": data.digg(rank=4, scale=0.002),
}
LINKS = data.cp3(300, 12, 5, likelihood="bernoulli")


@pytest.fixture(params=["all", "listed", "missing"])
def observed(request):
    return request.param


def seen(case, observed):
    """The case with that much of it observed."""
    hidden = {}
    if observed == "missing":
        for name, cells in case.relations.items():
            drawn = np.random.default_rng(0).integers(
                0, [case.sizes[axis] for axis in cells.axes], (40, len(cells.axes))
            )
            taken = set(map(tuple, cells.index.tolist()))
            hidden[name] = np.array([cell for cell in sorted(set(map(tuple, drawn.tolist()))) if cell not in taken])
    return case.but(observed=observed, hidden=hidden)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_counts_of_every_factor_sum_to_the_data_of_its_relations(case, monkeypatch):
    monkeypatch.setattr(plain, "CHUNK", 64)
    counts, _ = plain.Plain(case, plain.start(case)).counts()
    equations = plain._equations(case.model)
    for factor, n in counts.items():
        expected = sum(case.relations[name].x.sum() for name, factors in equations.items() if factor in factors)
        np.testing.assert_allclose(n.sum(), expected, rtol=1e-12)


@pytest.mark.parametrize("case", [*CASES.values(), LINKS], ids=[*CASES, "links"])
def test_the_elbo_of_the_plain_sweep_rises(case, observed):
    fit = plain.Plain(seen(case, observed), plain.start(case))
    bounds = np.array([fit.sweep() for _ in range(12)])[1:]
    assert np.all(np.diff(bounds) > -1e-9 * np.abs(bounds[1:]))


def test_exposures_are_gradients_of_the_dense_total(observed):
    case = seen(CASES["tucker"], observed)
    factors = plain.start(case)
    cells = case.relations["X"]
    mask = np.ones((12, 12, 12))
    if observed == "listed":
        mask[:] = 0
        mask[tuple(cells.index.T)] = 1
    for index in case.hidden.values():
        mask[tuple(index.T)] = 0
    A, B, C, G = (factors[name] for name in "ABCG")
    expected = {
        "A": np.einsum("ijk,jq,kr,pqr->ip", mask, B, C, G),
        "B": np.einsum("ijk,ip,kr,pqr->jq", mask, A, C, G),
        "C": np.einsum("ijk,ip,jq,pqr->kr", mask, A, B, G),
        "G": np.einsum("ijk,ip,jq,kr->pqr", mask, A, B, C),
    }
    fit = plain.Plain(case, factors)
    for name, value in expected.items():
        (exposure,) = fit.exposure(name)
        np.testing.assert_allclose(np.broadcast_to(exposure, value.shape), value, rtol=1e-10)
    np.testing.assert_allclose(fit.total(), (expected["A"] * A).sum(), rtol=1e-10)


@pytest.mark.parametrize("rank", [5, 8, 20])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_yardstick_counts_equal_the_plain_ones(rank, threads):
    case = data.cp3(nonzeros=400, side=11, rank=rank)
    factors, cells = plain.start(case), case.relations["X"]
    expected, _ = plain.Plain(case, factors).counts()
    run = yardstick.build(cells.index, cells.x, [factors[name] for name in "ABC"], threads)
    for _ in range(2):  # the buffers are cleared between passes
        for name, n in zip("ABC", run()):
            np.testing.assert_allclose(n, expected[name], rtol=1e-10)
