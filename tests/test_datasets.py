"""Data sets that ship with Plait: what their sources say, bound by their models."""

from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

import plait
from plait.errors import ParameterError

SHARED = Path(__file__).parents[2] / "shared" / "data"
TRIPLE = ["head", "relation", "tail"]


@pytest.mark.parametrize(
    ("name", "relation", "links", "shape", "official"),
    [
        ("nations", "relations", 1992, (14, 55, 14), (1592, 199, 201)),
        ("umls", "relations", 6529, (135, 46, 135), (5216, 652, 661)),
        ("usair", "routes", 2126, (332, 332), None),
    ],
)
def test_a_data_set_has_the_published_size_and_its_model_binds_it(name, relation, links, shape, official):
    loaded = plait.datasets.load(name)
    bound = loaded.model.bind(loaded.data)
    indices = ("a", "b") if name == "usair" else TRIPLE
    assert tuple(len(bound.entities[index]) for index in indices) == shape
    table = loaded.data[relation].data
    assert table.n_unique() == len(table) == links
    assert not (table[indices[0]] == table[indices[-1]]).any()
    if official is None:
        assert (loaded.train, loaded.valid, loaded.test) == (None, None, None)
        return
    parts = [loaded.train[relation].data, loaded.valid, loaded.test]
    assert tuple(map(len, parts)) == official
    assert pl.concat(parts).sort(TRIPLE).equals(table.sort(TRIPLE))


@pytest.mark.parametrize("name", ["nations", "umls"])
def test_the_official_split_is_that_of_the_source(name):
    if not (SHARED / name).exists():
        pytest.skip(f"there is no {name} in the folder shared/data next to the repository")
    loaded = plait.datasets.load(name)
    for part, table in {"train": loaded.train["relations"].data, "valid": loaded.valid, "test": loaded.test}.items():
        lines = (SHARED / name / f"{part}.txt").read_text("utf-8").splitlines()
        assert sorted(map("\t".join, table.select(TRIPLE).rows())) == sorted(lines)


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ParameterError, match="no data set 'umsl'") as caught:
        plait.datasets.load("umsl")
    assert caught.value.hint == 'Did you mean \'umls\'? Choose one of "nations", "umls", "usair".'


def test_the_data_are_small_and_name_their_sources():
    folder = files("plait.datasets")
    data = [path for path in folder.iterdir() if path.name.endswith((".parquet", ".tsv"))]
    assert sum(len(path.read_bytes()) for path in data) < 100_000
    assert all(f"`{path.name}`" in (folder / "README.md").read_text("utf-8") for path in data)
