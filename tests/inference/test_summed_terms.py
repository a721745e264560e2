"""Terms ``w[q] N[h, p, q, t]`` with a sparse given factor, compared with the same factor as a dense array."""

import numpy as np
import polars as pl
import pytest

import plait

MODELS = [
    "x[h, p, t] = A[h, r] B[p, r] C[t, r] + w[q] N[h, p, q, t]",
    "x[h, p, t] = A[h, r] B[p, r] C[t, r] + w[q] N[h, p, q, t] V[h]",
    "x[h, p, t] = w[q] N[h, p, q, t] + A[h, r] C[t, r]",
    "x[h, p, t] = V[h] A[h, r] B[p, r] C[t, r] + w[q] N[h, p, q, t]",
]
SIZES = {"h": 6, "p": 3, "t": 5, "r": 2, "q": 4}


class Case:
    """A random model fitted twice: N by its entries, and as an array."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.likelihood = ("bernoulli", "poisson", "negbin")[seed % 3]
        X = (rng.random((6, 3, 5)) < 0.3) * rng.integers(1, 3, (6, 3, 5)).astype(float)
        X = np.minimum(X, 1) if self.likelihood == "bernoulli" else X
        if seed % 4 == 1:
            X[rng.random(X.shape) < 0.2] = np.nan
        relation = plait.Relation(X, likelihood=self.likelihood, weight=0.5 if seed % 4 == 2 else 1.0)
        N = rng.random((6, 3, 4, 5)) * (rng.random((6, 3, 4, 5)) < rng.choice([0.1, 0.4, 0.8]))
        N[0, 0, :, 0] = 0.5
        method = ("vb", "em", "map")[seed // 3 % 3]
        model = plait.Model(MODELS[seed // 2 % 4])
        fixed = {"V": rng.random(6) + 0.1} if "V" in model.factors else {}
        init = {
            name: rng.random([SIZES[index] for index in model.factor(name).indices]) + 0.1
            for name in model.factors
            if name not in ("N", "V")
        }
        options = {"method": method, "max_iter": 5, "seed": 1, "init": init}
        if method == "map":
            options["prior"] = plait.Gamma(1.0, 1.0)
        at = np.argwhere(N > 0)
        entries = pl.DataFrame(dict(zip("hpqt", at.T)) | {"value": N[N > 0]}).sample(fraction=1.0, shuffle=True, seed=1)
        self.sparse = plait.fit(model, {"x": relation}, rank=2, fixed={"N": entries, **fixed}, **options)
        self.dense = plait.fit(model, {"x": relation}, rank={"r": 2, "q": 4}, fixed={"N": N, **fixed}, **options)
        self.cells = pl.DataFrame(dict(zip("hpt", np.indices((6, 3, 5)).reshape(3, -1))))

    def check_factors(self):
        assert self.sparse.objective == pytest.approx(self.dense.objective, rel=1e-9)
        for name, posterior in self.dense.factors.items():
            if name != "N":
                np.testing.assert_allclose(self.sparse.factors[name].mean, posterior.mean, rtol=1e-7, atol=1e-12)

    def check_predictions(self):
        found, wanted = (fit.predict("x", self.cells) for fit in (self.sparse, self.dense))
        rate = "rate" if self.likelihood == "bernoulli" else "mean"
        np.testing.assert_allclose(found[rate], wanted[rate], rtol=1e-7)
        if self.likelihood != "bernoulli":  # an sd of probabilities depends on the whole distribution
            np.testing.assert_allclose(found["sd"], wanted["sd"], rtol=1e-6)

    def check_top(self):
        rate = "rate" if self.likelihood == "bernoulli" else "mean"
        found, wanted = (fit.top("x", k=4, per="h", score="rate") for fit in (self.sparse, self.dense))
        assert found.select("h", "p", "t").equals(wanted.select("h", "p", "t"))
        found, wanted = (fit.top("x", k=10, score="rate")[rate].to_list() for fit in (self.sparse, self.dense))
        np.testing.assert_allclose(found, wanted, rtol=1e-7)

    def check_explanation(self):
        cell = {"h": 0, "p": 0, "t": 0}
        found, wanted = ([one.share for one in fit.explain("x", cell).shares] for fit in (self.sparse, self.dense))
        np.testing.assert_allclose(found, wanted, atol=1e-8)


@pytest.mark.parametrize("seed", [0, 4])
def test_entries_and_array_give_the_same_fit(seed):
    case = Case(seed)
    case.check_factors()
    case.check_predictions()
    case.check_top()
    case.check_explanation()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "seed", [*range(5, 105), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(105, 505))]
)
def test_entries_and_array_give_the_same_fit_on_random_models(seed):
    test_entries_and_array_give_the_same_fit(seed)


RULES = "x[h, p, t] = A[h, r] B[p, r] A[t, r] + w[q] N[h, p, q, t]; t: h"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = (rng.random((8, 3, 8)) < 0.3) & ~np.eye(8, dtype=bool)[:, None]
    N = rng.random((8, 3, 3, 8)) * (rng.random((8, 3, 3, 8)) < 0.4)
    return named(np.argwhere(X), "hpt"), named(np.argwhere(N > 0), "hpqt").with_columns(value=N[N > 0])


def named(at, indices):
    return pl.DataFrame(
        {index: [f"{index if index in 'pq' else 'e'}{n}" for n in at.T[k]] for k, index in enumerate(indices)}
    )


@pytest.fixture(scope="module")
def fit(data):
    return plait.fit(RULES, {"x": data[0]}, fixed={"N": data[1]}, rank=2, max_iter=5, warmup=0, seed=0)


def test_the_table_decides_the_size_of_the_summed_index(fit):
    assert fit.rank == {"r": 2, "q": 3}
    assert fit.factors["w"].mean.shape == (3,)


def test_a_saved_run_has_the_sparse_factor(fit, data, tmp_path):
    fit.save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    cells = data[0].filter(pl.col("h") != pl.col("t"))
    assert loaded.predict("x", cells).equals(fit.predict("x", cells))
    assert str(loaded.explain("x", {"h": "e0", "p": "p0", "t": "e1"})) == str(
        fit.explain("x", {"h": "e0", "p": "p0", "t": "e1"})
    )


@pytest.mark.thorough
def test_new_entities_have_no_entries_and_updates_keep_them(fit, data):
    new = pl.DataFrame({"h": ["new", "new"], "p": ["p0", "p1"], "t": ["e0", "e2"]})
    folded = fit.fold_in({"x": new})
    cells = data[0].head(5)
    assert folded.predict("x", cells)["mean"].to_list() == pytest.approx(fit.predict("x", cells)["mean"].to_list())
    free = pl.DataFrame({"h": ["e0"], "p": ["p0"], "t": ["e7"]}).join(data[0], on=["h", "p", "t"], how="anti")
    assert fit.update({"x": free} if len(free) else {"x": new}).factors["w"].mean.shape == (3,)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{"prune": True}, {"dtype": "float32"}, {"accelerate": True}, {"restarts": 2}])
def test_options_of_a_fit(data, options):
    fit = plait.fit(RULES, {"x": data[0]}, fixed={"N": data[1]}, rank=2, max_iter=20, seed=0, **options)
    assert fit.rank["q"] == 3
    ranked = fit.top("x", k=5)["mean"].to_list()
    assert ranked == sorted(ranked, reverse=True)


@pytest.mark.parametrize(
    ("model", "fixed", "words"),
    [
        ("x[h, p, t] = A[h, r] B[p, r] A[t, r] + N[h, j] S[j, t]; t: h", ["h", "q"], "like w[q] N[h, p, t, q]"),
        ("x[h, p, t] = A[h, r] B[p, r] A[t, r] + w[q] v[q] N[h, p, q, t]; t: h", None, "like w[q] N[h, p, t, q]"),
        ("x[h, p, t] = A[h, q] B[p, q] A[t, q] + w[q] N[h, p, q, t]; t: h", None, "like w[q] N[h, p, t, q]"),
    ],
)
def test_other_terms_with_a_summed_index_are_refused(data, model, fixed, words):
    table = data[1] if fixed is None else data[1].select(fixed).unique().rename({"q": "j"})
    with pytest.raises(plait.errors.ParameterError, match="summed index") as error:
        plait.fit(model, {"x": data[0]}, fixed={"N": table}, rank=2)
    assert words in str(error.value)


def test_a_default_other_than_0_is_refused(data):
    with pytest.raises(plait.errors.ParameterError, match="a default of 1"):
        plait.fit(RULES, {"x": data[0]}, fixed={"N": plait.Exposure(data[1], default=1.0)}, rank=2)
