"""`plait fold-in` and `plait update`: runs that learn after they were made."""

import json

import pytest

import plait

NEW = "who,place,day,plays\nzoe,cafe,1,3\nzoe,gym,2,1\n"
LATER = "who,place,day,plays\nann lee,gym,1,3\nbob,cafe,1,2\nzoe,gym,2,1\n"


def test_new_entities_are_folded_in(scratch):
    scratch.write("new.csv", NEW)
    result = scratch.plait("fold-in run new.csv --relation visits -o larger")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("2 rows folded in; new entities: 1 of user.\nSaved in larger; bound ")
    scratch.write("cells.csv", "user,place,day\nzoe,park,1\n")
    assert scratch.plait("predict larger visits cells.csv").exit_code == 0
    found, run = plait.load(scratch.folder / "larger"), plait.load(scratch.folder / "run")
    assert "zoe" in list(found.labels["user"])
    assert (found.factors["P"].mean == run.factors["P"].mean).all()


def test_new_links_are_learnt(scratch):
    scratch.write("later.csv", LATER)
    result = scratch.plait("update run later.csv -r visits -o later --iterations 3 --json")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["new"] == {"user": 1, "place": 0, "day": 0}
    assert said["rows"] == {"visits": 3}
    found = plait.load(scratch.folder / "later")
    assert found.known["visits"].values.sum() == plait.load(scratch.folder / "run").known["visits"].values.sum() + 6
    assert scratch.plait("update later later.csv -r visits -o later --force").exit_code == 0


def test_guests_are_answered_as_in_the_library_and_not_stored(scratch):
    scratch.write("new.csv", NEW)
    scratch.write("friends.csv", "user,friend\nzoe,bob\nzoe,eve\n")
    scratch.write("cells.csv", "user,place,day\nzoe,park,1\nbob,gym,1\n")
    run = plait.load(scratch.folder / "run")
    visits = {"user": ["zoe", "zoe"], "place": ["cafe", "gym"], "day": [1, 2], "plays": [3, 1]}
    friends = {"user": ["zoe", "zoe"], "friend": ["bob", "eve"]}
    asked = {"--new new.csv": {"visits": visits}, "--new friends=friends.csv": {"friends": friends}}
    asked["--new new.csv --new friends=friends.csv"] = {"visits": visits, "friends": friends}
    for options, new in asked.items():
        found = scratch.plait(f"top run visits -k 3 --given user=zoe {options} --json")
        assert json.loads(found.stdout) == run.top("visits", 3, given={"user": "zoe"}, new=new).to_dicts(), found.stderr
        found = scratch.plait(f"predict run visits cells.csv {options} --json")
        cells = {"user": ["zoe", "bob"], "place": ["park", "gym"], "day": [1, 1]}
        means = run.predict("visits", cells, new=new)["mean"]
        assert [row["mean"] for row in json.loads(found.stdout)] == means.to_list()
    assert "zoe" not in list(plait.load(scratch.folder / "run").labels["user"])


MISTAKES = {
    "top run visits --new later.csv": (
        "later.csv, line 2: user='ann lee', place='gym', day=1 has no new entity, and all others are held.\n"
        "Leave such rows out, or let the fit learn from them by `update`."
    ),
    "top run visits --new freinds=later.csv": (
        "--new: 'freinds' is no relation of the model.\nDid you mean 'friends'? It has visits, friends."
    ),
    "top run visits --new later.csv --new visits=later.csv": (
        "--new gives rows of visits twice.\nPut them into one file."
    ),
    "predict run visits later.csv --new empty.csv": "`new` names no new entity.\nLeave it out.",
    "fold-in run later.csv -r visits -o x": (
        "later.csv, line 2: user='ann lee', place='gym', day=1 has no new entity, and all others are held.\n"
        "Leave such rows out, or let the fit learn from them by `update`."
    ),
    "fold-in run later.csv -o x": (
        "there are 1 tables of rows, and 0 different relations.\n"
        "Say whose rows each table has: --relation visits. The relations are visits, friends."
    ),
    "update run known.csv -r friends -o x": (
        "known.csv, line 2: user='ann lee', friend='bob' is a known link already, and under bernoulli values do not "
        "add up.\nLeave known links out, or fit again with the value that it has now."
    ),
    "update run later.csv -r visits -o run": (
        "run: this folder holds a run already.\nGo on with it: plait resume run; or replace it: --force."
    ),
}


@pytest.mark.parametrize("command", MISTAKES)
def test_mistakes_are_said_with_file_and_line(scratch, command):
    scratch.write("later.csv", LATER)
    scratch.write("known.csv", "user,friend\nann lee,bob\n")
    scratch.write("empty.csv", "who,place,day,plays\n")
    result = scratch.plait(command)
    assert (result.stdout, result.stderr) == ("", f"error: {MISTAKES[command]}\n")
    assert result.exit_code == 2
