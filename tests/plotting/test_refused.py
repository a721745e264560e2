"""Charts that cannot be drawn are refused."""

import polars as pl
import pytest

import plait
from tests.support.chart_data import tables

WRONG = {
    "was given": lambda fit: fit.plot.rank(),
    "from 0 to 2": lambda fit: fit.plot.components(3),
    "'s' is not a latent index": lambda fit: fit.plot.components(0, index="s"),
    "an integer of at least 1": lambda fit: fit.plot.components(top=0),
    "'l' is not an axis": lambda fit: fit.plot.entity("l", "i3"),
    "nobody": lambda fit: fit.plot.entity("i", "nobody"),
    "'q' is not an axis of the model": lambda fit: fit.plot.neighbourhood("q", "i3"),
    "at least 1": lambda fit: fit.plot.neighbourhood("i", "i3", k=0),
    "no one": lambda fit: fit.plot.neighbourhood("i", "no one"),
}


@pytest.mark.parametrize("said", WRONG)
def test_wrong_arguments_are_refused(said, fit, metrics):
    with pytest.raises(plait.errors.ParameterError, match="compare_with"):
        metrics.plot.roc(compare_with={"popularity": 0.8})
    with pytest.raises((plait.errors.ParameterError, plait.errors.DataError, plait.PlaitError), match=said):
        WRONG[said](fit)


def test_a_test_without_zeros_has_no_curves(fit, split):
    metrics = plait.evaluate(fit, "X", split.test.filter(pl.col("value") > 0))
    for chart in (metrics.plot.roc, metrics.plot.precision_recall, metrics.plot.calibration):
        with pytest.raises(plait.PlaitError, match="the test has no zeros"):
            chart()
    assert "<svg" not in metrics._repr_html_()


def test_an_axis_without_components_has_no_profile():
    fit = plait.fit("X[i,j] = a[i] b[j]", {"X": tables()["X"]}, seed=0, max_iter=20)
    with pytest.raises(plait.errors.ParameterError, match="has a latent index"):
        fit.plot.entity("i", "i3")
    for chart in (fit.plot.components, fit.plot.coupling, lambda: fit.plot.components(0)):
        with pytest.raises(plait.PlaitError, match="no latent index"):
            chart()
    lists = fit.plot.neighbourhood("i", "i3").to_dict()["concat"]
    assert [one["title"]["text"] for one in lists] == ["X"]


def test_a_model_of_two_latent_indices_asks_which(fit):
    core = plait.fit("X[i,j] = A[i,p] G[p,q] B[j,q]", {"X": tables()["X"]}, rank={"p": 2, "q": 2}, seed=0, max_iter=20)
    with pytest.raises(plait.errors.ParameterError, match="`index` is missing"):
        core.plot.components(0)
    assert core.plot.components(0, index="q").to_dict()
    assert core.plot.components().to_dict()
    assert core.plot.coupling().to_dict()
