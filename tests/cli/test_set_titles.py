"""Titles on the command line: [titles] of a config, `plait set-titles`, and what other commands show of them."""

import pytest

import plait
from tests.support.manifests import manifest

PLACES = 'place,year,title\ncafe,1900,"The café, ""Zum Löwen"" ☕"\ngym,2000,</script>\nzoo,1,never seen\n'
DAYS = "number,name\n3,301\n1,101\n"  # names that look like numbers


def titled(fit, axis):
    return dict(fit.titles[axis])


OF_PLACES = {"cafe": 'The café, "Zum Löwen" ☕', "gym": "</script>"}


@pytest.fixture
def run(scratch):
    scratch.write("places.csv", PLACES)
    scratch.write("days.csv", DAYS)
    assert scratch.stdout("set-titles run place=places.csv day=days.csv") == "titles in run: place 2 of 3, day 2 of 3."
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
    said = run.json("set-titles one.plait place=more.csv")
    assert said == {"run": "one.plait", "titles": {"place": 3, "day": 2}}
    found = plait.load(run.folder / "one.plait")
    assert titled(found, "place") == OF_PLACES | {"park": "The park", "cafe": "Other"}


def test_commands_show_titles_next_to_names(world, run):
    top = run.stdout("top run visits -k 40 --include-known")
    heading = top.splitlines()[0].split()
    assert heading[:5] == ["user", "place", "place_title", "day", "day_title"]
    assert "None" not in top
    assert 'The café, "Zum Löwen" ☕' in top
    plain = world.json("top run visits -k 40 --include-known")
    links = run.json("top run visits -k 40 --include-known")
    assert [link["place_title"] for link in links] == [OF_PLACES.get(link["place"]) for link in links]
    assert [{k: v for k, v in link.items() if "title" not in k} for link in links] == plain
    cells = run.json("predict run visits cells.csv")
    assert [cell["day_title"] for cell in cells] == ["301", "101"]
    assert "None" not in run.stdout("predict run visits cells.csv")
    words = run.stdout(["explain", "run", "visits", "user=ann lee", "place=gym", "day=3"])
    assert words.startswith('visits(ann lee, gym "</script>", 3 "301")\n')
    explained = run.json(["explain", "run", "visits", "user=ann lee", "place=gym", "day=3"])
    assert explained["titles"] == {"place": "</script>", "day": "301"}
    assert "titles      place 2 of 3, day 2 of 3" in run.stdout("info run")
    assert run.json("info run")["titles"] == {"place": 2, "day": 2}


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
    assert scratch.plait("resume other --max-iter 45").exit_code == 0
    assert titled(plait.load(scratch.folder / "other"), "place") == OF_PLACES
    assert scratch.plait("grid-search configs/titled.toml --rank 1,2 --seeds 1 -o best").exit_code == 2  # it is gone
    scratch.write("places.csv", PLACES)
    assert scratch.plait("grid-search configs/titled.toml --rank 1,2 --seeds 1 -o best").exit_code == 0
    assert titled(plait.load(scratch.folder / "best"), "place") == OF_PLACES


def test_ids_that_look_like_numbers_are_text_where_the_axis_has_text(scratch):
    scratch.write("x.csv", "i,j\n01,a\n02,b\n01,b\n")
    scratch.write("i.csv", "i,title\n01,one\n02,two\n")
    scratch.write("x.toml", 'model = "X[i, j] = A[i, r] B[j, r]"\nrank = 2\n[relations.X]\nsource = "x.csv"\n'
                  'text = ["i"]\n[titles]\ni = "i.csv"\n[fit]\nseed = 0\nmax_iter = 2\n')  # fmt: skip
    assert scratch.plait("fit x.toml -o x").exit_code == 0
    assert titled(plait.load(scratch.folder / "x"), "i") == {"01": "one", "02": "two"}
    assert scratch.plait("set-titles x i=i.csv").exit_code == 0
