"""A user's mistake ends with exit code 2, nothing on stdout, and a message that names the place and a hint.

Words of a message are separated by |.
"""

import json

import numpy as np
import pytest

import plait
from tests.support.manifests import manifest

PLAYS = 'value = "plays"'
EXPOSURE = '[exposures.V]\nsource = "been.csv"\n'
HIDDEN = f'{PLAYS}\nmissing = [{{ source = "friends.csv", ignore_columns = ["friend"] }}, "gone.csv"]'
HEAD = "who,place,day,plays\n"

# Old text of the config, new text, words of the message of `plait check`.
CONFIGS = [
    (PLAYS, 'valu = "plays"', "model.toml: [relations.visits]: unknown key 'valu'.|Did you mean 'value'?"),
    ("[fit]", "[fits]", "model.toml: unknown key 'fits'.|Did you mean 'fit'?"),
    ("max_iter = 40", 'max_iter = "40"', "model.toml: [fit] `max_iter` must be an integer, got '40'."),
    ("rank = 2", "rank = = 2", "model.toml, line 6, column 8: invalid value; text needs quotes.|The file must be TOML"),
    ("P[place, r]", "P[place, r", "model.toml, model: the bracket of P|\n  line 1: visits|^^^^\nWrite indices"),
    ("[relations.friends]", "[relations.freinds]", "[relations.freinds] is not a relation|Did you mean 'friends'?"),
    ("[fit]", f"{EXPOSURE}[fit]", "[exposures.V] is not a factor|The factors are U, P, D, F."),
    ('"visits.csv"', '"vists.csv"', "vists.csv: the file does not exist|Did you mean 'visits.csv'?"),
    ('"who"', '"how"', "visits.csv: there is no column 'how'|Did you mean 'who'?|`columns={'user': …}`"),
    ('"bernoulli"', '"bernouli"', "model.toml: [relations.friends]: `likelihood` is unknown|Did you mean 'bernoulli'?"),
    (PLAYS, f'{PLAYS}\nlikelihood = "bernoulli"', "visits.csv, line 2, column 'plays': the value is 3|=\"poisson\"`"),
    ("rank = 2", 'rank = "aut"', "model.toml: `rank` must be|\"auto\"|got 'aut'."),
    (PLAYS, f'{PLAYS}\nquery = "SELECT"', "model.toml: [relations.visits]: `query`|visits.csv|Its options are kind"),
    ("[fit]", "[fit.prior]\nconcentration = 0\n[fit]", "model.toml: [fit.prior]: `concentration`|got 0."),
    ("[fit]", '[entities]\nusr = ["zoe"]\n[fit]', "`entities`: 'usr' is not an axis|Did you mean 'user'?"),
    (PLAYS, HIDDEN, "gone.csv, line 4, column 'place': 'bar' is not an entity of axis place|`entities={'place': …}`"),
    (PLAYS, f'{PLAYS}\nmissing = "friends.csv"', "friends.csv: column 'friend' is not part|columns but 'who', 'place'"),
    ("D[day, r]", "D[day, r] V[user, place]\x00default = 1", "been.csv, line 3, column 'value': the exposure is -1."),
    ("D[day, r]", "D[day, r] V[user, place]\x00", "been.csv: the table lists 2 of 18 cells.|`default=1.0`"),
    ("[fit]", '[titles]\nplaec = "places.csv"\n[fit]', "`titles`: 'plaec' is not an axis|Did you mean 'place'?"),
    ("[fit]", '[titles]\nplace = "several.csv"\n[fit]', "several.csv: the column of|'a', 'b', 'c'|place and title"),
]  # fmt: skip

# The rows of visits.csv, words of the message of `plait check` and `plait fit`.
FILES = [
    ("", "visits.csv: the file is empty.|at least a header line"),
    (f"{HEAD}ann,cafe,1,3\nbob,cafe,2,many\n", "visits.csv, line 3, column 'plays': 'many' is not a number.|such as 3"),
    (f"{HEAD}ann,cafe,1,3\nbob,cafe\n", "visits.csv, line 3: 2 fields, but the file has 4 columns|Add the missing"),
    (f"{HEAD}ann,cafe,1,3\n\nbob,cafe,2,-1\n", "visits.csv, line 4, column 'plays': the value is -1|at least 0"),
    (f"{HEAD}ann,cafe,1,\n", "visits.csv, line 2, column 'plays': the value is missing.|`missing`"),
    (f"{HEAD}ann,cafe,1,1\n,cafe,2,1\n", "visits.csv, line 3, column 'who': the name of the entity is|remove the row"),
    (f"{HEAD}ann,cafe,1,3\nbob,cafe,1,1\nann,cafe,1,2\n", "visits.csv, lines 2 and 4|user='ann'|=\"sum\"`"),
]  # fmt: skip

TABLES = {
    "strange.csv": "user,place,day\nann lee,cafe,3\nzoe,cafe,3\n",
    "worded.csv": "user,place,day,times\nann lee,cafe,3,1\n",
    "negative.csv": "user,place,day,value\nann lee,cafe,3,-1\n",
    "words.txt": "ann lee,gym,3\n",
    "nohead.csv": "ann lee,gym,3\nzoe,cafe,1\n",
    "cells": "user,place,day\nann lee,gym,3\n",
    "places.csv": "place,year,title\ncafe,1900,Zum Löwen\n",
    "several.csv": "a,b,c\ncafe,x,y\n",
    "twice.csv": "place,title\ngym,x\ncafe,y\ngym,z\n",
    "later.csv": f"{HEAD}ann lee,gym,1,3\nbob,cafe,1,2\nzoe,gym,2,1\n",
    "known.csv": "user,friend\nann lee,bob\n",
    "noted.csv": "user,friend,note\nzoe,bob,old\n",
    "empty.csv": HEAD,
    "gone.csv": "place,day\ncafe,1\n\nbar,1\n",
    "been.csv": "user,place,value\nann lee,cafe,0.5\nbob,gym,-1\n",
}
NO_FILE = "qqqqqqqq.csv: the file does not exist in the current folder.|Check the path."
NO_RUN = "nowhere: the folder does not exist.|a saved run"
BOUNDS = "cannot compare several values of `adapt_prior`"
UNKNOWN = "`new-entities`: 'freinds' is not a relation|Did you mean 'friends'?"
TWICE = "`new-entities` is given twice for visits."
STRANGER = "strange.csv, line 3, column 'user': 'zoe' is not an entity"
WORDS = "places.csv, column 'place': the ids are strings"
HELD = "later.csv, line 2: user='ann lee', place='gym', day=1 has no new entity|`update`"

COMMANDS = {
    "check nothing.toml": "the file 'nothing.toml' does not exist.|Give the path of a TOML file",
    "check run": "'run' is a folder.|Give the path of a TOML file",
    "check model.toml --dask 8 --no-time": "`dask` requires a measured sweep",
    "check model.toml --dask 0": "`dask` must be at least 1, got 0",
    "fit model.toml -o new --rank many": "`rank` must be an integer|got 'many'.|--rank 10|--rank r=10|--rank auto",
    "fit model.toml -o visits.csv": "visits.csv: expected a folder or a .plait file, got another file.",
    "fit model.toml -o new --rnk 2": "there is no option --rnk. Did you mean --rank?",
    "fit model.toml -o new --sweeps 3": "there is no option --sweeps. Did you mean --max-iter?",
    "top run visits --topk 3": "there is no option --topk. Did you mean -k?",
    "fit model.toml -o new --max-iter -1": "`max_iter` must be at least 0, got -1.",
    "info rnu": "rnu: the folder does not exist.|Did you mean 'run'?",
    "top run visits --given user": "expected index=name, got 'user'.|Example: user=NAME.",
    "grid-search model.toml --rank 1,2 --adapt-prior factor,component --by elbo": BOUNDS,
    "info nowhere": NO_RUN,
    "resume nowhere": NO_RUN,
    "top . visits": ".: this is not a run of Plait: manifest.json is missing.|a saved run",
    "top run visit": "the model has no relation visit.|Did you mean visits? The model has visits, friends.",
    "top run visits --given usr=bob": "'usr' is not an index of visits.|Did you mean 'user'?",
    "top run visits --given bob": "expected index=name, got 'bob'|user=bob",
    "top run visits --given user=bob --given user=cem": "user is given twice: 'bob' and 'cem'.",
    "top run visits --given day=monday": "day: 'monday' is not an integer",
    "top run visits --exclude qqqqqqqq.csv": NO_FILE,
    "top run friends --exclude cells.csv": "cells.csv: columns 'place', 'day' are not part|but 'user', 'friend'",
    "top run visits --no-escape-formulas": "`no-escape-formulas` requires a file.",
    "top run visits -o x.parquet --no-escape-formulas": "`escape_formulas=False` is only for .csv, .tsv",
    "top run visits --new-entities later.csv": HELD,
    "top run visits --new-entities freinds=later.csv": UNKNOWN,
    "top run visits --new-entities later.csv --new-entities visits=later.csv": TWICE,
    "explain run visits user=bbo place=gym day=3": "index 'user': 'bbo' is not an entity|Did you mean 'bob'?",
    "explain run visits user=bob place=gym": "index 'day' is missing|visits needs user, place, day.",
    "explain run visits user=bob place=gym day=3 --exact --missing": "`exact` and `missing` exclude|Remove one of",
    "predict run visits qqqqqqqq.csv": NO_FILE,
    "predict run friends cells.csv": "cells.csv: there is no column 'friend'|friends needs user, friend.",
    "predict run visits strange.csv": f'{STRANGER}|`handle_unknown="prior"`',
    "predict run visits nohead.csv --columns user,place,day": "nohead.csv, line 2, column 'user': 'zoe' is not",
    "predict run visits words.txt --columns user,place": "words.txt, line 1: 3 fields, but `columns` has 2 names.",
    "predict run visits x.parquet --no-header": "`header` is not an option for x.parquet.|Its options are kind",
    "predict run visits cells": 'cells|`kind="csv"`',
    "predict run visits cells --kind cvs": "`kind` must be a known ending, got 'cvs'.",
    "predict run visits later.csv --new-entities empty.csv": "`new_entities` contains no new entity.|Remove it.",
    "evaluate run visits worded.csv": "worded.csv: column 'times' is not used|`value='times'`",
    "evaluate run visits test.csv --known test.csv --known worded.csv": "worded.csv: column 'times' is not used",
    "evaluate run visits friends.csv": "friends.csv: there is no column 'place'; got|visits needs user, place, day.",
    "evaluate run visits test.csv --value plaid": "test.csv: there is no column 'plaid'|Did you mean 'plays'?",
    "evaluate run visits negative.csv": "negative.csv, line 2, column 'value': the value is -1|at least 0",
    "evaluate run visits strange.csv": f"{STRANGER}|Remove the row.",
    "convert qqqqqqqq.csv x.parquet": NO_FILE,
    "convert mysql://x x.csv": "mysql://x: mysql:// cannot be read.|sqlite:// or postgresql://",
    "convert x.npz y.parquet --no-escape-formulas": "`escape_formulas` is not an option for",
    "report run --test test.csv": "the relation of the test is missing.|the relations are visits, friends.",
    "report run --relation visits": "is given without `test`",
    "report run --test none.csv --relation visits": "none.csv",
    "report run --test test.csv --relation visit": "visits",
    "report run -o .": "the file already exists",
    "set-titles run plaec=places.csv": "`titles`: 'plaec' is not an axis|Did you mean 'place'?",
    "set-titles run places.csv": "expected AXIS=FILE, got 'places.csv'.",
    "set-titles run place=": "expected AXIS=FILE, got 'place='.",
    "set-titles run place=a.csv place=b.csv": "place is given twice: 'a.csv' and 'b.csv'.",
    "set-titles run place=nowhere.csv": "nowhere.csv: the file does not exist",
    "set-titles nowhere place=places.csv": NO_RUN,
    "set-titles run user=places.csv": "places.csv, column 'place': no id is an entity of axis user|'cafe'",
    "set-titles run day=places.csv": f"{WORDS}|axis day has integers|Convert them",
    "set-titles run day=places.csv --id yaer": "places.csv: there is no column 'yaer'|Did you mean 'year'?",
    "set-titles run place=several.csv": "several.csv: the column of titles|'a', 'b', 'c'|place and title",
    "set-titles run place=twice.csv": "twice.csv, lines 2 and 4, column 'place': 'gym' has two titles|Remove one",
    "set-titles run place=x.npz": "x.npz: expected a table of titles, got an array.",
    "fold-in run later.csv -r visits -o x": HELD,
    "fold-in run friends.csv -r visits -o x": "friends.csv: there is no column 'place'|the columns user, place, day.",
    "update run cells.csv -r friends -o x": "cells.csv: there is no column 'friend'|the columns user, friend.",
    "fold-in run noted.csv -r friends -o x": "noted.csv: column 'note' is not used|Remove it from the file",
    "fold-in run later.csv -o x": "1 table and 0 relations are given|--relation",
    "update run known.csv -r friends -o x": "known.csv, line 2: user='ann lee', friend='bob' is already|fit again",
    "update run later.csv -r visits -o run": "run: this folder already contains a run.|plait resume run|--force",
}  # fmt: skip


@pytest.fixture
def mistaken(scratch):
    for name, text in TABLES.items():
        scratch.write(name, text)
    np.savez(scratch.folder / "x.npz", x=np.eye(2))
    return scratch


@pytest.mark.parametrize(("old", "new", "words"), CONFIGS, ids=[words for _, _, words in CONFIGS])
def test_a_wrong_config_is_refused(mistaken, old, new, words):
    new, exposure, default = new.partition("\x00")
    mistaken.change(old, new)
    if exposure:
        mistaken.change("[fit]", f"{EXPOSURE}{default}\n[fit]")
    if not default:
        mistaken.write("been.csv", TABLES["been.csv"].replace("-1", "1"))
    mistaken.refuse("check model.toml --no-time", *words.split("|"))


@pytest.mark.parametrize(("text", "words"), FILES)
def test_a_wrong_file_is_refused(scratch, text, words):
    scratch.write("visits.csv", text)
    for command in ("check model.toml", "fit model.toml -o new"):
        scratch.refuse(command, *words.split("|"))
    assert not (scratch.folder / "new").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_arguments_are_refused(mistaken, command):
    if "x.parquet --no-h" in command:
        mistaken.stdout("convert cells.csv x.parquet")
    before, files = manifest(mistaken.folder / "run"), sorted(mistaken.folder.iterdir())
    mistaken.refuse(command, *COMMANDS[command].split("|"))
    assert manifest(mistaken.folder / "run") == before
    assert sorted(mistaken.folder.iterdir()) == files


def test_a_cell_without_exposure_is_named_with_file_and_line(scratch):
    scratch.change("D[day, r]", "D[day, r] V[user, place]")
    scratch.change("[fit]", f"{EXPOSURE}default = 1\n[fit]")
    scratch.write("been.csv", "user,place,value\nann lee,cafe,0.5\n")
    scratch.write("cells.csv", "user,place,day\nzoe,cafe,1\n")
    scratch.stdout("fit model.toml -o new --max-iter 1")
    scratch.refuse("predict new visits cells.csv --handle-unknown prior", "cells.csv, line 2, column 'user'", "unknown")


@pytest.mark.parametrize("command", ["top run visits", "info run", "resume run --max-iter 50"])
def test_a_damaged_run_is_refused(scratch, command):
    state = next((scratch.folder / "run").glob("state*"))
    state.write_bytes(state.read_bytes()[:-5] + b"xxxxx")
    scratch.refuse(command, f"run/{state.name}: this file of the run is damaged.\n", "fit again")


def test_explain_does_not_fit_again_to_other_data(scratch):
    scratch.stdout("fit model.toml -o own --max-iter 2")
    scratch.change("bob,cafe,1,2", "bob,cafe,1,3", "visits.csv")
    command = "explain {} visits user=bob place=gym day=1 --exact"
    result = scratch.plait(command.format("own"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "model.toml: the data have changed since the fit" in result.stderr
    plait.load(scratch.folder / "own").save(scratch.folder / "mine")
    scratch.refuse(command.format("mine"), "mine: `plait fit` did not make this run", "plait.load('mine')")


def test_an_error_as_json_has_parts(mistaken):
    result = mistaken.plait("predict run visits strange.csv --json")
    assert (result.exit_code, result.stdout) == (2, "")
    error = json.loads(result.stderr)["error"]
    assert list(error) == ["kind", "text", "message", "location", "actual", "expected", "hint"]
    assert error["location"] == {"file": "strange.csv", "lines": [3], "column": "user"}
    assert (error["kind"], error["actual"]) == ("DataError", "zoe")
    assert error["text"] == mistaken.refuse("predict run visits strange.csv")[len("error: ") : -1]
    assert error["text"].endswith(f"{error['message']}\n{error['hint']}")


def test_the_config_and_the_command_line_have_one_message(scratch):
    scratch.change('adapt_prior = "factor"', "")  # which is for VB
    first = scratch.refuse("fit model.toml -o new --method em --prune", '`prune` requires `method="vb"`')
    scratch.change("seed = 0", 'method = "em"\nprune = true')
    assert scratch.refuse("check model.toml") == first


@pytest.mark.parametrize(
    "command", ["tpo run", "top", "top run visits -k -1", "top run visits --kown", "fit model.toml"]
)
def test_usage_errors_have_the_same_form(world, command):
    _, hint = world.refuse(command).splitlines()
    assert hint.startswith("Try 'plait")
    assert json.loads(world.plait(f"{command} --json").stderr)["error"]["kind"] == "UsageError"


@pytest.mark.parametrize(
    "command", ["fit model.toml -o", "predict run visits cells.csv -o", "top run visits -o", "convert visits.csv"]
)
def test_an_empty_name_is_not_the_current_folder(world, command):
    world.refuse([*command.split(), ""], "the name is empty.\nTry 'plait")


def test_a_table_is_no_config(scratch):
    scratch.refuse("fit visits.csv -o new", "visits.csv, line 1, ", "A table of data is the `source` of a relation")


def test_a_config_in_another_folder_names_files_from_here(scratch):
    (scratch.folder / "sub").mkdir()
    scratch.write("sub/model.toml", scratch.read("model.toml"))
    scratch.refuse("check sub/model.toml", "sub/visits.csv: the file does not exist in 'sub'.\n")
