"""Options of `plait.fit`, declared once: default, allowed values, one line of help.

The checks of single values, the keys of ``[fit]`` in a config, the options of `plait fit`, the settings that a run
saves and the table in the docs come from here. `validation` checks what options mean together.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from plait.errors import ParameterError, one_of
from plait.executors import Executor
from plait.inference.gamma import Gamma

AUTO = "auto"  # of `adapt_prior`: rank-one means for factors that couple relations, one prior for each other factor
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
        raise ParameterError(what, expected=self.words, actual=given)


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
    "a whole number, a dict of them by latent index, 'auto' or 'elbo'",
    in_toml=lambda x: x in ("auto", "elbo") or _each(is_whole)(x),
    toml_words='a whole number, a table of them by latent index, "auto" or "elbo"',
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


def option(default: Any, kind: Kind, help: str, *, toml: bool = True, command: bool = True, saved: bool = True) -> Any:
    """Declare a field of `Options`: whether config files and the command line have it, and whether a run saves it."""
    about = {"kind": kind, "help": help, "toml": toml, "command": command, "saved": saved}
    return field(default=default, metadata=about)


def only_python(default: Any, help: str) -> Any:
    """A field that neither a config file nor a command line has."""
    return option(default, THING, help, toml=False, command=False, saved=False)


Rank = int | Mapping[str, int] | Literal["auto", "elbo"] | None
Tie = str | Sequence[str]  # of one factor: "factor", "component", "entity", "rank-one", or names of indices
Adapt = Tie | Mapping[str, Tie | None] | None
DTypeName = Literal["float64", "float32"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `plait.fit`."""

    rank: Rank = option(None, RANK, "Size of the latent indices, auto (best prediction) or elbo (best ELBO).")
    method: Literal["vb", "em", "map"] = option(
        "vb", word("vb", "em", "map"), "Variational Bayes, maximum likelihood, or posterior mode.", saved=False
    )
    prior: Gamma | Mapping[str, Gamma] = option(
        DEFAULT_PRIOR, PRIOR, "Concentration and mean of the Gamma priors.", command=False, saved=False
    )
    adapt_prior: Adapt = option(
        AUTO, TIE, "Which entries share a prior: auto, factor, component, entity or rank-one (VB only)."
    )
    max_iter: int = option(200, whole(0), "Maximum number of sweeps after the warm-up.")
    tol: float = option(1e-6, NUMBER, "Stop when a sweep changes the objective by less than this fraction.")
    seed: int | None = option(None, whole(0, none=True), "Random seed.", saved=False)
    fixed: Mapping[str, Any] | None = only_python(None, "Given factors by name.")
    entities: Mapping[str, Sequence[Any]] | None = only_python(None, "Declared entities by axis.")
    init: Any = only_python(None, "Starting point: a fit, factors, or the folder of a run to continue.")
    threads: int | None = option(None, whole(1, none=True), "Number of threads; by default one per processor.")
    dtype: Any = option("float64", NUMBERS, "Storage of factors: float64, or float32 with half the memory.")
    executor: Executor | None = only_python(None, "Where sums over links are computed.")
    prune: bool = option(False, SWITCH, "Remove components that explain nothing (VB only).")
    accelerate: bool = option(False, SWITCH, "Extrapolate after each sweep while the objective does not fall.")
    warmup: int | None = option(None, whole(0, none=True), "Number of EM sweeps before VB; by default 50, 0: none.")
    restarts: int = option(1, whole(1), "Number of fits from different seeds.")
    combine: Literal["average", "best"] | None = option(
        None, word("average", "best", none=True), "Answer from the average of all fits, or from the best one."
    )
    bootstrap: bool = option(False, SWITCH, "Reweight links at random in all fits but the first: wider intervals.")
    titles: Mapping[str, Any] | None = only_python(None, "Titles of entities by axis.")
    rank_by: Mapping[str, Any] | None = only_python(None, "How the rank was chosen, where it was not given.")
    found_weights: Mapping[str, Any] | None = only_python(None, "Weights that were chosen, by relation, and how.")

    def check(self) -> None:
        """Every value alone is of its kind."""
        for one in DECLARED:
            one.kind.check(one.name, getattr(self, one.name))

    def words(self, resolved: Mapping[str, Any]) -> dict[str, Any]:
        """What a run keeps, as JSON can hold it; resolved: what the fit made of some options."""
        return {o.name: resolved.get(o.name, getattr(self, o.name)) for o in DECLARED if o.saved}


@dataclass(frozen=True)
class Option:
    """One option as it was declared."""

    name: str
    default: Any
    kind: Kind
    help: str
    toml: bool
    command: bool
    saved: bool


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
