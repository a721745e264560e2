"""UCLAF as loaded, and its stand-in."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.io

import plait
from lab.paper.acts import COUPLED_CP
from lab.paper.experiment import Lab
from lab.paper.sources.uclaf import FILE, STAND_IN, load, source

DATA = Path(__file__).parents[4] / "shared" / "data"
needs_data = pytest.mark.skipif(not (DATA / "uclaf" / FILE).exists(), reason=f"{FILE} is not in ../shared/data/uclaf")


def lab(data: Path | None, quick: bool = False) -> Lab:
    return Lab(quick, data, Path("results"))


@needs_data
def test_the_papers_counts_are_found() -> None:
    data = load(lab(DATA))
    assert data.source == "UCLAF"
    assert {axis: len(names) for axis, names in data.labels.items()} == {"user": 146, "place": 168, "activity": 5}
    assert (len(data.links), len(data.visits)) == (1436, 2316)
    assert data.links["user"].n_unique() == 146
    assert data.visits["value"].unique().to_list() == [1.0]


@needs_data
def test_every_link_is_at_a_visited_place() -> None:
    data = load(lab(DATA))
    assert len(data.links.join(data.visits, on=["user", "place"], how="semi")) == len(data.links)


@needs_data
def test_the_first_feature_is_the_row_number_and_is_left_out() -> None:
    raw = np.asarray(plait.read(DATA / "uclaf" / FILE, name="LocFea"))
    assert np.array_equal(raw[:, 0], np.arange(168))
    features = load(lab(DATA)).features
    assert features["feature"].n_unique() == 5
    assert features.group_by("feature").agg(pl.col("value").max())["value"].to_list() == [1.0] * 5


@needs_data
def test_the_file_itself_may_be_named() -> None:
    assert load(lab(DATA / "uclaf" / FILE)).links.equals(load(lab(DATA)).links)


def test_a_folder_without_uclaf_gives_the_stand_in(tmp_path: Path) -> None:
    assert source(lab(tmp_path)) == source(lab(None)) == STAND_IN


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(plait.SettingError, match=r"there is no .*nowhere.*\n.*--data"):
        load(lab(tmp_path / "nowhere"))


def written(path: Path, acts: tuple[int, ...] = (4, 3, 2), **others: object) -> Path:
    """A small file with the names of UCLAF's."""
    arrays = {"UserLocAct": np.ones(acts), "UserLoc": np.ones((4, 3)), "LocFea": np.ones((3, 2))} | others
    path.parent.mkdir(exist_ok=True)
    scipy.io.savemat(path, arrays)
    return path


@pytest.mark.parametrize("named", [f"uclaf/{FILE}", "uclaf", ""])
def test_the_file_its_folder_or_the_one_above_may_be_named(named: str, tmp_path: Path) -> None:
    written(tmp_path / "uclaf" / FILE)
    data = load(lab(tmp_path / named))
    assert data.source == "UCLAF"
    assert (len(data.links), len(data.visits), len(data.features)) == (24, 12, 3)


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        ({"UserLocAct": np.ones((4, 3))}, "UserLocAct 4 × 3,"),
        ({"UserLoc": np.ones((3, 4))}, "UserLoc 3 × 4,"),
        ({"LocFea": np.ones((4, 2))}, "LocFea 4 × 2;"),
        ({"LocFea": np.ones((3, 1))}, "LocFea 3 × 1;"),
    ],
)
def test_arrays_that_do_not_fit_are_named_with_what_was_wanted(
    wrong: dict[str, object], got: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "own.mat", **wrong)
    with pytest.raises(
        plait.DataError, match=rf"own\.mat: .* has .*{got}.*wanted .*UserLoc users × places.*\n.*{FILE}"
    ):
        load(lab(path))


@pytest.mark.parametrize(("there", "listed"), [((), "nothing in it"), (("b.mat", "a.txt"), "a.txt, b.mat")])
@pytest.mark.parametrize("named", ["uclaf", ""])
def test_a_folder_of_uclaf_without_its_file_is_an_error(
    there: tuple[str, ...], listed: str, named: str, tmp_path: Path
) -> None:
    (tmp_path / "uclaf").mkdir()
    for name in there:
        (tmp_path / "uclaf" / name).touch()
    with pytest.raises(plait.DataError, match=rf"--data: .*uclaf has no {FILE}; it has {listed}\.\n"):
        load(lab(tmp_path / named))


def test_a_file_of_another_kind_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(plait.DataError, match=rf"--data: .*notes\.txt is no MATLAB file.*\nName {FILE}"):
        load(lab(tmp_path / "notes.txt"))


@pytest.mark.parametrize("quick", [False, True])
def test_the_stand_in_looks_like_uclaf(quick: bool) -> None:
    data = load(lab(None, quick))
    sizes = {axis: len(names) for axis, names in data.labels.items()}
    assert quick or sizes == {"user": 146, "place": 168, "activity": 5}
    assert data.links["user"].n_unique() == sizes["user"]
    assert len(data.links.join(data.visits, on=["user", "place"], how="semi")) == len(data.links)
    assert data.links.n_unique() == len(data.links)
    assert quick or 1000 < len(data.links) < 2000


def test_relations_bind_to_the_coupled_model() -> None:
    data = load(lab(None, quick=True))
    bound = plait.Model(COUPLED_CP).bind(data.relations(), labels=data.labels)
    assert "40 × 30 × 4" in str(bound)
