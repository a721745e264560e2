"""Ordered axes: the order of labels, and the periods that are missing between them."""

from datetime import date, datetime

import polars as pl
import pytest

import plait

MODEL = plait.Model("visits[user, month] = U[user, r] T[month, r]; month: ordered")


MONTH_ENDS = ((1, 31), (2, 28), (3, 31), (4, 30))


def table(labels):
    return pl.DataFrame({"user": ["ann"] * len(labels), "month": labels})


def months(labels, **arguments):
    return MODEL.bind({"visits": table(labels)}, **arguments).entities["month"].names.to_list()


@pytest.mark.parametrize(
    ("labels", "periods"),
    [
        ([7, 1, 3], [1, 3, 5, 7]),
        ([2000, 2020, 2010], [2000, 2010, 2020]),
        ([5], [5]),
        ([date(2020, 1, 1), date(2020, 4, 1), date(2020, 2, 1)], [date(2020, m, 1) for m in range(1, 5)]),
        ([date(2020, 1, 31), date(2020, 3, 31)], [date(2020, 1, 31), date(2020, 3, 31)]),
        ([date(2019, *d) for d in ((1, 31), (2, 28), (4, 30))], [date(2019, *d) for d in MONTH_ENDS]),
        ([date(2020, 1, 1), date(2020, 1, 22), date(2020, 1, 8)], [date(2020, 1, d) for d in (1, 8, 15, 22)]),
        ([date(2022, 1, 1), date(2019, 1, 1), date(2020, 1, 1)], [date(y, 1, 1) for y in range(2019, 2023)]),
        (["2020-04-01", "2020-01-01", "2020-02-01"], [f"2020-0{m}-01" for m in range(1, 5)]),
        (["2020-03", "2019-12"], ["2019-12", "2020-03"]),
        (["2020-03", "2019-12", "2020-01"], ["2019-12", "2020-01", "2020-02", "2020-03"]),
        (["2020-W01", "2019-W51"], ["2019-W51", "2020-W01"]),
        ([202003, 201912, 202002], [201912, 202001, 202002, 202003]),
        ([20200301, 20200228], [20200228, 20200301]),
        (["10", "7", "9"], ["7", "8", "9", "10"]),
        ([datetime(2020, 1, 1, h) for h in (5, 2, 3)], [datetime(2020, 1, 1, h) for h in range(2, 6)]),
        ([datetime(2020, 1, 3), datetime(2020, 1, 1), datetime(2020, 1, 2)], [datetime(2020, 1, d) for d in (1, 2, 3)]),
    ],
)  # fmt: skip
def test_periods_are_sorted_and_complete(labels, periods):
    assert months(labels) == periods


def test_text_has_the_order_that_is_declared():
    assert months(["spring", "autumn"], entities={"month": ["spring", "summer", "autumn"]}) == [
        "spring",
        "summer",
        "autumn",
    ]
    with pytest.raises(plait.errors.DataError, match="which have no order"):
        months(["spring", "autumn"])


def test_times_that_are_not_rounded_are_refused():
    with pytest.raises(plait.errors.DataError, match="equal steps"):
        months([1, 7, 12_345_678])


def test_a_missing_period_is_a_row_without_data():
    bound = MODEL.bind({"visits": table([1, 4, 2])})
    assert bound.relations["visits"].seen["month"].tolist() == [True, True, False, True]


def test_other_axes_keep_their_rows():
    plain = plait.Model("visits[user, month] = U[user, r] T[month, r]")
    assert plain.bind({"visits": table([7, 1, 3])}).entities["month"].names.to_list() == [1, 3, 7]


def test_declared_axes_share_the_order():
    model = plait.Model("moves[a, b] = F[a, r] G[b, r]; b: a; b: ordered")
    assert model.ordered == ("a",)
    assert plait.Model(str(model)) == model
    assert model != plait.Model("moves[a, b] = F[a, r] G[b, r]; b: a")


@pytest.mark.parametrize(
    ("line", "words"), [("r: ordered", "r is a latent index"), ("mont: ordered", "mont is not an index")]
)
def test_a_wrong_declaration_is_pointed_at(line, words):
    with pytest.raises(plait.errors.ModelError, match=words) as caught:
        plait.Model(f"visits[user, month] = U[user, r] T[month, r]\n{line}")
    assert str(caught.value).split("\n")[2].strip() == "^" * len(line.split(":")[0])


def test_an_index_may_be_called_ordered():
    model = plait.Model("orders[ordered, item] = O[ordered, r] I[item, r]; item: ordered")
    assert (model.ordered, model.axes) == ((), ("ordered",))


def test_days_of_a_time_zone_are_days_when_clocks_change():
    days = pl.datetime_range(datetime(2025, 3, 29), datetime(2025, 4, 1), "1d", time_zone="Europe/Berlin", eager=True)
    assert months(days.gather([3, 0, 1])) == days.to_list()


@pytest.mark.parametrize("labels", [["1/2020", "2/2020"], ["2020-1", "2020-2"], ["2020-13"], ["01", "02"]])
def test_other_text_has_no_order(labels):
    with pytest.raises(plait.errors.DataError, match="which have no order"):
        months(labels)
