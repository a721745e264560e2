"""Experiments of the paper: test links are hidden from fits and choices, baselines are right, VB is better than EM."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import plait
from lab.harness.results import Results
from lab.paper import NAMES, acts, choice, digg, experiment, lastfm, order, uclaf
from lab.paper.corrupted import corrupted
from lab.paper.experiment import Lab
from lab.paper.settings import Setting, ranking, settled
from lab.paper.sources.uclaf import load as load_uclaf
from plait.evaluation.measure import popularity
from tests.support.lab_data import DATA, needs

QUICK, FULL = Lab(True, None, Path()), Lab(False, None, Path())
REAL = Lab(False, DATA, Path())


def without_seconds(figures):
    return {name: value for name, value in figures.items() if "seconds" not in name}


@pytest.mark.parametrize("lab", [QUICK, FULL], ids=["quick", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_all_cells_of_an_experiment_differ(name, lab):
    own = experiment(name)
    assert own.name == name
    cells = [tuple(sorted(cell.items())) for cell in own.cells(lab)]
    assert len(set(cells)) == len(cells) > 0


# --- UCLAF: baselines


@pytest.mark.parametrize(("name", "more"), [("popularity", 0), ("popularity + 1", 1)])
def test_popularity_is_the_product_of_known_links_and_sees_no_hidden_one(name, more):
    data = order.load(QUICK)
    train, test = acts.hidden(data, 0.6, 1)
    known = data.links.join(test, on=acts.INDICES, how="anti")
    expected = np.ones(len(test))
    for index in acts.INDICES:
        expected *= [more + (known[index] == entity).sum() for entity in test[index]]
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(acts.baseline(data, name, test), expected)
    if not more:
        fit = plait.fit(acts.CP, train, rank=1, max_iter=1, seed=0, entities=data.entities, progress=False)
        np.testing.assert_array_equal(popularity(fit, "acts", test), expected)


EXPECTED = {
    "popularity": (0.924, 0.881, 0.783),
    "popularity + 1": (0.949, 0.940, 0.916),
    "visited": (0.958, 0.958, 0.958),
    "visited × activity": (0.970, 0.970, 0.970),
}


@needs("uclaf")
@pytest.mark.parametrize("column", range(3))
def test_baselines_on_the_real_data(column):
    data = load_uclaf(REAL)
    tests = [acts.hidden(data, uclaf.MISSING[column], run)[1] for run in range(2)]
    for name, expected in EXPECTED.items():
        found = [acts.judged(test, acts.baseline(data, name, test))["auc"] for test in tests]
        assert np.mean(found) == pytest.approx(expected[column], abs=0.008), name


# --- UCLAF: settings


@pytest.fixture
def begin(monkeypatch):
    """Writes a file of choices: each setting with the AUC of its rank; there are no other settings."""

    def write(lab, *settings, **auc):
        monkeypatch.setattr(choice, "settings", lambda: list(settings))
        results = Results(lab.results / "choice.jsonl", "choice", "test", lab.quick, "test")
        for setting in settings:
            value = auc[f"r{setting.rank}"]
            figures = {f"{name}_{how}": value for name in ("auc", "ap") for how in ("one", "rates", "logs")}
            results.add(setting.cell() | {"missing": 0.6, "run": 0}, figures | {"auc_rates": value + 0.01})

    return write


def test_validation_cells_are_not_hidden_in_the_same_split(monkeypatch):
    seen = []

    def predicted(lab, setting, train, cells, run):
        seen.append(cells)
        return np.ones((1, len(cells))), {}

    monkeypatch.setattr(choice, "predicted", predicted)
    cell = next(cell for cell in choice.cells(QUICK) if cell["model"] == "GCTF")
    choice.measure(QUICK, cell)
    _, test = acts.hidden(load_uclaf(QUICK), cell["missing"], cell["run"])
    assert len(seen[0]) > 0
    assert seen[0].join(test, on=acts.INDICES, how="semi").is_empty()


def test_the_setting_with_the_best_mean_auc_over_all_splits_is_taken(tmp_path, begin):
    full = Lab(quick=False, data=None, results=tmp_path)
    begin(full, Setting("PLTF", "VB", "3"), Setting("PLTF", "VB", "8", "component"), r3=0.8, r8=0.9)
    assert settled(full, "PLTF", "VB") == Setting("PLTF", "VB", "8", "component", average="rates")
    with pytest.raises(plait.errors.ParameterError, match=r"no setting .* GCTF with EM\.\nRun the choice first"):
        settled(full, "GCTF", "EM")

    def record(rank, missing, auc):
        figures = {f"{name}_{how}": auc for name in ("auc", "ap") for how in ("one", "rates", "logs")}
        return Setting("PLTF", "VB", rank).cell() | {"missing": missing, "run": 0} | figures

    records = pl.DataFrame([record("3", 0.6, 0.9), record("3", 0.9, 0.8), record("8", 0.6, 0.89)])
    assert ranking(records, "PLTF", "VB")["rank"].unique().to_list() == ["3"]  # 8 lacks a split
    assert len(ranking(pl.DataFrame(), "PLTF", "VB")) == 0


# --- UCLAF: model order and priors


def order_cell(part, method, adapt="none", rank=0, missing=0.6, run=0):
    return {"part": part, "method": method, "adapt": adapt, "rank": rank, "missing": missing, "run": run}


def test_single_and_coupled_models_are_tested_by_the_same_cells(monkeypatch):
    seen = {}
    monkeypatch.setattr(order, "of_fit", lambda fit, test: seen.update({tuple(fit.model.relations): test}) or {})
    for method in ("PLTF-EM", "GCTF-EM"):
        order.measure(QUICK, order_cell("curve", method, rank=2, run=3))
    assert list(seen) == [("acts",), ("acts", "visits", "features")]
    assert seen["acts",].equals(seen["acts", "visits", "features"])


# --- Digg


@pytest.mark.thorough
def test_on_digg_vb_is_above_em_coupled_above_single_and_the_truth_above_all():
    records = pl.DataFrame([{**cell, **digg.measure(QUICK, cell)} for cell in digg.cells(QUICK)])
    again = digg.measure(QUICK, digg.cells(QUICK)[2])
    assert without_seconds(again).items() <= records.row(2, named=True).items()
    for task in ("comment", "digg"):
        auc = dict(records.filter(task=task).select("method", "auc_uniform").iter_rows())
        assert auc["PLTF-EM"] + 0.05 < auc["PLTF-VB"] < auc["GCTF-VB"] < auc["truth"]
        assert auc["GCTF-EM"] < auc["GCTF-VB"]
        assert auc["popularity"] < auc["PLTF-VB"]
        pairs = dict(records.filter(task=task).select("method", "auc_pair").iter_rows())
        assert max(pairs, key=pairs.get) == "truth"
        assert pairs["PLTF-EM"] < pairs["PLTF-VB"]


# --- Last.fm


@pytest.fixture(scope="module")
def tags():
    return lastfm.load(QUICK)


def test_corrupted_links_are_no_links_and_differ_in_the_artist_alone(tags):
    test = tags.tags.sample(2000, seed=0).with_columns(value=pl.lit(1.0))
    links, others = corrupted(tags.tags, test, "artist", np.random.default_rng(0))
    assert links.drop("artist").equals(others.drop("artist"))
    assert (links["artist"] != others["artist"]).all()
    assert others.join(tags.tags, on=tags.tags.columns, how="semi").is_empty()
    assert set(others["artist"]) <= set(tags.tags["artist"])
    assert 1900 < len(others) < 2000  # a few draws are links


def test_settings_are_chosen_without_the_test(tags):
    trial, final = (lastfm.case("PLTF-VB", 0.6, 3, part=part) for part in ("choice", "test"))
    (train, valid, links), (_, test, _) = lastfm.hidden(tags, trial), lastfm.hidden(tags, final)
    known = plait.Model(lastfm.SINGLE).bind({"tags": train})
    indices = ["user", "artist", "tag"]
    assert valid.join(test, on=indices, how="semi").is_empty()
    assert links.join(test, on=indices, how="semi").is_empty()
    assert len(links) + len(test) == len(tags.tags)
    assert len(known.relations["tags"].cells) == len(links) - len(valid)
