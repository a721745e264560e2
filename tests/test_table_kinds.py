"""Tables come back in the kind of the data: pandas in, pandas out."""

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import plait

MODEL = "likes[user, film] = U[user, r] F[film, r]\ntags[film, word] = F[film, r] W[word, r]"
LIKES = pl.DataFrame(
    {"user": ["ann", "ann", "bob", "bob", "cy", "di"], "film": ["Alien", "Heat", "Alien", "Up", "Heat", "Up"]}
)
TAGS = pl.DataFrame({"film": ["Alien", "Heat", "Up"], "word": ["space", "crime", "kids"]})
CELLS = pl.DataFrame({"user": ["cy", "di"], "film": ["Up", "Alien"], "value": [1, 0]})

TABLES: dict[str, Any] = {
    "predict": lambda fit, cells: fit.predict("likes", cells),
    "predict_dict": lambda fit, cells: fit.predict("likes", {"user": ["ann"], "film": ["Up"]}),
    "top": lambda fit, cells: fit.top("likes", 2),
    "components": lambda fit, cells: fit.components(),
    "coupling": lambda fit, cells: fit.coupling(),
    "similar": lambda fit, cells: fit.similar("user", "ann"),
    "surprising": lambda fit, cells: fit.surprising("likes"),
    "responsibilities": lambda fit, cells: fit.responsibilities("likes", cells),
    "explain.components": lambda fit, cells: fit.explain("likes", {"user": "ann", "film": "Up"}).components,
    "explain.entities": lambda fit, cells: fit.explain("likes", {"user": "ann", "film": "Up"}).entities,
    "explain.links": lambda fit, cells: fit.explain("likes", {"user": "ann", "film": "Up"}).links,
    "explain.evidence": lambda fit, cells: fit.explain("likes", {"user": "ann", "film": "Up"}).evidence,
    "calibration": lambda fit, cells: plait.evaluate(fit, "likes", cells).calibration,
    "roc": lambda fit, cells: plait.evaluate(fit, "likes", cells).roc,
    "precision_recall": lambda fit, cells: plait.evaluate(fit, "likes", cells).precision_recall,
    "compare": lambda fit, cells: plait.compare({"a": fit, "b": fit}, "likes", cells).table,
}


@pytest.fixture(scope="module", params=["pandas", "pyarrow", "polars"])
def given(request: pytest.FixtureRequest) -> Any:
    """A fit of tables of one library, that library's table class, and a converter to it."""
    convert = {"pandas": pl.DataFrame.to_pandas, "pyarrow": pl.DataFrame.to_arrow, "polars": pl.DataFrame.clone}
    make = convert[request.param]
    # The second relation is of polars: the tables about all relations follow the first.
    fit = plait.fit(MODEL, {"likes": make(LIKES), "tags": TAGS}, rank=2, max_iter=5, warmup=0, seed=0)
    return fit, make


@pytest.fixture(scope="module")
def ours() -> plait.Fit:
    return plait.fit(MODEL, {"likes": LIKES, "tags": TAGS}, rank=2, max_iter=5, warmup=0, seed=0)


@pytest.mark.parametrize("name", TABLES)
def test_a_fit_answers_with_tables_of_the_kind_of_its_data(given: Any, ours: plait.Fit, name: str) -> None:
    fit, make = given
    table = TABLES[name](fit, make(CELLS))
    assert type(table) is type(make(CELLS))
    same = table if isinstance(table, pl.DataFrame) else pl.DataFrame(table)
    assert_frame_equal(same, TABLES[name](ours, CELLS), check_dtypes=False)


def test_the_tables_of_a_split_and_of_a_grid_search_are_of_the_kind_of_the_data() -> None:
    data = {"likes": LIKES.to_pandas(), "tags": TAGS.to_pandas()}
    with pytest.warns(plait.errors.LeakWarning):
        split = plait.train_test_split({"likes": data["likes"], "again": data["likes"]}, "likes", fraction=0.3, seed=0)
    assert type(split.test) is type(split.leaks) is type(data["likes"])
    assert list(split.leaks.columns) == ["relation", "agree_on", "hidden_links", "leaks", "example", "removed"]
    search = plait.grid_search(MODEL, data, rank=[1, 2], by="elbo", max_iter=3, warmup=0, seed=0)
    assert type(search.table) is type(data["likes"])


def test_paths_are_a_table_of_the_kind_of_the_links() -> None:
    links = pl.DataFrame({"a": ["x", "y", "z"], "b": ["y", "z", "x"]}).to_pandas()
    assert type(plait.evidence.paths(links)) is type(links)
