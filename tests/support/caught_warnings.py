"""The warnings of a call, and calls that may warn."""

import warnings
from pathlib import Path

import plait

TESTS = Path(__file__).parents[1]


def caught(call):
    """The warnings of a call: (class, message) of each."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert all(Path(one.filename).is_relative_to(TESTS) for one in found), "a warning points at the user's own line"
    return [(one.category, str(one.message)) for one in found]


def bound_to(text, **data):
    return lambda: plait.Model(text).bind(data)


def fitted(text, data, **arguments):
    settings = {"seed": 0, "max_iter": 2, "progress": False} | arguments
    return lambda: plait.fit(text, data, **settings)


def one(found, kind, *words):
    """Exactly one warning, of this class, with these words."""
    assert [category for category, _ in found] == [kind]
    message = found[0][1]
    assert all(word in message for word in words), message
    assert len(message.split("\n")) >= 2, "a hint is on a line of its own"
