"""The folder of blocks: nothing half-written is ever read, nothing that was there is ever lost."""

import errno
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import plait
from plait.data.blocks import folder as folders
from plait.data.blocks.buffers import BUFFERS, Buffers
from plait.data.blocks.file import ALIGNED, aligned
from plait.data.blocks.packed import Packed
from plait.data.blocks.table import PackedTable
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
    assert all(array.ctypes.data % ALIGNED == 0 for array in tree.arrays)


def test_a_stream_gives_all_blocks_in_reused_buffers(packed):
    blocks = packed.relations["v"].blocks
    places, seen = set(), []
    for number, tree, release in blocks.stream(buffers=2):
        np.testing.assert_array_equal(tree.entries, blocks[number].entries)
        places.add(tree.entries.ctypes.data // (1 << 12))
        seen.append(number)
        release()
    assert seen == list(range(len(blocks)))


def addresses(table):
    found = set()
    for piece in table.walk():
        found.add(piece.tree.arrays[0].ctypes.data >> 12)  # a block begins with its header, in one page
        piece.done()
    return found


def test_a_second_pass_reads_into_the_memory_of_the_first(packed):
    blocks = packed.relations["v"].blocks
    table = PackedTable(blocks, blocks.types[-1])
    first = addresses(table)
    others = [np.ones(blocks.largest, np.uint8) for _ in range(8)]  # what fresh memory might have been
    assert addresses(table) & first  # how many a pass has depends on who is faster
    assert addresses(pickle.loads(pickle.dumps(table))) & first
    assert len(others) == 8


def test_buffers_go_with_the_last_table_that_reads(packed):
    blocks = packed.relations["v"].blocks
    table = PackedTable(blocks, blocks.types[-1])
    addresses(table)
    room = weakref.ref(table._room)
    assert len(room()._free) in range(1, BUFFERS + 1)
    del table
    gc.collect()
    assert room() is None


def test_no_more_buffers_wait_than_a_pass_has_and_the_largest_stay():
    room = Buffers()
    for size in (10, 50, 20, 40, 30):
        room.give(aligned(size))
    assert [len(room.take(size)) for size in (1, 1, 45, 45)] == [20, 30, 50, 45]


def test_blocks_are_a_table_to_an_executor(packed):
    blocks = packed.relations["v"].blocks
    numbers, entries = [], 0
    table = PackedTable(blocks, blocks.types[-1])
    for piece in table.walk(1):
        numbers.append(piece.number)
        entries += piece.tree.length(piece.leaf)
        piece.done()
    assert numbers == list(range(1, len(blocks)))
    assert entries == len(table) - len(blocks[0])
    assert sum(len(tree) for tree in table.trees()) == blocks.entries == len(table)


def test_a_stream_can_be_left(packed):
    stream = packed.relations["v"].blocks.stream()
    next(stream)
    stream.close()
    names = [thread.name for thread in threading.enumerate()]
    assert "plait-blocks" not in names


def test_errors_of_the_reading_thread_are_raised(packed):
    last = len(packed.relations["v"].blocks) - 1
    assert last > 0
    block(packed, last).unlink()
    with pytest.raises(plait.StoreError, match="missing"):
        list(packed.relations["v"].blocks.stream(buffers=last + 1))


def test_cells_are_found_on_disk(packed):
    table, relation = rows(), packed.relations["v"]
    cells = np.stack([packed.labels[index].encode(table[index]) for index in "ijk"], axis=1)
    np.testing.assert_array_equal(relation.find(cells).values, table["value"].to_numpy())
    known = {tuple(cell) for cell in cells.tolist()}
    others = np.random.default_rng(1).integers(0, relation.shape, (500, 3))
    values = dict(zip(map(tuple, cells.tolist()), table["value"]))
    found = relation.find(others)
    np.testing.assert_array_equal(found.values, [values.get(tuple(cell), 0) for cell in others.tolist()])
    np.testing.assert_array_equal(found.listed, [tuple(cell) in known for cell in others.tolist()])


# --- damage


def test_a_removed_block(packed):
    block(packed).unlink()
    with pytest.raises(plait.StoreError, match=r"000000\.safetensors: this file of the blocks is missing"):
        Packed.open(packed.path)


def test_a_truncated_block(packed):
    os.truncate(block(packed), 100)
    with pytest.raises(plait.StoreError, match="damaged: it has 100 bytes"):
        Packed.open(packed.path)
    with pytest.raises(plait.StoreError, match="damaged: it has 100 bytes"):
        packed.relations["v"].blocks[0]


def test_a_changed_byte_is_found_when_it_is_read(packed):
    packed.relations["v"].blocks[0]
    content = bytearray(block(packed).read_bytes())
    content[-1] ^= 1
    block(packed).write_bytes(content)
    with pytest.raises(plait.StoreError, match="its checksum is another one"):
        Packed.open(packed.path).relations["v"].blocks[0]
    with pytest.raises(plait.StoreError, match="its checksum is another one"):
        packed.verify()


def test_a_spoilt_header(packed):
    content = bytearray(block(packed).read_bytes())
    content[8:20] = b"x" * 12
    block(packed).write_bytes(content)
    with pytest.raises(plait.StoreError, match="this file of the blocks is damaged"):
        packed.relations["v"].blocks[0]


def test_changed_labels_are_found_at_once(packed):
    labels = packed.path / packed.manifest["labels"]["i"]["file"]
    labels.write_bytes(labels.read_bytes()[:-1] + b"x")
    with pytest.raises(plait.StoreError, match="damaged"):
        Packed.open(packed.path)


@pytest.mark.parametrize(("content", "words"), [
    (b"{", "the manifest is damaged"), (b'{"format": "plait-run"}', "not the manifest of blocks"),
    (dumps({"format": "plait-blocks", "version": 99, "plait": "9.0"}), "format version 99"),
    (b'{"format": "plait-blocks", "version": 1}', "the manifest is damaged"),
])  # fmt: skip
def test_a_strange_manifest(packed, content, words):
    (packed.path / "manifest.json").write_bytes(content)
    with pytest.raises(plait.StoreError, match=words):
        Packed.open(packed.path)


def test_no_folder(tmp_path):
    with pytest.raises(plait.StoreError, match="there is no such folder"):
        Packed.open(tmp_path / "none")
    with pytest.raises(plait.StoreError, match=r"these are no blocks: there is no manifest\.json"):
        Packed.open(tmp_path)


# --- replacing


def test_a_pack_replaces_another_as_a_whole(packed):
    before = {path.name for path in packed.path.iterdir()}
    again = plait.pack(MODEL, {"v": rows(seed=1)}, packed.path)
    after = {path.name for path in packed.path.iterdir()}
    assert again.fingerprint != packed.fingerprint
    assert before & after == {"manifest.json"}
    again.verify()


def test_other_things_stay_where_they_are(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(plait.StoreError, match=r"holds other things, such as 'letter\.txt'"):
        plait.pack(MODEL, {"v": rows()}, tmp_path)
    with pytest.raises(plait.StoreError, match="this is a file"):
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
    with pytest.raises(plait.StoreError, match=r"cannot be written: No space left on device\.\nMake room"):
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


@pytest.mark.parametrize("moment", ["*-spill/copy0/3.arrow", "*-relation0-000000.safetensors"])
def test_a_killed_pack_loses_nothing_and_can_begin_again(tmp_path, moment):
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


def test_two_packs_of_one_folder(tmp_path):
    folder = tmp_path / "x.blocks"
    process = start(tmp_path, folder)
    try:
        wait_for(folder, "*-spill")
        with pytest.raises(plait.StoreError, match="being packed by another process"):
            plait.pack(MODEL, {"v": rows()}, folder)
        with pytest.raises(plait.StoreError, match="the folder is being packed"):
            Packed.open(folder)
    finally:
        process.kill()
        process.wait()
    plait.pack(MODEL, {"v": rows()}, folder).verify()


def test_buffers_are_aligned():
    assert all(aligned(size).ctypes.data % ALIGNED == 0 for size in (1, 63, 64, 1000))
