"""The public surface of a fit: what it returns, in which order and shape, why it stopped, and how it goes on."""

import pickle
import re
import tracemalloc
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import plait
from plait.infer.loop import ADAPT_WARM
from plait.run import record as records
from tests.cases import assert_same, bits, make

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
    return plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=1, sweeps=30, tol=0.0, adapt="component")


# --- what is returned


def test_factors_have_their_axes_as_written():
    case = make("tucker_mixed_order")
    fit = case.fit(sweeps=3)
    shapes = {"G": (3, 2, 4), "A": (2, 5), "B": (4, 4), "C": (3, 3)}
    assert {name: factor.mean.shape for name, factor in fit.factors.items()} == shapes
    for name, factor in fit.factors.items():
        assert factor.indices == case.model.factor(name).indices
        for word in ("concentration", "scale", "geomean", "sd"):
            assert getattr(factor, word).shape == shapes[name]


def test_moments_of_a_vb_posterior_are_those_of_its_gamma(fit):
    from scipy.special import psi

    for factor in fit.factors.values():
        C, D = factor.concentration, factor.scale
        np.testing.assert_allclose(factor.mean, C * D, rtol=1e-14)
        np.testing.assert_allclose(factor.sd, np.sqrt(C) * D, rtol=1e-14)
        np.testing.assert_allclose(factor.geomean, np.exp(psi(C) + np.log(D)), rtol=1e-11)


@pytest.mark.parametrize("method", ["em", "map"])
def test_point_estimates_have_sd_0_and_mean_equal_to_geomean(method):
    prior = {} if method == "em" else {"prior": plait.Gamma(1.5, 1.0)}
    fit = plait.fit(TEXT, {"visits": VISITS}, rank=2, method=method, seed=0, sweeps=5, **prior)
    for factor in fit.factors.values():
        assert (factor.sd == 0).all()
        assert (factor.mean == factor.geomean).all()
    assert set(fit.prior) == (set() if method == "em" else {"U", "P"})


@pytest.mark.parametrize("adapt", [None, "factor", "component", "entity", "rank-one", ("place",)])
def test_priors_broadcast_to_their_factors_as_written(adapt):
    fit = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=0, sweeps=12, adapt=adapt, start="random")
    for name, prior in fit.prior.items():
        for array in (prior.concentration, prior.mean):
            assert array.ndim == 2
            assert np.broadcast_shapes(array.shape, fit.factors[name].mean.shape) == fit.factors[name].mean.shape
    assert fit.prior["P"].mean.shape == {"component": (2, 1), "entity": (1, 3), "rank-one": (2, 3)}.get(
        adapt, (1, 3) if adapt == ("place",) else (1, 1)
    )


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
def test_by_default_factors_that_couple_relations_have_rank_one_priors(text, ties):
    sizes, model = {"i": 6, "j": 5, "k": 4}, plait.Model(text)
    data = {e.relation: np.ones([sizes[index] for index in e.indices]) for e in model.equations}
    fit = plait.fit(model, data, rank=2, seed=0, sweeps=1)
    assert fit.settings["adapt"] == ties
    by_name = plait.fit(model, data, rank=2, seed=0, sweeps=1, adapt=dict.fromkeys(model.factors, "auto"))
    assert by_name.settings["adapt"] == ties


def test_labels_are_in_row_order(fit):
    assert list(fit.labels["user"]) == ["ann", "bob", "dan", "eve"]
    assert list(fit.labels["place"]) == ["inn", "spa", "zoo"]
    declared = plait.fit(TEXT, {"visits": VISITS}, rank=2, labels={"user": ["zed", "eve"]}, sweeps=1)
    assert list(declared.labels["user"]) == ["ann", "bob", "dan", "eve", "zed"]
    assert list(plait.fit("X[i] = A[i,r] w[r]", {"X": np.ones(3)}, rank=1, sweeps=1).labels["i"]) == [0, 1, 2]


def test_history_starts_with_the_start_and_ends_with_the_fit(fit):
    own, warm_up = ([record for record in fit.history if record.warm_up is is_so] for is_so in (False, True))
    assert [record.sweep for record in own] == list(range(31))
    assert [*warm_up, *own] == fit.history
    assert own[-1].bound == fit.bound
    assert own[0].change == warm_up[0].change == np.inf  # what is before is not comparable
    for before, record in [*pairwise(warm_up), *pairwise(own)]:
        assert record.change == pytest.approx((record.bound - before.bound) / max(abs(record.bound), 1.0))
        assert record.seconds > 0
        assert record.rank == {"r": 2}


def test_a_model_may_be_its_text():
    first, second = (plait.fit(m, {"visits": VISITS}, rank=2, seed=0, sweeps=5) for m in (TEXT, plait.Model(TEXT)))
    assert bits(first) == bits(second)
    assert first.model == plait.Model(TEXT)


def test_printing_a_fit_and_its_parts_says_what_they_are(fit):
    assert repr(fit).startswith("Fit of visits by vb, rank r=2: bound -")
    assert repr(fit.factors["P"]) == "Posterior[r, place] of shape (2, 3)"
    assert repr(plait.Gamma(0.5, 10)) == "Gamma(concentration=0.5, mean=10)"


# --- stopping


def test_every_stop_is_a_sentence_with_its_reason():
    def stop(**settings):
        return plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=0, **settings)

    converged = stop(tol=1e-4, sweeps=500)
    last = converged.history[-1]
    assert str(converged.stop) == f"converged: sweep {last.sweep} changed the bound by less than 0.0001 of its size."
    assert abs(last.change) < 1e-4
    assert all(abs(record.change) >= 1e-4 for record in converged.history[:-1] if record.sweep > ADAPT_WARM + 1)
    used = stop(sweeps=7)
    assert re.fullmatch(
        r"stopped after 7 sweeps; the last one changed the bound by \S+ of its size \(tol=1e-06\)\. "
        r"Raise `sweeps` to go on\.",
        str(used.stop),
    )
    start = stop(sweeps=0)
    assert str(start.stop) == "no sweep was asked for: this is the start itself."
    assert [fit.stop.reason for fit in (converged, used, start)] == ["converged", "sweeps", "no sweeps"]
    assert start.history[-1].sweep == 0
    asked = stop(progress=lambda record: record.sweep < 4)
    assert str(asked.stop) == "stopped by the progress callable after 4 sweeps."
    assert asked.history[-1].sweep == 4


def test_a_progress_callable_sees_every_record_and_only_false_stops():
    seen = []
    fit = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=0, sweeps=6, progress=lambda record: seen.append(record))
    assert seen == fit.history


def test_tol_0_never_stops_early():
    fit = plait.fit(TEXT, {"visits": VISITS}, rank=1, seed=0, sweeps=300, tol=0, method="em")
    assert fit.history[-1].sweep == 300


def test_the_start_expects_as_much_as_was_observed():
    case = make("coupled_paper", "missing_cells")
    fit = case.fit("em", sweeps=0)
    for relation, indices, occurrences in case.problem.equations:
        factors = [fit.factors[name].mean for name, _ in occurrences]
        text = ",".join("".join(its) for _, its in occurrences) + "->" + "".join(indices)
        M = case.problem.M[relation]
        assert np.sum(M * np.einsum(text, *factors)) == pytest.approx(np.sum(M * case.problem.X[relation]), rel=1e-10)


# --- seeds and starts


def test_a_seed_gives_the_same_fit_to_the_last_bit():
    fits = [plait.fit(TEXT, {"visits": VISITS}, rank=3, seed=7, sweeps=25) for _ in range(2)]
    assert bits(fits[0]) == bits(fits[1])
    assert fits[0].seed == 7


def test_without_a_seed_fits_differ_and_say_their_seed():
    fits = [plait.fit(TEXT, {"visits": VISITS}, rank=3, sweeps=3) for _ in range(2)]
    assert fits[0].seed != fits[1].seed
    assert bits(fits[0]) != bits(fits[1])
    again = plait.fit(TEXT, {"visits": VISITS}, rank=3, sweeps=3, seed=fits[0].seed)
    assert bits(again) == bits(fits[0])


@pytest.mark.parametrize("method", ["vb", "em", "map"])
def test_a_fit_continued_is_one_long_fit(method):
    case = make("coupled_tucker", "missing_cells")
    settings = {"adapt": None} if method == "vb" else {}
    short = case.fit(method, sweeps=8, **settings)
    assert_same(case.fit(method, sweeps=20, **settings), case.fit(method, sweeps=12, init=short, **settings))


@pytest.mark.parametrize("adapt", ["factor", "component", "entity", "rank-one"])
def test_a_continued_fit_keeps_its_adapted_priors_so_the_bound_goes_on_rising(adapt):
    case = make("cp3", "missing_cells")
    short = case.fit(sweeps=20, adapt=adapt)
    more = case.fit(sweeps=15, adapt=adapt, init=short)
    assert more.history[0].bound == pytest.approx(short.bound, rel=1e-11)
    assert np.diff([record.bound for record in more.history]).min() >= -1e-9 * case.slack(more)


def test_a_continued_fit_knows_old_entities_by_name_and_starts_new_ones_as_average(fit):
    more = pl.DataFrame({"user": ["aaa", "ann"], "place": ["spa", "new"], "value": [1, 1]})
    data = {"visits": pl.concat([VISITS, more.cast(VISITS.schema)])}
    new = plait.fit(TEXT, data, rank=2, init=fit, sweeps=0)
    assert list(new.labels["user"]) == ["aaa", "ann", "bob", "dan", "eve"]
    np.testing.assert_allclose(new.factors["U"].concentration[1:], fit.factors["U"].concentration)
    np.testing.assert_allclose(new.factors["U"].concentration[0], fit.factors["U"].concentration.mean(axis=0))
    assert list(new.labels["place"]) == ["inn", "new", "spa", "zoo"]
    np.testing.assert_allclose(new.factors["P"].scale[:, [0, 2, 3]], fit.factors["P"].scale)
    assert np.isfinite(plait.fit(TEXT, data, rank=2, init=fit, sweeps=20).bound)


@pytest.mark.parametrize(("first", "second"), [("em", "vb"), ("vb", "em"), ("vb", "map"), ("map", "vb")])
def test_a_fit_may_start_from_that_of_another_method(first, second):
    case = make("cp3")
    known = case.fit(first, sweeps=10)
    start = case.fit(second, sweeps=0, init=known, **({"adapt": None} if second == "vb" else {}))
    for name in "ABC":
        np.testing.assert_allclose(start.factors[name].mean, np.maximum(known.factors[name].mean, 1e-290), rtol=1e-14)


def test_init_arrays_are_the_start_and_other_factors_are_random_and_scaled():
    U = np.full((4, 2), 0.5)
    fit = plait.fit(TEXT, {"visits": VISITS}, rank=2, init={"U": U}, sweeps=0, seed=3, adapt=None)
    np.testing.assert_allclose(fit.factors["U"].mean, U, rtol=1e-14)
    total = (fit.factors["U"].mean @ fit.factors["P"].mean).sum()
    assert total == pytest.approx(VISITS["value"].sum(), rel=1e-12)


def test_as_long_as_nothing_has_adapted_start_and_priors_are_as_given():
    init = {"U": np.full((4, 2), 0.5), "P": np.full((2, 3), 4.0)}
    settings = {"rank": 2, "init": init, "prior": plait.Gamma(0.5, 10.0), "adapt": "factor"}
    start = plait.fit(TEXT, {"visits": VISITS}, sweeps=0, **settings)
    for name, array in init.items():
        np.testing.assert_allclose(start.factors[name].mean, array, rtol=1e-14)
    few = plait.fit(TEXT, {"visits": VISITS}, sweeps=5, **settings)
    assert few.prior["U"].mean.item() == few.prior["P"].mean.item() == 10.0


def test_init_does_not_change_under_the_callers_hands():
    U = np.full((4, 2), 0.5)
    first = plait.fit(TEXT, {"visits": VISITS}, rank=2, init={"U": U}, sweeps=5, seed=3, method="em")
    assert (U == 0.5).all()
    before = bits(first)
    plait.fit(TEXT, {"visits": VISITS}, rank=2, init=first, sweeps=5, method="em")
    assert bits(first) == before


@pytest.mark.parametrize("method", ["vb", "em"])
@pytest.mark.parametrize(
    ("text", "was", "wanted"),
    [
        ("X[i,j] = A[i,r] B[j,r]", "(4, 2) (i: 4, latent r: 2)", "(4, 2, 2) (i: 4, latent r: 2, latent s: 2)"),
        ("X[i,j] = A[r,i,s] C[j,r,s]", "(2, 4, 2) (latent r: 2, i: 4, latent s: 2)", "(4, 2, 2) (i: 4, latent r: 2, "),
        ("X[i,j] = A[] C[i,r] D[j,r]", "() (a number)", "(4, 2, 2) (i: 4, latent r: 2, latent s: 2)"),
        ("X[i,r] = A[i,r,s] C[r,s]", "(4, 3, 2) (i: 4, r: 3, latent s: 2)", "(4, 2, 2) (i: 4, latent r: 2, latent s"),
    ],
)
def test_a_fit_in_which_a_factor_has_other_indices_is_no_start_and_both_shapes_are_named(text, was, wanted, method):
    data, settings = {"X": np.ones((4, 3))}, {"rank": 2, "seed": 0, "sweeps": 1, "method": method}
    earlier = plait.fit(text, data, **settings)
    with pytest.raises(
        plait.SettingError, match=re.escape(f"`init`: factor A has shape {was} in that fit, wanted")
    ) as e:
        plait.fit("X[i,j] = A[i,r,s] B[j,r,s]", data, init=earlier, **settings)
    assert f"wanted {wanted}" in str(e.value)


def test_a_factor_that_is_given_may_be_another_one_in_the_fit_to_start_from():
    data, settings = {"X": np.ones((4, 3))}, {"rank": 2, "seed": 0, "sweeps": 1}
    earlier = plait.fit("X[i,j] = A[i,r,s] B[j,r]", data, **settings)
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", data, init=earlier, fixed={"A": np.ones((4, 2))}, **settings)
    assert (fit.factors["A"].mean == 1.0).all()


# --- prediction


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["cp5", "tucker_mixed_order", "train", "two_visible", "scalar", "coupled_bias"])
def test_predicted_mean_is_the_einsum_of_the_factors_times_the_exposure(name):
    case = make(name, "missing_cells", exposed=True)
    fit = case.fit(sweeps=3)
    means = {n: factor.mean for n, factor in fit.factors.items()} | case.fixed
    for relation, indices, occurrences in case.problem.equations:
        shape = case.problem.X[relation].shape
        text = ",".join("".join(its) for _, its in occurrences) + "->" + "".join(indices)
        cells = pl.DataFrame(dict(zip(indices, np.indices(shape).reshape(len(shape), -1))))
        wanted = np.einsum(text, *(means[n] for n, _ in occurrences), optimize=True)
        np.testing.assert_allclose(fit.predict(relation, cells)["mean"], wanted.ravel(), rtol=1e-11)


def test_a_fit_with_every_factor_given_says_that_nothing_is_updated():
    A, B = np.full((2, 1), 0.5), np.full((3, 1), 2.0)
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": np.ones((2, 3))}, rank=1, fixed={"A": A, "B": B}, tol=0.0)
    assert str(fit.stop) == "nothing to update: every factor is given."
    assert fit.bound == pytest.approx(-6.0)
    assert [record.sweep for record in fit.history] == [0]


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("converged: sweep 31 changed the bound by less than 1e-06 of its size.", "converged"),
        ("stopped after 200 sweeps; the last one changed the bound by 1.0e-05 of its size (tol=1e-06).", "sweeps"),
        ("interrupted after 3 sweeps; this is the fit so far.", "interrupted"),
        ("not finished: this is the checkpoint after sweep 3; `init` goes on from here.", "unfinished"),
    ],
)
def test_a_stop_of_an_earlier_run_folder_was_a_sentence_and_has_a_reason_now(sentence, reason):
    stop = plait.Stop.from_words(sentence)
    assert (stop.reason, str(stop)) == (reason, sentence)
    assert plait.Stop.from_words(stop.to_words()) == stop


def test_posteriors_are_made_when_first_asked_for_and_then_stay(monkeypatch):
    made = []
    real = records.posterior_of
    monkeypatch.setattr(records, "posterior_of", lambda kept, scale: made.append(kept.layout.name) or real(kept, scale))
    fit = plait.fit("x[i, j] = A[i, r] B[j, r]", {"x": np.eye(3)}, rank=2, sweeps=3, seed=0, progress=False)
    assert (list(fit.factors), len(fit.factors), "A" in fit.factors, "C" in fit.factors) == (["A", "B"], 2, True, False)
    assert made == []
    assert fit.factors["B"] is fit.factors["B"]
    assert made == ["B"]
    assert dict(fit.factors) == fit.factors
    assert repr(fit.factors) == "{'A': Posterior[i, r] of shape (3, 2), 'B': Posterior[j, r] of shape (3, 2)}"
    with pytest.raises(KeyError):
        fit.factors["C"]


def test_a_pickled_fit_has_the_same_posteriors_made_or_not():
    fit = plait.fit("x[i, j] = A[i, r] B[j, r]", {"x": np.eye(3)}, rank=2, sweeps=3, seed=0, progress=False)
    before = pickle.loads(pickle.dumps(fit.factors))
    expected = {name: factor.mean.copy() for name, factor in fit.factors.items()}
    for factors in (before, pickle.loads(pickle.dumps(fit.factors))):
        assert list(factors) == ["A", "B"]
        for name, mean in expected.items():
            assert np.array_equal(factors[name].mean, mean)


@pytest.mark.parametrize("start", ["random", "em"])
def test_a_fit_holds_no_more_than_five_arrays_of_its_largest_factor(start):
    rows, rank = 20_000, 32
    cells = np.arange(3 * rows)
    table = pl.DataFrame({"i": cells // 3, "j": cells % 50})
    options = {"rank": rank, "sweeps": 3, "seed": 0, "start": start, "progress": False, "threads": 1}
    plait.fit("x[i, j] = A[i, r] B[j, r]", {"x": table}, **options)
    data = plait.Model("x[i, j] = A[i, r] B[j, r]").bind({"x": table})
    tracemalloc.start()
    try:
        plait.fit(data.model, data, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5.75 * rows * rank * 8
