"""A run that is damaged, or made to do harm, is refused by a StoreError that names the file, or answers as before."""

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
from plait.errors import StoreError
from tests.sealed import change, seal

OLD = Path(__file__).parent / "runs" / "version-5.plait"
CELLS = pl.DataFrame({"user": ["ann", "bob", "dee"], "place": [1, 2, 3], "hour": [8, 20, 21]})
MEANS = [2.03464796758443, 0.9914093006289078, 0.30657928954573926]  # of CELLS, by the version before
NEW = pl.DataFrame({"user": ["new", "new"], "place": [1, 3], "hour": [8, 9], "value": [2.0, 1.0]})


def answers(fit):
    """What a fit says, by tables that depend on every file of its run."""
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
    return run / json.loads((run / "manifest.json").read_text())["files"][name]["file"]


def rewrite(run, name, write):
    """Change a file, and say its new size and checksum in the manifest."""
    path, header = file_of(run, name), json.loads((run / "manifest.json").read_text())
    write(path)
    header["files"][name] |= {
        "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }  # fmt: skip
    (run / "manifest.json").write_text(seal(header))
    return path


# --- the version before


def test_a_run_of_version_5_loads_from_a_file_and_a_folder_and_answers_as_it_did(tmp_path, wanted):
    """The figures are those of the Plait that saved it."""
    with zipfile.ZipFile(OLD) as packed:
        packed.extractall(tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["version"] == 5
    assert "checksum" not in manifest
    for place in (OLD, tmp_path / "run"):
        fit = plait.load(place)
        np.testing.assert_allclose(fit.predict("visits", CELLS)["mean"], MEANS, rtol=1e-12)
        assert fit.learnt["visits"] == {"burst": 0.9468661650958047}
        assert same(answers(fit), wanted)


def test_a_manifest_of_version_5_is_checked_by_its_schema(tmp_path):
    with zipfile.ZipFile(OLD) as packed:
        packed.extractall(tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"settings": [1]}))
    with pytest.raises(StoreError, match=r"manifest\.json: the manifest is damaged: settings cannot be \[1\]"):
        plait.load(tmp_path / "run")


# --- one bit


def test_a_flipped_bit_of_the_manifest_is_found(run, whole, wanted):
    good, draw = (run / "manifest.json").read_bytes(), random.Random(0)
    for _ in range(150):
        at, bit = draw.randrange(len(good)), draw.randrange(8)
        (run / "manifest.json").write_bytes(good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :])
        found = outcome(run)
        assert found is None or same(found, wanted), (at, bit)


@pytest.mark.parametrize("name", ["run", "run.plait"])
def test_a_flipped_bit_of_any_file_is_found(name, whole, tmp_path, wanted):
    copy = tmp_path / name
    (shutil.copytree if name == "run" else shutil.copy)(whole / name, copy)
    files, draw = sorted(copy.iterdir()) if copy.is_dir() else [copy], random.Random(1)
    for _ in range(100):
        path = draw.choice(files)
        good = path.read_bytes()
        at, bit = draw.randrange(len(good)), draw.randrange(8)
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :])
        found = outcome(copy)
        assert found is None or same(found, wanted), (path.name, at, bit)
        path.write_bytes(good)


def test_a_manifest_of_this_version_has_a_checksum(run):
    header = json.loads((run / "manifest.json").read_text())
    del header["checksum"]
    (run / "manifest.json").write_text(json.dumps(header))
    with pytest.raises(StoreError, match="it has no checksum"):
        plait.load(run)


# --- manifests with a right checksum


def put(header, path, value):
    *parents, last = path
    for key in parents:
        header = header[key]
    header[last] = value


STRUCTURES = [
    (("files",), []),
    (("settings",), [1]),
    (("members", 0, "loop", "learnt", "visits", "burst"), "x"),
    (("members", 0, "loop", "learnt", "visits", "burst"), -1.0),
    (("members", 0, "loop", "learnt", "visits"), {}),
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
    header = json.loads((run / "manifest.json").read_text())
    put(header, path, value)
    (run / "manifest.json").write_text(seal(header))
    with pytest.raises(StoreError, match=str(run)):
        plait.load(run)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "9" * 10_000, '{"a": NaN}', "\x00", ""])
def test_a_manifest_that_is_no_json_is_refused(text, run):
    (run / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match=r"manifest\.json"):
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


def test_a_manifest_changed_anywhere_is_refused_or_leads_to_numbers(run, wanted):
    """With the right checksum: who writes one may say anything, but nothing crashes, and no answer is NaN."""
    good, refused = (run / "manifest.json").read_text(), 0
    for seed in range(250):
        (run / "manifest.json").write_text(seal(mutated(json.loads(good), random.Random(seed))))
        found = outcome(run)
        refused += found is None
        assert found is None or finite(found), seed
    assert 100 < refused < 250


def test_whole_numbers_in_a_manifest_are_as_good_as_floats(run, wanted):
    """JSON of other writers has 1 for 1.0; kernels take floats only."""
    header = json.loads((run / "manifest.json").read_text())
    assert header["exposures"]["relations"]["visits"][1]["coefficient"] == 1.0
    put(header, ("exposures", "relations", "visits", 1, "coefficient"), 1)
    put(header, ("relations", "visits", "observed", "weight"), 1)
    (run / "manifest.json").write_text(seal(header))
    assert same(outcome(run), wanted)


# --- files that lie elsewhere


@pytest.mark.parametrize(
    "name", ["../secret.parquet", "/secret.parquet", "a/../../secret.parquet", "..\\secret.parquet"]
)
def test_a_path_out_of_the_folder_is_never_opened(name, run, tmp_path, monkeypatch):
    header = json.loads((run / "manifest.json").read_text())
    shutil.copy(run / header["files"]["labels-0-user"]["file"], tmp_path / "secret.parquet")
    header["files"]["labels-0-user"]["file"] = name if name[0] != "/" else str(tmp_path / "secret.parquet")
    (run / "manifest.json").write_text(seal(header))
    with pytest.raises(
        StoreError, match=r"manifest\.json: the manifest is damaged: files\.labels-0-user\.file cannot be"
    ):
        plait.load(run)


@pytest.mark.parametrize("name", ["labels-0-user", "state-0", "known-0-visits", "manifest"])
def test_a_link_out_of_the_folder_is_never_followed(name, run, tmp_path):
    path = run / "manifest.json" if name == "manifest" else file_of(run, name)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        plait.load(run)


def test_a_link_to_the_folder_is_followed(run, tmp_path, wanted):
    (tmp_path / "link").symlink_to(run)
    assert same(outcome(tmp_path / "link"), wanted)


# --- files with a right checksum that are not what the model needs


def tables(column, change):
    return lambda path: pl.read_parquet(path).with_columns(**{column: change}).write_parquet(path)


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
    "names of another axis": ("labels-0-user", lambda path: pl.DataFrame({"hour": [1]}).write_parquet(path)),
    "fewer names": ("labels-0-user", lambda path: pl.read_parquet(path).head(2).write_parquet(path)),
    "more names": ("labels-1-place", lambda path: pl.DataFrame({"place": range(9)}).write_parquet(path)),
    "a name twice": ("labels-1-place", tables("place", pl.col("place").first())),
    "more links than cells": (
        "known-0-visits",
        lambda path: pl.concat([pl.read_parquet(path)] * 999).write_parquet(path),
    ),
    "names with a gap": ("labels-0-user", tables("user", pl.lit(None, pl.String))),
    "names that are lists": ("labels-0-user", lambda path: pl.DataFrame({"user": [[1]] * 6}).write_parquet(path)),
    "fewer titles": ("titles-1-place", lambda path: pl.DataFrame({"title": ["x"]}).write_parquet(path)),
    "titles that are numbers": ("titles-1-place", lambda path: pl.DataFrame({"title": [1, 2, 3]}).write_parquet(path)),
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
def test_a_file_that_the_model_cannot_have_is_refused_by_name(harm, run):
    name, write = FILES[harm]
    path = rewrite(run, name, write)
    with pytest.raises(StoreError) as caught:
        plait.load(run)
    named = [str(path)] if harm not in ("fewer names", "more names") else [str(run)]  # which of two files is wrong?
    assert any(one in str(caught.value) for one in named), str(caught.value)
    assert "\nFetch a copy" in str(caught.value)


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
    with pytest.raises(StoreError, match=r"files\.labels-0-user\.file cannot be"):
        plait.load(tmp_path / "paths.plait")


def test_a_damaged_run_is_not_kept_by_a_save_that_replaces_a_link(run, tmp_path, wanted):
    """A file that leads elsewhere is written again, and what it led to stays."""
    fit, path = plait.load(run), file_of(run, "labels-0-user")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    fit.save(run)
    assert same(outcome(run), wanted)
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_the_command_line_says_which_file_and_ends_with_2(run):
    from typer.testing import CliRunner

    from plait.cli import app

    change(run / "manifest.json", settings=[1])
    result = CliRunner().invoke(app, ["info", str(run)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: {run}/manifest.json: the manifest is damaged: settings cannot be [1]." in result.stderr
