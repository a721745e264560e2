"""A fit as a labelled dataset, and its draws as a tree of datasets, as ArviZ has them."""

import datetime
import sys

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.problems import make

xarray = pytest.importorskip("xarray", reason="xarray is optional")

VISITS = pl.DataFrame({"user": ["eve", "ann", "bob", "bob"], "place": ["zoo", "bar", "zoo", "pub"]})
TEXT = "visits[user,place] = U[user,r] P[r,place]"


@pytest.fixture(scope="module")
def fit():
    return plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=4, max_iter=5)


@pytest.fixture(scope="module")
def ensemble():
    return plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=4, max_iter=5, restarts=3)


@pytest.fixture(scope="module")
def dated():
    days = [datetime.date(2024, 1, d) for d in (3, 1, 2)]
    visits = pl.DataFrame({"user": ["eve", "ann", "bob"], "day": days})
    return plait.fit("visits[user,day] = U[user,r] D[r,day]", {"visits": visits}, rank=2, seed=4, max_iter=5)


def test_factors_are_found_by_name(dated):
    data = dated.to_xarray()
    row = list(dated.entities["user"]).index("bob")
    np.testing.assert_array_equal(data["U"].sel(user="bob"), dated.factors["U"].mean[row])
    np.testing.assert_array_equal(data["D"].sel(day="2024-01-02", r=1), dated.factors["D"].mean[1, 1])
    assert data["D"].dims == ("r", "day")
    assert data["r"].values.tolist() == [0, 1]


def test_every_part_of_the_posterior_is_there(dated):
    data = dated.to_xarray()
    assert set(data.data_vars) == {f"{n}{p}" for n in "UD" for p in ("", "_sd", "_concentration", "_scale")}
    for name, posterior in dated.factors.items():
        for part in ("sd", "concentration", "scale"):
            np.testing.assert_array_equal(data[f"{name}_{part}"], getattr(posterior, part))


def test_the_dataset_is_a_copy(dated):
    data = dated.to_xarray()
    data["U"][:] = -1.0
    assert (dated.factors["U"].mean > 0).all()


def test_points_have_no_spread():
    data = make("matrix").fit("em", max_iter=2).to_xarray()
    assert (data["A_sd"] == 0).all()
    assert np.isinf(data["A_concentration"]).all()


@pytest.mark.parametrize("name", ["tucker_mixed_order", "scalar", "friends_two_names", "two_visible", "coupled_core"])
def test_dimensions_of_any_model(name):
    found = make(name).fit(max_iter=2)
    data, posterior = found.to_xarray(), found.to_datatree(draws=2, seed=0)["posterior"]
    for factor, own in found.factors.items():
        assert data[factor].dims == own.indices
        assert posterior[factor].dims == ("chain", "draw", *own.indices)
        np.testing.assert_array_equal(data[factor], own.mean)


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("X[i,j] = A[i,r] A_sd[j,r]", ["to_xarray"]),
        ("X[chain,j] = A[chain,r] B[j,r]", ["to_datatree"]),
        ("X[i,j] = draw[i,r] B[j,r]", ["to_datatree"]),
        ("X[i,j] = i[i,r] B[j,r]", ["to_xarray", "to_datatree"]),
    ],
)
def test_ambiguous_names_are_refused(text, ways):
    found = plait.fit(text, {"X": np.ones((2, 3))}, rank=2, seed=0, max_iter=1)
    for way in ways:
        with pytest.raises(plait.errors.ParameterError, match="would be the name of both"):
            getattr(found, way)()
    if "B" in found.factors:
        assert list(found.to_datatree(draws=1, factors="B")["posterior"].data_vars) == ["B"]


@pytest.mark.parametrize("way", ["to_xarray", "to_datatree"])
def test_a_missing_xarray_is_named(fit, monkeypatch, way):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(plait.PlaitError, match=r"pip install 'tensorplait\[xarray\]'"):
        getattr(fit, way)()


def test_draws_have_labelled_axes(fit):
    tree = fit.to_datatree(draws=7, seed=1)
    assert isinstance(tree, xarray.DataTree)
    assert list(tree.children) == ["posterior"]
    posterior, plain = tree["posterior"], fit.to_xarray()
    assert posterior["P"].dims == ("chain", "draw", "r", "place")
    assert dict(posterior.sizes) == {"chain": 1, "draw": 7, "user": 3, "r": 2, "place": 3}
    for index in ("user", "place", "r"):
        assert posterior[index].values.tolist() == plain[index].values.tolist()
    assert set(posterior.data_vars) == {"U", "P"}


def test_members_are_chains_of_the_draws_of_samples(fit, ensemble):
    for found in (fit, ensemble):
        chains = len(found.members)
        posterior, draws = found.to_datatree(draws=5, seed=3)["posterior"], found.sample(5 * chains, seed=3)
        for chain in range(chains):
            for name in ("U", "P"):
                np.testing.assert_array_equal(posterior[name].sel(chain=chain), draws[name][chain::chains])
    n = 5000
    posterior = ensemble.to_datatree(draws=n, factors="U", seed=0)["posterior"]
    for chain, member in enumerate(ensemble.members):
        U = member.factors["U"]
        assert (np.abs(posterior["U"].sel(chain=chain).mean("draw") - U.mean) < 5 * U.sd / np.sqrt(n)).all()


def test_pruned_components_are_zeros():
    table = {"visits": pl.DataFrame({"user": list("aabbcc"), "place": list("xyxyzw")})}
    whole = plait.fit(TEXT, table, rank=4, prune=True, restarts=3, seed=0, max_iter=150)
    ranks = [member.rank["r"] for member in whole.members]
    assert min(ranks) < 4
    posterior = whole.to_datatree(draws=2, seed=0)["posterior"]
    assert posterior.sizes["r"] == max(ranks)
    for chain, rank in enumerate(ranks):
        assert (posterior["U"].sel(chain=chain).isel(r=slice(rank)) > 0).all()
        assert (posterior["U"].sel(chain=chain).isel(r=slice(rank, None)) == 0).all()


def test_seeds_and_factors(fit):
    whole, one = fit.to_datatree(draws=3, seed=5), fit.to_datatree(draws=3, factors=["P"], seed=5)
    assert whole.identical(fit.to_datatree(draws=3, seed=5))
    assert not whole.equals(fit.to_datatree(draws=3, seed=6))
    assert list(one["posterior"].data_vars) == ["P"]
    assert "user" not in one["posterior"].coords
    assert one["posterior"]["P"].equals(whole["posterior"]["P"])
    assert one.identical(fit.to_datatree(draws=3, factors="P", seed=5))
    assert fit.to_datatree(draws=0)["posterior"]["U"].shape == (1, 0, 3, 2)
    assert list(fit.to_datatree(draws=2, factors=[])["posterior"].data_vars) == []


def test_titles_are_coordinates():
    titles = {"place": {"zoo": "The zoo", "pub": "The pub"}}
    found = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=4, max_iter=5, titles=titles)
    posterior = found.to_datatree(draws=2, seed=0)["posterior"]
    assert posterior["place_title"].dims == ("place",)
    assert posterior["place_title"].values.tolist() == found.to_xarray()["place_title"].values.tolist()
    assert posterior["P"].sel(place="zoo")["place_title"].item() == "The zoo"
    assert "place_title" not in found.to_datatree(draws=2, factors="U")["posterior"].coords


def test_attributes_name_the_fit(fit):
    attrs = fit.to_xarray().attrs
    assert (attrs["stop"], attrs["seed"], attrs["method"]) == (str(fit.stop), 4, "vb")
    assert (plait.Model(attrs["model"]), attrs["objective"]) == (fit.model, fit.objective)
    for group in (fit.to_datatree(draws=1), fit.to_datatree(draws=1)["posterior"]):
        assert plait.Model(group.attrs["model"]) == fit.model
        wanted = {"method": "vb", "objective": fit.objective, "fingerprint": fit.fingerprint}
        wanted |= {"inference_library": "plait", "inference_library_version": plait.__version__}
        assert wanted.items() <= group.attrs.items()


def test_given_factors_are_constant_data_and_given_posteriors_are_drawn(fit):
    B = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = plait.fit("X[i,j] = A[i,r] B[r,j]", {"X": np.ones((3, 2))}, rank=2, seed=0, max_iter=5, fixed={"B": B})
    tree = found.to_datatree(draws=4, seed=0)
    assert list(tree["posterior"].data_vars) == ["A"]
    assert list(tree["constant_data"].data_vars) == ["B"]
    assert tree["constant_data"]["B"].dims == ("r", "j")
    np.testing.assert_array_equal(tree["constant_data"]["B"], B)
    held = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=0, max_iter=5, fixed={"P": fit.factors["P"]})
    assert len(np.unique(held.to_datatree(draws=4, seed=0)["posterior"]["P"].sel(r=0, place="zoo"))) == 4


def test_rows_of_a_factor_over_pairs_are_one_axis():
    rng = np.random.default_rng(0)
    cells = pl.DataFrame({"i": rng.integers(0, 80, 300), "j": rng.integers(0, 80, 300)}).unique(maintain_order=True)
    found = plait.fit("X[i,j] = M[i,j] + a[i] b[j]", {"X": cells}, seed=0, max_iter=2)
    assert found.factors["M"].pairs is not None
    M = found.to_datatree(draws=2, factors="M", seed=0)["posterior"]["M"]
    assert M.dims == ("chain", "draw", "M_row")
    assert M.sizes["M_row"] == len(found.factors["M"].mean)


@pytest.mark.parametrize("method", ["em", "map"])
def test_points_are_refused(method):
    prior = {"prior": plait.Gamma(1.5, 1.0)} if method == "map" else {}
    found = plait.fit(TEXT, {"visits": VISITS}, rank=2, seed=0, max_iter=2, method=method, **prior)
    with pytest.raises(plait.errors.ParameterError, match=r"gives point estimates.*\n.*fit\.to_xarray\(\)` for"):
        found.to_datatree()


def test_wrong_arguments_are_named(fit):
    for options, message in (
        ({"factors": ["U", "V"]}, r"'V' is not a factor of the model"),
        ({"factors": [["U"]]}, r"\['U'\] is not a factor of the model"),
        ({"factors": 3}, "`factors` must be .* got 3"),
        *(({"draws": draws}, "`draws` must be an integer of at least 0") for draws in (-1, 1.5, True, "10")),
        ({"seed": -1}, "`seed` must be an integer"),
    ):
        with pytest.raises(plait.errors.ParameterError, match=message):
            fit.to_datatree(**options)
    with pytest.raises(plait.errors.ParameterError, match=r"'V' is a fixed exposure"):
        make("cp3", exposed=True).fit(max_iter=2).to_datatree(factors="V")


def test_too_many_draws_for_the_memory_are_refused(ensemble, tuning):
    tuning(memory_bytes=1e6)
    text = r"10,000 draws from each of 3 members need 0\.0 GB, for U alone 0\.0 GB; .*\n.*`factors`.*`draws`"
    with pytest.raises(plait.errors.ParameterError, match=text):
        ensemble.to_datatree(draws=10_000)
    assert ensemble.to_datatree(draws=100)["posterior"].sizes["draw"] == 100


def test_arviz_summarises_and_extracts(fit, monkeypatch):
    arviz = pytest.importorskip("arviz", reason="arviz is optional")
    n = 4000
    tree = fit.to_datatree(draws=n, seed=0)
    if hasattr(arviz, "InferenceData"):  # before version 1, which has trees only
        tree = arviz.InferenceData.from_datatree(tree)
    summary = arviz.summary(tree, kind="stats", round_to="none")
    for row, user in enumerate(fit.entities["user"]):
        found, U = summary.loc[f"U[{user}, 1]"], fit.factors["U"]
        assert abs(found["mean"] - U.mean[row, 1]) < 5 * U.sd[row, 1] / np.sqrt(n)
    assert arviz.extract(tree)["U"].sizes["sample"] == n
    monkeypatch.setitem(sys.modules, "arviz", None)
    assert fit.to_datatree(draws=2)["posterior"].sizes["draw"] == 2
