"""`fit.top(per=…, output=…)` writes the rows of the table, in chunks, or nothing."""

import _thread
import os
import signal
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import plait
from plait.analysis.topk.top import TopQuery
from plait.errors import DataError, NoCandidatesWarning, ParameterError
from plait.executors import Reference

MODEL = "visits[user, place, day] = U[user, r] P[place, r] D[day, r]"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module", params=["poisson", "bernoulli", "negbin"])
def visits(request):
    rng = np.random.default_rng(5)
    table = pl.DataFrame(np.argwhere(rng.random((7, 9, 3)) < 0.2), schema=["user", "place", "day"]).with_columns(
        pl.format("=u{}", "user").alias("user")
    )
    titles = {"place": {n: f"place no. {n}" for n in range(0, 9, 2)}}
    data = {"visits": plait.Relation(table, likelihood=request.param)}
    return plait.fit(MODEL, data, rank=2, max_iter=4, seed=0, executor=Reference(), titles=titles)


@pytest.fixture(scope="module")
def fit():
    table = pl.DataFrame(np.argwhere(np.random.default_rng(5).random((7, 9, 3)) < 0.2), schema=["user", "place", "day"])
    return plait.fit(MODEL, {"visits": table}, rank=2, max_iter=4, seed=0, executor=Reference())


@pytest.mark.parametrize("chunk", [1, 10, 1 << 17])
def test_the_file_has_the_rows_of_the_table(visits, chunk, way, tuning):
    tuning(top_chunk_links=chunk)
    given, seen = {"user": ["=u4", "=u1", "=u6"]}, {"place": [2, 3], "day": [0, 1]}
    for options in ({"per": "user"}, {"per": ("day", "user"), "given": given, "exclude": seen, "score": "rate"}):
        path = visits.top("visits", 4, output="links.parquet", **options)
        assert path == Path("links.parquet")
        assert pl.read_parquet(path).equals(visits.top("visits", 4, **options))


@pytest.mark.parametrize("name", ["links.csv", "links.tsv.gz", "links.arrow"])
def test_the_ending_is_the_format(fit, name, tuning):
    tuning(top_chunk_links=5, block_cells=1)
    table = fit.top("visits", 2, per="user")
    fit.top("visits", 2, per="user", output=name)
    plait.write(table, f"whole_{name}")
    assert plait.read(name).equals(plait.read(f"whole_{name}"))
    assert len(plait.read(name)) == 14


def test_a_chunk_is_written_before_the_next_is_found(fit, monkeypatch, tuning):
    lengths, table = [], TopQuery.table

    def measured(query, batches):
        found = table(query, batches)
        lengths.append(len(found))
        return found

    tuning(top_chunk_links=4, block_cells=1)  # one user at a time
    monkeypatch.setattr(TopQuery, "table", measured)
    fit.top("visits", 3, per="user", output="links.parquet")
    assert lengths == [6, 6, 6, 3]


def test_a_file_without_links_has_the_columns(fit):
    with pytest.warns(NoCandidatesWarning, match="excluded by `exclude`"):
        fit.top("visits", 3, per="user", exclude={"place": list(range(9))}, output="links.parquet")
    assert pl.read_parquet("links.parquet").equals(fit.top("visits", 0))


@pytest.fixture
def interruptible():
    """Ctrl-C raises, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("name", ["links.parquet", "links.csv", "links.arrow"])
@pytest.mark.parametrize("real", [True, False], ids=["Ctrl-C", "an error"])
def test_a_failed_search_leaves_the_old_file(fit, name, real, monkeypatch, tuning):
    Path(name).write_text("old")
    table, calls = TopQuery.table, []

    def failing(query, batches):
        calls.append(1)
        if len(calls) == 4:
            if real:
                _thread.interrupt_main()
            else:
                raise MemoryError
        return table(query, batches)

    tuning(top_chunk_links=1, block_cells=1)
    monkeypatch.setattr(TopQuery, "table", failing)
    with pytest.raises(KeyboardInterrupt if real else MemoryError):
        fit.top("visits", 3, per="user", output=name)
    assert os.listdir() == [name]
    assert Path(name).read_text() == "old"


@pytest.mark.parametrize("name", ["links.parquet", "links.csv", "links.arrow"])
def test_a_full_disk_leaves_nothing(fit, name, tuning):
    resource = pytest.importorskip("resource", reason="limits of a process are not Windows'")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    tuning(top_chunk_links=1, block_cells=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        with pytest.raises(DataError, match=rf"{name}: the file cannot be written: File too large"):
            fit.top("visits", 3, per="user", output=name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir() == []


MISTAKES = {
    "no per": ({"output": "a.parquet"}, ParameterError, "`output` requires `per`.\nAdd `per`, or write"),
    "no path": ({"output": 3, "per": "user"}, ParameterError, "`output` must be a path, got 3"),
    "a tensor": (
        {"output": "a.tns", "per": "user"},
        DataError,
        r"a.tns: links cannot be written as .tns.\n.*\.parquet",
    ),
    "no ending": ({"output": "a", "per": "user"}, DataError, "a: the file name has no ending"),
    "no folder": ({"output": "no/a.csv", "per": "user"}, DataError, "the folder 'no' does not exist"),
}


@pytest.mark.parametrize(("options", "error", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_wrong_output_is_refused(fit, options, error, message):
    with pytest.raises(error, match=message):
        fit.top("visits", **options)
    assert os.listdir() == []
