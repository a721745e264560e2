"""Order and spacing of the entities of an ordered axis: months, days, years.

Integers, dates and times are sorted, and periods missing between them are added, so that steps along the axis are
equal. The spacing is the greatest common divisor of the differences: of months where all dates are the same day of a
month or its last day, else of days; of microseconds for times that are not midnight.
"""

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import AnyArray
from plait.data.encoding.columns import kind
from plait.errors import DataError, ParameterError, TableLocation, quoted

if TYPE_CHECKING:
    import polars as pl

MAX_FILLED_RATIO = 50  # periods per entity that occurs; more are a sign of times that are not rounded
MIN_FILLED = 1000  # periods that are always accepted
ISO_DATE = "%Y-%m-%d"
MAX_COMMON_DAY = 28  # of a month; later days do not occur in all months


def in_periods(axis: str, names: "pl.Series") -> "pl.Series":
    """Distinct names of an ordered axis in their order, with the missing periods between them."""
    dates = _written_dates(names)
    if dates is not None:
        return in_periods(axis, dates).dt.strftime(ISO_DATE)
    names, timeless = names.sort(), kind(names) == "times of day"
    numbers = _numbers(names)
    if numbers is None and not timeless:
        raise DataError(
            f"the entities of the ordered axis {axis} are {kind(names)}, which have no order.",
            location=TableLocation(f"entities of {axis}"),
            hint=f"Convert them to integers or dates, or list all of them in order: `entities={{{axis!r}: […]}}`.",
        )
    if numbers is None or len(names) < 2:
        return names
    values, unit = numbers
    step = _step(values)
    count = (int(values[-1]) - int(values[0])) // step + 1
    if count > max(MIN_FILLED, MAX_FILLED_RATIO * len(names)):
        raise DataError(
            f"the ordered axis {axis} has {len(names):,} entities, but {count:,} equal steps between them.",
            location=TableLocation(f"entities of {axis}"),
            hint="Round them to periods, such as days or months.",
        )
    return names if count == len(names) else _named(int(values[0]) + step * np.arange(count), unit, names)


def later_periods(axis: str, old: "pl.Series", new: "pl.Series") -> "pl.Series":
    """New periods of an ordered axis and those between them and the old ones; DataError unless they come later."""
    import polars as pl

    whole = in_periods(axis, pl.concat([old, new.cast(old.dtype)]))
    if not whole.head(len(old)).equals(old):
        raise DataError(
            f"{quoted(new.min())} is not a later period of axis {axis}, which ends at {quoted(old[-1])}.",
            location=TableLocation(f"entities of {axis}"),
            hint="Fit again with all rows.",
        )
    return whole[len(old) :]


def next_periods(axis: str, names: "pl.Series", steps: int) -> "pl.Series":
    """Names of the periods after the last one, in the type of the axis."""
    dates = _written_dates(names)
    if dates is not None:
        return next_periods(axis, dates, steps).dt.strftime(ISO_DATE)
    numbers = _numbers(names)
    if numbers is None:
        raise ParameterError(
            f"`steps`: the periods of {axis} are {kind(names)}, so the names of later ones are unknown.",
            hint="Give their names as a list, in order.",
        )
    values, unit = numbers
    return _named(int(values[-1]) + _step(values) * np.arange(1, steps + 1), unit, names)


def _written_dates(names: "pl.Series") -> "pl.Series | None":
    """Dates of texts such as 2026-01-31, as csv files have them; None for other names."""
    import polars as pl

    if names.dtype != pl.String or not len(names):
        return None
    dates = names.str.to_date(ISO_DATE, strict=False)
    return dates if bool((dates.dt.strftime(ISO_DATE) == names).fill_null(False).all()) else None


def _step(values: AnyArray) -> int:
    return int(np.gcd.reduce(np.diff(values))) if len(values) > 1 else 1


def _numbers(names: "pl.Series") -> tuple[AnyArray, str] | None:
    """Integers whose differences are the spacing of sorted names, and their unit; None where there are none."""
    import polars as pl

    if kind(names) == "integers":
        return (names.to_numpy(), "integer") if names.dtype == pl.Int64 else None
    if names.dtype == pl.Date:
        return _calendar(names)
    if isinstance(names.dtype, pl.Datetime):
        whole = names.dtype.time_zone is None and bool((names == names.dt.truncate("1d")).all())
        if whole:
            return _calendar(names.cast(pl.Date))
        return names.dt.cast_time_unit("us").to_physical().to_numpy(), "us"
    return None


def _calendar(dates: "pl.Series") -> tuple[AnyArray, str]:
    """Dates as months if they are all the same day of a month, or all its last day; else as days."""
    days = dates.to_physical().to_numpy().astype(np.int64)
    months = (dates.dt.year().cast(int) * 12 + dates.dt.month().cast(int) - 1).to_numpy()
    if len(days) > 1 and len(np.unique(months)) == len(months):
        day = dates.dt.day()
        if day.n_unique() == 1 and int(day[0]) <= MAX_COMMON_DAY:
            return months, f"day {int(day[0])}"
        if bool((dates == dates.dt.month_end()).all()):
            return months, "last day"
    return days, "day"


def _named(values: AnyArray, unit: str, names: "pl.Series") -> "pl.Series":
    """Names of numbers, in the type of the axis."""
    import polars as pl

    if unit in ("integer", "us"):
        return pl.Series(values.astype(np.int64)).cast(names.dtype)
    if unit == "day":
        return pl.Series(values.astype(np.int32)).cast(pl.Date).cast(names.dtype)
    day = 1 if unit == "last day" else int(unit.removeprefix("day "))
    dates: list[Any] = [datetime.date(int(value) // 12, int(value) % 12 + 1, day) for value in values]
    series = pl.Series(dates)
    return (series.dt.month_end() if unit == "last day" else series).cast(names.dtype)
