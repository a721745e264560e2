"""Draws of a fit as a tree of labelled datasets, as ArviZ has them."""

import sys

import numpy as np
import polars as pl
import pytest

import plait
from plait.answer import datatree as module
from tests.cases import make

xarray = pytest.importorskip("xarray", reason="xarray is optional")

VISITS = pl.DataFrame({"user": ["eve", "ann", "bob", "bob"], "place": ["zoo", "bar", "zoo", "pub"]})
TEXT = "visits[user,place] = U[user,r] P[r,place]"


@pytest.fixture(scope="module")
def fit():
    return plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=4, sweeps=5)


@pytest.fixture(scope="module")
def ensemble():
    return plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=4, sweeps=5, restarts=3)


def test_draws_have_chain_draw_and_the_labelled_axes_of_the_dataset(fit):
    tree = fit.to_datatree(draws=7, seed=1)
    assert isinstance(tree, xarray.DataTree)
    assert list(tree.children) == ["posterior"]
    posterior, plain = tree["posterior"], fit.to_xarray()
    assert posterior["P"].dims == ("chain", "draw", "r", "place")
    assert dict(posterior.sizes) == {"chain": 1, "draw": 7, "user": 3, "r": 2, "place": 3}
    for index in ("user", "place", "r"):
        assert posterior[index].values.tolist() == plain[index].values.tolist()
    assert set(posterior.data_vars) == {"U", "P"}


def test_draws_have_the_mean_and_sd_of_the_posterior_within_monte_carlo_error(fit):
    n = 20_000
    posterior = fit.to_datatree(draws=n, seed=2)["posterior"]
    for name, factor in fit.factors.items():
        found = posterior[name].mean(("chain", "draw")).values
        assert (np.abs(found - factor.mean) < 5 * factor.sd / np.sqrt(n)).all()
        spread = posterior[name].var(("chain", "draw")).values / factor.sd**2
        assert (np.abs(spread - 1) < 6 * np.sqrt((2 + 6 / factor.concentration) / n)).all()


def test_members_are_chains_and_draws_those_of_samples(ensemble):
    posterior = ensemble.to_datatree(draws=5, seed=3)["posterior"]
    draws = ensemble.samples(15, seed=3)
    for chain in range(3):
        for name in ("U", "P"):
            np.testing.assert_array_equal(posterior[name].sel(chain=chain), draws[name][chain::3])


def test_a_chain_is_distributed_as_its_member(ensemble):
    n = 5000
    posterior = ensemble.to_datatree(draws=n, factors="U", seed=0)["posterior"]
    for chain, member in enumerate(ensemble.members):
        U = member.factors["U"]
        assert (np.abs(posterior["U"].sel(chain=chain).mean("draw") - U.mean) < 5 * U.sd / np.sqrt(n)).all()


def test_members_that_lost_components_have_zeros_there():
    table = {"visits": pl.DataFrame({"user": list("aabbcc"), "place": list("xyxyzw")})}
    whole = plait.fit(TEXT, table, rank=4, prune=True, restarts=3, seed=0, sweeps=150)
    ranks = [member.rank["r"] for member in whole.members]
    assert min(ranks) < 4
    posterior = whole.to_datatree(draws=2, seed=0)["posterior"]
    assert posterior.sizes["r"] == max(ranks)
    for chain, rank in enumerate(ranks):
        assert (posterior["U"].sel(chain=chain).isel(r=slice(rank)) > 0).all()
        assert (posterior["U"].sel(chain=chain).isel(r=slice(rank, None)) == 0).all()


def test_equal_seeds_give_equal_trees_and_factors_may_be_chosen(fit):
    whole, one = fit.to_datatree(draws=3, seed=5), fit.to_datatree(draws=3, factors=["P"], seed=5)
    assert whole.identical(fit.to_datatree(draws=3, seed=5))
    assert not whole.equals(fit.to_datatree(draws=3, seed=6))
    assert list(one["posterior"].data_vars) == ["P"]
    assert "user" not in one["posterior"].coords
    assert one["posterior"]["P"].equals(whole["posterior"]["P"])
    assert one.identical(fit.to_datatree(draws=3, factors="P", seed=5))


def test_titles_are_coordinates_beside_names():
    titles = {"place": {"zoo": "The zoo", "pub": "The pub"}}
    found = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=4, sweeps=5, titles=titles)
    posterior = found.to_datatree(draws=2, seed=0)["posterior"]
    assert posterior["place_title"].dims == ("place",)
    assert posterior["place_title"].values.tolist() == found.to_xarray()["place_title"].values.tolist()
    assert posterior["P"].sel(place="zoo")["place_title"].item() == "The zoo"
    assert "place_title" not in found.to_datatree(draws=2, factors="U")["posterior"].coords


def test_no_draws_and_no_factors_are_empty(fit):
    assert fit.to_datatree(draws=0)["posterior"]["U"].shape == (1, 0, 3, 2)
    assert list(fit.to_datatree(draws=2, factors=[])["posterior"].data_vars) == []


def test_attributes_say_where_it_comes_from(fit):
    for group in (fit.to_datatree(draws=1), fit.to_datatree(draws=1)["posterior"]):
        assert plait.Model(group.attrs["model"]) == fit.model
        assert group.attrs["method"] == "vb"
        assert group.attrs["bound"] == fit.bound
        assert group.attrs["fingerprint"] == fit.fingerprint
        assert group.attrs["inference_library"] == "plait"
        assert group.attrs["inference_library_version"] == plait.__version__


def test_given_factors_are_constant_data():
    B = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = plait.fit("X[i,j] = A[i,r] B[r,j]", {"X": np.ones((3, 2))}, rank=2, seed=0, sweeps=5, fixed={"B": B})
    tree = found.to_datatree(draws=4, seed=0)
    assert list(tree["posterior"].data_vars) == ["A"]
    assert list(tree["constant_data"].data_vars) == ["B"]
    assert tree["constant_data"]["B"].dims == ("r", "j")
    np.testing.assert_array_equal(tree["constant_data"]["B"], B)


def test_a_given_posterior_is_drawn(fit):
    held = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=0, sweeps=5, fixed={"P": fit.factors["P"]})
    assert len(np.unique(held.to_datatree(draws=4, seed=0)["posterior"]["P"].sel(r=0, place="zoo"))) == 4


@pytest.mark.parametrize("name", ["tucker_mixed_order", "scalar", "friends_two_names", "two_visible"])
def test_any_model_can_be_drawn(name):
    found = make(name).fit(sweeps=2)
    posterior = found.to_datatree(draws=2, seed=0)["posterior"]
    for factor, own in found.factors.items():
        assert posterior[factor].dims == ("chain", "draw", *own.indices)


def test_the_rows_of_a_factor_over_pairs_are_one_axis():
    rng = np.random.default_rng(0)
    cells = pl.DataFrame({"i": rng.integers(0, 80, 300), "j": rng.integers(0, 80, 300)}).unique(maintain_order=True)
    found = plait.fit("X[i,j] = M[i,j] + a[i] b[j]", {"X": cells}, seed=0, sweeps=2)
    assert found.factors["M"].pairs is not None
    M = found.to_datatree(draws=2, factors="M", seed=0)["posterior"]["M"]
    assert M.dims == ("chain", "draw", "M_row")
    assert M.sizes["M_row"] == len(found.factors["M"].mean)


@pytest.mark.parametrize("method", ["em", "map"])
def test_points_have_no_posterior_to_draw_from(method):
    prior = {"prior": plait.Gamma(1.5, 1.0)} if method == "map" else {}
    found = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=0, sweeps=2, method=method, **prior)
    with pytest.raises(plait.SettingError, match=r"finds points, .*\n.*fit\.to_xarray\(\) has the points"):
        found.to_datatree()


@pytest.mark.parametrize(
    "text", ["X[chain,j] = A[chain,r] B[j,r]", "X[i,j] = draw[i,r] B[j,r]", "X[i,j] = i[i,r] B[j,r]"]
)
def test_names_that_would_mean_two_things_are_refused(text):
    found = plait.fit(text, {"X": np.ones((2, 3))}, rank=2, seed=0, sweeps=1)
    with pytest.raises(plait.SettingError, match="would name both"):
        found.to_datatree()
    assert list(found.to_datatree(draws=1, factors="B")["posterior"].data_vars) == ["B"]


def test_unknown_factors_and_senseless_draws_are_refused(fit):
    with pytest.raises(plait.SettingError, match=r"'V' is no factor of the model"):
        fit.to_datatree(factors=["U", "V"])
    with pytest.raises(plait.SettingError, match=r"\['U'\] is no factor of the model"):
        fit.to_datatree(factors=[["U"]])
    with pytest.raises(plait.SettingError, match="`factors` must be the name of a factor, or several, got 3"):
        fit.to_datatree(factors=3)
    for draws in (-1, 1.5, True, "10"):
        with pytest.raises(plait.SettingError, match="`draws` must be a whole number, 0 or more"):
            fit.to_datatree(draws)
    with pytest.raises(plait.SettingError, match="`seed` must be a whole number"):
        fit.to_datatree(seed=-1)


def test_an_exposure_is_not_drawn():
    found = make("cp3", exposed=True).fit(sweeps=2)
    with pytest.raises(plait.SettingError, match=r"'V' is an exposure, which is given"):
        found.to_datatree(factors="V")


def test_more_draws_than_memory_holds_are_refused_with_a_cure(ensemble, monkeypatch):
    monkeypatch.setattr(module, "memory", lambda: 1e6)
    text = r"10,000 draws from each of 3 members need 0\.0 GB, those of U alone 0\.0 GB; .*\n.*`factors`.*`draws`"
    with pytest.raises(plait.SettingError, match=text):
        ensemble.to_datatree(draws=10_000)
    assert ensemble.to_datatree(draws=100)["posterior"].sizes["draw"] == 100


def test_arviz_summarises_and_extracts(fit):
    arviz = pytest.importorskip("arviz", reason="arviz is optional")
    n = 4000
    tree = fit.to_datatree(draws=n, seed=0)
    if hasattr(arviz, "InferenceData"):  # before version 1, which has trees only
        tree = arviz.InferenceData.from_datatree(tree)
    summary = arviz.summary(tree, kind="stats", round_to="none")
    for row, user in enumerate(fit.labels["user"]):
        found, U = summary.loc[f"U[{user}, 1]"], fit.factors["U"]
        assert abs(found["mean"] - U.mean[row, 1]) < 5 * U.sd[row, 1] / np.sqrt(n)
    assert arviz.extract(tree)["U"].sizes["sample"] == n


def test_plait_needs_no_arviz_for_it(fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    assert fit.to_datatree(draws=2)["posterior"].sizes["draw"] == 2


def test_a_missing_xarray_is_named_with_its_cure(fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(plait.PlaitError, match=r"pip install 'tensorplait\[xarray\]'"):
        fit.to_datatree()
