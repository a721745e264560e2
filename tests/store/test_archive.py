"""A run in one file is the same run: same checks, and as whole as a folder."""

import contextlib
import os
import zipfile

import numpy as np
import polars as pl
import pytest

import plait
from plait.errors import StoreError
from plait.run import archive
from plait.run import folder as folders
from tests.store.test_runs import TEXT, PowerCutError, _been, assert_equal, tables

SMALL, DATA = "X[i,j] = A[i,r] B[j,r]", {"X": np.eye(4)}


@pytest.fixture
def fit():
    been = plait.Exposure(pl.DataFrame({"user": ["ann", "bob"], "place": [1, 2]}), default=0.1)
    return plait.fit(TEXT, tables(), rank=2, seed=0, sweeps=15, fixed={"V": been})


def test_one_file_loads_as_the_fit_it_is_and_answers_alike(fit, tmp_path):
    fit.save(tmp_path / "deep" / "model.plait", extra={"note": 1})
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model.plait"]
    loaded = plait.load(tmp_path / "deep" / "model.plait")
    assert_equal(fit, loaded)
    assert folders.manifest(tmp_path / "deep" / "model.plait")["extra"] == {"note": 1}
    cells = tables()["visits"].drop("value")
    assert loaded.predict("visits", cells).equals(fit.predict("visits", cells))
    assert loaded.top("visits", 3, given={"user": "ann"}).equals(fit.top("visits", 3, given={"user": "ann"}))


def test_one_file_is_a_zip_of_the_folder(fit, tmp_path):
    fit.save(tmp_path / "model.plait")
    with zipfile.ZipFile(tmp_path / "model.plait") as packed:
        packed.extractall(tmp_path / "run")
    assert_equal(fit, plait.load(tmp_path / "run"))


def test_an_ensemble_is_one_file_too(tmp_path):
    fit = plait.fit(SMALL, DATA, rank=2, seed=0, sweeps=3, restarts=2)
    fit.save(tmp_path / "model.plait")
    loaded = plait.load(tmp_path / "model.plait")
    for one, other in zip(fit.members, loaded.members, strict=True):
        assert_equal(one, other)


def test_a_file_is_replaced_as_a_folder_is(fit, tmp_path):
    path = tmp_path / "model.plait"
    fit.save(path, extra={"note": 1})
    fit.save(path)
    assert folders.manifest(path)["extra"] == {"note": 1}
    other = plait.fit(SMALL, DATA, rank=1, seed=0, sweeps=2)
    with pytest.raises(StoreError) as caught:
        other.save(path)
    assert str(caught.value) == (
        f"{path}: this file holds a run already, of another fit.\nSave into another file, or give `replace=True`."
    )
    other.save(path, replace=True)
    assert_equal(other, plait.load(path))


def test_a_file_that_is_no_run_is_never_replaced(fit, tmp_path):
    (tmp_path / "thesis.plait").write_text("precious")
    with pytest.raises(StoreError, match="but this is a file"):
        fit.save(tmp_path / "thesis.plait", replace=True)
    with zipfile.ZipFile(tmp_path / "photos.plait", "w") as photos:
        photos.writestr("me.jpg", b"precious")
    with pytest.raises(StoreError, match="but this is a file"):
        fit.save(tmp_path / "photos.plait", replace=True)
    for name in ("thesis.plait", "photos.plait"):
        with pytest.raises(StoreError, match=r"this is no run of Plait: it has no manifest.json"):
            plait.load(tmp_path / name)
    assert (tmp_path / "thesis.plait").read_text() == "precious"


def test_a_folder_of_that_name_stays_a_folder(fit, tmp_path):
    (tmp_path / "model.plait").mkdir()
    fit.save(tmp_path / "model.plait")
    assert (tmp_path / "model.plait" / "manifest.json").exists()


def test_a_fit_keeps_its_checkpoints_in_a_file_and_goes_on_from_there(tmp_path):
    path = tmp_path / "model.plait"
    saving = plait.Checkpoint(path, sweeps=1)
    whole = plait.fit(SMALL, DATA, rank=2, seed=0, sweeps=6, tol=0.0)
    plait.fit(SMALL, DATA, rank=2, seed=0, sweeps=3, tol=0.0, checkpoint=saving)
    with pytest.raises(StoreError, match="this file holds a run already"):
        plait.fit(SMALL, DATA, rank=2, seed=0, sweeps=3, tol=0.0, checkpoint=saving)
    resumed = plait.fit(SMALL, DATA, rank=2, sweeps=6, tol=0.0, init=path, checkpoint=saving)
    assert resumed.bound == whole.bound
    assert_equal(resumed, plait.load(path))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("moment", range(0, 30, 3))
def test_crash_at_any_moment_leaves_the_old_file_or_the_new_one(moment, fit, tmp_path, monkeypatch):
    path, calls = tmp_path / "model.plait", 0
    fit.save(path)
    newer = plait.fit(TEXT, tables(), rank=3, seed=1, sweeps=2, fixed={"V": plait.Exposure(_been(), default=0.5)})

    def cut(function):
        def wrapper(*arguments, **named):
            nonlocal calls
            calls += 1
            if calls > moment:
                raise PowerCutError
            return function(*arguments, **named)

        return wrapper

    with monkeypatch.context() as patch:
        for name in ("fsync", "replace", "open"):
            patch.setattr(folders.os, name, cut(getattr(os, name)))
        patch.setattr(folders.shutil, "rmtree", cut(folders.shutil.rmtree))
        with contextlib.suppress(PowerCutError):
            newer.save(path, replace=True)
    loaded = plait.load(path)
    assert_equal(loaded, newer if loaded.seed == 1 else fit)
    newer.save(path, replace=True)  # and what the cut left behind is cleared by the next save
    assert [p.name for p in tmp_path.iterdir()] == ["model.plait"]


def test_full_disk_is_reported_and_the_old_file_stays(fit, tmp_path, monkeypatch):
    path = tmp_path / "model.plait"
    fit.save(path)

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folders.os, "fsync", full)
        with pytest.raises(StoreError, match=r"model\.plait: the run cannot be saved: No space left on device"):
            fit.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.plait"]
    assert_equal(fit, plait.load(path))


def test_damage_to_any_byte_is_found_or_does_no_harm(tmp_path):
    """The directory of a zip has bytes that nobody reads; all others count."""
    fit = plait.fit(SMALL, DATA, rank=2, seed=0, sweeps=2)
    fit.save(tmp_path / "good.plait")
    content = (tmp_path / "good.plait").read_bytes()
    found = 0
    for place in range(0, len(content), 97):
        harmed = bytearray(content)
        harmed[place] ^= 0x55
        (tmp_path / "bad.plait").write_bytes(bytes(harmed))
        try:
            assert_equal(plait.load(tmp_path / "bad.plait"), fit)
        except StoreError:
            found += 1
    assert found > 0.8 * len(content) / 97
    (tmp_path / "bad.plait").write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match=r"this is no run of Plait"):
        plait.load(tmp_path / "bad.plait")


def test_a_file_that_is_not_in_the_archive_is_missed(tmp_path):
    fit = plait.fit(SMALL, DATA, rank=2, seed=0, sweeps=2)
    fit.save(tmp_path / "run")
    gone = next((tmp_path / "run").glob("labels-*"))
    gone.unlink()
    archive.pack(tmp_path / "run", tmp_path / "model.plait")
    with pytest.raises(StoreError) as caught:
        plait.load(tmp_path / "model.plait")
    wanted = tmp_path / "model.plait" / gone.name
    assert str(caught.value) == f"{wanted}: this file of the run is missing.\nFetch a copy, or fit again."


def test_a_compressed_archive_is_refused_before_it_fills_the_memory(tmp_path):
    fit = plait.fit(SMALL, DATA, rank=2, seed=0, sweeps=2)
    fit.save(tmp_path / "run")
    with zipfile.ZipFile(tmp_path / "model.plait", "w", zipfile.ZIP_DEFLATED) as packed:
        for path in (tmp_path / "run").iterdir():
            packed.write(path, path.name)
    with pytest.raises(StoreError, match="the manifest is damaged: it is compressed"):
        plait.load(tmp_path / "model.plait")
