"""Titles on the command line: [titles] of a config, `plait title`, and what other commands show of them."""

import json

import numpy as np
import pytest

import plait
from plait.run.folder import manifest

PLACES = 'place,year,title\ncafe,1900,"The café, ""Zum Löwen"" ☕"\ngym,2000,</script>\nzoo,1,never seen\n'
DAYS = "number,name\n3,301\n1,101\n"  # names that look like numbers


def titled(fit, axis):
    return dict(fit.titles[axis])


OF_PLACES = {"cafe": 'The café, "Zum Löwen" ☕', "gym": "</script>"}


@pytest.fixture
def run(scratch):
    scratch.write("places.csv", PLACES)
    scratch.write("days.csv", DAYS)
    assert scratch.stdout("title run place=places.csv day=days.csv") == "titles in run: place 2 of 3, day 2 of 3."
    return scratch


def test_titles_are_written_into_a_run_and_nothing_else_is(world, run):
    found = plait.load(run.folder / "run")
    assert titled(found, "place") == OF_PLACES
    assert titled(found, "day") == {3: "301", 1: "101"}
    before, after = manifest(world.folder / "run"), manifest(run.folder / "run")
    files, more = ({name: one["sha256"] for name, one in header.pop("files").items()} for header in (before, after))
    assert before == after
    assert more.items() >= files.items()
    assert set(more) - set(files) == {"titles-1-place", "titles-2-day"}


def test_titles_in_an_archive_and_more_of_them_later(run):
    plait.load(run.folder / "run").save(run.folder / "one.plait")
    run.write("more.csv", "id,name\npark,The park\ncafe,Other\n")
    said = json.loads(run.plait("title one.plait place=more.csv --json").stdout)
    assert said == {"run": "one.plait", "titles": {"place": 3, "day": 2}}
    found = plait.load(run.folder / "one.plait")
    assert titled(found, "place") == OF_PLACES | {"park": "The park", "cafe": "Other"}


def test_the_commands_show_titles_beside_names(world, run):
    top = run.stdout("top run visits -k 40 --known")
    heading = top.splitlines()[0].split()
    assert heading[:5] == ["user", "place", "place_title", "day", "day_title"]
    assert "None" not in top
    assert 'The café, "Zum Löwen" ☕' in top
    plain = json.loads(world.plait("top run visits -k 40 --known --json").stdout)
    links = json.loads(run.plait("top run visits -k 40 --known --json").stdout)
    assert [link["place_title"] for link in links] == [OF_PLACES.get(link["place"]) for link in links]
    assert [{k: v for k, v in link.items() if "title" not in k} for link in links] == plain
    cells = json.loads(run.plait("predict run visits cells.csv --json").stdout)
    assert [cell["day_title"] for cell in cells] == ["301", "101"]
    assert "None" not in run.stdout("predict run visits cells.csv")
    words = run.stdout(["explain", "run", "visits", "user=ann lee", "place=gym", "day=3"])
    assert words.startswith('Why visits(user=ann lee, place=gym "</script>", day=3 "301")?')
    told = json.loads(run.plait(["explain", "run", "visits", "user=ann lee", "place=gym", "day=3", "--json"]).stdout)
    assert told["titles"] == {"place": "</script>", "day": "301"}
    assert "titles  place 2 of 3, day 2 of 3" in run.stdout("info run")
    assert json.loads(run.plait("info run --json").stdout)["titles"] == {"place": 2, "day": 2}


def test_a_column_of_the_cells_with_that_name_stays(run):
    run.write("cells.csv", "user,place,day,day_title\nann lee,gym,3,7\nfay,cafe,1,\n")
    cells = json.loads(run.plait("predict run visits cells.csv --json").stdout)
    assert [cell["day_title"] for cell in cells] == [7, None]
    assert "place_title" in run.stdout("predict run visits cells.csv")


def test_a_config_names_titles_and_a_run_that_goes_on_keeps_them(scratch):
    scratch.write("places.csv", PLACES)
    scratch.write("days.csv", DAYS)
    text = (scratch.folder / "model.toml").read_text()
    (scratch.folder / "configs").mkdir()
    own = '[titles]\nplace = "../places.csv"\nday = { source = "../days.csv", id = "number", title = "name" }\n'
    scratch.write("configs/titled.toml", text.replace('source = "', 'source = "../') + own)
    assert scratch.plait("check configs/titled.toml --no-time").exit_code == 0
    assert scratch.plait("fit configs/titled.toml -o other").exit_code == 0
    found = plait.load(scratch.folder / "other")
    assert titled(found, "place") == OF_PLACES
    assert titled(found, "day") == {1: "101", 3: "301"}
    (scratch.folder / "places.csv").unlink()
    assert scratch.plait("resume other --sweeps 45").exit_code == 0
    assert titled(plait.load(scratch.folder / "other"), "place") == OF_PLACES
    assert scratch.plait("choose configs/titled.toml --rank 1,2 --seeds 1 -o best").exit_code == 2  # it is gone
    scratch.write("places.csv", PLACES)
    assert scratch.plait("choose configs/titled.toml --rank 1,2 --seeds 1 -o best").exit_code == 0
    assert titled(plait.load(scratch.folder / "best"), "place") == OF_PLACES


def test_ids_that_look_like_numbers_are_text_where_the_axis_has_text(scratch):
    scratch.write("x.csv", "i,j\n01,a\n02,b\n01,b\n")
    scratch.write("i.csv", "i,title\n01,one\n02,two\n")
    scratch.write("x.toml", 'model = "X[i, j] = A[i, r] B[j, r]"\nrank = 2\n[relations.X]\nsource = "x.csv"\n'
                  'text = ["i"]\n[titles]\ni = "i.csv"\n[fit]\nseed = 0\nsweeps = 2\n')  # fmt: skip
    assert scratch.plait("fit x.toml -o x").exit_code == 0
    assert titled(plait.load(scratch.folder / "x"), "i") == {"01": "one", "02": "two"}
    assert scratch.plait("title x i=i.csv").exit_code == 0


MISTAKES = {
    "title run plaec=places.csv": "`titles` names 'plaec', which is no axis of the model.\nDid you mean 'place'? ",
    "title run places.csv": "'places.csv' does not say whose titles are where.\nWrite AXIS=FILE: film=films.csv.",
    "title run place=": "'place=' does not say whose titles are where.",
    "title run place=a.csv place=b.csv": "place is given twice: 'a.csv' and 'b.csv'.",
    "title run place=nowhere.csv": "nowhere.csv: there is no such file",
    "title nowhere place=places.csv": "nowhere: there is no such folder.",
    "title run user=places.csv": (
        "places.csv, column 'place': no id is an entity of axis user, which has 'ann lee', 'bob', 'cem', 'dee', 'eve', "
        "…; the ids are 'cafe', 'gym', 'zoo'."
    ),
    "title run day=places.csv": (
        "places.csv, column 'place': the ids are strings, such as 'cafe', but axis day has integers, such as 1.\n"
        "Convert them to integers, or name another column of ids."
    ),
    "title run day=places.csv --id yaer": "places.csv: there is no column 'yaer'; the table has 'place', 'year', "
    "'title'.\nDid you mean 'year'? ",
    "title run place=several.csv": (
        "several.csv: which column holds the titles is not clear; the table has 'a', 'b', 'c'.\n"
        "Give a table with the columns place and title"
    ),
    "title run place=twice.csv": (
        "twice.csv, lines 2 and 4, column 'place': 'gym' has two titles, 'x' and 'z'.\nAn entity has one title; "
        "remove one of the rows."
    ),
    "title run place=x.npz": "x.npz: this is an array, but titles are a table.",
    "check wrong.toml": "`titles` names 'plaec', which is no axis of the model.\nDid you mean 'place'? ",
    "check unclear.toml": (
        "several.csv: which column holds the titles is not clear; the table has 'a', 'b', 'c'.\n"
        "Give a table with the columns place and title"
    ),
    "fit twice.toml -o x": "twice.csv, lines 2 and 4, column 'place': 'gym' has two titles, 'x' and 'z'.",
}


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_in_titles_names_the_file_and_changes_nothing(scratch, command):
    scratch.write("places.csv", PLACES)
    scratch.write("several.csv", "a,b,c\ncafe,x,y\n")
    scratch.write("twice.csv", "place,title\ngym,x\ncafe,y\ngym,z\n")
    np.savez(scratch.folder / "x.npz", x=np.eye(2))
    text = (scratch.folder / "model.toml").read_text()
    for name, own in {"wrong": "plaec", "unclear": "place", "twice": "place"}.items():
        file = {"wrong": "places.csv", "unclear": "several.csv", "twice": "twice.csv"}[name]
        scratch.write(f"{name}.toml", f'{text}[titles]\n{own} = "{file}"\n')
    before = manifest(scratch.folder / "run")
    result = scratch.plait(command)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"error: {MISTAKES[command]}")
    assert manifest(scratch.folder / "run") == before
