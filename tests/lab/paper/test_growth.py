"""Growth: sizes as memory allows, and a report of whatever is finished."""

from pathlib import Path

import polars as pl
import pytest

from lab.paper import growth
from lab.paper.experiment import Lab
from lab.paper.report import growth as report

FULL = Lab(False, None, Path("nowhere"))
RECORDS = pl.DataFrame(
    [
        {"known": known, "method": method, "run": run, "seconds_sweep": known * 1e-8 * (1 + run), "sweeps": 20}
        for known in (10_000, 100_000)
        for method in ("PLTF-EM", "PLTF-VB")
        for run in (0, 1)
    ]
)


@pytest.mark.parametrize(
    ("bytes_", "largest"), [(24e9, 100_000_000), (16e9, 30_000_000), (8e9, 30_000_000), (1e9, 3_000_000)]
)
def test_cubes_that_memory_has_no_room_for_are_left_out(monkeypatch, bytes_, largest):
    monkeypatch.setattr(growth, "memory", lambda: bytes_)
    assert max(cell["known"] for cell in growth.cells(FULL)) == largest


def test_a_sweep_is_timed_without_the_first_ones():
    cell = {"known": 2000, "method": "PLTF-VB", "run": 0}
    figures = growth.measure(FULL, cell)
    assert 0 < figures["seconds_sweep"] < figures["seconds"]
    assert figures["sweeps"] == growth.SWEEPS > growth.ADAPTED
    assert growth.bound(2000) is growth.bound(2000)


def test_the_report_gives_milliseconds_and_nanoseconds_a_cell():
    table = report.tables(RECORDS)[0]
    assert table.rows[1] == ["100,000", "1.50 ± 0.71", "1.50 ± 0.71", "15.0", "15.0"]


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_the_report_shows_whatever_is_finished(rows):
    records = RECORDS.head(rows) if rows else pl.DataFrame()
    for table in report.tables(records):
        assert all(len(row) == len(table.headings) for row in table.rows)
    assert report.figures(records).keys() == {"growth-sweep"}
