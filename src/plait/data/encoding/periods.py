"""Order and spacing of the entities of an ordered axis: months, days, years.

Integers, dates and times are sorted, and periods missing between them are added, so that steps along the axis are
equal. The spacing is the greatest common divisor of the differences: of months where all dates are the same day of a
month or its last day, else of days; of microseconds for times that are not midnight. Text such as 2026-01-31, 2026-01,
2026-W05 or 12 is read as dates, months, weeks and integers; integers such as 20260131 or 202601 as dates and months.
"""

import datetime
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import AnyArray
from plait.data.encoding.columns import kind
from plait.errors import DataError, ParameterError, TableLocation, quoted

if TYPE_CHECKING:
    import polars as pl

MAX_FILLED_RATIO = 50  # periods per entity that occurs; more are a sign of times that are not rounded
MIN_FILLED = 1000  # periods that are always accepted
TEXTS = (  # suffix that makes a name a date, format of that date, format of the name, unit
    ("", "%Y-%m-%d", "%Y-%m-%d", "date"),
    ("-01", "%Y-%m-%d", "%Y-%m", "month"),
    ("-1", "%G-W%V-%u", "%G-W%V", "week"),
)
COMPACT = (("", "%Y%m%d", "%Y%m%d", "date"), ("01", "%Y%m%d", "%Y%m", "month"))  # of integers, in these years
YEARS = (1900, 2099)
MONDAY = 4  # days from 1970-01-01 to a Monday
MAX_COMMON_DAY = 28  # of a month; later days do not occur in all months


def in_periods(axis: str, names: "pl.Series") -> "pl.Series":
    """Distinct names of an ordered axis in their order, with the missing periods between them."""
    written = _written(names)
    if written is not None:
        values, write = written
        return write(in_periods(axis, values))
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
    numbered, unit = numbers
    step = _step(numbered)
    count = (int(numbered[-1]) - int(numbered[0])) // step + 1
    if count > max(MIN_FILLED, MAX_FILLED_RATIO * len(names)):
        raise DataError(
            f"the ordered axis {axis} has {len(names):,} entities, but {count:,} equal steps between them.",
            location=TableLocation(f"entities of {axis}"),
            hint="Round them to periods, such as days or months.",
        )
    return names if count == len(names) else _named(int(numbered[0]) + step * np.arange(count), unit, names)


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
    written = _written(names)
    if written is not None:
        values, write = written
        return write(next_periods(axis, values, steps))
    numbers = _numbers(names)
    if numbers is None or (np.diff(numbers[0]) <= 0).any():
        what = kind(names) if numbers is None else "listed in an order of their own"
        raise ParameterError(
            f"`steps`: the periods of {axis} are {what}, so the names of later ones are unknown.",
            hint="Give their names as a list, in order.",
        )
    numbered, unit = numbers
    return _named(int(numbered[-1]) + _step(numbered) * np.arange(1, steps + 1), unit, names)


def _written(names: "pl.Series") -> "tuple[pl.Series, Callable[[pl.Series], pl.Series]] | None":
    """Dates or integers of names such as 2026-01-31, 2026-01, 202601 and "12", and how to write them; else None."""
    import polars as pl

    if not len(names) or (names.dtype != pl.String and kind(names) != "integers"):
        return None
    text = names.cast(pl.String)
    if names.dtype == pl.String:
        integers = names.cast(pl.Int64, strict=False)
        if bool((integers.cast(pl.String) == names).fill_null(False).all()):
            return integers, lambda values: values.cast(pl.String)
    for suffix, parsed, form, unit in TEXTS if names.dtype == pl.String else COMPACT:
        dates = (text + suffix).str.to_date(parsed, strict=False)
        same = (dates.dt.strftime(form) == text) & dates.dt.year().is_between(*YEARS)
        if bool(same.fill_null(False).all()):
            return _numbered(dates, unit), partial(_format_dates, form=form, unit=unit, dtype=names.dtype)
    return None


def _numbered(dates: "pl.Series", unit: str) -> "pl.Series":
    """Dates, or numbers of months or weeks."""
    import polars as pl

    if unit == "month":
        return dates.dt.year().cast(pl.Int64) * 12 + dates.dt.month().cast(pl.Int64) - 1
    return (dates.to_physical().cast(pl.Int64) - MONDAY) // 7 if unit == "week" else dates


def _format_dates(values: "pl.Series", form: str, unit: str, dtype: Any) -> "pl.Series":
    """Names of dates, or of numbers of months or weeks."""
    import polars as pl

    if unit == "month":
        values = _named(values.to_numpy(), "day 1", pl.Series(dtype=pl.Date))
    elif unit == "week":
        values = (values * 7 + MONDAY).cast(pl.Int32).cast(pl.Date)
    return values.dt.strftime(form).cast(dtype)


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
        local = names.dt.replace_time_zone(None)  # midnights of a zone are 23 to 25 hours apart
        if bool((local == local.dt.truncate("1d")).all()):
            return _calendar(local.cast(pl.Date))
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
    zone = names.dtype.time_zone if isinstance(names.dtype, pl.Datetime) else None
    if zone is not None:
        local = _named(values, unit, names.dt.replace_time_zone(None))
        named = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
        later = local.dt.offset_by("1h").dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
        return named.fill_null(later)  # of a day whose midnight is skipped
    if unit == "day":
        return pl.Series(values.astype(np.int32)).cast(pl.Date).cast(names.dtype)
    day = 1 if unit == "last day" else int(unit.removeprefix("day "))
    dates: list[Any] = [datetime.date(int(value) // 12, int(value) % 12 + 1, day) for value in values]
    series = pl.Series(dates)
    return (series.dt.month_end() if unit == "last day" else series).cast(names.dtype)
