"""Numbers in charts equal the answers of the library."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import plait
from plait.analysis.components.entity_shares import profile
from plait.inference.state import Record
from plait.plotting.objective_charts import MAX_POINTS, rise
from tests.support.chart_data import HOSTILE, LONG, MODEL, NAMES, tables, values
from tests.support.oracle import sd_of_shares


def test_the_objective_is_that_of_the_history(fit):
    drawn = values(fit.plot.objective().to_dict(), "member", "sweep", "objective")
    own = [(sweep, value) for member, sweep, value in drawn if member == "fit"]
    of_sweep = {record.sweep: record.objective for record in fit.history}
    assert all(of_sweep[sweep] == value for sweep, value in own)
    assert own[-1] == (fit.history[-1].sweep, fit.objective)
    assert {member for member, _, _ in drawn} == {"fit", "member 1", "member 2"}
    assert min(sweep for _, sweep, _ in drawn) >= 0  # no warm-up


def of_history(fit, bounds):
    records = [Record(n, float(bound), 0.0, 0.1, {"r": 3}) for n, bound in enumerate(bounds)]
    return replace(fit, history=records, ensemble=(), settings=fit.settings | {"bootstrap": False})


def test_terrible_first_steps_are_left_out(fit):
    found = rise(of_history(fit, [-1e9, -1e6, -5e4, *(-1000 - 500 * 0.9**n for n in range(97))]))
    assert found.first == 3
    jump = rise(of_history(fit, [*(-9000 + n for n in range(30)), *(-1000 - 500 * 0.9**n for n in range(70))]))
    assert jump.first == 30
    whole = rise(of_history(fit, [-1000 - 500 * 0.98**n for n in range(100)]))
    assert whole.first == 0


def test_a_long_fit_has_few_points_with_both_ends(fit):
    found = rise(of_history(fit, [-1000 - 500 / (1 + n) for n in range(20_000)]))
    assert len(found.shown) == MAX_POINTS
    assert found.shown[-1] == (19_999, -1000 - 500 / 20_000)


def test_cards_have_the_rows_of_components(fit):
    facts = fit.components(top=5)
    drawn = values(fit.plot.components(2, top=5).to_dict(), "full", "weight", "sd", "data")
    own = facts.filter(pl.col("component") == 2).select("entity", "weight", "sd", "data").rows()
    assert drawn == own


def test_cards_are_sorted_by_share_without_empty_components(fit):
    facts = fit.components(top=2)
    shares = facts.select(pl.sum_horizontal("share_X", "share_Y"))["share_X"]
    order = facts.with_columns(shares.alias("sum")).sort("sum", descending=True, maintain_order=True)
    kept = order.filter(pl.max_horizontal("share_X", "share_Y") >= 0.001)
    drawn = values(fit.plot.components(top=2).to_dict(), "full", "weight")
    assert drawn == kept.select("entity", "weight").rows()


def test_the_heat_map_has_the_shares_of_the_coupling(fit):
    facts = {(row["component"], row["relation"]): row for row in fit.coupling().to_dicts()}
    drawn = values(fit.plot.coupling().to_dict(), "component", "relation", "share", "kind", "text")
    assert len(drawn) >= 2
    for component, relation, share, kind, text in drawn:
        assert share == facts[component, relation]["share"]
        assert kind == facts[component, relation]["kind"]
        assert text == "·" or float(text.removesuffix(" %")) == pytest.approx(100 * share, abs=0.5)


@pytest.mark.parametrize("name", [HOSTILE, LONG, "i3"])
def test_a_profile_is_the_share_of_expected_counts(fit, name):
    A, B, C = (fit.factors[factor].mean for factor in "ABC")
    row = NAMES.index(name)
    rest = B.sum(axis=0) + C.sum(axis=0)
    share = A[row] * rest / (A[row] @ rest)
    sd = sd_of_shares(A[row] * rest, (fit.factors["A"].sd[row] * rest) ** 2)
    rows = values(fit.plot.entity("i", name).to_dict(), "name", "weight", "sd")
    drawn = {int(name.split(":")[0].removeprefix("component ")): numbers for name, *numbers in rows}
    for component in np.flatnonzero(share >= 0.005):
        np.testing.assert_allclose(drawn[int(component)], (share[component], sd[component]), rtol=1e-7)
    assert list(drawn) == sorted(drawn, key=lambda one: -drawn[one][0])


def test_a_neighbourhood_has_similar_entities_and_known_and_predicted_links(fit, split):
    drawn = values(fit.plot.neighbourhood("i", "i3", k=6).to_dict(), "name", "value", "kind")
    alike = [(name, value) for name, value, kind in drawn if kind == "similar"]
    assert alike == fit.similar("i", "i3", 6).select("i", "similarity").rows()
    hidden = set(split.test.select("i", "j").rows())
    known = set(tables()["X"].select("i", "j").rows()) - hidden
    links = [(name, value, kind) for name, value, kind in drawn if kind != "similar" and name.startswith("j")]
    assert {kind for _, _, kind in links} == {"known link", "predicted link"}
    asked = fit.predict("X", {"i": ["i3"] * len(links), "j": [name for name, _, _ in links]})
    np.testing.assert_allclose([value for _, value, _ in links], asked["probability"], rtol=1e-9)
    for name, _, kind in links:
        assert (("i3", name) in known) == (kind == "known link")
    best = fit.top("X", 3, given={"i": "i3"}, score="probability")["j"].to_list()
    assert [name for name, _, kind in links if kind == "predicted link"] == best


def test_curves_have_the_points_of_the_metrics_and_their_errors(metrics):
    for chart, facts, x, y in [
        (metrics.plot.roc(), metrics.roc, "false_positive_rate", "true_positive_rate"),
        (metrics.plot.precision_recall(), metrics.precision_recall, "recall", "precision"),
        (metrics.plot.calibration(), metrics.calibration, "predicted", "observed"),
    ]:
        rows = values(chart.to_dict(), "series", x, y, "error", "under", "over")
        own = list(dict.fromkeys(row for row in rows if row[0].startswith("model")))
        points = list(dict.fromkeys(facts.select(x, y, "error").rows()))
        assert [row[1:4] for row in own] == points
        for _, _, height, error, under, over in own:
            assert under == max(height - error, 0.0)
            assert over == min(height + error, 1.0)


@pytest.mark.thorough
def test_curves_compare_with_popularity_by_default(metrics):
    def names(chart):
        return list(dict.fromkeys(name.partition(":")[0] for (name,) in values(chart.to_dict(), "series")))

    assert names(metrics.plot.roc()) == ["model", "popularity"]
    assert names(metrics.plot.roc({})) == ["model"]
    assert names(metrics.plot.roc(metrics)) == ["model", "other"]
    assert names(metrics.plot.precision_recall({"again": metrics})) == ["model", "again"]
    assert names(metrics.plot.calibration()) == ["model"]
    area = f"popularity: area {metrics.baseline['roc_auc']:.3f}"
    assert any(name.startswith(area) for (name,) in values(metrics.plot.roc().to_dict(), "series"))


def test_tried_ranks_are_drawn():
    fit = plait.fit(MODEL, tables(), rank="elbo", seed=0, max_iter=30)
    drawn = values(fit.plot.rank().to_dict(), "rank", "score", "chosen")
    assert [(int(rank), score) for rank, score, _ in drawn] == [tuple(one) for one in fit.settings["rank_by"]["tried"]]
    assert [int(rank) for rank, _, chosen in drawn if chosen] in ([], [fit.rank["r"]])


def test_a_choice_draws_its_ranks_with_their_errors():
    choice = plait.grid_search(MODEL, tables(), rank=[1, 2], seed=0, max_iter=20, relation="X")
    drawn = {rank: rest for rank, *rest in values(choice.plot.rank().to_dict(), "rank", "score", "error", "chosen")}
    for row in choice.rows:
        chosen = row["rank"] == choice.best["rank"]
        assert drawn[str(row["rank"])] == [row["log_likelihood"], row["log_likelihood_se"], chosen]


def test_titles_are_shown_and_names_stay_in_the_data(fit):
    titles = pl.DataFrame({"j": ["j0", "j1", "j2"], "title": ["Same", "Same", "Other"]})
    named = fit.with_titles({"j": titles})
    drawn = values(named.plot.components(0, top=15).to_dict(), "name", "full")
    assert {("Same", "Same (j0)"), ("Same", "Same (j1)"), ("Other", "Other (j2)"), ("j3", "j3")} <= set(drawn)
    links = values(named.plot.neighbourhood("i", "i3", k=30).to_dict(), "name", "kind")
    assert ("Other", "predicted link") in links or ("Other", "known link") in links


def test_a_profile_of_two_latent_indices_adds_up_to_one_in_each():
    core = plait.fit(
        "X[i,j] = A[i,p,q] G[p,q] B[j,q]", {"X": tables()["X"]}, rank={"p": 2, "q": 3}, seed=0, max_iter=20
    )
    table = profile(core, "i", "i3")
    A, G, B = (core.factors[factor].mean for factor in "AGB")
    held = A[list(core.entities["i"]).index("i3")] * G * B.sum(axis=0)
    for index, axis in (("p", 1), ("q", 0)):
        own = table.filter(pl.col("index") == index)["share"].to_numpy()
        np.testing.assert_allclose(own, held.sum(axis=axis) / held.sum(), rtol=1e-9)


def test_an_undirected_relation_has_one_list_with_links_of_both_writings():
    pairs = [("a", "m"), ("b", "m"), ("m", "y"), ("m", "z"), ("a", "b"), ("y", "z"), ("c", "a"), ("c", "b")]
    data = pl.DataFrame(pairs, schema=["p", "q"], orient="row")
    fit = plait.fit("F[p,q] = U[p,r] U[q,r]\nq: p", {"F": data}, rank=2, seed=0, max_iter=20)
    chart = fit.plot.neighbourhood("p", "m", k=20).to_dict()
    assert [one["title"]["text"] for one in chart["concat"]] == ["Most similar", "F"]
    drawn = values(chart, "name", "kind")
    assert {name for name, kind in drawn if kind == "known link"} == {"a", "b", "y", "z"}
    assert {name for name, kind in drawn if kind == "predicted link"} == {"c"}
