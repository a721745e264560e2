"""`Fit.similar`: entities whose expected counts come from the same components."""

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.components import weights_of_others
from tests.support.problems import make


def profiles(fit, name, E=None):
    """The share of each component in what is expected of every entity of a factor's one visible index."""
    factor = fit.model.factor(name)
    E = np.moveaxis(fit.factors[name].mean if E is None else E, factor.indices.index(factor.visible[0]), 0)
    held = (E * weights_of_others(fit, name)).reshape(len(E), -1)
    return held / held.sum(axis=1, keepdims=True)


def alike(p, row):
    """Σ √(p q) of every profile with one of them."""
    return np.array([sum(np.sqrt(a * b) for a, b in zip(p[row], own)) for own in p])


def check(table, axis, row, expected):
    order = [n for n in np.argsort(-expected, kind="stable") if n != row]
    assert table.columns == [axis, "similarity", "sd"]
    assert table[axis].to_list() == order[: len(table)]
    np.testing.assert_allclose(table["similarity"], expected[order[: len(table)]], rtol=1e-9)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize(
    ("name", "axis", "factor"),
    [("cp3", "j", "B"), ("tucker", "i", "A"), ("train", "j", "B"), ("nmf_order", "j", "H"), ("symmetric", "user", "U")],
)
def test_similarity_is_that_of_profiles(name, axis, factor, likelihood):
    fit = make(name, "missing_cells", likelihood).fit(max_iter=5)
    check(fit.similar(axis, 1, k=3), axis, 1, alike(profiles(fit, factor), 1))


def test_factors_are_weighted_by_the_counts_of_their_relations():
    fit = make("friends").fit(max_iter=5)
    counts = {name: sum(known.values * known.weights) for name, known in fit.known.items()}
    U, F = counts["visits"] + counts["friends"], counts["friends"]
    expected = (U * alike(profiles(fit, "U"), 2) + F * alike(profiles(fit, "F"), 2)) / (U + F)
    check(fit.similar("user", 2), "user", 2, expected)
    by_index = fit.similar("friend", 2)
    assert by_index.columns == ["friend", "similarity", "sd"]
    assert by_index["similarity"].equals(fit.similar("user", 2)["similarity"])


def test_scales_of_components_do_not_matter():
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 1.0, (9, 3)) @ rng.gamma(0.5, 2.0, (3, 8)))
    A, B, scale = rng.gamma(1.0, 1.0, (9, 3)), rng.gamma(1.0, 1.0, (8, 3)), np.array([1.0, 100.0, 1e-3])
    how = {"model": "X[i,j] = A[i,r] B[j,r]", "data": {"X": X}, "rank": 3, "method": "em", "max_iter": 0}
    first = plait.fit(**how, init={"A": A, "B": B}).similar("i", 4)
    second = plait.fit(**how, init={"A": A * scale, "B": B / scale}).similar("i", 4)
    assert first["i"].equals(second["i"])
    np.testing.assert_allclose(first["similarity"], second["similarity"], rtol=1e-9)


def test_sd_is_that_of_posterior_draws():
    fit = make("cp3").fit(max_iter=20)
    table = fit.similar("i", 0)
    draws = fit.sample(4000, seed=1)["A"]
    found = np.array([alike(profiles(fit, "A", draw), 0) for draw in draws])[:, table["i"].to_numpy()]
    expected = np.sqrt(((found - table["similarity"].to_numpy()) ** 2).mean(axis=0))
    np.testing.assert_allclose(table["sd"], expected, rtol=0.2)


def test_an_entity_without_data_is_uncertain():
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(3), np.ones((5, 6))) * rng.poisson(4.0, (15, 18)).astype(float)
    X[7] = np.nan
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=3, seed=0, max_iter=60)
    lost, told = fit.similar("i", 7, 3), fit.similar("i", 2, 3)
    assert set(told["i"]) <= set(range(5))
    assert lost["sd"].min() > 5 * told["sd"].max()


def test_points_have_no_sd_but_an_ensemble_has():
    X = np.random.default_rng(0).poisson(1.0, (8, 7))
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, seed=0, max_iter=30, method="em")
    assert (fit.similar("i", 0)["sd"] == 0).all()
    several = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, seed=0, max_iter=30, method="em", restarts=3)
    each = np.array([alike(profiles(member, "A"), 0) for member in several.members])
    table = several.similar("i", 0)
    check(table, "i", 0, each.mean(axis=0))
    np.testing.assert_allclose(table["sd"], each.std(axis=0)[table["i"].to_numpy()], atol=1e-9)


def test_names_of_the_data_and_a_loaded_run(tmp_path):
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"user": [f"u{n}" for n in rng.integers(0, 9, 60)], "film": rng.integers(0, 8, 60)}).unique()
    fit = plait.fit("seen[user, film] = U[user, r] F[film, r]", {"seen": table}, rank=2, seed=0, max_iter=20)
    found = fit.similar("user", "u3", 4)
    assert found.schema["user"] == pl.String
    assert len(found) == 4
    assert "u3" not in found["user"]
    assert found["similarity"].is_between(0, 1).all()
    assert fit.similar("film", 3).schema["film"].is_integer()
    fit.save(tmp_path / "run")
    assert plait.load(tmp_path / "run").similar("user", "u3", 4).equals(found)
    assert len(fit.similar("user", "u3", 100)) == 8


def test_rows_of_zeros_have_no_nan():
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": np.eye(4)}, rank=2, method="em", seed=0, max_iter=200)
    for axis in "ij":
        for row in range(4):
            assert fit.similar(axis, row).null_count().sum_horizontal().item() == 0
            assert not fit.similar(axis, row)["similarity"].is_nan().any()


WRONG = {
    "axis": (("usr", "ann"), "'usr' is not an axis of the model.\nDid you mean 'user'"),
    "name": (("user", "anm"), "'anm' is not an entity of axis user.*\nDid you mean 'ann'"),
    "no latent index": (("day", 1), "no factor of axis day has a latent index"),
    "k": (("user", "ann", 0), "`k` must be an integer of at least 1, got 0"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_named(arguments, message):
    seen = pl.DataFrame({"user": ["ann", "bob", "bob"], "film": [1, 1, 2]})
    text = "seen[user, film] = U[user, r] F[film, r]; open[day] = d[day]"
    fit = plait.fit(text, {"seen": seen, "open": pl.DataFrame({"day": [1, 2]})}, rank=1, seed=0, max_iter=3)
    with pytest.raises(plait.PlaitError, match=message):
        fit.similar(*arguments)
