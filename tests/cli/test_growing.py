"""`plait fold-in` and `plait update`: runs that learn after they were made."""

import plait

NEW = "who,place,day,plays\nzoe,cafe,1,3\nzoe,gym,2,1\n"
LATER = "who,place,day,plays\nann lee,gym,1,3\nbob,cafe,1,2\nzoe,gym,2,1\n"


def test_new_entities_are_folded_in(scratch):
    scratch.write("new.csv", NEW)
    result = scratch.plait("fold-in run new.csv --relation visits -o larger")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("2 rows folded in; new entities: 1 of user.\nSaved in larger; objective ")
    scratch.write("cells.csv", "user,place,day\nzoe,park,1\n")
    assert scratch.plait("predict larger visits cells.csv").exit_code == 0
    found, run = plait.load(scratch.folder / "larger"), plait.load(scratch.folder / "run")
    assert "zoe" in list(found.entities["user"])
    assert (found.factors["P"].mean == run.factors["P"].mean).all()


def test_new_links_are_learnt(scratch):
    scratch.write("later.csv", LATER)
    said = scratch.json("update run later.csv -r visits -o later --iterations 3")
    assert said["new"] == {"user": 1, "place": 0, "day": 0}
    assert said["rows"] == {"visits": 3}
    found = plait.load(scratch.folder / "later")
    assert found.known["visits"].values.sum() == plait.load(scratch.folder / "run").known["visits"].values.sum() + 6
    assert scratch.plait("update later later.csv -r visits -o later --force").exit_code == 0


def test_new_entities_of_a_query_are_not_stored(scratch):
    scratch.write("new.csv", NEW)
    scratch.write("friends.csv", "user,friend\nzoe,bob\nzoe,eve\n")
    scratch.write("cells.csv", "user,place,day\nzoe,park,1\nbob,gym,1\n")
    run = plait.load(scratch.folder / "run")
    visits = {"user": ["zoe", "zoe"], "place": ["cafe", "gym"], "day": [1, 2], "plays": [3, 1]}
    friends = {"user": ["zoe", "zoe"], "friend": ["bob", "eve"]}
    asked = {"--new-entities new.csv": {"visits": visits}, "--new-entities friends=friends.csv": {"friends": friends}}
    asked["--new-entities new.csv --new-entities friends=friends.csv"] = {"visits": visits, "friends": friends}
    for options, new in asked.items():
        found = scratch.json(f"top run visits -k 3 --given user=zoe {options}")
        assert found == run.top("visits", 3, given={"user": "zoe"}, new_entities=new).to_dicts()
        found = scratch.json(f"predict run visits cells.csv {options}")
        cells = {"user": ["zoe", "bob"], "place": ["park", "gym"], "day": [1, 1]}
        means = run.predict("visits", cells, new_entities=new)["mean"]
        assert [row["mean"] for row in found] == means.to_list()
    assert "zoe" not in list(plait.load(scratch.folder / "run").entities["user"])
