"""`Fit.fold_in`: new entities compared with dense inference, and what must not change."""

import json

import numpy as np
import polars as pl
import pytest

import plait
from plait.errors import DataError, ParameterError
from tests.support import oracle
from tests.support.late_entities import grow, state_of, under

LATE = {
    "matrix": {"i": 2},
    "cp3": {"j": 1},
    "cp3_weighted": {"i": 1, "k": 2},
    "cp3_mixed_order": {"k": 2},
    "tucker": {"i": 2},
    "tucker2": {"k": 1},
    "block_term": {"j": 2},
    "bias": {"i": 2},
    "two_visible": {"i": 1, "k": 1},
    "two_visible_mixed_order": {"j": 2},
    "sums_only": {"i": 2},
    "rank_one": {"i": 1, "j": 1},
    "coupled_chain": {"j": 2},
    "coupled_bias": {"i": 2, "k": 1},
    "friends": {"user": 2},
    "friends_two_names": {"user": 2, "place": 1},
    "cp3_bias": {"i": 2},
    "pairwise": {"j": 2},
    "shared_factor": {"i": 1, "j": 1},
    "two_backgrounds": {"j": 2},
    "symmetric": {"user": 2},
    "symmetric_weighted": {"user": 2},
    "symmetric_coupled": {"user": 2, "place": 1},
    "rescal": {"user": 2},
    "rescal_bias": {"user": 1, "k": 1},
}
CASES = [(name, "all", "poisson", "vb") for name in LATE]
CASES += [(name, way, "poisson", "vb") for name in ("cp3", "friends") for way in ("listed", "zeros", "hidden")]
CASES += [("symmetric", way, "poisson", "vb") for way in ("listed", "zeros")]
CASES += [("matrix", "all", likelihood, "vb") for likelihood in ("bernoulli",)]
CASES += [("symmetric_coupled", "zeros", "bernoulli", "vb"), ("pairwise", "listed", "bernoulli", "vb")]
CASES += [(name, "all", "poisson", method) for name in ("cp3", "rescal", "pairwise") for method in ("em", "map")]


@pytest.mark.quick(name=["matrix", "symmetric"], way=["all"])
@pytest.mark.parametrize(("name", "way", "likelihood", "method"), CASES, ids=map("-".join, CASES))
def test_new_rows_by_dense_inference_with_all_others_held(name, way, likelihood, method):
    case = grow(name, LATE[name], way, likelihood)
    fit = case.fit(method)
    few, many = (fit.fold_in(case.rows, iterations=n) for n in (2, 1000))
    for folded in (few, many):
        old = oracle.objective(under(case.before, fit), state_of(fit), method)
        now = oracle.objective(under(case.after, folded), state_of(folded), method)
        slack = 1e-9 * (abs(old) + abs(now))
        assert fit.objective == pytest.approx(old, abs=slack)
        assert folded.objective == pytest.approx(now, abs=10 * slack)
    assert many.objective >= few.objective - 1e-9 * abs(few.objective)
    problem, state = under(case.after, many), state_of(many)
    counts = oracle.counts(problem, oracle._logs(problem, state, method))
    means = oracle.means(problem, state) if method == "vb" else state
    for factor in fit.factors:
        again = oracle._updated(problem, factor, counts[factor], means, method)
        for then, here in zip(*(value if method == "vb" else (value,) for value in (state[factor], again))):
            new = np.broadcast_to(case.new_rows(factor), np.shape(here))
            np.testing.assert_allclose(np.asarray(here)[new], np.asarray(then)[new], rtol=1e-3, atol=1e-6)


# --- what must not change


VISITS = "visits[user, place] = U[user, r] P[place, r]"
SIDE = f"{VISITS}\ntags[place, tag] = P[place, r] T[tag, r]"


def table(users, seed=0, places=12):
    rng = np.random.default_rng(seed)
    chosen = [(u, n, place) for n, u in enumerate(users) for place in range(places)]
    rows = [(u, f"p{k}", int(rng.integers(1, 4))) for u, n, k in chosen if rng.random() < 0.4 or k == n % places]
    return pl.DataFrame(rows, schema={"user": pl.String, "place": pl.String, "value": pl.Int64}, orient="row")


def users(first, last):
    return [f"u{n:02}" for n in range(first, last)]


@pytest.fixture(scope="module")
def fit():
    return plait.fit(VISITS, {"visits": table(users(0, 20))}, rank=3, seed=1, max_iter=60, progress=False)


@pytest.fixture(scope="module")
def side():
    tags = {"place": [f"p{n % 12}" for n in range(40)], "tag": [f"t{n * 7 % 5}" for n in range(40)]}
    data = {"visits": table(users(0, 20)), "tags": pl.DataFrame(tags).unique()}
    return plait.fit(SIDE, data, rank=3, seed=1, max_iter=60, progress=False)


def rows_of(fit, name="U"):
    factor = fit.factors[name]
    return [factor.concentration, factor.scale, factor.mean, factor.exp_mean_log]


def assert_untouched(fit, folded, grown=("U",)):
    for name, factor in fit.factors.items():
        if name not in grown:
            assert folded.factors[name] is factor
            continue
        for then, now in zip(rows_of(fit, name), rows_of(folded, name)):
            assert np.array_equal(now[: len(then)], then)
    for name, prior in fit.prior.items():
        then, now = np.asarray(prior.mean), np.asarray(folded.prior[name].mean)
        assert np.array_equal(now[: len(then)], then)


def test_a_fold_in_changes_no_bit_of_known_entities(fit):
    folded = fit.fold_in({"visits": table(["new", "other"], 3)})
    assert_untouched(fit, folded)
    assert list(folded.entities["user"])[-2:] == ["new", "other"]
    cells = table(users(0, 5)).drop("value")
    assert folded.predict("visits", cells).equals(fit.predict("visits", cells))
    assert folded.likelihood_params == fit.likelihood_params
    assert fit.fold_in({}) is fit
    assert fit.fold_in({"visits": table([])}) is fit


def test_the_order_of_new_entities_and_rows_does_not_matter(fit):
    one, other = table(["new"], 3), table(["other"], 4)
    rows = pl.concat([one, other])
    both, turned = (fit.fold_in({"visits": own}) for own in (rows, rows.reverse()))
    assert all(np.array_equal(a, b) for a, b in zip(rows_of(both), rows_of(turned)))
    apart = fit.fold_in({"visits": one}).fold_in({"visits": other})
    for then, now in zip(rows_of(both), rows_of(apart)):
        np.testing.assert_allclose(now, then, rtol=1e-9)
    assert apart.objective == pytest.approx(both.objective, rel=1e-12)


def test_a_fold_in_is_a_fit_with_all_other_factors_given(fit):
    rows, prior = table(["new", "other"], 3), fit.prior["U"]
    folded = fit.fold_in({"visits": rows}, iterations=500)
    alone = plait.fit(
        VISITS, {"visits": plait.Relation(rows, unseen="zero")}, rank=3, fixed={"P": fit.factors["P"]},
        prior=plait.Gamma(np.asarray(prior.concentration), np.asarray(prior.mean)), adapt_prior=None, max_iter=2000,
        tol=0, seed=0, entities={"place": list(fit.entities["place"])}, warmup=0, progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(folded.factors["U"].mean[20:], alone.factors["U"].mean, rtol=1e-6)


def test_a_new_place_with_tags_only(side):
    folded = side.fold_in({"tags": pl.DataFrame({"place": ["q", "q"], "tag": ["t1", "t4"]})})
    assert_untouched(side, folded, ("P",))
    assert len(folded.top("visits", 3, given={"place": "q"})) == 3
    assert folded.known["visits"].observed.at(np.array([[0, 12]]))[0] == 0  # it is missing there, not a row of zeros


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_new_users_and_new_places_at_once(dtype):
    fit = plait.fit(VISITS, {"visits": table(users(0, 20))}, rank=3, seed=1, max_iter=10, dtype=dtype, progress=False)
    own = table(["new"], 3)
    folded = fit.fold_in({"visits": pl.concat([own, pl.DataFrame({"user": ["u03", "new"], "place": ["q", "q"],
                                                                  "value": [1, 2]})])}, iterations=30)  # fmt: skip
    assert_untouched(fit, folded, ("U", "P"))
    assert folded.state.factors["U"].scale.dtype == dtype
    assert folded.predict("visits", {"user": ["new"], "place": ["q"]})["mean"][0] > 0
    found = folded.top("visits", 20, given={"user": "new"})["place"]
    assert not {*found} & {*own["place"], "q"}
    assert len(found) == 12 - len(own)


@pytest.mark.parametrize("ending", ["", ".plait"])
def test_a_loaded_run_folds_in_the_same_bits(fit, ending, tmp_path):
    rows = {"visits": table(["new"], 3)}
    folded = fit.fold_in(rows)
    fit.save(tmp_path / f"run{ending}")
    folded.save(tmp_path / f"folded{ending}")
    again, loaded = plait.load(tmp_path / f"run{ending}").fold_in(rows), plait.load(tmp_path / f"folded{ending}")
    for other in (again, loaded):
        assert all(np.array_equal(a, b) for n in fit.factors for a, b in zip(rows_of(folded, n), rows_of(other, n)))
        assert other.objective == folded.objective
        assert other.entities["user"] == folded.entities["user"]
    assert loaded.fold_in({"visits": table(["yet another"], 5)}).factors["U"].mean.shape == (22, 3)


@pytest.mark.parametrize("tie", ["entity", "rank-one", "component"])
def test_a_new_row_has_the_average_prior(tie):
    fit = plait.fit(
        VISITS, {"visits": table(users(0, 20))}, rank=3, seed=1, max_iter=60, adapt_prior=tie, progress=False
    )
    folded = fit.fold_in({"visits": table(["new"], 3)})
    then, now = (np.asarray(own.prior["U"].mean) for own in (fit, folded))
    if tie == "component":
        assert now.shape == then.shape
    else:
        np.testing.assert_allclose(now[20], then.mean(axis=0))
        assert np.array_equal(now[:20], then)


def test_every_member_of_an_ensemble_folds_in():
    data = {"visits": table(users(0, 20))}
    for bootstrap in (False, True):
        fit = plait.fit(VISITS, data, rank=3, seed=1, max_iter=40, restarts=3, bootstrap=bootstrap, progress=False)
        rows = {"visits": table(["new"], 3)}
        folded, cells = fit.fold_in(rows), table(["new"], 3).drop("value")
        assert len(folded.members) == 3
        for member, alone in zip(folded.members, fit.members):
            assert_untouched(alone, member)
        assert fit.predict("visits", cells, new_entities=rows).equals(folded.predict("visits", cells))


@pytest.mark.parametrize("likelihood", ["bernoulli", "negbin", "tweedie"])
def test_every_likelihood_folds_in(likelihood):
    values = table(users(0, 20))
    values = values.with_columns(value=pl.lit(1)) if likelihood == "bernoulli" else values
    data = {"visits": plait.Relation(values, likelihood=likelihood)}
    fit = plait.fit(VISITS, data, rank=3, seed=1, max_iter=40, progress=False)
    rows = table(["new"], 3)
    rows = rows.with_columns(value=pl.lit(1)) if likelihood == "bernoulli" else rows
    few, many = (fit.fold_in({"visits": rows}, iterations=n) for n in (3, 100))
    assert many.objective > few.objective
    assert many.likelihood_params == fit.likelihood_params


MEMORY = "visits[user, place] = U[user, r] P[place, r] + M[user, place]"


@pytest.mark.usefixtures("sparse")
def test_new_pairs_have_rows_of_their_own():
    fit = plait.fit(MEMORY, {"visits": table(users(0, 20))}, rank=2, seed=1, max_iter=30, progress=False)
    rows = table(["new"], 3)
    folded = fit.fold_in({"visits": rows}, iterations=200)
    then, now = fit.factors["M"], folded.factors["M"]
    assert len(now.pairs) == len(then.pairs) + len(rows)
    own = now.pairs.find([then.pairs.coords[:, k] for k in range(2)])
    assert np.array_equal(now.mean[own], then.mean[: len(then.pairs)])
    assert np.array_equal(now.mean[len(now.pairs) :][:20], then.mean[len(then.pairs) :])
    place = pl.DataFrame({"user": ["u01", "u05"], "place": ["q", "q"], "value": [2, 3]})
    second = folded.fold_in({"visits": place}, iterations=50)
    held = second.factors["M"]
    assert np.array_equal(held.mean[len(held.pairs) :], now.mean[len(now.pairs) :])
    both = pl.DataFrame({"user": ["yet"], "place": ["there"], "value": [1]})
    with pytest.raises(ParameterError, match="both entities of a link are new, but"):
        fit.fold_in({"visits": both})


@pytest.mark.usefixtures("sparse")
@pytest.mark.parametrize("axis", ["user", "place"])
def test_the_bound_of_pairs_is_that_of_dense_inference(axis):
    fit = plait.fit(MEMORY, {"visits": table(users(0, 20))}, rank=2, seed=1, max_iter=30, progress=False)
    rows = table(["new", "other"], 3)
    if axis == "place":
        rows = pl.DataFrame({"user": users(0, 18), "place": ["q", "s"] * 9, "value": [1, 2, 3] * 6})
    few, many = (fit.fold_in({"visits": rows}, iterations=n) for n in (2, 300))
    for own in (fit, few, many):
        assert own.objective == pytest.approx(oracle.bound(*dense(own)), rel=1e-9)
    problem, state = dense(many)
    counts, means = oracle.counts(problem, oracle.log_geomeans(problem, state)), oracle.means(problem, state)
    linked = problem.X["visits"] > 0
    linked[:20, :12] = False
    for then, now in zip(state["M"], oracle._updated(problem, "M", counts["M"], means, "vb")):
        np.testing.assert_allclose(now[linked], then[linked], rtol=1e-4)


def dense(fit):
    """The oracle's problem and state of a fit whose every cell is observed, pairs spread out."""
    known = fit.known["visits"]
    X = np.zeros(known.shape)
    X[tuple(known.cells.T)] = known.values
    prior = {name: (p.concentration, p.mean) for name, p in fit.prior.items()}
    state = {name: (f.concentration, f.scale) for name, f in fit.factors.items()}
    pairs = fit.factors["M"].pairs
    rows = pairs.find([column.ravel() for column in np.indices(known.shape)]).reshape(known.shape)
    state["M"] = tuple(array[rows] for array in state["M"])
    return oracle.Problem(oracle.from_text(MEMORY), {"visits": X}, prior), state


# --- transient entities


def test_transient_entities_are_answered_like_folded_ones(side):
    rows = {"visits": table(["new", "other"], 3)}
    folded, cells = side.fold_in(rows), table(["new", "other"], 3).drop("value")
    assert side.predict("visits", cells, new_entities=rows).equals(folded.predict("visits", cells))
    mixed = pl.concat([cells, table(users(0, 2)).drop("value")])
    assert side.predict("visits", mixed, new_entities=rows).equals(folded.predict("visits", mixed))
    asked = {"given": {"user": ["new", "other"]}, "per": "user"}
    assert side.top("visits", 4, new_entities=rows, **asked).equals(folded.top("visits", 4, **asked))
    assert side.top("visits", 4, new_entities=rows).equals(folded.top("visits", 4))
    assert len(side.entities["user"]) == 20
    place = {"tags": pl.DataFrame({"place": ["q"], "tag": ["t1"]})}
    given = {"given": {"place": "q"}}
    assert side.top("visits", 4, new_entities=place, **given).equals(side.fold_in(place).top("visits", 4, **given))


def test_transient_entities_of_an_undirected_relation():
    text = "friends[user, friend] = U[user, r] U[friend, r]\nfriend: user"
    rng = np.random.default_rng(0)
    pairs = [(f"u{a:02}", f"u{b:02}") for a in range(15) for b in range(a) if rng.random() < 0.4]
    data = {"friends": pl.DataFrame(pairs, schema=["user", "friend"], orient="row")}
    fit = plait.fit(text, data, rank=2, seed=0, max_iter=20, progress=False)
    rows = {"friends": pl.DataFrame({"user": ["new", "u03", "new"], "friend": ["u01", "new", "other"]})}
    folded = fit.fold_in(rows)
    found = fit.top("friends", 5, given={"user": "new"}, new_entities=rows)
    assert found.equals(folded.top("friends", 5, given={"user": "new"}))
    assert "new" not in found["friend"].to_list()
    assert folded.known["friends"].contain(np.array([[3, 15], [15, 3]])).all()


# --- how cells are observed


def weights_of_new(rows, **options):
    """M of the new entity's cells and the folded fit."""
    data = {"visits": plait.Relation(table(users(0, 20)), **options)}
    folded = plait.fit(VISITS, data, rank=2, seed=0, max_iter=5, progress=False).fold_in({"visits": rows})
    M = folded.known["visits"].observed.at(np.array([[20, k] for k in range(12)]))
    return folded, dict(zip(folded.entities["place"], M.tolist()))


def test_a_new_entity_is_observed_as_the_others_are():
    rows = table(["new"], 3)
    _, M = weights_of_new(rows, observed="listed")
    assert {place for place in M if M[place]} == set(rows["place"])
    rest = rows.filter(pl.col("place") != "p3")
    folded, M = weights_of_new(rest, missing=pl.DataFrame({"place": ["p3"]}))
    assert {place for place in M if not M[place]} == {"p3"}
    assert "p3" not in folded.top("visits", 20, given={"user": "new"})["place"].to_list()
    hidden = pl.DataFrame({"user": ["new"], "place": ["p0"]})
    folded, M = weights_of_new(plait.Relation(rows.filter(pl.col("place") != "p0"), missing=hidden))
    assert {place for place in M if not M[place]} == {"p0"}
    assert folded.known["visits"].observed.at(np.array([[0, 0]])).tolist() == [1.0]


def test_a_new_entity_has_the_default_exposure():
    V = plait.Exposure(pl.DataFrame({"user": ["u01"], "place": ["p1"], "value": [5.0]}), default=0.5)
    how = {"rank": 2, "seed": 0, "max_iter": 5, "fixed": {"V": V}, "progress": False}
    fit = plait.fit(f"{VISITS} V[user, place]", {"visits": table(users(0, 20))}, **how)
    rows = table(["new"], 3)
    folded, cells = fit.fold_in({"visits": rows}), rows.drop("value")
    assert (folded.exposures.at("visits", 0, np.array([[20, k] for k in range(12)])) == 0.5).all()
    assert fit.predict("visits", cells, new_entities={"visits": rows}).equals(folded.predict("visits", cells))


# --- what is refused


NEW = table(["new"], 3)
REFUSED = {
    "no new entity": ({"visits": pl.concat([NEW, table(["u01"], 3).head(1)])}, DataError, "'u01', .* no new entity"),
    "relation": ({"visit": NEW}, DataError, "'visit' is not a relation"),
    "array": ({"visits": np.ones((2, 12))}, DataError, "expected a table, got an array"),
    "kind of name": ({"visits": pl.DataFrame({"user": [3], "place": ["p1"]})}, DataError, "integers, .* strings"),
    "observed": ({"visits": plait.Relation(NEW, observed="listed")}, DataError, "differs from the data of the fit"),
    "value": ({"visits": NEW.with_columns(value=pl.lit(-1))}, DataError, "the value is -1"),
}


@pytest.mark.parametrize(("rows", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_rows_are_refused(fit, rows, error, message):
    with pytest.raises(error, match=message):
        fit.fold_in(rows)


def test_wrong_settings_are_refused(fit):
    with pytest.raises(ParameterError, match="an integer of at least 1"):
        fit.fold_in({"visits": NEW}, iterations=0)
    for text, fixed, message in (
        (VISITS, {"U": np.ones((20, 3))}, "the fixed factor U has no row for 'new'"),
        (f"{VISITS} V[user]", {"V": np.ones(20) / 2}, "has an exposure over user"),
    ):
        given = plait.fit(
            text, {"visits": table(users(0, 20))}, rank=3, seed=1, max_iter=5, fixed=fixed, progress=False
        )
        with pytest.raises(ParameterError, match=message):
            given.fold_in({"visits": NEW})


def test_a_run_of_an_earlier_version_is_refused(fit, tmp_path):
    fit.save(tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    header = json.loads(path.read_text()) | {"version": 4}
    del header["relations"]["visits"]["observed"], header["checksum"]
    path.write_text(json.dumps(header))
    loaded = plait.load(tmp_path / "run")
    for ask in (loaded.fold_in, loaded.update):
        with pytest.raises(ParameterError, match="saved by an earlier version"):
            ask({"visits": NEW})
