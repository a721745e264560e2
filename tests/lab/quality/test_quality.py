"""The judge of quality is right, nobody sees the test before the end, and the page says what the results say."""

import inspect
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

import plait
from lab.harness import results, sources
from lab.harness.command import NAME
from lab.harness.machine import version
from lab.harness.packages import wanted
from lab.harness.results import Found
from lab.harness.running import run
from lab.quality import data, judge, rows
from lab.quality.__main__ import STUDY, forget_absent, main
from lab.quality.cells import among
from lab.quality.data import Asked, Seen, Task, ask
from lab.quality.methods import METHODS, TRIES, Method, find
from lab.quality.methods.ease import Ease
from lab.quality.methods.method import matrix
from lab.quality.methods.plait_ import Fitted, fitted
from lab.quality.methods.popularity import Pairs, Popularity
from lab.quality.report import page, tables, targets, write
from lab.quality.report.entries import Entry
from lab.quality.scores import Dense, Scores

ROOT = Path(__file__).parents[3]
KEPT = ROOT / "docs" / "quality" / NAME
DRAWN = {"drawn": data.drawn, "communities": data.communities}


def some_cells(rng, shape, count):
    picked = rng.choice(int(np.prod(shape)), count, replace=False)
    return np.stack(np.unravel_index(picked, shape), axis=1)


# --- the judge


@pytest.mark.parametrize("levels", [3, 10**6])
def test_average_precision_is_that_of_scikit_learn(levels):
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
    expected = plait.evaluate(fit, "X", table, rank=["h", "t"])
    assert found["MRR tail"]["value"] == pytest.approx(expected["mrr[t]"], rel=1e-9)
    assert found["MRR head"]["value"] == pytest.approx(expected["mrr[h]"], rel=1e-9)
    assert found["MRR"]["value"] == pytest.approx(expected["mrr"], rel=1e-9)
    assert found["AP"]["value"] == pytest.approx(expected["average_precision"], rel=1e-9)


def test_lists_are_judged_as_by_scikit_learn_and_leave_out_what_is_known():
    rng, shape = np.random.default_rng(1), (6, 40)
    cells = some_cells(rng, shape, 120)
    test, known = cells[:60], cells[60:]
    scores = rng.random(shape)
    found = judge.judge(Dense(scores), Asked(test, some_cells(rng, shape, 5), cells, shape, {1: "item"}, lists=True))
    wanted_, there = np.zeros(shape), np.zeros(shape, bool)
    wanted_[tuple(test.T)], there[tuple(known.T)] = 1.0, True
    gains, recalls = [], []
    for user in np.unique(test[:, 0]):
        truth, score = wanted_[user][~there[user]], scores[user][~there[user]]
        gains.append(ndcg_score([truth], [score], k=10))
        recalls.append(truth[np.argsort(-score)[:20]].sum() / min(truth.sum(), 20))
    assert found["NDCG@10"]["value"] == pytest.approx(np.mean(gains), rel=1e-12)
    assert found["recall@20"]["value"] == pytest.approx(np.mean(recalls), rel=1e-12)


def test_equal_scores_have_their_expected_rank():
    links = np.array([[0, 0], [1, 2]])
    asked = Asked(links, np.array([[0, 1]]), links, (2, 5), {1: "end"})
    assert judge.judge(Dense(np.ones((2, 5))), asked)["MRR"]["value"] == pytest.approx(1 / 3)


def test_known_links_are_no_rivals():
    scores = np.array([[5.0, 4.0, 3.0, 2.0]])
    link, better = np.array([[0, 2]]), np.array([[0, 0], [0, 1]])
    asked = [Asked(link, np.array([[0, 3]]), known, (1, 4), {1: "end"}) for known in (link, better)]
    assert [judge.judge(Dense(scores), one)["MRR"]["value"] for one in asked] == [pytest.approx(1 / 3), 1.0]


# --- the tasks


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("split", [0, 1])
def test_choosing_never_sees_test_links(name, split):
    check_apart(DRAWN[name](split, True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", data.SOURCES)
def test_no_data_set_lets_test_links_be_seen(name):
    if data.SOURCES[name].absent:
        pytest.skip(data.SOURCES[name].absent)
    check_apart(data.SOURCES[name].load(0, True))


def check_apart(task: Task):
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


@pytest.mark.parametrize(
    "name", [name for name, source in data.SOURCES.items() if source.kind in ("triples", "matrix")]
)
def test_links_to_choose_by_are_filtered_without_the_test(name):
    """Else a ranking by which settings are chosen would tell where test links are."""
    if data.SOURCES[name].absent:
        pytest.skip(data.SOURCES[name].absent)
    task = data.SOURCES[name].load(0, True)
    assert not among(task.test.links, task.valid.known, task.seen.shape).any()


def test_hidden_cells_are_closed_to_those_who_fit():
    task = data.drawn(0, True)
    assert among(task.test.links, task.seen.closed, task.seen.shape).all()
    assert among(task.valid.links, task.tuning.closed, task.seen.shape).all()


def test_splits_differ_and_come_back():
    one, again, other = (data.communities(split, True).test.links for split in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


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


def test_popularity_counts_entities_and_pairs():
    links = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 1]])
    seen = Seen("triples", (2, 1, 2), links, np.zeros((0, 3), np.int64))
    cells = np.array([[0, 0, 1], [1, 0, 0]])
    assert Popularity().fit(seen, {}, 0, True).cells(cells).tolist() == [2 * 3 * 2, 1 * 3 * 1]
    pairs = Pairs().fit(seen, {"pairs": "12 13"}, 0, True)
    assert pairs.cells(cells).tolist() == [2.5 * 1.5, 1.5 * 0.5]


def test_along_is_the_same_as_cells():
    task = data.drawn(0, True)
    dense = Dense(np.random.default_rng(0).random(task.seen.shape))
    few = task.test.links[:4]
    for axis in range(3):
        np.testing.assert_array_equal(dense.along(few, axis), Scores.along(dense, few, axis))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_the_same_budget_and_sees_training_links_only(name):
    method = find(name)
    assert 1 <= len(method.settings) <= TRIES
    assert list(inspect.signature(method.fit).parameters)[1:] == ["seen", "setting", "seed", "quick"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name in METHODS if "graph" in find(name).kinds])
def test_every_method_finds_hidden_edges_of_communities(name):
    method = find(name)
    if method.package and version(method.package) is None:
        pytest.skip(f"{method.package} is not installed")
    found = rows.in_split(method(), data.communities(0, True), 0, True)
    assert found["figures"]["AP"]["value"] > 0.15  # chance is 1 in 11


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # others' own
@pytest.mark.parametrize("name", ["ComplEx", "RESCAL"])
def test_embeddings_find_what_one_relation_says_of_another(name):
    if version("pykeen") is None:
        pytest.skip("pykeen is not installed")
    rng, shape = np.random.default_rng(0), (12, 2, 12)
    pairs = np.argwhere(np.kron(np.eye(3), np.ones((4, 4))) > 0)
    links = np.concatenate([np.insert(pairs, 1, p, axis=1) for p in range(2)])
    links = rng.permutation(links)
    train, test = links[10:], links[:10]
    seen = Seen("triples", shape, train, np.zeros((0, 3), np.int64))
    scores = find(name)().fit(seen, find(name).settings[0], 0, False)
    found = judge.judge(scores, ask(test, [train], shape, {2: "tail", 0: "head"}, 1))
    assert found["MRR tail"]["value"] > 0.6
    assert found["MRR head"]["value"] > 0.6


class Guess(Method):
    """Knows where the links to choose by are, or the test, as it is told."""

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


def test_the_group_names_every_package_that_is_compared():
    names = {requirement.split(">")[0].split("=")[0] for requirement in wanted("quality")}
    assert names - {"torch"} == STUDY.packages


# --- the page


def line(part, method, value=0.5, error=0.01, **more):
    figures = {name: {"value": value, "error": error} for name in ("MRR", "MRR tail", "AP")}
    split = {"figures": figures, "setting": {}, "tries": [], "seconds": {"fit": 1.0, "choice": 0.0}} | more
    return {"cell": {"part": part, "method": method}, "figures": {"splits": [split]}}


def found(*lines):
    return Found({"quick": False, "machine": "a machine", "plait": "1"}, list(lines))


def test_who_is_better_is_said_and_small_differences_are_ties():
    def verdict(theirs):
        return tables.verdicts(found(line("USAir", "Plait, five fits"), line("USAir", "EASE", theirs))).splitlines()

    ahead, ties, first = verdict(0.6)
    assert "USAir by MRR (EASE 0.600, five fits 0.500)" in ahead
    assert "nowhere" in ties
    assert "nowhere" in first
    assert "USAir by MRR" in verdict(0.52)[1]
    assert "USAir by MRR" in verdict(0.4)[2]


def test_differences_are_those_within_the_same_split():
    """A split that is hard for all says nothing of who is better."""
    one, other = Entry((0.3, 0.5, 0.7), (None,) * 3), Entry((0.35, 0.56, 0.75), (None,) * 3)
    assert not one.near(other)
    assert one.near(Entry((0.7, 0.55, 0.3), (None,) * 3))
    assert one.error == pytest.approx(0.2 / np.sqrt(3))


def test_a_target_beside_others_needs_all_of_them():
    def met(*names):
        rivals = [line("USAir", name, 0.4) for name in names]
        kept = {row[0]: row[2] for row in targets.table(found(line("USAir", "Plait, five fits"), *rivals)).rows}
        return next(verdict for what, verdict in kept.items() if what.startswith("USAir"))

    assert met(*targets.RIVALS) == "yes"
    assert met("EASE") == "not measured"
    assert met() == "not measured"


def test_a_page_of_an_unfinished_run_says_so(tmp_path):
    every = [
        line(about["part"], about["method"])
        for about in (row.about for d in rows.names(False) for row in rows.rows(d, False))
    ]
    assert "rows are not measured yet" not in page.text(found(*every), tmp_path, tmp_path / "page.md")
    text = page.text(found(*every[:-2]), tmp_path, tmp_path / "page.md")
    assert f"**2 of {len(every)} rows are not measured yet**" in text


def test_a_package_that_is_not_installed_is_a_line_of_the_page(tmp_path):
    gone = {"cell": {"part": "USAir", "method": "ALS"}, "figures": {"absent": "does not install: no wheel"}}
    text = page.text(found(line("USAir", "Plait"), gone), tmp_path, tmp_path / "page.md")
    assert "Without figures: ALS (does not install: no wheel)." in text


def test_rows_that_lacked_something_are_tried_again(tmp_path, monkeypatch):
    file = tmp_path / NAME
    monkeypatch.setattr(rows, "missing", lambda package: "not installed" if package else "")
    only = [row for row in rows.rows("communities", True) if row.about["method"] in ("EASE", "ALS")]
    calls = []
    monkeypatch.setattr(rows, "call", lambda *given, **more: calls.append(more["method"]) or {"splits": []})
    run(STUDY, only, file, True, "test")
    assert calls == ["EASE"]
    monkeypatch.setattr(rows, "missing", lambda package: "")
    forget_absent(file)
    run(STUDY, only, file, True, "test")
    assert calls == ["EASE", "ALS"]


def test_data_that_are_not_at_hand_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "SHARED", tmp_path)
    figures = rows.measured(lambda about: None, data="USAir", method="EASE", quick=True)
    assert figures == {"absent": "the data are not at hand (shared/data/graphs)"}
    kept = found({"cell": {"part": "USAir", "method": "EASE"}, "figures": figures})
    assert "- USAir: the data are not at hand (shared/data/graphs)" in page.text(kept, tmp_path, tmp_path / "page.md")


def test_unknown_data_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["Kinship"])
    assert "unknown part Kinship" in capsys.readouterr().err


@pytest.mark.parametrize("quick", [True, False])
def test_every_row_has_a_name_of_its_own(quick):
    names = [json.dumps(row.about) for part in rows.names(quick) for row in rows.rows(part, quick)]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_quick_rows_are_measured_and_written(tmp_path):
    arguments = ["communities", "--quick", "--folder", str(tmp_path), "--page", str(tmp_path / "page.md")]
    assert main([*arguments, "--only", "popularity"]) == 0
    text = (tmp_path / "page.md").read_text()
    assert "| popularity | " in text
    assert str(tmp_path) not in text
    assert {path.name for path in tmp_path.iterdir()} == {"results.jsonl", "page.md", "quality.svg", "quality.png"}


@pytest.mark.skipif(not KEPT.exists(), reason="nothing is measured yet: make quality")
def test_the_page_is_made_from_its_results(tmp_path):
    folder = tmp_path / "quality"
    folder.mkdir()
    shutil.copy(KEPT, folder)
    write(folder / NAME, tmp_path / "quality.md", folder)
    kept = (ROOT / "docs" / "quality.md").read_text(encoding="utf-8")
    assert (tmp_path / "quality.md").read_text(encoding="utf-8") == kept
    assert {path.name for path in folder.iterdir()} == {path.name for path in KEPT.parent.iterdir()}


def test_a_page_without_results_says_so(tmp_path):
    assert "Nothing is measured yet." in page.text(results.read(tmp_path / "none"), tmp_path, tmp_path / "page.md")
