"""A pack that was cut off goes on from the steps that it finished, and ends with the bytes of one that was not."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import plait
from plait.cli import app
from plait.data.blocks import collecting
from plait.data.blocks.folder import Draft
from plait.data.blocks.packed import Packed
from plait.data.blocks.relation import Packing
from plait.data.blocks.spool import Spool
from plait.files.scan import ColumnScan
from plait.fitting.packing import pack_telling
from plait.manifests import dumps

MODEL = "v[i, j, k] = A[i, r] B[j, r] C[k, r]; w[i, l] = A[i, r] D[l, r]"
MEMORY = 630_000  # for what is there, and little room for rows
ONE = "v[i, j, k] = A[i, r] B[j, r] C[k, r]"


def write_tables(folder):
    rng = np.random.default_rng(5)
    cells = {name: rng.integers(0, size, 20_000) for name, size in zip("ijk", (3000, 7, 50))}
    once = pl.DataFrame({**cells, "value": rng.integers(1, 300, 20_000)}).unique(list("ijk"), maintain_order=True)
    once.write_parquet(folder / "v.parquet")
    names = {"i": rng.integers(0, 3000, 12_000), "l": [f"tag {n}" for n in rng.integers(0, 90, 12_000)]}
    pl.DataFrame({**names, "value": rng.random(12_000) + 0.5}).write_csv(folder / "w.csv")


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)


def data():
    amounts = plait.Relation(plait.scan("w.csv"), duplicates="sum", likelihood="amounts")
    return {"v": plait.scan("v.parquet"), "w": amounts}


def pack(folder, given=None, model=MODEL, memory=MEMORY, labels=None):
    """What a pack said of going on."""
    said = []
    pack_telling(model, given or data(), folder, memory, labels, tell=said.append)
    return said


def content(folder):
    """All files of a folder; only the token of a pack, and with it the manifest's checksum, may differ."""
    manifest = json.loads((Path(folder) / "manifest.json").read_text())
    token, checksum = manifest["token"], manifest.pop("checksum")
    assert len(checksum) == 64
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in Path(folder).rglob("*")}
    found["manifest.json"] = json.dumps(manifest).encode()
    return {name.replace(token, "T"): one.replace(token.encode(), b"T") for name, one in found.items()}


def cut_off(monkeypatch, owner, method, *given, error=None, at=1, seen=KeyboardInterrupt, **options):
    """A pack in which the n-th call of a method raises."""
    plain, calls = getattr(owner, method), []

    def failing(*arguments):
        calls.append(1)
        if len(calls) == at:
            raise error or KeyboardInterrupt
        return plain(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, failing)
        with pytest.raises(seen):
            pack(*given, **options)


class Moments:
    """Copies of a folder at many moments of a pack: all that it leaves when it is killed there."""

    def __init__(self, monkeypatch, folder, step):
        self.folder, self.calls, self.copies = folder, 0, []
        for name in ("fsync", "replace", "unlink"):
            monkeypatch.setattr(os, name, self.watched(getattr(os, name), step))
        monkeypatch.setattr(Spool, "_spill", self.watched(Spool._spill, 1))  # amid the second pass

    def watched(self, plain, step):
        def call(*arguments, **options):
            self.calls += 1
            if self.calls % step == 0:
                self.keep()
            return plain(*arguments, **options)

        return call

    def keep(self):
        copy = Path(f"killed{len(self.copies)}.blocks")
        shutil.copytree(self.folder, copy)
        lock = copy / "pack.lock"
        if lock.exists():  # of a process that is gone
            lock.write_text(json.dumps({**json.loads(lock.read_text()), "started": "never"}))
        self.copies.append(copy)


def test_killed_at_any_moment_it_ends_with_the_same_bytes(tables, monkeypatch):
    other = plait.pack(ONE, {"v": pl.DataFrame({"i": [1, 2], "j": [1, 1], "k": [3, 3]})}, "x.blocks")
    with monkeypatch.context() as patch:
        moments = Moments(patch, "x.blocks", 5)
        pack("x.blocks")
    new, expected, said = Packed.open("x.blocks"), content("x.blocks"), set()
    for copy in moments.copies:
        found = Packed.open(copy)
        found.verify()
        assert found.fingerprint in (other.fingerprint, new.fingerprint)
        said |= set(pack(copy))
        assert content(copy) == expected
    assert said == {
        "names were collected already", "rows of v were dealt already", "blocks of v were written already",
        "blocks of v were written already, rows of w were dealt already",
        "blocks of v and w were written already",
    }  # fmt: skip


STOPS = [
    (KeyboardInterrupt(), KeyboardInterrupt),
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), plait.StoreError),
]


@pytest.mark.parametrize(("error", "seen"), STOPS)
def test_rows_that_were_dealt_are_not_read_again(tables, monkeypatch, error, seen):
    pack("x.blocks", {"v": plait.scan("v.parquet")}, ONE)
    cut_off(monkeypatch, Draft, "put", "y.blocks", {"v": plait.scan("v.parquet")}, ONE, error=error, seen=seen)
    with pytest.raises(plait.StoreError, match="its pack was cut off"):
        Packed.open("y.blocks")
    monkeypatch.setattr(ColumnScan, "batches", lambda *_: pytest.fail("the table is read"))
    assert pack("y.blocks", {"v": plait.scan("v.parquet")}, ONE) == ["rows of v were dealt already"]
    assert content("y.blocks") == content("x.blocks")


def test_after_the_first_pass_only_the_second_is_made(tables, monkeypatch):
    cut_off(monkeypatch, Packing, "deal", "x.blocks")
    plain, passes = ColumnScan.batches, []
    monkeypatch.setattr(ColumnScan, "batches", lambda *given: passes.append(1) or plain(*given))
    monkeypatch.setattr("plait.files.scan.TextScan.batches", lambda *_: pytest.fail("text is read, not its copy"))
    assert pack("x.blocks") == ["names were collected already"]
    assert len(passes) == 1


def left_behind(monkeypatch):
    cut_off(monkeypatch, Draft, "put", "x.blocks", at=2)
    (spill,) = Path("x.blocks").glob("*-spill")
    return spill


def touch():
    os.utime("v.parquet", ns=(1, 1))
    return {}


HIDDEN = pl.DataFrame({"i": [5]})
CHANGES = {
    "another time of a file": touch,
    "more memory": lambda: {"memory": 2 * MEMORY},
    "declared names": lambda: {"labels": {"l": [f"tag {n}" for n in range(91)]}},
    "an option": lambda: {"given": data() | {"v": plait.Relation(plait.scan("v.parquet"), observed=0.5)}},
    "a table in memory": lambda: {"given": data() | {"v": pl.read_parquet("v.parquet")}},
    "missing cells": lambda: {"given": data() | {"v": plait.Relation(plait.scan("v.parquet"), missing=HIDDEN)}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_of_anything_else_nothing_is_taken_over(tables, monkeypatch, change):
    spill = left_behind(monkeypatch)
    assert pack("x.blocks", **CHANGES[change]()) == []
    assert not spill.exists()


def change_digit(path):
    """A number of rows, which no file's size gives away."""
    text = path.read_text()
    at = text.index('"rows": ') + len('"rows": ')
    path.write_text(f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}")


DAMAGES = {
    "a part is shorter": lambda spill: os.truncate(next(spill.glob("relation0-*")), 8),
    "a part is gone": lambda spill: next(spill.glob("relation0-*")).unlink(),
    "no journal": lambda spill: (spill / "journal.json").unlink(),
    "half a journal": lambda spill: os.truncate(spill / "journal.json", 100),
    "a deep journal": lambda spill: (spill / "journal.json").write_text("[" * 200_000),
    "another digit in a journal": lambda spill: change_digit(spill / "journal.json"),
    "a spill elsewhere": lambda spill: spill.symlink_to(spill.rename("elsewhere").absolute()),
    "names are spoilt": lambda spill: (path := spill / "names0-0.arrow").write_bytes(bytes(path.stat().st_size)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_done_again(tables, monkeypatch, damage):
    pack("y.blocks")
    DAMAGES[damage](left_behind(monkeypatch))
    pack("x.blocks")
    assert content("x.blocks") == content("y.blocks")


def test_a_journal_that_names_files_elsewhere_is_none(tables, monkeypatch):
    path = left_behind(monkeypatch) / "journal.json"
    journal = json.loads(path.read_text())
    del journal["checksum"]
    files = next(iter(journal["steps"].values()))["files"]
    files["../v.parquet"] = Path("v.parquet").stat().st_size
    path.write_bytes(dumps(journal))
    assert pack("x.blocks") == []


def test_written_blocks_that_were_changed_are_written_again(tables, monkeypatch):
    pack("y.blocks")
    cut_off(monkeypatch, Packing, "deal", "x.blocks", at=2)
    block = next(Path("x.blocks").glob("*-relation0-000000.safetensors"))
    block.write_bytes(block.read_bytes()[:-1] + b"?")
    assert pack("x.blocks") == ["blocks of v were written already"]
    assert content("x.blocks") == content("y.blocks")


def test_what_is_wrong_is_said_as_if_nothing_had_happened(tables, monkeypatch):
    table = pl.read_parquet("v.parquet")
    for number, part in enumerate((table[:9_000], table[9_000:], table[10_000:10_001])):
        part.write_csv(f"v{number}.csv")
    given = {"v": plait.scan("v?.csv")}
    with pytest.raises(plait.DataError) as expected:
        pack("x.blocks", given, ONE)
    cut_off(monkeypatch, Packing, "write", "x.blocks", given, ONE)
    said = []
    with pytest.raises(plait.DataError) as found:
        pack_telling(ONE, {"v": plait.scan("v?.csv")}, "x.blocks", MEMORY, tell=said.append)
    assert said == ["rows of v were dealt already"]
    assert str(found.value) == str(expected.value)
    assert "v1.csv, line 1002" in str(found.value)
    assert not list(Path("x.blocks").iterdir())


def test_names_of_one_hash_begin_again_without_a_journal(tables, monkeypatch):
    pack("y.blocks")
    monkeypatch.setattr(collecting, "hash_of", lambda labels: np.asarray(labels.str.len_bytes(), np.uint64))
    cut_off(monkeypatch, Packing, "deal", "x.blocks", at=2)
    assert pack("x.blocks") == ["blocks of v were written already"]
    assert content("x.blocks") == content("y.blocks")


def test_a_pack_that_goes_on_can_be_cut_off_again(tables, monkeypatch):
    pack("y.blocks")
    cut_off(monkeypatch, Packing, "deal", "x.blocks")
    for at in (1, 2, 3, 4):
        cut_off(monkeypatch, Draft, "put", "x.blocks", at=at)
    pack("x.blocks")
    assert content("x.blocks") == content("y.blocks")


KILLED = """
import os, signal
from plait.data.blocks.folder import Draft
Draft.put = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from plait.cli import app
app(["pack", "m.toml", "-o", "x.blocks", "--memory", "630KB"])
"""


def test_the_command_goes_on_after_a_kill_and_says_so(tables):
    Path("m.toml").write_text(f'model = "{ONE}"\n[relations.v]\nsource = "v.parquet"\n')
    pack("y.blocks", {"v": plait.scan("v.parquet")}, ONE)
    assert subprocess.run([sys.executable, "-c", KILLED], check=False).returncode == -signal.SIGKILL
    assert Path("x.blocks/pack.lock").exists()
    done = CliRunner().invoke(app, ["pack", "m.toml", "-o", "x.blocks", "--memory", "630KB"])
    assert done.exit_code == 0, done.output
    assert done.stderr == "going on: rows of v were dealt already\n"
    assert content("x.blocks") == content("y.blocks")


def test_what_fits_into_memory_leaves_nothing(tables, monkeypatch):
    cut_off(monkeypatch, Draft, "put", "x.blocks", memory=100 * MEMORY)
    assert not Path("x.blocks").exists()
