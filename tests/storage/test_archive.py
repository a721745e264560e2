"""Runs in one file (.plait)."""

import zipfile

import numpy as np
import pytest

import plait
from plait.errors import StorageError
from tests.support.store_runs import MATRIX, assert_equal


def small(**options):
    settings = {"rank": 2, "seed": 0, "max_iter": 2, "tol": 0.0, "warmup": 0} | options
    return plait.fit(MATRIX, {"X": np.eye(4)}, **settings)


def archive(folder, target, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(target, "w", compression) as packed:
        for path in folder.iterdir():
            packed.write(path, path.name)


def test_an_archive_is_a_zip_of_the_folder(tmp_path):
    fit = small(restarts=2)
    fit.save(tmp_path / "model.plait")
    with zipfile.ZipFile(tmp_path / "model.plait") as packed:
        packed.extractall(tmp_path / "run")
    for place in ("model.plait", "run"):
        for one, other in zip(fit.members, plait.load(tmp_path / place).members, strict=True):
            assert_equal(one, other)


def test_a_file_that_is_no_run_is_never_replaced(tmp_path):
    fit = small()
    (tmp_path / "thesis.plait").write_text("precious")
    with zipfile.ZipFile(tmp_path / "photos.plait", "w") as photos:
        photos.writestr("me.jpg", b"precious")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for path in before:
        with pytest.raises(StorageError, match="got another file"):
            fit.save(path, replace=True)
        with pytest.raises(StorageError, match=r"this is not a run of Plait: manifest.json is missing"):
            plait.load(path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_named_plait_stays_a_folder(tmp_path):
    (tmp_path / "model.plait").mkdir()
    small().save(tmp_path / "model.plait")
    assert (tmp_path / "model.plait" / "manifest.json").exists()


def test_a_fit_resumes_from_checkpoints_in_an_archive(tmp_path):
    path = tmp_path / "model.plait"
    saving = plait.Checkpoint(path, sweeps=1)
    whole = small(max_iter=6)
    small(max_iter=3, checkpoint=saving)
    with pytest.raises(StorageError, match="this file already contains a run"):
        small(max_iter=3, checkpoint=saving)
    resumed = small(max_iter=6, seed=None, warmup=None, init=path, checkpoint=saving)
    assert resumed.objective == whole.objective
    assert_equal(resumed, plait.load(path))


def test_a_file_missing_from_the_archive_is_named(tmp_path):
    small().save(tmp_path / "run")
    gone = next((tmp_path / "run").glob("labels-*"))
    gone.unlink()
    archive(tmp_path / "run", tmp_path / "model.plait")
    with pytest.raises(StorageError) as caught:
        plait.load(tmp_path / "model.plait")
    wanted = tmp_path / "model.plait" / gone.name
    assert str(caught.value) == f"{wanted}: this file of the run is missing.\nRestore it from a copy, or fit again."


def test_a_compressed_archive_is_refused(tmp_path):
    small().save(tmp_path / "run")
    archive(tmp_path / "run", tmp_path / "model.plait", zipfile.ZIP_DEFLATED)
    with pytest.raises(StorageError, match="the manifest is damaged: it is compressed"):
        plait.load(tmp_path / "model.plait")
