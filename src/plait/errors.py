"""Every exception that Plait raises on purpose, and every warning.

::

    PlaitError
     ├── ModelError      the text of a model: grammar or meaning, with a caret under the place
     ├── DataError       tables, arrays, labels and weights, with table, column and row where there is one
     ├── SettingError    an argument of plait.fit and friends: rank, prior, adapt, fixed, init, …
     │    └── UnknownArgumentError   an argument that there is not; a TypeError, too, as Python's own
     ├── FitError        the fit itself cannot go on: a link that the start makes impossible, memory, …
     ├── StoreError      a run's folder: missing, damaged, not ours, from a newer version, or it cannot be written
     └── ForkError       tables in a process that was forked while polars had threads: it would wait for ever

    PlaitWarning         a trap: what is likely a mistake, though it can be computed
     ├── of the model    LoneLatentWarning, ForgottenFactorWarning
     ├── of the data     NoCommonNamesWarning, SpellingWarning, EventAxisWarning, NoZerosWarning, OneWayWarning
     ├── of a fit        NoLinksWarning, RankWarning, GivenRowsWarning, BoundWarning, InterruptedWarning,
     │                 UnlikeWorkersWarning
     ├── of an answer    ClosedWarning
     ├── of the machine  CacheFolderWarning
     └── of a test       LeakWarning (in `plait.evaluation`)

``ModelError``, ``DataError`` and ``SettingError`` are also ``ValueError``. Each carries what is wrong, where, what was
got and wanted, and one cure as values (`plait/saying.py`); ``str`` puts them into Python's words, the command line into
its own. Each kind of warning is a class of its own, so that one can be silenced alone.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from plait.saying import Told


class PlaitError(Told, Exception):
    """Base of all errors that Plait raises on purpose."""


class ModelError(PlaitError, ValueError):
    """The text of a model is wrong."""


class DataError(PlaitError, ValueError):
    """The data handed over are wrong, or do not fit the model."""


class SettingError(PlaitError, ValueError):
    """An argument is wrong, or does not fit the model or the data."""


class UnknownArgumentError(SettingError, TypeError):
    """A function has no argument of that name."""


class FitError(PlaitError, RuntimeError):
    """The fit cannot go on."""


class StoreError(PlaitError, RuntimeError):
    """A run cannot be saved or loaded."""


class ForkError(PlaitError, RuntimeError):
    """The process was forked, and what is asked for needs threads that stayed behind."""


class PlaitWarning(Told, UserWarning):
    """Base of all warnings about what is likely a mistake."""


class LoneLatentWarning(PlaitWarning):
    """A latent index stands in one factor only, beside a factor that has none: it does nothing."""


class ForgottenFactorWarning(PlaitWarning):
    """A factor of visible indices only multiplies unknown factors and is not given: an exposure, perhaps forgotten."""


class NoCommonNamesWarning(PlaitWarning):
    """Tables are coupled by an axis on which they have no name in common."""


class SpellingWarning(PlaitWarning):
    """Names of an axis differ only by case or blanks, or begin or end with a blank."""


class EventAxisWarning(PlaitWarning):
    """An axis has nearly as many entities as its table has rows, as moments of time have."""


class NoZerosWarning(PlaitWarning):
    """Only listed cells are observed, and all of them have the same value: nothing is improbable."""


class OneWayWarning(PlaitWarning):
    """Both sides of a relation are one axis, and no pair is linked both ways."""


class NoLinksWarning(PlaitWarning):
    """No link is observed."""


class RankWarning(PlaitWarning):
    """A rank is far above what the data can hold."""


class GivenRowsWarning(PlaitWarning):
    """Most rows of a given factor are missing in its relation, and what is left has hardly a zero."""


class ClosedWarning(PlaitWarning):
    """Rules leave nothing for `Fit.top` to propose."""


class BoundWarning(PlaitWarning):
    """A fit explains less than the same model without latent indices."""


class InterruptedWarning(PlaitWarning):
    """Ctrl-C ended a fit; what is returned is the fit so far."""


class UnlikeWorkersWarning(PlaitWarning):
    """Workers of a cluster have other versions or processors than this process."""


class CacheFolderWarning(PlaitWarning):
    """Other users can write to the folder of compiled kernels, so it is not used."""


def suggestion(name: object, known: Iterable[object], quote: bool = True) -> str:
    """``Did you mean …? `` where a known name is close, else nothing; for the second line of a message."""
    folded = {str(other).casefold(): str(other) for other in known}
    close = get_close_matches(str(name).casefold(), list(folded), n=1)
    if not close:
        return ""
    found = folded[close[0]]
    return f"Did you mean {found!r}? " if quote else f"Did you mean {found}? "
