"""Exceptions and warnings.

    PlaitError
     ├── ModelError       text of a model: grammar or meaning, with a caret under the place
     ├── DataError        tables, arrays, entities and weights, with table, column and row
     ├── ParameterError   an argument: rank, prior, adapt_prior, fixed, init, …
     │    └── UnknownArgumentError   an argument that the function does not have; also a TypeError
     ├── UnknownNameError            a name that a mapping of a fit does not have; also a KeyError
     ├── FitError         the fit cannot continue: a link that the start makes impossible, memory, …
     ├── StorageError     a run's folder: missing, damaged, of a newer version, or not writable
     └── ForkError        tables in a process forked while polars had threads

    PlaitWarning          a likely mistake
     ├── of the model     UnusedLatentIndexWarning, MissingExposureWarning
     ├── of the data      DisjointEntitiesWarning, SpellingWarning, SkippedRowsWarning, UniqueAxisWarning,
     │                    NoZerosWarning, AsymmetricLinksWarning, OverdispersionWarning
     ├── of a fit         NoLinksWarning, RankWarning, FixedFactorCoverageWarning, BelowBaselineWarning,
     │                    InterruptedWarning, WorkerMismatchWarning, CheckpointWarning, EvidenceWarning
     ├── of an answer     NoCandidatesWarning, InexactSearchWarning
     ├── of the machine   CacheFolderWarning
     └── of a test        LeakWarning

``ModelError``, ``DataError`` and ``ParameterError`` are also ``ValueError``. The text of a message is the same in
Python, in config files and on the command line. A call warns once per kind, at the line of the user's code.
"""

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, ParamSpec, Self, TypeVar


class _Missing:
    """No value, where None is one."""

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class Location:
    """Where something is wrong. `str` is what stands before the message."""

    def __str__(self) -> str:
        return ""

    def excerpt(self) -> str:
        """Lines to show below the message, with carets."""
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return the location as JSON."""
        raise NotImplementedError


@dataclass(frozen=True)
class TableLocation(Location):
    """Place in a table or an array in memory.

    Attributes
    ----------
    table : str
        The table: name of a relation, ``"cells"``, ``"test"``, …
    column : object
        Column, or ``None``.
    rows : tuple of int
        Rows, counted from 0.
    cell : tuple
        Names of a cell.
    noun : str
        What ``column`` is called in the text.
    part, number : str and int, or None
        One of several tables of a relation: ``missing[1]``.
    of_relation : str or None
        Relation that the table belongs to.

    Examples
    --------
    >>> str(plait.errors.TableLocation("visits", "user", (3,)))
    "visits, column 'user', row 3 (counting from 0)"
    """

    table: str
    column: Any = None
    rows: tuple[int, ...] = ()
    cell: tuple[int, ...] = ()
    part: str | None = None
    number: int | None = None
    noun: str = "column"
    of_relation: str | None = None

    @classmethod
    def of(cls, name: "str | TableLocation") -> "TableLocation":
        """Return the location of a table by its name; a location is returned as it is."""
        return name if isinstance(name, TableLocation) else cls(name)

    def at(self, column: Any = None, *, row: int | None = None) -> "TableLocation":
        """Return the location of a column, a row or both."""
        rows = self.rows if row is None else (int(row),)
        return replace(self, column=self.column if column is None else column, rows=rows)

    @property
    def name(self) -> str:
        """The table without column and rows."""
        part = "" if self.part is None else f", {self.part}"
        number = "" if self.number is None else f"[{self.number}]"
        return f"{self.table}{part}{number}" + ("" if self.of_relation is None else f" of {self.of_relation}")

    def __str__(self) -> str:
        cell = f", cell {list(self.cell)}" if self.cell else ""
        return self.name + _column(self.noun, self.column) + _rows(self.rows) + cell

    def to_dict(self) -> dict[str, Any]:
        """Return the location as JSON."""
        return _filled(table=self.name, column=self.column, rows=self.rows, cell=self.cell)


@dataclass(frozen=True)
class FileLocation(Location):
    """Place in a file, a folder or a URL.

    Attributes
    ----------
    path : str
        The file.
    lines : tuple of int
        Lines, counted from 1.
    column : object
        Column, or ``None``.
    rows : tuple of int
        Rows of a file without lines, counted from 0.
    field : int or None
        Number of the field in the line.

    Examples
    --------
    >>> str(plait.errors.FileLocation("visits.csv", (4,), "user"))
    "visits.csv, line 4, column 'user'"
    """

    path: "str | os.PathLike[str]"
    lines: tuple[int, ...] = ()
    column: Any = None
    rows: tuple[int, ...] = ()
    field: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))

    def __str__(self) -> str:
        lines = f", line{_s(self.lines)} {' and '.join(map(str, self.lines))}" if self.lines else ""
        field = "" if self.field is None else f", field {self.field}"
        return f"{self.path}{lines}{_column('column', self.column)}{field}{_rows(self.rows)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the location as JSON."""
        return _filled(file=self.path, lines=self.lines, column=self.column, field=self.field, rows=self.rows)


@dataclass(frozen=True)
class ConfigLocation(Location):
    """Table or key in a config file.

    Attributes
    ----------
    path : str
        The file.
    key : str
        The table or key.

    Examples
    --------
    >>> str(plait.errors.ConfigLocation("model.toml", "[relations.visits]"))
    'model.toml: [relations.visits]'
    """

    path: str
    key: str

    def __str__(self) -> str:
        return f"{self.path}{': ' if self.key.startswith('[') else ', '}{self.key}"

    def to_dict(self) -> dict[str, Any]:
        """Return the location as JSON."""
        return {"file": self.path, "key": self.key}


@dataclass(frozen=True)
class NestedLocation(Location):
    """A location inside another one: a line of a model inside a config file."""

    outer: "Location | str"
    inner: "Location | str"

    def __str__(self) -> str:
        return ": ".join(text for text in map(str, (self.outer, self.inner)) if text)

    def excerpt(self) -> str:
        """Return the excerpt of the inner location."""
        return self.inner.excerpt() if isinstance(self.inner, Location) else ""

    def to_dict(self) -> dict[str, Any]:
        """Return both locations as JSON."""
        return _as_dict(self.outer) | _as_dict(self.inner)


Named = str | TableLocation  # a table by its name, or a place in it


class _Message:
    """A message with a location and a hint, the base of errors and warnings."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        location: Location | str | None = None,
        expected: str | None = None,
        actual: Any = MISSING,
    ) -> None:
        super().__init__(message)  # type: ignore[call-arg]  # next to an exception of Python
        self.message, self.hint, self.location = message, hint or None, location
        self.expected, self.actual = expected, actual

    @classmethod
    def must_be(cls, name: str, expected: str, actual: Any = MISSING, *, hint: str | None = None) -> Self:
        """Return the error of an option whose value is of the wrong kind; of a type only its name is shown."""
        shown = actual.__name__ if isinstance(actual, type) else repr(actual)
        got = "" if actual is MISSING else f", got {shown}"
        return cls(f"`{name}` must be {expected}{got}.", hint=hint, expected=expected, actual=actual)

    def __str__(self) -> str:
        place = "" if self.location is None else str(self.location)
        excerpt = self.location.excerpt() if isinstance(self.location, Location) else ""
        lines = [f"{place}: {self.message}" if place else self.message, excerpt, self.hint]
        return "\n".join(line for line in lines if line)

    def to_dict(self) -> dict[str, Any]:
        """Return the message and its parts in types that JSON can hold.

        Returns
        -------
        dict
            ``kind``, ``text``, ``message``, ``location``, ``actual``, ``expected`` and ``hint``.

        Examples
        --------
        >>> try:
        ...     plait.load("nowhere")
        ... except plait.PlaitError as error:
        ...     error.to_dict()["kind"]
        'StorageError'
        """
        actual = None if self.actual is MISSING else self.actual
        return {
            "kind": type(self).__name__,
            "text": str(self),
            "message": self.message,
            "location": None if self.location is None else _as_dict(self.location),
            "actual": actual if isinstance(actual, (str, int, float, bool, type(None))) else repr(actual),
            "expected": self.expected,
            "hint": self.hint,
        }

    def within(self, outer: Location | str) -> Self:
        """Put the location inside another one."""
        self.location = outer if self.location is None else NestedLocation(outer, self.location)
        return self

    def relocate(self, locate: "Locate") -> Self:
        """Replace the location by the result of `locate`."""
        self.location = locate(self.location)
        return self


Locate = Callable[[Location | str | None], Location | str | None]


class PlaitError(_Message, Exception):
    """Base class of all errors that Plait raises on purpose.

    Attributes
    ----------
    message : str
        Description of the mistake.
    location : TableLocation or FileLocation or ConfigLocation or str or None
        Where the mistake is.
    hint : str or None
        What to do.
    expected : str or None
        Description of valid values.
    actual : object
        The wrong value.

    Examples
    --------
    >>> try:
    ...     plait.fit(model, {"visits": visits}, rank=0)
    ... except plait.PlaitError as error:
    ...     print(type(error).__name__)
    ParameterError
    """


class ModelError(PlaitError, ValueError):
    """Wrong text of a model."""


class DataError(PlaitError, ValueError):
    """Wrong data, or data that do not match the model."""


class ParameterError(PlaitError, ValueError):
    """Wrong argument, or one that does not suit the model or the data."""


class UnknownArgumentError(ParameterError, TypeError):
    """Argument that the function does not have."""


class UnknownNameError(PlaitError, KeyError):
    """Name that a mapping of a fit or of metrics does not have."""

    @classmethod
    def of(cls, kind: str, name: object, known: Iterable[str]) -> Self:
        """Return the error for a name that is not among the known ones."""
        there = [str(one) for one in known]
        hint = f"{suggestion(name, there)}Choose one of {', '.join(there)}." if there else "There are none."
        return cls(f"there is no {kind} {name!r}.", actual=name, hint=hint)


class FitError(PlaitError, RuntimeError):
    """Fit that cannot continue."""


class StorageError(PlaitError, RuntimeError):
    """Run that cannot be saved or loaded."""


class ForkError(PlaitError, RuntimeError):
    """Call that needs threads which a forked process does not have."""


class PlaitWarning(_Message, UserWarning):
    """Base class of all warnings about likely mistakes.

    Attributes
    ----------
    message : str
        Description of the likely mistake.
    location : TableLocation or FileLocation or ConfigLocation or str or None
        Where it is.
    hint : str or None
        What to do.
    expected : str or None
        Description of valid values.
    actual : object
        The value found.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", plait.errors.RankWarning)
    ...     fit = plait.fit(model, {"visits": visits}, **quick)
    """


class UnusedLatentIndexWarning(PlaitWarning):
    """A latent index occurs in one factor only and has no effect."""


class MissingExposureWarning(PlaitWarning):
    """A factor without latent indices multiplies others and is not given.

    It may be an exposure that was forgotten.
    """


class DisjointEntitiesWarning(PlaitWarning):
    """Tables share an axis but have no name in common on it."""


class SpellingWarning(PlaitWarning):
    """Names of an axis differ only by case or blanks, or begin or end with a blank."""


class SkippedRowsWarning(PlaitWarning):
    """Rows of a text file could not be read and were left out, as ``on_bad_rows="skip"`` asks."""


class UniqueAxisWarning(PlaitWarning):
    """An axis has nearly as many entities as its table has rows, as times have."""


class NoZerosWarning(PlaitWarning):
    """Only listed cells are observed, and all have the same value."""


class AsymmetricLinksWarning(PlaitWarning):
    """Two indices share an axis, and no pair is linked in both directions."""


class OverdispersionWarning(PlaitWarning):
    """Counts are larger or more uneven than a Poisson likelihood can explain."""


class NoLinksWarning(PlaitWarning):
    """No link is observed."""


class RankWarning(PlaitWarning):
    """A rank is far larger than the data support."""


class FixedFactorCoverageWarning(PlaitWarning):
    """Most rows of a given factor are missing in its relation, and hardly a zero is left."""


class NoCandidatesWarning(PlaitWarning):
    """Rules exclude all cells that `Fit.top` could propose."""


class InexactSearchWarning(PlaitWarning):
    """`Fit.top` has not scored all cells that could be among the best."""


class BelowBaselineWarning(PlaitWarning):
    """A fit explains less than the same model without latent indices."""


class EvidenceWarning(PlaitWarning):
    """Evidence reads unlisted cells as zeros where most cells are not observed."""


class InterruptedWarning(PlaitWarning):
    """Ctrl-C ended a fit; the fit so far is returned."""


class CheckpointWarning(PlaitWarning):
    """A checkpoint could not be saved; the fit continues."""


class LeakWarning(PlaitWarning):
    """Training data reveal test links, or contain them."""


class WorkerMismatchWarning(PlaitWarning):
    """Workers of a cluster have other versions or processors than this process."""


class CacheFolderWarning(PlaitWarning):
    """Other users can write to the folder of compiled kernels, so it is not used."""


@contextmanager
def relocating(locate: Locate) -> Iterator[None]:
    """Relocate the errors of a block."""
    try:
        yield
    except PlaitError as error:
        error.relocate(locate)
        raise


def suggestion(
    name: object, known: Iterable[object], quote: bool = True, meant: Mapping[str, str] = MappingProxyType({})
) -> str:
    """``Did you mean …? `` where a known name is close, else nothing; for the second line of a message.

    meant: words of other libraries by known name, separated by blanks.
    """
    folded = {str(other).casefold(): str(other) for other in known}
    close = [other for other, words in meant.items() if other in folded and name in words.split()]
    close = close or get_close_matches(str(name).casefold(), list(folded), n=1)
    if not close:
        return ""
    match = folded[close[0]]
    return f"Did you mean {match!r}? " if quote else f"Did you mean {match}? "


def one_of(name: str, given: Any, choices: Sequence[Any]) -> None:
    """Refuse a word that is none of the choices, with the closest one."""
    if not any(given is choice or given == choice for choice in choices):
        raise ParameterError.must_be(
            name,
            f"one of {', '.join(map(repr, choices))}",
            given,
            hint=suggestion(given, choices).strip(),
        )


def quoted(label: object) -> str:
    """Return a label or the name of a column as messages show it."""
    return repr(label) if isinstance(label, str) else str(label)


def _as_dict(location: Location | str) -> dict[str, Any]:
    return location.to_dict() if isinstance(location, Location) else {"name": location}


def _filled(**parts: Any) -> dict[str, Any]:
    kept = {name: value for name, value in parts.items() if value not in (None, ())}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


def _column(noun: str, column: Any) -> str:
    return "" if column is None else f", {noun} {quoted(column)}"


def _rows(rows: Sequence[int]) -> str:
    return f", row{_s(rows)} {' and '.join(map(str, rows))} (counting from 0)" if rows else ""


def _s(several: Sequence[Any]) -> str:
    return "s" if len(several) > 1 else ""


P = ParamSpec("P")
T = TypeVar("T")

# What scikit-learn, implicit, PyKEEN, TensorLy, Surprise, pymc and others say -> what Plait says.
OF_FIT = {
    "rank": "components dim dims embedding_dim factors k latent_dim n_components n_factors n_latent n_topics "
    "no_components num_components num_factors ranks R",
    "max_iter": "epochs iterations max_iters maxiter n_epochs n_iter n_iter_max n_iterations niter num_epochs sweeps",
    "adapt_prior": "adapt",
    "warmup": "burn_in start",
    "combine": "keep",
    "tol": "convergence eps epsilon tolerance",
    "seed": "random_seed random_state rng",
    "threads": "cores n_jobs n_threads nthreads num_threads num_workers workers",
    "restarts": "chains ensemble n_init n_restarts n_runs",
    "progress": "callback callbacks progressbar show_progress verbose",
    "method": "algorithm inference optimizer solver",
    "dtype": "precision",
    "entities": "labels names",
    "fixed": "exposure exposures given",
    "checkpoint": "checkpoint_dir",
    "init": "warm_start",
    "prior": "alpha reg regularization",
}
OF_SPLIT = {
    "fraction": "frac holdout size test_fraction test_size validation_split",
    "by": "strategy stratify",
    "seed": "random_seed random_state rng",
    "leakage": "twins",
    "time": "time_column timestamp",
    "count": "n n_last",
}
OF_EVALUATE = {
    "target": "rank ranked",
    "k": "at ks top_k topk",
    "known": "exclude filter train",
    "negatives": "n_negatives nonlinks num_negatives",
    "seed": "random_seed random_state rng",
    "value": "rating ratings value_column values",
}
OF_TOP = {
    "k": "N limit n n_items num_items top_k topk topn",
    "per": "by each groupby",
    "include_known": "filter_already_liked_items known",
    "exclude": "filter filter_items",
    "new_entities": "guests new",
    "output": "out path",
}
OF_PREDICT = {"handle_unknown": "on_unknown unknown", "new_entities": "guests new"}
OF_RELATION = {
    "likelihood": "beta_loss distribution family likelihoods loss objective",
    "unseen": "universe",
    "self_links": "diagonal",
    "ignore_columns": "ignore",
    "value": "count counts rating ratings value_column values",
    "columns": "cols column names",
    "indices": "axes dims index",
    "missing": "mask missings",
    "weight": "confidence sample_weight weights",
    "observed": "implicit",
    "duplicates": "aggfunc",
}


def refusing_unknown(
    call: str, meant: Mapping[str, str], elsewhere: Collection[str] = ()
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function to suggest an option for an unknown argument.

    meant: words of other libraries by argument; elsewhere: arguments of `plait.Relation`, where it has none of these.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        known = list(inspect.signature(function).parameters)

        @functools.wraps(function)
        def checked(*args: P.args, **named: P.kwargs) -> T:
            refuse_unknown(call, named, known, meant, elsewhere)
            return function(*args, **named)

        return checked

    return decorate


def refuse_unknown(
    call: str, named: Iterable[str], known: Collection[str], meant: Mapping[str, str], elsewhere: Collection[str] = ()
) -> None:
    """Refuse the first name that is not known."""
    for name in named:
        if name not in known:
            hint = _hint(name, known, meant, elsewhere)
            raise UnknownArgumentError(f"unknown argument {name!r}.", location=call, actual=name, hint=hint)


def _hint(name: str, known: Collection[str], meant: Mapping[str, str], elsewhere: Collection[str]) -> str:
    if name in elsewhere:
        return f"It is an option of one relation: `plait.Relation(table, {name}=…)`."
    for other, words in meant.items():
        if name in words.split():
            return f"Did you mean {other!r}?"
    arguments = [other for other in known if other != "self" and not other.startswith("_")]
    return f"{suggestion(name, arguments)}The arguments are {', '.join(arguments)}."


MAX_MORE_LOCATIONS = 3  # that a warning names after the first


def warn_of(raised: Iterable[PlaitWarning]) -> None:
    """Warn once of each kind."""
    for warning in merged(raised):
        warnings.warn(warning, stacklevel=_outside())


def merged(warnings: Iterable[PlaitWarning]) -> list[PlaitWarning]:
    """One warning of each kind: the first, with the locations of the others in its hint."""
    kinds: dict[type[PlaitWarning], list[PlaitWarning]] = {}
    for warning in warnings:
        kinds.setdefault(type(warning), []).append(warning)
    return [
        kind(first.message, location=first.location, hint=f"{first.hint or ''}{_also(others)}")
        for kind, (first, *others) in kinds.items()
    ]


def _also(others: list[PlaitWarning]) -> str:
    if not others:
        return ""
    more = len(others) - MAX_MORE_LOCATIONS
    places = ", ".join(str(other.location) for other in others[:MAX_MORE_LOCATIONS])
    return f"\nThe same in {places}{f' and {more:,} more' if more > 0 else ''}."


def __dir__() -> list[str]:
    return sorted(
        name
        for name, value in globals().items()
        if isinstance(value, type) and value.__module__ == __name__ and not name.startswith("_")
    )


def _outside() -> int:
    """The stacklevel, for a function that calls `warnings.warn`, of the first caller outside Plait and numba."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("plait", "numba"):
        level, frame = level + 1, frame.f_back
    return level
