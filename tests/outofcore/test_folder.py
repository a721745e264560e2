"""The folder of blocks: reading, damage, atomic replacement, locks and crashes."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import plait
from plait.data.outofcore import block_folder as folders
from plait.data.outofcore.block_file import ALIGNMENT_BYTES
from plait.data.outofcore.packed import Packed
from plait.manifests import dumps

MODEL = "v[i, j, k] = A[i, r] B[j, r] C[k, r]"


def rows(n=30_000, seed=0):
    rng = np.random.default_rng(seed)
    cells = {name: rng.integers(0, size, n) for name, size in zip("ijk", (2000, 7, 50))}
    return pl.DataFrame({**cells, "value": rng.integers(1, 300, n)}).unique(list(cells), maintain_order=True)


@pytest.fixture
def packed(tmp_path):
    return plait.pack(MODEL, {"v": rows()}, tmp_path / "x.blocks", memory="1MB")


def block(packed, number=0):
    blocks = packed.relations["v"].blocks
    return blocks.place / blocks.files[number]["file"]


def test_blocks_are_safetensors_with_aligned_arrays(packed):
    found = load_file(block(packed))
    tree = packed.relations["v"].blocks[0]
    for level, array in enumerate(tree.rows):
        np.testing.assert_array_equal(found[f"rows{level}"], array)
    np.testing.assert_array_equal(found["entries"], tree.entries)
    assert all(array.ctypes.data % ALIGNMENT_BYTES == 0 for array in tree.arrays)


def test_a_stream_gives_all_blocks(packed):
    blocks, seen = packed.relations["v"].blocks, []
    for number, tree, release in blocks.stream(buffers=2):
        np.testing.assert_array_equal(tree.entries, blocks[number].entries)
        seen.append(number)
        release()
    assert seen == list(range(len(blocks)))


def test_a_closed_stream_ends_its_thread(packed):
    stream = packed.relations["v"].blocks.stream()
    next(stream)
    stream.close()
    names = [thread.name for thread in threading.enumerate()]
    assert "plait-blocks" not in names


def test_errors_of_the_reading_thread_are_raised(packed):
    last = len(packed.relations["v"].blocks) - 1
    assert last > 0
    block(packed, last).unlink()
    with pytest.raises(plait.errors.StorageError, match="missing"):
        list(packed.relations["v"].blocks.stream(buffers=last + 1))


def test_cells_are_found_on_disk(packed):
    table, relation = rows(), packed.relations["v"]
    known = np.stack([packed.entities[index].encode(table[index]) for index in "ijk"], axis=1)
    values = dict(zip(map(tuple, known.tolist()), table["value"]))
    for cells in (known, np.random.default_rng(1).integers(0, relation.shape, (500, 3))):
        found = relation.find(cells)
        np.testing.assert_array_equal(found.values, [values.get(tuple(cell), 0) for cell in cells.tolist()])
        np.testing.assert_array_equal(found.listed, [tuple(cell) in values for cell in cells.tolist()])


# --- damage


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


DAMAGE = {  # what happens to a block, what opening the folder says, what reading the block says
    "missing": (lambda path: path.unlink(), "blocks is missing", "blocks is missing"),
    "truncated": (lambda path: os.truncate(path, 100), "damaged: it has 100 bytes", "damaged: it has 100 bytes"),
    "a byte": (lambda path: flip(path, -1), None, "its checksum is wrong"),
    "the header": (lambda path: flip(path, 10), None, "this file of the blocks is damaged"),
}


@pytest.mark.parametrize("way", DAMAGE)
def test_a_damaged_block_is_named(packed, way):
    change, opening, reading = DAMAGE[way]
    path = block(packed)
    change(path)
    if opening:
        with pytest.raises(plait.errors.StorageError, match=f"{path.name}: .*{opening}"):
            Packed.open(packed.path)
    with pytest.raises(plait.errors.StorageError, match=f"{path.name}: .*{reading}"):
        packed.relations["v"].blocks[0]
    with pytest.raises(plait.errors.StorageError, match=path.name):
        packed.verify()


def test_damaged_labels_are_refused(packed):
    labels = packed.path / packed.manifest["labels"]["i"]["file"]
    labels.write_bytes(labels.read_bytes()[:-1] + b"x")
    with pytest.raises(plait.errors.StorageError, match="damaged"):
        Packed.open(packed.path)


@pytest.mark.parametrize(("content", "words"), [
    (b"{", "the manifest is damaged"), (b'{"format": "plait-run"}', "not the manifest of blocks"),
    (dumps({"format": "plait-blocks", "version": 99, "plait": "9.0"}), "format version 99"),
    (b'{"format": "plait-blocks", "version": 1}', "the manifest is damaged"),
])  # fmt: skip
def test_a_wrong_manifest_is_refused(packed, content, words):
    (packed.path / "manifest.json").write_bytes(content)
    with pytest.raises(plait.errors.StorageError, match=words):
        Packed.open(packed.path)


def test_a_folder_without_blocks_is_refused(tmp_path):
    with pytest.raises(plait.errors.StorageError, match="the folder does not exist"):
        Packed.open(tmp_path / "none")
    with pytest.raises(plait.errors.StorageError, match=r"not a folder of blocks: manifest\.json is missing"):
        Packed.open(tmp_path)


# --- replacing


def test_a_pack_replaces_another_as_a_whole(packed):
    before = {path.name for path in packed.path.iterdir()}
    again = plait.pack(MODEL, {"v": rows(seed=1)}, packed.path)
    after = {path.name for path in packed.path.iterdir()}
    assert again.fingerprint != packed.fingerprint
    assert before & after == {"manifest.json"}
    again.verify()


def test_other_files_are_not_overwritten(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(plait.errors.StorageError, match=r"contains other files, such as 'letter\.txt'"):
        plait.pack(MODEL, {"v": rows()}, tmp_path)
    with pytest.raises(plait.errors.StorageError, match="got a file"):
        plait.pack(MODEL, {"v": rows()}, tmp_path / "letter.txt")


@pytest.mark.parametrize("writes", [0, 1, 3])
def test_a_full_disk_leaves_what_was_there(packed, monkeypatch, writes):
    left, plain = [writes], folders.Draft.put

    def put(self, name, *pieces):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        return plain(self, name, *pieces)

    before = sorted(path.name for path in packed.path.iterdir())
    monkeypatch.setattr(folders.Draft, "put", put)
    with pytest.raises(
        plait.errors.StorageError, match=r"cannot be written: No space left on device\.\nFree some space"
    ):
        plait.pack(MODEL, {"v": rows(seed=1)}, packed.path, memory="1MB")
    assert sorted(path.name for path in packed.path.iterdir()) == before
    Packed.open(packed.path).verify()


# --- locks and crashes

PACKING = """
import sys, polars as pl, plait
plait.pack({model!r}, {{"v": plait.scan({source!r})}}, {folder!r}, memory="1MB")
"""


def start(tmp_path, folder):
    rows(400_000, seed=3).write_csv(tmp_path / "big.csv")
    code = PACKING.format(model=MODEL, source=str(tmp_path / "big.csv"), folder=str(folder))
    return subprocess.Popen([sys.executable, "-c", code])


def wait_for(folder, pattern):
    for _ in range(600):
        if any(Path(folder).glob(pattern)):
            return
        time.sleep(0.05)
    raise AssertionError(f"no {pattern}")


@pytest.mark.thorough
@pytest.mark.parametrize("moment", ["*-spill/copy0/3.arrow", "*-relation0-000000.safetensors"])
def test_a_killed_pack_leaves_the_old_blocks(tmp_path, moment):
    folder = tmp_path / "x.blocks"
    first = plait.pack(MODEL, {"v": rows()}, folder)
    old = {path.name for path in folder.iterdir()}
    process = start(tmp_path, folder)
    token = moment if "spill" in moment else None
    try:
        while True:
            wait_for(folder, "*-spill/copy0/3.arrow")
            if token or {path.name for path in folder.glob(moment)} - old:
                break
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert Packed.open(folder).fingerprint == first.fingerprint
    again = plait.pack(MODEL, {"v": plait.scan(tmp_path / "big.csv")}, folder, memory="1MB")
    again.verify()
    assert not list(folder.glob("*spill*"))
    assert {path.name for path in folder.iterdir()} & old == {"manifest.json"}


@pytest.mark.thorough
def test_two_packs_of_one_folder_exclude_each_other(tmp_path):
    folder = tmp_path / "x.blocks"
    process = start(tmp_path, folder)
    try:
        wait_for(folder, "*-spill")
        with pytest.raises(plait.errors.StorageError, match="another process is packing"):
            plait.pack(MODEL, {"v": rows()}, folder)
        with pytest.raises(plait.errors.StorageError, match="packing into this folder has not finished"):
            Packed.open(folder)
    finally:
        process.kill()
        process.wait()
    plait.pack(MODEL, {"v": rows()}, folder).verify()
