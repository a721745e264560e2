"""The page says what the results say, and an interrupted run goes on."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.bench.__main__ import main
from lab.bench.report import growth, page, quality, sweep, targets, words, write
from lab.bench.rows import PARTS, rows
from lab.harness import results
from lab.harness.command import NAME
from lab.harness.results import Found
from lab.harness.running import Row, Study, run

ROOT = Path(__file__).parents[3]
KEPT = ROOT / "docs" / "benchmarks" / NAME


def timing(seconds):
    return {"seconds": seconds, "spread": 0.0, "repeats": 1, "rounds": [seconds]}


def found(*lines):
    return Found({"quick": False}, [{"cell": cell, "figures": figures} for cell, figures in lines])


def cube(rank, observed="all", side=500, **seconds):
    """A sweep row: seconds of Plait's actions and of the others' by name."""
    about = {"part": "sweep", "model": "CP", "sides": [side] * 3, "rank": rank, "observed": observed}
    plait = {"sweep": timing(seconds["sweep"]), "counts": timing(1.0), "counts and bound": timing(1.1), "peak": 1}
    who = {"Plait": plait, "yardstick": {"counts": timing(seconds.get("yardstick", 1.0)), "peak": 1}}
    if "pyttb" in seconds:
        who["pyttb cp_apr"] = {"sweep": timing(seconds["pyttb"]), "peak": 1}
    return about | {"likelihood": "poisson", "nonzeros": 1000}, {"nonzeros": 1000, "contenders": who}


def judged(kept):
    return {row[0]: row[1:] for row in targets.table(kept).rows}


def test_every_target_stands_on_the_page_even_when_nothing_is_measured():
    verdicts = {row[-1] for row in targets.table(found()).rows}
    assert verdicts == {"not measured"}


def test_a_target_is_met_only_if_every_rank_keeps_to_its_own_limit():
    what = "listed: sweep ≤ 3.5 × counts at R = 5, 3 × at 20 and 50, 500³"

    def verdict(**sweeps):
        return judged(found(*(cube(int(rank[1:]), "listed", sweep=s) for rank, s in sweeps.items())))[what][1]

    assert verdict(R5=3.4, R20=2.9, R50=2.9) == "yes"
    assert verdict(R5=3.4, R20=2.9, R50=3.2) == "**no**"
    assert verdict(R5=3.6, R20=2.9, R50=2.9) == "**no**"
    assert verdict(R5=3.4, R20=2.9) == "not measured"
    assert verdict(R5=3.6) == "**no**"


def test_a_row_that_plait_cannot_do_is_not_met():
    rows = [cube(rank, sweep=1.2, pyttb=50.0) for rank in (5, 20, 50)]
    rows[1][1]["contenders"]["Plait"] = {"cannot": "ValueError: no"}
    found_here = judged(found(*rows))
    assert found_here["counts pass ≤ 1.15 × the yardstick, 500³"] == [
        "R = 5: 1.00; R = 20: never; R = 50: 1.00",
        "**no**",
    ]
    assert found_here["the links' part of the bound < 15 % of a sweep, every row"][1] == "**no**"
    measured, met = found_here["every sweep ≥ 10 × faster than the fastest Python-level peer"]
    assert met == "**no**"
    assert "Plait in CP-3, 500³, R = 20, all observed: never" in measured


def test_every_row_means_every_row_that_there_should_be():
    what = "labels > 10 million rows a second"
    rows_there = [({"part": "front", **row.about}, {"rows": 5e7, "seconds": 1.0}) for row in rows("front", False)]
    encoded = [line for line in rows_there if line[0]["what"] == "encode"]
    assert judged(found(*encoded))[what][1] == "yes"
    assert judged(found(*encoded[:-1]))[what][1] == "not measured"


def test_a_bound_that_no_way_came_near_is_a_failure():
    about = {"part": "quality", "what": "bound", "problem": "500³"}
    ways = {"plain": [{"seconds": None}], "accelerated": [{"seconds": None}]}
    what = "500³ from arrays to within 1e-4 of the best bound < 3 s"
    assert judged(found((about, {"ways": ways, "default": "plain"})))[what] == ["never", "**no**"]
    ways["accelerated"] = [{"seconds": 2.0}]
    assert judged(found((about, {"ways": ways, "default": "plain"})))[what] == ["accelerated: 2.00 s", "yes"]


def test_the_slowest_lead_over_peers_is_the_one_that_counts():
    kept = found(cube(5, sweep=1.0, pyttb=50.0), cube(20, sweep=1.0, pyttb=9.0))
    measured, met = judged(kept)["every sweep ≥ 10 × faster than the fastest Python-level peer"]
    assert met == "**no**"
    assert "pyttb cp_apr in CP-3, 500³, R = 20, all observed, 9.00 ×; short in 1 of 2 rows" in measured


def test_ratios_are_those_of_the_same_round():
    about, figures = cube(5, sweep=3.0)
    plait = figures["contenders"]["Plait"]
    # A machine that is twice as slow in the second round and three times in the third, each caught by another action.
    plait["sweep"]["rounds"], plait["counts"]["rounds"] = [1.2, 2.4, 3.6], [1.0, 2.0, 3.0]
    plait["counts and bound"]["rounds"] = [1.12, 2.24, 3.36]
    found_here = judged(found((about, figures)))
    assert found_here["all observed: sweep ≤ 1.5 × counts, 500³"][0] == "R = 5: 1.20"
    assert found_here["the links' part of the bound < 15 % of a sweep, every row"][0] == "at most 10 %"


def test_native_peers_are_compared_in_units_of_the_yardstick():
    # ALTO: 985 ms beside a yardstick of at most 122 ms; 8.0 yardsticks are faster than that, 8.1 are not.
    for sweep_seconds, met in ((8.0, "yes"), (8.1, "**no**")):
        smaller = [cube(rank, side=1000, sweep=1.0, yardstick=1.0) for rank in (5, 20)]
        kept = found(*smaller, cube(50, side=1000, sweep=sweep_seconds, yardstick=1.0))
        assert judged(kept)["faster than native peers (published, by the yardstick), 1000³"][1] == met


def test_time_a_nonzero_must_have_been_measured_at_both_ends():
    def points(*pairs):
        return found(
            *(({"part": "growth", "series": "nonzeros", "x": x}, {"seconds": s, "nonzeros": x}) for x, s in pairs)
        )

    assert growth.rise(points((1_000_000, 1.0), (10_000_000, 13.0))) is None
    assert growth.rise(points((1_000_000, 1.0), (10_000_000, 13.0), (100_000_000, 90.0))) == pytest.approx(0.3)


def test_slopes_are_exponents():
    xs = [1.0, 10.0, 100.0]
    assert growth.slope(xs, [3 * x**1.5 for x in xs]) == pytest.approx(1.5)
    assert growth.slope([1.0], [2.0]) is None


def test_a_run_that_never_came_near_has_no_time():
    def figures(plain, fast):
        return {"ways": {"plain": [{"seconds": s} for s in plain], "accelerated": [{"seconds": s} for s in fast]}}

    assert quality.seconds_near(figures([1.0, 3.0], []), "plain") == 2.0
    assert quality.seconds_near(figures([1.0, None, 4.0], []), "plain") == 4.0
    assert quality.seconds_near(figures([1.0, None], []), "plain") is None
    assert quality.gain(figures([6.0, 8.0, 9.0], [2.0, 2.0, None])) == 3.0
    assert quality.gain(figures([6.0], [None])) == 0.0
    assert quality.gain(figures([None, 6.0, 8.0], [1.0, 2.0, 2.0])) == 4.0
    assert quality.gain(figures([], [])) is None
    assert quality.arrived(figures([6.0, None], [2.0, 1.0])) == "plain 1, accelerated 2 of 2"


def test_who_cannot_is_listed_with_the_reason():
    about, figures = cube(5, sweep=1.0)
    figures["contenders"]["poismf"] = {"cannot": "matrices only"}
    (table,) = [t for t in sweep.tables(found((about, figures))) if t.title == "Who cannot do which row"]
    assert table.rows == [["poismf", "matrices only", "CP-3, 500³, R = 5, all observed"]]


@pytest.mark.parametrize(
    ("value", "text"), [(0.00123, "1.23 ms"), (3.2, "3.20 s"), (123.4, "123 s"), (None, "–"), (0.0, "0 ms")]
)
def test_seconds_in_words(value, text):
    assert words.seconds(value) == text


def test_a_row_that_failed_is_a_line_of_the_page(tmp_path):
    def fails(done):
        raise subprocess.CalledProcessError(3, ["/somewhere/plait", "check"])

    file = tmp_path / NAME
    row = Row({"part": "front", "what": "estimate"}, fails)
    for _ in range(2):  # a rerun tries again, and does not say it twice
        run(Study("bench", "drawn"), [row], file, True, "test")
    kept = results.read(file)
    assert len(kept.failures) == 1
    assert "| front, estimate | a process ended with code 3 |" in page.text(kept, tmp_path, tmp_path / "page.md")


def disk(nonzeros, **more):
    """A row of large data: a pass from disk of so many seconds beside one of 1 s in memory, unless it is too large."""
    figures = {"cpu": 1.0, "wall": 1.0, "reading": 0.5, "bytes": 4.0, "peak": 1.4e9, "ns": 100.0, "more": 11.0} | more
    run = {name: figures[name] for name in ("cpu", "wall", "reading", "bytes")}
    fit = {"peak": figures["peak"], "seconds": 3.0, "bound": -1.0}
    rows_there = {
        "disk": {"pass": run, "fit": fit},
        "pack": {"cpu": figures["ns"] * nonzeros / 1e9, "wall": 1, "peak": 1},
    }
    if nonzeros < 1e9:
        taken = {"bind": {"cpu": 1.0, "more": 9.0 * nonzeros}, "fit": fit | {"more": figures["more"] * nonzeros}}
        rows_there |= {"memory": {"pass": run | {"cpu": 1.0, "wall": 1.0}, **taken}, "scanned": taken}
    return {"part": "large", "nonzeros": nonzeros}, rows_there


def test_of_large_data_every_size_keeps_to_the_limits_and_the_largest_to_the_bytes():
    verdicts = judged(found(disk(10**8, bytes=6.0), disk(10**9)))
    for what in ("packed links ≤ 4.5 bytes", "three sweeps from disk", "packing ≤ 120 ns"):
        assert {verdict[1] for name, verdict in verdicts.items() if name.startswith(what)} == {"yes"}, what
    slow = judged(found(disk(10**8, cpu=1.2, wall=1.12), disk(10**9, peak=1.6e9)))
    assert slow["a pass from disk ≤ 1.10 × one in memory, processors"] == ["100 million: 1.20", "**no**"]
    assert slow["a pass from disk ≤ 1.15 × one in memory, wall"] == ["100 million: 1.12", "yes"]
    assert slow["three sweeps from disk, R = 20: peak ≤ 1.5 GB"] == [
        "100 million: 1.40 GB; 1000 million: 1.60 GB",
        "**no**",
    ]


def test_what_links_take_in_memory_is_judged_beside_their_table():
    verdicts = judged(found(disk(10**8, more=18.0), disk(10**9)))
    assert verdicts["binding a table: peak ≤ 12 bytes a link beside it"] == ["100 million: 9.00", "yes"]
    assert verdicts["a fit of a table, R = 20: peak ≤ 12 bytes a link beside it"] == ["100 million: 18.0", "**no**"]


def test_a_pass_that_waits_for_the_disk_is_measured_against_reading():
    slow_disk = disk(10**8, wall=4.0, reading=3.8)
    assert judged(found(slow_disk))["a pass from disk ≤ 1.15 × one in memory, wall"][1] == "yes"


def test_other_bits_after_lost_workers_are_a_failure():
    kills = {"part": "dask", "what": "kills"}, {"killed": 100, "sweeps": 201, "seconds": 1.0, "same": False}
    assert judged(found(kills))["100 workers killed and added in one fit: the same bits"] == [
        "100 killed: OTHERS",
        "**no**",
    ]


@pytest.mark.parametrize("quick", [True, False])
def test_every_row_has_a_name_of_its_own(quick):
    names = [json.dumps(row.about, sort_keys=True) for part in PARTS for row in rows(part, quick)]
    assert len(set(names)) == len(names)


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["sweeep"])
    assert "unknown part sweeep" in capsys.readouterr().err


@pytest.mark.slow
def test_a_quick_part_is_measured_and_written(tmp_path):
    arguments = ["growth", "--quick", "--folder", str(tmp_path), "--page", str(tmp_path / "page.md"), "--only", "rank"]
    assert main(arguments) == 0
    text = (tmp_path / "page.md").read_text()
    assert "| rank | 2 |" in text
    assert str(tmp_path) not in text
    assert {path.name for path in tmp_path.iterdir()} == {"results.jsonl", "page.md", "growth.svg", "growth.png"}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("part", "shown"),
    [("update", "| drawn, 300 × 200 × 20 |"), ("fold_in", "| fold_in |"), ("large", "| 20,000 from disk |")],
)
def test_large_data_are_measured_in_small(part, shown, tmp_path):
    folder = ["--quick", "--folder", str(tmp_path), "--page", str(tmp_path / "page.md")]
    assert main([part, *folder, *(["--nonzeros", "20000"] if part == "large" else [])]) == 0
    assert shown in (tmp_path / "page.md").read_text()


@pytest.mark.skipif(not KEPT.exists(), reason="nothing is measured yet: make bench")
def test_the_page_is_made_from_its_results(tmp_path):
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    shutil.copy(KEPT, folder)
    write(folder / NAME, tmp_path / "benchmarks.md", folder)
    kept = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert (tmp_path / "benchmarks.md").read_text(encoding="utf-8") == kept
    drawn = {path.name for path in folder.iterdir()}
    assert drawn == {path.name for path in KEPT.parent.iterdir()}


def test_a_page_without_results_says_so(tmp_path):
    assert "Nothing is measured yet." in page.text(results.read(tmp_path / "none"), tmp_path, tmp_path / "page.md")
