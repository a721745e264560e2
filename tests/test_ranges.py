"""Numbers at the ends of the allowed range give finite answers; beyond it they are refused."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plait

CELLS = [(i, j) for i in range(4) for j in range(5) if (i + 2 * j) % 3]
SCALES = st.sampled_from([1e-75, 1.0, 1e75])
MODEL = "X[i, j] = V[i] A[i, r] B[j, r]"


def fitted(method, likelihood, value=1.0, exposure=1.0, weight=1.0, **options):
    """A small fit; the numbers scale those of the first row, and the value those of all."""
    table = pl.DataFrame(CELLS, ["i", "j"], orient="row").with_columns(
        value=pl.Series([value if k % 3 == 0 else value * (0.5 if value > 1 else 2.0) for k in range(len(CELLS))]),
        weight=pl.Series([weight] + [1.0] * (len(CELLS) - 1)),
    )
    data = {"X": plait.Relation(table, value="value", weight="weight", likelihood=likelihood)}
    given = {"V": plait.Exposure(np.array([exposure, 1.0, 1.0, 1.0]))}
    return plait.fit(MODEL, data, rank=2, seed=0, method=method, max_iter=15, fixed=given, progress=False, **options)


def check_finite(table):
    for column in table.select(pl.selectors.float()).iter_columns():
        assert column.drop_nulls().is_finite().all(), (column.name, column.to_list())


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::plait.PlaitWarning")
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    method=st.sampled_from(["vb", "em"]), likelihood=st.sampled_from(["poisson", "tweedie"]),
    value=SCALES, exposure=SCALES, weight=SCALES,
)  # fmt: skip
def test_numbers_at_the_ends_of_the_range_give_finite_answers(method, likelihood, value, exposure, weight):
    fit = fitted(method, likelihood, value, exposure, weight)
    assert math.isfinite(fit.objective)
    cells = pl.DataFrame(CELLS, ["i", "j"], orient="row")
    for table in (
        fit.predict("X", cells), fit.top("X", k=5), fit.surprising("X"), fit.components(), fit.similar("i", 0),
    ):  # fmt: skip
        check_finite(table)
    assert "nan" not in str(fit.explain("X", {"i": 0, "j": 1}).to_dict())


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_components_do_not_depend_on_the_scale_of_a_start(scale):
    start = np.arange(1.0, 9.0).reshape(4, 2)
    found = fitted("em", "poisson", init={"A": start * scale}).components()
    wanted = fitted("em", "poisson", init={"A": start}).components()
    check_finite(found)
    np.testing.assert_allclose(found["weight"], wanted["weight"], rtol=1e-6)


@pytest.mark.parametrize("number", [5e-324, 1e-300, 1e300])
@pytest.mark.parametrize("noun", ["value", "weight", "exposure"])
def test_numbers_beyond_the_range_are_refused(noun, number):
    with pytest.raises(plait.errors.DataError, match=rf"the {noun} is {number:g}".replace("+", r"\+")) as caught:
        fitted("em", "tweedie", **{noun: number})
    assert caught.value.hint == "Positive numbers must be between 1e-75 and 1e+75; use another unit."


def test_settings_beyond_the_range_are_refused():
    with pytest.raises(plait.errors.DataError, match="between 1e-75 and 1e"):
        plait.Exposure(pl.DataFrame({"i": [1]}), default=1e300)
    with pytest.raises(plait.errors.DataError, match="between 1e-75 and 1e"):
        plait.Relation(pl.DataFrame({"i": [1]}), weight=1e-300)
    data = {"X": pl.DataFrame({"i": [0, 1], "j": [1, 0]})}
    with pytest.raises(plait.errors.ParameterError, match=r"factor A has numbers up to 1e\+300 \(maximum 1e\+75\)"):
        plait.fit("X[i, j] = A[i, r] B[j, r]", data, rank=1, fixed={"A": np.full((2, 1), 1e300)}, progress=False)


def test_floats_of_32_bits_are_in_range():
    table = pl.DataFrame({"i": [0, 1, 1], "j": [0, 1, 0], "value": pl.Series([0.0, 3e38, 1.5], dtype=pl.Float32)})
    assert plait.Model("X[i, j] = A[i, r] B[j, r]").bind({"X": table}).relations["X"].values.max() > 1e38


@pytest.mark.parametrize("value", [5e-324, 1e300])
def test_long_tables_are_refused_as_well(value):
    rows = np.arange(100_000)
    table = pl.DataFrame({"i": rows // 400, "j": rows % 400, "value": np.where(rows == 7, value, 1.5)})
    with pytest.raises(plait.errors.DataError, match=r"row 7 \(counting from 0\): the value is"):
        plait.Model("X[i, j] = A[i, r] B[j, r]").bind({"X": table})
