"""Damaged and hostile blocks: a StorageError that names the file, or the same fit."""

import hashlib
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import plait
from plait.data.outofcore.block_file import to_pieces
from plait.data.outofcore.block_table import PackedTable
from plait.data.outofcore.packed import Packed
from plait.manifests import dumps
from tests.support.tuning import SMALL_LEAVES, tuned

MODEL = "v[i, j, k] = A[i, r] B[j, r] C[k, r]"
pytestmark = pytest.mark.filterwarnings("ignore::plait.PlaitWarning")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder of a few blocks of floats with weights."""
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, (40, 5, 12), (700, 3)), axis=0)
    table = pl.DataFrame(dict(zip("ijk", cells.T))).with_columns(
        value=pl.Series(rng.gamma(2.0, 1.5, len(cells))), w=pl.Series(rng.uniform(0.5, 2.0, len(cells)))
    )
    missing = pl.DataFrame({"i": [3, 4], "k": [1, 2]})
    with tuned(**SMALL_LEAVES, max_leaf_entries=200):
        relation = plait.Relation(table, weight="w", missing=missing, observed="listed", likelihood="tweedie")
        path = tmp_path_factory.mktemp("sound") / "v.blocks"
        packed = plait.pack(MODEL, {"v": relation}, path)
    assert len(packed.relations["v"].blocks) > 2
    return path


@pytest.fixture
def folder(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "v.blocks")


def fit(folder):
    return plait.fit(MODEL, folder, rank=2, seed=0, max_iter=2, warmup=0, threads=2, progress=False)


def reseal(folder, change, *, version=3):
    """Change a manifest and its checksum; it has the names of its version."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["checksum"]
    manifest["version"] = version
    if version < 3:
        downgrade(relation_of(manifest))
    change(manifest)
    path.write_bytes(dumps(manifest) if version > 1 else json.dumps(manifest).encode())


def downgrade(relation):
    """Give a relation the names of versions 1 and 2."""
    relation["diagonal"], relation["self_links"] = relation.pop("self_links"), relation.pop("dropped_self_links")
    options, likelihood = relation["options"], relation["likelihood"]
    options["diagonal"] = options.pop("self_links")
    options["universe"] = {"missing": "relation", "zero": "model"}[options.pop("unseen")]
    likelihood["name"] = {"tweedie": "amounts"}.get(likelihood["name"], likelihood["name"])


def relation_of(manifest):
    return manifest["relations"]["v"]


def rewrite(folder, change, entry_of=lambda manifest: relation_of(manifest)["blocks"][1]):
    """Change the arrays of a file, its checksum and the manifest."""

    def enter(manifest):
        entry = entry_of(manifest)
        path = folder / entry["file"]
        arrays = {name: array for name, array in load_file(path).items() if not name.startswith("pad")}
        change(arrays)
        path.write_bytes(b"".join(piece.tobytes() for piece in to_pieces(arrays)))
        sign(path, entry)

    reseal(folder, enter)


def sign(path, entry):
    content = path.read_bytes()
    entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def put(name, at, value):
    def change(arrays):
        arrays[name][at] = value

    return change


def cast_to(name, kind):
    return lambda arrays: arrays.update({name: arrays[name].astype(kind)})


def cut(name, end):
    return lambda arrays: arrays.update({name: arrays[name][:end]})


def twice(arrays):
    fibre = np.flatnonzero(np.diff(arrays["starts1"]) > 1)[0]
    at = arrays["starts1"][fibre]
    arrays["rows2"][at + 1] = arrays["rows2"][at]


HOSTILE = {
    "a root row beyond its axis": (put("rows0", -1, 0xFF), "rows0 has rows from 40 on"),
    "a row beyond its axis": (put("rows2", 7, 0xFF), "rows2 has rows from 12 on"),
    "rows out of order": (lambda arrays: put("rows0", 1, arrays["rows0"][0])(arrays), "rows0 is not sorted"),
    "a cell twice": (twice, "rows2 is not sorted"),
    "the top bit of a start": (put("starts0", 1, 1 << 31), "starts0 does not lead"),
    "a start before the one before": (put("starts1", 3, 0), "starts1 does not lead"),
    "a first start": (put("starts0", 0, 1), "starts0 does not lead"),
    "a last start": (put("starts1", -1, 1 << 31), "starts1 does not lead"),
    "no number": (put("entries", 5, np.nan), "not finite"),
    "infinity": (put("entries", 5, np.inf), "not finite"),
    "less than nothing": (put("entries", 5, -1.0), "not finite"),
    "a weight that is no number": (put("weights", 5, np.nan), "not finite"),
    "other rows": (cast_to("rows1", np.uint32), "types of its arrays"),
    "other starts": (cast_to("starts1", np.uint64), "types of its arrays"),
    "other entries": (cast_to("entries", np.float32), "types of its arrays"),
    "few weights": (cut("weights", 5), "number of entries"),
    "few entries": (cut("entries", 5), "number of entries"),
    "few starts": (cut("starts1", 5), "lengths of its arrays"),
    "no weights": (lambda arrays: arrays.pop("weights"), "weights"),
    "no starts": (lambda arrays: arrays.pop("starts0"), "starts0"),
}  # fmt: skip


@pytest.mark.parametrize("way", HOSTILE)
def test_hostile_arrays_are_refused(folder, way):
    change, words = HOSTILE[way]
    rewrite(folder, change)
    with pytest.raises(
        plait.errors.StorageError, match=rf"000001\.safetensors: this file of the blocks is damaged: .*{words}"
    ):
        fit(folder)


def test_every_way_of_reading_checks_blocks(folder):
    rewrite(folder, put("starts0", 1, 1 << 31))
    blocks = Packed.open(folder).relations["v"].blocks
    table = PackedTable(blocks, blocks.types[-1])
    cells = np.stack(np.unravel_index(np.arange(40 * 5 * 12), blocks.sizes), axis=1)
    ways = [
        lambda: blocks[1], lambda: list(blocks), lambda: list(blocks.stream(buffers=len(blocks))),
        lambda: list(table.trees()), lambda: [piece.done() for piece in pickle.loads(pickle.dumps(table)).walk()],
        lambda: blocks.find(cells),
    ]  # fmt: skip
    for way in ways:
        with pytest.raises(plait.errors.StorageError, match="starts0 does not lead"):
            way()


def test_values_are_those_of_the_likelihood(tmp_path):
    rows = pl.DataFrame({"i": [0, 1, 2], "j": [0, 1, 0], "k": [1, 1, 0]})
    plait.pack(MODEL, {"v": plait.Relation(rows, likelihood="bernoulli")}, tmp_path / "v.blocks")
    rewrite(tmp_path / "v.blocks", put("entries", 1, 7), lambda manifest: relation_of(manifest)["blocks"][0])
    with pytest.raises(plait.errors.StorageError, match="invalid values for bernoulli"):
        fit(tmp_path / "v.blocks")


def set_in(manifest, value, *keys):
    *above, last = keys
    for key in above:
        manifest = manifest[key]
    manifest[last] = value


V = ("relations", "v")
MANIFESTS = {
    "no relations": (V[:1], [], "relations cannot be"),
    "blocks by name": ((*V, "blocks"), {}, "relations.v.blocks cannot be"),
    "no sizes": ((*V, "blocks", 0, "bytes"), "many", r"relations.v.blocks\[0\].bytes cannot be"),
    "a path outside": ((*V, "blocks", 0, "file"), "../secret", "not the name of a file in this folder"),
    "an absolute path": ((*V, "totals", "file"), "/etc/passwd", "not the name of a file in this folder"),
    "labels elsewhere": (("labels", "i", "file"), "a/../b", "not the name of a file in this folder"),
    "a token": (("token",), "../victim", "token cannot be"),
    "another model": (("model",), "v[i, j] = A[i, r] B[j, r]", "damaged"),
    "no model": (("model",), "v[i, j = A", "damaged"),
    "another shape": ((*V, "shape"), [40, 5, 13], "it has 12 names, not the 13 of k"),
    "another order": ((*V, "order"), ["i", "j", "j"], "the order of v"),
    "types": ((*V, "types", "rows"), ["uint8"], "the order of v"),
    "objects": ((*V, "types", "entries"), "object", "types.entries cannot be"),
    "more entries": ((*V, "entries"), 7, "number of entries"),
    "few sums": ((*V, "sums"), [1.0], "sums of v"),
    "root rows": ((*V, "blocks", 0, "first"), 39, "out of order"),
    "last root rows": ((*V, "blocks", -1, "last"), 40, "more root rows"),
    "inside": ((*V, "blocks", 0, "inside"), True, "out of order"),
    "no likelihood": ((*V, "likelihood", "name"), "odd", r"manifest\.json.*is unknown"),
    "a likelihood of a word": ((*V, "likelihood", "shape"), "odd", r"manifest\.json.*has missing or wrong"),
    "missing over nothing": ((*V, "missing"), [["x"]], "other indices"),
    "a weight": ((*V, "options", "weight"), -1, "options.weight cannot be"),
}  # fmt: skip


@pytest.mark.parametrize("way", MANIFESTS)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_hostile_manifests_are_refused(folder, way, version):
    keys, value, words = MANIFESTS[way]
    reseal(folder, lambda manifest: set_in(manifest, value, *keys), version=version)
    with pytest.raises(plait.errors.StorageError, match=words):
        fit(folder)


@pytest.mark.parametrize("version", [1, 2])
def test_a_manifest_of_an_earlier_version_is_read(folder, sound, version):
    reseal(folder, lambda manifest: None, version=version)
    assert fit(folder).objective == fit(sound).objective


def test_blocks_of_version_2_bind_and_fit_as_they_did():
    """Packed with `observed=0.5`, `universe="model"` by the version before."""
    model, blocks = "visits[user, place] = U[user, r] P[place, r]", Path(__file__).parent / "version-2"
    packed = Packed.open(blocks)
    assert (json.loads((blocks / "manifest.json").read_text())["version"], packed.manifest["version"]) == (2, 2)
    visits = plait.Model(model).bind(packed).relations["visits"]
    assert (visits.shape, len(visits.links), visits.observed_cells) == ((12, 9), 45, 108)
    assert (visits.rule.unseen, visits.self_links, visits.dropped_self_links) == ("zero", "", 0)
    assert visits.weights.total() == 45 + 0.5 * 63
    found = plait.fit(model, blocks, rank=2, seed=0, max_iter=5, progress=False)
    assert found.objective == pytest.approx(-182.59290942549129, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "at", "value", "words"),
    [
        ("missing/0", 0, 40, "missing/0 has invalid rows"),
        ("missing/0", slice(2, 4), [3, 0], "missing/0 is not sorted"),
        ("value/i", 3, np.nan, "the sums of i"),
        ("weight/k", 3, -1.0, "the sums of k"),
        ("seen/j", 0, 7, "seen/j"),
    ],
)
def test_hostile_totals_are_refused(folder, name, at, value, words):
    rewrite(folder, put(name, at, value), lambda manifest: relation_of(manifest)["totals"])
    with pytest.raises(plait.errors.StorageError, match=rf"totals\.safetensors.*{words}"):
        fit(folder)


def test_links_out_of_the_folder_are_not_followed(folder):
    for pattern in ("*-000001.safetensors", "*-totals.safetensors", "*.parquet", "manifest.json"):
        (path,) = list(folder.glob(pattern))[:1]
        elsewhere = path.rename(folder.parent / path.name)
        path.symlink_to(elsewhere)
        with pytest.raises(plait.errors.StorageError, match=f"{path.name}: the file is a symbolic link"):
            fit(folder)
        path.unlink()
        elsewhere.rename(path)
    fit(folder)


def test_no_pack_removes_what_a_manifest_names_elsewhere(folder):
    victim = folder.parent / "victim-spill"
    victim.mkdir()
    reseal(folder, lambda manifest: manifest.update(token="../victim"))
    with pytest.raises(plait.errors.StorageError, match="token cannot be"):
        plait.pack(MODEL, {"v": pl.DataFrame({"i": [0], "j": [0], "k": [1]})}, folder)
    assert victim.exists()


def test_flipped_bits_give_the_same_fit_or_an_error(folder, sound):
    rng, found = np.random.default_rng(7), []
    bound, paths = fit(sound).objective, sorted(folder.iterdir())
    manifest = folder / "manifest.json"
    for n in range(60):
        path = manifest if n % 3 == 0 else paths[rng.integers(len(paths))]
        content = path.read_bytes()
        bit = int(rng.integers(8 * len(content)))
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            found.append(fit(folder).objective)
        except plait.errors.StorageError as error:
            assert str(folder) in str(error)  # noqa: PT017
        path.write_bytes(content)
    assert set(found) <= {bound}
    assert fit(folder).objective == bound


# --- the blocks of a run


def rows(seed):
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, (30, 4, 9), (200, 3)), axis=0)
    return {"v": pl.DataFrame(dict(zip("ijk", cells.T)))}


def test_a_run_refuses_other_blocks_under_the_name_of_its_own(tmp_path):
    place = tmp_path / "v.blocks"
    own = plait.pack(MODEL, rows(0), place).relations["v"].fingerprint
    found = fit(place)
    found.save(tmp_path / "run")
    assert plait.load(tmp_path / "run").objective == found.objective
    shutil.copytree(place, tmp_path / "kept")
    other = plait.pack(MODEL, rows(1), place).relations["v"].fingerprint
    with pytest.raises(plait.errors.StorageError, match=rf"blocks in .*{other}, expected {own}"):
        plait.load(tmp_path / "run")
    moved = shutil.copytree(tmp_path / "run", tmp_path / "there" / "run")
    shutil.copytree(tmp_path / "kept", tmp_path / "there" / "v.blocks")
    cell = {"i": [0], "j": [0], "k": [1]}
    assert plait.load(moved).predict("v", cell).equals(found.predict("v", cell))


def test_runs_without_the_fingerprint_of_their_blocks_load(tmp_path):
    plait.pack(MODEL, rows(0), tmp_path / "v.blocks")
    fit(tmp_path / "v.blocks").save(tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    header = json.loads(path.read_text())
    header.pop("checksum", None)
    del header["relations"]["v"]["blocks_sha256"]
    Path(path).write_bytes(dumps(header))
    plait.load(tmp_path / "run")


@pytest.mark.parametrize(
    "write",
    [
        lambda path: pl.DataFrame({"j": ["x"] * 5}).write_parquet(path),
        lambda path: pl.DataFrame({"j": range(100_000)}).write_parquet(path),
        lambda path: path.write_bytes(path.read_bytes()[:40] + b"\xff" * 40 + path.read_bytes()[80:]),
    ],
    ids=["a name twice", "many names", "no table"],
)
def test_hostile_names_are_refused(folder, write):
    def enter(manifest):
        entry = manifest["labels"]["j"]
        write(folder / entry["file"])
        sign(folder / entry["file"], entry)

    reseal(folder, enter)
    with pytest.raises(plait.errors.StorageError, match="damaged"):
        fit(folder)


def test_a_size_that_no_memory_holds_is_compared_first(folder):
    reseal(folder, lambda manifest: relation_of(manifest)["totals"].update(bytes=1 << 62))
    with pytest.raises(plait.errors.StorageError, match="bytes, not 4,611"):
        fit(folder)


def test_blocks_of_a_relation_that_weighs_nothing_are_fitted(tmp_path):
    table = pl.DataFrame({"i": [0, 1], "j": [1, 0]})
    data = {"x": plait.Relation(table, weight=0.0), "y": table}
    text = "x[i, j] = A[i, r] B[j, r]\ny[i, j] = A[i, r] C[j, r]"
    plait.pack(text, data, tmp_path / "x.blocks")
    how = {"rank": 1, "seed": 0, "max_iter": 2, "progress": False}
    assert plait.fit(text, tmp_path / "x.blocks", **how).objective == plait.fit(text, data, **how).objective
