"""A config file: what it gives to a fit, and which keys and values are refused."""

import datetime
import gzip
import inspect
import json
import sqlite3

import numpy as np
import polars as pl
import pytest

import plait
from plait.config import Config, read_config
from plait.config.config_schema import READ

MODEL = 'model = "X[i, j] = A[i, r] B[j, r]"\n'
X = '[relations.X]\nsource = "x.csv"\n'


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Write a config next to x.csv and read it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("i,j,value\na,1,2\nb,2,1\nb,3,4\n")

    def made(text, path="model.toml"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
        return read_config(path)

    return made


def bound(config):
    return config.model.bind(config.data(), entities=config.entities())


def test_a_small_file_gives_model_data_and_settings(config):
    found = config(MODEL + "rank = 3\n" + X)
    assert found.model == plait.Model("X[i, j] = A[i, r] B[j, r]")
    assert found.settings == {"rank": 3}
    assert (found.fixed(), found.entities()) == ({}, None)
    relation = found.data()["X"]
    assert relation.data.to_dict(as_series=False) == {"i": ["a", "b", "b"], "j": [1, 2, 3], "value": [2, 1, 4]}
    assert bound(found).relations["X"].values.tolist() == [2, 1, 4]


def test_options_of_a_relation_are_those_of_plait_relation(config, tmp_path):
    (tmp_path / "x.csv").write_text("from,j,n,w,when\na,1,1,0.5,x\na,1,1,0.5,x\nb,2,1,2,y\n")
    (tmp_path / "gone.csv").write_text("from,j\nb,1\n")
    (tmp_path / "too.txt").write_text("j\n2\n")
    found = config(
        MODEL + X + 'value = "n"\nobserved = 0.25\nweight = "w"\nduplicates = "sum"\nunseen = "zero"\n'
        'columns = { i = "from" }\nignore_columns = ["when"]\n'
        'missing = ["gone.csv", { source = "too.txt", delimiter = ";", header = true }]\n'
    ).data()["X"]
    options = (found.value, found.observed, found.weight, found.duplicates, found.unseen, found.columns)
    assert options == ("n", 0.25, "w", "sum", "zero", {"i": "from"})
    assert [table.columns for table in found.missing] == [["from", "j"], ["j"]]
    assert found.data.columns == ["from", "j", "n", "w"]


def test_sources_of_every_kind_are_read(config, tmp_path):
    expected = bound(config(MODEL + X)).relations["X"]
    table = pl.read_csv(tmp_path / "x.csv")
    table.write_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress((tmp_path / "x.csv").read_bytes()))
    (tmp_path / "bare.csv").write_text("a;1;2\nb;2;1\nb;3;4\n")
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE x (i TEXT, j INTEGER, value INTEGER)")
        connection.executemany("INSERT INTO x VALUES (?, ?, ?)", table.rows())
    connection.close()
    sources = [
        'source = "x.parquet"',
        'source = "x.csv.gz"',
        'source = "bare.csv"\ndelimiter = ";"\ncolumns = ["i", "j", "value"]',
        'source = "sqlite:///x.db"\ntable = "x"',
        'source = "sqlite:///x.db"\nquery = "SELECT * FROM x ORDER BY value"',
    ]
    for source in sources:
        found = bound(config(f"{MODEL}[relations.X]\n{source}\n")).relations["X"]
        np.testing.assert_array_equal(found.cells, expected.cells)
        np.testing.assert_array_equal(found.values, expected.values)


def test_a_tensor_file_has_the_indices_in_the_order_of_the_equation(config, tmp_path):
    (tmp_path / "x.tns").write_text("2 1 5\n1 3 1\n")
    found = config(MODEL + '[relations.X]\nsource = "x.tns"\n').data()["X"].data
    assert found.columns == ["i", "j", "value"]
    assert found.rows() == [(2, 1, 5.0), (1, 3, 1.0)]


def test_arrays_are_relations_and_given_factors(config, tmp_path):
    np.savez(tmp_path / "arrays.npz", x=np.arange(6.0).reshape(3, 2), a=np.ones((2, 4)))
    found = config(
        MODEL + 'rank = 4\n[relations.X]\nsource = "arrays.npz"\nname = "x"\nindices = ["j", "i"]\n'
        '[exposures.A]\nsource = "arrays.npz"\nname = "a"\n'
    )
    assert bound(found).relations["X"].shape == (2, 3)
    np.testing.assert_array_equal(found.fixed()["A"], np.ones((2, 4)))


def test_exposures_have_a_default_and_columns(config, tmp_path):
    (tmp_path / "been.csv").write_text("who,j,share\na,1,0.5\n")
    found = config(
        'model = "X[i, j] = A[i, r] B[j, r] V[i, j]"\nrank = 1\n' + X
        + '[exposures.V]\nsource = "been.csv"\ndefault = 0.01\nvalue = "share"\ncolumns = { i = "who" }\n'
    )  # fmt: skip
    given = found.fixed()["V"]
    assert (given.default, given.value, given.columns) == (0.01, "share", {"i": "who"})
    fit = plait.fit(
        found.model, found.data(), fixed=found.fixed(), **found.settings, max_iter=2, seed=0, progress=False
    )
    np.testing.assert_allclose(fit.exposures.at("X", 0, np.array([[0, 0], [1, 1]])), [0.5, 0.01])


def test_entities_are_lists_or_columns_of_files(config, tmp_path):
    (tmp_path / "people.csv").write_text("name,age\nz,3\na,4\n")
    (tmp_path / "alone.csv").write_text("id\n9\n")
    found = config(
        MODEL + X + '[entities]\ni = { source = "people.csv", column = "name" }\nj = { source = "alone.csv" }\n'
    )
    assert {axis: list(names) for axis, names in found.entities().items()} == {"i": ["z", "a"], "j": [9]}
    assert list(bound(found).entities["i"]) == ["a", "b", "z"]
    dates = config(MODEL + X + "[entities]\ni = [2024-01-31]\n").entities()
    assert dates == {"i": [datetime.date(2024, 1, 31)]}


def test_settings_are_the_arguments_of_plait_fit(config):
    found = config(
        MODEL + X + '[rank]\nr = 4\n[fit]\nmethod = "vb"\nmax_iter = 3\ntol = 1e-3\nseed = 7\n'
        'threads = 1\nprune = true\naccelerate = true\ndtype = "float32"\n'
        'adapt_prior = { A = "component", B = false }\n'
        "[fit.prior]\nA = { concentration = 0.3 }\nB = { concentration = 2, mean = 1.5 }\n"
    ).settings
    prior = {name: (float(gamma.concentration), float(gamma.mean)) for name, gamma in found.pop("prior").items()}
    assert prior == {"A": (0.3, 10.0), "B": (2.0, 1.5)}
    assert found == {
        "rank": {"r": 4}, "method": "vb", "max_iter": 3, "tol": 1e-3, "seed": 7, "threads": 1,
        "prune": True, "accelerate": True, "dtype": "float32", "adapt_prior": {"A": "component", "B": None},
    }  # fmt: skip
    arguments = inspect.signature(plait.fit).parameters
    assert set(found) <= set(arguments)


def test_one_prior_and_one_adapt_for_all_factors(config):
    for text, adapt in (("false", None), ('["i", "r"]', ["i", "r"]), ('"entity"', "entity")):
        assert config(f"{MODEL}rank = 2\n{X}[fit]\nadapt_prior = {text}\n").settings["adapt_prior"] == adapt
    gamma = config(f"{MODEL}{X}[fit.prior]\nconcentration = 1\nmean = 3\n").settings["prior"]
    assert (float(gamma.concentration), float(gamma.mean)) == (1.0, 3.0)


def test_changes_win_and_none_changes_nothing(config):
    found = config(f"{MODEL}rank = 2\n{X}[fit]\nseed = 1\n").changed(seed=5, max_iter=None).changed(rank=3)
    assert found.settings == {"rank": 3, "seed": 5}


def test_a_saved_config_knows_its_folder(config, monkeypatch, tmp_path):
    found = config(MODEL + "rank = 2\n" + X.replace("x.csv", "../x.csv"), "sub/model.toml").changed(seed=4)
    text = json.dumps(found.to_dict(), allow_nan=False)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = Config.from_dict(json.loads(text))
    assert again.settings == {"rank": 2, "seed": 4}
    assert again.model == found.model
    assert len(again.data()["X"].data) == 3


def test_passwords_are_not_saved(config):
    url = "postgresql://me:s3cret@host:5432/db"
    found = config(f'{MODEL}[relations.X]\nsource = "{url}"\ntable = "x"\n')
    assert found.location(url) == url
    assert "s3cret" not in json.dumps(found.to_dict())
    assert "postgresql://me@host:5432/db" in found.to_dict()["text"]


def test_read_options_are_those_of_plait_read():
    keywords = {p.name for p in inspect.signature(plait.read).parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert set(READ) == keywords - {"columns", "value"}


# The text of a config, and words of the message separated by |.
REFUSED = [
    ("", "`model` is missing.|Add model = "),
    (MODEL, "`relations` is missing.|Add [relations.X]"),
    (f"{MODEL}[relations]\n", "relation X has no data.|Add [relations.X]"),
    (f"{MODEL}[relations.X]\n", '[relations.X]: `source` is missing.|source = "file.csv"'),
    (f'{MODEL}[relations]\nX = "x.csv"\n', "[relations.X] must be a table, got 'x.csv'.|Write [relations.X]"),
    (f"model = 3\n{X}", "`model` must be text, got 3."),
    (f'{MODEL}rank = "3"\n{X}', "`rank` must be an integer|got '3'."),
    (f"{MODEL}rank = true\n{X}", "`rank` must be an integer|got true."),
    (f"{MODEL}rank = {{ r = 1.5 }}\n{X}", "`rank` must be an integer|got {'r': 1.5}."),
    (f"{MODEL}{X}columns = 3\n", "[relations.X] `columns` must be|got 3."),
    (f"{MODEL}{X}header = 1\n", "[relations.X] `header` must be true or false, got 1."),
    (f"{MODEL}{X}missing = [1]\n", "[relations.X] `missing` must be|got [1]."),
    (f"{MODEL}{X}missing = {{ sauce = 1 }}\n", "[relations.X] missing: unknown key 'sauce'.|Did you mean 'source'?"),
    (f"{MODEL}{X}[titles]\ni = 3\n", "[titles] `i` must be a file|got 3."),
    (f'{MODEL}{X}[titles]\ni = {{ source = "x.csv", titel = "t" }}\n', "[titles] i: unknown key 'titel'.|'title'?"),
    (f"{MODEL}{X}[entities]\ni = 3\n", "[entities] `i` must be a list|got 3."),
    (f"{MODEL}{X}[fit]\nadapt_prior = 3\n", "[fit] `adapt_prior` must be|got 3."),
    (f"{MODEL}{X}[fit]\nmax_itr = 3\n", "[fit]: unknown key 'max_itr'.|Did you mean 'max_iter'? The keys are method"),
    (f"{MODEL}{X}[fit]\nepochs = 3\n", "[fit]: unknown key 'epochs'.|Did you mean 'max_iter'?"),
    (f"{MODEL}{X}[fit]\nrank = 3\n", "[fit]: unknown key 'rank'.|Write it above all tables. The keys are method"),
    (f"max_iter = 3\n{MODEL}{X}", "unknown key 'max_iter'.|Write it under [fit]."),
    (f"{MODEL}{X}[fit]\nlikelihood = 'poisson'\n", "unknown key 'likelihood'.|Write it under [relations.NAME]."),
    (f"{MODEL}{X}[fit.prior]\nmeen = 3\n", "[fit.prior]: unknown key 'meen'.|Did you mean 'mean'?"),
    (f"{MODEL}{X}[fit.prior]\nA = {{ mean = 1 }}\nmean = 3\n", "[fit.prior] has mean = 3|Give one"),
    (f"{MODEL}{X}[fit.prior.A]\nmean = true\n", "[fit.prior.A] `mean` must be a number, got true."),
    (f'model = "X[i] = A[i"\n{X}', "model.toml, model: the bracket of A is not closed."),
    ("model = 'x", "model.toml, end of document"),
    (f"{MODEL}{X}weight = {'[' * 3000}", "nested too deeply.|brackets that are not closed"),
    (f"{MODEL}{X}[relations.X]\n", "model.toml, line 4, column 13: a table occurs twice."),
    (f"{MODEL}{MODEL}{X}", "model.toml, line 2, column |a key occurs twice."),
    (f"model = X\n{X}", "model.toml, line 1, column 9: invalid value; text needs quotes."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_wrong_keys_and_types_are_refused(config, text, words):
    with pytest.raises((plait.errors.ParameterError, plait.errors.ModelError), match=r"^model\.toml[:,] ") as caught:
        config(text)
    assert [word for word in words.split("|") if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('ignore_columns = ["k"]\n', "[relations.X]: `ignore_columns`: x.csv has no column 'k'"),
        ('observed = "al"\n', "[relations.X]: `observed` must be 'all', 'listed' or a number"),
        ('on_bad_rows = "drop"\n', "[relations.X]: `on_bad_rows` must be 'error' or 'skip', got 'drop'."),
        ("likelihood = { mean_burst = 3 }\n", "[relations.X]: `likelihood` has no `name`"),
        ('likelihood = { name = "negbin", x = 3 }\n', "{'x': 3}.\nIts parameters are p, mean_burst."),
        ('weight = "w"\n', "x.csv: `value` or `weight`: the file has no column 'w'"),
        ('query = "q"\n', "[relations.X]: `query` is not an option for x.csv"),
        (
            '[entities]\ni = { source = "x.csv", column = "nam" }\n',
            "[entities] i has the unknown column 'nam'; x.csv has 'i'",
        ),
        ('value = "j"\ncolumns = { j = "value" }\n', "x.csv, line 4, column 'j': 'many' is not a number"),
    ],
)
def test_errors_of_sources_name_their_origin(config, tmp_path, text, words):
    (tmp_path / "x.csv").write_text("i,j,value\na,1,2\nb,2,1\nb,many,4\n")
    with pytest.raises(plait.PlaitError) as caught:
        bound(config(f"{MODEL}{X}{text}"))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [("none.toml", "the file 'none.toml' does not exist"), (".", "'.' is a folder"), ("bytes.toml", "not UTF-8 text")],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, monkeypatch, path, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(plait.errors.ParameterError, match=message):
        read_config(path)


def test_a_source_may_have_any_name_and_blanks(config, tmp_path):
    (tmp_path / "links").write_text("i, j, value\na, 1, 2\n b, 2, 1\nb , 3, 4\n")
    (tmp_path / "names").write_text("who\n c \n")
    source = '[relations.X]\nsource = "links"\nkind = "csv"\nstrip = true\nvalue = "value"\n'
    labels = '[entities]\ni = { source = "names", kind = "csv", strip = true }\n'
    data = bound(config(MODEL + source + labels))
    assert list(data.entities["i"]) == ["a", "b", "c"]
    assert data.relations["X"].values.tolist() == [2, 1, 4]
    (tmp_path / "tensor").write_text("1 1 2\n2 3 1\n")
    data = bound(config(MODEL + '[relations.X]\nsource = "tensor"\nkind = "tns"\n'))
    assert data.relations["X"].values.tolist() == [2, 1]
