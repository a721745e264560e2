"""The words of a config file: TOML for options, files and lines for tables in memory."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plait.errors import PlaitError
from plait.saying import DOTS, NOTHING, Argument, Dialect, FilePlace, Key, Phrase, Place, Subject, Where, Within

if TYPE_CHECKING:
    from plait.config.file import Config

OF_TABLES = ("Relation", "Exposure", "read")


class InToml(Dialect):
    """What any config file says."""

    def phrase(self, phrase: Phrase) -> str:
        """There are files to read, and no tables at hand."""
        return phrase.files

    def argument(self, given: Argument, about: Where | None, sign: str) -> str:
        """``method = "vb"``, ``value = "plays" in [relations.visits]``, ``user = […] in [labels]``."""
        if given.value is NOTHING:
            return f"[{given.name}]" if given.name in ("labels", "titles") else given.name
        if given.name == "fixed":
            return f'source = "…" in [exposures.{next(iter(given.value))}]'
        if given.name in ("labels", "rank", "titles") and isinstance(given.value, Mapping):
            return f"{self._keys(given.value)} in [{given.name}]"
        place = " in [fit.prior]" if given.of == "Gamma" else ""
        if given.of in OF_TABLES:
            place = f" in {self.table(about)}"
        return f"{given.name} = {self.value(given.value)}{place}"

    def value(self, value: Any) -> str:
        """A value as TOML writes it."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, Mapping) and set(value) not in ({"code"}, {"tuple"}):
            return f"{{ {self._keys(value)} }}"
        if list(value) == [DOTS] if isinstance(value, list) else False:
            return f"[{DOTS}]"
        return f'"{DOTS}"' if value == DOTS else super().value(value)

    def several(self, values: Sequence[Any]) -> str:
        """TOML has no tuples."""
        return self.value(list(values))

    def table(self, about: Where | None) -> str:
        """The table of the file that a message is about."""
        return about.key if isinstance(about, Key) else "the config"

    def _keys(self, values: Mapping[str, Any]) -> str:
        return ", ".join(f"{key} = {self.value(one)}" for key, one in values.items())


class Toml(InToml):
    """What one config file says: which of its tables a relation is, and which line of a file a row came from."""

    def __init__(self, config: "Config") -> None:
        self.config = config

    def argument(self, given: Argument, about: Where | None, sign: str) -> str:
        """As TOML; as an option of the command line where it was given there."""
        if given.of or given.name not in self.config.changes:
            return super().argument(given, about, sign)
        said = _typed(given.name)
        if isinstance(given.value, Mapping):
            return " ".join(f"{said} {key}={one}" for key, one in given.value.items())
        if given.value is NOTHING or isinstance(given.value, bool):
            return said if given.value is not False else said.replace("--", "--no-", 1)
        return f"{said} {given.value}"

    def head(self, where: Where | None) -> str:
        """Before what a setting of the file is at fault for, the file."""
        if not isinstance(where, Argument) or where.name in self.config.changes:
            return "" if isinstance(where, Argument) else super().head(where)
        return f"{self.config.path}: [fit.prior]: " if where.of == "Gamma" else f"{self.config.path}: "

    def described(self, where: Where) -> dict[str, Any]:
        """An option of the command line, or a key of the file."""
        if not isinstance(where, Argument):
            return super().described(where)
        if where.name in self.config.changes:
            return {"option": _typed(where.name)}
        return {"file": self.config.path, "key": where.name}

    def located(self, where: Any) -> Any:
        """The file, and its line where it has lines, of a row of a relation or an exposure."""
        found = self._source(where) if isinstance(where, Place) else None
        if found is None:
            return where
        source, options = found
        return located_in(source, where, options)

    def table(self, about: Where | None) -> str:
        """``[relations.visits]``."""
        name = about.table if isinstance(about, Place) else about.name if isinstance(about, Subject) else None
        path = about.path if isinstance(about, FilePlace) else None
        for group, own, entry in self._tables():
            if own == name or path == self._shown(entry):
                return f"[{group}.{own}]"
        return self.table(about.outer) if isinstance(about, Within) else super().table(about)

    def _tables(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for group in ("relations", "exposures"):
            for name, entry in self.config.tables.get(group, {}).items():
                yield group, name, entry

    def _shown(self, entry: Mapping[str, Any]) -> str:
        from plait.files.kinds import shown

        return shown(self.config.location(entry["source"]))

    def _source(self, place: Place) -> tuple[str, dict[str, Any]] | None:
        """Where the table of a place was read from, and how."""
        for axis, entry in self.config.titled.items():
            if place.table == f"titles of {axis}":
                return self.config.location(entry["source"]), self.config.options(entry)
        for group, name, entry in self._tables():
            if name != place.table:
                continue
            indices = self.config.indices(group, name)
            if place.part in ("missing", "hidden"):
                given = entry.get(place.part, [])
                ones = given if isinstance(given, list) else [given]
                if len(ones) <= (place.number or 0):
                    return None
                one = ones[place.number or 0]
                entry, indices = one if isinstance(one, dict) else {"source": one}, ()
            return self.config.location(entry["source"]), self.config.options(entry, indices)
        return None


def _typed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def located_in(source: str, place: Place, options: Mapping[str, Any]) -> FilePlace:
    """A place in the file it was read from; options: those of `plait.read`."""
    from plait.files.kinds import shown
    from plait.files.read import line_of

    try:
        lines = [line_of(source, row, **options) for row in place.rows]
    except (PlaitError, OSError):  # it is no longer what it was
        lines = []
    found = tuple(line for line in lines if line is not None)
    rows = () if len(found) == len(place.rows) else place.rows
    return FilePlace(shown(source), () if rows else found, place.column, rows)
