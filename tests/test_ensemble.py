"""Ensembles (`restarts`): members, answers of the mixture, saving and resuming."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.every_cell import all_rates, check
from tests.support.problems import bits, make

CP3 = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
TUCKER2 = "X[i,j,k] = A[i,a] B[a,j,b] C[k,b]"


def counts(shape=(7, 6, 5), seed=0):
    return np.random.default_rng(seed).poisson(0.6, shape).astype(float)


def fitted(text=CP3, likelihood="poisson", **options):
    X = counts() if likelihood == "poisson" else np.minimum(counts(), 1.0)
    common = {"rank": 3, "seed": 2, "max_iter": 40, "tol": 0.0, "restarts": 3}
    return plait.fit(text, {"X": plait.Relation(X, likelihood=likelihood)}, **common | options)


@pytest.fixture(scope="module")
def ensemble():
    return fitted()


CELLS = {"i": [0, 1, 6], "j": [5, 0, 2], "k": [4, 4, 0]}


# --- members


@pytest.mark.parametrize("threads", [1, 2])
def test_each_member_is_the_fit_of_its_seed(threads):
    whole = fitted(threads=threads)
    assert whole.members[0].seed == whole.seed == 2
    assert len({member.seed for member in whole.members}) == 3
    for member in whole.members:
        assert bits(member) == bits(fitted(seed=member.seed, restarts=1, threads=1))
        assert len(member.members) == 1
    more = fitted(restarts=4, max_iter=1)
    assert [member.seed for member in more.members[:3]] == [member.seed for member in whole.members]


def test_an_ensemble_shows_its_best_member(ensemble):
    best = max(ensemble.members, key=lambda member: member.objective)
    assert ensemble.objective == best.objective
    assert bits(ensemble) == bits(best)
    assert ensemble.history == best.history
    assert "Ensemble of 3 fits" in repr(ensemble)
    assert "fit.members has all fits" in str(ensemble)
    assert "below is the best one" in ensemble._repr_html_()
    alone = fitted(combine="best")
    assert alone.members == (alone,)
    assert bits(alone) == bits(ensemble)
    assert alone.seed == best.seed


def test_large_members_run_in_turn_with_the_same_result(tuning, ensemble):
    tuning(min_member_entries=0)
    for member, other in zip(fitted(threads=2).members, ensemble.members):
        assert member.objective == pytest.approx(other.objective, rel=1e-9)


def test_a_failing_member_fails_the_fit():
    def fail(record):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        fitted(progress=fail)


MISTAKES = [
    ({"restarts": 0}, "`restarts` must be an integer of at least 1, got 0"),
    ({"restarts": "five"}, "`restarts` must be .*, got 'five'"),
    ({"combine": "mean"}, "`combine` must be one of 'average', 'best', got 'mean'"),
    ({"restarts": 1, "combine": "best"}, "`combine` requires `restarts` of at least 2, got 1"),
    ({"init": {"A": np.ones((7, 3))}}, "`restarts` and `init` exclude each other"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES, ids=lambda one: str(one)[:40])
def test_wrong_options_are_refused(options, message):
    with pytest.raises(plait.errors.ParameterError, match=message):
        fitted(**options)


# --- answers


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("text", [CP3, TUCKER2])
def test_predict_and_top_are_those_of_the_mixture(text, likelihood):
    whole = fitted(text, likelihood)
    found = whole.predict("X", CELLS)
    parts = [member.predict("X", CELLS) for member in whole.members]
    for column in ("mean", "probability", *(["rate"] if likelihood == "bernoulli" else [])):
        np.testing.assert_allclose(found[column], np.mean([part[column] for part in parts], axis=0), rtol=1e-12)
    within, between = np.mean([part["sd"] ** 2 for part in parts], 0), np.var([part["mean"] for part in parts], 0)
    np.testing.assert_allclose(found["sd"], np.sqrt(within + between), rtol=1e-9)
    assert (found["lower"].to_numpy() <= np.max([part["lower"] for part in parts], axis=0)).all()
    assert (found["upper"].to_numpy() >= np.min([part["upper"] for part in parts], axis=0)).all()
    rates = np.mean([all_rates(member, "X") for member in whole.members], axis=0)
    if likelihood == "bernoulli":
        table = whole.predict("X", dict(zip("ijk", np.argwhere(np.ones(rates.shape)).T)))
        rates = table["probability"].to_numpy().reshape(rates.shape)
    for given in ({}, {"i": 3}, {"i": 1, "k": 2}):
        check(whole, "X", 5, given, scores=rates)


def test_members_may_have_different_ranks():
    whole = fitted(prune=True, adapt_prior="component", rank=6, max_iter=60)
    members = [_cut(member, rank) for member, rank in zip(whole.members, (2, 6, 6))]
    whole = replace(whole, ensemble=tuple(members))
    rates = np.mean([all_rates(member, "X") for member in members], axis=0)
    check(whole, "X", 4, {}, scores=rates)
    draws = whole.sample(6, seed=0)
    assert draws["A"].shape == (6, 7, max(member.rank["r"] for member in members))
    assert (draws["A"][0::3, :, 2:] == 0).all()


def _cut(fit, rank):
    """The same fit with fewer components."""
    factors = {
        name: plait.Posterior(f.indices, *(a[:, :rank] for a in (f.concentration, f.scale, f.mean, f.exp_mean_log)))
        for name, f in fit.factors.items()
    }
    return replace(fit, factors=factors, rank={"r": factors["A"].mean.shape[1]})


def test_members_take_turns_in_samples(ensemble):
    draws = ensemble.sample(9, seed=4)
    more = ensemble.sample(10, seed=4)
    assert all((draws[name] == more[name][:9]).all() for name in draws)
    assert (draws["A"][0::3] == ensemble.members[0].sample(3, seed=4)["A"]).all()
    many = np.einsum("sir,sjr,skr->ijk", *ensemble.sample(3000, seed=1).values()) / 3000
    mean = np.mean([all_rates(member, "X") for member in ensemble.members], axis=0)
    assert np.abs(many - mean).max() < 0.1 * mean.max()


@pytest.mark.parametrize("text", [CP3, TUCKER2])
def test_an_explanation_averages_the_members_by_their_means(text):
    whole = fitted(text)
    X, rates = counts(), np.mean([all_rates(member, "X") for member in whole.members], axis=0)
    cell = np.unravel_index(np.where(X == 0, rates, 0).argmax(), X.shape)
    question = {"relation": "X", "cell": dict(zip("ijk", map(int, cell))), "top": 500}
    parts = [member.explain(**question) for member in whole.members]
    found = whole.explain(**question)
    weights = np.array([part.prediction["mean"] for part in parts])
    weights /= weights.sum()
    for number, (part, weight) in enumerate(zip(parts, weights)):
        own = [(s.setting, s.share) for s in found.shares if s.setting["member"] == number]
        assert [{"member": number, **s.setting} for s in part.shares] == [setting for setting, _ in own]
        np.testing.assert_allclose([s.share * weight for s in part.shares], [share for _, share in own], rtol=1e-9)
    assert sum(s.share for s in found.shares) + found.remainder == pytest.approx(1.0)
    said = [{str(link): link.responsibility for link in part.reasons} for part in (found, *parts)]
    in_all = set.intersection(*map(set, said))  # one that speaks against the cell is not named
    assert len(in_all) > 3
    for name in in_all:
        assert said[0][name] == pytest.approx(float(weights @ [own[name] for own in said[1:]]), rel=1e-9)
    assert found.rows[0].data == pytest.approx(float(weights @ [part.rows[0].data for part in parts]))
    characterised = {entity.component for entity in found.standings}
    assert characterised <= set(range(len(found.shares)))
    assert found.components["component"].str.starts_with("member=").all()


def test_an_exact_explanation_refits_all_members():
    whole = fitted(restarts=2, max_iter=80)
    link = whole.explain("X", {"i": 1, "j": 2, "k": 3}, top=1, exact=True, data={"X": counts()}).reasons[0]
    assert link.exact is not None
    assert abs(link.exact - link.responsibility) < 0.5 * link.responsibility + 0.05


def test_an_ensemble_is_evaluated_by_its_mixture(ensemble):
    X = counts()
    cells = np.argwhere(X == 0)[:40]
    test = pl.DataFrame(dict(zip("ijk", cells.T))).with_columns(value=pl.Series([1.0] * 5 + [0.0] * 35))
    found = plait.evaluate(ensemble, "X", test, target="k")
    mean = np.mean([all_rates(member, "X") for member in ensemble.members], axis=0)[tuple(cells.T)]
    above = (mean[:5, None] > mean[None, 5:]).mean()
    assert found["roc_auc"] == pytest.approx(above, abs=1e-9)


@pytest.mark.parametrize("method", ["em", "map"])
def test_ensembles_of_point_estimates(method):
    prior = {"prior": plait.Gamma(1.5, 1.0)} if method == "map" else {}
    whole = fitted(method=method, **prior)
    found = whole.predict("X", CELLS)
    means = [member.predict("X", CELLS)["mean"] for member in whole.members]
    np.testing.assert_allclose(found["sd"], np.std(means, axis=0), rtol=1e-9, atol=1e-12)


# --- kept


def same(left, right):
    return [bits(member) for member in left.members] == [bits(member) for member in right.members]


def test_a_loaded_ensemble_equals_the_saved_one(ensemble, tmp_path):
    ensemble.save(tmp_path)
    loaded = plait.load(tmp_path)
    assert same(loaded, ensemble)
    assert (loaded.seed, loaded.stop, loaded.settings) == (ensemble.seed, ensemble.stop, ensemble.settings)
    assert loaded.predict("X", CELLS).equals(ensemble.predict("X", CELLS))


@pytest.mark.parametrize("records", [1, 60, 100, 250])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupted_ensemble_resumes(tmp_path, ensemble, threads, records):
    seen = []

    def watch(record):
        seen.append(record)
        return len(seen) < records

    saving = plait.Checkpoint(tmp_path, sweeps=9)
    cut = fitted(threads=threads, checkpoint=saving, progress=watch)
    assert cut.stop.reason == "callback"
    assert np.isfinite(plait.load(tmp_path).predict("X", CELLS)["sd"].to_numpy()).all()
    assert same(fitted(threads=threads, init=tmp_path), ensemble)


def test_a_run_resumes_with_more_members(tmp_path, ensemble):
    fitted(restarts=2, checkpoint=tmp_path)
    assert same(fitted(init=tmp_path), ensemble)


def test_ensembles_of_an_exposed_model():
    case = make("cp3", "missing_cells", exposed=True)
    whole = case.fit(max_iter=5, restarts=2)
    check(whole, "X", 3, {}, scores=np.mean([all_rates(member, "X") for member in whole.members], axis=0))
