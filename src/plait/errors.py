"""Exceptions and warnings.

::

    PlaitError
     ├── ModelError       text of a model: grammar or meaning, with a caret under the place
     ├── DataError        tables, arrays, entities and weights, with table, column and row
     ├── ParameterError   an argument: rank, prior, adapt_prior, fixed, init, …
     │    └── UnknownArgumentError   an argument that the function does not have; also a TypeError
     ├── FitError         the fit cannot continue: a link that the start makes impossible, memory, …
     ├── StorageError     a run's folder: missing, damaged, of a newer version, or not writable
     └── ForkError        tables in a process forked while polars had threads

    PlaitWarning          a likely mistake
     ├── of the model     UnusedLatentIndexWarning, MissingExposureWarning
     ├── of the data      DisjointEntitiesWarning, SpellingWarning, UniqueAxisWarning, NoZerosWarning,
     │                    AsymmetricLinksWarning
     ├── of a fit         NoLinksWarning, RankWarning, FixedFactorCoverageWarning, BelowBaselineWarning,
     │                    InterruptedWarning, WorkerMismatchWarning, CheckpointWarning
     ├── of an answer     NoCandidatesWarning
     ├── of the machine   CacheFolderWarning
     └── of a test        LeakWarning

``ModelError``, ``DataError`` and ``ParameterError`` are also ``ValueError``. Errors and warnings have a message, a
location, a hint and, where a value is wrong, the expected and the actual value. The text is the same in Python, in
config files and on the command line; `relocating` replaces a table in memory by its file and line. `warn_of` warns once
per kind and call, at the line of the user's code.
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
    """A table or an array in memory: a relation, "cells", "test". Rows count from 0.

    `part` and `number` choose one of its own tables, as in ``visits, missing[1]``.
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
    """A file, folder or URL. Lines count from 1; rows of files without lines count from 0."""

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
    """A table or a key of a config file: ``model.toml: [relations.visits]``."""

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
        """Return kind, whole text and parts as JSON."""
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
        """Replace the location by what `locate` returns for it."""
        self.location = locate(self.location)
        return self


Locate = Callable[[Location | str | None], Location | str | None]


class PlaitError(_Message, Exception):
    """Base of all errors that Plait raises on purpose."""


class ModelError(PlaitError, ValueError):
    """The text of a model is wrong."""


class DataError(PlaitError, ValueError):
    """The data handed over are wrong, or do not fit the model."""


class ParameterError(PlaitError, ValueError):
    """An argument is wrong, or does not fit the model or the data."""


class UnknownArgumentError(ParameterError, TypeError):
    """A function has no argument of that name."""


class FitError(PlaitError, RuntimeError):
    """The fit cannot go on."""


class StorageError(PlaitError, RuntimeError):
    """A run cannot be saved or loaded."""


class ForkError(PlaitError, RuntimeError):
    """The process was forked, and what is asked for needs threads that stayed behind."""


class PlaitWarning(_Message, UserWarning):
    """Base of all warnings about what is likely a mistake."""


class UnusedLatentIndexWarning(PlaitWarning):
    """A latent index stands in one factor only, next to a factor that has none: it does nothing."""


class MissingExposureWarning(PlaitWarning):
    """A factor of visible indices only multiplies unknown factors and is not given: an exposure, perhaps forgotten."""


class DisjointEntitiesWarning(PlaitWarning):
    """Tables are coupled by an axis on which they have no name in common."""


class SpellingWarning(PlaitWarning):
    """Names of an axis differ only by case or blanks, or begin or end with a blank."""


class UniqueAxisWarning(PlaitWarning):
    """An axis has nearly as many entities as its table has rows, as moments of time have."""


class NoZerosWarning(PlaitWarning):
    """Only listed cells are observed, and all of them have the same value: nothing is improbable."""


class AsymmetricLinksWarning(PlaitWarning):
    """Both sides of a relation are one axis, and no pair is linked both ways."""


class NoLinksWarning(PlaitWarning):
    """No link is observed."""


class RankWarning(PlaitWarning):
    """A rank is far above what the data can hold."""


class FixedFactorCoverageWarning(PlaitWarning):
    """Most rows of a given factor are missing in its relation, and what is left has hardly a zero."""


class NoCandidatesWarning(PlaitWarning):
    """Rules leave nothing for `Fit.top` to propose."""


class BelowBaselineWarning(PlaitWarning):
    """A fit explains less than the same model without latent indices."""


class InterruptedWarning(PlaitWarning):
    """Ctrl-C ended a fit; what is returned is the fit so far."""


class CheckpointWarning(PlaitWarning):
    """A checkpoint could not be saved; the fit goes on."""


class LeakWarning(PlaitWarning):
    """Training data give a test away: leaking links of a split, or test links themselves."""


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


def suggestion(name: object, known: Iterable[object], quote: bool = True) -> str:
    """``Did you mean …? `` where a known name is close, else nothing; for the second line of a message."""
    folded = {str(other).casefold(): str(other) for other in known}
    close = get_close_matches(str(name).casefold(), list(folded), n=1)
    if not close:
        return ""
    found = folded[close[0]]
    return f"Did you mean {found!r}? " if quote else f"Did you mean {found}? "


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
    """A function that says what was meant by an argument it does not have.

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
            raise UnknownArgumentError(f"there is no argument {name!r}.", location=call, actual=name, hint=hint)


def _hint(name: str, known: Collection[str], meant: Mapping[str, str], elsewhere: Collection[str]) -> str:
    if name in elsewhere:
        return f"It is an option of one relation: `plait.Relation(table, {name}=…)`."
    for other, words in meant.items():
        if name in words.split():
            return f"Did you mean {other!r}?"
    told = [other for other in known if other != "self" and not other.startswith("_")]
    return f"{suggestion(name, told)}It has {', '.join(told)}."


MOST_PLACES = 3  # that a warning names besides the first


def warn_of(found: Iterable[PlaitWarning]) -> None:
    """Warn once of each kind."""
    for warning in merged(found):
        warnings.warn(warning, stacklevel=_outside())


def merged(found: Iterable[PlaitWarning]) -> list[PlaitWarning]:
    """One warning of each kind: the first, with the locations of the others in its hint."""
    kinds: dict[type[PlaitWarning], list[PlaitWarning]] = {}
    for warning in found:
        kinds.setdefault(type(warning), []).append(warning)
    return [
        kind(first.message, location=first.location, hint=f"{first.hint or ''}{_also(others)}")
        for kind, (first, *others) in kinds.items()
    ]


def _also(others: list[PlaitWarning]) -> str:
    if not others:
        return ""
    more = len(others) - MOST_PLACES
    places = ", ".join(str(other.location) for other in others[:MOST_PLACES])
    return f"\nThe same in {places}{f' and {more:,} more' if more > 0 else ''}."


def _outside() -> int:
    """The stacklevel, for a function that calls `warnings.warn`, of the first caller outside Plait and numba."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("plait", "numba"):
        level, frame = level + 1, frame.f_back
    return level
