"""Schema of config files: keys of every table and kinds of their values."""

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from plait.errors import OF_FIT, OF_RELATION, FileLocation, ParameterError, suggestion
from plait.fitting.options import BY_NAME, DECLARED, Option

Table = dict[str, Any]
Check = tuple[Callable[[Any], bool], str]  # whether a value is of its kind, and that kind in words


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_table(value: Any) -> bool:
    return isinstance(value, dict)


def is_names(value: Any) -> bool:
    """Whether a value is a list of strings."""
    return isinstance(value, list) and all(map(is_text, value))


def in_toml(option: Option) -> Check:
    """Check of an option of `plait.fit` in a config file."""
    assert option.kind.in_toml is not None
    return option.kind.in_toml, option.kind.toml_words


def _is_source(value: Any) -> bool:
    return isinstance(value, (str, dict))


TEXT: Check = (is_text, "text")
WHOLE: Check = (_is_whole, "an integer")
NUMBER: Check = (_is_number, "a number")
NAMES: Check = (is_names, "a list of names")
TEXTS: Check = (lambda value: is_text(value) or is_names(value), "text, or a list of texts")
TABLE: Check = (is_table, "a table")
TEXT_OR_NUMBER: Check = (lambda value: is_text(value) or _is_number(value), "text or a number")
WORDS: Check = (lambda value: is_text(value) or is_table(value), 'text, or { name = "…", … }')
FLAG: Check = (lambda value: isinstance(value, bool), "true or false")
RANK: Check = in_toml(BY_NAME["rank"])
ADAPT: Check = in_toml(BY_NAME["adapt_prior"])
COLUMNS: Check = (
    lambda value: is_names(value) or (is_table(value) and all(map(is_text, value.values()))),
    ('a table from index to column, such as { user = "id" }, or the list of column names of a file without header'),
)
SOURCES: Check = (
    lambda value: _is_source(value) or (isinstance(value, list) and all(map(_is_source, value))),
    "a file, or a list of files",
)
LABELS: Check = (lambda value: isinstance(value, (list, dict)), 'a list of names, or { source = "…", column = "…" }')
TITLES: Check = (_is_source, 'a file, or { source = "…", id = "…", title = "…" }')


TOP: dict[str, Check] = {
    "model": TEXT, "rank": RANK, "relations": TABLE, "exposures": TABLE, "entities": TABLE, "titles": TABLE,
    "fit": TABLE, "grid_search": TABLE,
}  # fmt: skip
# The options of plait.read; `columns` and `value` have another meaning here.
READ: dict[str, Check] = {
    "kind": TEXT, "delimiter": TEXT, "header": FLAG, "text": NAMES, "quoted": FLAG, "strip": FLAG,
    "escape_formulas": FLAG, "name": TEXT, "query": TEXT, "table": TEXT, "null_values": TEXTS, "on_bad_rows": TEXT,
}  # fmt: skip
RELATION: dict[str, Check] = {
    "source": TEXT, "value": TEXT, "observed": TEXT_OR_NUMBER, "likelihood": WORDS, "missing": SOURCES,
    "columns": COLUMNS, "unseen": TEXT, "weight": TEXT_OR_NUMBER, "duplicates": TEXT, "indices": NAMES,
    "ignore_columns": NAMES, "hidden": SOURCES, "self_links": TEXT, "binary": FLAG,
}  # fmt: skip
EXPOSURE: dict[str, Check] = {
    "source": TEXT,
    "value": TEXT,
    "default": NUMBER,
    "columns": COLUMNS,
    "ignore_columns": NAMES,
}
SOURCE: dict[str, Check] = {"source": TEXT, "columns": NAMES, "ignore_columns": NAMES}
FIT: dict[str, Check] = {o.name: in_toml(o) for o in DECLARED if o.toml and o.name != "rank"}


def _each(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check[0], value)), f"a list, each {check[1]}"


GRID_SEARCH: dict[str, Check] = {
    "rank": _each(RANK), "adapt_prior": _each(ADAPT), "likelihood": NAMES, "seeds": WHOLE, "by": TEXT, "relation": TEXT,
    "fraction": NUMBER,
}  # fmt: skip
PRIOR: dict[str, Check] = {"concentration": NUMBER, "mean": NUMBER}


# Messages of tomllib, by their first words, and plainer ones.
TOML_FAULTS = {
    "Cannot overwrite": "a key occurs twice", "Cannot declare": "a table occurs twice",
    "Invalid value": "invalid value; text needs quotes",
}  # fmt: skip


def parsed(path: str, text: str) -> Table:
    """TOML as dictionaries; syntax errors name file, line and column."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        what = next((words for start, words in TOML_FAULTS.items() if what.startswith(start)), what)
        raise ParameterError(
            f"{what[:1].lower()}{what[1:]}.",
            location=_place_of(path, place),
            hint="The file must be TOML, see https://toml.io."
            + ("" if path.endswith(".toml") else " A table of data is the `source` of a relation in it."),
        ) from None
    except RecursionError:
        raise ParameterError(
            "lists or tables are nested too deeply.",
            location=FileLocation(path),
            hint="Settings have at most five levels; look for brackets that are not closed.",
        ) from None


def _place_of(path: str, place: str) -> FileLocation:
    """Location of ``line 6, column 8)`` or ``end of document)``."""
    match = re.match(r"line (\d+), column (\d+)", place)
    if match is None:
        return FileLocation(f"{path}, {place.rstrip(')')}" if place else path)
    return FileLocation(path, (int(match[1]),), int(match[2]))


def checked(path: str, tables: Table) -> Table:
    """Check every key and value."""
    _check(path, "", tables, TOP)
    for key in ("model", "relations"):
        if key not in tables:
            hint = 'model = "X[i, j] = A[i, r] B[j, r]"' if key == "model" else "[relations.X] with `source`"
            raise ParameterError(f"`{key}` is missing.", location=FileLocation(path), hint=f"Add {hint}.")
    sourced: list[tuple[str, Table, dict[str, Check]]] = []
    for group, keys in (("relations", RELATION), ("exposures", EXPOSURE)):
        for name, table in tables.get(group, {}).items():
            sourced.append((f"[{group}.{name}]", table, keys))
            if is_table(table):
                for key in ("missing", "hidden"):
                    given = table.get(key, [])
                    ones = given if isinstance(given, list) else [given]
                    sourced += [(f"[{group}.{name}] {key}", one, SOURCE) for one in ones if is_table(one)]
    for axis, names in tables.get("entities", {}).items():
        _check(path, "[entities]", {axis: names}, {axis: LABELS})
        if is_table(names):
            sourced.append((f"[entities] {axis}", names, {**SOURCE, "column": TEXT}))
    for axis, titles in tables.get("titles", {}).items():
        _check(path, "[titles]", {axis: titles}, {axis: TITLES})
        if is_table(titles):
            sourced.append((f"[titles] {axis}", titles, {**SOURCE, "id": TEXT, "title": TEXT}))
    for where, table, keys in sourced:
        _check_source(path, where, table, keys)
    _check_fit(path, tables.get("fit", {}))
    _check(path, "[grid_search]", tables.get("grid_search", {}), GRID_SEARCH)
    return tables


def _check_source(path: str, where: str, table: Any, keys: Mapping[str, Check]) -> None:
    if not is_table(table):
        raise ParameterError(
            f"{where} must be a table, got {table!r}.",
            location=FileLocation(path),
            hint=f'Write {where}, and below it source = "file.csv".',
        )
    _check(path, where, table, {**keys, **READ})
    if "source" not in table:
        raise ParameterError(
            f"{where}: `source` is missing.",
            location=FileLocation(path),
            hint='Add source = "file.csv".',
        )


def _check_fit(path: str, table: Table) -> None:
    _check(path, "[fit]", table, FIT)
    prior = table.get("prior", {})
    by_factor = any(map(is_table, prior.values()))
    for name, one in prior.items() if by_factor else [("", prior)]:
        where = f"[fit.prior.{name}]" if name else "[fit.prior]"
        if not is_table(one):
            raise ParameterError(
                f"[fit.prior] has {name} = {one!r} next to tables of factors.",
                location=FileLocation(path),
                hint="Give one concentration and one mean, or a table of both for each factor.",
            )
        _check(path, where, one, PRIOR)


def _check(path: str, where: str, table: Table, known: Mapping[str, Check]) -> None:
    for key, value in table.items():
        if key not in known:
            what = f"{where}: unknown key {key!r}" if where else f"unknown key {key!r}"
            raise ParameterError(
                f"{what}.",
                location=FileLocation(path),
                hint=f"{_near(key, known)}The keys are {', '.join(known)}.",
            )
        is_kind, words = known[key]
        if not is_kind(value):
            place = f"{where} `{key}`" if where else f"`{key}`"
            raise ParameterError(
                f"{place} must be {words}, got {_write_value(value)}.",
                location=FileLocation(path),
                expected=words,
                actual=value,
            )


def _near(key: str, known: Mapping[str, Check]) -> str:
    """Where a key of another table belongs, or the closest of this one."""
    for place, keys in (("above all tables", TOP), ("under [fit]", FIT), ("under [relations.NAME]", RELATION)):
        if key in keys:
            return f"Write it {place}. "
    return suggestion(key, known, meant=OF_FIT | OF_RELATION)


def _write_value(value: Any) -> str:
    """A value as TOML, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}…"
