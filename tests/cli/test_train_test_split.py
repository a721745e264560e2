"""`plait train-test-split`: files from which `plait fit` makes the same fit as `plait.train_test_split` in Python."""

import json
import shlex

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.command_line import plait_command

CONFIG = """\
model = '''
visits[user, place] = U[user, r] P[place, r]
tags[place, tag] = P[place, r] T[tag, r]
'''
rank = 2
[relations.visits]
source = "the visits.csv"
columns = { user = "who" }
value = "n"
[relations.tags]
source = "tags.csv"
[fit]
seed = 0
max_iter = 5
warmup = 0
"""
MODEL = "visits[user, place] = U[user, r] P[place, r]\ntags[place, tag] = P[place, r] T[tag, r]"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a config of two relations; one user and one place occur only in rows that may be held out."""
    rng = np.random.default_rng(0)
    cells = [*sorted({(f"u{rng.integers(12)}", f"p {rng.integers(8)}") for _ in range(50)}), ("zoe", "attic")]
    visits = {"who": [c[0] for c in cells], "place": [c[1] for c in cells], "n": rng.integers(1, 4, len(cells))}
    pl.DataFrame(visits).write_csv(tmp_path / "the visits.csv")
    pl.DataFrame({"place": [f"p {k}" for k in range(8)], "tag": ["quiet", "loud"] * 4}).write_csv(tmp_path / "tags.csv")
    (tmp_path / "city.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return plait_command("train-test-split", "city.toml", *arguments)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--fraction", 0.3], {"fraction": 0.3}),
        (["--fraction", 0.3, "--by", "links", "--leakage", "ignore"], {"fraction": 0.3, "by": "links"}),
        (["--fraction", 0.3, "--by", "thinned_links"], {"fraction": 0.3, "by": "thinned_links"}),
        (["--fraction", 0.3, "--by", "index=user"], {"fraction": 0.3, "by": ("index", "user")}),
        (["--by", "leave_last_out=user", "--count", 1], {"by": ("leave_last_out", "user"), "count": 1}),
    ],
)
def test_a_fit_of_the_written_config_is_the_fit_of_the_split(folder, arguments, options):
    result = run("-o", "a split", "--relation", "visits", "--seed", 3, *arguments)
    assert result.exit_code == 0, result.output
    visits = plait.Relation(pl.read_csv("the visits.csv"), columns={"user": "who"}, value="n")
    data = {"visits": visits, "tags": pl.read_csv("tags.csv")}
    split = plait.train_test_split(data, "visits", model=MODEL, seed=3, **options)
    assert pl.read_csv("a split/test.csv").rows() == split.test.rows()
    fitting, evaluating = result.stdout.partition("Next:\n")[2].splitlines()
    assert plait_command(*shlex.split(fitting)[1:]).exit_code == 0
    wanted = plait.fit(MODEL, split.train, rank=2, seed=0, max_iter=5, warmup=0, progress=False)
    assert plait.load("a split/run").objective == wanted.objective
    assert evaluating.endswith(" --target place")
    found = plait_command(*shlex.split(evaluating)[1:], "--json")
    assert found.exit_code == 0, found.output


def test_periods_are_not_recommended_as_the_target_of_a_ranking(folder):
    rows = [(f"u{n % 4}", f"p{n % 3}", n // 4) for n in range(24)]
    pl.DataFrame(rows, ["user", "place", "day"], orient="row").write_csv("dated.csv")
    model = "dated[user, place, day] = U[user, r] P[place, r] D[day, r]; day: ordered"
    (folder / "dated.toml").write_text(f'model = "{model}"\nrank = 2\n[relations.dated]\nsource = "dated.csv"\n')
    for options in (["--by", "time", "--time", "day"], ["--by", "links"]):
        command = ["train-test-split", "dated.toml", "-o", "dated", "--fraction", "0.2", "--seed", "0", "--force"]
        result = plait_command(*command, *options)
        assert result.stdout.endswith(" --target place\n"), result.output


def test_the_test_named_as_hidden_makes_the_same_fit(folder):
    numbered = pl.read_csv("the visits.csv").with_columns(pl.col("who").str.strip_prefix("u"))  # text: one is "zoe"
    numbered.write_csv("the visits.csv")
    assert run("-o", "s", "--relation", "visits", "--fraction", 0.1, "--seed", 3, "--by", "links").exit_code == 0
    assert pl.read_csv("s/test.csv").schema["user"].is_integer()
    (folder / "hidden.toml").write_text(CONFIG.replace('value = "n"\n', 'value = "n"\nhidden = "s/test.csv"\n'))
    for config, name in {"s/train.toml": "split run", "hidden.toml": "hidden run"}.items():
        assert plait_command("fit", config, "-o", name).exit_code == 0
    assert plait.load("hidden run").objective == plait.load("split run").objective
    visits = {"columns": {"user": "who"}, "value": "n"}
    data = {"visits": plait.Relation(numbered, **visits), "tags": pl.read_csv("tags.csv")}
    split = plait.train_test_split(data, "visits", model=MODEL, seed=3, fraction=0.1, by="links")
    data["visits"] = plait.Relation(numbered, **visits, hidden=split.test)
    fit = plait.fit(MODEL, data, rank=2, seed=0, max_iter=5, warmup=0, progress=False)
    assert fit.objective == plait.load("hidden run").objective
    with pytest.raises(plait.errors.DataError, match=r"'value' is not part .*\nRemove all columns but 'who', 'place'"):
        plait.Model(MODEL).bind({**data, "visits": plait.Relation(numbered, **visits, missing=split.test)})


def test_json_names_the_files(folder):
    found = json.loads(run("-o", "s", "--relation", "visits", "--fraction", 0.2, "--seed", 1, "--json").stdout)
    assert (found["train"], found["test"], found["relation"], found["seed"]) == (
        "s/train.toml",
        "s/test.csv",
        "visits",
        1,
    )
    assert found["links"] + found["zeros"] == len(pl.read_csv("s/test.csv"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fraction", 0.2], "`relation` is missing; the relations are visits, tags"),
        (
            ["--relation", "visits", "--by", "bogus", "--fraction", 0.2],
            "`by` must name a way to hold out cells, got 'bogus'",
        ),
        (["--relation", "visits", "--by", "index=usr", "--fraction", 0.2], "usr"),
        (["--relation", "visits"], "`fraction`"),
        (["--relation", "visits", "--fraction", 0.2, "--leakage", "hide"], "`leakage` must be one of"),
    ],
)
def test_mistakes_write_nothing(folder, arguments, words):
    result = run("-o", "s", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (folder / "s").exists()


def test_a_split_is_replaced_only_by_force(folder):
    arguments = ("-o", "s", "--relation", "visits", "--fraction", 0.2)
    assert run(*arguments, "--seed", 1).exit_code == 0
    before = (folder / "s" / "test.csv").read_bytes()
    refused = run(*arguments, "--seed", 2)
    assert refused.exit_code == 2
    assert "already contains a split" in refused.stderr
    assert (folder / "s" / "test.csv").read_bytes() == before
    assert run(*arguments, "--seed", 2, "--force").exit_code == 0
    assert (folder / "s" / "test.csv").read_bytes() != before


def test_a_column_of_times_that_a_fit_ignores_orders_the_links(folder):
    visits = pl.read_csv("the visits.csv").with_row_index("when")
    visits.write_csv("the visits.csv")
    (folder / "city.toml").write_text(CONFIG.replace('value = "n"\n', 'value = "n"\nignore_columns = ["when"]\n'))
    result = run("-o", "s", "--relation", "visits", "--by", "time", "--time", "when", "--fraction", 0.2)
    assert result.exit_code == 0, result.output
    latest = visits.tail(round(0.2 * len(visits))).select("who", "place")
    assert sorted(pl.read_csv("s/test.csv").select("user", "place").rows()) == sorted(latest.rows())
    assert plait_command("fit", "s/train.toml", "-o", "run").exit_code == 0
