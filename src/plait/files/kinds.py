"""Which kind of source this is, by its name or as it is said, and which options its reader takes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.errors import DataError, FileLocation, SettingError, suggestion
from plait.files.places import existing_file


@dataclass(frozen=True)
class Format:
    """A kind of source: how its names end, which options ``plait.read`` takes for it, whether it can be written."""

    name: str
    extensions: tuple[str, ...]
    options: tuple[str, ...]
    gzip: bool = False
    written: bool = True
    title: str = ""

    @property
    def endings(self) -> tuple[str, ...]:
        """All endings of a file's name, compressed ones included."""
        return self.extensions + tuple(f"{extension}.gz" for extension in self.extensions if self.gzip)


_TEXT = ("columns", "delimiter", "header", "value", "text", "quoted", "strip", "escape_formulas")

TEXT = Format("text", (".csv", ".tsv", ".tab", ".txt"), _TEXT, gzip=True, title="delimited text")
PARQUET = Format("parquet", (".parquet", ".pq"), ("strip",), title="Parquet")
ARROW = Format("arrow", (".arrow", ".ipc", ".feather"), ("strip",), title="Arrow (Feather)")
TNS = Format("tns", (".tns",), ("columns",), gzip=True, title="FROSTT tensor")
MATLAB = Format("mat", (".mat",), ("name",), written=False, title="MATLAB, version 5")
NPZ = Format("npz", (".npz",), ("name",), title="NumPy archive, or a sparse array of SciPy or sparse")
NPY = Format("npy", (".npy",), (), title="NumPy array")
SQL = Format(
    "sql", (), ("query", "table", "strip"), written=False, title="SQL: sqlite://, postgresql:// or an open connection"
)

FORMATS = (TEXT, PARQUET, ARROW, TNS, MATLAB, NPZ, NPY, SQL)

SCHEMES = ("sqlite", "postgresql", "postgres")
ANOTHER = "Databases are sqlite:// and postgresql://; in Python, `plait.read` takes a connection to any other."
DATABASES = (".db", ".sqlite", ".sqlite3", ".db3")


def formats() -> tuple[Format, ...]:
    """Everything that can be read; ``written`` says what ``plait.write`` writes too."""
    return FORMATS


def options_for(source: Any, kind: str | None = None) -> tuple[str, ...]:
    """The options that ``plait.read`` takes for this source: a path, a URL or a connection."""
    found = format_of(source, kind)
    return found.options if found is SQL else ("kind", *found.options)


def format_of(source: Any, kind: str | None = None) -> Format:
    """The kind of a source: by the ending of a path, the scheme of a URL, or the cursor of a connection.

    kind: the ending that a path should have, without its dot.
    """
    if kind is not None:
        return _by_word(source, kind)
    if isinstance(source, str) and "://" in source:
        return _by_scheme(source)
    if isinstance(source, (str, os.PathLike)):
        return _by_ending(os.fspath(source))
    if callable(getattr(source, "cursor", None)):
        return SQL
    raise DataError(
        f"plait.read cannot read from {type(source).__name__}.",
        hint=(
            "Give a path, a URL of a database, or an open ADBC or DB-API connection; a table or an array "
            "goes straight into plait.fit."
        ),
    )


def check_options(source: Any, options: dict[str, Any]) -> None:
    """Refuse an option that would silently do nothing for this source."""
    known = options_for(source, options.get("kind"))
    for option in options:
        if option not in known:
            takes = f"It takes {', '.join(known)}." if known else "It takes no options."
            takes = f"{suggestion(option, known)}{takes}"
            raise SettingError(
                f"`{option}` says nothing about {shown(source)}.",
                hint=takes,
            )


def shown(source: Any) -> str:
    """A source as an error names it; never with the password of a URL."""
    if isinstance(source, str) and "://" in source:
        from plait.files.url import without_password

        return without_password(source)
    if isinstance(source, (str, os.PathLike)):
        return str(os.fspath(source))
    return f"the {type(source).__module__.partition('.')[0]} connection"


def ending(path: str) -> str:
    """The ending of a file's name in small letters, two-part where it is compressed: ``.csv.gz``."""
    name = Path(path).name.casefold()
    tail = Path(name).suffix
    return Path(name[: -len(tail)]).suffix + tail if tail == ".gz" else tail


def known_endings(tail: str, kinds: Sequence[Format]) -> str:
    """The hint for an unknown ending: the one that is close, and all of them."""
    near = suggestion(tail, [each for kind in kinds for each in kind.endings])
    both = ", ".join(each for kind in kinds if kind.gzip for each in kind.extensions)
    plain = ", ".join(each for kind in kinds if not kind.gzip for each in kind.extensions)
    return f"{near}Known are {both} (these also with .gz), {plain}."


def _by_word(source: Any, word: str) -> Format:
    """The kind that is said; of a database there is nothing to say."""
    if not isinstance(source, (str, os.PathLike)) or "://" in os.fspath(source):
        raise SettingError(
            f"`kind` says nothing about {shown(source)}.",
            hint="It is for files whose names do not say their kind.",
        )
    found = _with_ending(f".{word}".casefold()) if isinstance(word, str) else None
    if found is None:
        words = [each.removeprefix(".") for kind in FORMATS for each in kind.extensions]
        raise SettingError(
            f"`kind` is {word!r}.",
            actual=word,
            hint=f"{suggestion(word, words)}It is the usual ending: {', '.join(words)}.",
        )
    return found


def _with_ending(tail: str) -> Format | None:
    return next((kind for kind in FORMATS if tail in kind.endings), None)


def _by_ending(path: str) -> Format:
    tail = ending(path)
    if (found := _with_ending(tail)) is not None:
        return found
    existing_file(path)  # a folder, or a name that is close to one that exists, is the better guess
    if tail in DATABASES:
        hint = f"A SQLite file is read by its URL: 'sqlite:///{path}'."
    else:
        hint = f'{known_endings(tail, FORMATS)} Give its kind: `kind="csv"`.'
    what = f"{tail!r} is no known ending" if tail else "the name has no ending"
    raise DataError(f"{what}, so the kind of the file is unknown.", location=FileLocation(path), hint=hint)


def _by_scheme(url: str) -> Format:
    scheme = url.partition("://")[0]
    if scheme.casefold() in SCHEMES:
        return SQL
    if scheme.casefold() in ("http", "https", "ftp", "s3", "gs"):
        hint = "Download the file, and read it by its path."
    else:
        hint = f"{suggestion(scheme, SCHEMES)}{ANOTHER}"
    raise DataError(f"{scheme}:// cannot be read.", location=FileLocation(shown(url)), hint=hint)
