"""Titles in files: read so that ids are of the kind that the axis has, and titles are text.

A config file as models, data and settings.

The data of a run once more, from the config that it remembers.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """A table of ids and titles alone, and the options of `plait.read` that it was read with.

    labels: the names of the axis, which is perhaps none; id, title: the columns, where somebody said.
    """
    from plait.files.read import read
    from plait.files.source_kinds import options_for

    where, options = place_of(axis), dict(options)
    table = read(source, **options)
    if not hasattr(table, "columns"):
        raise DataError(
            "this is an array, but titles are a table.", location=where, hint="Give columns of ids and titles."
        )
    called = (axis,) if labels is None else (axis, labels.axis)
    chosen = choose_columns(table.columns, called, where, id, title)
    texts = [chosen[1]] if labels is None or kind(labels.names) != "strings" else list(chosen)
    numeric = [column for column in texts if table[column].dtype.is_numeric()]
    if numeric and "text" in options_for(source, options.get("kind")):
        options["text"] = [*options.get("text", ()), *numeric]
        table = read(source, **options)
    found = table.select(chosen)
    clear = choose_columns(found.columns, called, where) == chosen  # else what was said is said by names
    return found if clear else found.rename(dict(zip(chosen, (axis, "title")))), options


OF_RELATION = ("value", "observed", "likelihood", "unseen", "weight", "duplicates", "self_links")


@dataclass(frozen=True)
class Config:
    """A checked file. path: as the user wrote it; text: all of it; changes: settings said elsewhere, which win.

    blocks: a folder in which relations are packed; the sources of these are not read.
    """

    path: str
    text: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    blocks: str | None = None

    @cached_property
    def tables(self) -> Table:
        """The file as dictionaries, names and types checked."""
        return checked(self.path, parsed(self.path, self.text))

    @cached_property
    def model(self) -> Model:
        """The equations."""
        try:
            return Model(self.tables["model"])
        except ModelError as error:
            raise error.within(ConfigLocation(self.path, "model")) from None

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `plait.fit` beside model, data, fixed, labels and titles."""
        from plait.inference.gamma import Gamma

        found = dict(self.tables.get("fit", {}))
        if "rank" in self.tables:
            found["rank"] = self.tables["rank"]
        if "prior" in found:
            prior = found["prior"]
            by_factor = any(map(is_table, prior.values()))
            with self._naming("[fit.prior]"):
                found["prior"] = {name: Gamma(**one) for name, one in prior.items()} if by_factor else Gamma(**prior)
        if "adapt_prior" in found:
            found["adapt_prior"] = _ties(found["adapt_prior"])
        return found | dict(self.changes)

    @property
    def compared(self) -> dict[str, Any]:
        """The arguments of `plait.grid_search` beside those of `plait.fit`: what [grid_search] says."""
        found = dict(self.tables.get("grid_search", {}))
        if "adapt_prior" in found:
            found["adapt_prior"] = [_ties(adapt) for adapt in found["adapt_prior"]]
        return found

    def data(self) -> "dict[str, Relation | Packed]":
        """Every relation: its files read, or the blocks that it is in."""
        packed = self._packed()
        others = {name: table for name, table in self.tables["relations"].items() if name not in packed}
        return packed | {name: self._relation(name, table) for name, table in others.items()}

    def _packed(self) -> "dict[str, Packed]":
        """The relations that are read from blocks."""
        from plait.data.outofcore.packed import Packed

        if self.blocks is None:
            return {}
        folder = Packed.open(self.blocks)
        return {name: folder for name in self.tables["relations"] if name in folder.relations}

    def scans(self) -> "dict[str, Relation]":
        """Every relation, its files described and not read; what cannot be is read."""
        return {name: self._relation(name, table, scan=True) for name, table in self.tables["relations"].items()}

    def fixed(self) -> dict[str, Any]:
        """The given factors, their files read: exposures, or arrays."""
        from plait.data import Exposure

        found: dict[str, Any] = {}
        for name, table in self.tables.get("exposures", {}).items():
            with self._naming(f"[exposures.{name}]"):
                given = self._read(table, self.model.factor(name).indices)
                options = {key: table[key] for key in ("value", "default") if key in table}
                if is_table(table.get("columns")):
                    options["columns"] = table["columns"]
                found[name] = given if self.model.factor(name).latent else Exposure(given, **options)
        return found

    def entities(self) -> dict[str, Any] | None:
        """Declared entities by axis; None where there are none."""
        declared = self.tables.get("entities")
        if not declared:
            return None
        return {axis: self._names(axis, names) if is_table(names) else names for axis, names in declared.items()}

    def titles(self, labels: "Mapping[str, Labels]") -> dict[str, Any] | None:
        """Tables of titles by axis, their files read; None where there are none. labels: names by axis and index."""

        found = {}
        for axis, table in self.title_tables.items():
            source, own = self.location(table["source"]), labels.get(axis)
            options = self.options(table)
            found[axis], _ = read_titles(source, options, axis, own, table.get("id"), table.get("title"))
        return found or None

    @property
    def title_tables(self) -> dict[str, Table]:
        """What [titles] says by axis, as tables with a source."""
        given = self.tables.get("titles", {})
        return {axis: table if is_table(table) else {"source": table} for axis, table in given.items()}

    def location(self, source: str) -> str:
        """Where a source is: a file as seen from here, or a database URL as it is."""
        folder, lite = os.path.dirname(self.path), "sqlite:///"
        if source.startswith(lite):
            return lite + os.path.join(folder, source.removeprefix(lite))
        return source if "://" in source else os.path.join(folder, source)

    def changed(self, **changes: Any) -> "Config":
        """The same file with other settings; None leaves one as it was."""
        kept = {name: value for name, value in changes.items() if value is not None}
        return replace(self, changes={**self.changes, **kept})

    def to_dict(self) -> dict[str, Any]:
        """What a run must remember to read the same data again; JSON-able. Passwords in URLs are left out."""
        text = re.sub(r"(://[^/\s:@]*):[^/\s@]*@", r"\1@", self.text)
        blocks = {} if self.blocks is None else {"blocks": os.path.abspath(self.blocks)}
        return {"path": os.path.abspath(self.path), "text": text, "changes": dict(self.changes), **blocks}

    @classmethod
    def from_dict(cls, remembered: Mapping[str, Any]) -> "Config":
        """The config that `to_dict` described; its sources are where they were."""
        return cls(remembered["path"], remembered["text"], dict(remembered["changes"]), remembered.get("blocks"))

    def _relation(self, name: str, table: Table, *, scan: bool = False) -> "Relation":
        from plait.data import Relation

        with self._naming(f"[relations.{name}]"):
            columns, indices = table.get("columns"), self.model.equation(name).indices
            scanned = self._scan(table, indices) if scan else None
            return Relation(
                self._read(table, indices) if scanned is None else scanned,
                ignore_columns=None if scanned is None else table.get("ignore_columns"),
                columns=columns if is_table(columns) else None,
                indices=table.get("indices"),
                missing=self._missing(table.get("missing")),
                hidden=self._missing(table.get("hidden")),
                **{key: table[key] for key in OF_RELATION if key in table},
            )

    def _missing(self, missing: Any) -> Any:
        if missing is None:
            return None
        sources = missing if isinstance(missing, list) else [missing]
        return [self._read(source if is_table(source) else {"source": source}) for source in sources]

    def _names(self, axis: str, table: Table) -> Any:
        found = self._read(table)
        if not hasattr(found, "columns"):
            return found
        column = table.get("column", found.columns[0] if len(found.columns) == 1 else None)
        if column not in found.columns:
            what = "does not say which column holds the names" if column is None else f"names the column {column!r}"
            raise DataError(
                f"[entities] {axis} {what}; {table['source']} has {', '.join(map(repr, found.columns))}.",
                location=FileLocation(self.path),
                hint=(
                    f'{suggestion(column, found.columns)}Say it: {axis} = {{ source = "{table["source"]}", column '
                    '= "…" }.'
                ),
            )
        return found[column]

    def _scan(self, table: Table, indices: tuple[str, ...]) -> Any:
        """A source that is read later; None for what cannot be."""
        from plait.files.scan import scan
        from plait.files.source_kinds import ARROW, PARQUET, SQL, TEXT, format_of

        source, options = self.location(table["source"]), self.options(table, indices)
        kind = format_of(source, options.get("kind"))
        if kind is SQL:
            query = options.pop("query", None)
            return scan(source, **options) if query is None else scan(query, connection=source, **options)
        return scan(source, **options) if kind in (TEXT, PARQUET, ARROW) else None

    def _read(self, table: Table, indices: tuple[str, ...] = ()) -> Any:
        """What a source holds: a table without the ignored columns, or an array."""
        from plait.files.read import read

        found = read(self.location(table["source"]), **self.options(table, indices))
        for column in table.get("ignore_columns", ()):
            if column not in getattr(found, "columns", ()):
                raise DataError(
                    f"`ignore_columns` names the column {column!r}, which {table['source']} does not have.",
                    hint=f"{suggestion(column, getattr(found, 'columns', ()))}Leave it out.",
                )
            found = found.drop(column)
        return found

    def indices(self, group: str, name: str) -> tuple[str, ...]:
        """The indices of a relation, or of a given factor."""
        found = self.model.equation(name) if group == "relations" else self.model.factor(name)
        return found.indices

    def options(self, table: Table, indices: tuple[str, ...] = ()) -> dict[str, Any]:
        """The options with which `plait.read` reads the source of a table."""
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
        elif indices and format_of(source, kind) is TNS:  # these have positions instead of names
            options["columns"] = [*indices, "value"]
        return options

    def locate(self, location: Location | str | None) -> Location | str | None:
        """Return the file, and its line, of a row of a relation, an exposure or a table of titles."""
        found = self._source(location) if isinstance(location, TableLocation) else None
        if found is None or not isinstance(location, TableLocation):
            return location
        return located_in(found[0], location, found[1])

    def _source(self, location: TableLocation) -> tuple[str, dict[str, Any]] | None:
        """Where a table was read from, and the options of `plait.read`."""
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
    """Errors of the options of a relation, an exposure or a source name the file and the table that gave them."""

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
    from plait.files.source_kinds import shown

    try:
        lines = [line_of(source, row, **options) for row in table.rows]
    except (PlaitError, OSError):  # the file has changed
        lines = []
    found = tuple(line for line in lines if line is not None)
    rows = () if len(found) == len(table.rows) else table.rows
    return FileLocation(shown(source), () if rows else found, table.column, rows)


def read_config(path: str | os.PathLike[str], blocks: str | os.PathLike[str] | None = None) -> Config:
    """Read and check a TOML file; the sources it names are not read yet. blocks: a folder that has some packed."""
    path = os.fspath(path)
    if fault := path_fault(path):
        raise ParameterError(
            f"there can be no such file: {fault}.",
            location=FileLocation(path),
            hint="Give the path of a TOML file with model and relations.",
        )
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        raise ParameterError(
            f"there is no file {path!r}.",
            hint="Give the path of a TOML file with model and relations.",
        ) from None
    except IsADirectoryError:
        raise ParameterError(
            f"{path!r} is a folder.",
            hint="Give the path of a TOML file with model and relations.",
        ) from None
    except UnicodeDecodeError:
        raise ParameterError(
            "this is no text in UTF-8.",
            location=FileLocation(path),
            hint="Give a TOML file with model and relations.",
        ) from None
    config = Config(path, text, blocks=None if blocks is None else os.fspath(blocks))
    _check_names(config)
    return config


def _ties(adapt: Any) -> Any:
    """What adapt= takes: a tying, or one for each factor."""
    return {name: _tie(one) for name, one in adapt.items()} if is_table(adapt) else _tie(adapt)


def _tie(value: Any) -> Any:
    return None if value is False else value


def _check_names(config: Config) -> None:
    """The tables are those of the model's relations and factors, and every relation has one."""
    model, tables = config.model, config.tables
    for group, known in (("relations", model.relations), ("exposures", model.factors)):
        for name in tables.get(group, {}):
            if name not in known:
                noun = group.removesuffix("s") if group == "relations" else "factor"
                raise ParameterError(
                    f"[{group}.{name}] is about no {noun} of the model.",
                    location=FileLocation(config.path),
                    hint=f"{suggestion(name, known)}Its {noun}s are {', '.join(known)}.",
                )
    for name in model.relations:
        if name not in tables["relations"]:
            raise ParameterError(
                f"relation {name} has no data.",
                location=FileLocation(config.path),
                hint=f"Add [relations.{name}] with a source, or remove its equation.",
            )


def data_of(fit: Fitted, run: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Data:
    """The data that a run's config names, if they are still what it was fitted to.

    folder: where the config's files are looked up; None: where they were when the run was made.
    """
    config = config_of(run, folder)
    try:
        data = config.model.bind(config.data(), entities=config.entities())
        return same_data(fit, data)
    except OtherDataError:
        raise ParameterError(
            "the data are not what the run was fitted to, so that fitting again would compare two things at once.",
            location=FileLocation(config.path),
            hint="Put them back, or fit again with `plait fit`.",
        ) from None
    except PlaitError as error:
        raise error.relocate(config.locate)  # noqa: B904 (the same error)


def config_of(run: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Config:
    """The config that a run remembers."""
    header = manifest(Path(run))
    refuse_older(run, header)
    remembered = header["extra"].get("config")
    if remembered is None:
        raise StorageError(
            "this run was not made by `plait fit`, so where its data are is unknown.",
            location=FileLocation(Path(run)),
            hint=f"Ask in Python: plait.load({str(run)!r}).explain(…, exact=True, data=data).",
        )
    config = Config.from_dict(remembered)
    if folder is None:
        return config
    return replace(config, path=os.path.join(os.fspath(folder), os.path.basename(config.path)))
