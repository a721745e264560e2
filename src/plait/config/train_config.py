"""Training part of a split as files: a config, and the tables that the split has changed."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait.config.config_file import Config
from plait.config.config_schema import READ, is_table
from plait.files.write import write

if TYPE_CHECKING:
    from plait.data import Relation
    from plait.evaluation import Split

TRAIN, TEST = "train.toml", "test.csv"


def write_split(config: Config, data: Mapping[str, Any], split: "Split", folder: Path) -> None:
    """Write ``train.toml`` and ``test.csv`` into a folder.

    Relations that the split has changed are written as tables next to them; sources of all others stay where they are.
    The config is written last, so a folder with one is complete.
    """
    import tomli_w

    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRAIN).unlink(missing_ok=True)
    tables = _with_sources(config.tables, lambda source: _from_folder(config.location(source), folder))
    for name, relation in split.train.items():
        if relation is not data[name]:
            tables["relations"][name] = _write_relation(relation, name, tables["relations"][name], folder)
    write(split.test, folder / TEST)
    (folder / TRAIN).write_text(tomli_w.dumps(tables), encoding="utf-8")


def _with_sources(value: Any, move: Callable[[str], str], key: str = "") -> Any:
    """Copy a config with every source moved; the tables of titles, missing and hidden cells may be bare sources."""
    if isinstance(value, dict):
        bare = key == "titles"
        return {name: _with_sources(one, move, "source" if bare else name) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_sources(one, move, key) for one in value]
    return move(value) if isinstance(value, str) and key in ("source", "missing", "hidden") else value


def _from_folder(location: str, folder: Path) -> str:
    """Return the path of a source as seen from a folder; URLs stay, but for the file of an SQLite database."""
    lite = "sqlite:///"
    if location.startswith(lite):
        return lite + os.path.relpath(location.removeprefix(lite), folder)
    return location if "://" in location else Path(os.path.relpath(location, folder)).as_posix()


def _write_relation(relation: "Relation", name: str, table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Write the tables of a relation, and return its part of the config."""
    gone = {*READ, "source", "ignore_columns", "missing", "hidden", "value", "observed"}
    kept = {key: value for key, value in table.items() if key not in gone}
    if not is_table(kept.get("columns")):
        kept.pop("columns", None)  # names of a file without a header; the new file has one
    source = f"{name}.{'parquet' if hasattr(relation.data, 'columns') else 'npz'}"
    write(relation.data, folder / source)
    entry = {"source": source, **kept, "observed": relation.observed}
    if relation.value is not None:
        entry["value"] = relation.value
    for part, tables in (("missing", relation.missing_tables), ("hidden", relation.hidden_tables)):
        files = [f"{name}-{part}-{number}.parquet" for number in range(len(tables))]
        for file, cells in zip(files, tables):
            write(cells, folder / file)
        if files:
            entry[part] = files
    return entry
