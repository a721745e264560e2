"""The experiments on UCLAF: baselines, settings, and what must hold of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import plait
from lab.harness.results import Results
from lab.paper import acts, choice, slices, uclaf
from lab.paper.experiment import Lab
from lab.paper.report import report_of
from lab.paper.settings import Setting, ranking, settled
from lab.paper.sources.uclaf import FILE, load
from plait.evaluation.baselines import popularity

DATA = Path(__file__).parents[4] / "shared" / "data"
needs_data = pytest.mark.skipif(not (DATA / "uclaf" / FILE).exists(), reason=f"{FILE} is not in ../shared/data/uclaf")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(quick=True, data=None, results=tmp_path)


Begin = Callable[..., None]


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Writes a file of choices: each setting with the AUC of its rank; these are all that there are to choose from."""

    def write(lab: Lab, *settings: Setting, **auc: float) -> None:
        monkeypatch.setattr(choice, "settings", lambda: list(settings))
        results = Results(lab.results / "choice.jsonl", "choice", "test", lab.quick, "test")
        for setting in settings:
            value = auc[f"r{setting.rank}"]
            figures = {f"{name}_{how}": value for name in ("auc", "ap") for how in ("one", "rates", "logs")}
            results.add(setting.cell() | {"missing": 0.6, "run": 0}, figures | {"auc_rates": value + 0.01})

    return write


# --- baselines


def test_popularity_is_that_of_the_library(lab: Lab) -> None:
    data = load(lab)
    train, test = acts.hidden(data, 0.6, 0)
    fit = plait.fit(acts.CP, train, rank=1, sweeps=1, seed=0, labels=data.labels, progress=False)
    assert np.array_equal(acts.baseline(data, "popularity", test), popularity(fit, "acts", test))


EXPECTED = {
    "popularity": (0.924, 0.881, 0.783),
    "popularity + 1": (0.949, 0.940, 0.916),
    "visited": (0.958, 0.958, 0.958),
    "visited × activity": (0.970, 0.970, 0.970),
}


@needs_data
@pytest.mark.parametrize("column", range(3))
def test_baselines_on_the_real_data(column: int, tmp_path: Path) -> None:
    data = load(Lab(quick=False, data=DATA, results=tmp_path))
    tests = [acts.hidden(data, uclaf.MISSING[column], run)[1] for run in range(2)]
    for name, expected in EXPECTED.items():
        found = [acts.judged(test, acts.baseline(data, name, test))["auc"] for test in tests]
        assert np.mean(found) == pytest.approx(expected[column], abs=0.008), name


def test_popularity_of_hidden_users_is_that_of_places_and_activities(lab: Lab) -> None:
    data = load(lab)
    _, test = acts.hidden(data, 0.3, 0, by=("index", "user"))
    scores = slices.scores(data, "popularity", test, "user")
    known = data.links.filter(~pl.col("user").is_in(test["user"].unique().to_list()))
    cell = test.row(int(scores.argmax()), named=True)
    expected = len(known.filter(place=cell["place"])) * len(known.filter(activity=cell["activity"]))
    assert scores.max() == expected > 0


# --- hiding


def test_validation_cells_are_not_among_those_hidden_in_the_same_split(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def predicted(lab: Lab, setting: Setting, train: object, cells: pl.DataFrame, run: int) -> object:
        seen["cells"] = cells
        return np.ones((1, len(cells))), {}

    monkeypatch.setattr(choice, "predicted", predicted)
    cell = next(cell for cell in choice.cells(lab) if cell["model"] == "GCTF")
    choice.measure(lab, cell)
    _, test = acts.hidden(load(lab), float(cell["missing"] or 0), int(cell["run"] or 0))
    assert len(seen["cells"]) > 0
    assert not len(seen["cells"].join(test, on=acts.INDICES, how="semi"))


# --- settings


def test_the_setting_with_the_best_mean_auc_is_taken(tmp_path: Path, begin: Begin) -> None:
    full = Lab(quick=False, data=None, results=tmp_path)
    begin(full, Setting("PLTF", "VB", "3"), Setting("PLTF", "VB", "8", "component"), r3=0.8, r8=0.9)
    assert settled(full, "PLTF", "VB") == Setting("PLTF", "VB", "8", "component", average="rates")


def test_a_model_without_a_choice_is_an_error(lab: Lab, begin: Begin) -> None:
    begin(lab, Setting("PLTF", "VB", "3"), r3=0.8)
    with pytest.raises(plait.SettingError, match=r"no setting .* GCTF with EM\.\nRun the choice first"):
        settled(lab, "GCTF", "EM")


def test_every_model_of_the_experiments_has_settings_to_choose_from(lab: Lab) -> None:
    offered = {(setting.model, setting.algorithm) for setting in choice.settings()}
    wanted = {(cell["model"], cell["algorithm"]) for cell in [*uclaf.cells(lab), *slices.cells(lab)]}
    assert {way for way in wanted if way[1] != "none"} <= offered


def test_every_setting_fits_its_model() -> None:
    for setting in choice.settings():
        assert len(uclaf.ranks(setting)) == len(plait.Model(uclaf.MODELS[setting.model]).latent)


def test_a_core_starts_near_a_diagonal_that_reaches_every_group() -> None:
    start = uclaf.core(Setting("PLTF Tucker", "VB", "4 4 2"))
    assert start.shape == (4, 4, 2)
    assert (start == 1).sum() == 4
    assert all((start == 1).any(axis=axes).all() for axes in ((1, 2), (0, 2), (0, 1)))


def test_averages() -> None:
    rates = np.array([[1.0, 0.0], [4.0, 1.0]])
    assert uclaf.averaged(rates, "one").tolist() == [1.0, 0.0]
    assert uclaf.averaged(rates, "rates").tolist() == [2.5, 0.5]
    assert np.exp(uclaf.averaged(rates, "logs")) == pytest.approx([2.0, 1e-6])


# --- what must hold


@needs_data
def test_vb_is_above_em_and_popularity_and_the_exposure_above_all(tmp_path: Path, begin: Begin) -> None:
    real = Lab(quick=True, data=DATA, results=tmp_path)
    begin(
        real,
        Setting("PLTF", "EM", "3"),
        Setting("PLTF", "VB", "8"),
        Setting("exposure", "VB", "5"),
        r3=0.5, r8=0.5, r5=0.5,
    )  # fmt: skip
    found = {
        model: uclaf.measure(real, {"model": model, "algorithm": how, "weights": "chosen", "missing": 0.8, "run": 0})[
            "auc"
        ]
        for model, how in (("popularity + 1", "none"), ("exposure", "VB"))
    }
    em, vb = (
        uclaf.measure(real, {"model": "PLTF", "algorithm": how, "weights": "chosen", "missing": 0.8, "run": 0})["auc"]
        for how in ("EM", "VB")
    )
    assert em < found["popularity + 1"] < vb < found["exposure"]  # type: ignore[operator]
    assert found["exposure"] > 0.99  # type: ignore[operator]


def test_all_weights_1_differ_from_the_chosen(lab: Lab, begin: Begin) -> None:
    begin(lab, Setting("GCTF", "VB", "3", "users", 0.1, 0.1), r3=0.9)
    cell = {"model": "GCTF", "algorithm": "VB", "missing": 0.6, "run": 0}
    chosen, ones = (uclaf.measure(lab, cell | {"weights": weights}) for weights in ("chosen", "1"))
    assert chosen["auc"] != ones["auc"]
    assert uclaf.measure(lab, cell | {"weights": "1"})["auc"] == ones["auc"]  # from its seeds alone


@pytest.mark.parametrize(("weights", "visits"), [("chosen", 0.3), ("1", 1.0)])
def test_results_say_what_was_fitted(weights: str, visits: float, lab: Lab, begin: Begin) -> None:
    begin(lab, Setting("GCTF", "VB", "3", "users", 0.3, 0.1), r3=0.9)
    cell = {"model": "GCTF", "algorithm": "VB", "missing": 0.6, "run": 0}
    fitted = {"rank": "3", "adapt": "users", "visits": visits, "likelihood": "poisson", "average": "rates"}
    assert fitted.items() <= uclaf.measure(lab, cell | {"weights": weights}).items()
    if weights == "chosen":
        assert fitted.items() <= slices.measure(lab, cell | {"slices": "user"}).items()
    assert "rank" not in uclaf.measure(lab, cell | {"model": "popularity", "algorithm": "none", "weights": "chosen"})


# --- reports


@pytest.mark.parametrize("name", ["choice", "uclaf", "slices"])
def test_reports_stand_partial_records(name: str, lab: Lab) -> None:
    experiment = {"choice": choice, "uclaf": uclaf, "slices": slices}[name].EXPERIMENT
    figures = {"auc": 0.9, "ap": 0.5, "seconds": 0.1, "fits": 2}
    figures |= {f"{figure}_{how}": 0.8 for figure in ("auc", "ap") for how in ("one", "rates", "logs")}
    records = pl.DataFrame([dict(cell) | figures for cell in experiment.cells(lab)])
    report = report_of(name)
    for part in (pl.DataFrame(), records[3:5], records):
        assert all(len(row) == len(table.headings) for table in report.tables(part) for row in table.rows)
        assert all(plot.startswith(name) for plot in report.figures(part))
    assert "0.9" in report.tables(records)[0].markdown() or "0.8" in report.tables(records)[0].markdown()


def tried(*settings: tuple[Setting, float], missing: tuple[float, ...] = (0.6,), runs: int = 1) -> pl.DataFrame:
    """Records of the choice: settings and their AUC."""
    return pl.DataFrame(
        [
            setting.cell()
            | {"missing": share, "run": run}
            | {f"{name}_{how}": auc for name in ("auc", "ap") for how in ("one", "rates", "logs")}
            for setting, auc in settings
            for share in missing
            for run in range(runs)
        ]
    )


def test_the_note_on_the_choice_says_which_splits_there_are() -> None:
    one = (Setting("PLTF", "VB", "3"), 0.9)
    assert "over 1 split at 60 % missing" in report_of("choice").tables(tried(one))[0].note
    note = report_of("choice").tables(tried(one, missing=(0.6, 0.9), runs=2))[0].note
    assert "over 2 splits each at 60 %, 90 % missing" in note


def test_the_note_on_the_choice_names_winners_at_an_edge_and_no_others() -> None:
    ranks = [(Setting("PLTF", "VB", rank), auc) for rank, auc in (("3", 0.8), ("12", 0.9), ("20", 0.7))]
    weights = [(Setting("GCTF", "VB", "8", "users", *pair), 0.5 + pair[0]) for pair in choice.WEIGHTS[1:]]
    edge = [(Setting("PLTF", "EM", rank), auc) for rank, auc in (("2", 0.9), ("10", 0.7), ("5", 0.8))]
    note = report_of("choice").tables(tried(*ranks, *weights, *edge))[0].note
    assert note.endswith("may be better: PLTF, EM (rank); GCTF, VB (weights).")
    assert "edge" not in report_of("choice").tables(tried(*ranks))[0].note


def test_an_sd_of_the_choice_is_one_over_splits_alone() -> None:
    light, heavy = (
        (Setting("GCTF", "VB", "20", "users", *pair), auc) for pair, auc in (((0.3, 0.1), 0.9), ((1.0, 1.0), 0.5))
    )
    other_rank = (Setting("GCTF", "VB", "8", "users", 0.3, 0.1), 0.7)
    records = tried(light, heavy, other_rank, runs=2)
    rows = {tuple(row[:2]): row[2] for row in report_of("choice").tables(records)[2].rows}
    assert rows["users", "0.3, 0.1"] == "0.900 ± 0.000"
    panel = report_of("choice").figures(records)["choice-adaptation"].axes[3]
    assert "0.3, 0.1" in panel.get_ylabel()
    (line,) = (one for one in panel.get_lines() if len(one.get_xdata()) == 2 and one.get_linestyle() != "None")
    assert list(line.get_ydata()) == pytest.approx([0.7, 0.9])


def test_models_that_know_visits_stand_beside_baselines_that_do() -> None:
    own = report_of("uclaf").tables(pl.DataFrame())[3]
    assert [row[0] for row in own.rows] == [*uclaf.OWN, "visited", "visited × activity"]
    assert "Every link of these data is at a visited place" in own.note


def test_a_setting_that_lacks_splits_is_not_taken() -> None:
    def record(rank: str, missing: float, auc: float) -> dict[str, object]:
        figures = {f"{name}_{how}": auc for name in ("auc", "ap") for how in ("one", "rates", "logs")}
        return Setting("PLTF", "VB", rank).cell() | {"missing": missing, "run": 0} | figures

    records = pl.DataFrame([record("3", 0.6, 0.9), record("3", 0.9, 0.8), record("8", 0.6, 0.89)])
    assert ranking(records, "PLTF", "VB")["rank"].unique().to_list() == ["3"]


def test_a_ranking_of_nothing_is_empty() -> None:
    assert len(ranking(pl.DataFrame(), "PLTF", "VB")) == 0
