"""New entities beside those of a fit: against dense inference from the mathematics alone, and what must not change."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.errors import DataError, SettingError
from tests import oracle
from tests.growing import grow, state_of, under

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


@pytest.mark.parametrize(("name", "way", "likelihood", "method"), CASES, ids=map("-".join, CASES))
def test_new_rows_are_those_of_dense_inference_with_all_others_held(name, way, likelihood, method):
    case = grow(name, LATE[name], way, likelihood)
    fit = case.fit(method)
    few, many = (fit.fold_in(case.rows, iterations=n) for n in (2, 1000))
    for folded in (few, many):
        old = oracle.objective(under(case.before, fit), state_of(fit), method)
        now = oracle.objective(under(case.after, folded), state_of(folded), method)
        slack = 1e-9 * (abs(old) + abs(now))
        assert fit.bound == pytest.approx(old, abs=slack)
        assert folded.bound == pytest.approx(now, abs=10 * slack)
    assert many.bound >= few.bound - 1e-9 * abs(few.bound)
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
    return plait.fit(VISITS, {"visits": table(users(0, 20))}, rank=3, seed=1, sweeps=60, progress=False)


@pytest.fixture(scope="module")
def side():
    tags = {"place": [f"p{n % 12}" for n in range(40)], "tag": [f"t{n * 7 % 5}" for n in range(40)]}
    data = {"visits": table(users(0, 20)), "tags": pl.DataFrame(tags).unique()}
    return plait.fit(SIDE, data, rank=3, seed=1, sweeps=60, progress=False)


def rows_of(fit, name="U"):
    factor = fit.factors[name]
    return [factor.concentration, factor.scale, factor.mean, factor.geomean]


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


def test_all_that_was_known_stays_to_the_last_bit(fit):
    folded = fit.fold_in({"visits": table(["new", "other"], 3)})
    assert_untouched(fit, folded)
    assert list(folded.labels["user"])[-2:] == ["new", "other"]
    cells = table(users(0, 5)).drop("value")
    assert folded.predict("visits", cells).equals(fit.predict("visits", cells))
    assert folded.learnt == fit.learnt


def test_folding_in_nothing_changes_nothing(fit):
    assert fit.fold_in({}) is fit
    assert fit.fold_in({"visits": table([])}) is fit


def test_two_who_have_nothing_to_do_with_each_other_come_together_or_one_by_one(fit):
    one, other = table(["new"], 3), table(["other"], 4)
    both = fit.fold_in({"visits": pl.concat([one, other])})
    apart = fit.fold_in({"visits": one}).fold_in({"visits": other})
    for then, now in zip(rows_of(both), rows_of(apart)):
        np.testing.assert_allclose(now, then, rtol=1e-9)
    assert apart.bound == pytest.approx(both.bound, rel=1e-12)


def test_the_order_of_rows_does_not_matter(fit):
    rows = table(["new", "other", "a"], 3)
    straight, turned = (fit.fold_in({"visits": own}) for own in (rows, rows.reverse()))
    assert all(np.array_equal(a, b) for a, b in zip(rows_of(straight), rows_of(turned)))


def test_a_fold_in_is_a_fit_with_all_else_given(fit):
    rows, prior = table(["new", "other"], 3), fit.prior["U"]
    folded = fit.fold_in({"visits": rows}, iterations=500)
    alone = plait.fit(
        VISITS, {"visits": plait.Relation(rows, universe="model")}, rank=3, fixed={"P": fit.factors["P"]}, adapt=None,
        prior=plait.Gamma(np.asarray(prior.concentration), np.asarray(prior.mean)), sweeps=2000, tol=0, seed=0,
        labels={"place": list(fit.labels["place"])}, start="random", progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(folded.factors["U"].mean[20:], alone.factors["U"].mean, rtol=1e-6)


def test_a_new_place_with_tags_only(side):
    rows = {"tags": pl.DataFrame({"place": ["q", "q"], "tag": ["t1", "t4"]})}
    folded = side.fold_in(rows)
    assert_untouched(side, folded, ("P",))
    assert len(folded.top("visits", 3, given={"place": "q"})) == 3
    assert folded.factors["P"].mean.shape == (13, 3)
    assert folded.known["visits"].observed.at(np.array([[0, 12]]))[0] == 0  # it is missing there, not a row of zeros


def test_new_users_and_new_places_at_once(fit):
    rows = pl.concat([table(["new"], 3), pl.DataFrame({"user": ["u03", "new"], "place": ["q", "q"], "value": [1, 2]})])
    folded = fit.fold_in({"visits": rows}, iterations=30)
    assert_untouched(fit, folded, ("U", "P"))
    assert folded.predict("visits", {"user": ["new"], "place": ["q"]})["mean"][0] > 0


@pytest.mark.parametrize("ending", ["", ".plait"])
def test_a_loaded_run_folds_in_to_the_same_bits(fit, ending, tmp_path):
    rows = {"visits": table(["new"], 3)}
    folded = fit.fold_in(rows)
    fit.save(tmp_path / f"run{ending}")
    folded.save(tmp_path / f"folded{ending}")
    again, loaded = plait.load(tmp_path / f"run{ending}").fold_in(rows), plait.load(tmp_path / f"folded{ending}")
    for other in (again, loaded):
        assert all(np.array_equal(a, b) for n in fit.factors for a, b in zip(rows_of(folded, n), rows_of(other, n)))
        assert other.bound == folded.bound
        assert other.labels["user"] == folded.labels["user"]
    assert loaded.fold_in({"visits": table(["yet another"], 5)}).factors["U"].mean.shape == (22, 3)


def test_known_links_of_a_new_entity_are_not_proposed(fit):
    rows = table(["new"], 3)
    found = fit.fold_in({"visits": rows}).top("visits", 20, given={"user": "new"})
    assert not set(found["place"]) & set(rows["place"])
    assert len(found) == 12 - len(rows)


@pytest.mark.parametrize("tie", ["entity", "rank-one", "component"])
def test_a_new_row_has_the_average_prior(tie):
    fit = plait.fit(VISITS, {"visits": table(users(0, 20))}, rank=3, seed=1, sweeps=60, adapt=tie, progress=False)
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
        fit = plait.fit(VISITS, data, rank=3, seed=1, sweeps=40, restarts=3, bootstrap=bootstrap, progress=False)
        rows = {"visits": table(["new"], 3)}
        folded, cells = fit.fold_in(rows), table(["new"], 3).drop("value")
        assert len(folded.members) == 3
        for member, alone in zip(folded.members, fit.members):
            assert_untouched(alone, member)
        assert fit.predict("visits", cells, new=rows).equals(folded.predict("visits", cells))


@pytest.mark.parametrize("likelihood", ["bernoulli", "negbin", "amounts"])
def test_every_likelihood_folds_in(likelihood):
    values = table(users(0, 20))
    values = values.with_columns(value=pl.lit(1)) if likelihood == "bernoulli" else values
    data = {"visits": plait.Relation(values, likelihood=likelihood)}
    fit = plait.fit(VISITS, data, rank=3, seed=1, sweeps=40, progress=False)
    rows = table(["new"], 3)
    rows = rows.with_columns(value=pl.lit(1)) if likelihood == "bernoulli" else rows
    few, many = (fit.fold_in({"visits": rows}, iterations=n) for n in (3, 100))
    assert many.bound > few.bound
    assert many.learnt == fit.learnt


def test_float32_stays_float32():
    fit = plait.fit(VISITS, {"visits": table(users(0, 20))}, rank=3, seed=1, sweeps=40, dtype="float32", progress=False)
    folded = fit.fold_in({"visits": table(["new"], 3)})
    assert folded.state.factors["U"].scale.dtype == np.float32
    assert_untouched(fit, folded)


MEMORY = "visits[user, place] = U[user, r] P[place, r] + M[user, place]"


def test_pairs_of_a_new_entity_have_rows_of_their_own(monkeypatch):
    monkeypatch.setattr("plait.data.observing.pairs.DENSE", 0)
    fit = plait.fit(MEMORY, {"visits": table(users(0, 20))}, rank=2, seed=1, sweeps=30, progress=False)
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
    with pytest.raises(SettingError, match="remembers pairs, and entities of both sides are new"):
        fit.fold_in({"visits": both})


@pytest.mark.parametrize("axis", ["user", "place"])
def test_the_bound_of_pairs_is_that_of_all_of_them(monkeypatch, axis):
    monkeypatch.setattr("plait.data.observing.pairs.DENSE", 0)
    fit = plait.fit(MEMORY, {"visits": table(users(0, 20))}, rank=2, seed=1, sweeps=30, progress=False)
    rows = table(["new", "other"], 3)
    if axis == "place":
        rows = pl.DataFrame({"user": users(0, 18), "place": ["q", "s"] * 9, "value": [1, 2, 3] * 6})
    few, many = (fit.fold_in({"visits": rows}, iterations=n) for n in (2, 300))
    for own in (fit, few, many):
        assert own.bound == pytest.approx(oracle.bound(*dense(own)), rel=1e-9)
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


# --- guests


def test_guests_are_answered_as_if_they_were_stored(side):
    rows = {"visits": table(["new", "other"], 3)}
    folded, cells = side.fold_in(rows), table(["new", "other"], 3).drop("value")
    assert side.predict("visits", cells, new=rows).equals(folded.predict("visits", cells))
    mixed = pl.concat([cells, table(users(0, 2)).drop("value")])
    assert side.predict("visits", mixed, new=rows).equals(folded.predict("visits", mixed))
    asked = {"given": {"user": ["new", "other"]}, "each": "user"}
    assert side.top("visits", 4, new=rows, **asked).equals(folded.top("visits", 4, **asked))
    assert side.top("visits", 4, new=rows).equals(folded.top("visits", 4))
    assert len(side.labels["user"]) == 20
    place = {"tags": pl.DataFrame({"place": ["q"], "tag": ["t1"]})}
    given = {"given": {"place": "q"}}
    assert side.top("visits", 4, new=place, **given).equals(side.fold_in(place).top("visits", 4, **given))


def test_guests_share_everything_large(fit, monkeypatch):
    from plait.fold.guests import Guests

    guests = Guests(fit, {"visits": table(["new"], 3)})
    alone = guests.alone("visits")
    assert alone.factors["P"] is fit.factors["P"]
    assert alone.factors["U"].mean.shape == (1, 3)
    assert len(alone.known["visits"]) == len(table(["new"], 3))


def test_friends_among_guests():
    text = "friends[user, friend] = U[user, r] U[friend, r]\nfriend: user"
    rng = np.random.default_rng(0)
    pairs = [(f"u{a:02}", f"u{b:02}") for a in range(15) for b in range(a) if rng.random() < 0.4]
    fit = plait.fit(
        text, {"friends": pl.DataFrame(pairs, schema=["user", "friend"], orient="row")}, rank=2, seed=0, progress=False
    )
    rows = {"friends": pl.DataFrame({"user": ["new", "u03", "new"], "friend": ["u01", "new", "other"]})}
    folded = fit.fold_in(rows)
    found = fit.top("friends", 5, given={"user": "new"}, new=rows)
    assert found.equals(folded.top("friends", 5, given={"user": "new"}))
    assert "new" not in found["friend"].to_list()
    assert folded.known["friends"].contain(np.array([[3, 15], [15, 3]])).all()


# --- how cells are observed


def test_a_new_entity_is_observed_as_the_others_are():
    listed = plait.Relation(table(users(0, 20)), observed="listed")
    fit = plait.fit(VISITS, {"visits": listed}, rank=2, seed=0, sweeps=20, progress=False)
    rows = table(["new"], 3)
    M = fit.fold_in({"visits": rows}).known["visits"].observed
    places = [list(fit.labels["place"]).index(place) for place in rows["place"]]
    assert [int(n) for n in np.flatnonzero(M.at(np.array([[20, k] for k in range(12)])))] == sorted(places)


def test_a_closed_place_is_closed_to_new_users_too():
    relation = plait.Relation(table(users(0, 20)), missing=pl.DataFrame({"place": ["p3"]}))
    fit = plait.fit(VISITS, {"visits": relation}, rank=2, seed=0, sweeps=20, progress=False)
    rows = table(["new"], 3).filter(pl.col("place") != "p3")
    folded = fit.fold_in({"visits": rows})
    at = list(fit.labels["place"]).index("p3")
    assert folded.known["visits"].observed.at(np.array([[20, at], [20, (at + 1) % 12]])).tolist() == [0.0, 1.0]
    assert "p3" not in folded.top("visits", 20, given={"user": "new"})["place"].to_list()


def test_new_rows_may_hide_cells(fit):
    rows = plait.Relation(table(["new"], 3), missing=pl.DataFrame({"user": ["new"], "place": ["p0"]}))
    folded = fit.fold_in({"visits": rows})
    assert folded.known["visits"].observed.at(np.array([[20, 0], [20, 1], [0, 0]])).tolist() == [0.0, 1.0, 1.0]


def test_an_exposure_by_default_is_that_of_new_entities():
    V = plait.Exposure(pl.DataFrame({"user": ["u01"], "place": ["p1"], "value": [5.0]}), default=0.5)
    fit = plait.fit(
        f"{VISITS} V[user, place]", {"visits": table(users(0, 20))}, rank=2, seed=0, sweeps=20, fixed={"V": V},
        progress=False,
    )  # fmt: skip
    rows = table(["new"], 3)
    folded = fit.fold_in({"visits": rows})
    assert folded.exposures.at("visits", 0, np.array([[20, 1], [1, 1]])).tolist() in ([0.5, 0.5], [0.5, 5.0])
    assert fit.predict("visits", rows.drop("value"), new={"visits": rows}).equals(
        folded.predict("visits", rows.drop("value"))
    )


# --- what is refused


def test_what_cannot_be_folded_in_is_refused(fit, side):
    known = pl.concat([table(["new"], 3), table(["u01"], 3).head(1)])
    with pytest.raises(DataError, match=r"user='u01', place='p\d+' has no new entity, and all others are held"):
        fit.fold_in({"visits": known})
    with pytest.raises(DataError, match="rows for 'visit', which is no relation"):
        fit.fold_in({"visit": known})
    with pytest.raises(DataError, match="an array does not say which entities are new"):
        fit.fold_in({"visits": np.ones((2, 12))})
    with pytest.raises(DataError, match="the labels are integers, but axis user has strings"):
        fit.fold_in({"visits": pl.DataFrame({"user": [3], "place": ["p1"]})})
    with pytest.raises(DataError, match="not what holds for the fit's own rows"):
        fit.fold_in({"visits": plait.Relation(table(["new"], 3), observed="listed")})
    with pytest.raises(SettingError, match="a whole number, 1 or more"):
        fit.fold_in({"visits": table(["new"], 3)}, iterations=0)
    with pytest.raises(DataError, match="the value is -1"):
        fit.fold_in({"visits": pl.DataFrame({"user": ["new"], "place": ["p1"], "value": [-1]})})
    given = plait.fit(
        VISITS, {"visits": table(users(0, 20))}, rank=3, seed=1, sweeps=5, fixed={"U": np.ones((20, 3))}, progress=False
    )
    with pytest.raises(SettingError, match="factor U is given, and has no row for 'new'"):
        given.fold_in({"visits": table(["new"], 3)})
    vector = plait.fit(
        f"{VISITS} V[user]", {"visits": table(users(0, 20))}, rank=3, seed=1, sweeps=5, fixed={"V": np.ones(20) / 2},
        progress=False,
    )  # fmt: skip
    with pytest.raises(SettingError, match="has an exposure that depends on user"):
        vector.fold_in({"visits": table(["new"], 3)})


def test_a_run_of_an_earlier_version_says_that_it_cannot(fit, tmp_path):
    import json

    fit.save(tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    header = json.loads(path.read_text())
    header["version"] = 4
    del header["relations"]["visits"]["observed"], header["checksum"]
    path.write_text(json.dumps(header))
    loaded = plait.load(tmp_path / "run")
    for ask in (loaded.fold_in, loaded.update):
        with pytest.raises(SettingError, match="saved by an earlier version"):
            ask({"visits": table(["new"], 3)})
