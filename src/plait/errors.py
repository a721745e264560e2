"""Every exception that Plait raises on purpose.

::

    PlaitError
     ├── ModelError      the text of a model: grammar or meaning, with a caret under the place
     ├── DataError       tables, arrays, labels and weights, with table, column and row where there is one
     ├── SettingError    an argument of plait.fit and friends: rank, prior, adapt, fixed, init, …
     ├── FitError        the fit itself cannot go on: a link that the start makes impossible, memory, …
     ├── StoreError      a run's folder: missing, damaged, not ours, from a newer version, or it cannot be written
     └── ForkError       tables in a process that was forked while polars had threads: it would wait for ever

``ModelError``, ``DataError`` and ``SettingError`` are also ``ValueError``. A message says what is wrong, where, what
was got and wanted, and one cure.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class PlaitError(Exception):
    """Base of all errors that Plait raises on purpose."""


class ModelError(PlaitError, ValueError):
    """The text of a model is wrong."""


class DataError(PlaitError, ValueError):
    """The data handed over are wrong, or do not fit the model."""


class SettingError(PlaitError, ValueError):
    """An argument is wrong, or does not fit the model or the data."""


class FitError(PlaitError, RuntimeError):
    """The fit cannot go on."""


class StoreError(PlaitError, RuntimeError):
    """A run cannot be saved or loaded."""


class ForkError(PlaitError, RuntimeError):
    """The process was forked, and what is asked for needs threads that stayed behind."""


def suggestion(name: object, known: Iterable[object], quote: bool = True) -> str:
    """``Did you mean …? `` where a known name is close, else nothing; for the second line of a message."""
    folded = {str(other).casefold(): str(other) for other in known}
    close = get_close_matches(str(name).casefold(), list(folded), n=1)
    if not close:
        return ""
    found = folded[close[0]]
    return f"Did you mean {found!r}? " if quote else f"Did you mean {found}? "
