"""Options of `plait.fit`, declared once: default, allowed values, one line of help.

Checks of single values, the keys of ``[fit]`` in a config, the options of `plait fit`, saved settings and the table in
the docs follow from here. `validation` checks combinations.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from plait.errors import ParameterError, one_of
from plait.executors import Executor
from plait.inference.gamma import Gamma, GammaChain

AUTO = "auto"  # of `adapt_prior`: rank-one means for factors that couple relations, one prior for each other factor
DEFAULT_PRIOR = Gamma(concentration=0.5, mean=10.0)


@dataclass(frozen=True)
class Kind:
    """Allowed values: in words, by a test, and by another test for config files.

    `least`: of a number; `choices`: of a word. `spoken`: type on the command line.
    """

    words: str
    accepts: Callable[[Any], bool] = lambda value: True
    in_toml: Callable[[Any], bool] | None = None
    toml_words: str = ""
    least: float | None = None
    choices: tuple[str, ...] = ()
    spoken: type | None = None

    def check(self, name: str, given: Any, of: str = "") -> None:
        """Refuse other values; `of`: owner of the option."""
        if self.accepts(given):
            return
        if self.choices:
            one_of(name, given, self.choices)
        what = f"`{name}`{of} must be {self.words}, got {given!r}."
        raise ParameterError(what, expected=self.words, actual=given)


def is_whole(value: Any) -> bool:
    """Whether a value is an integer of Python or NumPy."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_tie(value: Any) -> bool:
    return value is False or _is_text(value) or (isinstance(value, list) and all(map(_is_text, value)))


def _is_evidence(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, (list, tuple)) and all(map(_is_text, value)))


def _each(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Test of a value, or of each value of a table."""
    return lambda value: accepts(value) or (isinstance(value, dict) and all(map(accepts, value.values())))


def whole(least: int, *, none: bool = False) -> Kind:
    """An integer; `none`: or None."""

    def accepts(value: Any) -> bool:
        return (none and value is None) or (is_whole(value) and value >= least)

    return Kind(f"an integer of at least {least}", accepts, is_whole, "an integer", least=least, spoken=int)


def word(*choices: str, none: bool = False) -> Kind:
    """One of some words; `none`: or None."""

    def accepts(value: Any) -> bool:
        return (none and value is None) or (_is_text(value) and value in choices)

    return Kind(" or ".join(map(repr, choices)), accepts, _is_text, "text", choices=choices, spoken=str)


NUMBER = Kind(
    "a finite number of at least 0",
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
    "an integer, a dict of integers by latent index, 'auto' or 'elbo'",
    in_toml=lambda x: x in ("auto", "elbo") or _each(is_whole)(x),
    toml_words='an integer, a table of integers by latent index, "auto" or "elbo"',
)
TIE = Kind(
    "a string, None, a tuple of index names, or a dict of these by factor",
    in_toml=_each(_is_tie),
    toml_words="a string, false, a list of indices, or a table of these by factor",
    spoken=str,
)
PRIOR = Kind(
    "a plait.Gamma, or a dict of plait.Gamma and plait.GammaChain by factor",
    in_toml=lambda x: isinstance(x, dict),
    toml_words="a table",
)
NUMBERS = Kind("", in_toml=_is_text, toml_words="text", choices=("float64", "float32"), spoken=str)
EVIDENCE = Kind(
    "'auto', 'neighbours', 'paths', 'rules', a list of these, or a dict of them by relation",
    lambda x: x is None or _is_evidence(x) or (isinstance(x, Mapping) and all(map(_is_evidence, x.values()))),
    lambda x: _is_evidence(x) or (isinstance(x, dict) and all(map(_is_evidence, x.values()))),
    "text, a list, or a table of these by relation",
    spoken=str,
)
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
Evidence = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `plait.fit`."""

    rank: Rank = option(
        None, RANK, "Number of components per latent index; auto: by held-out links; elbo: by the ELBO."
    )
    method: Literal["vb", "em", "map"] = option(
        "vb", word("vb", "em", "map"), "Variational Bayes, maximum likelihood, or posterior mode.", saved=False
    )
    prior: Gamma | Mapping[str, Gamma | GammaChain] = option(
        DEFAULT_PRIOR, PRIOR, "Concentration and mean of the Gamma priors.", command=False, saved=False
    )
    adapt_prior: Adapt = option(
        AUTO, TIE, "Which entries share a prior: auto, factor, component, entity or rank-one (VB only)."
    )
    max_iter: int = option(200, whole(0), "Maximum number of sweeps after the warm-up.")
    tol: float = option(1e-6, NUMBER, "Stop when a sweep changes the objective by less than this fraction.")
    seed: int | None = option(None, whole(0, none=True), "Random seed.", saved=False)
    fixed: Mapping[str, Any] | None = only_python(None, "Fixed factors by name.")
    entities: Mapping[str, Sequence[Any]] | None = only_python(None, "Declared entities by axis.")
    init: Any = only_python(None, "Starting point: a fit, factors, or the folder of a run to continue.")
    threads: int | None = option(None, whole(1, none=True), "Number of threads; by default one per processor.")
    dtype: Literal["float64", "float32"] = option(
        "float64", NUMBERS, "Storage of factors: float64, or float32 with half the memory."
    )
    executor: Executor | None = only_python(None, "Executor of the sums over links.")
    prune: bool = option(False, SWITCH, "Remove components that explain nothing (VB only).")
    accelerate: bool = option(False, SWITCH, "Extrapolate after each sweep while the objective does not fall.")
    warmup: int | None = option(None, whole(0, none=True), "Number of EM sweeps before VB; by default 50.")
    restarts: int = option(1, whole(1), "Number of fits from different seeds.")
    combine: Literal["average", "best"] | None = option(
        None, word("average", "best", none=True), "Predict by the average of all fits, or by the best one."
    )
    bootstrap: bool = option(False, SWITCH, "Bayesian bootstrap: reweight links at random in all fits but the first.")
    titles: Mapping[str, Any] | None = only_python(None, "Titles of entities by axis.")
    evidence: Evidence = option(
        None, EVIDENCE, "Terms computed from the links themselves: auto, neighbours, paths or rules."
    )
    rank_by: Mapping[str, Any] | None = only_python(None, "How the rank was chosen.")
    found_weights: Mapping[str, Any] | None = only_python(None, "Weights chosen automatically, by relation.")

    def check(self) -> None:
        """Check every value by itself."""
        for one in DECLARED:
            one.kind.check(one.name, getattr(self, one.name))

    def words(self, resolved: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a run as JSON; `resolved`: options after resolution."""
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
    """Markdown table of the options, for the docs."""
    lines = ["| option | default | meaning | in `[fit]` | `plait fit` |", "|---|---|---|---|---|"]
    for option in DECLARED:
        if option.toml:
            command = f"`{flag(option)}`" if option.command else ""
            place = "top of the file" if option.name == "rank" else f"`{option.name}`"
            lines.append(
                f"| `{option.name}` | {_write_default(option.default)} | {option.help} | {place} | {command} |"
            )
    return "\n".join(lines)


def flag(option: Option) -> str:
    """Name of an option on the command line."""
    return f"--{option.name.replace('_', '-')}"


def _write_default(default: Any) -> str:
    return "" if default is None else f"`{default!r}`" if not isinstance(default, Gamma) else "0.5, 10"
