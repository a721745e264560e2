"""A full disk gives an error or a warning, and never costs a fit, an earlier run or half a file."""

import contextlib
import shutil
import subprocess
import warnings

import numpy as np
import pytest

import plait
from plait.errors import StorageError
from plait.storage import checkpoint as checkpoints
from tests.support.cli_world import World, fill
from tests.support.store_runs import assert_equal

MODEL, DATA = "X[i, j] = A[i, r] B[j, r]", {"X": np.eye(400)}
SETTINGS = {"rank": 4, "seed": 0, "max_iter": 4, "tol": 0.0, "warmup": 0, "progress": False}


@pytest.fixture
def disk(tmp_path):
    """Makes a file system of a number of bytes."""
    places = []

    def make(size):
        place = tmp_path / f"disk-{len(places)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        try:
            made = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError as error:
            pytest.skip(f"no mount: {error}")
        if made.returncode:
            pytest.skip(f"this user may not mount: {made.stderr.strip()}")
        places.append(place)
        return place

    yield make
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=True)


def used(folder):
    return sum(path.stat().st_size for path in folder.rglob("*"))


def fill_up(place):
    """Leave no room at all."""
    with contextlib.suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


@pytest.mark.parametrize("name", ["run", "run.plait"])
def test_fit_on_a_full_disk_exits_with_1(name, disk, tmp_path):
    world = fill(tmp_path)
    place = disk(8192)
    result = world.plait(f"fit model.toml -o {place / name} --max-iter 2")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"error: {place / name}: the run cannot be saved: No space left on device.\nFree some space" in result.stderr
    assert [path.name for path in place.rglob("*") if path.is_file()] == []


@pytest.fixture
def world(tmp_path):
    """A folder with a run to report on."""
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    plait.fit(MODEL, {"X": np.eye(4)}, **SETTINGS).save(tmp_path / "run")
    return World(tmp_path)


def test_report_leaves_the_old_page_or_none(disk, world):
    place = disk(32768)
    (place / "old.html").write_text("old")
    for arguments in ("new.html", "old.html --force"):
        result = world.plait(f"report run -o {place}/{arguments}")
        assert result.exit_code == 1
        assert "the report cannot be written: No space left on device." in result.stderr
    assert {path.name: path.read_text() for path in place.iterdir()} == {"old.html": "old"}


def test_a_report_through_a_link_keeps_the_link(world, tmp_path):
    (tmp_path / "page.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "page.html")
    result = world.plait(f"report run -o {tmp_path}/link.html --force")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "link.html").is_symlink()
    assert "<html" in (tmp_path / "page.html").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"link.html", "page.html", "run"}


@pytest.mark.parametrize("name", ["run", "run.plait"])
def test_a_save_that_fails_leaves_the_old_run(name, disk, tmp_path):
    fit = plait.fit(MODEL, DATA, **SETTINGS)
    fit.save(tmp_path / "measured")
    place = disk(4 * used(tmp_path / "measured"))  # an archive is made of a folder
    fit.save(place / name)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    fill_up(place)
    with pytest.raises(StorageError, match="No space left on device"):
        fit.save(place / name)
    (place / "filler").unlink()
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    assert_equal(fit, plait.load(place / name))


def test_checkpoints_that_fail_cost_one_warning_and_not_the_fit(disk, tmp_path):
    alone = plait.fit(MODEL, DATA, **SETTINGS)
    alone.save(tmp_path / "measured")
    plan = plait.Checkpoint(disk(int(1.4 * used(tmp_path / "measured"))) / "run", sweeps=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = plait.fit(MODEL, DATA, **SETTINGS, checkpoint=plan)
    said = [str(one.message) for one in caught if "checkpoint" in str(one.message)]
    assert len(said) == 1
    assert said[0].startswith(f"checkpoint not saved: {plan.folder}: the run cannot be saved: No space left on device.")
    for name, factor in alone.factors.items():
        assert np.array_equal(factor.mean, fit.factors[name].mean)
    assert plait.load(plan.folder).history[-1].sweep == 0
    assert plait.fit(MODEL, DATA, **SETTINGS, init=plan.folder).objective == fit.objective


@pytest.mark.parametrize("harm", ["removed", "a file", "damaged"])
def test_a_lost_checkpoint_does_not_cost_the_fit(harm, tmp_path, monkeypatch):
    saves, save, folder = [], checkpoints.save, tmp_path / "deep" / "run"

    def harmed(*arguments, **named):
        saves.append(arguments)
        if len(saves) == 2 and harm == "damaged":
            (folder / "manifest.json").write_text("{")
        elif len(saves) == 2:
            shutil.rmtree(tmp_path / "deep")
            if harm == "a file":
                (tmp_path / "deep").write_text("")
        save(*arguments, **named)

    monkeypatch.setattr(checkpoints, "save", harmed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = plait.fit(MODEL, DATA, **SETTINGS, checkpoint=plait.Checkpoint(folder, sweeps=1))
    said = [str(one.message) for one in caught if "checkpoint" in str(one.message)]
    assert len(said) == (harm != "removed")
    assert fit.history[-1].sweep == 4
    if harm == "removed":  # a new one is as good
        assert_equal(fit, plait.load(folder))
