"""`plait.fit`: what it returns, why it stops, how it starts and continues."""

import pickle
import re
import tracemalloc
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from scipy.special import psi

import plait
from plait.inference.loop import _words_left
from plait.inference.state import Record
from tests.support.problems import ADAPT_WARM, assert_same, bits, make

VISITS = pl.DataFrame(
    {
        "user": ["eve", "ann", "bob", "ann", "dan", "bob", "eve"],
        "place": ["zoo", "inn", "inn", "spa", "spa", "zoo", "inn"],
        "value": [3, 1, 2, 5, 1, 1, 2],
    }
)
TEXT = "visits[user,place] = U[user,r] P[r,place]"


@pytest.fixture(scope="module")
def fit():
    return plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=1, max_iter=30, tol=0.0, adapt_prior="component")


# --- what is returned


def test_factors_have_their_axes_as_written():
    case = make("tucker_mixed_order")
    shapes = {"G": (3, 2, 4), "A": (2, 5), "B": (4, 4), "C": (3, 3)}
    for name, factor in case.fit(max_iter=3).factors.items():
        assert factor.indices == case.model.factor(name).indices
        for word in ("mean", "concentration", "scale", "exp_mean_log", "sd"):
            assert getattr(factor, word).shape == shapes[name]
    fit = plait.fit("X[i, j] = A[p, q, i] B[j, p, q]", np.ones((4, 5)), rank={"p": 2, "q": 3}, max_iter=1, warmup=0)
    assert fit.factors["A"].mean.shape == (2, 3, 4)


def test_moments_of_a_posterior_are_those_of_its_gamma(fit):
    for factor in fit.factors.values():
        C, D = factor.concentration, factor.scale
        np.testing.assert_allclose(factor.mean, C * D, rtol=1e-14)
        np.testing.assert_allclose(factor.sd, np.sqrt(C) * D, rtol=1e-14)
        np.testing.assert_allclose(factor.exp_mean_log, np.exp(psi(C) + np.log(D)), rtol=1e-11)


@pytest.mark.parametrize("method", ["em", "map"])
def test_points_have_no_sd(method):
    prior = {} if method == "em" else {"prior": plait.Gamma(1.5, 1.0)}
    fit = plait.fit(TEXT, {"visits": VISITS}, rank=2, method=method, seed=0, max_iter=5, **prior)
    for factor in fit.factors.values():
        assert (factor.sd == 0).all()
        assert (factor.mean == factor.exp_mean_log).all()
    assert set(fit.prior) == (set() if method == "em" else {"U", "P"})


TIES = {None: (1, 1), "factor": (1, 1), "component": (2, 1), "entity": (1, 3), "rank-one": (2, 3), ("place",): (1, 3)}


@pytest.mark.parametrize("adapt_prior", TIES)
def test_priors_broadcast_to_their_factors(adapt_prior):
    fit = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=0, max_iter=12, adapt_prior=adapt_prior, warmup=0)
    for name, prior in fit.prior.items():
        for array in (prior.concentration, prior.mean):
            assert array.ndim == 2
            assert np.broadcast_shapes(array.shape, fit.factors[name].mean.shape) == fit.factors[name].mean.shape
    assert fit.prior["P"].mean.shape == TIES[adapt_prior]


@pytest.mark.parametrize(
    ("text", "ties"),
    [
        ("X[i,j] = A[i,r] B[j,r]", {"A": "factor", "B": "factor"}),
        ("X[i,j] = A[i,r] B[j,r]; Y[i,k] = A[i,r] C[k,r]", {"A": "rank-one", "B": "factor", "C": "factor"}),
        ("X[i,j] = A[i,r] B[j,r] w[r]; Y[i,k] = A[i,r] w[r] C[k,r]",
         {"A": "rank-one", "B": "factor", "w": "factor", "C": "factor"}),
        ("X[i,j] = a[i] B[j,r] D[i,r]; Y[i] = a[i] w[r] v[r]",
         {"a": "factor", "B": "factor", "D": "factor", "w": "factor", "v": "factor"}),
    ],
)  # fmt: skip
def test_coupling_factors_have_rank_one_priors_by_default(text, ties):
    sizes, model = {"i": 6, "j": 5, "k": 4}, plait.Model(text)
    data = {e.relation: np.ones([sizes[index] for index in e.indices]) for e in model.equations}
    fit = plait.fit(model, data, rank=2, seed=0, max_iter=1)
    assert fit.settings["adapt_prior"] == ties
    by_name = plait.fit(model, data, rank=2, seed=0, max_iter=1, adapt_prior=dict.fromkeys(model.factors, "auto"))
    assert by_name.settings["adapt_prior"] == ties


def test_labels_are_in_row_order(fit):
    assert list(fit.entities["user"]) == ["ann", "bob", "dan", "eve"]
    assert list(fit.entities["place"]) == ["inn", "spa", "zoo"]
    declared = plait.fit(TEXT, {"visits": VISITS}, rank=2, entities={"user": ["zed", "eve"]}, max_iter=1)
    assert list(declared.entities["user"]) == ["ann", "bob", "dan", "eve", "zed"]
    assert list(plait.fit("X[i] = A[i,r] w[r]", {"X": np.ones(3)}, rank=1, max_iter=1).entities["i"]) == [0, 1, 2]


def test_history_begins_with_the_start(fit):
    own, warm_up = ([record for record in fit.history if record.warm_up is is_so] for is_so in (False, True))
    assert [record.sweep for record in own] == list(range(31))
    assert [*warm_up, *own] == fit.history
    assert own[-1].objective == fit.objective
    assert own[0].change == warm_up[0].change == np.inf  # what is before is not comparable
    for before, record in [*pairwise(warm_up), *pairwise(own)]:
        assert record.change == pytest.approx((record.objective - before.objective) / max(abs(record.objective), 1.0))
        assert record.seconds > 0
        assert record.rank == {"r": 2}


def test_seeds_repeat_a_fit_also_from_text():
    fits = [plait.fit(m, {"visits": VISITS}, rank=3, seed=7, max_iter=25) for m in (TEXT, plait.Model(TEXT))]
    assert bits(fits[0]) == bits(fits[1])
    assert fits[0].seed == 7
    assert fits[0].model == plait.Model(TEXT)
    drawn = [plait.fit(TEXT, {"visits": VISITS}, rank=3, max_iter=3) for _ in range(2)]
    assert drawn[0].seed != drawn[1].seed
    assert bits(drawn[0]) != bits(drawn[1])
    assert bits(plait.fit(TEXT, {"visits": VISITS}, rank=3, max_iter=3, seed=drawn[0].seed)) == bits(drawn[0])


def test_text_of_a_fit_and_its_parts(fit):
    assert repr(fit).startswith("Fit of visits by vb, rank r=2: ELBO -")
    assert repr(fit.factors["P"]) == "Posterior[r, place] of shape (2, 3)"
    assert repr(plait.Gamma(0.5, 10)) == "Gamma(concentration=0.5, mean=10)"


# --- stopping


@pytest.mark.parametrize(
    ("settings", "reason", "sweep"),
    [
        ({"tol": 1e-4, "max_iter": 500}, "converged", None),
        ({"max_iter": 7}, "max_iter", 7),
        ({"max_iter": 0}, "no sweeps", 0),
        ({"progress": lambda record: record.sweep < 4}, "callback", 4),
        ({"max_iter": 300, "tol": 0, "method": "em"}, "max_iter", 300),
        ({"tol": 0.9, "adapt_prior": None, "warmup": 0}, "converged", 1),  # no adaptation to wait for
    ],
)
def test_every_stop_has_its_reason(settings, reason, sweep):
    fit = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=0, **settings)
    assert fit.stop.reason == reason
    assert fit.converged is (reason == "converged")
    last = fit.history[-1]
    assert sweep is None or last.sweep == sweep
    assert not sweep or str(sweep) in str(fit.stop)
    if reason == "converged":
        assert str(last.sweep) in str(fit.stop)
        tol = settings["tol"]
        assert abs(last.change) < tol
        assert all(abs(record.change) >= tol for record in fit.history[:-1] if record.sweep > ADAPT_WARM + 1)


def test_a_progress_callable_sees_every_record():
    seen = []
    fit = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=0, max_iter=6, progress=lambda record: seen.append(record))
    assert seen == fit.history


def test_the_start_expects_as_much_as_was_observed():
    case = make("coupled_paper", "missing_cells")
    fit = case.fit("em", max_iter=0)
    for relation, indices, occurrences in case.problem.equations:
        factors = [fit.factors[name].mean for name, _ in occurrences]
        text = ",".join("".join(its) for _, its in occurrences) + "->" + "".join(indices)
        M = case.problem.M[relation]
        assert np.sum(M * np.einsum(text, *factors)) == pytest.approx(np.sum(M * case.problem.X[relation]), rel=1e-10)


# --- seeds and starts


@pytest.mark.parametrize("method", ["vb", "em", "map"])
def test_a_fit_continued_is_one_long_fit(method):
    case = make("coupled_tucker", "missing_cells")
    settings = {"adapt_prior": None} if method == "vb" else {}
    short = case.fit(method, max_iter=8, **settings)
    assert_same(case.fit(method, max_iter=20, **settings), case.fit(method, max_iter=12, init=short, **settings))


@pytest.mark.parametrize("adapt_prior", ["factor", "component", "entity", "rank-one"])
def test_a_continued_fit_keeps_its_priors(adapt_prior):
    case = make("cp3", "missing_cells")
    short = case.fit(max_iter=20, adapt_prior=adapt_prior)
    more = case.fit(max_iter=15, adapt_prior=adapt_prior, init=short)
    assert more.history[0].objective == pytest.approx(short.objective, rel=1e-11)
    assert np.diff([record.objective for record in more.history]).min() >= -1e-9 * case.slack(more)


def test_a_continued_fit_matches_entities_by_name(fit):
    more = pl.DataFrame({"user": ["aaa", "ann"], "place": ["spa", "new"], "value": [1, 1]})
    data = {"visits": pl.concat([VISITS, more.cast(VISITS.schema)])}
    new = plait.fit(TEXT, data, rank=2, init=fit, max_iter=0)
    assert list(new.entities["user"]) == ["aaa", "ann", "bob", "dan", "eve"]
    np.testing.assert_allclose(new.factors["U"].concentration[1:], fit.factors["U"].concentration)
    np.testing.assert_allclose(new.factors["U"].concentration[0], fit.factors["U"].concentration.mean(axis=0))
    assert list(new.entities["place"]) == ["inn", "new", "spa", "zoo"]
    np.testing.assert_allclose(new.factors["P"].scale[:, [0, 2, 3]], fit.factors["P"].scale)
    assert np.isfinite(plait.fit(TEXT, data, rank=2, init=fit, max_iter=20).objective)


@pytest.mark.parametrize(("first", "second"), [("em", "vb"), ("vb", "em"), ("vb", "map"), ("map", "vb")])
def test_a_fit_may_start_from_another_method(first, second):
    case = make("cp3")
    known = case.fit(first, max_iter=10)
    start = case.fit(second, max_iter=0, init=known, **({"adapt_prior": None} if second == "vb" else {}))
    for name in "ABC":
        np.testing.assert_allclose(start.factors[name].mean, np.maximum(known.factors[name].mean, 1e-290), rtol=1e-14)


def test_init_arrays_are_the_start_and_stay_unchanged():
    U = np.full((4, 2), 0.5)
    fit = plait.fit(TEXT, {"visits": VISITS}, rank=2, init={"U": U}, max_iter=0, seed=3, adapt_prior=None)
    np.testing.assert_allclose(fit.factors["U"].mean, U, rtol=1e-14)
    total = (fit.factors["U"].mean @ fit.factors["P"].mean).sum()
    assert total == pytest.approx(VISITS["value"].sum(), rel=1e-12)  # others are random and scaled
    first = plait.fit(TEXT, {"visits": VISITS}, rank=2, init={"U": U}, max_iter=5, seed=3, method="em")
    assert (U == 0.5).all()
    before = bits(first)
    plait.fit(TEXT, {"visits": VISITS}, rank=2, init=first, max_iter=5, method="em")
    assert bits(first) == before


def test_few_sweeps_keep_priors_as_given():
    init = {"U": np.full((4, 2), 0.5), "P": np.full((2, 3), 4.0)}
    settings = {"rank": 2, "init": init, "prior": plait.Gamma(0.5, 10.0), "adapt_prior": "factor"}
    start = plait.fit(TEXT, {"visits": VISITS}, max_iter=0, **settings)
    for name, array in init.items():
        np.testing.assert_allclose(start.factors[name].mean, array, rtol=1e-14)
    few = plait.fit(TEXT, {"visits": VISITS}, max_iter=5, **settings)
    assert few.prior["U"].mean.item() == few.prior["P"].mean.item() == 10.0


@pytest.mark.parametrize("method", ["vb", "em"])
@pytest.mark.parametrize(
    ("text", "was"),
    [
        ("X[i,j] = A[i,r] B[j,r]", "(4, 2) (i: 4, latent r: 2)"),
        ("X[i,j] = A[r,i,s] C[j,r,s]", "(2, 4, 2) (latent r: 2, i: 4, latent s: 2)"),
        ("X[i,j] = A[] C[i,r] D[j,r]", "() (a number)"),
        ("X[i,r] = A[i,r,s] C[r,s]", "(4, 3, 2) (i: 4, r: 3, latent s: 2)"),
    ],
)
def test_a_fit_with_other_indices_of_a_factor_is_no_start(text, was, method):
    data, settings = {"X": np.ones((4, 3))}, {"rank": 2, "seed": 0, "max_iter": 1, "method": method}
    earlier = plait.fit(text, data, **settings)
    shapes = f"factor A has shape {was} in that fit, expected (4, 2, 2) (i: 4, latent r: 2, latent s: 2)"
    with pytest.raises(plait.errors.ParameterError, match=re.escape(f"`init`: {shapes}")):
        plait.fit("X[i,j] = A[i,r,s] B[j,r,s]", data, init=earlier, **settings)


def test_a_given_factor_may_differ_from_that_of_the_start():
    data, settings = {"X": np.ones((4, 3))}, {"rank": 2, "seed": 0, "max_iter": 1}
    earlier = plait.fit("X[i,j] = A[i,r,s] B[j,r]", data, **settings)
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", data, init=earlier, fixed={"A": np.ones((4, 2))}, **settings)
    assert (fit.factors["A"].mean == 1.0).all()


# --- prediction


@pytest.mark.quick(name=["two_visible"])
@pytest.mark.parametrize("name", ["cp5", "tucker_mixed_order", "train", "two_visible", "scalar", "coupled_bias"])
def test_predicted_mean_is_an_einsum(name):
    case = make(name, "missing_cells", exposed=True)
    fit = case.fit(max_iter=3)
    means = {n: factor.mean for n, factor in fit.factors.items()} | case.fixed
    for relation, indices, occurrences in case.problem.equations:
        shape = case.problem.X[relation].shape
        text = ",".join("".join(its) for _, its in occurrences) + "->" + "".join(indices)
        cells = pl.DataFrame(dict(zip(indices, np.indices(shape).reshape(len(shape), -1))))
        wanted = np.einsum(text, *(means[n] for n, _ in occurrences), optimize=True)
        np.testing.assert_allclose(fit.predict(relation, cells)["mean"], wanted.ravel(), rtol=1e-11)


def test_a_fit_with_every_factor_given_updates_nothing():
    A, B = np.full((2, 1), 0.5), np.full((3, 1), 2.0)
    fit = plait.fit(
        "X[i,j] = A[i,r] B[j,r]",
        {"X": plait.Relation(np.ones((2, 3)), likelihood="poisson")},
        rank=1,
        fixed={"A": A, "B": B},
        tol=0.0,
    )
    assert str(fit.stop) == "nothing to update: every factor is fixed."
    assert fit.objective == pytest.approx(-6.0)
    assert [record.sweep for record in fit.history] == [0]


def test_a_fit_that_has_not_converged_says_what_is_left():
    changes = 1e-2 * 0.9 ** np.arange(1, 41)  # until 1e-6 another 47 sweeps, whose sum is 1.3e-3
    history = [Record(n, 0.0, change, 0.0, {}) for n, change in enumerate(changes, 1)]
    assert _words_left(history, 1e-6) == "; at this rate about 50 more sweeps would raise it by 0.1 %"
    assert _words_left(history[:19], 1e-6) == ""  # too few to tell
    falling = [record._replace(change=-record.change) for record in history]
    assert _words_left(falling, 1e-6) == ""
    assert _words_left(history[::-1], 1e-6) == ""  # changes grow: components still leave a saddle
    assert _words_left(history, 0.0) == ""
    assert _words_left(history, 1e-3) == ""  # the next sweep converges


def test_a_fit_that_stops_before_priors_adapt_estimates_nothing():
    fit = plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": np.eye(6)}, rank=2, seed=0, max_iter=21)
    assert str(fit.stop).startswith("stopped after 21 sweeps, before priors adapt: the relative change")
    assert "more sweeps" not in str(fit.stop)  # the decay of changes before sweep 30 says nothing about those after it


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("converged after 31 sweeps: the relative change of the objective is below 1e-06 (`tol`).", "converged"),
        ("stopped after 200 sweeps: the relative change of the objective is 1.0e-05 (`tol` is 1e-06).", "max_iter"),
        ("interrupted after 3 sweeps; the result is the fit so far.", "interrupted"),
        ("not finished: this is the checkpoint after sweep 3; Continue with `init`.", "unfinished"),
    ],
)
def test_a_stop_of_an_earlier_version_has_a_reason(sentence, reason):
    stop = plait.Stop.from_words(sentence)
    assert (stop.reason, str(stop)) == (reason, sentence)
    assert plait.Stop.from_words(stop.to_words()) == stop


def test_factors_are_a_mapping_that_can_be_pickled():
    fit = plait.fit("x[i, j] = A[i, r] B[j, r]", {"x": np.eye(3)}, rank=2, max_iter=3, seed=0, progress=False)
    before = pickle.loads(pickle.dumps(fit.factors))
    assert (list(fit.factors), "A" in fit.factors, "C" in fit.factors) == (["A", "B"], True, False)
    assert fit.factors["B"] is fit.factors["B"]
    assert dict(fit.factors) == fit.factors
    with pytest.raises(KeyError):
        fit.factors["C"]
    for factors in (before, pickle.loads(pickle.dumps(fit.factors))):
        assert list(factors) == ["A", "B"]
        for name, factor in fit.factors.items():
            assert np.array_equal(factors[name].mean, factor.mean)


@pytest.mark.parametrize("warmup", [0, 50])
def test_a_fit_holds_at_most_five_arrays_of_its_largest_factor(warmup):
    rows, rank = 20_000, 32
    cells = np.arange(3 * rows)
    table = pl.DataFrame({"i": cells // 3, "j": cells % 50})
    options = {"rank": rank, "max_iter": 3, "seed": 0, "warmup": warmup, "progress": False, "threads": 1}
    plait.fit("x[i, j] = A[i, r] B[j, r]", {"x": table}, **options)
    data = plait.Model("x[i, j] = A[i, r] B[j, r]").bind({"x": table})
    tracemalloc.start()
    try:
        plait.fit(data.model, data, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5.75 * rows * rank * 8
