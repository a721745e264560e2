"""Every user's mistake: exit code 2, nothing on stdout, and one message that says what, where and a hint."""

import json

import pytest

import plait

PLAYS = 'value = "plays"'

# A change of the config (old, new) -> the message of `plait check`.
CONFIGS = {
    "unknown key": (
        (PLAYS, 'valu = "plays"'),
        "model.toml: [relations.visits] has no key 'valu'.\nDid you mean 'value'? Keys are source, value, observed, "
        "likelihood, missing, columns, universe, weight, duplicates, indices, ignore, hidden, diagonal, kind, "
        "delimiter, header, text, quoted, strip, escape_formulas, name, query, table.",
    ),
    "unknown table": (
        ("[fit]", "[fits]"),
        "model.toml: there is no key 'fits'.\n"
        "Did you mean 'fit'? Keys are model, rank, relations, exposures, labels, titles, fit, choose.",
    ),
    "wrong type": (("sweeps = 40", 'sweeps = "40"'), "model.toml: [fit] sweeps must be a whole number, got '40'."),
    "syntax": (
        ("rank = 2", "rank = = 2"),
        "model.toml, line 6, column 8: invalid value.\nThe file is TOML: see toml.io.",
    ),
    "model": (
        ("P[place, r]", "P[place, r"),
        "model.toml, model: the bracket of P is not closed.\n"
        "  line 1: visits[user, place, day] = U[user, r] P[place, r D[day, r]\n"
        "                                                ^^^^^^^^^^\n"
        "Indices are names with commas between them, in one bracket: A[i, r].",
    ),
    "unknown relation": (
        ("[relations.friends]", "[relations.freinds]"),
        "model.toml: [relations.freinds] is about no relation of the model.\n"
        "Did you mean 'friends'? Its relations are visits, friends.",
    ),
    "unknown factor": (
        ("[fit]", '[exposures.V]\nsource = "x.csv"\n[fit]'),
        "model.toml: [exposures.V] is about no factor of the model.\nIts factors are U, P, D, F.",
    ),
    "missing file": (
        ('"visits.csv"', '"vists.csv"'),
        "vists.csv: there is no such file in the current folder.\nDid you mean 'visits.csv'?",
    ),
    "missing column": (
        ('columns = { user = "who" }', 'columns = { user = "how" }'),
        ("visits.csv: there is no column 'how'; the table has 'who', 'place', 'day', 'plays'.\n"
"Did you mean 'who'? Say which column it is: `columns={'user': …}`."),
    ),
    "likelihood": (
        ('"bernoulli"', '"bernouli"'),
        ("model.toml: [relations.friends]: `likelihood` 'bernouli' is not known.\n"
"Did you mean 'bernoulli'? There are poisson, bernoulli, negbin, amounts; one of your own is known once "
"the module with its class is imported."),
    ),
    "counts as links": (
        (PLAYS, f'{PLAYS}\nlikelihood = "bernoulli"'),
        ("visits.csv, line 2, column 'plays': the value is 3, but the likelihood is bernoulli.\n"
'Links are 0 or 1. Use `likelihood="poisson"` for counts.'),
    ),
    "rank in a word": (
        ("rank = 2", 'rank = "aut"'),
        'model.toml: rank must be a whole number, a table of them by latent index, "auto" or "bound", got \'aut\'.',
    ),
    "option of another kind of file": (
        (PLAYS, f'{PLAYS}\nquery = "SELECT"'),
        ("model.toml: [relations.visits]: `query` says nothing about visits.csv.\n"
"It takes kind, columns, delimiter, header, value, text, quoted, strip, escape_formulas."),
    ),
    "prior": (
        ("[fit]", "[fit.prior]\nconcentration = 0\n[fit]"),
        "model.toml: [fit.prior]: `concentration` must be positive and finite, got 0.",
    ),
    "unknown axis in labels": (
        ("[fit]", '[labels]\nusr = ["zoe"]\n[fit]'),
        ("`labels` names 'usr', which is no visible index of the model.\n"
"Did you mean 'user'? It has user, place, day, friend."),
    ),
}  # fmt: skip

# The whole of visits.csv -> the message of `plait check`.
FILES = {
    "empty": ("", "visits.csv: the file is empty.\nA table has at least a line with the names of its columns."),
    "a word for a number": (
        "who,place,day,plays\nann,cafe,1,3\nbob,cafe,2,many\n",
        "visits.csv, line 3, column 'plays': 'many' is not a number.\nWrite a number such as 3 or 0.25.",
    ),
    "a short row": (
        "who,place,day,plays\nann,cafe,1,3\nbob,cafe\n",
        "visits.csv, line 3: 2 fields, but the file has 4 columns, 'who', 'place', 'day', 'plays'.\n"
        "Add what is missing; a field may be empty, but not left out.",
    ),
    "a negative value": (
        "who,place,day,plays\nann,cafe,1,3\n\nbob,cafe,2,-1\n",
        "visits.csv, line 4, column 'plays': the value is -1.\nCounts and links are finite numbers, 0 or more.",
    ),
    "a missing value": (
        "who,place,day,plays\nann,cafe,1,\n",
        ("visits.csv, line 2, column 'plays': the value is missing.\n"
"Remove the row and name its cell in `missing`."),
    ),
    "a missing name": (
        "who,place,day,plays\nann,cafe,1,1\n,cafe,2,1\n",
        "visits.csv, line 3, column 'who': the label is missing.\nEvery row names its entities; remove the row.",
    ),
    "a cell twice": (
        "who,place,day,plays\nann,cafe,1,3\nbob,cafe,1,1\nann,cafe,1,2\n",
        ("visits.csv, lines 2 and 4: both are about user='ann', place='cafe', day=1.\n"
'Remove one, or add them up with `duplicates="sum"`.'),
    ),
}  # fmt: skip

COMMANDS = {
    "check nothing.toml": "there is no file 'nothing.toml'.\nGive the path of a TOML file with model and relations.",
    "check run": "'run' is a folder.\nGive the path of a TOML file with model and relations.",
    "fit model.toml -o new --rank many": (
        "--rank is 'many'.\nGive one number, --rank 10, one for each index, --rank r=10, or a word, --rank auto."
    ),
    "info nowhere": "nowhere: there is no such folder.\nName a run that plait made, or another folder.",
    "resume nowhere": "nowhere: there is no such folder.\nName a run that plait made, or another folder.",
    "top . visits": (
        ".: this is no run of Plait: it has no manifest.json.\nName a run that plait made, or another folder."
    ),
    "top run visit": "the model has no relation visit.\nDid you mean visits? It has visits, friends.",
    "top run visits --given usr=bob": "'usr' is no index of visits.\nDid you mean 'user'? It has user, place, day.",
    "top run visits --given bob": "'bob' does not say which index it is.\nWrite index=name: user=bob.",
    "top run visits --given user=bob --given user=cem": "user is given twice: 'bob' and 'cem'.\nGive it once.",
    "top run visits --exclude qqqqqqqq.csv": (
        "qqqqqqqq.csv: there is no such file in the current folder.\nCheck the path."
    ),
    "top run friends --exclude cells.csv": (
        "cells.csv: columns 'place', 'day' are no index of the relation.\nIts columns are among 'user', 'friend'."
    ),
    "top run visits --given day=monday": "day: 'monday' is not a whole number, but axis day has integers.",
    "explain run visits user=bbo place=gym day=3": (
        "cell, index 'user': 'bbo' is no entity of axis user, which has 'ann lee', 'bob', 'cem', 'dee', 'eve', ….\n"
        "Did you mean 'bob'? Take one of them."
    ),
    "explain run visits user=bob place=gym": (
        "cell: there is no index 'day'; got 'user', 'place'.\nvisits needs user, place, day."
    ),
    "explain run visits user=bob place=gym day=3 --exact --missing": (
        "--exact and --missing ask two different things.\nGive one of them."
    ),
    "predict run visits qqqqqqqq.csv": "qqqqqqqq.csv: there is no such file in the current folder.\nCheck the path.",
    "predict run friends cells.csv": (
        "cells.csv: there is no column 'friend'; got 'user', 'place', 'day'.\nfriends needs user, friend."
    ),
    "predict run visits strange.csv": (
        "strange.csv, line 3, column 'user': 'zoe' is no entity of axis user, which has 'ann lee', 'bob', 'cem', "
        "'dee', 'eve', ….\nRemove the row, or score unknown names by the prior: " '`unknown="prior"`.'
    ),
    "evaluate run visits worded.csv": (
        "worded.csv: column 'times' is not used, and there is no column of values.\n"
"Drop it, or say that it holds the values: `value='times'`."
    ),
    "evaluate run visits test.csv --known test.csv --known worded.csv": (
        "worded.csv: column 'times' is not used, and there is no column of values.\n"
"Drop it, or say that it holds the values: `value='times'`."
    ),
    "evaluate run visits test.csv --value plaid": (
        "test.csv: there is no column 'plaid'; the table has 'user', 'place', 'day', 'plays'.\n"
"Did you mean 'plays'? `value` names the column of values."
    ),
    "evaluate run visits negative.csv": (
        "negative.csv, line 2, column 'value': the value is -1.\nCounts are finite numbers, 0 or more; correct it, or "
        "remove the row."
    ),
    "evaluate run visits strange.csv": (
        "strange.csv, line 3, column 'user': 'zoe' is no entity of axis user, which has 'ann lee', 'bob', 'cem', "
        "'dee', 'eve', ….\nRemove the row."
    ),
    "predict run visits words.txt --columns user,place": (
        "words.txt, line 1: 3 fields, but `columns` names 2.\nName every column of the file."
    ),
    "predict run visits cells.parquet --no-header": ("`header` says nothing about cells.parquet.\n"
"It takes kind, strip."),
    "convert qqqqqqqq.csv x.parquet": "qqqqqqqq.csv: there is no such file in the current folder.\nCheck the path.",
    "convert mysql://x x.csv": ("mysql://x: mysql:// cannot be read.\n"
"Databases are sqlite:// and postgresql://; in Python, `plait.read` takes a connection to any other."),
}  # fmt: skip


def refused(result, message):
    assert (result.stdout, result.stderr) == ("", f"error: {message}\n")
    assert result.exit_code == 2


@pytest.mark.parametrize("name", CONFIGS)
def test_a_wrong_config_is_refused_with_a_hint(scratch, name):
    (old, new), message = CONFIGS[name]
    text = (scratch.folder / "model.toml").read_text()
    assert old in text
    scratch.write("model.toml", text.replace(old, new, 1))
    refused(scratch.plait("check model.toml"), message)


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_is_refused_with_its_line(scratch, name):
    text, message = FILES[name]
    scratch.write("visits.csv", text)
    refused(scratch.plait("check model.toml"), message)
    refused(scratch.plait("fit model.toml -o new"), message)
    assert not (scratch.folder / "new").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_arguments_are_refused_with_a_hint(scratch, command):
    scratch.write("strange.csv", "user,place,day\nann lee,cafe,3\nzoe,cafe,3\n")
    scratch.write("worded.csv", "user,place,day,times\nann lee,cafe,3,1\n")
    scratch.write("negative.csv", "user,place,day,value\nann lee,cafe,3,-1\n")
    scratch.write("words.txt", "ann lee,gym,3\n")
    refused(scratch.plait(command), COMMANDS[command])


@pytest.mark.parametrize("command", ["top run visits", "info run", "resume run --sweeps 50"])
def test_a_damaged_run_is_refused(scratch, command):
    state = next(path for path in (scratch.folder / "run").iterdir() if path.name.startswith("state"))
    state.write_bytes(state.read_bytes()[:-5] + b"xxxxx")
    refused(
        scratch.plait(command),
        f"run/{state.name}: this file of the run is damaged.\nFetch a copy of the folder, or fit again.",
    )


def test_explain_does_not_fit_again_to_other_data(scratch):
    assert scratch.plait("fit model.toml -o own --sweeps 2").exit_code == 0
    command = "explain own visits user=bob place=gym day=1 --exact"
    scratch.write("visits.csv", (scratch.folder / "visits.csv").read_text().replace("bob,cafe,1,2", "bob,cafe,1,3"))
    result = scratch.plait(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(
        "model.toml: the data are not what the run was fitted to, so that fitting again would compare two things at "
        "once.\nPut them back, or fit again with `plait fit`.\n"
    )
    plait.load(scratch.folder / "own").save(scratch.folder / "mine")
    message = (
        "mine: this run was not made by `plait fit`, so where its data are is unknown.\n"
        "Ask in Python: plait.load('mine').explain(…, exact=True, data=data)."
    )
    refused(scratch.plait(command.replace("own", "mine")), message)


def test_an_error_as_json_is_one_document_on_stderr(world):
    result = world.plait("top run visit --json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert json.loads(result.stderr) == {
        "error": {
            "kind": "ModelError",
            "text": COMMANDS["top run visit"],
            "message": "the model has no relation visit.",
            "location": None,
            "actual": None,
            "expected": None,
            "hint": "Did you mean visits? It has visits, friends.",
        }
    }


def test_an_error_as_json_has_file_line_and_column(scratch):
    scratch.write("strange.csv", "user,place,day\nann lee,cafe,3\nzoe,cafe,3\n")
    error = json.loads(scratch.plait("predict run visits strange.csv --json").stderr)["error"]
    assert error["text"] == COMMANDS["predict run visits strange.csv"]
    assert error["location"] == {"file": "strange.csv", "lines": [3], "column": "user"}
    assert error["actual"] == "zoe"
    assert error["hint"] == 'Remove the row, or score unknown names by the prior: `unknown="prior"`.'


def test_an_option_has_one_message_in_the_config_and_on_the_command_line(scratch):
    text = (scratch.folder / "model.toml").read_text().replace('adapt = "factor"', "")  # which is for VB
    message = '`prune` is for `method="vb"` only, got `method="em"`.'
    scratch.write("model.toml", text)
    refused(scratch.plait("fit model.toml -o new --method em --prune"), message)
    scratch.write("model.toml", text.replace("seed = 0", 'method = "em"\nprune = true', 1))
    refused(scratch.plait("check model.toml"), message)


@pytest.mark.parametrize(
    "command", ["tpo run", "top", "top run visits -k -1", "top run visits --kown", "fit model.toml"]
)
def test_usage_errors_are_said_in_the_same_words_as_all_others(world, command):
    result = world.plait(command)
    assert (result.exit_code, result.stdout) == (2, "")
    first, second = result.stderr.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("Try 'plait")
    assert json.loads(world.plait([*command.split(), "--json"]).stderr)["error"]["kind"] == "UsageError"


@pytest.mark.parametrize(
    "command",
    [
        ["fit", "model.toml", "-o", ""],
        ["predict", "run", "visits", "cells.csv", "-o", ""],
        ["top", "run", "visits", "-o", ""],
        ["convert", "visits.csv", ""],
    ],
)
def test_an_empty_name_is_not_the_current_folder(world, command):
    result = world.plait(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the name is empty.\nTry 'plait" in result.stderr


def test_a_config_in_another_folder_names_files_as_seen_from_here(scratch):
    (scratch.folder / "sub").mkdir()
    scratch.write("sub/model.toml", (scratch.folder / "model.toml").read_text())
    refused(scratch.plait("check sub/model.toml"), "sub/visits.csv: there is no such file in 'sub'.\nCheck the path.")
