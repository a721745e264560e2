"""Updates after every block of links: the law of the oracle, a bound that rises, the same bits wherever they are."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.execute import Reference, Threads
from plait.infer import accelerate, cutting
from plait.infer.blocks import Blocks
from plait.infer.problem import Problem
from tests import oracle
from tests.cases import assert_same, bits, make, starts, state_of
from tests.finely import cut_finely
from tests.observed import WAYS

# Of a few listed cells all may be links.
pytestmark = pytest.mark.filterwarnings("ignore::plait.NoZerosWarning")

CP3 = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
MATRIX = "X[i,j] = A[i,r] B[j,r]"
CHOSEN = (
    "matrix", "cp3", "cp3_mixed_order", "tucker", "train", "bias", "two_visible", "disconnected_vector",
    "coupled_paper", "coupled_tucker", "friends_two_names", "pairwise", "shared_factor", "given_in_terms",
    "symmetric", "rescal", "symmetric_coupled",
)  # fmt: skip


@pytest.fixture(autouse=True)
def finely(monkeypatch):
    """Blocks of a few links, however little they pay."""
    cut_finely(monkeypatch, 6)
    for word, value in {"LEAVES": 1, "SHARE": 1e9, "ROOM": 1e9, "MOST": 5}.items():
        monkeypatch.setattr(cutting, word, value)


@pytest.fixture
def seen(monkeypatch):
    """The blocks of every problem, and the bound after each visit, computed afresh."""
    made, bounds, begin, visited = [], [], Blocks.__init__, Blocks.visited

    def kept(self, problem, cuts):
        begin(self, problem, cuts)
        made.append(self)

    def look(self):
        problem = self.problem
        rates, divergences = list(problem.rates), dict(problem.divergences)
        problem.measure()
        bounds.append(problem.bound(self.counted()))
        problem.rates, problem.divergences = rates, divergences
        visited(self)

    monkeypatch.setattr(Blocks, "__init__", kept)
    monkeypatch.setattr(Blocks, "visited", look)
    return made, bounds


def counts(seed=0, sizes=(30, 25, 20), rank=5):
    rng = np.random.default_rng(seed)
    letters = "ijk"[: len(sizes)]
    text = ",".join(f"{letter}r" for letter in letters) + f"->{letters}"
    return rng.poisson(0.3 * np.einsum(text, *(rng.gamma(0.5, 1.0, (n, rank)) for n in sizes))).astype(float)


EVERY = pytest.mark.parametrize("name", CHOSEN)


# --- the law


@pytest.mark.parametrize("method", ["em", "map", "vb"])
@EVERY
def test_visits_are_those_of_the_oracle(name, method, seen):
    number = CHOSEN.index(name)
    way, likelihood = list(WAYS)[number % len(WAYS)], ("poisson", "bernoulli")[number % 2]
    case = make(name, way, likelihood)
    state = case.start(3, method)
    settings = {"adapt": None} if method == "vb" else {}
    fit = case.fit(method, init=starts(state), order="blocks", sweeps=3, **settings)
    (made,), bounds = seen
    cuts = {
        relation: (own.counts.trees[0].order[0], own.cut.own, [block.rows for block in own.cut.blocks])
        for relation, own in made.relations.items()
    }
    assert any(len(rows) > 1 for _, _, rows in cuts.values())
    prior = {name: (p.concentration, p.mean) for name, p in fit.prior.items()}
    problem = oracle.Problem(**vars(case.problem) | {"prior": prior or case.problem.prior})
    visiting, expected = oracle.Visiting(problem, state, method, cuts), []
    begin, slack = visiting.objective(), case.slack(fit)
    assert fit.history[0].bound == pytest.approx(begin, abs=1e-11 * slack + 1e-11)
    for record in fit.history[1:]:
        for _ in visiting.sweep():
            expected.append(visiting.objective())
        assert record.bound == pytest.approx(expected[-1], abs=1e-10 * slack + 1e-10)
    assert bounds == pytest.approx(expected, abs=1e-10 * slack + 1e-10)
    assert np.diff([begin, *bounds]).min() >= -1e-9 * slack
    found = state_of(fit, problem.free)
    for factor, want in visiting.state.items():
        np.testing.assert_allclose(found[factor], want, rtol=1e-8, atol=1e-300, err_msg=factor)


@pytest.mark.parametrize("likelihood", ["bernoulli", "negbin", "amounts"])
def test_every_visit_raises_the_bound_with_all_that_a_fit_does(likelihood, seen):
    X = counts(rank=3)
    X = (X > 0) * 1.0 if likelihood == "bernoulli" else X
    fit = plait.fit(
        CP3, {"X": plait.Relation(X, likelihood=likelihood)}, rank=4, seed=0, sweeps=45, tol=0.0, order="blocks",
        adapt="component",
    )  # fmt: skip
    (em, vb, *more), bounds = seen
    if likelihood != "amounts":
        assert not more  # one for the warm-up and one for VB
    own = np.array([record.bound for record in fit.history if not record.warm_up])
    assert np.diff(own).min() > 0
    assert len(bounds) == 95 * len(vb.relations["X"].cut.blocks)
    if likelihood == "bernoulli":  # else what blocks keep is that of numbers of the likelihood that are gone
        begins_vb = 50 * len(em.relations["X"].cut.blocks)
        assert np.delete(np.diff(bounds), begins_vb - 1).min() > -1e-9 * abs(fit.bound)


def test_bound_is_below_that_of_fresh_counts_and_meets_it_at_the_end():
    settings = {"rank": 2, "seed": 0, "tol": 0.0, "adapt": None, "order": "blocks"}
    data = {"X": counts(sizes=(12, 9), rank=2)}
    early, late = (plait.fit(MATRIX, data, sweeps=n, **settings) for n in (3, 3000))
    fresh = [plait.fit(MATRIX, data, rank=2, init=fit, sweeps=0, adapt=None).bound for fit in (early, late)]
    assert early.bound < fresh[0]
    assert late.bound == pytest.approx(fresh[1], rel=1e-12)


@pytest.mark.parametrize("text", [MATRIX, CP3])
def test_same_fixed_point_as_one_pass(text):
    X = counts(sizes=(12, 9, 8)[: 2 if text == MATRIX else 3], rank=1)
    fits = [
        plait.fit(text, {"X": X}, rank=1, seed=3, sweeps=3000, tol=0.0, adapt=None, order=order)
        for order in ("one-pass", "blocks")
    ]
    assert fits[0].bound == pytest.approx(fits[1].bound, rel=1e-12)
    for name, factor in fits[0].factors.items():
        np.testing.assert_allclose(fits[1].factors[name].mean, factor.mean, rtol=1e-6)


# --- leaps


@pytest.mark.parametrize("method", ["em", "map", "vb"])
@pytest.mark.parametrize("name", ["matrix", "cp3", "coupled_paper", "symmetric_coupled", "pairwise"])
def test_bound_rises_with_leaps_and_is_that_of_the_state(name, method, monkeypatch):
    monkeypatch.setattr(accelerate, "CALM", np.inf)
    case = make(name, "missing_cells", "bernoulli")
    fit = case.fit(method, sweeps=60, order="blocks", accelerate=True)
    falls = -np.diff([record.bound for record in fit.history])
    assert falls.max() <= 1e-9 * case.slack(fit)
    fresh = case.objective(fit)  # with q(S) that is as new as all else
    assert fit.bound <= fresh + 1e-10 * case.slack(fit)
    assert fit.bound == pytest.approx(fresh, rel=0.05)


def test_leaps_save_sweeps_and_are_refused_where_they_go_too_far(monkeypatch):
    seen, stands = [], accelerate.Momentum.stands

    def watched(self, problem, bound, last):
        leapt, found = self.leapt, stands(self, problem, bound, last)
        seen.extend([found] if leapt else [])
        return found

    monkeypatch.setattr(accelerate.Momentum, "stands", watched)
    settings = {"rank": 5, "seed": 1, "sweeps": 2000, "tol": 1e-8, "order": "blocks"}
    fast, slow = (plait.fit(CP3, {"X": counts(1)}, accelerate=on, **settings) for on in (True, False))
    assert fast.stop.reason == "converged"
    assert fast.bound >= slow.bound - 1e-4 * abs(slow.bound)
    assert fast.history[-1].sweep < 0.8 * slow.history[-1].sweep
    assert any(seen)
    monkeypatch.setattr(accelerate, "DELAY", -0.4)
    monkeypatch.setattr(accelerate, "CALM", np.inf)
    seen.clear()
    far = plait.fit(CP3, {"X": counts(1)}, accelerate=True, **settings | {"sweeps": 60})
    assert not all(seen)
    assert np.diff([record.bound for record in far.history if not record.warm_up]).min() > -1e-9 * abs(far.bound)


def test_fit_cut_between_leaps_over_blocks_ends_bit_equal(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerate, "CALM", np.inf)
    case = make("coupled_paper", "missing_cells")
    settings = {"order": "blocks", "accelerate": True, "sweeps": 40}
    whole = case.fit(**settings)
    for cut in (19, 20, 21, 22, 30):
        run = tmp_path / str(cut)
        case.fit(checkpoint=run, progress=lambda record, cut=cut: record.sweep < cut, **settings)
        assert bits(case.fit(init=run, **settings)) == bits(whole)


# --- how it is cut


def test_blocks_have_rows_of_their_own_and_all_of_them():
    case = make("cp3")
    made = Blocks.of(_problem(case))
    cut = made.relations["X"].cut
    assert len(cut.blocks) > 2
    assert cut.blocks[0].rows[0] == 0
    assert all(before.rows[1] == after.rows[0] for before, after in zip(cut.blocks, cut.blocks[1:]))
    assert all(before.hi == after.lo for before, after in zip(cut.blocks, cut.blocks[1:]))
    assert sum(block.entries for block in cut.blocks) == len(made.relations["X"].counts.trees[0])


def test_a_giant_root_row_stays_in_one_block():
    wide = np.zeros((40, 30))
    wide[7] = 1.0
    wide[np.arange(40), np.arange(40) % 30] = 1.0
    made = Blocks.of(_problem_of(MATRIX, wide))
    leaves = made.relations["X"].counts.trees[0].leaves
    parts = [n for n, leaf in enumerate(leaves) if leaf.inside]
    assert len(parts) > 1
    assert sum(block.lo <= parts[0] < block.hi for block in made.relations["X"].cut.blocks) == 1
    (block,) = [b for b in made.relations["X"].cut.blocks if b.lo <= parts[0] < b.hi]
    assert block.hi > parts[-1]


def test_one_block_is_the_order_of_one_pass(monkeypatch):
    monkeypatch.setattr(cutting, "MOST", 1)
    case = make("coupled_paper", "missing_cells")
    assert bits(case.fit(sweeps=15, order="blocks")) == bits(case.fit(sweeps=15))
    assert not case.fit(sweeps=1, order="blocks").state.visits


def test_listed_cells_and_little_data_are_not_cut(monkeypatch):
    monkeypatch.undo()
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, 60, (60_000, 3)), axis=0)
    table = pl.DataFrame({**dict(zip("ijk", cells.T)), "value": np.ones(len(cells))})
    assert Blocks.of(_problem_of(CP3, plait.Relation(table, observed="listed"))) is None
    assert Blocks.of(_problem_of(CP3, counts())) is None


def test_sums_elsewhere_are_not_cut():
    class Elsewhere:
        threads, sum, rows = 1, Threads(1).sum, Threads(1).rows

    case = make("cp3")
    assert not case.fit(sweeps=2, order="blocks", executor=Elsewhere()).state.visits
    assert case.fit(sweeps=2, order="blocks", executor=Reference()).state.visits


def test_kernels_and_dense_sums_agree():
    case = make("coupled_paper", "missing_cells", "bernoulli")
    fits = [case.fit(sweeps=8, order="blocks", executor=executor) for executor in (Threads(1), Reference())]
    assert_same(*fits, rtol=1e-8)


# --- the same bits


@pytest.mark.parametrize("name", ["cp3", "coupled_paper", "symmetric_coupled", "pairwise"])
@pytest.mark.parametrize("method", ["em", "vb"])
def test_same_bits_on_any_number_of_threads(name, method):
    case = make(name, "missing_cells", "bernoulli")
    fits = [bits(case.fit(method, sweeps=12, order="blocks", threads=n)) for n in (1, 2, 5)]
    assert fits[0] == fits[1] == fits[2]


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_same_bits_from_blocks_on_disk(likelihood, tmp_path):
    X = np.minimum(counts(), 1.0 if likelihood == "bernoulli" else 9.0)
    cells = np.argwhere(X > 0)
    table = pl.DataFrame({**dict(zip("ijk", cells.T)), "value": X[X > 0]})
    relation = plait.Relation(table, likelihood=likelihood)
    packed = plait.pack(CP3, {"X": relation}, tmp_path / "blocks")
    settings = {"rank": 3, "seed": 0, "sweeps": 40, "tol": 0.0, "order": "blocks"}
    fits = [plait.fit(CP3, data, **settings) for data in ({"X": relation}, packed)]
    assert len(fits[0].state.visits["X"].kept) > 2
    assert bits(fits[0]) == bits(fits[1])


@pytest.mark.parametrize("name", ["cp3", "coupled_paper", "symmetric_coupled", "pairwise", "two_visible"])
@pytest.mark.parametrize("method", ["em", "map", "vb"])
def test_fit_cut_between_sweeps_ends_bit_equal(name, method, tmp_path):
    case = make(name, "missing_cells", "bernoulli")
    settings = {"order": "blocks"} | ({"start": "em", "adapt": "component"} if method == "vb" else {})
    whole = case.fit(method, sweeps=33, **settings)
    assert whole.state.visits
    for cut in (-20, 0, 31) if method == "vb" else (0, 12):
        run = tmp_path / str(cut)
        stop = lambda record, cut=cut: record.sweep < cut  # noqa: E731
        case.fit(method, sweeps=33, checkpoint=run, progress=stop, **settings)
        on = case.fit(method, sweeps=33, init=run, **settings | ({"start": None} if method == "vb" else {}))
        assert bits(on) == bits(whole)


def test_run_of_another_order_goes_on_in_blocks(tmp_path):
    case = make("cp3")
    case.fit(sweeps=5, checkpoint=tmp_path / "run")
    on = case.fit(sweeps=15, init=tmp_path / "run", order="blocks")
    assert np.diff([record.bound for record in on.history]).min() > 0
    assert on.state.visits
    case.fit(sweeps=5, checkpoint=tmp_path / "other", order="blocks")
    assert not case.fit(sweeps=15, init=tmp_path / "other").state.visits


# --- with all else


def test_components_are_pruned_and_the_bound_rises():
    X = counts(sizes=(40, 30, 20), rank=2)
    fit = plait.fit(CP3, {"X": X}, rank=6, seed=1, sweeps=300, tol=0.0, prune=True, adapt="component", order="blocks")
    assert fit.rank["r"] < 6
    assert np.diff([record.bound for record in fit.history]).min() > -1e-9 * abs(fit.bound)


def test_floats_come_to_the_same():
    X = counts()
    settings = {"rank": 4, "seed": 0, "sweeps": 60, "tol": 0.0, "order": "blocks"}
    double, single = (plait.fit(CP3, {"X": X}, dtype=dtype, **settings) for dtype in ("float64", "float32"))
    assert single.bound == pytest.approx(double.bound, rel=1e-4)


def test_members_side_by_side_are_those_of_single_fits():
    X = counts()
    settings = {"rank": 3, "sweeps": 20, "tol": 0.0, "order": "blocks"}
    several = plait.fit(CP3, {"X": X}, seed=4, restarts=3, threads=2, **settings)
    alone = plait.fit(CP3, {"X": X}, seed=4, threads=2, **settings)
    assert several.members[0].bound == alone.bound


def test_evidence_that_joins_late_waits_in_blocks_too():
    rng = np.random.default_rng(0)
    X, N = counts(sizes=(20, 15), rank=2), rng.random((20, 15))
    fit = plait.fit(
        f"{MATRIX} + w[] N[i,j]", {"X": X}, rank=2, seed=0, sweeps=60, tol=0.0, order="blocks", fixed={"N": N}
    )
    own = np.array([record.bound for record in fit.history if not record.warm_up])
    falls = -np.diff(own)
    assert np.delete(falls, 30).max() <= 1e-9 * abs(fit.bound)


def _problem(case) -> Problem:
    from plait.fitting.begin import prepare
    from plait.fitting.options import Options

    return prepare(case.model, case.data, Options(rank=case.rank, seed=0, start="random")).problem


def _problem_of(text, X) -> Problem:
    from plait.fitting.begin import prepare
    from plait.fitting.options import Options

    return prepare(text, {"X": X}, Options(rank=3, seed=0), warn=False).problem
