"""Names of components: from the entities that stand out, or given, and kept by runs."""

import json

import numpy as np
import polars as pl
import pytest

import plait
from plait.analysis.components.component_names import names_of

MODEL = "visits[user, place] = U[user, r] P[place, r]"


@pytest.fixture(scope="module")
def fit():
    """Two groups of users and places; everybody goes to the bus stop."""
    rows = [(f"u{n}", f"{'ab'[n % 2]}{k}", 5) for n in range(8) for k in range(3)]
    rows += [(f"u{n}", "bus", 9) for n in range(8)]
    data = pl.DataFrame(rows, ["user", "place", "value"], orient="row")
    return plait.fit(MODEL, {"visits": data}, rank=2, seed=0, threads=1, progress=False, max_iter=60)


def test_a_name_has_the_entities_of_largest_weight_and_lift(fit):
    table, known = fit.components(top=None), pl.DataFrame(fit.known["visits"].cells[:, 1:], ["place"])
    popular = np.bincount(known["place"], fit.known["visits"].values)
    popular = dict(zip(fit.entities["place"], popular / popular.sum()))
    for (number, name), own in table.filter(axis="place").group_by("component", "name"):
        scores = {e: w * w / popular[e] if w > popular[e] else 0.0 for e, w in own.select("entity", "weight").rows()}
        best = sorted(scores, key=lambda entity: -scores[entity])
        assert best[0] in name
        assert "bus" not in name
        assert name == names_of(fit)["r"][number]


def test_a_given_name_is_shown_and_stored(fit, tmp_path):
    named = fit.name_components({1: " quiet \n cafes "})
    assert names_of(fit)["r"][1] != "quiet cafes"
    cell = {"user": "u0", "place": "b0"}
    for own in (named, plait.load(_saved(named, tmp_path / "run")), named.with_titles({"user": {"u0": "Ann"}})):
        assert own.components(top=1).filter(component=1)["name"].unique().to_list() == ["quiet cafes"]
        assert "quiet cafes: " in str(own.explain("visits", cell))
        shown = own.explain("visits", cell).components
        assert shown.filter(component="1")["name"].to_list() == ["quiet cafes"]
    more = named.name_components({0: "bars", 1: ""})
    assert names_of(more)["r"] == {0: "bars", 1: names_of(fit)["r"][1]}
    new = pl.DataFrame({"user": ["fay"], "place": ["a0"], "value": [5]})
    for grown in (named.fold_in({"visits": new}), named.update({"visits": new})):
        assert names_of(grown)["r"][1] == "quiet cafes"


def _saved(fit, path):
    fit.save(path)
    return path


def test_a_damaged_name_is_refused(fit, tmp_path):
    fit.name_components({1: "bars"}).save(tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    if not path.exists():
        (path,) = (tmp_path / "run").glob("*.json")
    told = json.loads(path.read_text())
    for strange in ({"r": {"9": "bars"}}, {"r": {"x": "bars"}}, {"q": {"0": "bars"}}, {"r": {"0": 3}}):
        told["members"][0]["component_names"] = strange
        path.write_text(json.dumps(told))
        with pytest.raises(plait.errors.StorageError):
            plait.load(tmp_path / "run")


def test_an_ensemble_names_the_member_that_it_shows(fit, tmp_path):
    data = pl.DataFrame({"user": ["a", "a", "b", "c"], "place": ["x", "y", "x", "z"]})
    several = plait.fit(MODEL, {"visits": data}, rank=2, seed=0, threads=1, progress=False, max_iter=5, warmup=0,
                        restarts=2)  # fmt: skip
    named = several.name_components({0: "first"})
    shown = [member.state is several.state for member in several.members]
    assert [names_of(member)["r"].get(0) == "first" for member in named.members] == shown
    again = plait.load(_saved(named, tmp_path / "run"))
    assert names_of(again)["r"][0] == "first"
    assert "first: " in str(named.explain("visits", {"user": "a", "place": "x"}))


def test_what_cannot_be_named_is_refused(fit):
    for names, index in [({2: "x"}, None), ({True: "x"}, None), ({0: 3}, None), ("x", None), ({0: "x" * 101}, None),
                         ({0: "x"}, "q")]:  # fmt: skip
        with pytest.raises(plait.errors.ParameterError):
            fit.name_components(names, index)
