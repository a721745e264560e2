"""Errors of the library name files, lines and TOML keys when they come from a config."""

import numpy as np
import pytest

from tests.cli.conftest import SEED

HIDDEN = 'value = "plays"\nmissing = [{ source = "friends.csv", ignore = ["friend"] }, "gone.csv"]'
GIVEN = "D[day, r] V[user, place]"
EXPOSURE = '[exposures.V]\nsource = "been.csv"\n'
BEEN = "user,place,value\nann lee,cafe,0.5\n"

# Changes of the config, further files -> the message.
CASES = {
    "a row of the second missing table": (
        {'value = "plays"': HIDDEN},
        {"gone.csv": "place,day\ncafe,1\n\nbar,1\n"},
        "gone.csv, line 4, column 'place': 'bar' is no entity of axis place, which has 'cafe', 'gym', 'park'.\n"
        "Declare further entities with place = […] in [labels], or remove the rows.",
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
        "been.csv: the table lists 1 of 18 cells.\nSay what the others are: default = 1.0 in [exposures.V].",
    ),
    "labels of two kinds": (
        {},
        {"friends.csv": "user,friend\n1,2\n"},
        "friends.csv, column 'user': the labels are integers, but strings in visits.csv, column 'who'.\n"
        "Both are axis user: read the integers as text, text = […] in their table.",
    ),
    "a prior that has no mode": (
        {SEED: 'method = "map"'},
        {},
        'model.toml: method = "map" needs a concentration of 1 or more for factor U, got 0.5: below 1 the posterior '
        'has no mode.\nSay concentration = 1.0 in [fit.prior], or use method = "vb".',
    ),
    "a rank for some of the indices": (
        {"rank = 2": "[rank]\nq = 2"},
        {},
        "model.toml: rank is given for 'q', which is not in the model.\nLatent indices are r.",
    ),
    "a quotation mark": (
        {},
        {"visits.csv": 'who,place,day,plays\n"ann,cafe,1,1\n'},
        "visits.csv, line 2: a quotation mark opens a field and is not closed.\nClose it; or say quoted = false in "
        "[relations.visits] where quotation marks are ordinary characters.",
    ),
    "text that may have a header": (
        {'"friends.csv"': '"friends.txt"'},
        {"friends.txt": "user,friend\n"},
        "friends.txt, line 1: it is not certain whether a .txt begins with the names of its columns.\n"
        "Name them, columns = […] in [relations.friends], or say header = true in [relations.friends].",
    ),
    "a header that was not expected": (
        {'columns = { user = "who" }': 'columns = ["user", "place", "day", "plays"]'},
        {},
        "visits.csv, line 1: 'day' stands above numbers, so this looks like names of columns.\n"
        "Say header = true in [relations.visits] if it is the header, or header = false in "
        "[relations.visits] if it is data.",
    ),
    "a relation without rows": (
        {},
        {"visits.csv": "who,place,day,plays\n"},
        "axis place has no entity: there is nothing in visits.csv, column 'place'.\n"
        "Give at least one row, or declare the entities with place = […] in [labels].",
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


def test_a_setting_from_the_command_line_is_not_blamed_on_the_file(scratch):
    result = scratch.plait("fit model.toml -o new --rank q=3")
    assert result.stderr.startswith("error: --rank is given for 'q'")


def test_an_archive_of_arrays_is_told_apart_by_a_key(scratch):
    np.savez(scratch.folder / "two.npz", X=np.eye(6), Y=np.eye(6))
    text = (scratch.folder / "model.toml").read_text()
    scratch.write("model.toml", text.replace("friends.csv", "two.npz"))
    assert scratch.plait("check model.toml").stderr == (
        'error: two.npz: the archive has 2 arrays: X, Y.\nSay which: name = "X" in [relations.friends].\n'
    )


MADE = {
    "em": ({SEED: 'seed = 0\nmethod = "em"'}, (
        "--unknown prior: the fit was made by EM, which has no prior.\n"
        'Fit with method = "vb" in [fit] of the config, or remove the cells with unknown names.'
    )),
    "exposure": ({"D[day, r]": GIVEN, "[fit]": f"{EXPOSURE}default = 1\n[fit]"}, (
        "cells.csv, line 2, column 'user': the name is unknown, and visits has an exposure that depends on user.\n"
        "Fit again with user = […] in [labels] of the config, and its exposure."
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_a_run_that_cannot_score_unknown_names_says_what_to_change_in_the_config(scratch, name):
    changes, message = MADE[name]
    text = (scratch.folder / "model.toml").read_text()
    for old, new in changes.items():
        text = text.replace(old, new, 1)
    scratch.write("model.toml", text)
    scratch.write("been.csv", BEEN)
    scratch.write("cells.csv", "user,place,day\nzoe,cafe,1\n")
    assert scratch.plait("fit model.toml -o new --sweeps 1").exit_code == 0
    result = scratch.plait("predict new visits cells.csv --unknown prior")
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
