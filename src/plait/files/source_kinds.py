"""Formats of sources, by file name or option, and the options of each reader; paths and database URLs."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from plait.errors import DataError, FileLocation, ParameterError, suggestion
from plait.machine import path_fault

MASK = "***"
_QUERY = re.compile(r"(?i)([?&](?:ssl)?password=)([^&]*)")


def without_password(url: str) -> str:
    """The URL with its password masked: everything up to the last @, since an unescaped one may hold anything."""
    scheme, _, rest = url.partition("://")
    account, at, place = rest.rpartition("@")
    user, colon, password = account.partition(":")
    if at and colon and password:
        rest = f"{user}:{MASK}@{place}"
    return f"{scheme}://" + _QUERY.sub(lambda match: match[1] + MASK, rest)


def scrubbed(message: str, url: str) -> str:
    """A message without the password of the URL, whole, decoded, or in parts."""
    for secret in sorted(_secrets(url), key=len, reverse=True):
        message = message.replace(secret, MASK)
    return message


def _secrets(url: str) -> set[str]:
    account = url.partition("://")[2].rpartition("@")[0]
    secrets = [account.partition(":")[2], *(match[2] for match in _QUERY.finditer(url))]
    secrets += [unquote(secret) for secret in secrets]
    pieces = [piece for secret in secrets for piece in re.split(r"[/@:?#&=]", secret) if len(piece) > 2]
    return {secret for secret in secrets + pieces if secret}


MIN_SIMILARITY = 0.75  # of a misspelt name


def existing_file(path: str | os.PathLike[str]) -> str:
    """The path of a readable file, with ``~`` expanded."""
    given = os.fspath(path)
    if not given:
        raise DataError("the name of the file is empty.", hint="Give the path of a file.")
    file = Path(given).expanduser()
    if fault := path_fault(file):
        raise DataError(f"this is not a valid path: {fault}.", location=FileLocation(given), hint="Check the path.")
    if file.is_dir():
        raise DataError(
            "expected a file, got a folder.",
            location=FileLocation(given),
            hint=f"Choose a file in it{_examples(file)}.",
        )
    if not file.exists():
        raise _no_file(given, file)
    if not os.access(file, os.R_OK):
        raise DataError(
            "permission denied.",
            location=FileLocation(given),
            hint="Change the permissions of the file.",
        )
    return str(file)


def _no_file(given: str, path: Path) -> DataError:
    folder = path.parent
    if not folder.is_dir():
        return DataError(
            f"the file does not exist, nor does the folder {str(folder)!r}.",
            location=FileLocation(given),
            hint="Check the path.",
        )
    near = _similar(path, _names(folder))
    where = "the current folder" if str(folder) == "." else repr(str(folder))
    return DataError(
        f"the file does not exist in {where}.", location=FileLocation(given), hint=near or "Check the path."
    )


def _similar(path: Path, names: list[str]) -> str:
    """The file that was probably meant, by stem; of equal stems the one with the same ending."""
    read = {path.suffix, *DATABASES, *(ending for one in FORMATS for ending in one.extensions), ".gz"}
    names = sorted(
        (name for name in names if Path(name).suffix in read), key=lambda name: Path(name).suffix == path.suffix
    )
    stems = {Path(name).stem.casefold(): name for name in names}
    close = get_close_matches(path.stem.casefold(), stems, n=1, cutoff=MIN_SIMILARITY)
    return f"Did you mean {stems[close[0]]!r}?" if close else ""


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:  # a folder without read permission
        return []


def _examples(folder: Path) -> str:
    names = _names(folder)
    return f": {', '.join(map(repr, names[:3]))}{', …' if len(names) > 3 else ''}" if names else ""


@dataclass(frozen=True)
class FileFormat:
    """A format: its suffixes, its options of ``plait.read``, and whether it can be written."""

    name: str
    extensions: tuple[str, ...]
    options: tuple[str, ...]
    gzip: bool = False
    written: bool = True
    title: str = ""

    @property
    def endings(self) -> tuple[str, ...]:
        """All suffixes, including compressed ones."""
        return self.extensions + tuple(f"{extension}.gz" for extension in self.extensions if self.gzip)


_TEXT = (
    "columns", "delimiter", "header", "value", "text", "quoted", "strip", "escape_formulas", "null_values",
    "on_bad_rows",
)  # fmt: skip

TEXT = FileFormat("text", (".csv", ".tsv", ".tab", ".txt"), _TEXT, gzip=True, title="delimited text")
PARQUET = FileFormat("parquet", (".parquet", ".pq"), ("strip",), title="Parquet")
ARROW = FileFormat("arrow", (".arrow", ".ipc", ".feather"), ("strip",), title="Arrow (Feather)")
TNS = FileFormat("tns", (".tns",), ("columns",), gzip=True, title="FROSTT tensor")
MATLAB = FileFormat("mat", (".mat",), ("name",), written=False, title="MATLAB, version 5")
NPZ = FileFormat("npz", (".npz",), ("name",), title="NumPy archive, or a sparse array of SciPy or sparse")
NPY = FileFormat("npy", (".npy",), (), title="NumPy array")
SQL = FileFormat(
    "sql", (), ("query", "table", "strip"), written=False, title="SQL: sqlite://, postgresql:// or an open connection"
)

FORMATS = (TEXT, PARQUET, ARROW, TNS, MATLAB, NPZ, NPY, SQL)

SCHEMES = ("sqlite", "postgresql", "postgres")
ANOTHER = "Use sqlite:// or postgresql://. In Python, `plait.read` also accepts an open connection to any database."
DATABASES = (".db", ".sqlite", ".sqlite3", ".db3")


def formats() -> tuple[FileFormat, ...]:
    """All formats; ``written`` says which ``plait.write`` writes."""
    return FORMATS


def options_for(source: Any, kind: str | None = None) -> tuple[str, ...]:
    """Options of ``plait.read`` for this source: a path, a URL or a connection."""
    file_format = format_of(source, kind)
    return file_format.options if file_format is SQL else ("kind", *file_format.options)


def format_of(source: Any, kind: str | None = None) -> FileFormat:
    """Format of a source: by the suffix of a path, the scheme of a URL, or the cursor of a connection. `kind`: suffix
    without its dot.
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
        f"`source` cannot be {type(source).__name__}.",
        hint=(
            "Give a path, the URL of a database, or an open ADBC or DB-API connection. Pass tables and "
            "arrays directly to plait.fit."
        ),
    )


def check_options(source: Any, options: dict[str, Any]) -> None:
    """Refuse an option that does nothing for this source."""
    known = options_for(source, options.get("kind"))
    for option in options:
        if option not in known:
            takes = f"Its options are {', '.join(known)}." if known else "It has no options."
            takes = f"{suggestion(option, known)}{takes}"
            raise ParameterError(
                f"`{option}` is not an option for {source_name(source)}.",
                hint=takes,
            )


def source_name(source: Any) -> str:
    """A source in an error, without password."""
    if isinstance(source, str) and "://" in source:
        return without_password(source)
    if isinstance(source, (str, os.PathLike)):
        return str(os.fspath(source))
    return f"the {type(source).__module__.partition('.')[0]} connection"


def ending(path: str) -> str:
    """Suffix of a file's name in lower case, in two parts where compressed: ``.csv.gz``."""
    name = Path(path).name.casefold()
    tail = Path(name).suffix
    return Path(name[: -len(tail)]).suffix + tail if tail == ".gz" else tail


def known_endings(tail: str, kinds: Sequence[FileFormat]) -> str:
    """Hint for an unknown suffix: a similar one, and all of them."""
    near = suggestion(tail, [each for kind in kinds for each in kind.endings])
    both = ", ".join(each for kind in kinds if kind.gzip for each in kind.extensions)
    plain = ", ".join(each for kind in kinds if not kind.gzip for each in kind.extensions)
    return f"{near}Supported are {both} (also with .gz), {plain}."


def _by_word(source: Any, word: str) -> FileFormat:
    """The format named by `kind`; refused for databases."""
    if not isinstance(source, (str, os.PathLike)) or "://" in os.fspath(source):
        raise ParameterError(
            f"`kind` is not an option for {source_name(source)}.",
            hint="Use `kind` for files without a known ending.",
        )
    by_word = _with_ending(f".{word}".casefold()) if isinstance(word, str) else None
    if by_word is None:
        words = [each.removeprefix(".") for kind in FORMATS for each in kind.extensions]
        raise ParameterError(
            f"`kind` must be a known ending, got {word!r}.",
            actual=word,
            hint=f"{suggestion(word, words)}The endings are {', '.join(words)}.",
        )
    return by_word


def _with_ending(tail: str) -> FileFormat | None:
    return next((kind for kind in FORMATS if tail in kind.endings), None)


def _by_ending(path: str) -> FileFormat:
    tail = ending(path)
    if (by_ending := _with_ending(tail)) is not None:
        return by_ending
    existing_file(path)  # first report a folder or a misspelt name
    if tail in DATABASES:
        hint = f"Read a SQLite file by its URL: 'sqlite:///{path}'."
    else:
        hint = f'{known_endings(tail, FORMATS)} Or set the format, such as `kind="csv"`.'
    what = f"{tail!r} is not a known ending" if tail else "the file name has no ending"
    raise DataError(f"{what}, so the format of the file is unknown.", location=FileLocation(path), hint=hint)


def _by_scheme(url: str) -> FileFormat:
    scheme = url.partition("://")[0]
    if scheme.casefold() in SCHEMES:
        return SQL
    if scheme.casefold() in ("http", "https", "ftp", "s3", "gs"):
        hint = "Download the file and read it by its path."
    else:
        hint = f"{suggestion(scheme, SCHEMES)}{ANOTHER}"
    raise DataError(f"{scheme}:// cannot be read.", location=FileLocation(source_name(url)), hint=hint)
