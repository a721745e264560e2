"""What pages show is what the library says."""

import csv
import html
import io
import re

import numpy as np
import polars as pl
import pytest

import plait
from plait.analysis.explain.explanation_text import drop
from plait.rendering.formatting import percent
from tests.support.explore_run import HARD, make_run, serving, tables
from tests.support.oracle import sd_of_shares


def test_home_has_every_relation_and_axis_with_its_size(served):
    text, told = served.get("/").text, served.get("/index.json").json()
    assert told["axes"] == {"user": len(HARD), "place": 7}
    assert told["objective"] == served.site.fit.objective
    for words in ('href="/relation/visits"', 'href="/relation/friends"', 'href="/axis/place"', f"{len(HARD)}</td>"):
        assert words in text


def test_home_asks_questions_and_leads_to_answers(served):
    fit, page = served.site.fit, served.get("/").text
    asked = page[page.index(">Ask</h2>") : page.index(">Relations</h2>")]
    best = fit.top("visits", 1).row(0)
    row = [labels.row(name) for labels, name in zip((fit.entities["user"], fit.entities["place"]), best)]
    assert f'href="{html.escape(served.site.names.cell_address("visits", row))}"' in asked
    links = [html.unescape(link) for link in re.findall('href="(.*?)"', asked)]
    assert {"/surprises", "/map/user", "/map/place", "#quality"} < set(links)
    assert [served.get(link.replace("#", "/#")).status_code for link in links] == [200] * len(links)
    assert 'id="quality"' in page
    assert "No test was given" in page


def test_a_test_is_shown_on_the_first_page(run):
    fit = plait.load(run)
    new = fit.top("visits", 30).select("user", "place").with_columns(value=pl.Series([1, 0, 0] * 10))
    metrics = plait.evaluate(fit, "visits", new, progress=False)
    with serving(run, measure=lambda fit: {"metrics": metrics, "test": "test.csv"}) as own:
        page = own.get("/").text
        assert f"average precision {metrics['average_precision']:.2f}" in page
        assert "Precision and recall" in page
        assert "No test was given" not in page


def test_a_cell_says_how_sure_it_is(served):
    told = served.get("/relation/visits/cell.json?user=x+y&place=4").json()["prediction"]
    page = served.get("/relation/visits/cell?user=x+y&place=4").text
    assert f"A link has probability {percent(told['probability'])}" in html.unescape(page)
    assert f"is {told['lower']:g} to {told['upper']:g}." in page


def test_the_profile_of_an_entity_is_that_of_the_factors(served):
    fit, name = served.site.fit, "x y"
    told = pl.DataFrame(served.get("/axis/user/x%20y.json").json()["components"])
    row = fit.entities["user"].row(name)
    own = told.filter(pl.col("factor") == "U").sort("component")
    rest = fit.factors["P"].mean.sum(axis=0) + fit.factors["F"].mean.sum(axis=0)  # of both terms that have U
    held = fit.factors["U"].mean[row] * rest
    np.testing.assert_allclose(own["share"], held / held.sum(), rtol=1e-9)
    np.testing.assert_allclose(own["sd"], sd_of_shares(held, (fit.factors["U"].sd[row] * rest) ** 2), rtol=1e-7)


def test_a_page_of_an_entity_equals_the_library(served):
    fit, name = served.site.fit, "x y"
    told = served.get("/axis/user/x%20y.json").json()
    top = fit.top("visits", 10, given={"user": name})
    assert told["predicted"]["visits[user]"] == top.to_dicts()
    assert told["similar"] == fit.similar("user", name, 10).to_dicts()
    listed = tables()["visits"].filter(pl.col("user") == name).sort("place")
    known = pl.DataFrame(told["known"]["visits[user]"]["links"]).sort("place")
    assert known["place"].to_list() == listed["place"].to_list()
    assert known["value"].to_list() == listed["plays"].cast(float).to_list()
    text = served.get("/axis/user/x%20y").text
    for place, probability in top.select("place", "probability").rows():
        e = fit.explain("visits", {"user": name, "place": place}, top=1)
        why = html.escape(f"{drop(e.reasons[0].loss)}</a>", quote=False).replace("&lt;", "<").replace("&gt;", ">")
        assert re.search(rf">{place}</a></td>.*?{percent(probability)}</span>.*?{re.escape(why)}", text), place


def test_maps_are_those_of_the_library(served):
    fit, name = served.site.fit, "x y"
    one, whole = (served.get(f"/map/user{more}.json").json() for more in ("/x%20y", ""))
    points = {size: [row["name"] for row in chart["datasets"]["table0"] if row["size"] == size]
              for chart in (one["chart"],) for size in (160, 45)}  # fmt: skip
    assert points[160] == [name]
    assert points[45][:10] == fit.similar("user", name, 10)["user"].to_list()
    assert {row["size"] for row in whole["chart"]["datasets"]["table0"]} == {45}
    assert len(whole["chart"]["datasets"]["table0"]) == len(HARD)
    assert served.get("/map/user?name=x+y").text.count("<svg role") == 1


def test_htmx_gets_the_map_alone(served):
    whole = served.get("/map/place/1")
    part = served.get("/map/place/1", headers={"HX-Request": "true"})
    assert part.text.startswith("<figure")
    assert re.findall("<svg.*?</svg>", part.text, re.S) == re.findall('<svg role="img".*?</svg>', whole.text, re.S)
    assert 'href="/axis/place/1"' in whole.text


def test_the_page_of_a_cell_is_its_explanation(served):
    fit, cell = served.site.fit, {"user": "x y", "place": 4}
    told = served.get("/relation/visits/cell.json?user=x+y&place=4").json()
    e = fit.explain("visits", cell, top=10)
    assert told["prediction"] == e.prediction
    assert [link["responsibility"] for link in told["links"]] == [link.responsibility for link in e.reasons]
    predicted = fit.predict("visits", {"user": ["x y"], "place": [4]})
    assert told["prediction"]["mean"] == predicted["mean"][0]
    assert f"{predicted['mean'][0]:,.4g}</td>" in served.get("/relation/visits/cell?user=x+y&place=4").text


def test_a_component_is_that_of_components_and_coupling(served):
    fit = served.site.fit
    told = served.get("/component/1.json").json()
    whole = fit.components(top=None)
    own = whole.filter(pl.col("component") == 1).to_dicts()
    assert len(told["entities"]) > 5
    assert all(row in own for row in told["entities"])
    assert all(row["lift"] > 1 for row in told["entities"])
    assert told["relations"] == fit.coupling().filter(pl.col("component") == 1).to_dicts()
    page = served.get("/component/1").text
    assert f"Component 1: {html.escape(told['entities'][0]['name'])}" in page
    listed = served.get("/components.json").json()
    assert {row["component"] for row in listed} == {0, 1}
    assert all(row in whole.to_dicts() for row in listed)


def test_surprises_are_those_of_the_fit(served):
    fit = served.site.fit
    told = served.get("/surprises.json").json()
    assert told == {name: fit.surprising(name, 20).to_dicts() for name in ("visits", "friends")}
    assert list(served.get("/surprises.json?relation=friends").json()) == ["friends"]


def test_all_pages_of_a_relation_together_are_its_links(served):
    table, found, start = tables()["friends"], [], 0
    while True:
        told = served.get(f"/relation/friends.json?links.status=known&links.from={start}").json()
        found += [(row["user"], row["friend"]) for row in told["links"]]
        start += len(told["links"])
        if start >= told["matching"]:
            break
    assert sorted(found) == sorted(table.rows())


def test_filters_leave_what_they_name(served):
    table = tables()["visits"]
    told = served.get("/relation/visits.json?place=3&value.least=2").json()
    wanted = table.filter((pl.col("place") == 3) & (pl.col("plays") >= 2))
    assert told["matching"] == len(wanted)
    assert {row["user"] for row in told["links"]} == set(wanted["user"])
    assert "No matching links" in served.get("/relation/visits?value.least=99").text


def test_known_and_predicted_links_are_one_table(served):
    fit = served.site.fit
    told = served.get("/relation/visits.json").json()
    new, known = fit.top("visits", 50), tables()["visits"]
    assert told["matching"] == len(new) + len(known)
    listed = pl.DataFrame(told["links"], infer_schema_length=None)
    assert listed["status"].to_list() == ["predicted"] * len(new) + ["known"] * (len(listed) - len(new))
    for column, own in (("user", "user"), ("place", "place"), ("probability", "probability"), ("expected", "mean")):
        assert listed[column].head(len(new)).to_list() == new[own].to_list()
    assert listed["value"].is_null().to_list() == [True] * len(new) + [False] * (len(listed) - len(new))
    one = served.get("/relation/visits.json?place=3&links.status=predicted").json()["links"]
    assert [row["user"] for row in one] == fit.top("visits", 50, given={"place": 3})["user"].to_list()


def test_links_are_sorted_and_filtered_by_every_column(served):
    fit, page = served.site.fit, "/relation/visits.json?place=3"
    whole = pl.DataFrame(served.get(page).json()["links"], infer_schema_length=None)
    whole = whole.with_columns(pl.Series("name", fit.predict("visits", whole.select("user", "place"))["probability"]))
    assert whole["name"].to_list() == whole["probability"].to_list()
    for column in ("user", "status", "value", "probability", "expected"):
        for sign, descending in (("", False), ("-", True)):
            told = pl.DataFrame(
                served.get(f"{page}&links.sort={sign}{column}").json()["links"], infer_schema_length=None
            )
            assert sorted(told.rows(), key=repr) == sorted(whole.drop("name").rows(), key=repr)
            expected = told[column].drop_nulls().sort(descending=descending)
            assert told[column].drop_nulls().to_list() == expected.to_list()
    middle = whole["probability"].median()
    more = served.get(f"{page}&probability.least={middle}").json()["links"]
    assert (
        sorted(row["probability"] for row in more)
        == whole["probability"].filter(whole["probability"] >= middle).sort().to_list()
    )
    text = served.get("/relation/visits?links.sort=-probability").text
    assert 'aria-sort="descending"><a class="sort" href="/relation/visits?links.sort=probability">' in text
    assert "there is no column" in served.get("/relation/visits?links.sort=size").text


def test_small_axes_are_listed_with_their_links(served):
    counts = tables()["visits"]["place"].value_counts()
    text = html.unescape(served.get("/relation/visits?place=3").text)
    for place, count in counts.rows():
        assert f'<option value="{place}"{" selected" if place == 3 else ""}>{place} ({count})</option>' in text
    assert '<input name="user"' in text  # too many to list


def test_the_csv_file_is_the_table(served):
    answer = served.get("/relation/visits.csv?links.status=known")
    assert answer.headers["content-disposition"] == 'attachment; filename="visits.csv"'
    heading, *rows = csv.reader(io.StringIO(answer.text, newline=""))
    assert heading == ["user", "place", "status", "value", "probability", "expected"]
    found = sorted((user, int(place), float(value)) for user, place, _, value, *_ in rows)
    escaped = {"-1": "'-1"}  # a formula to a spreadsheet
    assert found == sorted((escaped.get(user, user), place, float(n)) for user, place, n in tables()["visits"].rows())
    one = pl.read_csv(served.get("/relation/visits.csv?place=3").content, schema_overrides={"user": pl.String})
    assert one["place"].unique().to_list() == [3]


@pytest.mark.thorough
def test_every_link_of_every_page_leads_to_a_page(served):
    assert served.crawl(150) == 150


def test_titles_are_shown_and_searched(run, tmp_path):
    fit = plait.load(run).with_titles({"place": {1: "The old café", 2: "Gym"}})
    fit.save(tmp_path / "titled")
    with serving(tmp_path / "titled") as own:
        assert '1 "The old café"' in html.unescape(own.get("/axis/place/1").text)
        found = own.get("/search.json?q=OLD CAF").json()["found"]["place"]
        assert [entity["name"] for entity in found] == [1]
        assert found[0]["title"] == "The old café"


@pytest.mark.thorough
def test_an_ensemble_is_explored_as_well(tmp_path):
    run = make_run(tmp_path, "restarts = 2\n")
    with serving(run) as own:
        for address in ("/", "/axis/user/x%20y", "/relation/visits/cell?user=x+y&place=4", "/components", "/surprises"):
            assert own.get(address).status_code == 200, address
        assert len(own.get("/index.json").json()["members"]) == 2
        mixed = own.site.fit.predict("visits", {"user": ["x y"], "place": [4]})["mean"][0]
        assert own.get("/relation/visits/cell.json?user=x+y&place=4").json()["prediction"]["mean"] == mixed


def test_an_undirected_link_is_shown_once_for_each_of_its_entities(tmp_path):
    pairs = [("n1", "n0"), ("n2", "n1"), ("n1", "n3"), ("n3", "n4"), ("n4", "n0")]
    table = pl.DataFrame(pairs, ["a", "b"], orient="row")
    model = "e[a, b] = U[a, r] U[b, r]; b: a"
    fit = plait.fit(model, {"e": table}, rank=2, max_iter=20, warmup=0, seed=0)
    fit.save(tmp_path / "run")
    with serving(tmp_path / "run") as own:
        told = own.get("/axis/a/n1.json").json()
        assert told["predicted"] == {"e[a]": fit.top("e", 10, given={"a": "n1"}).to_dicts()}
        assert told["known"]["e[a]"]["count"] == 3
        others = {row["b"] for row in told["known"]["e[a]"]["links"] if row["a"] == "n1"}
        assert others == {"n0", "n2", "n3"}
        page = own.get("/axis/a/n1").text
        assert "as b" not in page
        for query in ("a=n1", "b=n1"):
            (index, name), listed = query.split("="), own.get(f"/relation/e.json?{query}&links.status=known").json()
            assert listed["matching"] == 3
            assert [row[index] for row in listed["links"]] == [name] * 3
        assert own.get("/relation/e.json?a=n1&b=n0&links.status=known").json()["matching"] == 1
        assert own.get("/relation/e.json?a=n0&b=n1&links.status=known").json()["matching"] == 1
        lost = own.get("/axis/a/n9")
        assert lost.status_code == 404
        assert "is not an entity of axis a, which has 'n0', 'n1', 'n2', 'n3', 'n4'." in html.unescape(lost.text)


def test_components_of_a_repeated_factor_have_one_page(tmp_path):
    table = pl.DataFrame([(0, 1, 2), (1, 1, 2), (2, 0, 1), (2, 1, 0)], ["h", "k", "t"], orient="row")
    fit = plait.fit("x[h, k, t] = A[h, p] G[k, p, q] A[t, q]; t: h", {"x": table}, rank=2, max_iter=2, seed=0)
    fit.save(tmp_path / "run")
    with serving(tmp_path / "run") as own:
        first, second = (own.get(f"/component/{index}/1.json").json() for index in "pq")
        assert first == second
        assert first["relations"][0]["share"] == fit.coupling()["share"][1]
        cell = html.unescape(own.get("/relation/x/cell?h=0&k=1&t=2").text)
        best = fit.explain("x", {"h": 0, "k": 1, "t": 2}).shares[0].setting
        assert len(best) == 2
        assert " × ".join(own.site.component_label(*one) for one in best.items()) in cell


def test_a_cell_names_its_rules(tmp_path):
    facts = [(f"b{n}", "manages", f"p{n}") for n in range(6)]
    facts += [(who, "works", f"firm{n % 2}") for n in range(6) for who in (f"b{n}", f"p{n}")][:-1]
    table = pl.DataFrame(facts, ["h", "k", "t"], orient="row")
    model = "x[h, k, t] = A[h, r] B[k, r] C[t, r]; t: h"
    fit = plait.fit(model, {"x": table}, evidence="rules", rank={"r": 1}, max_iter=40, seed=0)
    fit.save(tmp_path / "run")
    with serving(tmp_path / "run") as own:
        page = html.unescape(own.get("/relation/x/cell?h=p5&k=works&t=firm1").text)
        assert "works(p5, firm1) ← manages(b5, p5), works(b5, firm1)" in page
        assert "comes from the prior" not in page  # of factors of a term that says little
        components = html.unescape(own.get("/components").text)
        assert 'href="/component/0"' in components
        assert "component/rule" not in components + page


def test_a_page_says_that_nothing_can_be_proposed(tmp_path, recwarn):
    pairs = [(a, b) for a in "xyz" for b in "xyz" if a < b]
    table = pl.DataFrame(pairs, ["a", "b"], orient="row")
    model = "e[a, b] = U[a, r] U[b, r]; b: a"
    plait.fit(model, {"e": table}, rank=2, max_iter=20, seed=0, tol=0).save(tmp_path / "all")
    with serving(tmp_path / "all") as own:
        assert "no candidates: all requested cells are excluded by" in own.get("/axis/a/x").text
    assert not [one for one in recwarn if issubclass(one.category, plait.errors.NoCandidatesWarning)]
