"""Damaged and hostile runs: a StorageError that names the file, or the same answers."""

import hashlib
import json
import math
import random
import shutil
import warnings
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file, save_file

import plait
from plait.errors import ParameterError, StorageError
from tests.support.command_line import plait_command
from tests.support.manifests import change, seal

OLD = Path(__file__).parent / "runs" / "version-5.plait"
CELLS = pl.DataFrame({"user": ["ann", "bob", "dee"], "place": [1, 2, 3], "hour": [8, 20, 21]})
MEANS = [2.03464796758443, 0.9914093006289078, 0.30657928954573926]  # of CELLS, by the version before
NEW = pl.DataFrame({"user": ["new", "new"], "place": [1, 3], "hour": [8, 9], "value": [2.0, 1.0]})


def answers(fit):
    """Tables that depend on every file of a run."""
    grown = fit.fold_in({"visits": NEW})
    return [
        fit.predict("visits", CELLS),
        fit.top("visits", 4),
        fit.top("friends", 3, given={"user": "ann"}),
        grown.predict("visits", CELLS.with_columns(user=pl.lit("new"))),
        pl.DataFrame([{"title": title} for title in fit.titles["place"].values()]),
    ]


def finite(tables):
    return all(
        column.is_finite().all() for table in tables for column in table.iter_columns() if column.dtype.is_float()
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of this version, as a folder and as one file; tests only read it."""
    place = tmp_path_factory.mktemp("whole")
    fit = plait.load(OLD)
    fit.save(place / "run")
    fit.save(place / "run.plait")
    return place


@pytest.fixture(scope="module")
def wanted(whole):
    return answers(plait.load(whole / "run"))


@pytest.fixture
def run(whole, tmp_path):
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(whole / "run", tmp_path / "run"))


def outcome(run):
    """The answers of a run, or None where it is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return answers(plait.load(run))
    except plait.PlaitError:
        return None


def same(left, right):
    return all(one.equals(other) for one, other in zip(left, right, strict=True))


def file_of(run, name):
    return run / header_of(run)["files"][name]["file"]


def header_of(run):
    return json.loads((run / "manifest.json").read_text())


def rewrite(run, name, write):
    """Change a file, and its size and checksum in the manifest."""
    path, header = file_of(run, name), header_of(run)
    write(path)
    header["files"][name] |= {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (run / "manifest.json").write_text(seal(header))
    return path


@pytest.fixture
def old(tmp_path):
    """A folder with a run of version 5."""
    with zipfile.ZipFile(OLD) as packed:
        packed.extractall(tmp_path / "old")
    return tmp_path / "old"


# --- earlier versions


def test_a_run_of_version_5_answers_as_it_did(old, wanted):
    assert header_of(old)["version"] == 5
    assert "checksum" not in header_of(old)
    for place in (OLD, old):
        fit = plait.load(place)
        np.testing.assert_allclose(fit.predict("visits", CELLS)["mean"], MEANS, rtol=1e-12)
        assert fit.likelihood_params["visits"] == {"burst": 0.9468661650958047}
        assert same(answers(fit), wanted)


def test_a_manifest_of_version_5_is_checked_by_its_schema(old):
    (old / "manifest.json").write_text(json.dumps(header_of(old) | {"settings": [1]}))
    with pytest.raises(StorageError, match=r"manifest\.json: the manifest is damaged: settings cannot be \[1\]"):
        plait.load(old)


def test_a_manifest_since_version_6_has_a_checksum(run):
    header = header_of(run)
    del header["checksum"]
    (run / "manifest.json").write_text(json.dumps(header))
    with pytest.raises(StorageError, match="it has no checksum"):
        plait.load(run)


V6 = OLD.with_name("version-6.plait")
V6_ANSWERS = json.loads(V6.with_suffix(".json").read_text())  # by version 6, under the names of that time
V6_NAMES = {"low": "lower", "high": "upper"}
V6_CELLS = {
    **dict.fromkeys(
        ("visits", "spent", "bursts"), pl.DataFrame({"user": ["u0", "u3", "u7"], "place": ["p0", "p2", "p5"]})
    ),
    "friends": pl.DataFrame({"user": ["u0", "u3"], "friend": ["u4", "u6"]}),
}


@pytest.fixture
def old_6(tmp_path):
    """A folder with a run of version 6."""
    with zipfile.ZipFile(V6) as packed:
        packed.extractall(tmp_path / "old")
    return tmp_path / "old"


@pytest.fixture(params=["archive", "folder", "saved again"])
def fit_6(request, old_6, tmp_path):
    assert header_of(old_6)["version"] == 6
    if request.param == "archive":
        return plait.load(V6)
    if request.param == "saved again":
        plait.load(V6).save(tmp_path / "again")
        assert header_of(tmp_path / "again")["version"] == 7
        return plait.load(tmp_path / "again")
    return plait.load(old_6)


def test_a_run_of_version_6_answers_as_it_did(fit_6):
    assert fit_6.objective == V6_ANSWERS["bound"]
    assert fit_6.likelihood_params == V6_ANSWERS["learnt"]
    for name, cells in V6_CELLS.items():
        found = fit_6.predict(name, cells)
        for column, values in V6_ANSWERS["predict"][name].items():
            np.testing.assert_allclose(found[V6_NAMES.get(column, column)], values, rtol=1e-9, err_msg=column)
        best = fit_6.top(name, 3)
        assert [list(row) for row in best.select(cells.columns).rows()] == V6_ANSWERS["top"][name]
        assert best.columns == [V6_NAMES.get(column, column) for column in V6_ANSWERS["columns"][name]]
    rows = pl.DataFrame({"user": ["zoe", "zoe"], "place": ["p1", "p2"], "value": [1.0, 2.0]})
    zoe = fit_6.fold_in({"visits": rows}).predict("visits", pl.DataFrame({"user": ["zoe"], "place": ["p0"]}))
    np.testing.assert_allclose(zoe["mean"], V6_ANSWERS["fold_in"], rtol=1e-9)


def test_a_run_of_version_6_has_the_names_of_today(fit_6):
    old = V6_ANSWERS["settings"]
    kept = {name: old[name] for name in old.keys() - {"adapt", "sweeps", "start", "keep"}}
    renamed = {"adapt_prior": old["adapt"], "max_iter": old["sweeps"], "combine": old["keep"], "warmup": 50}
    assert fit_6.settings == kept | renamed
    assert {name: likelihood.name for name, likelihood in fit_6.likelihood.items()} == {
        "visits": "poisson", "spent": "tweedie", "bursts": "negbin", "friends": "bernoulli"
    }  # fmt: skip
    rules = {name: (known.rule.unseen, known.rule.self_links) for name, known in fit_6.known.items()}
    assert rules == {
        "visits": ("zero", ""), "spent": ("missing", ""), "bursts": ("missing", ""), "friends": ("missing", "missing")
    }  # fmt: skip
    assert (fit_6.stop.reason, fit_6.converged) == ("max_iter", False)
    assert str(fit_6.stop).endswith("(tol=1e-06). Fit again with a larger `max_iter`.")
    assert {(one.stop.reason, one.stop.advice) for one in fit_6.members} == {("max_iter", fit_6.stop.advice)}
    assert dict(fit_6.titles["place"]) == {"p0": "The old mill"}


def test_a_run_of_version_6_is_not_continued(old_6):
    model, data = "visits[user, place] = U[user, r] P[place, r]", {"visits": V6_CELLS["visits"]}
    with pytest.raises(ParameterError, match="cannot continue: an older version of Plait made it") as caught:
        plait.fit(model, data, rank=2, init=old_6, progress=False)
    assert caught.value.hint == f"Fit again; to start from its factors, use `init=plait.load({str(old_6)!r})`."
    result = plait_command("resume", old_6)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the run has format version 6; only runs of version 7 can be continued." in result.stderr
    assert "Fit again. To start from its factors: plait.fit(…, init=plait.load(" in result.stderr


# --- one bit


@pytest.mark.parametrize("name", ["run/manifest.json", "run", "run.plait"])
def test_a_flipped_bit_is_found_or_changes_nothing(name, whole, tmp_path, wanted):
    place = name.partition("/")[0]
    copy = tmp_path / place
    (shutil.copytree if place == "run" else shutil.copy)(whole / place, copy)
    files = sorted(copy.iterdir()) if name == "run" else [tmp_path / name]
    draw, refused = random.Random(1), 0
    for _ in range(100):
        path = draw.choice(files)
        good = path.read_bytes()
        at, bit = draw.randrange(len(good)), draw.randrange(8)
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :])
        found = outcome(copy)
        assert found is None or same(found, wanted), (path.name, at, bit)
        refused += found is None
        path.write_bytes(good)
    assert refused > 80


# --- manifests with a right checksum


def put(header, path, value):
    *parents, last = path
    for key in parents:
        header = header[key]
    header[last] = value


STRUCTURES = [
    (("files",), []),
    (("settings",), [1]),
    (("members", 0, "loop", "likelihood_params", "visits", "burst"), "x"),
    (("members", 0, "loop", "likelihood_params", "visits", "burst"), -1.0),
    (("members", 0, "loop", "likelihood_params", "visits"), {}),
    (("members", 0, "history"), []),
    (("members",), []),
    (("method",), "gibbs"),
    (("model",), "X[i, j] = A[i, r] B[j, r]"),
    (("model",), "X[i, j] ="),
    (("likelihood", "visits"), "gaussian"),
    (("likelihood", "visits"), {"name": "negbin", "mean_burst": 0.1}),
    (("relations", "friends", "closed"), [["friend", "user"]]),
    (("relations", "friends", "closed"), [["user", "hour"]]),
    (("relations", "visits", "observed", "unlisted"), None),
    (("relations", "visits", "observed", "zero"), -5.0),
    (("relations", "visits", "observed", "weight"), -1.0),
    (("relations", "visits", "observed", "weights", 0, "coefficient"), True),
    (("relations", "visits", "observed", "weights", 0, "vectors"), ["nobody"]),
    (("exposures", "names"), []),
    (("settings", "rank"), {"r": 1 << 80}),
    (("extra",), None),
    (("version",), None),
    (("version",), True),
    (("version",), -1),
    (("seed",), -1),
]


@pytest.mark.parametrize(("path", "value"), STRUCTURES, ids=lambda one: str(one)[:60])
def test_a_manifest_that_cannot_be_right_is_refused(path, value, run):
    header = header_of(run)
    put(header, path, value)
    (run / "manifest.json").write_text(seal(header))
    with pytest.raises(StorageError, match=str(run)):
        plait.load(run)


def mutated(header, draw):
    """A manifest changed in one place: another type, an entry gone, a number that is huge, negative or no number."""
    places = []

    def walk(value):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            places.append((value, key))
            walk(inner)

    walk({key: value for key, value in header.items() if key != "files" or draw.random() < 0.3})
    inside, key = draw.choice(places)
    old = inside[key]
    numbers = [0, -1, 1e300, -1e300, 1 << 80, 1e-320, 0.5, True, -old if isinstance(old, (int, float)) else 7]
    way = draw.randrange(4)
    if way == 0:
        del inside[key]
    elif way == 1 and isinstance(old, (int, float)):
        inside[key] = draw.choice(numbers)
    else:
        inside[key] = draw.choice([None, "", "x", "../x", [], {}, [1], {"a": 1}, *numbers])
    return header


@pytest.mark.thorough
def test_a_changed_manifest_is_refused_or_gives_finite_answers(run, wanted):
    good, refused = (run / "manifest.json").read_text(), 0
    for seed in range(250):
        (run / "manifest.json").write_text(seal(mutated(json.loads(good), random.Random(seed))))
        found = outcome(run)
        refused += found is None
        assert found is None or finite(found), seed
    assert 100 < refused < 250


def test_whole_numbers_in_a_manifest_are_as_good_as_floats(run, wanted):
    """JSON of other writers has 1 for 1.0; kernels take floats only."""
    header = header_of(run)
    assert header["exposures"]["relations"]["visits"][1]["coefficient"] == 1.0
    put(header, ("exposures", "relations", "visits", 1, "coefficient"), 1)
    put(header, ("relations", "visits", "observed", "weight"), 1)
    (run / "manifest.json").write_text(seal(header))
    assert same(outcome(run), wanted)


# --- files that lie elsewhere


@pytest.mark.parametrize(
    "name", ["../secret.parquet", "/secret.parquet", "a/../../secret.parquet", "..\\secret.parquet"]
)
def test_a_path_out_of_the_folder_is_never_opened(name, run, tmp_path):
    header = header_of(run)
    shutil.copy(run / header["files"]["labels-0-user"]["file"], tmp_path / "secret.parquet")
    header["files"]["labels-0-user"]["file"] = name if name[0] != "/" else str(tmp_path / "secret.parquet")
    (run / "manifest.json").write_text(seal(header))
    with pytest.raises(StorageError, match=r"manifest is damaged: files\.labels-0-user\.file cannot be"):
        plait.load(run)


@pytest.mark.parametrize("name", ["labels-0-user", "state-0", "known-0-visits", "manifest"])
def test_a_link_out_of_the_folder_is_never_followed(name, run, tmp_path):
    path = run / "manifest.json" if name == "manifest" else file_of(run, name)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="symbolic link"):
        plait.load(run)


def test_a_link_to_the_folder_is_followed(run, tmp_path, wanted):
    (tmp_path / "link").symlink_to(run)
    assert same(outcome(tmp_path / "link"), wanted)


# --- files with a right checksum that are not what the model needs


def tables(column, change):
    return lambda path: pl.read_parquet(path).with_columns(**{column: change}).write_parquet(path)


def written(table):
    return lambda path: table.write_parquet(path)


def arrays(change):
    def write(path):
        found = load_file(path)
        change(found)
        save_file(found, path)

    return write


def replaced(key, change):
    return arrays(lambda found: found.update({key: np.ascontiguousarray(change(found[key]))}))


FILES = {
    "a row number too large": ("known-0-visits", tables("user", pl.lit(1 << 40, pl.Int64))),
    "a row number below 0": ("known-0-visits", tables("user", pl.lit(-1, pl.Int64))),
    "row numbers out of order": ("known-0-visits", lambda path: pl.read_parquet(path).reverse().write_parquet(path)),
    "row numbers with a gap": ("known-0-visits", tables("user", pl.lit(None, pl.UInt32))),
    "row numbers as text": ("known-0-visits", tables("user", pl.lit("1"))),
    "a value that is no number": ("known-0-visits", tables("value", pl.lit(math.nan))),
    "a weight below 0": ("known-0-visits", tables("weight", pl.lit(-1.0))),
    "a column gone": ("known-0-visits", lambda path: pl.read_parquet(path).drop("hour").write_parquet(path)),
    "names of another axis": ("labels-0-user", written(pl.DataFrame({"hour": [1]}))),
    "fewer names": ("labels-0-user", lambda path: pl.read_parquet(path).head(2).write_parquet(path)),
    "more names": ("labels-1-place", written(pl.DataFrame({"place": range(9)}))),
    "a name twice": ("labels-1-place", tables("place", pl.col("place").first())),
    "more links than cells": (
        "known-0-visits",
        lambda path: pl.concat([pl.read_parquet(path)] * 999).write_parquet(path),
    ),
    "names with a gap": ("labels-0-user", tables("user", pl.lit(None, pl.String))),
    "names that are lists": ("labels-0-user", written(pl.DataFrame({"user": [[1]] * 6}))),
    "fewer titles": ("titles-1-place", written(pl.DataFrame({"title": ["x"]}))),
    "titles that are numbers": ("titles-1-place", written(pl.DataFrame({"title": [1, 2, 3]}))),
    "no table": ("labels-0-user", lambda path: path.write_bytes(b"PAR1PAR1")),
    "no arrays": ("state-0", lambda path: path.write_bytes(b"\xff" * 40)),
    "another shape": ("state-0", replaced("U/scale", lambda a: a[:-1])),
    "another rank": ("state-0", replaced("U/scale", lambda a: a[:, :1])),
    "another type": ("state-0", replaced("U/scale", lambda a: a.astype(np.int32))),
    "NaN in a factor": ("state-0", replaced("U/scale", lambda a: a * np.nan)),
    "negative factors": ("state-0", replaced("U/concentration", lambda a: -a)),
    "a factor gone": ("state-0", arrays(lambda found: [found.pop(k) for k in list(found) if k.startswith("U/")])),
    "part of a factor gone": ("state-0", arrays(lambda found: found.pop("U/log_geomean"))),
    "another shape of a prior": ("state-0", replaced("U/prior/mean", lambda a: np.ones((3, 3)))),
    "a prior of 0": ("state-0", replaced("U/prior/mean", lambda a: 0 * a)),
    "flags of fewer rows": ("state-0", replaced("U/exposed", lambda a: a[:1])),
    "flags that are numbers": ("state-0", replaced("U/exposed", lambda a: a.astype(np.float64))),
    "closed rows too large": ("closed", replaced("friends/0", lambda a: a + (1 << 20))),
    "closed rows of one column": ("closed", replaced("friends/0", lambda a: a[:, :1])),
    "exposures too large": ("exposures", replaced("visits/1/coords", lambda a: a + 1000)),
    "exposures of fewer rows": ("exposures", replaced("visits/1/values", lambda a: np.ones(7))),
    "exposures gone": ("exposures", arrays(lambda found: found.pop("visits/1/values"))),
    "weights of fewer rows": ("observed", replaced("friends/0/vector/user", lambda a: a[:1])),
    "a rule of fewer rows": ("rules", replaced("visits/seen/user", lambda a: a[:1])),
}


@pytest.mark.parametrize("harm", FILES)
def test_a_file_that_contradicts_the_model_is_named(harm, run):
    name, write = FILES[harm]
    path = rewrite(run, name, write)
    with pytest.raises(StorageError) as caught:
        plait.load(run)
    named = run if harm in ("fewer names", "more names") else path  # one of two files is wrong
    assert str(named) in str(caught.value)
    assert "\nRestore " in str(caught.value)


# --- one file


def test_an_archive_changed_in_any_way_is_refused_or_as_before(whole, tmp_path, wanted):
    good = (whole / "run.plait").read_bytes()
    for size in (0, 1, 100, len(good) // 2, len(good) - 1):
        (tmp_path / "cut.plait").write_bytes(good[:size])
        assert outcome(tmp_path / "cut.plait") is None
    with zipfile.ZipFile(whole / "run.plait") as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    header = json.loads(members["manifest.json"])
    header["files"]["labels-0-user"]["file"] = "../labels.parquet"
    with zipfile.ZipFile(tmp_path / "paths.plait", "w") as packed:
        for name, content in (members | {"manifest.json": seal(header).encode(), "../labels.parquet": b""}).items():
            packed.writestr(name, content)
    with pytest.raises(StorageError, match=r"files\.labels-0-user\.file cannot be"):
        plait.load(tmp_path / "paths.plait")


def test_a_save_replaces_a_link_and_not_its_target(run, tmp_path, wanted):
    fit, path = plait.load(run), file_of(run, "labels-0-user")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    fit.save(run)
    assert same(outcome(run), wanted)
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_the_command_line_names_the_file_and_exits_with_2(run):
    change(run / "manifest.json", settings=[1])
    result = plait_command("info", run)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: {run}/manifest.json: the manifest is damaged: settings cannot be [1]." in result.stderr
