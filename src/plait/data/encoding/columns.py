"""Columns of any library as polars series of labels, or NumPy arrays of numbers. Polars is imported when
first needed.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait.errors import DataError, Named, TableLocation, quoted

if TYPE_CHECKING:
    import polars as pl

LABELS = "Names of entities are integers, strings, booleans, dates or times"


def kind(series: "pl.Series") -> str:
    """Kind of labels; one axis has labels of one kind."""
    import polars as pl

    dtype = series.dtype
    if isinstance(dtype, pl.Datetime):
        return f"times in {dtype.time_zone}" if dtype.time_zone else "times without zone"
    if dtype.is_integer():
        return "integers"
    words = {
        pl.String: "strings",
        pl.Boolean: "booleans",
        pl.Date: "dates",
    }
    return words.get(dtype.base_type(), "times of day" if dtype == pl.Time else "nothing")


def label_series(column: Any, where: Named) -> "pl.Series":
    """Labels of a column, without nulls, in one type per kind; integers keep their width (see `widened`). `where` names
    the column in errors.
    """
    import polars as pl

    where = TableLocation.of(where)
    series = to_polars(column, where)
    if len(series) == 0:
        return series.clear() if kind(series) != "nothing" else pl.Series(dtype=pl.Null)
    if series.dtype.is_float():
        series = series.fill_nan(None)
    if series.null_count():
        row = int(series.is_null().arg_max() or 0)
        raise DataError(
            "the name of the entity is missing.",
            location=where.at(row=row),
            hint="Add the name, or remove the row.",
        )
    return _one_type(series, where)


def _one_type(series: "pl.Series", where: TableLocation) -> "pl.Series":
    import polars as pl

    dtype = series.dtype
    if dtype.is_integer():
        return _integers(series, where)
    if dtype.is_float():
        # pandas turns integers into floats in a column with gaps.
        whole = (series == series.round()) & (series.abs() < 2.0**53)
        if whole.all():
            return series.cast(pl.Int64)
        row = int((~whole).arg_max() or 0)
        raise DataError(
            f"{series[row]} is not an integer.",
            location=where.at(row=row),
            hint=f"{LABELS}; round the column, or convert it to strings.",
        )
    if dtype in (pl.Categorical, pl.Enum):
        return series.cast(pl.String)
    if isinstance(dtype, pl.Datetime):
        coarse = series.dt.cast_time_unit("us")
        if dtype.time_unit == "ns" and not coarse.dt.cast_time_unit("ns").equals(series):
            raise DataError(
                "times are finer than a microsecond.",
                location=where,
                hint="Round the column, or convert it to strings.",
            )
        return coarse
    if kind(series) == "nothing":
        raise DataError(
            f"names of entities cannot be of type {dtype}.",
            location=where,
            hint=f"{LABELS}; convert the column to strings.",
        )
    return series


def _integers(series: "pl.Series", where: TableLocation) -> "pl.Series":
    import polars as pl

    # Wider types are not named: polars 1.30 has no UInt128.
    if series.dtype in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64):
        return series
    for dtype in (pl.Int64, pl.UInt64):
        whole = series.cast(dtype, strict=False)
        if not whole.null_count():
            return whole
    raise _too_wide(series.min(), series.max(), where)


def widened(series: "pl.Series") -> "pl.Series":
    """Labels in one type per kind: integers as int64, or uint64 beyond it."""
    import polars as pl

    if not series.dtype.is_integer() or series.dtype == pl.Int64:
        return series
    whole = series.cast(pl.Int64, strict=False)
    return series if whole.null_count() else whole


def _too_wide(least: object, most: object, where: TableLocation) -> DataError:
    return DataError(
        f"integers from {least} to {most} do not fit into 64 bits.",
        location=where,
        hint="Convert the column to strings.",
    )


def number_array(column: Any, where: Named) -> NDArray[np.float64]:
    """Numbers of a column as float64; null becomes NaN."""
    return as_doubles(number_series(column, where))


def number_series(column: Any, where: Named) -> "pl.Series":
    """Numbers of a column in their own type; null stays null."""
    import polars as pl

    where = TableLocation.of(where)
    series = to_polars(column, where)
    if len(series) and not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        row = int(series.is_not_null().arg_max() or 0)
        raise DataError(
            f"{quoted(series[row])} is not a number; the column is of type {series.dtype}.",
            location=where.at(row=row),
            hint="Convert the column to numbers.",
        )
    return series


def as_doubles(series: "pl.Series") -> NDArray[np.float64]:
    """Numbers as float64; null becomes NaN."""
    import polars as pl

    if len(series) == 0:
        return np.zeros(0)
    if series.null_count() == 0 and series.dtype.to_python() in (int, float):  # the usual case, without a query plan
        return series.to_numpy().astype(np.float64, copy=False)
    return series.cast(pl.Float64).fill_null(np.nan).to_numpy()


def to_polars(column: Any, where: Named) -> "pl.Series":
    """A column as a polars series with the same values; a categorical column by its values."""
    import polars as pl

    if isinstance(column, pl.Series):
        return column
    import narwhals.stable.v2 as nw

    where = TableLocation.of(where)
    column = nw.to_native(column, pass_through=True)
    if isinstance(column, pl.Series):
        return column
    library = type(column).__module__.partition(".")[0]
    if library == "pandas":
        return _from_pandas(column, where)
    if library == "pyarrow":
        return _from_arrow(column, where)
    if isinstance(column, np.ndarray):
        return _from_numpy(column, where)
    if isinstance(column, (str, bytes)) or not hasattr(column, "__iter__"):
        raise DataError(
            f"expected a column or a list of values, got {quoted(column)}.",
            location=where,
            hint="Put it into a list.",
        )
    return _from_objects(list(column), where)


def _from_pandas(column: Any, where: TableLocation) -> "pl.Series":
    import polars as pl

    dtype = column.dtype
    if str(dtype) == "category":
        codes = pl.Series(np.asarray(column.cat.codes if hasattr(column, "cat") else column.codes, np.int64))
        categories = column.cat.categories if hasattr(column, "cat") else column.categories
        return _from_pandas(categories, where).gather(codes.set(codes < 0, None))
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return _from_numpy(column.to_numpy(), where)
    zone = getattr(dtype, "tz", None)
    if zone is not None:
        # The numbers of a column with a time zone are UTC.
        plain = column.to_numpy(dtype="datetime64[ns]")
        return _from_numpy(plain, where).dt.replace_time_zone("UTC").dt.convert_time_zone(str(zone))
    values = column.to_numpy(dtype=object, copy=True)
    values[np.asarray(column.isna())] = None
    return _from_objects(values.tolist(), where)


def _from_arrow(column: Any, where: TableLocation) -> "pl.Series":
    import polars as pl
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return pl.Series(pl.from_arrow(column))
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise DataError(
            f"the column has the unsupported type {column.type}.", location=where, hint=f"{LABELS}."
        ) from error


def _from_numpy(column: NDArray[Any], where: TableLocation) -> "pl.Series":
    import polars as pl

    if column.ndim != 1:
        raise DataError(
            f"expected one column, got an array of shape {column.shape}.",
            location=where,
            hint="Give an array of one dimension.",
        )
    if column.dtype.kind == "O":
        return _from_objects(column.tolist(), where)
    if column.dtype.kind == "M" and np.datetime_data(column.dtype)[0] not in ("D", "ms", "us", "ns"):
        column = column.astype("datetime64[us]")
    if column.dtype == np.float16:
        column = column.astype(np.float32)
    if column.dtype.kind not in "biufUMmS":
        raise DataError(f"the array has the unsupported type {column.dtype}.", location=where, hint=f"{LABELS}.")
    return pl.Series(column)


def _from_objects(values: list[Any], where: TableLocation) -> "pl.Series":
    """Python objects of one type; None is a gap."""
    import polars as pl

    types = {type(value) for value in values} - {type(None)}
    if float in types and len(types) > 1:  # NaN is a gap in pandas
        values = [None if isinstance(value, float) and value != value else value for value in values]
        types = {type(value) for value in values} - {type(None)}
    if len(types) > 1 and not all(_is_number(kind) for kind in types):
        first, second = sorted(types, key=lambda kind: next(k for k, v in enumerate(values) if type(v) is kind))[:2]
        row = next(k for k, value in enumerate(values) if type(value) is second)
        raise DataError(
            f"{quoted(values[row])} is {second.__name__}, but the column begins with {first.__name__}.",
            location=where.at(row=row),
            hint="Convert the column to one type.",
        )
    try:
        return pl.Series(values, strict=len(types) <= 1)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
        if types == {int}:
            whole = [value for value in values if value is not None]
            raise _too_wide(min(whole), max(whole), where) from error
        names = ", ".join(sorted(kind.__name__ for kind in types))
        raise DataError(
            f"the column contains values of the types {names}.",
            location=where,
            hint="Convert the column to a built-in type of Python.",
        ) from error


def _is_number(kind: type) -> bool:
    return kind is not bool and issubclass(kind, (int, float, np.integer, np.floating))
