"""The judge of quality is right, no method sees test links, and the page says what the results say."""

import inspect
import json
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

import plait
from lab.harness.command import NAME
from lab.harness.machine import version
from lab.quality import data, judge, rows
from lab.quality.cells import among, distinct
from lab.quality.data import Asked, Seen, ask
from lab.quality.methods import METHODS, TRIES, Method, find, plait_
from lab.quality.methods.ease import Ease
from lab.quality.methods.method import matrix
from lab.quality.methods.plait_ import Fitted, fitted
from lab.quality.methods.popularity import Pairs, Popularity
from lab.quality.report import write
from lab.quality.scores import Dense, Product, Scores
from tests.support.lab_data import ROOT

KEPT = ROOT / "docs" / "quality" / NAME


def some_cells(rng, shape, count):
    picked = rng.choice(int(np.prod(shape)), count, replace=False)
    return np.stack(np.unravel_index(picked, shape), axis=1)


# --- the judge


@pytest.mark.parametrize("levels", [3, 10**6])
def test_average_precision_equals_scikit_learn(levels):
    rng = np.random.default_rng(levels)
    links, others = rng.integers(0, levels, 40) + 0.3 * levels, rng.integers(0, levels, 300).astype(float)
    truth = np.repeat([1, 0], [40, 300])
    expected = average_precision_score(truth, np.concatenate([links, others]))
    assert judge.average_precision(links, others) == pytest.approx(expected, rel=1e-12)


def test_the_judge_agrees_with_plait_evaluate():
    shape, rng = (9, 4, 9), np.random.default_rng(0)
    cells = some_cells(rng, shape, 90)
    train, test = cells[:70], cells[70:]
    asked = ask(test, [train], shape, {2: "tail", 0: "head"}, 1)
    fit = fitted(Seen("triples", shape, train, np.zeros((0, 3), np.int64)), rank=3, seed=0)
    found = judge.judge(Fitted(fit), asked)
    tested = np.concatenate([asked.links, asked.others])
    table = pl.DataFrame(tested, schema=["h", "p", "t"]).with_columns(
        value=pl.Series(np.arange(len(tested)) < len(test), dtype=pl.Float64)
    )
    expected = plait.evaluate(fit, "X", table, target=["h", "t"])
    assert found["MRR tail"]["value"] == pytest.approx(expected["mrr[t]"], rel=1e-9)
    assert found["MRR head"]["value"] == pytest.approx(expected["mrr[h]"], rel=1e-9)
    assert found["MRR"]["value"] == pytest.approx(expected["mrr"], rel=1e-9)
    assert found["AP"]["value"] == pytest.approx(expected["average_precision"], rel=1e-9)


def test_lists_equal_scikit_learn_and_leave_out_known_links():
    rng, shape = np.random.default_rng(1), (6, 40)
    cells = some_cells(rng, shape, 120)
    test, known = cells[:60], cells[60:]
    scores = rng.random(shape)
    lists = ("NDCG@10", "NDCG@20", "recall@5", "full recall@5")
    found = judge.judge(Dense(scores), Asked(test, some_cells(rng, shape, 5), cells, shape, {1: "item"}, lists=lists))
    wanted_, there = np.zeros(shape), np.zeros(shape, bool)
    wanted_[tuple(test.T)], there[tuple(known.T)] = 1.0, True
    expected = {measure: [] for measure in lists}
    for user in np.unique(test[:, 0]):
        truth, score = wanted_[user][~there[user]], scores[user][~there[user]]
        hits = truth[np.argsort(-score)[:5]].sum()
        expected["NDCG@10"].append(ndcg_score([truth], [score], k=10))
        expected["NDCG@20"].append(ndcg_score([truth], [score], k=20))
        expected["recall@5"].append(hits / min(truth.sum(), 5))
        expected["full recall@5"].append(hits / truth.sum())
    for measure, values in expected.items():
        assert found[measure]["value"] == pytest.approx(np.mean(values), rel=1e-12)


def test_self_links_are_no_rivals_where_a_relation_has_none():
    shape, rng = (30, 2, 30), np.random.default_rng(2)
    cells = some_cells(rng, shape, 300)
    is_loop = cells[:, 0] == cells[:, 2]
    cells = np.concatenate([cells[~is_loop | (cells[:, 1] == 1)], [[3, 1, 3]]])  # relation 1 has self-links
    train, test = distinct(cells[40:]), cells[:40]
    found = data.loopless(train, 2)
    assert found.tolist() == [True, False]
    asked = replace(ask(test, [train], shape, {2: "tail", 0: "head"}, 1), loopless=found, hits=(3,))
    scores = rng.integers(0, 40, shape).astype(float)  # with ties
    judged = judge.judge(Dense(scores), asked)
    known = {tuple(cell) for cell in asked.known.tolist()}
    ranks = {"": [], judge.NO_LOOPS: []}
    for axis in (2, 0):
        for cell in test.tolist():
            for kind, own in ranks.items():
                ahead = 0.0
                for entity in range(30):
                    other = [*cell[:axis], entity, *cell[axis + 1 :]]
                    barred = kind and other[1] == 0 and other[0] == other[2]
                    if tuple(other) not in known and not barred:
                        mine, theirs = scores[tuple(cell)], scores[tuple(other)]
                        ahead += (theirs > mine) + 0.5 * (theirs == mine)
                own.append(1 + ahead)
    for kind, own in ranks.items():
        assert judged[f"MRR{kind}"]["value"] == pytest.approx(np.mean(1 / np.array(own)), rel=1e-12)
        assert judged[f"MRR tail{kind}"]["value"] == pytest.approx(np.mean(1 / np.array(own[:40])), rel=1e-12)
    assert judged["hits@3"]["value"] == pytest.approx(np.mean(np.array(ranks[""]) <= 3), rel=1e-12)
    others = [cell for cell in asked.others.tolist() if cell[1] == 1 or cell[0] != cell[2]]
    truth = np.repeat([1, 0], [len(test), len(others)])
    score = scores[tuple(np.concatenate([test, others]).T)]
    expected = average_precision_score(truth, score)
    assert judged[f"AP{judge.NO_LOOPS}"]["value"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("method", [Popularity, Pairs])
def test_scores_along_an_index_are_those_of_its_cells(method):
    shape, rng = (7, 3, 8), np.random.default_rng(3)
    links = some_cells(rng, shape, 40)
    scores = method().fit(Seen("tensor", shape, links, links[:0]), method.settings[0], 0, True)
    queries = some_cells(rng, shape, 9)
    for axis in range(3):
        np.testing.assert_allclose(scores.along(queries, axis), Scores.along(scores, queries, axis))
    product = Product(rng.random((7, 4)), rng.random((8, 4)))
    for axis in range(2):
        np.testing.assert_allclose(product.along(queries[:, :2], axis), Scores.along(product, queries[:, :2], axis))


def test_rates_of_a_fit_along_an_index_are_those_of_its_cells(monkeypatch):
    monkeypatch.setattr(plait_, "MAX_BERNOULLI_CELLS", 0)  # so that it is Poisson
    shape, rng = (9, 4, 9), np.random.default_rng(0)
    fit = fitted(
        Seen("triples", shape, some_cells(rng, shape, 90), np.zeros((0, 3), np.int64)), rank=3, seed=0, max_iter=5
    )
    scores, queries = Fitted(fit), some_cells(rng, shape, 6)
    assert scores.is_plain
    for axis in (0, 2):
        np.testing.assert_allclose(scores.along(queries, axis), Scores.along(scores, queries, axis), rtol=1e-9)


# --- the tasks


@pytest.mark.quick(name=["Nations", "communities", "drawn"])
@pytest.mark.parametrize("split", [0, 1])
@pytest.mark.parametrize("name", data.SOURCES)
def test_no_data_set_lets_test_links_be_seen(name, split):
    if data.SOURCES[name].absent:
        pytest.skip(data.SOURCES[name].absent)
    task = data.SOURCES[name].load(split, True)
    shape = task.seen.shape
    for hidden, visible in (
        (task.test.links, task.seen.links),
        (task.test.links, task.tuning.links),
        (task.valid.links, task.tuning.links),
        (task.test.links, task.valid.links),
        (task.valid.others, task.valid.known),
        (task.test.others, task.test.known),
    ):
        assert len(hidden)
        assert not among(hidden, visible, shape).any()
    assert among(task.tuning.links, task.seen.links, shape).all()
    assert among(task.test.links, task.test.known, shape).all()
    if task.seen.kind in ("triples", "matrix"):  # else a ranking by which settings are chosen shows test links
        assert not among(task.test.links, task.valid.known, shape).any()
    if task.seen.kind == "tensor" and len(task.seen.closed):  # hidden cells are no zeros for those who fit
        assert among(task.test.links, task.seen.closed, shape).all()
        assert among(task.valid.links, task.tuning.closed, shape).all()


# --- the methods


def test_ease_is_ridge_regression_of_every_column_on_the_others():
    task = data.communities(0, True)
    X = matrix(task.seen).toarray().astype(float)
    P = np.linalg.inv(X.T @ X + 30.0 * np.eye(X.shape[1]))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0.0)
    found = Ease().fit(task.seen, {"ridge": 30.0}, 0, True)
    cells = np.argwhere(np.ones(X.shape))
    np.testing.assert_allclose(found.cells(cells).reshape(X.shape), X @ B, atol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_the_same_budget_and_sees_training_links_only(name):
    method = find(name)
    assert len(method.settings) in (1, TRIES)
    assert len({json.dumps(setting) for setting in method.settings}) == len(method.settings)
    assert list(inspect.signature(method.fit).parameters)[1:] == ["seen", "setting", "seed", "quick"]


@pytest.mark.quick(name=["popularity", "EASE"])
@pytest.mark.filterwarnings("ignore")  # of other packages
@pytest.mark.parametrize("name", METHODS)
def test_every_method_finds_hidden_links(name):
    method = find(name)
    if method.package and version(method.package) is None:
        pytest.skip(f"{method.package} is not installed")
    if "graph" in method.kinds or "tensor" in method.kinds:
        task = (data.communities if "graph" in method.kinds else data.drawn)(0, True)
        chance = len(task.test.links) / (len(task.test.links) + len(task.test.others))
        found = rows.in_split(method(), task, 0, True)
        assert found["figures"]["AP"]["value"] > 1.6 * chance
        return
    shape = (12, 2, 12)  # each of two relations has the links of the other
    pairs = np.argwhere(np.kron(np.eye(3), np.ones((4, 4))) > 0)
    links = np.random.default_rng(0).permutation(np.concatenate([np.insert(pairs, 1, p, axis=1) for p in range(2)]))
    train, test = links[10:], links[:10]
    scores = method().fit(Seen("triples", shape, train, np.zeros((0, 3), np.int64)), method.settings[0], 0, False)
    found = judge.judge(scores, ask(test, [train], shape, {2: "tail", 0: "head"}, 1))
    assert min(found["MRR tail"]["value"], found["MRR head"]["value"]) > 0.6


class Guess(Method):
    """Knows the links to choose by, or the test links."""

    settings = ({"for": "valid"}, {"for": "test"})

    def fit(self, seen, setting, seed, quick):
        scores = np.zeros(seen.shape)
        scores[tuple(getattr(self.task, setting["for"]).links.T)] = 1.0
        return Dense(scores)


def test_settings_are_chosen_by_the_links_for_that():
    Guess.task = data.communities(0, True)
    found = rows.in_split(Guess(), Guess.task, 0, True)
    assert found["setting"] == {"for": "valid"}
    assert found["tries"][0] > found["tries"][1]


# --- the page


@pytest.mark.thorough
@pytest.mark.skipif(not KEPT.exists(), reason="nothing is measured yet: make quality")
def test_the_page_is_made_from_its_results(tmp_path):
    folder = tmp_path / "quality"
    folder.mkdir()
    shutil.copy(KEPT, folder)
    write(folder / NAME, tmp_path / "quality.md", folder)
    kept = (ROOT / "docs" / "quality.md").read_text(encoding="utf-8")
    assert (tmp_path / "quality.md").read_text(encoding="utf-8") == kept
    assert {path.name for path in folder.iterdir()} == {path.name for path in KEPT.parent.iterdir()}
