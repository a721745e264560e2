"""Every exception that Plait raises on purpose.

::

    PlaitError
     ├── ModelError      the text of a model: grammar or meaning, with a caret under the place
     ├── DataError       tables, arrays, labels and weights, with table, column and row where there is one
     ├── SettingError    an argument of plait.fit and friends: rank, prior, adapt, fixed, init, …
     └── FitError        the fit itself cannot go on: a link that the start makes impossible, memory, …

``ModelError``, ``DataError`` and ``SettingError`` are also ``ValueError``. A message says what is wrong, where, what
was got and wanted, and one cure.
"""


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
