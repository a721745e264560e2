"""The options of `plait.fit`, declared once: default, what is allowed, one line of help, and who else may say it.

From here come the checks of single values, the keys of [fit] in a config file, the options of `plait fit`, the words
that a run keeps, and the table in the docs. What options mean together is checked in `checks`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from plait.errors import SettingError, suggestion
from plait.infer.prior import Gamma

AUTO = "auto"  # of adapt: rank-one means for factors that couple relations, one prior for each other factor
DEFAULT_PRIOR = Gamma(concentration=0.5, mean=10.0)


@dataclass(frozen=True)
class Kind:
    """What a value may be: in words, by a test, in a config file by another where that says it in another way.

    least: of a number; choices: of a word. spoken: its type on the command line, where one
    option can say it.
    """

    words: str
    accepts: Callable[[Any], bool] = lambda value: True
    in_toml: Callable[[Any], bool] | None = None
    toml_words: str = ""
    least: float | None = None
    choices: tuple[str, ...] = ()
    spoken: type | None = None

    def check(self, name: str, given: Any, of: str = "") -> None:
        """Refuse what is not of the kind; of: of what the option is."""
        if self.accepts(given):
            return
        if self.choices:
            one_of(name, given, self.choices)
        what = f"`{name}`{of} must be {self.words}, got {given!r}."
        raise SettingError(what, expected=self.words, actual=given)


def one_of(name: str, given: Any, choices: Sequence[Any]) -> None:
    """Refuse a word that is none of the choices, with the closest one."""
    if not any(given is choice or given == choice for choice in choices):
        raise SettingError.must_be(
            name,
            f"one of {', '.join(map(repr, choices))}",
            given,
            hint=suggestion(given, choices).strip(),
        )


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number of Python or NumPy."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a number."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_tie(value: Any) -> bool:
    return value is False or _is_text(value) or (isinstance(value, list) and all(map(_is_text, value)))


def _each(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether a value, or each of a table of them, is accepted."""
    return lambda value: accepts(value) or (isinstance(value, dict) and all(map(accepts, value.values())))


def whole(least: int, *, none: bool = False) -> Kind:
    """A whole number; none: or nothing."""

    def accepts(value: Any) -> bool:
        return (none and value is None) or (is_whole(value) and value >= least)

    return Kind(f"a whole number, {least} or more", accepts, is_whole, "a whole number", least=least, spoken=int)


def word(*choices: str, none: bool = False) -> Kind:
    """One of some words; none: or nothing."""

    def accepts(value: Any) -> bool:
        return (none and value is None) or (_is_text(value) and value in choices)

    return Kind(" or ".join(map(repr, choices)), accepts, _is_text, "text", choices=choices, spoken=str)


NUMBER = Kind(
    "a finite number, 0 or more",
    lambda x: is_number(x) and 0 <= x < math.inf,
    is_number,
    "a number",
    least=0.0,
    spoken=float,
)
SWITCH = Kind(
    "True or False", lambda x: isinstance(x, bool), lambda x: isinstance(x, bool), "true or false", spoken=bool
)
RANK = Kind(
    "a whole number, a dict of them by latent index, 'auto' or 'bound'",
    in_toml=lambda x: x in ("auto", "bound") or _each(is_whole)(x),
    toml_words='a whole number, a table of them by latent index, "auto" or "bound"',
)
TIE = Kind(
    "a word, None, a tuple of index names, or a dict of these by factor",
    in_toml=_each(_is_tie),
    toml_words="a word, false, a list of indices, or a table of these by factor",
    spoken=str,
)
PRIOR = Kind("a plait.Gamma, or a dict of them by factor", in_toml=lambda x: isinstance(x, dict), toml_words="a table")
NUMBERS = Kind("", in_toml=_is_text, toml_words="text", choices=("float64", "float32"), spoken=str)
THING = Kind("")  # checked where it is used


def said(default: Any, kind: Kind, help: str, *, toml: bool = True, command: bool = True, kept: bool = True) -> Any:
    """A field of `Options`: who may say it besides Python, and whether a run keeps it."""
    return field(default=default, metadata={"kind": kind, "help": help, "toml": toml, "command": command, "kept": kept})


def only_python(default: Any, help: str) -> Any:
    """A field that neither a config file nor a command line has."""
    return said(default, THING, help, toml=False, command=False, kept=False)


@dataclass(frozen=True)
class Options:
    """What `plait.fit` is told of how to fit; see there."""

    rank: Any = said(
        None, RANK, "Size of the latent indices; or auto (what predicts best), or bound (how many groups)."
    )
    method: Any = said("vb", word("vb", "em", "map"), "Variational Bayes, maximum likelihood, or the posterior's mode.",
                       kept=False)  # fmt: skip
    prior: Any = said(DEFAULT_PRIOR, PRIOR, "Concentration and mean of the factors' Gamma priors.", command=False,
                      kept=False)  # fmt: skip
    adapt: Any = said(AUTO, TIE, "What has a prior of its own: auto, factor, component, entity, rank-one (VB only).")
    sweeps: Any = said(200, whole(0), "At most so many sweeps in all, after the warm-up.")
    tol: Any = said(1e-6, NUMBER, "Fewer once the bound changes by less than this part of its size.")
    seed: Any = said(None, whole(0, none=True), "Where the random start begins.", kept=False)
    fixed: Any = only_python(None, "Given factors by name.")
    labels: Any = only_python(None, "Entities beyond those seen, by axis.")
    init: Any = only_python(None, "Where to start: a fit, factors, or the folder of a run that goes on.")
    threads: Any = said(None, whole(1, none=True), "How many threads; by default one a processor.")
    dtype: Any = said("float64", NUMBERS, "Numbers that factors are stored in: float64, or float32 in half the memory.")
    executor: Any = only_python(None, "Another place to compute.")
    prune: Any = said(False, SWITCH, "Remove components that explain nothing (VB only).")
    accelerate: Any = said(False, SWITCH, "Go on beyond the end of a sweep as long as the bound does not fall.")
    start: Any = said(None, word("em", "random", none=True), "VB begins with 50 sweeps of EM, or at random.")
    restarts: Any = said(1, whole(1), "Fit so many times from other starts, and answer from their average.")
    keep: Any = said(None, word("average", "best", none=True), "Of several fits: answer from all, or from the best.")
    bootstrap: Any = said(False, SWITCH, "All fits but the first see links reweighed at random: wider intervals.")
    titles: Any = only_python(None, "What people call entities, by axis: tables of ids and titles.")
    rank_by: Any = only_python(None, "How the rank was found, in words, where it was not given.")
    found_weights: Any = only_python(None, "Weights that were found, by relation, and how, as words of the settings.")

    def check(self) -> None:
        """Every value alone is of its kind."""
        for option in DECLARED:
            option.kind.check(option.name, getattr(self, option.name))

    def words(self, resolved: Mapping[str, Any]) -> dict[str, Any]:
        """What a run keeps, as JSON can hold it; resolved: what the fit made of some options."""
        return {o.name: resolved.get(o.name, getattr(self, o.name)) for o in DECLARED if o.kept}


@dataclass(frozen=True)
class Option:
    """One option as it was declared."""

    name: str
    default: Any
    kind: Kind
    help: str
    toml: bool
    command: bool
    kept: bool


DECLARED = tuple(Option(f.name, f.default, **f.metadata) for f in fields(Options))
BY_NAME = {option.name: option for option in DECLARED}


def table() -> str:
    """The options as a table of Markdown, for the docs."""
    lines = ["| option | default | what it says | in `[fit]` | `plait fit` |", "|---|---|---|---|---|"]
    for option in DECLARED:
        if option.toml:
            command = f"`{flag(option)}`" if option.command else ""
            place = "top of the file" if option.name == "rank" else f"`{option.name}`"
            lines.append(f"| `{option.name}` | {_shown(option.default)} | {option.help} | {place} | {command} |")
    return "\n".join(lines)


def flag(option: Option) -> str:
    """What the command line calls an option."""
    return f"--{option.name.replace('_', '-')}"


def _shown(default: Any) -> str:
    return "" if default is None else f"`{default!r}`" if not isinstance(default, Gamma) else "0.5, 10"
