"""Config files as models, data and settings; titles in files; and the data of a run, from the config that it stores."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.analysis.explain.counterfactual import OtherDataError, same_data
from plait.config.config_schema import READ, Table, checked, is_names, is_table, is_text, parsed
from plait.data.bound import Data
from plait.data.encoding.columns import kind
from plait.data.encoding.names import Labels
from plait.data.titles import choose_columns, place_of
from plait.errors import (
    ConfigLocation,
    DataError,
    FileLocation,
    Location,
    ModelError,
    ParameterError,
    PlaitError,
    StorageError,
    TableLocation,
    suggestion,
)
from plait.machine import path_fault
from plait.model import Model
from plait.storage.fitted import Fitted
from plait.storage.run_folder import manifest, refuse_older

if TYPE_CHECKING:
    from plait.data import Relation
    from plait.data.encoding.names import Labels
    from plait.data.outofcore.packed import Packed


def read_titles(
    source: str, options: Mapping[str, Any], axis: str, labels: Labels | None, id: str | None, title: str | None
) -> tuple[Any, dict[str, Any]]:
    """A table of ids and titles, and the options of `plait.read` for it.

    `labels`: names of the axis, if any; `id`, `title`: the columns, if given.
    """
    from plait.files.read import read
    from plait.files.source_kinds import options_for

    where, options = place_of(axis), dict(options)
    table = read(source, **options)
    if not hasattr(table, "columns"):
        raise DataError(
            "expected a table of titles, got an array.",
            location=where,
            hint="Give a table with columns of ids and titles.",
        )
    called = (axis,) if labels is None else (axis, labels.axis)
    chosen = choose_columns(table.columns, called, where, id, title)
    texts = [chosen[1]] if labels is None or kind(labels.names) != "strings" else list(chosen)
    numeric = [column for column in texts if table[column].dtype.is_numeric()]
    if numeric and "text" in options_for(source, options.get("kind")):
        options["text"] = [*options.get("text", ()), *numeric]
        table = read(source, **options)
    frame = table.select(chosen)
    clear = choose_columns(frame.columns, called, where) == chosen  # else renamed, so that `fit` finds them
    return frame if clear else frame.rename(dict(zip(chosen, (axis, "title")))), options


OF_RELATION = ("value", "observed", "likelihood", "unseen", "weight", "duplicates", "self_links")


@dataclass(frozen=True)
class Config:
    """A checked file. `path`: as given; `text`: its content; `changes`: settings that override it.

    `blocks`: a folder with packed relations, whose sources are not read.
    """

    path: str
    text: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    blocks: str | None = None

    @cached_property
    def tables(self) -> Table:
        """The file as dictionaries, with names and types checked."""
        return checked(self.path, parsed(self.path, self.text))

    @cached_property
    def model(self) -> Model:
        try:
            return Model(self.tables["model"])
        except ModelError as error:
            raise error.within(ConfigLocation(self.path, "model")) from None

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of `plait.fit` other than model, data, fixed, entities and titles."""
        from plait.inference.gamma import Gamma

        settings = dict(self.tables.get("fit", {}))
        if "rank" in self.tables:
            settings["rank"] = self.tables["rank"]
        if "prior" in settings:
            prior = settings["prior"]
            by_factor = any(map(is_table, prior.values()))
            with self._naming("[fit.prior]"):
                settings["prior"] = {name: Gamma(**one) for name, one in prior.items()} if by_factor else Gamma(**prior)
        if "adapt_prior" in settings:
            settings["adapt_prior"] = _ties(settings["adapt_prior"])
        return settings | dict(self.changes)

    @property
    def compared(self) -> dict[str, Any]:
        """Arguments of `plait.grid_search` from [grid_search]."""
        settings = dict(self.tables.get("grid_search", {}))
        if "adapt_prior" in settings:
            settings["adapt_prior"] = [_ties(adapt) for adapt in settings["adapt_prior"]]
        return settings

    def data(self) -> "dict[str, Relation | Packed]":
        """Every relation: its files read, or its blocks."""
        packed = self._packed()
        others = {name: table for name, table in self.tables["relations"].items() if name not in packed}
        return packed | {name: self._relation(name, table) for name, table in others.items()}

    def _packed(self) -> "dict[str, Packed]":
        """Relations that are read from blocks."""
        from plait.data.outofcore.packed import Packed

        if self.blocks is None:
            return {}
        folder = Packed.open(self.blocks)
        return {name: folder for name in self.tables["relations"] if name in folder.relations}

    def scans(self) -> "dict[str, Relation]":
        """Every relation with its files scanned, not read, where possible."""
        return {name: self._relation(name, table, scan=True) for name, table in self.tables["relations"].items()}

    def fixed(self) -> dict[str, Any]:
        """Given factors, read from their files: exposures, or arrays."""
        from plait.data import Exposure

        fixed: dict[str, Any] = {}
        for name, table in self.tables.get("exposures", {}).items():
            with self._naming(f"[exposures.{name}]"):
                given = self._read(table, self.model.factor(name).indices)
                options = {key: table[key] for key in ("value", "default") if key in table}
                if is_table(table.get("columns")):
                    options["columns"] = table["columns"]
                fixed[name] = given if self.model.factor(name).latent else Exposure(given, **options)
        return fixed

    def entities(self) -> dict[str, Any] | None:
        """Declared entities by axis; None without any."""
        declared = self.tables.get("entities")
        if not declared:
            return None
        return {axis: self._names(axis, names) if is_table(names) else names for axis, names in declared.items()}

    def titles(self, labels: "Mapping[str, Labels]") -> dict[str, Any] | None:
        """Tables of titles by axis, read from their files; None without any. `labels`: names by axis and index."""

        titles = {}
        for axis, table in self.title_tables.items():
            source, own = self.location(table["source"]), labels.get(axis)
            options = self.options(table)
            titles[axis], _ = read_titles(source, options, axis, own, table.get("id"), table.get("title"))
        return titles or None

    @property
    def title_tables(self) -> dict[str, Table]:
        """[titles] by axis, as tables with a source."""
        given = self.tables.get("titles", {})
        return {axis: table if is_table(table) else {"source": table} for axis, table in given.items()}

    def location(self, source: str) -> str:
        """Path of a source relative to the working directory; URLs stay."""
        folder, lite = os.path.dirname(self.path), "sqlite:///"
        if source.startswith(lite):
            return lite + os.path.join(folder, source.removeprefix(lite))
        return source if "://" in source else os.path.join(folder, source)

    def changed(self, **changes: Any) -> "Config":
        """The file with other settings; None keeps one."""
        kept = {name: value for name, value in changes.items() if value is not None}
        return replace(self, changes={**self.changes, **kept})

    def to_dict(self) -> dict[str, Any]:
        """What a run stores to read the same data again, as JSON, without passwords in URLs."""
        text = re.sub(r"(://[^/\s:@]*):[^/\s@]*@", r"\1@", self.text)
        blocks = {} if self.blocks is None else {"blocks": os.path.abspath(self.blocks)}
        return {"path": os.path.abspath(self.path), "text": text, "changes": dict(self.changes), **blocks}

    @classmethod
    def from_dict(cls, remembered: Mapping[str, Any]) -> "Config":
        """The config of `to_dict`, with sources at their old places."""
        return cls(remembered["path"], remembered["text"], dict(remembered["changes"]), remembered.get("blocks"))

    def _relation(self, name: str, table: Table, *, scan: bool = False) -> "Relation":
        from plait.data import Relation

        with self._naming(f"[relations.{name}]"):
            columns, indices = table.get("columns"), self.model.equation(name).indices
            scanned = self._scan(table, indices) if scan and not table.get("binary") else None
            data = self._read(table, indices) if scanned is None else scanned
            if table.get("binary"):
                data = _as_binary(data, table.get("value", "value"))
            named: Table = columns if columns is not None and is_table(columns) else {}
            texts = _text_columns(data, {index: named.get(index, index) for index in indices})
            return Relation(
                data,
                ignore_columns=None if scanned is None else table.get("ignore_columns"),
                columns=columns if is_table(columns) else None,
                indices=table.get("indices"),
                missing=self._missing(table.get("missing"), texts),
                hidden=self._missing(table.get("hidden"), texts),
                **{key: table[key] for key in OF_RELATION if key in table},
            )

    def _missing(self, missing: Any, texts: Collection[str]) -> Any:
        if missing is None:
            return None
        sources = missing if isinstance(missing, list) else [missing]
        return [self._cells(source if is_table(source) else {"source": source}, texts) for source in sources]

    def _cells(self, table: Table, texts: Collection[str]) -> Any:
        """Read a table of cells; columns whose names are text in the relation stay text, though all look like numbers.

        A part of a table has fewer names, so its columns may look like numbers where those of the whole do not.
        """
        from plait.files.source_kinds import options_for

        frame = self._read(table)
        columns = getattr(frame, "columns", ())
        numeric = [column for column in columns if column in texts and frame[column].dtype.is_numeric()]
        if not numeric or "text" not in options_for(self.location(table["source"]), table.get("kind")):
            return frame
        return self._read({**table, "text": [*table.get("text", []), *numeric]})

    def _names(self, axis: str, table: Table) -> Any:
        frame = self._read(table)
        if not hasattr(frame, "columns"):
            return frame
        column = table.get("column", frame.columns[0] if len(frame.columns) == 1 else None)
        if column not in frame.columns:
            what = "needs `column`" if column is None else f"has the unknown column {column!r}"
            raise DataError(
                f"[entities] {axis} {what}; {table['source']} has {', '.join(map(repr, frame.columns))}.",
                location=FileLocation(self.path),
                hint=(
                    f'{suggestion(column, frame.columns)}Write {axis} = {{ source = "{table["source"]}", '
                    'column = "…" }.'
                ),
            )
        return frame[column]

    def _scan(self, table: Table, indices: tuple[str, ...]) -> Any:
        """A source that is read later; None where that is impossible."""
        from plait.files.scan import scan
        from plait.files.source_kinds import ARROW, PARQUET, SQL, TEXT, format_of

        source, options = self.location(table["source"]), self.options(table, indices)
        kind = format_of(source, options.get("kind"))
        if kind is SQL:
            query = options.pop("query", None)
            return scan(source, **options) if query is None else scan(query, connection=source, **options)
        return scan(source, **options) if kind in (TEXT, PARQUET, ARROW) else None

    def _read(self, table: Table, indices: tuple[str, ...] = ()) -> Any:
        """Content of a source: a table without ignored columns, or an array."""
        from plait.files.read import read

        frame = read(self.location(table["source"]), **self.options(table, indices))
        for column in table.get("ignore_columns", ()):
            if column not in getattr(frame, "columns", ()):
                raise DataError(
                    f"`ignore_columns`: {table['source']} has no column {column!r}.",
                    hint=f"{suggestion(column, getattr(frame, 'columns', ()))}Remove it.",
                )
            frame = frame.drop(column)
        return frame

    def indices(self, group: str, name: str) -> tuple[str, ...]:
        """Indices of a relation, or of a given factor."""
        owner = self.model.equation(name) if group == "relations" else self.model.factor(name)
        return owner.indices

    def options(self, table: Table, indices: tuple[str, ...] = ()) -> dict[str, Any]:
        """Options of `plait.read` for the source of a table."""
        from plait.files.source_kinds import TNS, format_of, options_for

        source, kind = self.location(table["source"]), table.get("kind")
        known = options_for(source, kind)
        options = {key: table[key] for key in READ if key in table}
        columns = {
            "value": table.get("value"),
            "weight": None if table.get("weight") == "auto" else table.get("weight"),
        }
        numbers = list(filter(is_text, columns.values()))
        if numbers and "value" in known:
            options["value"] = numbers
        if is_names(table.get("columns")):
            options["columns"] = table["columns"]
        elif indices and format_of(source, kind) is TNS:  # columns have positions instead of names
            options["columns"] = [*indices, "value"]
        return options

    def locate(self, location: Location | str | None) -> Location | str | None:
        """Return the file, and its line, of a row of a relation, an exposure or a table of titles."""
        source = self._source(location) if isinstance(location, TableLocation) else None
        if source is None or not isinstance(location, TableLocation):
            return location
        return located_in(source[0], location, source[1])

    def _source(self, location: TableLocation) -> tuple[str, dict[str, Any]] | None:
        """Source of a table, and the options of `plait.read`."""
        for axis, entry in self.title_tables.items():
            if location.table == f"titles of {axis}":
                return self.location(entry["source"]), self.options(entry)
        for group in ("relations", "exposures"):
            if location.table not in self.tables.get(group, {}):
                continue
            entry, indices = self.tables[group][location.table], self.indices(group, location.table)
            if location.part in ("missing", "hidden"):
                given, number = entry.get(location.part, []), location.number or 0
                ones = given if isinstance(given, list) else [given]
                if len(ones) <= number:
                    return None
                entry, indices = ones[number] if is_table(ones[number]) else {"source": ones[number]}, ()
            return self.location(entry["source"]), self.options(entry, indices)
        return None

    def _naming(self, table: str) -> "_Naming":
        return _Naming(self, table)


@dataclass(frozen=True)
class _Naming:
    """Context in which errors about options name the file and its table."""

    config: Config
    table: str

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PlaitError) and error.location is None:
            error.location = ConfigLocation(self.config.path, self.table)


def located_in(source: str, table: TableLocation, options: Mapping[str, Any]) -> FileLocation:
    """Return a location in the file that a table was read from; options: those of `plait.read`."""
    from plait.files.read import line_of
    from plait.files.source_kinds import source_name

    try:
        lines = [line_of(source, row, **options) for row in table.rows]
    except (PlaitError, OSError):  # the file has changed
        lines = []
    locations = tuple(line for line in lines if line is not None)
    rows = () if len(locations) == len(table.rows) else table.rows
    return FileLocation(source_name(source), () if rows else locations, table.column, rows)


def read_config(path: str | os.PathLike[str], blocks: str | os.PathLike[str] | None = None) -> Config:
    """Read and check a TOML file; the sources it names are not read yet. blocks: a folder that has some packed."""
    path = os.fspath(path)
    if fault := path_fault(path):
        raise ParameterError(
            f"this is not a valid path: {fault}.",
            location=FileLocation(path),
            hint="Give the path of a TOML file with model and relations.",
        )
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        raise ParameterError(
            f"the file {path!r} does not exist.",
            hint="Give the path of a TOML file with model and relations.",
        ) from None
    except IsADirectoryError:
        raise ParameterError(
            f"{path!r} is a folder.",
            hint="Give the path of a TOML file with model and relations.",
        ) from None
    except UnicodeDecodeError:
        raise ParameterError(
            "the file is not UTF-8 text.",
            location=FileLocation(path),
            hint="Give a TOML file with model and relations.",
        ) from None
    config = Config(path, text, blocks=None if blocks is None else os.fspath(blocks))
    _check_names(config)
    return config


def _text_columns(data: Any, named: Mapping[str, str]) -> set[str]:
    """Indices of a table whose names are text, and the columns that hold them; named: index -> column."""
    schema = getattr(data, "schema", {})  # arrays have none, nor has a scan before it is read
    return {name for pair in named.items() if pair[1] in schema and not schema[pair[1]].is_numeric() for name in pair}


def _ties(adapt: Any) -> Any:
    """Value of `adapt_prior`: a tie, or one per factor."""
    return {name: _tie(one) for name, one in adapt.items()} if is_table(adapt) else _tie(adapt)


def _tie(value: Any) -> Any:
    return None if value is False else value


def _check_names(config: Config) -> None:
    """Check that tables are those of the model's relations and factors, and that every relation has one."""
    model, tables = config.model, config.tables
    for group, known in (("relations", model.relations), ("exposures", model.factors)):
        for name in tables.get(group, {}):
            if name not in known:
                noun = group.removesuffix("s") if group == "relations" else "factor"
                raise ParameterError(
                    f"[{group}.{name}] is not a {noun} of the model.",
                    location=FileLocation(config.path),
                    hint=f"{suggestion(name, known)}The {noun}s are {', '.join(known)}.",
                )
    for name in model.relations:
        if name not in tables["relations"]:
            raise ParameterError(
                f"relation {name} has no data.",
                location=FileLocation(config.path),
                hint=f"Add [relations.{name}] with `source`, or remove its equation.",
            )


def _as_binary(data: Any, value: str) -> Any:
    """Links of 0 and 1: values above 0 become 1, repeated rows one. Bad values stay, so that binding refuses them."""
    import polars as pl

    if not isinstance(data, pl.DataFrame):
        values = getattr(data, "data", data) if hasattr(data, "nnz") else np.asarray(data)
        if not np.issubdtype(values.dtype, np.number) or (values < 0).any() or np.isinf(values).any():
            return data
        return data.sign() if hasattr(data, "nnz") else np.sign(values)
    others = [column for column in data.columns if column != value]
    if value in data.columns:
        column = data[value]
        if not column.dtype.is_numeric() or column.null_count() or (column < 0).any() or not column.is_finite().all():
            return data
        data = data.with_columns(column.sign().cast(pl.Float64).alias(value)).sort(
            value, descending=True, maintain_order=True
        )
    return data.unique(others, keep="first", maintain_order=True)


def data_of(fit: Fitted, run: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Data:
    """Data of a run's config, if they are still those of the fit.

    `folder`: where the config's files are looked up; None: at their old places.
    """
    config = config_of(run, folder)
    try:
        data = fit.model.bind(config.data(), entities=config.entities())  # it may have evidence terms
        return same_data(fit, data)
    except OtherDataError:
        raise ParameterError(
            "the data have changed since the fit, so a refit is not comparable.",
            location=FileLocation(config.path),
            hint="Restore them, or fit again with `plait fit`.",
        ) from None
    except PlaitError as error:
        raise error.relocate(config.locate)  # noqa: B904 (the same error)


def config_of(run: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Config:
    """The config that a run stores."""
    header = manifest(Path(run))
    refuse_older(run, header)
    remembered = header["extra"].get("config")
    if remembered is None:
        raise StorageError(
            "`plait fit` did not make this run, so the paths of its data are unknown.",
            location=FileLocation(Path(run)),
            hint=f"Use Python: plait.load({str(run)!r}).explain(…, exact=True, data=data).",
        )
    config = Config.from_dict(remembered)
    if folder is None:
        return config
    return replace(config, path=os.path.join(os.fspath(folder), os.path.basename(config.path)))
