"""Cells from the command line: ``index=name`` pairs, and tables in files."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from plait.config import Config
from plait.config.file import located_in
from plait.data.labels.typed import read_label
from plait.data.reading.relation import Relation
from plait.errors import DataError, FileLocation, Location, SettingError, TableLocation, relocating, suggestion
from plait.files import options_for
from plait.files.read import read
from plait.result import Fit
from plait.run.folder import manifest


def named_cell(fit: "Fit", relation: str, pairs: Sequence[str]) -> dict[str, Any]:
    """``["user=ann lee", "day=3"]`` -> ``{"user": "ann lee", "day": 3}``, each name of its axis's kind."""
    indices, cell = fit.model.equation(relation).indices, dict[str, Any]()
    for pair in pairs:
        index, equals, name = pair.partition("=")
        if not equals:
            example = shlex.quote(f"{indices[0]}={pair}") if indices else "index=name"
            raise SettingError(f"{pair!r} does not say which index it is.", hint=f"Write index=name: {example}.")
        if index not in indices:
            raise SettingError(
                f"{index!r} is no index of {relation}.",
                hint=f"{suggestion(index, indices)}It has {', '.join(indices)}.",
            )
        if index in cell:
            raise SettingError(f"{index} is given twice: {cell[index]!r} and {name!r}.", hint="Give it once.")
        cell[index] = read_label(fit.labels[index], name, index)
    return cell


@dataclass(frozen=True)
class Cells:
    """A table of cells, how it was read, and how the run's own source calls the column of values."""

    table: "pl.DataFrame"
    path: str
    options: dict[str, Any]
    value: str | None


def locating(tables: "Mapping[str, Cells | Sequence[Cells]]") -> AbstractContextManager[None]:
    """Let errors about tables name the files they were read from; several under one name are numbered."""
    named: dict[str, Cells] = {}
    for name, cells in tables.items():
        several = [cells] if isinstance(cells, Cells) else cells
        named |= {f"{name}[{n}]": one for n, one in enumerate(several)}
        if len(several) == 1:
            named[name] = several[0]

    def locate(location: Location | str | None) -> Location | str | None:
        if not isinstance(location, TableLocation):
            return location
        cells = named.get(location.table if location.number is None else f"{location.table}[{location.number}]")
        return location if cells is None else located_in(cells.path, location, cells.options)

    return relocating(locate)


def read_cells(fit: "Fit", run: Path, relation: str, path: str, given: Mapping[str, Any]) -> Cells:
    """Cells from a file: columns by the names of the indices, or by those of the run's own source.

    given: options of `plait.read`.
    """
    indices = fit.model.equation(relation).indices
    named, value = _source_columns(fit, run, relation)
    table, options = _read(fit, indices, named, path, dict(given))
    if not hasattr(table, "columns"):
        raise DataError(
            "this is an array, but cells are a table.",
            location=FileLocation(path),
            hint="Give a column for each index.",
        )
    have = set(table.columns)
    table = table.rename({c: i for i, c in named.items() if i not in have and c in have})
    return Cells(table, path, options, value)


def read_guests(fit: "Fit", run: Path, relation: str, given: Sequence[str]) -> dict[str, Cells]:
    """Rows of guests by relation, from ``file`` (rows of the relation that is asked about) or ``name=file``."""
    found: dict[str, Cells] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if equals and name not in fit.model.relations and not Path(text).exists():
            have = ", ".join(fit.model.relations)
            raise SettingError(
                f"--new: {name!r} is no relation of the model.",
                hint=f"{suggestion(name, fit.model.relations)}It has {have}.",
            )
        if not equals or name not in fit.model.relations:
            name, path = relation, text
        if name in found:
            raise SettingError(f"--new gives rows of {name} twice.", hint="Put them into one file.")
        found[name] = read_cells(fit, run, name, path, {})
    return found


def with_values(fit: "Fit", relation: str, cells: Cells, value: str | None) -> Any:
    """A table of cells to test by, and which column has the values, as far as anybody said."""
    if value is None and fit.known[relation].value is None and cells.value in cells.table.columns:
        value = cells.value  # the config of an earlier version's run knows it, the fit does not
    return cells.table if value is None else Relation(cells.table, value=value)


def _read(
    fit: "Fit", indices: Sequence[str], named: Mapping[str, str], path: str, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """What a file holds, and the options it was read with: ids that are text in the run stay text."""
    table = read(path, **options)
    texts = {column for index in indices if _is_text(fit, index) for column in (index, named.get(index, index))}
    columns = getattr(table, "columns", ())
    numeric = [column for column in columns if column in texts and table[column].dtype.is_numeric()]
    if numeric and "text" in options_for(path, options.get("kind")):
        options["text"] = numeric
        table = read(path, **options)
    return table, options


def _source_columns(fit: "Fit", run: Path, relation: str) -> tuple[Mapping[str, str], str | None]:
    """Index -> column of the relation's source and its column of values, as far as anybody said."""
    known = fit.known[relation]
    remembered = manifest(run)["extra"].get("config")
    if known.columns or known.value is not None or remembered is None:
        return known.columns, known.value
    table = Config.from_dict(remembered).tables["relations"].get(relation, {})  # a run of an earlier version
    columns = table.get("columns")
    return (columns if isinstance(columns, dict) else {}), table.get("value")


def _is_text(fit: "Fit", index: str) -> bool:
    return bool(fit.labels[index].names.dtype == pl.String)
