"""`Fit.components` compared with sums over whole arrays."""

import itertools

import numpy as np
import polars as pl
import pytest

import plait
from tests.support import pair_factors as paired
from tests.support.components import weights_of_others
from tests.support.oracle import sd_of_shares
from tests.support.problems import make
from tests.support.sums import sum_fit

MODELS = ("cp3", "tucker", "tucker2", "train", "block_term", "two_visible", "coupled_paper", "nmf_order", "friends")
DOUBLED = ("symmetric", "symmetric_coupled", "rescal")
FIRST = ["component", "name", "index", "factor", "axis", "entity", "weight", "sd", "lift", "data"]


def along(fit, name, visible, latent, array, weights):
    """Σ of an array of the factor × weights over all of its indices but a visible and a latent one."""
    indices = fit.model.factor(name).indices
    places = {index: n for n, index in enumerate(indices)}
    over = [places[index] for index in fit.model.factor(name).latent]
    return np.einsum(array, list(range(len(indices))), weights, over, [places[visible], places[latent]])


def popular(fit, name, visible):
    """Every entity's share of the counts of known links, link by link."""
    place, counts = fit.model.factor(name).indices.index(visible), np.zeros(len(fit.entities[visible]))
    for equation in fit.model.equations:
        known = fit.known[equation.relation]
        columns = {use.indices[place] for use in equation.occurrences if use.factor == name}
        for cell, value, weight in zip(known.cells, known.values, np.broadcast_to(known.weights, len(known.values))):
            for index in columns:
                counts[cell[equation.indices.index(index)]] += value * weight
    return counts / counts.sum()


def by_hand(fit):
    """All rows, by index, component, factor and index of the factor."""
    found = {}
    for name, posterior in fit.factors.items():
        factor, E = fit.model.factor(name), posterior.mean
        if not factor.latent or not factor.visible:
            continue
        W, learnt = weights_of_others(fit, name), E
        if fit.method == "vb" and name in fit.prior:
            A = np.broadcast_to(fit.prior[name].concentration, E.shape)
            learnt = E * (posterior.concentration - A) / posterior.concentration
        for visible, latent in itertools.product(factor.visible, factor.latent):
            mean, data = (along(fit, name, visible, latent, array, W) for array in (E, learnt))
            variance = along(fit, name, visible, latent, posterior.sd**2, W**2)
            for c in range(fit.rank[latent]):
                scale = mean[:, c].sum()
                found[latent, c, name, visible] = (
                    mean[:, c] / scale, sd_of_shares(mean[:, c], variance[:, c]), popular(fit, name, visible),
                    data[:, c] / mean[:, c],
                )  # fmt: skip
    return found


def check(fit):
    table, seen = fit.components(top=None), 0
    assert table.columns == [*FIRST, *(f"share_{name}" for name in fit.model.relations)]
    for (latent, c, name, visible), (weight, sd, popularity, data) in by_hand(fit).items():
        axes = [fit.model.axis(index) for index in fit.model.factor(name).visible]
        axis = visible if axes.count(fit.model.axis(visible)) > 1 else fit.model.axis(visible)
        own = table.filter(
            pl.col("index") == latent, pl.col("component") == c, pl.col("factor") == name, pl.col("axis") == axis
        )
        rows = own["entity"].cast(pl.Int64).to_numpy()
        assert sorted(rows) == list(range(len(weight)))
        np.testing.assert_allclose(own["weight"], weight[rows], rtol=1e-9)
        np.testing.assert_allclose(own["sd"], sd[rows], rtol=1e-7, atol=1e-7)
        assert own["weight"].sum() == pytest.approx(1.0)
        assert own["weight"].to_list() == sorted(own["weight"], reverse=True)
        known = popularity[rows] > 0
        assert own["lift"].is_not_null().to_list() == known.tolist()
        np.testing.assert_allclose(own["lift"].drop_nulls(), (weight[rows] / popularity[rows].clip(1e-300))[known])
        np.testing.assert_allclose(own["data"], data[rows].clip(0, 1), rtol=1e-9, atol=1e-12)
        seen += len(own)
    assert seen == len(table)
    return table


@pytest.mark.quick(name=["cp3", "tucker", "coupled_paper", "symmetric_coupled"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("name", [*MODELS, *DOUBLED])
def test_components_equal_sums_over_whole_arrays(name, likelihood):
    check(make(name, "missing_cells", likelihood).fit(max_iter=5))


def test_top_has_the_heaviest_entities_in_order():
    fit = make("coupled_paper").fit(max_iter=5)
    few, whole = fit.components(top=2), fit.components(top=None)
    assert few.equals(whole.filter(pl.int_range(pl.len()).over("index", "component", "factor", "axis") < 2))
    keys = [(c, f) for c in range(fit.rank["r"]) for f in fit.model.factors for _ in range(2)]
    assert list(zip(few["component"], few["factor"])) == keys
    for top in (0, -1, True, 2.5, "all"):
        with pytest.raises(plait.errors.ParameterError, match="`top` must be an integer of at least 1, or None, got"):
            fit.components(top=top)


def test_equal_weights_are_in_the_order_of_rows():
    X, init = np.zeros((6, 4)), {"A": np.ones((6, 1))}
    X[:, 0] = 1.0
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=1, method="em", seed=0, max_iter=20, init=init)
    own = fit.components(top=3).filter(pl.col("factor") == "A")
    assert own["entity"].to_list() == ["0", "1", "2"]


def test_shares_of_relations_are_those_of_the_coupling():
    fit = make("coupled_paper").fit(max_iter=5)
    shares = {(c, name): s for c, name, s in fit.coupling().select("component", "relation", "share").iter_rows()}
    for row in fit.components(top=1).iter_rows(named=True):
        for name in fit.model.relations:
            assert row[f"share_{name}"] == shares[row["component"], name]
    table = make("coupled_tucker").fit(max_iter=5).components(top=1)
    assert table["index"].unique(maintain_order=True).to_list()[0] == "p"
    assert table.filter(pl.col("index") == "p")["share_X3"].is_null().all()
    assert table.filter(pl.col("index") == "p")["share_X2"].is_not_null().all()


def test_terms_that_share_no_factor_have_components_of_their_own():
    fit = sum_fit("same_latent")
    shares = dict(fit.coupling().filter(pl.col("component") == 0).select("term", "share").iter_rows())
    table = fit.components(top=1).filter(pl.col("component") == 0)
    for factor, share in table.select("factor", "share_X").iter_rows():
        assert share == shares["A B" if factor in "AB" else "C D"]


def test_two_indices_of_one_factor_are_one_set_of_components():
    fit = make("rescal").fit(max_iter=5)
    table = fit.components(top=1)
    assert table.filter(pl.col("factor") == "A")["index"].unique().to_list() == ["a"]
    shares = fit.coupling().group_by("component").agg(pl.col("share").mean()).sort("component")["share"]
    assert table.filter(pl.col("factor") == "A")["share_X"].to_list() == pytest.approx(shares.to_list())


def test_sd_is_that_of_posterior_draws():
    fit = make("cp3").fit(max_iter=50)
    factor = next(name for name in fit.factors)
    C, D = (np.broadcast_to(array, fit.factors[factor].mean.shape) for array in
            (fit.factors[factor].concentration, fit.factors[factor].scale))  # fmt: skip
    drawn = np.random.default_rng(0).gamma(C, D, (20_000, *C.shape))
    wanted = (drawn / drawn.sum(axis=1, keepdims=True)).std(axis=0)
    heavy = fit.components(top=1).filter(pl.col("factor") == factor)  # of light ones the first order says little
    for component, entity, sd in heavy.select("component", "entity", "sd").rows():
        assert sd == pytest.approx(wanted[int(entity), component], rel=0.3)


def test_points_have_no_sd():
    assert (check(make("cp3").fit("em", max_iter=5))["sd"] == 0).all()
    assert (make("cp3").fit("map", max_iter=5).components(top=None)["sd"] == 0).all()


def test_under_map_data_are_the_counts_of_links():
    fit = make("cp3").fit("map", max_iter=5)
    known = fit.known["X"]
    cells = pl.DataFrame({index: known.cells[:, n].astype(int) for n, index in enumerate("ijk")})
    allocated = fit.responsibilities("X", cells)
    table = fit.components(top=None)
    for index, name in zip("ijk", "ABC"):
        counts = allocated.group_by(index, "r").agg(pl.col("expected").sum())
        expected = {(i, r): n / (n + 0.6) for i, r, n in counts.iter_rows()}  # the prior has concentration 1.6
        own = table.filter(pl.col("factor") == name)
        for entity, component, data in own.select("entity", "component", "data").iter_rows():
            assert data == pytest.approx(expected.get((int(entity), component), 0.0))


def test_an_entity_without_links_rests_on_the_prior():
    X = np.random.default_rng(0).poisson(1.0, (6, 5)).astype(float)
    X[3] = np.nan
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, seed=0, max_iter=20)
    own = fit.components(top=None).filter(pl.col("factor") == "A", pl.col("entity") == "3")
    assert own["data"].to_list() == pytest.approx([0.0, 0.0], abs=1e-12)
    assert own["lift"].is_null().all()


@pytest.mark.usefixtures("sparse")
def test_a_factor_over_pairs_is_summed_for_each_axis():
    model, data = paired.draw("woven")[:2]
    fit = paired.fit_of(model, data, max_iter=5)
    factor, pairs = fit.factors["M"], fit.factors["M"].pairs
    assert pairs is not None
    table = fit.components(top=None).filter(pl.col("factor") == "M")
    assert table["axis"].unique(maintain_order=True).to_list() == list(pairs.visible)
    for place, index in enumerate(pairs.visible):
        held = np.zeros((pairs.sizes[place], fit.rank["r"]))
        for pair, row in zip(pairs.coords, factor.mean):
            held[pair[place]] += row
        own = table.filter(pl.col("axis") == index)
        for component, entity, weight in own.select("component", "entity", "weight").iter_rows():
            assert weight == pytest.approx(held[int(entity), component] / held[:, component].sum())


def test_an_ensemble_shows_its_best_member():
    X = np.random.default_rng(0).poisson(1.0, (8, 7))
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, seed=0, max_iter=30, restarts=2)
    best = max(fit.members, key=lambda member: member.objective)
    assert fit.components().equals(best.components())


def test_a_loaded_run_has_the_same_tables(tmp_path):
    fit = make("coupled_paper", "missing_cells").fit(max_iter=5)
    fit.save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    assert loaded.components().equals(fit.components())
    assert loaded.coupling().equals(fit.coupling())
    assert loaded.surprising("X1").equals(fit.surprising("X1"))


def test_a_model_without_latent_indices_has_no_components():
    table = plait.fit("X[i,j] = a[i] b[j]", {"X": np.ones((3, 4))}, max_iter=3).components()
    assert len(table) == 0
    assert table.columns == [*FIRST, "share_X"]


def test_tables_have_titles():
    table, titles = pl.DataFrame({"user": ["ann", "ann", "bob"], "film": [1, 2, 2]}), {"film": {2: "Alien"}}
    text = "seen[user, film] = U[user, r] F[film, r]"
    fit = plait.fit(text, {"seen": table}, rank=1, seed=0, max_iter=3, titles=titles)
    found = fit.components()
    assert found.columns[5:7] == ["entity", "entity_title"]
    rows = {(axis, entity): title for axis, entity, title in found.select("axis", "entity", "entity_title").rows()}
    assert rows == {("user", "ann"): None, ("user", "bob"): None, ("film", "1"): None, ("film", "2"): "Alien"}
    assert fit.similar("film", 1).columns == ["film", "film_title", "similarity", "sd"]
    assert fit.similar("film", 1)["film_title"].to_list() == ["Alien"]
    assert fit.surprising("seen").columns[:4] == ["user", "film", "film_title", "kind"]
