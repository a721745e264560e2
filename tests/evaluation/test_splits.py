"""Every way to split, crossed with ways of observing, leakage and random models: data are conserved, nothing leaks."""

import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plait
from plait.errors import ParameterError
from plait.executors import Reference
from tests.support.command_line import plait_command
from tests.support.ways_of_observing import WAYS

BYS = ("cells", "links", "thinned_links", "index", "pair", "leave_last_out")
SIZE = {"p": 6, "q": 5, "s": 3}  # of an axis
AXIS = {"i": "p", "j": "p", "k": "q", "l": "s"}  # of an index


@st.composite
def worlds(draw):
    """One to three relations over two or three of four indices, two of which share an axis; each seen in some way."""
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    indices = {
        name: tuple(draw(st.permutations("ijkl"))[: draw(st.integers(2, 3))])
        for name in "XYZ"[: draw(st.integers(1, 3))]
    }
    X = {name: rng.poisson(0.6, [SIZE[AXIS[i]] for i in over]).astype(float) for name, over in indices.items()}
    ways = {name: draw(st.sampled_from(list(WAYS))) for name in indices}
    observed = {name: WAYS[ways[name]](over, X[name], "poisson", rng) for name, over in indices.items()}
    return seed, indices, X, observed


def model_of(indices):
    text = [
        f"{name}[{', '.join(over)}] = {' '.join(f'{AXIS[i].upper()}{i}[{i}, r]' for i in over)}"
        for name, over in indices.items()
    ]
    used = {i for over in indices.values() for i in over}
    return "\n".join([*text, *(["j: i"] if {"i", "j"} <= used else [])])


def labels_of(indices):
    axes = {AXIS[i]: i for over in indices.values() for i in over}
    used = {i for over in indices.values() for i in over}
    return {("i" if {"i", "j"} <= used and axis == "p" else index): range(SIZE[axis]) for axis, index in axes.items()}


def chosen(by, over):
    """The arguments of `train_test_split` that say what to hide."""
    if by == "leave_last_out":
        return {"by": ("leave_last_out", over[0])}
    return {"fraction": 0.2, "by": {"index": ("index", over[0]), "pair": ("pair", *over[:2])}.get(by, by)}


def weights(data, model, name, entities):
    bound = plait.Model(model).bind(data, entities=entities).relations[name]
    return bound, bound.weights.at(np.argwhere(np.ones(bound.shape))).reshape(bound.shape)


def split(world, by, leakage):
    """The split of X and the mask of its test; None where it is refused in words."""
    seed, indices, _, observed = world
    data = {name: relation for name, (relation, _) in observed.items()}
    options = chosen(by, indices["X"]) | {"seed": seed, "leakage": leakage}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.errors.LeakWarning)
        try:
            found = plait.train_test_split(data, "X", model=model_of(indices), entities=labels_of(indices), **options)
        except ParameterError as error:
            if "must be one of" in str(error):  # a mistake of this test
                raise
            return None
    hidden = np.zeros([SIZE[AXIS[i]] for i in indices["X"]], bool)
    hidden[tuple(found.test[i].to_numpy() for i in indices["X"])] = True
    return found, hidden


@pytest.mark.thorough
@given(worlds(), st.sampled_from(BYS), st.sampled_from(["warn", "remove", "ignore"]))
@settings(max_examples=150)  # enough to meet every branch of `train_test_split`
def test_what_is_left_and_what_is_tested_are_the_data_and_no_more(world, by, leakage):
    _, indices, X, observed = world
    if (found := split(world, by, leakage)) is None:
        return
    (parts, hidden), model, labels = found, model_of(indices), labels_of(indices)
    M = observed["X"][1]
    assert len(parts.test) == hidden.sum()
    assert (M[hidden] > 0).all()
    at = tuple(parts.test[i].to_numpy() for i in indices["X"])
    np.testing.assert_array_equal(parts.test["value"], X["X"][at])
    bound, left = weights(parts.train, model, "X", labels)
    known = np.zeros(hidden.shape)
    known[tuple(bound.cells.T)] = bound.values
    assert not known[hidden].any()
    if leakage != "remove":  # train + test = data
        np.testing.assert_array_equal(known + np.where(hidden, X["X"], 0), np.where(M > 0, X["X"], 0))
    else:
        assert (known <= X["X"]).all()
    if leakage != "remove" and by not in ("thinned_links", "leave_last_out"):
        np.testing.assert_allclose(left, np.where(hidden, 0, M), atol=1e-14)
    for name in indices:
        if name != "X":
            after = weights(parts.train, model, name, labels)[1]
            before = observed[name][1]
            np.testing.assert_allclose(after, np.where(after > 0, before, 0), atol=1e-14)
            assert leakage == "remove" or np.allclose(after, before)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::plait.errors.DisjointEntitiesWarning")  # of training data that were drawn
@given(worlds(), st.sampled_from(["cells", "index", "pair"]), st.integers(0, 100))
def test_hidden_values_reach_nothing_that_is_fitted(world, by, other):
    """Hidden cells that are listed get other values, zeros and links alike, and the same bits are fitted.

    The likelihood is given: an automatic one is chosen from all values, before the split (decision 45).
    """
    seed, indices, X, observed = world
    if (found := split(world, by, "remove")) is None:
        return
    hidden, rng = found[1], np.random.default_rng(other)
    relation = observed["X"][0]
    table = relation.data
    at = tuple(table[i].to_numpy() for i in indices["X"])
    changed = np.where(hidden[at], rng.poisson(1.0, len(table)), X["X"][at])
    again = plait.Relation(
        table.with_columns(value=changed), missing=relation.missing, unseen=relation.unseen,
        observed=relation.observed, weight=relation.weight, likelihood=relation.likelihood,
    )  # fmt: skip
    second = split((seed, indices, X, {**observed, "X": (again, observed["X"][1])}), by, "remove")
    if second is None:  # it had hidden all links of X
        return
    model, labels = model_of(indices), labels_of(indices)
    np.testing.assert_array_equal(second[1], hidden)
    fits = [
        plait.fit(model, data, rank=2, max_iter=2, seed=0, entities=labels, executor=Reference())
        for data in (found[0].train, second[0].train)
    ]
    assert fits[0].objective == fits[1].objective
    assert fits[0].fingerprint == fits[1].fingerprint


# By "links" alone the gaps tell, as `plait.train_test_split` says; where leaks are removed, zeros are chosen next to
# links. By "leave_last_out" entities with one link are not tested, so it is judged within the others.
UNTOLD = {
    "alone": ("X[i, j, k] = A[i, r] B[j, r] C[k, r]", ("cells", "thinned_links", "index", "pair", "leave_last_out")),
    "mirror": ("X[i, j] = A[i, r] B[j, r]; j: i", BYS[:5]),
    "coupled": ("X[i, j] = A[i, r] B[j, r]; Y[i, j, k] = A[i, r] B[j, r] C[k, r]", BYS[:5]),
    "partial": ("X[i, j, k] = H[i, j, r] C[k, r]; Y[i, j] = H[i, j, r] d[r]", BYS[:5]),
}
SHAPES = {"i": 20, "j": 20, "k": 3}


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "by"), [(kind, by) for kind, (_, bys) in UNTOLD.items() for by in bys])
def test_links_without_structure_are_found_as_by_chance(kind, by):
    text = UNTOLD[kind][0]
    model, found = plait.Model(text), []
    over = model.equation("X").indices
    for seed in range(25):
        rng = np.random.default_rng(seed)
        data = {
            name: (rng.random([SHAPES[i] for i in model.equation(name).indices]) < 0.08).astype(float)
            for name in model.relations
        }
        train, test = plait.train_test_split(data, "X", model=model, seed=seed, leakage="remove", **chosen(by, over))
        fit = plait.fit(model, train, rank=2, max_iter=10, seed=0, executor=Reference())
        figure = (
            {"thinned_links": "roc_auc_uniform", "leave_last_out": "roc_auc_corrupt_within_j"}.get(by)
            if kind == "alone"
            else None
        )
        figures = plait.evaluate(fit, "X", test, negatives=20 if figure else None)
        found.append(figures[figure or "roc_auc"])
    assert abs(np.mean(found) - 0.5) < 3 * np.std(found, ddof=1) / np.sqrt(len(found))


def test_hidden_cells_of_a_config_may_be_proposed_and_missing_pairs_may_not(tmp_path):

    pl.DataFrame({"a": [0, 1, 2, 3, 0, 2], "b": [1, 2, 3, 0, 2, 0], "c": [0, 1, 0, 1, 1, 0]}).write_csv(
        tmp_path / "x.csv"
    )
    pl.DataFrame({"a": range(4), "b": range(4)}).write_csv(tmp_path / "itself.csv")
    pl.DataFrame({"a": [0, 1], "b": [3, 3]}).write_csv(tmp_path / "test.csv")
    config = tmp_path / "model.toml"
    config.write_text(
        'model = "X[a, b, c] = A[a, r] B[b, r] C[c, r]; b: a"\nrank = 1\n[relations.X]\nsource = "x.csv"\n'
        'missing = "itself.csv"\nhidden = ["test.csv"]\n[fit]\nseed = 0\nmax_iter = 3\n'
    )
    run = str(tmp_path / "run")
    assert plait_command("fit", config, "-o", run).exit_code == 0
    found = plait.load(run).top("X", 100, include_known=True)
    cells = set(found.select("a", "b").rows())
    assert cells == {(a, b) for a in range(4) for b in range(4) if a != b}
    shown = plait_command("top", run, "X", "--given", "a=2", "--given", "b=2")
    assert shown.exit_code == 0
    assert "excluded by structural zeros over a, b" in shown.stderr
    assert "`hidden`" in shown.stderr
