"""What every command prints, with times masked, and its JSON."""

import json
import os
import re
import shlex
import sys

import numpy as np
import polars as pl
import pytest

import plait
from plait.config import read_config
from tests.support.cli_world import SEED, World
from tests.support.data_errors import assert_mentions

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
self-links of friends: observed

values of links   min   median     mean   max   ones
────────────────────────────────────────────────────
visits              1        2   2.1429     5      5
friends             1        1   1.0000     1      7

axis    only in one relation   entities   without links
───────────────────────────────────────────────────────
user    1 in friends                  6               0
place   —                             3               0
day     —                             3               0

likelihood  visits poisson (counts)
memory      about 8 kB while fitting: data 169 B, trees 336 B, factors 7 kB, buffers 768 B
peak        about <size> of memory for `plait fit` in total
"""
TIME = "time        about <time> per sweep (measured), at most <time> for 40 sweeps and 50 of warm-up\n"
FIT = f"""\
{RELATIONS}
model       vb, rank r = 2, seed 0
likelihood  visits poisson (counts)
objective   -84.577 after 40 sweeps, <time>
ended       stopped after 40 sweeps: the relative change of the objective is 4.7e-04 (`tol` is 1e-06).
saved       new run

Next:
  plait top 'new run' visits
  plait top 'new run' visits --given 'user=ann lee'
  plait explain 'new run' visits 'user=ann lee' place=cafe day=3
  plait resume 'new run' --max-iter 80
  plait info 'new run'
"""
INFO = f"""\
{MODEL}
method      vb, rank r = 2, seed 0
axes        user 6, place 3, day 3
likelihood  visits poisson (counts)
objective   -84.577 after 40 sweeps, <time>
ended       stopped after 40 sweeps: the relative change of the objective is 4.7e-04 (`tol` is 1e-06).
saved       run, <size>, by plait {plait.__version__}

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
TOP = """\
user   place   day     mean       sd   probability   lower   upper
──────────────────────────────────────────────────────────────────
fay    gym     2     1.9292   1.8258        <p>       0       6
dee    gym     3     1.3853   0.9250        <p>       0       4
eve    cafe    1     1.2059   0.8205        <p>       0       4
"""


@pytest.fixture(scope="session")
def fit(world):
    return plait.load(world.folder / "run")


knows_the_peak = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process holds")


@knows_the_peak
def test_check_prints_a_data_summary(world):
    assert world.stdout("check model.toml") == (CHECK + TIME).strip("\n")


def test_check_prints_the_plan(world):
    text = world.stdout("check model.toml --plan --no-time")
    assert "visits: poisson, 14 entries, 1 threads\n  tree user > place > day: " in text
    assert "a sweep" not in text


def test_a_random_start_has_no_warm_up(scratch):
    scratch.write("model.toml", scratch.read("model.toml") + "warmup = 0\n")
    assert scratch.stdout("check model.toml").endswith("at most <time> for 40 sweeps")
    scratch.stdout("fit model.toml -o new --max-iter 2")
    assert plait.load(scratch.folder / "new").history[0].sweep == 0


def test_check_has_json(world):
    found = world.json("check model.toml --no-time")
    assert found["axes"] == {"user": 6, "place": 3, "day": 3}
    assert found["relations"]["visits"] == {
        "indices": ["user", "place", "day"], "shape": [6, 3, 3], "likelihood": "poisson",
        "likelihood_by": "counts", "links": 14, "zeros": 31, "missing": 9, "duplicates": 0,
        "unseen": {"user": 1, "place": 0, "day": 0},
        "self_links": None, "dropped_self_links": 0, "undirected": [],
        "values": {"least": 1.0, "median": 2.0, "mean": 30 / 14, "most": 5.0, "ones": 5},
    }  # fmt: skip
    assert found["relations"]["friends"]["self_links"] == "observed"
    assert found["links_in_one_relation_only"]["user"] == {"visits": 0, "friends": 1}
    assert found["without_links"] == {"user": 0, "place": 0, "day": 0}
    assert found["memory_bytes"]["total"] == sum(v for k, v in found["memory_bytes"].items() if k != "total")
    assert sys.platform != "linux" or found["peak_bytes"] > found["memory_bytes"]["total"]
    assert (found["seconds_per_sweep"], found["warnings"]) == (None, [])


def test_check_says_that_self_links_are_missing(scratch):
    scratch.change('self_links = "observed"\n', "")
    assert "self-links of friends: missing" in scratch.stdout("check model.toml --no-time")
    assert scratch.json("check model.toml --no-time")["relations"]["friends"]["missing"] == 6


def test_check_warns_of_unsuitable_data(scratch):
    bursts = "".join(f"u{n},p{n},{n % 4},900\n" for n in range(90))
    scratch.write("visits.csv", f"who,place,day,plays\nann,cafe,1,1\nbob,cafe,1,5000\nbob,gym,2,2\n{bursts}")
    scratch.write("friends.csv", "user,friend,value\nann,bob,1\nbob,ann,1\n")
    scratch.change('"bernoulli"', '"poisson"\nobserved = "listed"')
    scratch.change("U[user, r] F", "V[user, r] F")
    scratch.change('value = "plays"', 'value = "plays"\nlikelihood = "poisson"')
    result = scratch.plait("check model.toml --no-time")
    assert result.exit_code == 0
    words = [
        "largest 5,000",
        "only the values 0 and 1",
        "no observed zeros",
        "visits shares no",
        "friends shares no",
    ]
    lines = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert len(lines) == len(words)
    assert all(word in line for line, word in zip(lines, words))
    assert scratch.plait("fit model.toml -o new --max-iter 1").stderr.count("largest 5,000") == 1
    assert len(scratch.json("check model.toml --no-time")["warnings"]) == 5


def test_a_warning_is_printed_once_on_stderr(scratch):
    scratch.change("bob,gym", "bob, gym", "visits.csv")
    fitted, checked = scratch.plait("fit model.toml -o new"), scratch.plait("check model.toml --no-time")
    assert (fitted.exit_code, checked.exit_code) == (0, 0)
    assert fitted.stderr.startswith("warning: axis place: 1 of 4 names begin or end with a blank, such as ' gym'.\n")
    assert fitted.stderr.count("warning") == 1
    assert checked.stderr == fitted.stderr
    checked, fitted = (scratch.plait(f"{one} --json") for one in ("check model.toml --no-time", "fit model.toml -o n"))
    assert len(json.loads(checked.stdout)["warnings"]) == 1
    assert checked.stderr == ""
    assert json.loads(fitted.stdout)["run"] == "n"
    assert json.loads(fitted.stderr)["warning"]["kind"] == "SpellingWarning"


def test_fit_prints_the_result_and_next_commands(scratch):
    assert scratch.stdout(["fit", "model.toml", "-o", "new run"]) == FIT.strip("\n")


@pytest.mark.parametrize(
    ("model", "rows", "explained"),
    [
        ("ties[a, b] = A[a, r] A[b, r]\nb: a", "a,b\nn0,n1\nn0,n2\nn1,n2\nn3,n1\n", "a=n0 b=n3"),  # no self-link
        ("ties[a, b] = A[a, r] A[b, r]\nb: a", "a,b\nn0,n1\nn0,n2\nn1,n2\n", "a=n0 b=n1"),  # all links are known
        ("ties[a, b] = A[a, r] B[b, r]", "a,b,value\n1,3,1\n2,4,2\n", "a=1 b=4"),
        ("ties[a] = A[a, r]", "a,value\nann,1\nbob,2\n", "a=ann"),
        ("ties[a, b] = A[a, r] B[b, r]", "a,b,value\nann,x,0\nbob,y,0\n", None),
    ],
    ids=["graph", "complete", "numbers", "one index", "no links"],
)
def test_commands_recommended_after_a_fit_work(tmp_path, model, rows, explained):
    world = World(tmp_path)
    world.write("ties.csv", rows)
    world.write("model.toml", f'model = """\n{model}\n"""\n[relations.ties]\nsource = "ties.csv"\n')
    told = world.plait("fit model.toml -o run --rank 2 --max-iter 2 --threads 1 --seed 0").stdout
    commands = told.partition("Next:\n")[2].splitlines()
    found = [line.partition("ties ")[2] for line in commands if "explain" in line]
    assert found == ([] if explained is None else [explained])
    assert [line for line in commands if world.plait(shlex.split(line)[1:]).exit_code] == []


def test_info_describes_a_run(world, fit):
    head, size, tail = world.stdout("info run").partition(", 8 kB,")
    assert size
    assert head + ", <size>," + tail == INFO.strip("\n")
    found = world.json("info run")
    assert [record["objective"] for record in found["history"]] == [record.objective for record in fit.history]
    assert found["history"][0]["change"] is None
    assert found["relations"]["friends"] == {"likelihood": "bernoulli", "shape": [6, 6], "links": 7}
    assert (found["seed"], found["rank"], found["finished"]) == (0, {"r": 2}, True)


def test_info_of_a_fit_without_priors_has_no_empty_columns(scratch):
    scratch.change(SEED, 'seed = 0\nmethod = "em"')
    scratch.stdout("fit model.toml -o em --max-iter 2")
    assert "prior" not in scratch.stdout("info em")


def test_predict_scores_the_cells_of_a_file(scratch, fit):
    expected = fit.predict("visits", plait.read(scratch.folder / "cells.csv"))
    assert scratch.json("predict run visits cells.csv") == expected.to_dicts()
    before = scratch.stdout("predict run visits cells.csv")
    scratch.change("user,place", "who,place", "cells.csv")
    assert scratch.stdout("predict run visits cells.csv") == before


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_tables_go_to_files(scratch, fit, name):
    assert scratch.stdout(f"predict run visits cells.csv -o {name}") == f"wrote 2 rows to {name}"
    expected = fit.predict("visits", plait.read(scratch.folder / "cells.csv"))
    written = plait.read(scratch.folder / name)
    assert written.columns == expected.columns
    assert written["mean"].to_list() == pytest.approx(expected["mean"].to_list(), rel=1e-12)
    assert scratch.json(f"predict run visits cells.csv -o {name} --force") == {"written": name, "rows": 2}


@pytest.mark.parametrize(
    ("command", "rows"),
    [("predict run visits cells.csv -o", 2), ("top run visits -k 2 -o", 2), ("convert visits.csv", 14)],
)
def test_a_file_is_replaced_by_force_only(scratch, command, rows):
    before = scratch.read("cells.csv")
    scratch.refuse(f"{command} cells.csv", "cells.csv: the file already exists.", "--force")
    assert scratch.read("cells.csv") == before
    assert scratch.stdout(f"{command} cells.csv --force") == f"wrote {rows} rows to cells.csv"


def test_text_files_are_read_with_a_header_or_named_columns(scratch):
    scratch.write("nohead.csv", "ann lee,gym,3\nfay,cafe,1\n")
    expected = scratch.stdout("predict run visits cells.csv")
    scratch.stdout("convert cells.csv cells.txt")
    assert scratch.stdout("predict run visits cells.txt --header") == expected
    assert scratch.stdout("predict run visits nohead.csv --columns user,place,day") == expected
    scratch.stdout("convert cells.txt back.csv --header")
    assert scratch.read("back.csv") == scratch.read("cells.csv")
    scratch.stdout("convert test.csv test.txt")
    assert scratch.stdout("evaluate run visits test.txt --header") == scratch.stdout("evaluate run visits test.csv")
    scratch.write("marks.csv", 'user,place,day\n"ann,gym,3\n')
    scratch.stdout("convert marks.csv marks.parquet --unquoted")
    assert pl.read_parquet(scratch.folder / "marks.parquet")["user"].to_list() == ['"ann']


def test_null_values_and_bad_rows_are_options_of_commands_and_keys_of_configs(scratch):
    scratch.write("raw.csv", "user,place,day,value\nann lee,gym,3,1\nfay,cafe,1,lots\nfay,cafe\nfay,-,1,NA\n")
    done = scratch.plait("convert raw.csv clean.parquet --null-values NA,- --on-bad-rows skip")
    assert done.exit_code == 0
    assert done.stderr.count("rows are left out") == 1
    assert_mentions(done.stderr, "raw.csv, line 3, column 'value'", "'lots' is not a number; 2 rows are left out")
    rows = [("ann lee", "gym", 3, 1), ("fay", None, 1, None)]
    assert pl.read_parquet(scratch.folder / "clean.parquet").rows() == rows
    scratch.write("visits.csv", scratch.read("visits.csv") + "eve,gym\neve,gym,NA,1\neve,gym,3,many\n")
    keys = 'columns = { user = "who" }\nnull_values = "NA"\non_bad_rows = "skip"'
    scratch.write("model.toml", scratch.read("model.toml").replace('columns = { user = "who" }', keys))
    done = scratch.plait("check model.toml --no-time")
    assert_mentions(done.stderr, "visits.csv, line 17, column 'day'")  # a null is no name; line 16 is left out


def test_formulas_in_names_are_escaped_by_default(scratch):
    scratch.write("names.csv", "user,place,day,note\nann lee,gym,3,=1+1\nfay,cafe,1,'-x\n")
    scratch.stdout("convert names.csv names.parquet --no-escape-formulas")
    assert pl.read_parquet(scratch.folder / "names.parquet")["note"].to_list() == ["=1+1", "'-x"]
    scratch.stdout("convert names.csv escaped.csv")
    scratch.stdout("predict run visits names.parquet -o scores.csv")
    assert all("3,'=1+1" in scratch.read(name) for name in ("escaped.csv", "scores.csv"))
    scratch.stdout("convert names.csv raw.csv --no-escape-formulas")
    assert scratch.read("raw.csv") == scratch.read("names.csv")
    scratch.stdout("predict run visits names.parquet -o raw_scores.csv --no-escape-formulas")
    assert "3,=1+1" in scratch.read("raw_scores.csv")


def test_predict_scores_unknown_names_by_the_prior(scratch):
    scratch.write("cells.csv", "user,place,day\nzoe,cafe,1\n")
    (row,) = scratch.json("predict run visits cells.csv --handle-unknown prior")
    assert row["user"] == "zoe"
    assert row["mean"] > 0


def test_top_prints_a_table(world, fit):
    wanted = TOP
    for probability in fit.top("visits", 3)["probability"]:  # its last digits depend on shared draws
        wanted = wanted.replace("<p>", f"{probability:.4f}", 1)
    assert world.stdout("top run visits -k 3") == wanted.strip("\n")


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (["-k", "2", "--given", "user=ann lee", "--given", "day=2"], {"k": 2, "given": {"user": "ann lee", "day": 2}}),
        (
            ["-k", "5", "--include-known", "--score", "probability"],
            {"k": 5, "include_known": True, "score": "probability"},
        ),
        (["-k", "1", "--per", "day", "--per", "place"], {"k": 1, "per": ("day", "place")}),
        (["-k", "0"], {"k": 0}),
    ],
)
def test_top_equals_the_library(world, fit, options, arguments):
    assert world.json(["top", "run", "visits", *options]) == fit.top("visits", **arguments).to_dicts()


def test_top_excludes_the_cells_of_files(scratch, fit):
    scratch.write("gone.csv", "place,day\ngym,3\nnowhere,1\n")
    scratch.write("seen.csv", "who,plays\nbob,3\n")  # by the names of the data, with their values
    found = scratch.json("top run visits -k 2 --per user --exclude gone.csv --exclude seen.csv")
    exclude = [{"place": ["gym"], "day": [3]}, {"user": ["bob"]}]
    assert found == fit.top("visits", 2, per="user", exclude=exclude).to_dicts()
    assert "bob" not in {row["user"] for row in found}


def test_top_per_entity_writes_a_file(scratch, fit):
    command = "top run visits -k 2 --per user --output links.parquet"
    assert scratch.stdout(command) == "wrote 12 rows to links.parquet"  # six users, one of friends only
    assert pl.read_parquet(scratch.folder / "links.parquet").equals(fit.top("visits", 2, per="user"))
    assert scratch.json(f"{command} --force") == {"written": "links.parquet", "rows": 12}
    assert "already exists" in scratch.plait(command).stderr
    assert "`escape_formulas=False` is only for" in scratch.plait(f"{command} --force --no-escape-formulas").stderr


def test_top_says_why_there_is_no_link(scratch):
    known = "top run visits --given user=bob --given place=cafe --given day=1"
    scratch.write("seen.csv", "user\nbob\n")
    excluded = "top run visits --given user=bob --exclude seen.csv"
    for command, words in ((known, "--include-known"), (excluded, "`exclude`")):
        result = scratch.plait(command)
        assert result.exit_code == 0
        assert result.stderr.startswith("note: ")
        assert words in result.stderr
    assert "bob" in scratch.stdout(f"{known} --include-known")
    assert scratch.plait(f"{known} --json").stderr == ""


def test_a_long_table_is_cut(world):
    text = world.stdout("top run visits -k 54 --include-known")
    assert len(text.splitlines()) == 2 + 50 + 1
    assert text.endswith("\n… and 4 more rows; -o FILE writes all of them.")


EXPLAIN = ["explain", "run", "visits", "user=ann lee", "place=gym", "day=3", "--top"]
CELL = {"user": "ann lee", "place": "gym", "day": 3}


def test_explain_prints_the_explanation(world, fit):
    explanation = fit.explain("visits", CELL, top=2)
    assert world.stdout([*EXPLAIN, "2"]) == "\n".join(map(str.rstrip, str(explanation).splitlines()))
    assert world.json([*EXPLAIN, "2"]) == explanation.to_dict()


@pytest.mark.parametrize(("option", "exact"), [("--exact", True), ("--missing", "missing")])
def test_explain_fits_again_with_the_data_of_the_run(world, fit, option, exact):
    friends = plait.Relation(pl.read_csv(world.folder / "friends.csv"), likelihood="bernoulli", self_links="observed")
    visits = plait.Relation(pl.read_csv(world.folder / "visits.csv"), value="plays", columns={"user": "who"})
    data = {"visits": visits, "friends": friends}
    expected = fit.explain("visits", CELL, top=1, exact=exact, data=data).to_dict()
    found = world.json([*EXPLAIN, "1", option])
    assert found["exact"] == expected["exact"]
    assert found["links"][0]["exact"] == pytest.approx(expected["links"][0]["exact"], rel=1e-9)


def test_evaluate_prints_the_metrics(world, fit):
    test = pl.read_csv(world.folder / "test.csv").rename({"who": "user", "plays": "value"})
    expected = plait.evaluate(fit, "visits", test, target=["place", "day"], score="probability")
    arguments = "evaluate run visits test.csv --target place --target day --score probability"
    assert world.stdout(arguments) == str(expected)
    assert world.json(arguments) == expected.to_dict()


def test_evaluate_filters_by_known_files(scratch, fit):
    scratch.write("links.csv", "user,place,day\nann lee,gym,3\nfay,park,2\n")
    scratch.write("one.csv", "who,place,day,plays\nann lee,cafe,3,1\n")
    scratch.write("two.csv", "user,place,day\nfay,gym,2\nzoe,cafe,3\n")
    test = pl.read_csv(scratch.folder / "links.csv")
    known = [{"user": ["ann lee", "fay"], "place": ["cafe", "gym"], "day": [3, 2]}]
    expected = plait.evaluate(fit, "visits", test, target="place", k=[1, 2], known=known)
    arguments = "evaluate run visits links.csv --target place -k 1 -k 2 --known one.csv --known two.csv"
    assert scratch.stdout(arguments) == str(expected)
    assert scratch.json(arguments) == expected.to_dict()
    assert expected["mrr"] > plait.evaluate(fit, "visits", test, target="place")["mrr"]


def test_evaluate_takes_a_column_of_values_and_draws_non_links(scratch):
    scratch.write("test.csv", "user,place,day,times\nann lee,cafe,3,2\neve,gym,3,0\n")
    found = scratch.json("evaluate run visits test.csv --value times")
    assert (found["links"], found["zeros"]) == (1, 1)
    scratch.write("test.csv", "user,place,day\nann lee,cafe,3\n")
    assert "roc_auc_uniform" in scratch.json("evaluate run visits test.csv --negatives 3 --seed 1")["metrics"]
    assert "note: 14 of 14 test links are in the training data" in scratch.stdout(
        "evaluate run visits visits.csv --value plays"
    )


def test_convert_writes_tables(scratch):
    assert scratch.stdout("convert visits.csv visits.parquet") == "wrote 14 rows to visits.parquet"
    assert pl.read_parquet(scratch.folder / "visits.parquet").equals(pl.read_csv(scratch.folder / "visits.csv"))
    scratch.write("tensor.tns", "1 1 2.5\n2 3 1\n")
    found = scratch.json("convert tensor.tns tensor.csv --columns a,b,x")
    assert found == {"written": "tensor.csv", "rows": 2, "columns": ["a", "b", "x"]}
    assert scratch.read("tensor.csv") == "a,b,x\n1,1,2.5\n2,3,1.0\n"


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("full", "full.csv", ["2 × 3 to full.csv", "count from 0", "Zeros are not written"]),
        ("full", "full.tns", ["2 × 3 to full.tns", "count from 1", "Zeros are not written"]),
        ("gaps", "gaps.csv", ["2 × 2 to gaps.csv", "count from 0", "Missing cells are not written"]),
        ("full", "full.npz", ["2 × 3 to full.npz"]),
    ],
)
def test_convert_writes_arrays(scratch, source, target, words):
    np.save(scratch.folder / "full.npy", np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
    np.save(scratch.folder / "gaps.npy", np.array([[1.0, np.nan], [0.0, 3.0]]))
    text = scratch.stdout(f"convert {source}.npy {target}")
    assert all(word in text for word in words)
    if target.endswith("tns"):
        found = scratch.json(f"convert {source}.npy {target} --force")
        assert found == {"written": target, "shape": [2, 3], "counts_from": 1}


def test_json_has_no_nan(world):
    for command in ("predict run visits cells.csv", "top run visits", "top run friends", "info run"):
        assert not re.search(r"\b(NaN|Infinity)\b", world.plait(f"{command} --json").stdout), command


def test_config_and_run_may_be_in_another_folder(world, tmp_path):
    away, here = World(tmp_path), os.path.relpath(world.folder, tmp_path)
    assert away.plait(f"fit {here}/model.toml -o run --max-iter 2").exit_code == 0
    assert away.plait("resume run --max-iter 3").exit_code == 0


def test_a_pipe_has_a_line_for_each_phase_and_the_time_includes_the_search(scratch):
    result = scratch.plait("fit model.toml -o searched --max-iter 2 --rank elbo")
    assert result.exit_code == 0, result.output
    assert result.phases == ["reading", "binding", "rank search", "fit", "saving"]
    told = scratch.json("info searched")
    assert told["seconds"] > told["settings"]["search_seconds"] > 0
    assert re.search(r"[\d.]+ s, [\d.]+ s of them to choose settings", result.stdout)
    assert scratch.plait("fit model.toml -o given --max-iter 2 --rank 2").phases == [
        "reading",
        "binding",
        "fit",
        "saving",
    ]
    assert scratch.plait("fit model.toml -o given --max-iter 2 --rank 2 --force --json").phases == []


def test_binary_makes_links_of_counts_and_of_repeated_rows(scratch):
    scratch.write("plays.csv", "user,film,value\nann,Heat,7\nann,Heat,2\nbob,Heat,0\nbob,Alien,1\n")
    text = 'model = "plays[user, film] = U[user, r] F[film, r]"\nrank = 1\n[relations.plays]\nsource = "plays.csv"\n'
    scratch.write("plays.toml", f"{text}binary = true\n")
    data = read_config(scratch.folder / "plays.toml").data()["plays"].data
    assert sorted(data.rows()) == [("ann", "Heat", 1.0), ("bob", "Alien", 1.0), ("bob", "Heat", 0.0)]
    scratch.write("plays.csv", "user,film,value\nann,Heat,7\nbob,Heat,-1\n")
    result = scratch.plait("check plays.toml --no-time")
    assert result.exit_code == 2
    assert "plays.csv" in result.stderr
    assert "line 3" in result.stderr


def test_calibrate_saves_a_run_with_calibrated_probabilities(scratch, fit):
    scratch.write("held.csv", "user,place,day,times\nann lee,gym,3,2\nfay,park,2,1\neve,gym,3,0\nann lee,park,2,0\n")
    test = pl.read_csv(scratch.folder / "held.csv").rename({"times": "value"})
    expected = fit.calibrate("visits", test, zeros="sample", seed=1).calibration["visits"]
    arguments = "calibrate run visits held.csv --value times --zeros sample --seed 1 -o"
    assert scratch.json(f"{arguments} new.plait") == {
        "run": "new.plait", "relation": "visits", **expected.to_dict()
    }  # fmt: skip
    assert plait.load(scratch.folder / "new.plait").calibration == {"visits": expected}
    assert "held-out links" in scratch.stdout(f"{arguments} run --force")
    assert "calibration of visits" in scratch.stdout("info run")
    assert scratch.json("info run")["calibration"]["visits"] == expected.to_dict()
    scratch.write("age.csv", "user,age\nfay,30\neve,40\n")
    given = fit.calibrate("visits", test, features={"age": pl.read_csv(scratch.folder / "age.csv")}, zeros="sample")
    found = scratch.json(
        "calibrate run visits held.csv --value times --zeros sample --features age=age.csv -o aged.plait"
    )
    assert found["slope"] == given.calibration["visits"].slope
    few = scratch.stdout("calibrate run visits held.csv --value times --zeros sample --features counts -o counted")
    assert "The features are left out: cross-validation does not prefer them." in few
    refused = scratch.plait("calibrate run visits held.csv --value times --features count -o other")
    assert "Did you mean 'counts'?" in refused.stderr
    refused = scratch.plait("calibrate run visits held.csv --value times --features age -o other")
    assert "`features` must be 'counts' or NAME=TABLE, got 'age'" in refused.stderr
    refused = scratch.plait("calibrate run visits visits.csv --value plays -o other")
    assert refused.exit_code == 2
    assert "visits.csv" in refused.stderr
    assert "links are in the training data" in refused.stderr
    assert not (scratch.folder / "other").exists()
