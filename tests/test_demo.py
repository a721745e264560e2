"""The demo: real relations, hidden cells, figures beside a baseline."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score
from typer.testing import CliRunner

from plait import __version__, demo
from plait.cli import app


@pytest.fixture(scope="module")
def output():
    result = CliRunner().invoke(app, ["demo", "--seed", "0", "--top", "3"])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_demo_data_are_the_nations():
    links, attributes = demo.load()
    assert len(links) == 1992
    assert links.n_unique() == 1992
    assert links["relation"].n_unique() == 55
    assert pl.concat([links["head"], links["tail"]]).n_unique() == 14
    assert set(attributes["attribute"]) == {"large area", "small area", "large population", "small population"}
    assert len(attributes) == 26


def test_hidden_cells_are_a_fifth_and_are_not_known():
    links, _ = demo.load()
    parts = demo.split(links, seed=3)
    assert len(parts.cells) == 14 * 55 * 13
    assert parts.hidden.mean() == pytest.approx(0.2, abs=0.02)
    assert parts.link.sum() == 1992
    assert parts.known.join(parts.missing[0], on=parts.cells.columns).is_empty()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=30))
def test_scores_equal_scikit_learn(cells):
    link = np.array([hit for hit, _ in cells])
    score = np.array([float(value) for _, value in cells])
    if 0 < link.sum() < len(link):
        assert demo.roc_auc(link, score) == pytest.approx(roc_auc_score(link, score))
        assert demo.average_precision(link, score) == pytest.approx(average_precision_score(link, score))


def test_the_model_beats_popularity_on_the_hidden_cells(output):
    rows = {line.split("│")[1].strip(): line.split("│")[2:4] for line in output.splitlines() if line.count("│") == 4}
    model, baseline = ([float(cell) for cell in rows[name]] for name in ("Plait", "popularity"))
    assert model[0] > baseline[0] + 0.02
    assert model[1] > baseline[1] + 0.05


def test_the_model_is_shown_as_text_and_links_in_words(output):
    assert "relations[head, relation, tail] = H[head, r] P[relation, r] T[tail, r]" in output
    assert output.count("→") == 3
    assert "\x1b" not in output


def test_version_and_help_say_what_there_is():
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).output.strip() == f"plait {__version__}"
    assert "demo" in runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, ["demo", "--top", "0"]).exit_code == 2
