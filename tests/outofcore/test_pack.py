"""Packed blocks are bitwise identical to the leaves of the same data in memory."""

import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import plait
from plait.codegen.plan import tree_order
from plait.data.binding.bind import bind
from plait.data.encoding import hash_lookup
from plait.data.outofcore.block_table import CellsOnDisk
from plait.data.outofcore.packed import Packed
from plait.data.sparse.csf import grow, narrow
from plait.data.sparse.leaves import packed_order
from tests.support.tuning import tuned

CP = "v[i, j, k] = A[i, r] B[j, r] C[k, r]"
ORDERS = {1: "v[i] = A[i, r]", 2: "v[i, j] = A[i, r] B[j, r]", 3: CP}


@pytest.fixture(autouse=True, scope="module")
def narrowed():
    """Store small trees in the narrow types of blocks."""
    with tuned(min_narrow_entries=0):
        yield


def bind_in_memory(model, data, entities=None):
    return bind(plait.Model(model), data, entities, warn=False)


def leaves_in_memory(relation):
    """The tree of a bound relation, and cells and entries of each leaf."""
    sizes = dict(zip(relation.indices, relation.shape))
    order = packed_order(relation.indices, sizes)
    tree = grow(relation.indices, sizes, relation.links.fibres, narrow(relation.values), order)
    cells, found, at = tree.cells(np.arange(len(tree))), [], 0
    for leaf in tree.leaves:
        end = at + tree.length(leaf)
        found.append((cells[at:end], tree.entries[at:end], leaf.inside is not None))
        at = end
    assert at == len(tree)
    return tree, found


def agree(packed, bound):
    """Assert that blocks are the leaves in memory, with the same sums and flags."""
    tree, leaves = leaves_in_memory(bound)
    assert len(packed.blocks) == len(leaves)
    for block, said, (cells, entries, inside) in zip(packed.blocks, packed.blocks.files, leaves):
        assert (block.order, block.sizes, said["inside"]) == (tree.order, tree.sizes, inside)
        assert block.types == packed.blocks.types == tree.types
        np.testing.assert_array_equal(block.cells(np.arange(len(block))), cells)
        np.testing.assert_array_equal(block.entries, entries)
    assert (packed.shape, packed.links) == (bound.shape, len(bound.links))
    assert packed.observed_cells == bound.observed_cells
    dropped = packed.dropped_self_links, bound.dropped_self_links
    assert (packed.summed, packed.self_links, dropped[0]) == (bound.summed, bound.self_links, dropped[1])
    for index in packed.indices:
        np.testing.assert_array_equal(packed.seen[index], bound.seen[index])
        column = bound.links.fibres.column(index)
        size = bound.shape[bound.indices.index(index)]
        total = np.bincount(column, bound.values * bound.cell_weights, size)
        np.testing.assert_allclose(packed.marginals[index][0], total, rtol=1e-12)
    weight = np.sum(bound.cell_weights)
    sums = bound.likelihood.sums(bound.values, np.array(bound.cell_weights))
    np.testing.assert_allclose(packed.sums, sums, rtol=1e-12)
    assert packed.sums.weight == pytest.approx(weight)


def packs_like_memory(tmp_path, model, data, memory="1MB", entities=None, exact=True):
    found = plait.pack(model, data, tmp_path / "x.blocks", memory=memory, entities=entities)
    bound = bind_in_memory(model, data, entities=entities)
    for name, relation in bound.relations.items():
        if exact:
            agree(found.relations[name], relation)
    for axis, names in found.entities.items():
        assert names == bound.entities[axis]
    assert found.model == str(bound.model)
    found.verify()
    return found


def table(seed, n, sizes, values=6):
    rng = np.random.default_rng(seed)
    cells = {name: rng.integers(0, size, n) for name, size in zip("ijk", sizes)}
    return pl.DataFrame({**cells, "value": rng.integers(1, values, n)}).unique(list(cells), maintain_order=True)


@given(st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_is_that_of_the_plan(data):
    sizes = data.draw(st.dictionaries(st.sampled_from("ijkl"), st.integers(1, 9), min_size=1))
    indices = tuple(data.draw(st.permutations(sorted(sizes))))
    assert packed_order(indices, sizes) == tree_order(indices, sizes)


@given(st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_small_tables(tmp_path_factory, data):
    order = data.draw(st.integers(1, 3))
    rows = data.draw(st.lists(st.tuples(*[st.integers(-3, 4)] * order), min_size=1, max_size=25))
    values = data.draw(st.lists(st.sampled_from([1.0, 2.0, 0.5, 1e-9, 300.0, 2.0**40]), min_size=25, max_size=25))
    columns = {name: [row[k] for row in rows] for k, name in enumerate("ijk"[:order])}
    relation = plait.Relation(pl.DataFrame({**columns, "value": values[: len(rows)]}), duplicates="sum")
    packs_like_memory(tmp_path_factory.mktemp("blocks"), ORDERS[order], {"v": relation})


@pytest.mark.parametrize("memory", ["1MB", "20MB", "4GB"])
@pytest.mark.parametrize("sizes", [(3000, 7, 50), (5, 40, 4000)])
def test_larger_tables_in_any_memory(tmp_path, memory, sizes):
    found = packs_like_memory(tmp_path, CP, {"v": table(0, 60_000, sizes)}, memory)
    assert len(found.relations["v"].blocks) > 1


@pytest.mark.parametrize("memory", ["1MB", "1GB"])
def test_a_giant_root_row_is_several_blocks(tmp_path, memory):
    rng = np.random.default_rng(1)
    giant = np.stack(np.unravel_index(np.sort(rng.permutation(27_000)[:26_000]), (30, 30, 30)), axis=1)
    cells = np.concatenate(
        [np.c_[rng.integers(0, 100, 24_000), rng.integers(0, 30, (24_000, 3))], np.c_[np.full(26_000, 7), giant]]
    )
    many = pl.DataFrame(dict(zip("hijk", cells.T))).unique(maintain_order=True)
    found = packs_like_memory(tmp_path, "v[h, i, j, k] = A[h, r] B[i, r] C[j, r] D[k, r]", {"v": many}, memory)
    inside = [entry for entry in found.relations["v"].blocks.files if entry["inside"]]
    assert len(inside) > 1
    assert {entry["first"] for entry in inside} == {7}


def named(name):
    """Rows with labels of k that a function of numbers makes."""
    rows = table(3, 5000, (300, 7, 50))
    return rows.with_columns(k=pl.Series(name(rows["k"].to_list()))).unique(["i", "j", "k"], maintain_order=True)


def friends(loops):
    ends = pl.DataFrame(np.random.default_rng(7).integers(0, 60, (900, 2)), schema=["user", "friend"])
    return ends.filter(loops | (pl.col("user") != pl.col("friend"))).unique(maintain_order=True)


def unsigned():
    rows = table(12, 5000, (300, 7, 50)).cast({"k": pl.UInt64})
    last = pl.DataFrame({"i": [1, 2], "j": [1, 1], "k": [2**64 - 1, 2**63], "value": [1, 1]}, schema=rows.schema)
    return pl.concat([rows, last])


DIRECTED = "v[user, friend] = U[user, r] F[friend, r]\nfriend: user"
UNDIRECTED = "v[user, friend] = U[user, r] U[friend, r]\nfriend: user"
MISSING = [pl.DataFrame({"i": [3, 4]}), pl.DataFrame({"j": [1, 1], "k": [2, 3]})]
TABLES = {
    "text": (CP, lambda: named(lambda ks: [f"name {k}" for k in ks])),
    "dates": (CP, lambda: named(lambda ks: [datetime.date(2020, 1, 1) + datetime.timedelta(k) for k in ks])),
    "large integers": (CP, lambda: named(lambda ks: np.asarray(ks) * 10**15)),
    "integers beyond 63 bits": (CP, unsigned),
    "booleans": (CP, lambda: named(lambda ks: [k % 2 == 0 for k in ks])),
    "one row": (CP, lambda: pl.DataFrame({"i": ["x y"], "j": ["é"], "k": [3]})),
    "directed": (DIRECTED, lambda: friends(loops=False)),
    "directed, self-links": (DIRECTED, lambda: friends(loops=True)),
    "undirected": (UNDIRECTED, lambda: friends(loops=False)),
    "undirected, self-links": (UNDIRECTED, lambda: friends(loops=True)),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_any_kind(tmp_path, name):
    model, make = TABLES[name]
    packs_like_memory(tmp_path / "with spaces", model, {"v": make()})


def test_an_empty_table_needs_declared_labels(tmp_path):
    rows = pl.DataFrame({"i": [], "j": []}, schema={"i": pl.Int64, "j": pl.Int64})
    labels = {"i": [1, 2], "j": [3, 4]}
    found = packs_like_memory(tmp_path, ORDERS[2], {"v": plait.Relation(rows, unseen="zero")}, entities=labels)
    assert len(found.relations["v"].blocks) == 0
    with pytest.raises(plait.errors.DataError, match="axis i has no entities"):
        plait.pack(ORDERS[2], {"v": rows}, tmp_path / "x")


@pytest.mark.parametrize("options", [
    {"observed": "listed"}, {"observed": 0.25}, {"weight": 3.0}, {"unseen": "zero"}, {"likelihood": "negbin"},
    {"weight": 0.0}, {"likelihood": "bernoulli", "value": "one", "ignore_columns": ["value"]},
])  # fmt: skip
def test_options_of_relations(tmp_path, options):
    rows = table(4, 3000, (200, 7, 50)).with_columns(one=pl.lit(1))
    given = {"value": "value", "ignore_columns": ["one"]} | options
    found = packs_like_memory(tmp_path, CP, {"v": plait.Relation(rows, **given)}, exact=options != {"weight": 0.0})
    assert found.relations["v"].options["observed"] == options.get("observed", "all")


def test_listed_zeros_are_entries_but_no_links(tmp_path):
    rows = pl.DataFrame({"i": [0, 0, 1], "j": [0, 1, 1], "value": [0, 2, 3]})
    found = plait.pack(ORDERS[2], {"v": plait.Relation(rows, observed="listed")}, tmp_path / "x").relations["v"]
    assert (found.entries, found.links, found.zeros, found.observed_cells) == (3, 2, 1, 3)
    np.testing.assert_array_equal(found.blocks[0].entries, [0, 2, 3])


def test_weights_of_cells(tmp_path):
    rows = table(5, 2000, (100, 7, 50)).with_columns(w=pl.int_range(pl.len()) % 3 / 2)
    relation = plait.Relation(rows, weight="w")
    found = plait.pack(CP, {"v": relation}, tmp_path / "x", memory="1MB").relations["v"]
    bound = bind_in_memory(CP, {"v": relation}).relations["v"]
    assert (found.links, found.observed_cells) == (len(bound.links), bound.observed_cells)
    np.testing.assert_allclose(found.sums, bound.likelihood.sums(bound.values, bound.cell_weights))
    cells = np.concatenate([tree.cells(np.arange(len(tree))) for tree in found.blocks])
    own = np.concatenate([tree.side_values[0] for tree in found.blocks])
    values = np.concatenate([tree.entries for tree in found.blocks])
    turned = cells[:, [found.order.index(index) for index in found.indices]][(own > 0) & (values > 0)]
    some = turned[np.lexsort(turned.T[::-1])]
    np.testing.assert_array_equal(some, bound.cells)


def test_hidden_and_missing_tables(tmp_path):
    rows = table(6, 3000, (200, 7, 50))
    relation = plait.Relation(rows, missing=MISSING, hidden=rows[:20].select("i", "j", "k"))
    found = packs_like_memory(tmp_path, CP, {"v": relation})
    assert set(found.relations["v"].missing) == {("i",), ("j", "k")}
    assert len(found.relations["v"].hidden["i", "j", "k"]) == 20


def test_coupled_relations_share_names(tmp_path):
    model = "v[i, j, k] = A[i, r] B[j, r] C[k, r]\nw[i, m] = A[i, r] D[m, r]"
    rows = table(8, 3000, (200, 7, 50))
    other = pl.DataFrame({"i": [1, 500, 700], "m": ["x", "y", "x"]})
    packs_like_memory(tmp_path, model, {"v": rows, "w": other})


def test_files_and_tables_give_the_same_blocks(tmp_path):
    rows = table(9, 20_000, (2000, 7, 50))
    rows.write_parquet(tmp_path / "t.parquet", row_group_size=3000)
    rows.write_csv(tmp_path / "t.csv")
    rows[:7000].write_csv(tmp_path / "part1.csv")
    rows[7000:].write_csv(tmp_path / "part2.csv")
    prints = {
        plait.pack(CP, {"v": source}, tmp_path / "x.blocks", memory=memory).fingerprint
        for source in (rows, *(plait.scan(tmp_path / name) for name in ("t.parquet", "t.csv", "part*.csv")))
        for memory in ("1MB", "1GB")
    }
    assert len(prints) == 1
    assert Packed.open(tmp_path / "x.blocks").fingerprint in prints


def test_a_column_of_text_that_turns_out_wider(tmp_path):
    rows = [f"{n % 20_000},{n // 20_000},1" for n in range(40_000)] + ["007,3,2", "x,1,1"]
    (tmp_path / "t.csv").write_text("\n".join(["i,j,value", *rows]))
    found = plait.pack(ORDERS[2], {"v": plait.scan(tmp_path / "t.csv")}, tmp_path / "x", memory="3MB")
    assert found.entities["i"] == bind_in_memory(ORDERS[2], {"v": plait.read(tmp_path / "t.csv")}).entities["i"]


def test_a_scan_is_a_table_to_a_fit(tmp_path):
    rows = table(10, 300, (20, 7, 5))
    rows.write_csv(tmp_path / "t.csv")
    scan = plait.scan(tmp_path / "t.csv")
    ours, theirs = (plait.fit(CP, {"v": one}, rank=2, max_iter=2, seed=0).objective for one in (scan, rows))
    assert ours == theirs
    assert "columns 'i', 'j', 'k', 'value'" in str(scan)


def test_labels_with_the_same_hash_are_distinguished(tmp_path, monkeypatch):
    rows = table(11, 60_000, (3000, 7, 500)).with_columns(pl.format("name {}", "k").alias("k"))
    monkeypatch.setattr(hash_lookup, "hash_of", lambda labels: np.asarray(labels.str.len_bytes(), np.uint64))
    packs_like_memory(tmp_path, CP, {"v": rows}, "2MB")


@pytest.mark.parametrize("step", [1, 2], ids=["counted as rows are", "with gaps"])
@pytest.mark.parametrize("least", [-3, 0, 7])
def test_consecutive_integers_as_labels(tmp_path, step, least):
    cells = np.random.default_rng(0).permutation(600)[:400]
    table = pl.DataFrame({"i": least + step * (cells // 20), "j": cells % 20, "value": 1 + cells % 5})
    packed = plait.pack("v[i, j] = A[i, r] B[j, r]", {"v": table}, tmp_path / "x.blocks")
    assert list(packed.entities["i"].names) == sorted(set(table["i"]))
    found, values, _ = CellsOnDisk(packed.relations["v"]).read()
    names = [sorted(set(table[index])) for index in "ij"]
    cells = {(names[0][i], names[1][j]): x for (i, j), x in zip(found.tolist(), values.tolist())}
    assert cells == {(i, j): x for i, j, x in table.rows()}
