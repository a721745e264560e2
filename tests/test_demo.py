"""The demo: real relations, hidden cells, figures next to a baseline, an explanation."""

import json
import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import plait
from plait import datasets
from plait.cli import demo_command
from tests.support.caught_warnings import caught
from tests.support.command_line import plait_command


class Shown(NamedTuple):
    output: str
    parts: Any
    fit: plait.Fit
    warned: list


@pytest.fixture(scope="module")
def shown():
    """What the demo prints, and its fit: one for all tests, for it takes seconds."""
    whole, kept, warned = demo_command.fit_nations, [], []

    def keep(parts, seed):
        warned.extend(caught(lambda: kept.extend((parts, whole(parts, seed)))))
        return kept[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_command, "fit_nations", keep)
        result = plait_command("demo", "--seed", "0", "--top", "3")
    assert result.exit_code == 0, result.output
    return Shown(result.stdout, *kept, warned)


def test_the_demo_data_are_the_nations():
    links, attributes = datasets.nations_tables()
    assert len(links) == 1992
    assert links.n_unique() == 1992
    assert links["relation"].n_unique() == 55
    assert pl.concat([links["head"], links["tail"]]).n_unique() == 14
    assert set(attributes["attribute"]) == {"large area", "small area", "large population", "small population"}
    assert len(attributes) == 26


def test_hidden_cells_and_their_mirror_images_are_missing():
    parts = demo_command.split_nations(seed=3)
    assert parts.candidates == 14 * 55 * 13
    assert parts.chosen == len(parts.test) == 2002
    assert not (parts.test["head"] == parts.test["tail"]).any()
    data = datasets.load("nations").model.bind(parts.train)
    weights = data.relations["relations"].weights
    rows = np.stack([data.entities[index].encode(parts.test[index]) for index in ("head", "relation", "tail")], axis=1)
    assert (weights.at(rows) == 0).all()
    assert (weights.at(rows[:, ::-1]) == 0).all()


def test_figures_equal_scikit_learn():
    parts = demo_command.split_nations(seed=1)
    fit = plait.fit(datasets.NATIONS, parts.train, rank=2, seed=0, max_iter=5, progress=False)
    figures, link = demo_command.measure_nations(fit, parts), parts.test["value"].to_numpy() > 0
    known, names = fit.known["relations"], ("head", "relation", "tail")
    counts = [np.bincount(known.cells[:, k], minlength=known.shape[k]) for k in range(3)]
    rows = [fit.entities[index].encode(parts.test[index]) for index in names]
    popularity = np.prod([count[row] for count, row in zip(counts, rows)], axis=0)
    for name, score in {"Plait": fit.predict("relations", parts.test)["mean"], "popularity": popularity}.items():
        assert figures[name]["roc_auc"] == pytest.approx(roc_auc_score(link, score))
        assert figures[name]["average_precision"] == pytest.approx(average_precision_score(link, score))


@pytest.mark.thorough
def test_the_model_beats_popularity_on_the_hidden_cells(shown):
    found = re.findall(r"(\w+) +(0\.\d{3}) +(0\.\d{3})\s*\n", shown.output)
    rows = {name: (float(roc_auc), float(precision)) for name, roc_auc, precision in found}
    model, baseline = rows["Plait"], rows["popularity"]
    assert model[0] > baseline[0] + 0.03
    assert model[1] > baseline[1] + 0.1


def test_model_links_and_reasons_are_printed_without_warnings(shown):
    output = shown.output
    assert shown.warned == []
    assert "relations[head, relation, tail] = H[head, r] P[relation, r] T[tail, r]" in output
    assert len(re.findall(r"^\w+ —\w+→ \w+ +\d\.\d{3} +(yes|no)", output, re.MULTILINE)) == 3
    first = re.search(r"^(\w+) —(\w+)→ (\w+)", output, re.MULTILINE)
    assert f"\nrelations({first[1]}, {first[2]}, {first[3]})\n" in output
    assert "Supporting links" in output
    assert "\x1b" not in output


def test_the_demo_proposes_hidden_links_and_no_self_links(shown):
    best = shown.fit.top("relations", 200)
    assert (best["head"] != best["tail"]).all()
    hidden = shown.parts.test.filter(pl.col("value") > 0)
    assert len(best.join(hidden, on=["head", "relation", "tail"], how="semi")) > 50


def test_the_demo_as_json(shown, monkeypatch):
    few = replace(shown.parts, test=shown.parts.test.head(200))
    monkeypatch.setattr(demo_command, "split_nations", lambda seed: few)
    monkeypatch.setattr(demo_command, "fit_nations", lambda parts, seed: shown.fit)
    found = json.loads(plait_command("demo", "--seed", "0", "--top", "2", "--json").stdout)
    assert set(found["metrics"]) == {"Plait", "popularity"}
    assert len(found["top"]) == 2
    assert found["explanation"]["relation"] == "relations"


def test_a_demo_without_links_to_show_is_refused():
    assert plait_command("demo", "--top", "0").exit_code == 2
