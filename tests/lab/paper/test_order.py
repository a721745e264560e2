"""Model order: the same hidden cells for all, baselines as published, and VB stays where EM falls."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lab.paper import acts, order
from lab.paper.experiment import Lab
from lab.paper.report.order import figures, tables

DATA = Path(__file__).parents[4] / "shared" / "data"
QUICK, FULL = Lab(True, None, Path()), Lab(False, None, Path())
needs_uclaf = pytest.mark.skipif(not (DATA / "uclaf").exists(), reason="the UCLAF file is not in ../shared/data")


def cell(part, method, adapt="none", rank=0, missing=0.6, run=0):
    return {"part": part, "method": method, "adapt": adapt, "rank": rank, "missing": missing, "run": run}


@pytest.mark.parametrize("lab", [QUICK, FULL])
def test_cells_are_all_different(lab):
    cells = order.cells(lab)
    assert len({tuple(one.items()) for one in cells}) == len(cells)


def test_the_papers_two_ranks_have_all_runs_and_every_rank_some():
    curve = pl.DataFrame(order.cells(FULL)).filter(pl.col("part") == "curve", pl.col("method") == "GCTF-EM")
    runs = dict(curve.filter(pl.col("missing") == 0.8).group_by("rank").len().rows())
    assert runs == dict.fromkeys(order.RANKS, order.FEWER_RUNS) | {2: order.RUNS, 20: order.RUNS}


def test_every_method_is_fitted_to_its_relations_and_tested_by_the_same_cells(monkeypatch):
    seen = {}

    def tested(fit, test):
        seen[tuple(fit.model.relations)] = test
        return {}

    monkeypatch.setattr(order, "of_fit", tested)
    for method in ("PLTF-EM", "GCTF-EM"):
        order.measure(QUICK, cell("curve", method, rank=2, run=3))
    (single, first), (coupled, second) = seen.items()
    assert single == ("acts",)
    assert coupled == ("acts", "visits", "features")
    assert first.equals(second)


@needs_uclaf
@pytest.mark.parametrize(("name", "auc"), [("visited", 0.958), ("visited × activity", 0.970)])
def test_what_visits_alone_tell_on_uclaf(name, auc):
    lab = Lab(False, DATA, Path())
    found = [order.measure(lab, cell("baseline", name, run=run))["auc"] for run in range(3)]
    assert sum(found) / len(found) == pytest.approx(auc, abs=0.003)


@pytest.mark.parametrize(("name", "more"), [("popularity", 0), ("popularity + 1", 1)])
def test_popularity_is_the_product_of_known_links_and_sees_no_hidden_one(name, more):
    data = order.load(QUICK)
    _, test = acts.hidden(data, 0.6, 1)
    known = data.links.join(test, on=["user", "place", "activity"], how="anti")
    expected = np.ones(len(test))
    for index in ("user", "place", "activity"):
        expected *= [more + (known[index] == entity).sum() for entity in test[index]]
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(acts.baseline(data, name, test), expected)


@needs_uclaf
def test_vb_stays_where_em_falls():
    lab = Lab(False, DATA, Path())

    def auc(method, adapt, rank):
        return order.measure(lab, cell("curve", method, adapt, rank, missing=0.8))["auc"]

    em, vb = (
        [auc(f"PLTF-{method}", adapt, rank) for rank in (2, 20)]
        for method, adapt in (("EM", "none"), ("VB", "component"))
    )
    assert em[1] < em[0] - 0.03
    assert vb[1] > vb[0] - 0.01
    assert min(vb) > max(em)


@pytest.mark.parametrize("part", ["prune", "drop"])
def test_a_rank_is_found_no_larger_than_the_start(part):
    found = order.measure(QUICK, cell(part, "GCTF-VB", "component", rank=4))
    assert 1 <= found["found"] <= 4
    assert 0.5 < found["auc"] <= 1


def test_light_sides_are_another_fit():
    light, full = (order.measure(QUICK, cell(part, "GCTF-EM", rank=2)) for part in ("light", "curve"))
    assert light["auc"] != full["auc"]


def curve(figures_by_rank, method="PLTF-VB", adapt="component"):
    return pl.DataFrame(
        [
            cell("curve", method, adapt, rank) | {"auc": auc, "ap": 0.3, "bound": bound, "found": rank, "seconds": 1.0}
            for rank, (auc, bound) in figures_by_rank.items()
        ]
    )


def test_the_rank_is_chosen_by_the_bound_and_never_by_the_test_cells():
    table = tables(curve({2: (0.90, -50.0), 3: (0.91, -40.0), 20: (0.99, -60.0)}))[1]
    rows = {tuple(row[:3]): row[4] for row in table.rows}
    assert rows["PLTF-VB", "component", "bound"] == "3.0: 0.910 (0.300)"
    assert rows["PLTF-VB", "component", "best"] == "20.0: 0.990 (0.300)"


def test_a_run_without_all_ranks_has_no_choice():
    whole = curve({2: (0.90, -50.0), 3: (0.91, -40.0)})
    part = curve({2: (0.50, -50.0)}).with_columns(run=pl.lit(1, pl.Int64))
    table = tables(pl.concat([whole, part]))[1]
    assert table.rows[0][4] == "3.0: 0.910 (0.300)"


def test_ends_are_two_and_twenty_and_absent_figures_a_dash():
    first = tables(curve({2: (0.90, -50.0), 20: (0.91, -40.0)}))[0]
    assert first.headings[3:5] == ["60 %, R = 2", "60 %, R = 20"]
    row = next(row for row in first.rows if row[0] == "PLTF-VB, component")
    assert row[1:] == ["–", "–", "0.900 (0.300)", "0.910 (0.300)", "–", "–"]


def test_one_finished_rank_does_not_make_both_ends():
    one = curve({2: (0.9, -5.0)}, "PLTF-EM", "none").with_columns(part=pl.lit("long"))
    assert tables(one)[0].headings[1:3] == ["40 %, R = 2", "40 %, R = 20"]


@pytest.mark.parametrize("some", [pl.DataFrame(), curve({2: (0.9, -5.0)}), curve({2: (0.9, -5.0)}, "GCTF-EM", "none")])
def test_partial_records_are_shown_as_far_as_they_go(some):
    assert len(tables(some)) == 3
    assert set(figures(some)) == {"order-auc", "order-ap", "order-bound"}


def test_notes_say_what_was_measured():
    ends = pl.DataFrame(
        [cell(part, "PLTF-EM", rank=2) | {"auc": 0.9, "sweeps": n} for part, n in (("curve", 20), ("long", 60))]
    )
    assert "many more sweeps (60 at most, not 20)" in tables(ends)[0].note
    assert "many more sweeps. VB" in tables(ends[:1])[0].note
    pruned = curve({4: (0.9, -5.0)}).with_columns(part=pl.lit("prune"))
    note = tables(pl.concat([curve({2: (0.9, -5.0), 6: (0.9, -5.0)}), pruned]))[1].note
    assert "of the ranks 2, 6 that" in note
    assert "from 4 components" in note
