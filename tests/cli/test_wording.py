"""Errors of the library name files and lines when they come from a config."""

import pytest

HIDDEN = 'value = "plays"\nmissing = [{ source = "friends.csv", ignore = ["friend"] }, "gone.csv"]'
GIVEN = "D[day, r] V[user, place]"
EXPOSURE = '[exposures.V]\nsource = "been.csv"\n'
BEEN = "user,place,value\nann lee,cafe,0.5\n"

# Changes of the config, further files -> the message.
CASES = {
    "a row of the second missing table": (
        {'value = "plays"': HIDDEN},
        {"gone.csv": "place,day\ncafe,1\n\nbar,1\n"},
        (
            "gone.csv, line 4, column 'place': 'bar' is no entity of axis place, which has 'cafe', 'gym', 'park'.\n"
            "Declare further entities with `labels={'place': …}`, or remove the rows."
        ),
    ),
    "a column of a missing table": (
        {'value = "plays"': 'value = "plays"\nmissing = "friends.csv"'},
        {},
        "friends.csv: column 'friend' is no index of the relation.\nIts columns are among 'who', 'place', 'day'.",
    ),
    "a row of an exposure": (
        {"D[day, r]": GIVEN, "[fit]": f"{EXPOSURE}default = 1\n[fit]"},
        {"been.csv": f"{BEEN}bob,gym,-1\n"},
        "been.csv, line 3, column 'value': the exposure is -1.\nAn exposure is a finite number, 0 or more.",
    ),
    "an exposure without a default": (
        {"D[day, r]": GIVEN, "[fit]": f"{EXPOSURE}[fit]"},
        {"been.csv": BEEN},
        "been.csv: the table lists 1 of 18 cells.\nSay what the others are: `default=1.0`.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_message_is_about_the_file(scratch, name):
    changes, files, message = CASES[name]
    text = (scratch.folder / "model.toml").read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    scratch.write("model.toml", text)
    for path, content in files.items():
        scratch.write(path, content)
    result = scratch.plait("check model.toml --no-time")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"error: {message}\n")


def test_a_cell_that_a_run_cannot_score_is_named_with_file_and_line(scratch):
    text = (scratch.folder / "model.toml").read_text()
    scratch.write("model.toml", text.replace("D[day, r]", GIVEN).replace("[fit]", f"{EXPOSURE}default = 1\n[fit]"))
    scratch.write("been.csv", BEEN)
    scratch.write("cells.csv", "user,place,day\nzoe,cafe,1\n")
    assert scratch.plait("fit model.toml -o new --sweeps 1").exit_code == 0
    result = scratch.plait("predict new visits cells.csv --unknown prior")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: cells.csv, line 2, column 'user': the name is unknown, and visits has an")
