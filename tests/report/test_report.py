"""A report has the numbers of the library, warnings first, and the lines that make it again."""

import sys
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

pytest.importorskip("jinja2", reason="the page needs jinja2")
pytest.importorskip("vl_convert", reason="pictures need vl-convert-python")

import plait
from plait.analysis.components.core_pairs import core_pairs
from plait.fitting.options import Options
from plait.rendering import text
from plait.rendering.document import Cards, Section, Share, Table, Warn
from plait.report import reproduce, sections
from plait.report.report_data import ReportData
from plait.report.report_file import describe_whole
from plait.report.sections import run_warnings
from tests.support.report_run import MODEL, fitted, report, split, tables

ALIKE = {"rank": 2, "seed": 0, "threads": 1, "progress": False}


@pytest.fixture(scope="module")
def document():
    return describe_whole(ReportData(fitted()))


def section(document, name):
    return next(one for one in document.every(Section) if one.name == name)


def bare(value):
    value = getattr(value, "value", value)  # of what is faded
    return value.fraction if isinstance(value, Share) else value


def said(fit, **more):
    return [warning.text for warning in run_warnings(ReportData(fit, **more))]


@pytest.mark.parametrize(("place", "relation"), [(0, "visits"), (1, "friends")])
def test_predicted_links_are_those_of_top_with_their_reason(document, place, relation):
    table, *rest = section(document, f"links-{place}").blocks
    indices = fitted().model.equation(relation).indices
    found = fitted().top(relation, 50)
    rows = [*table.rows, *(row for details in rest for block in details.blocks for row in block.rows)]
    assert [tuple(row[:2]) for row in rows] == found.select(indices).rows()
    assert [row[2].value for row in rows] == found["probability"].to_list()
    assert len(table.rows) == min(10, len(found))
    for row, of in zip(found.to_dicts(), table.rows):
        e = fitted().explain(relation, {index: row[index] for index in indices})
        assert of[-1].blocks == e.describe().blocks
        assert of[-1].summary.startswith(e.links["link"][0] if len(e.links) else "There")
        ends = (row["lower"], row["upper"]) if relation == "friends" else (None, None)
        assert (of[2].lower, of[2].upper) == ends


def test_components_are_those_of_the_fit_by_share(document):
    (cards,) = [block for block in section(document, "components").blocks if isinstance(block, Cards)]
    whole = fitted().components(top=None)
    shares = ["share_visits", "share_friends"]
    order = whole.unique("component").sort(pl.mean_horizontal(shares), descending=True)["component"].to_list()
    names = dict(whole.select("component", "name").rows())
    assert [card.title for card in cards.sections] == [f"Component {number}: {names[number]}" for number in order]
    for card, number in zip(cards.sections, order):
        own = whole.filter(pl.col("component") == number)
        for table in card.blocks[1:]:
            axis, _, factor = table.columns[0].removesuffix(")").partition(" (")
            told = own.filter((pl.col("axis") == axis) & pl.col("factor").is_in([factor] if factor else list("UPF")))
            weights = {
                entity: (weight, lift) for entity, weight, lift in told.select("entity", "weight", "lift").rows()
            }
            assert [bare(bare(row[1])) for row in table.rows] == [weights[bare(row[0])][0] for row in table.rows]
            scores = [weight * lift if lift and lift > 1 else 0.0 for weight, lift in weights.values()]
            best = sorted(filter(None, scores), reverse=True)[: len(table.rows)]
            np.testing.assert_allclose([np.prod(weights[bare(row[0])]) for row in table.rows][: len(best)], best)


def test_the_first_screen_says_what_and_how_well():
    metrics = plait.evaluate(fitted(), "visits", split().test)
    summary = section(describe_whole(ReportData(fitted(), metrics=metrics)), "summary")
    said, tiles = summary.blocks[0].text, summary.blocks[1].tiles
    assert f"{len(fitted().known['visits'])} links of visits (8 users × 5 places)" in said
    assert f"average precision {metrics['average_precision']:.2f}" in said
    assert f"popularity alone {metrics.baseline['average_precision']:.2f}" in said
    assert tiles[0].value == f"{metrics['average_precision']:.3f}"
    assert len(tiles) <= 4
    (best,) = [one for one in summary.blocks[-2].sections if one.title.startswith("Best")]
    top = fitted().top("visits", 10)
    assert [row[1].value for row in best.blocks[0].rows] == top["probability"].to_list()


def test_a_test_of_links_says_that_non_links_are_sampled():
    links = split().test.filter(pl.col("value") > 0)
    metrics = plait.evaluate(fitted(), "visits", links)
    summary = section(describe_whole(ReportData(fitted(), metrics=metrics)), "summary")
    found = f"average precision {metrics['average_precision_uniform']:.2f}"
    assert f"{metrics.links} held-out links of visits and as many sampled non-links: {found}" in summary.blocks[0].text
    assert summary.blocks[1].tiles[0].note.endswith(", sampled non-links")


def test_a_model_with_a_core_has_cards_of_pairs():
    fit = plait.fit("likes[user, place] = A[user, p] G[p, q] B[place, q]", {"likes": tables()["visits"]},
                    rank={"p": 2, "q": 3}, seed=0, threads=1, max_iter=5, warmup=0, progress=False)  # fmt: skip
    A, G, B = (fit.factors[name].mean for name in "AGB")
    mass = np.einsum("up,pq,vq->pq", A, G, B)
    (cards,) = [block for block in sections.cards(ReportData(fit)) if isinstance(block, Cards)]
    order = np.argsort(-mass, axis=None)
    expected = [np.unravel_index(at, mass.shape) for at in order if mass.flat[at] >= 0.005 * mass.sum()]
    assert [card.title.split(":")[0] for card in cards.sections] == [f"p {p}, q {q}" for p, q in expected]
    for pair, (p, q) in zip(core_pairs(fit, "likes", 6), expected):
        assert pair.share == pytest.approx(mass[p, q] / mass.sum())


def test_surprises_are_those_of_the_fit(document):
    found = fitted().surprising("visits", 5)
    for one, kind in zip(section(document, "surprises-0").blocks, ("link", "zero"), strict=True):
        own = found.filter(pl.col("kind") == kind).select("user", "place", "probability", "value")
        columns = 4 if kind == "link" else 3  # the value of a zero says nothing
        assert [(*row[:2], row[2].value, *row[3:]) for row in one.blocks[0].rows] == [
            row[:columns] for row in own.rows()
        ]


def test_a_test_is_shown_next_to_popularity(tmp_path):
    metrics = plait.evaluate(fitted(), "visits", split().test)
    quality = section(describe_whole(ReportData(fitted(), metrics=metrics, test="test.csv")), "quality")
    assert "(test.csv)" in quality.blocks[0].text
    table = next(block for block in quality.blocks[-1].blocks if isinstance(block, Table))
    assert {row[0]: row[1] for row in table.rows}["roc_auc"] == f"{metrics['roc_auc']:.4f}"
    assert {row[0]: row[3] for row in table.rows}["roc_auc"] == f"{metrics.baseline['roc_auc']:.4f}"


def test_without_a_test_its_lines_make_one(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = section(document, "quality").blocks[1].text
    made = {"data": tables(), "model": MODEL}
    exec(lines, made)
    assert made["split"].links > 0
    assert " test links, " in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_run_with_a_test_is_reproduced_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    metrics = plait.evaluate(fitted(), "visits", split().test)
    lines = reproduce.fitting(ReportData(fitted(), metrics=metrics)).splitlines()
    assert lines[-1] == "fit.report(\"report.html\", test=test, relation='visits')"


def test_a_config_in_a_folder_is_named_from_here(tmp_path, monkeypatch):
    config = {"path": str(tmp_path / "split" / "train.toml"), "text": "", "changes": {}}
    report_data = ReportData(fitted(), run="split/run", header={"extra": {"config": config}})
    monkeypatch.chdir(tmp_path)
    assert reproduce.fitting(report_data).splitlines()[0] == "plait fit split/train.toml -o split/run"
    assert "train-test-split split/train.toml -o split-2 " in reproduce.testing(report_data)  # keeps split/train.toml
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")  # folders above are private
    assert reproduce.fitting(report_data).splitlines()[0] == "plait fit train.toml -o split/run"


def test_large_data_have_fewer_explanations(tuning):
    tuning(many_entities=10)
    report_data = ReportData(fitted())
    assert sections.explained(report_data) == 10
    tuning(explained_of_many=4)
    assert sections.explained(report_data) == sections.MIN_EXPLAINED
    table = sections.predicted_links(report_data)[0].sections[0].blocks[0]
    assert len(table.details) == sections.MIN_EXPLAINED < len(table.rows)


def test_components_beyond_the_cards_are_listed(tuning):
    tuning(report_cards=1)
    _, cards, rest, _ = sections.cards(ReportData(fitted()))
    assert len(cards.sections) == 1
    assert {row[1] for row in rest.blocks[0].rows} == {0, 1}


@pytest.mark.thorough
def test_two_reports_of_one_run_are_the_same_bytes(tmp_path):
    fitted().save(tmp_path / "run")
    first = report(tmp_path / "first.html").read_bytes()
    plait.load(tmp_path / "run").report(tmp_path / "second.html", test=split().test, relation="visits")
    assert first == (tmp_path / "second.html").read_bytes()
    third, fourth = (report(tmp_path / name, interactive=True).read_bytes() for name in ("third", "fourth"))
    assert third == fourth != first


def test_a_file_is_replaced_on_request_only(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(plait.errors.StorageError, match=r"report.html: the file already exists.*\n.*replace=True"):
        fitted().report(path)
    assert path.read_text() == "mine"
    fitted().report(path, replace=True)
    assert path.read_text().startswith("<!doctype html>")
    with pytest.raises(plait.errors.StorageError, match="folder"):
        fitted().report(tmp_path)


def test_a_test_names_its_relation_where_there_are_several(tmp_path):
    with pytest.raises(plait.errors.ParameterError, match=r"the relation of the test is missing.*\n.*visits, friends"):
        fitted().report(tmp_path / "report.html", test=split().test)
    with pytest.raises(plait.errors.ParameterError, match="is given without `test`"):
        fitted().report(tmp_path / "report.html", relation="visits")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["jinja2", "vl_convert"])
def test_a_missing_package_is_named_with_the_extra(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(plait.PlaitError, match=rf"needs {package}.*\n.*tensorplait\[report\]"):
        fitted().report(tmp_path / "report.html")


@pytest.mark.thorough
def test_a_fit_that_is_well_has_no_warnings():
    fit = plait.fit(MODEL, tables(), **ALIKE, max_iter=3000, tol=1e-7)
    assert fit.stop.reason == "converged"
    assert said(fit) == []
    assert "There are no warnings" in text.render(describe_whole(ReportData(fit)))


def test_warnings_come_first(document):
    summary = section(document, "summary")
    assert isinstance(summary.blocks[2], Warn)
    assert summary.blocks[2].text.startswith("not converged: stopped after 60 sweeps")


def test_the_default_number_of_sweeps_is_no_reason_to_warn():
    fit = fitted()
    assert fit.stop.reason == "max_iter"
    assert [words[:13] for words in said(fit)] == ["not converged"]
    default = replace(fit, settings=fit.settings | {"max_iter": Options.max_iter})
    assert said(default) == []


def test_unused_components_are_warned_of():
    visits = pl.DataFrame(
        {"user": [f"u{n % 6}" for n in range(24)], "place": [f"p{n % 4}" for n in range(24)]}
    ).unique()
    fit = plait.fit("visits[user, place] = U[user, r] P[place, r]", {"visits": visits}, **(ALIKE | {"rank": 8}),
                    max_iter=400, adapt_prior="component")  # fmt: skip
    small = fit.coupling().filter(pl.col("share") < 0.001)
    assert len(small) > 0
    (found,) = [words for words in said(fit) if words.startswith("unused")]
    assert found.startswith(f"unused components: {len(small)} of 8 components of r explain less than 0.1 %")
    chosen = replace(fit, settings=fit.settings | {"rank_by": {"way": "rule"}})
    assert not any(words.startswith("unused") for words in said(chosen))  # Plait chose the rank


def test_coupling_without_shared_names_is_warned_of():
    data = tables()
    friends = pl.DataFrame({"user": ["z1", "z2", "z3", "z1"], "friend": ["z2", "z3", "z1", "z3"]})
    data["friends"] = plait.Relation(friends, likelihood="bernoulli")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.errors.DisjointEntitiesWarning)
        fit = plait.fit(MODEL, data, **ALIKE, max_iter=2)
    (found,) = [words for words in said(fit) if "no name in common" in words]
    assert found.startswith("axis user: visits has no name in common with friends")


def test_a_saved_run_below_the_baseline_is_warned_of(tmp_path):
    model, data = "visits[user, place] = U[user, r] P[place, r]", noise()
    with pytest.warns(plait.errors.BelowBaselineWarning) as caught:
        fit = plait.fit(
            model, {"visits": data}, rank=20, adapt_prior=None, seed=0, threads=1, max_iter=120, progress=False
        )
    fit.save(tmp_path / "run")
    (found,) = [words for words in said(plait.load(tmp_path / "run")) if "without latent indices" in words]
    assert found == str(caught[0].message).replace("\n", " ")
    assert "(popularity alone)" in text.render(describe_whole(ReportData(fit)))
    again = pl.DataFrame({"user": [0, 1], "place": [1, 0]})
    learnt = fit.update({"visits": again})
    assert not any("without latent indices" in words for words in said(learnt))  # its bound is another


def noise():
    """Links without any structure."""
    cells = [(u, p) for u in range(40) for p in range(30) if (u * 7919 + p * 104729) % 11 == 0]
    return pl.DataFrame({"user": [u for u, _ in cells], "place": [p for _, p in cells]})


def test_a_test_of_known_links_is_warned_of(tmp_path):
    known = tables()["visits"].head(5)
    fit = plait.fit(MODEL, tables(), **ALIKE, max_iter=2)
    fit.report(tmp_path / "report.html", test=known, relation="visits")
    page = (tmp_path / "report.html").read_text()
    assert "the test leaks: visits: " in page
    assert page.index("the test leaks") < page.index('id="links"')


@pytest.mark.parametrize(
    "settings",
    [
        {"rank": 2, "seed": 3, "max_iter": 20},
        {"rank": 2, "seed": 0, "max_iter": 9, "adapt_prior": None, "warmup": 0, "accelerate": True, "tol": 0.0},
        {
            "rank": {"r": 2},
            "seed": 1,
            "max_iter": 5,
            "adapt_prior": {"U": "component"},
            "restarts": 2,
            "combine": "best",
        },
        {"rank": 2, "seed": 0, "max_iter": 5, "method": "em"},
    ],
)
def test_the_lines_that_make_a_run_again_do(tmp_path, monkeypatch, settings):
    monkeypatch.chdir(tmp_path)
    fit = plait.fit(MODEL, tables(), progress=False, **settings)
    lines = reproduce.fitting(ReportData(fit))
    assert lines.endswith('fit.report("report.html")')
    made = {"data": tables()}
    exec(lines.removesuffix('fit.report("report.html")'), made)
    assert made["fit"].objective == fit.objective
    assert made["fit"].settings == fit.settings
    assert plait.load("run").objective == fit.objective


def test_titles_are_shown_next_to_names():
    fit = fitted().with_titles({"place": {"cafe": "Café <Müller>"}})
    found = describe_whole(ReportData(fit))
    rows = [row for table in found.every(Table) for row in table.rows]
    assert any('cafe "Café <Müller>"' in map(bare, row) for row in rows)
