"""Every command as a person types it: whole outputs, times masked."""

import json
import os
import re

import numpy as np
import polars as pl
import pytest

import plait
from plait.machine import resident
from plait.show.words import write_seconds
from tests.cli.conftest import SEED

RELATIONS = """\
relation   size        likelihood   links   zeros   missing   duplicates
────────────────────────────────────────────────────────────────────────
visits     6 × 3 × 3   poisson         14      31         9            0
friends    6 × 6       bernoulli        7      29         0            0
"""
MODEL = """\
visits[user, place, day] = U[user, r] P[place, r] D[day, r]
friends[user, friend] = U[user, r] F[friend, r]
friend: user
"""
CHECK = f"""\
{MODEL}
{RELATIONS.rstrip()}
the diagonal of friends is observed: self-links are cells like all others

values of links   least   median     mean   most   ones
───────────────────────────────────────────────────────
visits                1        2   2.1429      5      5
friends               1        1   1.0000      1      7

axis    linked in one relation only   entities   without links
──────────────────────────────────────────────────────────────
user    1 in friends                         6               0
place   —                                    3               0
day     —                                    3               0

memory  about 8 kB while fitting: data 169 B, trees 336 B, factors 7 kB, buffers 768 B
peak    about <size> of memory for the whole of `plait fit`, with all that it loads
"""
TIME = "time    about <time> a sweep (the second one was measured), at most <time> for 40 sweeps and 50 of warm-up\n"
PLAN = """
visits: poisson, 14 entries, 1 threads
  tree user > place > day: 0.0 MB, buffers 0.0 MB, 0.0 million multiplications a pass
    U: direct (has the root index)
    P: one buffer a leaf
    D: one buffer a leaf
friends: bernoulli, 7 entries, 1 threads
  tree user > friend: 0.0 MB, buffers 0.0 MB, 0.0 million multiplications a pass
    U: direct (has the root index)
    F: one buffer a leaf
factors: 0.0 MB
"""
FIT = f"""\
{RELATIONS}
model  vb, rank r = 2, seed 0
bound  -84.577 after 40 sweeps, <time>
ended  stopped after 40 sweeps; the last one changed the bound by 4.7e-04 of its size (tol=1e-06).
saved  new run

Next:
  plait top 'new run' visits
  plait top 'new run' visits --given 'user=ann lee'
  plait explain 'new run' visits 'user=ann lee' place=cafe day=1
  plait resume 'new run' --sweeps 80
  plait info 'new run'
"""
INFO = f"""\
{MODEL}
method  vb, rank r = 2, seed 0
axes    user 6, place 3, day 3
bound   -84.577 after 40 sweeps, <time>
ended   stopped after 40 sweeps; the last one changed the bound by 4.7e-04 of its size (tol=1e-06).
saved   run, <size>, by plait {plait.__version__}

relation   likelihood   size        links   sum of values
─────────────────────────────────────────────────────────
visits     poisson      6 × 3 × 3      14              30
friends    bernoulli    6 × 6           7               7

factor   indices     prior concentration   prior mean
─────────────────────────────────────────────────────
U        user, r                   0.641        0.332
P        place, r                    0.5        0.999
D        day, r                      0.5            1
F        friend, r                  1.14        0.332
"""
PREDICT = """\
user      place   day     mean       sd   probability   low   high
──────────────────────────────────────────────────────────────────
ann lee   gym     3     0.1705   0.1960        <p>     0      1
fay       cafe    1     0.5496   0.7495        <p>     0      3
"""
TOP = """\
user   place   day     mean       sd   probability   low   high
───────────────────────────────────────────────────────────────
fay    gym     2     1.9292   1.8258        <p>     0      6
dee    gym     3     1.3853   0.9250        <p>     0      4
eve    cafe    1     1.2059   0.8205        <p>     0      4
"""
GIVEN = """\
user      place   day     mean       sd   probability   low   high
──────────────────────────────────────────────────────────────────
ann lee   park    2     0.2907   0.2350        <p>     0      1
ann lee   gym     2     0.2496   0.3047        <p>     0      1
"""


@pytest.fixture(scope="session")
def fit(world):
    return plait.load(world.folder / "run")


def lines(text):
    return text.strip("\n")


def filled(text, table):
    """A golden table with the probabilities of the library: their last digits depend on shared draws."""
    for probability in table["probability"]:
        text = text.replace("<p>", f"{probability:.4f}", 1)
    return lines(text)


knows_the_peak = pytest.mark.skipif(resident() is None, reason="this system does not say what a process holds")


@knows_the_peak
def test_check_says_what_was_understood(world):
    assert world.stdout("check model.toml") == lines(CHECK + TIME)


@knows_the_peak
def test_check_prints_the_plan_and_leaves_the_time_out_if_asked(world):
    assert world.stdout("check model.toml --plan --no-time") == lines(CHECK + PLAN)


@knows_the_peak
def test_a_fit_that_starts_at_random_has_no_warm_up(scratch):
    scratch.write("model.toml", (scratch.folder / "model.toml").read_text() + 'start = "random"\n')
    assert scratch.stdout("check model.toml").endswith("at most <time> for 40 sweeps")
    scratch.stdout("fit model.toml -o new")
    assert plait.load(scratch.folder / "new").history[0].sweep == 0


def test_check_as_json_has_everything_that_it_prints(world):
    found = json.loads(world.plait("check model.toml --json --no-time").stdout)
    assert found["axes"] == {"user": 6, "place": 3, "day": 3}
    assert found["relations"]["visits"] == {
        "indices": ["user", "place", "day"], "shape": [6, 3, 3], "likelihood": "poisson", "links": 14, "zeros": 31,
        "missing": 9, "duplicates": 0, "unseen": {"user": 1, "place": 0, "day": 0},
        "diagonal": None, "self_links_dropped": 0, "undirected": [],
        "values": {"least": 1.0, "median": 2.0, "mean": 30 / 14, "most": 5.0, "ones": 5},
    }  # fmt: skip
    assert found["relations"]["friends"]["diagonal"] == "observed"
    assert found["links_in_one_relation_only"]["user"] == {"visits": 0, "friends": 1}
    assert found["without_links"] == {"user": 0, "place": 0, "day": 0}
    assert found["memory_bytes"]["total"] == sum(v for k, v in found["memory_bytes"].items() if k != "total")
    assert resident() is None or found["peak_bytes"] > found["memory_bytes"]["total"]
    assert found["seconds_per_sweep"] is None
    assert found["warnings"] == []


def test_check_says_that_a_diagonal_is_missing_where_nothing_else_is_said(scratch):
    config = (scratch.folder / "model.toml").read_text()
    scratch.write("model.toml", config.replace('diagonal = "observed"\n', ""))
    text = scratch.stdout("check model.toml --no-time")
    assert "the diagonal of friends is missing: no entity is observed with itself" in text
    assert json.loads(scratch.plait("check model.toml --no-time --json").stdout)["relations"]["friends"]["missing"] == 6


def test_check_warns_of_what_would_spoil_a_fit(scratch):
    scratch.write("visits.csv", "who,place,day,plays\nann,cafe,1,1\nbob,cafe,1,5000\nbob,gym,2,2\nann,gym,1,2\n")
    scratch.write("friends.csv", "user,friend,value\nann,bob,1\nbob,ann,1\n")
    config = (scratch.folder / "model.toml").read_text()
    scratch.write(
        "model.toml",
        config.replace('"bernoulli"', '"poisson"\nobserved = "listed"').replace("U[user, r] F", "V[user, r] F"),
    )
    result = scratch.plait("check model.toml --no-time")
    assert result.exit_code == 0
    assert result.stderr == (
        "warning: visits has values up to 5,000, the median is 2: a few large counts dominate. "
        'likelihood = "negbin" is made for them.\n'
        'warning: friends has only the values 0 and 1: likelihood = "bernoulli" fits links better.\n'
        "warning: friends has no observed zeros: nothing says which links are improbable.\n"
        "warning: visits shares no factor with another relation: it is fitted by itself.\n"
        "warning: friends shares no factor with another relation: it is fitted by itself.\n"
    )
    assert len(json.loads(scratch.plait("check model.toml --no-time --json").stdout)["warnings"]) == 5


BLANK = "warning: axis place: 1 of 4 names begin or end with a blank, such as ' gym'.\nGive `strip=True`"


def test_a_trap_is_one_warning_on_stderr_and_no_failure(scratch):
    scratch.write("visits.csv", (scratch.folder / "visits.csv").read_text().replace("bob,gym", "bob, gym"))
    fitted = scratch.plait("fit model.toml -o new")
    assert fitted.exit_code == 0
    assert fitted.stderr.startswith(BLANK)
    assert fitted.stderr.count("warning:") == 1
    assert "Traceback" not in fitted.output
    assert "warnings.warn" not in fitted.stderr
    checked = scratch.plait("check model.toml --no-time")
    assert checked.exit_code == 0
    assert checked.stderr == fitted.stderr


def test_a_trap_leaves_json_alone(scratch):
    scratch.write("visits.csv", (scratch.folder / "visits.csv").read_text().replace("bob,gym", "bob, gym"))
    checked = scratch.plait("check model.toml --no-time --json")
    assert [f"warning: {text}".startswith(BLANK) for text in json.loads(checked.stdout)["warnings"]] == [True]
    assert checked.stderr == ""
    fitted = scratch.plait("fit model.toml -o new --json")
    assert json.loads(fitted.stdout)["run"] == "new"
    assert json.loads(fitted.stderr)["warning"]["kind"] == "SpellingWarning"


def test_fit_says_what_it_did_and_what_to_try_next(scratch):
    assert scratch.stdout(["fit", "model.toml", "-o", "new run"]) == lines(FIT)


def test_info_describes_a_run(world):
    text = world.stdout("info run")
    head, size, tail = text.partition(", 8 kB,")
    assert size, text
    assert head + ", <size>," + tail == lines(INFO)


def test_info_as_json_has_the_history(world, fit):
    found = json.loads(world.plait("info run --json").stdout)
    assert [record["bound"] for record in found["history"]] == [record.bound for record in fit.history]
    assert found["history"][0]["change"] is None
    assert found["relations"]["friends"] == {"likelihood": "bernoulli", "shape": [6, 6], "links": 7}
    assert (found["seed"], found["rank"], found["finished"]) == (0, {"r": 2}, True)


def test_predict_scores_the_cells_of_a_file(world, fit):
    expected = fit.predict("visits", plait.read(world.folder / "cells.csv"))
    assert world.stdout("predict run visits cells.csv") == filled(PREDICT, expected)


def test_predict_takes_the_column_names_of_the_source_too(scratch):
    before = scratch.stdout("predict run visits cells.csv")
    scratch.write("cells.csv", "who,place,day\nann lee,gym,3\nfay,cafe,1\n")
    assert scratch.stdout("predict run visits cells.csv") == before


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_tables_go_to_files(scratch, fit, name):
    assert scratch.stdout(f"predict run visits cells.csv -o {name}") == f"wrote 2 rows to {name}"
    expected = fit.predict("visits", plait.read(scratch.folder / "cells.csv"))
    written = plait.read(scratch.folder / name)
    assert written.columns == expected.columns
    assert written["mean"].to_list() == pytest.approx(expected["mean"].to_list(), rel=1e-12)
    assert json.loads(scratch.plait(f"predict run visits cells.csv -o {name} --force --json").stdout) == {
        "written": name, "rows": 2,
    }  # fmt: skip


@pytest.mark.parametrize("command", ["predict run visits cells.csv", "top run visits -k 2"])
def test_a_file_is_replaced_only_if_told(scratch, command):
    before = (scratch.folder / "cells.csv").read_text()
    result = scratch.plait(f"{command} -o cells.csv")
    assert (result.exit_code, result.stdout, result.stderr) == (
        2, "", "error: cells.csv: this file is there already.\nName another one, or replace it: --force.\n",
    )  # fmt: skip
    assert (scratch.folder / "cells.csv").read_text() == before
    assert scratch.stdout(f"{command} -o cells.csv --force") == "wrote 2 rows to cells.csv"


def test_text_files_are_read_with_a_header_or_named_columns(scratch):
    scratch.write("nohead.csv", "ann lee,gym,3\nfay,cafe,1\n")
    expected = scratch.stdout("predict run visits cells.csv")
    assert scratch.stdout("convert cells.csv cells.txt") == "wrote 2 rows to cells.txt"
    assert scratch.stdout("predict run visits cells.txt --header") == expected
    assert scratch.stdout("predict run visits nohead.csv --columns user,place,day") == expected
    scratch.stdout("convert cells.txt back.csv --header")
    assert (scratch.folder / "back.csv").read_text() == (scratch.folder / "cells.csv").read_text()
    scratch.stdout("convert test.csv test.txt")
    assert scratch.stdout("evaluate run visits test.txt --header") == scratch.stdout("evaluate run visits test.csv")
    scratch.write("marks.csv", 'user,place,day\n"ann,gym,3\n')
    scratch.stdout("convert marks.csv marks.parquet --unquoted")
    assert pl.read_parquet(scratch.folder / "marks.parquet")["user"].to_list() == ['"ann']


def test_formulas_in_names_are_escaped_unless_switched_off(scratch):
    scratch.write("names.csv", "user,place,day,note\nann lee,gym,3,=1+1\nfay,cafe,1,'-x\n")
    escaped = "3,'=1+1"
    scratch.stdout("convert names.csv names.parquet --no-escape-formulas")
    assert pl.read_parquet(scratch.folder / "names.parquet")["note"].to_list() == ["=1+1", "'-x"]
    scratch.stdout("convert names.csv escaped.csv")
    assert escaped in (scratch.folder / "escaped.csv").read_text()
    scratch.stdout("convert names.csv raw.csv --no-escape-formulas")
    assert (scratch.folder / "raw.csv").read_text() == (scratch.folder / "names.csv").read_text()
    scratch.stdout("predict run visits names.parquet -o scores.csv")
    assert escaped in (scratch.folder / "scores.csv").read_text()
    scratch.stdout("predict run visits names.parquet -o raw_scores.csv --no-escape-formulas")
    assert "3,=1+1" in (scratch.folder / "raw_scores.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("top run visits --no-escape-formulas", "--no-escape-formulas is for tables in files."),
        (
            "top run visits -o links.parquet --no-escape-formulas",
            "`escape_formulas=False` is for .csv, .tsv",
        ),
        ("convert cells.parquet x.parquet --no-escape-formulas", "`escape_formulas` says nothing about"),
    ],
)
def test_escaping_is_for_text_files(scratch, arguments, said):
    scratch.stdout("convert cells.csv cells.parquet")
    result = scratch.plait(arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {said}")


def test_lines_of_a_file_without_header_are_counted_as_they_are(scratch):
    scratch.write("nohead.csv", "ann lee,gym,3\nzoe,cafe,1\n")
    result = scratch.plait("predict run visits nohead.csv --columns user,place,day")
    assert result.stderr.startswith("error: nohead.csv, line 2, column 'user': 'zoe' is no entity")


def test_predict_scores_unknown_names_by_the_prior_if_asked(scratch):
    scratch.write("cells.csv", "user,place,day\nzoe,cafe,1\n")
    rows = json.loads(scratch.plait("predict run visits cells.csv --unknown prior --json").stdout)
    assert rows[0]["user"] == "zoe"
    assert rows[0]["mean"] > 0


def test_top_lists_links_that_are_not_known(world, fit):
    assert world.stdout("top run visits -k 3") == filled(TOP, fit.top("visits", 3))


def test_top_takes_names_with_blanks_and_numbers(world, fit):
    given = ["--given", "user=ann lee", "--given", "day=2"]
    expected = fit.top("visits", 2, given={"user": "ann lee", "day": 2})
    assert world.stdout(["top", "run", "visits", "-k", "2", *given]) == filled(GIVEN, expected)


def test_top_without_unknown_links_says_how_to_see_known_ones(world):
    command = "top run visits --given user=bob --given place=cafe --given day=1"
    result = world.plait(command)
    assert (result.exit_code, result.stderr) == (
        0, "note: every link that was asked for is known already; --known lists known ones, too.\n",
    )  # fmt: skip
    assert "bob" in world.stdout(f"{command} --known")
    assert world.plait(f"{command} --json").stderr == ""


def test_top_of_no_links_is_an_empty_table(world):
    assert json.loads(world.stdout("top run visits -k 0 --json")) == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.00123, "1.2 ms"), (0.14, "140 ms"), (1.26, "1.3 s"), (59.7, "60 s"), (600, "10 min"), (9000, "2.5 h")],
)
def test_durations_in_words(seconds, words):
    assert write_seconds(seconds) == words


def test_top_with_known_links_and_another_score_is_that_of_the_library(world, fit):
    found = json.loads(world.plait("top run visits -k 5 --known --score probability --json").stdout)
    assert found == fit.top("visits", 5, known=True, score="probability").to_dicts()


def test_top_of_each_entity_without_what_files_exclude_is_that_of_the_library(scratch, fit):
    scratch.write("gone.csv", "place,day\ngym,3\nnowhere,1\n")
    scratch.write("seen.csv", "who,plays\nbob,3\n")  # by the names of the data, with their values
    found = json.loads(
        scratch.plait("top run visits -k 2 --each user --exclude gone.csv --exclude seen.csv --json").stdout
    )
    exclude = [{"place": ["gym"], "day": [3]}, {"user": ["bob"]}]
    assert found == fit.top("visits", 2, each="user", exclude=exclude).to_dicts()
    assert "bob" not in {row["user"] for row in found}
    pairs = json.loads(scratch.plait("top run visits -k 1 --each day --each place --json").stdout)
    assert pairs == fit.top("visits", 1, each=("day", "place")).to_dicts()


def test_top_says_where_files_exclude_everything(scratch):
    scratch.write("seen.csv", "user\nbob\n")
    result = scratch.plait("top run visits --given user=bob --exclude seen.csv")
    assert result.exit_code == 0
    assert result.stderr.startswith(
        "note: visits: nothing can be proposed: all cells asked for are closed by `exclude`"
    )


def test_a_long_table_is_cut_with_a_line_that_says_so(world):
    text = world.stdout("top run visits -k 54 --known")
    assert len(text.splitlines()) == 2 + 50 + 1
    assert text.endswith("\n… and 4 more rows; -o FILE writes all of them.")


def test_explain_prints_the_explanation(world, fit):
    cell = {"user": "ann lee", "place": "gym", "day": 3}
    arguments = ["explain", "run", "visits", "user=ann lee", "place=gym", "day=3"]
    explanation = fit.explain("visits", cell, top=2)
    assert world.stdout([*arguments, "--top", "2"]) == "\n".join(map(str.rstrip, str(explanation).splitlines()))
    assert json.loads(world.plait([*arguments, "--top", "2", "--json"]).stdout) == explanation.to_dict()


@pytest.mark.parametrize(("option", "exact"), [("--exact", True), ("--missing", "missing")])
def test_explain_fits_again_with_the_data_of_the_run(world, fit, option, exact):
    friends = plait.Relation(pl.read_csv(world.folder / "friends.csv"), likelihood="bernoulli", diagonal="observed")
    visits = plait.Relation(pl.read_csv(world.folder / "visits.csv"), value="plays", columns={"user": "who"})
    cell = {"user": "ann lee", "place": "gym", "day": 3}
    data = {"visits": visits, "friends": friends}
    expected = fit.explain("visits", cell, top=1, exact=exact, data=data).to_dict()
    arguments = ["explain", "run", "visits", "user=ann lee", "place=gym", "day=3", "--top", "1", option, "--json"]
    found = json.loads(world.plait(arguments).stdout)
    assert found["exact"] == expected["exact"]
    assert found["links"][0]["exact"] == pytest.approx(expected["links"][0]["exact"], rel=1e-9)


def test_evaluate_prints_the_metrics(world, fit):
    test = pl.read_csv(world.folder / "test.csv").rename({"who": "user", "plays": "value"})
    expected = plait.evaluate(fit, "visits", test, rank=["place", "day"], score="probability")
    arguments = "evaluate run visits test.csv --rank place --rank day --score probability"
    assert world.stdout(arguments) == str(expected)
    assert json.loads(world.plait(f"{arguments} --json").stdout) == expected.to_dict()


def test_evaluate_looks_at_the_first_k_and_filters_by_known_files(scratch, fit):
    scratch.write("links.csv", "user,place,day\nann lee,gym,3\nfay,park,2\n")
    scratch.write("one.csv", "who,place,day,plays\nann lee,cafe,3,1\n")
    scratch.write("two.csv", "user,place,day\nfay,gym,2\nzoe,cafe,3\n")
    test = pl.read_csv(scratch.folder / "links.csv")
    known = [{"user": ["ann lee", "fay"], "place": ["cafe", "gym"], "day": [3, 2]}]
    expected = plait.evaluate(fit, "visits", test, rank="place", k=[1, 2], known=known)
    arguments = "evaluate run visits links.csv --rank place -k 1 -k 2 --known one.csv --known two.csv"
    assert scratch.stdout(arguments) == str(expected)
    assert json.loads(scratch.plait(f"{arguments} --json").stdout) == expected.to_dict()
    assert expected["mrr"] > plait.evaluate(fit, "visits", test, rank="place")["mrr"]


def test_evaluate_takes_another_column_of_values(scratch, fit):
    scratch.write("test.csv", "user,place,day,times\nann lee,cafe,3,2\neve,gym,3,0\n")
    found = json.loads(scratch.plait("evaluate run visits test.csv --value times --json").stdout)
    assert (found["links"], found["zeros"]) == (1, 1)


def test_evaluate_draws_non_links_where_the_test_has_links_only(scratch):
    scratch.write("test.csv", "user,place,day\nann lee,cafe,3\n")
    found = json.loads(scratch.plait("evaluate run visits test.csv --nonlinks 3 --seed 1 --json").stdout)
    assert "roc_auc_uniform" in found["metrics"]


def test_evaluate_tells_of_links_that_the_run_was_given_among_its_notes_only(scratch):
    done = scratch.plait("evaluate run visits visits.csv --value plays")
    assert "note: 14 of 14 test links are known to the fit" in done.stdout
    assert done.stderr == ""


def test_convert_writes_what_it_read(scratch):
    assert scratch.stdout("convert visits.csv visits.parquet") == "wrote 14 rows to visits.parquet"
    assert pl.read_parquet(scratch.folder / "visits.parquet").equals(pl.read_csv(scratch.folder / "visits.csv"))
    scratch.write("tensor.tns", "1 1 2.5\n2 3 1\n")
    found = json.loads(scratch.plait("convert tensor.tns tensor.csv --columns a,b,x --json").stdout)
    assert found == {"written": "tensor.csv", "rows": 2, "columns": ["a", "b", "x"]}
    assert (scratch.folder / "tensor.csv").read_text() == "a,b,x\n1,1,2.5\n2,3,1.0\n"


def test_convert_says_what_becomes_of_the_cells_of_an_array(scratch):
    np.save(scratch.folder / "full.npy", np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
    np.save(scratch.folder / "gaps.npy", np.array([[1.0, np.nan], [0.0, 3.0]]))
    for source, target, said in (
        ("full", "full.csv", "2 × 3 to full.csv\nCoordinates count from 0. Zeros are left out"),
        ("full", "full.tns", "2 × 3 to full.tns\nCoordinates count from 1. Zeros are left out"),
        ("gaps", "gaps.csv", "2 × 2 to gaps.csv\nCoordinates count from 0. Missing cells are left out"),
    ):
        text = scratch.stdout(f"convert {source}.npy {target}")
        assert text == f"wrote an array of {said}, so the shape is not kept."
    assert scratch.stdout("convert full.npy full.npz") == "wrote an array of 2 × 3 to full.npz"
    assert json.loads(scratch.stdout("convert full.npy more.tns --json")) == {
        "written": "more.tns", "shape": [2, 3], "counts_from": 1,
    }  # fmt: skip


def test_info_of_a_fit_without_priors_has_no_empty_columns(scratch):
    config = (scratch.folder / "model.toml").read_text()
    scratch.write("model.toml", config.replace(SEED, 'seed = 0\nmethod = "em"'))
    scratch.plait("fit model.toml -o em --sweeps 2")
    text = scratch.stdout("info em")
    assert "prior" not in text
    assert text.endswith(
        "factor   indices\n──────────────────\nU        user, r\nP        place, r\nD        day, r\nF        friend, r"
    )


def test_convert_replaces_a_file_only_if_told(scratch):
    result = scratch.plait("convert visits.csv friends.csv")
    assert (result.exit_code, result.stderr) == (
        2, "error: friends.csv: this file is there already.\nName another one, or replace it: --force.\n",
    )  # fmt: skip
    assert scratch.stdout("convert visits.csv friends.csv --force") == "wrote 14 rows to friends.csv"


def test_every_table_is_the_same_as_json_without_nan(world):
    for command in ("predict run visits cells.csv", "top run visits", "top run friends", "info run"):
        text = world.plait(f"{command} --json").stdout
        assert not re.search(r"\b(NaN|Infinity)\b", text), command
        json.loads(text)


def test_config_and_run_may_be_in_another_folder(world, monkeypatch, tmp_path):
    from tests.cli.conftest import World

    away, here = World(tmp_path), os.path.relpath(world.folder, tmp_path)
    assert away.plait(f"fit {here}/model.toml -o run --sweeps 2").exit_code == 0
    assert away.plait("resume run --sweeps 3").exit_code == 0
