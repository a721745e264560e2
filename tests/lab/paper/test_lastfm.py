"""The Last.fm experiment: its shares are shares, its choice never sees the test, and its claims hold."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import plait
from lab.harness.results import read
from lab.paper import lastfm
from lab.paper.corrupted import corrupted
from lab.paper.experiment import Lab
from lab.paper.report.lastfm import ARTIST, figures, tables
from plait.evaluation.baselines import popularity

DATA = Path(__file__).parents[4] / "shared" / "data"
QUICK = Lab(True, None, Path())
FULL = Lab(False, None, Path())
RESULTS = Path(__file__).parents[3] / "docs" / "paper" / "results" / "lastfm.jsonl"


@pytest.fixture(scope="module")
def data():
    return lastfm.load(QUICK)


@pytest.mark.parametrize("elsewhere", [1.0, 0.1])
def test_the_rate_of_all_artists_is_the_sum_of_their_rates(data, elsewhere):
    fixed = {"V": plait.Exposure(lastfm.played(data), default=elsewhere)} if elsewhere < 1 else None
    model = lastfm.EXPOSED if fixed else lastfm.SINGLE
    fit = plait.fit(model, {"tags": data.tags}, rank=3, fixed=fixed, seed=0, sweeps=5, progress=False)
    cells = data.tags.head(7)
    found = lastfm.rate_of_all_artists(fit, data, cells, elsewhere)
    every = cells.drop("artist").with_row_index().join(data.tags.select("artist").unique(), how="cross")
    rates = every.with_columns(mean=pl.Series(fit.predict("tags", every.drop("index"))["mean"]))
    expected = rates.group_by("index").agg(pl.col("mean").sum()).sort("index")["mean"].to_numpy()
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_artists_nobody_tagged_have_no_part_in_the_shares(data):
    cell = lastfm.case("GCTF-VB", 0.6, 0, rank=3)
    train, _, _ = lastfm.hidden(data, cell)
    more = pl.concat([data.plays, pl.DataFrame({"user": [data.plays["user"][0]], "artist": [10**6]})])
    plays = lastfm.sides(data) | {"plays": plait.Relation(more)}
    model = lastfm.SINGLE + lastfm.SIDES
    fit = plait.fit(model, {"tags": train} | plays, rank=3, seed=0, sweeps=3, progress=False)
    cells = data.tags.head(1)
    tagged = cells.drop("artist").join(data.tags.select("artist").unique(), how="cross")
    expected = fit.predict("tags", tagged.select(cells.columns))["mean"].sum()
    assert 10**6 in fit.labels["artist"]
    assert lastfm.rate_of_all_artists(fit, data, cells, 1.0)[0] == pytest.approx(expected)


def test_corrupted_links_are_no_links_and_differ_in_the_artist_alone(data):
    test = data.tags.sample(2000, seed=0).with_columns(value=pl.lit(1.0))
    links, others = corrupted(data.tags, test, "artist", np.random.default_rng(0))
    assert links.drop("artist").equals(others.drop("artist"))
    assert (links["artist"] != others["artist"]).all()
    assert others.join(data.tags, on=data.tags.columns, how="semi").is_empty()
    assert set(others["artist"]) <= set(data.tags["artist"])
    assert 1900 < len(others) < 2000  # a few draws are links


def test_settings_are_chosen_without_a_look_at_the_test(data):
    trial, final = (lastfm.case("PLTF-VB", 0.6, 3, part=part) for part in ("choice", "test"))
    (_, valid, links), (_, test, _) = lastfm.hidden(data, trial), lastfm.hidden(data, final)
    train, _, _ = lastfm.hidden(data, trial)
    known = plait.Model(lastfm.SINGLE).bind({"tags": train})
    indices = ["user", "artist", "tag"]
    assert valid.join(test, on=indices, how="semi").is_empty()
    assert links.join(test, on=indices, how="semi").is_empty()
    assert len(links) + len(test) == len(data.tags)
    assert len(known.relations["tags"].cells) == len(links) - len(valid)


def test_popularity_is_the_product_of_the_link_counts(data):
    train, test, _ = lastfm.hidden(data, lastfm.case("popularity", 0.6, 0))
    fit = plait.fit(lastfm.SINGLE, {"tags": train}, rank=1, method="em", seed=0, progress=False)
    counts = popularity(fit, "tags", test)
    rate = fit.predict("tags", test)["mean"].to_numpy()
    assert ((counts == 0) == (rate == 0)).all()
    ratio = rate[counts > 0] / counts[counts > 0]
    # Known links weigh 1 and all other cells 0.4, so it differs a little from plain products.
    assert ratio.std() < 0.1 * ratio.mean()


def test_the_share_by_popularity_is_that_of_the_artist_also_for_unknown_users_and_tags(data):
    train, test, _ = lastfm.hidden(data, lastfm.case("popularity", 0.9, 0))
    fit = plait.fit(lastfm.SINGLE, {"tags": train}, rank=1, method="em", seed=0, progress=False)
    rate = fit.predict("tags", test)["mean"].to_numpy()
    counts = np.bincount(fit.known["tags"].cells[:, 1], minlength=len(fit.labels["artist"]))
    expected = counts[fit.labels["artist"].encode(test["artist"])] / counts.sum()
    share = lastfm.shares(fit, data, test, rate, 1.0)
    assert ((rate == 0) & (share > 0)).any()
    np.testing.assert_allclose(share, expected, rtol=0.1)


def test_vb_beats_em_and_the_share_beats_the_rate():
    found = {m: lastfm.measure(QUICK, lastfm.case(m, 0.8, 0, rank=5)) for m in ("PLTF-EM", "PLTF-VB", "GCTF-VB")}
    assert found["PLTF-VB"]["auc_uniform"] > found["PLTF-EM"]["auc_uniform"] + 0.03
    assert found["GCTF-VB"]["auc_uniform"] > found["PLTF-EM"]["auc_uniform"] + 0.03
    for method in ("PLTF-VB", "GCTF-VB"):
        assert found[method]["auc_share"] > found[method]["auc_corrupt_artist"] + 0.05
        assert found[method]["auc_share"] > found["PLTF-EM"]["auc_share"]


@pytest.mark.skipif(not (DATA / "lastfm").is_dir(), reason="the Last.fm data are not here")
def test_on_real_links_vb_finds_the_artist_where_popularity_and_em_do_not():
    lab = Lab(True, DATA, Path())
    methods = ("popularity", "PLTF-EM", "GCTF-EM", "PLTF-VB", "GCTF-VB, from EM", "GCTF-VB, exposed")
    share = {method: lastfm.measure(lab, lastfm.case(method, 0.8, 0, rank=5))["auc_share"] for method in methods}
    assert share["PLTF-VB"] > max(share["popularity"], share["PLTF-EM"]) + 0.01
    for method in ("GCTF-VB, from EM", "GCTF-VB, exposed"):
        assert share[method] > max(share["popularity"], share["GCTF-EM"]) + 0.01


def test_nothing_tells_one_artist_without_known_links_from_another(data):
    train, test, links = lastfm.hidden(data, lastfm.case("PLTF-VB", 0.9, 0))
    fit = plait.fit(lastfm.SINGLE, {"tags": train}, rank=3, seed=0, sweeps=5, progress=False)
    pair = corrupted(links, test, "artist", np.random.default_rng(0))
    known = fit.known["tags"].cells[:, 1]
    cold = np.all([~np.isin(fit.labels["artist"].encode(side["artist"]), known) for side in pair], axis=0)
    ours, theirs = (fit.predict("tags", side)["mean"].to_numpy()[cold] for side in pair)
    assert len(ours) > 100
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_every_cell_is_there_once_and_quick_has_every_model():
    cells = lastfm.cells(FULL)
    assert len({tuple(sorted(cell.items())) for cell in cells}) == len(cells)
    assert {cell["method"] for cell in lastfm.cells(QUICK)} == set(lastfm.MODELS)
    assert (lastfm.RANK, lastfm.ELSEWHERE) in {(c["rank"], c["elsewhere"]) for c in cells if c["part"] == "choice"}


@pytest.fixture(scope="module")
def full():
    """The full run that the documentation shows."""
    if not RESULTS.exists():
        pytest.skip("the results of the full run are not here")
    return read(RESULTS).records(lastfm.cells(FULL))


def test_rank_and_exposure_are_those_that_the_choice_finds_best(full):
    def best(method):
        return full.filter(part="choice", method=method).sort("auc_uniform", descending=True).row(0, named=True)

    tried = full.filter(part="choice")
    assert set(tried.filter(method="GCTF-VB")["rank"]) == set(lastfm.RANKS)
    assert set(tried.filter(method="GCTF-VB, exposed")["elsewhere"]) == set(lastfm.ELSEWHERES)
    assert best("GCTF-VB")["rank"] == lastfm.RANK
    assert best("GCTF-VB, exposed")["elsewhere"] == lastfm.ELSEWHERE


def test_what_is_said_of_starts_from_em_is_what_the_full_run_found(full):
    tests = full.filter(part="test")
    mean = {
        (method, missing): (bound, share)
        for method, missing, bound, share in tests.group_by("method", "missing")
        .agg(pl.col("bound").mean(), pl.col("auc_share").mean())
        .iter_rows()
    }
    for missing in lastfm.MISSING:
        bound, share = zip(*(mean[m, missing] for m in ("GCTF-VB", "GCTF-VB, from EM", "GCTF-EM")))
        assert bound[0] < bound[1]
        assert share[0] < share[2] < share[1]
        assert mean["PLTF-VB", missing][0] < mean["PLTF-VB, from EM", missing][0]


def test_by_the_rate_the_popularity_of_the_artist_stands_beside_the_methods(full):
    shown = tables(full)[1]
    rows = {row[0]: list(row[1:]) for row in shown.rows}
    by_share = {row[0]: list(row[1:]) for row in tables(full)[2].rows}
    assert rows[ARTIST] == by_share["popularity"] != rows["popularity"]
    assert f"By the AUC of the rate no VB beats the {ARTIST}." in shown.note
    assert f"By the average precision of the rate VB beats the {ARTIST} at 60 % (" in shown.note
    assert "By the AUC of the rate no VB beats GCTF-EM." in shown.note
    assert "By the average precision of the rate no VB beats GCTF-EM." in shown.note


def test_the_note_names_the_vb_that_are_above_the_popularity_of_the_artist():
    vb = records({"auc_corrupt_artist": 0.7, "ap_corrupt_artist": 0.4})
    baseline = records({}).with_columns(method=pl.lit("popularity"))
    note = tables(pl.concat([vb, baseline]))[1].note
    assert f"By the AUC of the rate VB beats the {ARTIST} at 80 % (PLTF-VB)." in note
    assert f"By the average precision of the rate no VB beats the {ARTIST}." in note
    assert "GCTF-EM" not in note
    for alone in (vb, baseline):
        assert "beats" not in tables(alone)[1].note


def records(*figures_):
    whole = {f"{measure}_{way}": 0.5 for measure in ("auc", "ap") for way in ("uniform", "corrupt_artist", "share")}
    return pl.DataFrame([dict(lastfm.case("PLTF-VB", 0.8, run)) | whole | own for run, own in enumerate(figures_)])


def test_the_tables_show_what_was_measured_and_dashes_elsewhere():
    shown = tables(records({"auc_uniform": 0.9}, {"auc_uniform": 0.8}))[0]
    row = dict(zip(shown.headings, next(row for row in shown.rows if row[0] == "PLTF-VB")))
    assert row["80 % missing"] == "0.850 ± 0.071 (0.500)"
    assert row["60 % missing"] == "–"


@pytest.mark.parametrize("found", [pl.DataFrame(), records({}), records({}).drop("ap_share")])
def test_a_report_of_a_run_that_was_broken_off(found):
    assert all(len(row) == len(table.headings) for table in tables(found) for row in table.rows)
    assert list(figures(found)) == ["lastfm-links"]


def test_the_plot_has_a_line_for_each_method_that_was_measured():
    axes = figures(records({}, {}))["lastfm-links"].axes
    assert len(axes) == 6
    assert all([text.get_label() for text in panel.containers] == ["PLTF-VB"] for panel in axes)


def test_the_popularity_of_the_artist_is_a_line_by_the_rate_alone():
    found = records({"auc_share": 0.7, "ap_share": 0.6}).with_columns(method=pl.lit("popularity"))
    drawn = figures(found)["lastfm-links"]
    lines = [{line.get_label(): line[0].get_ydata()[0] for line in panel.containers} for panel in drawn.axes]
    assert [line.get(ARTIST) for line in lines] == [None, 0.7, None, None, 0.6, None]
    assert ARTIST in {text.get_text() for text in drawn.legends[0].get_texts()}
