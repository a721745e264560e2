"""From the arguments of `plait.fit` to a problem ready for its first sweep, or for its next."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from os import PathLike, fspath
from typing import Any, cast

import numpy as np

from plait.compile.layout import Layout
from plait.data.binding.given import Exposures, bind_exposures, relation_of
from plait.data.binding.known import Known
from plait.data.binding.resample import reweighed
from plait.data.blocks.binding import bind_all
from plait.data.bound import Data
from plait.data.cells.trees import Forest
from plait.data.observing.pairs import Pairs, find_pairs
from plait.data.reading.titles import bind_titles
from plait.errors import SettingError, TableLocation
from plait.execute import Executor, Threads
from plait.fitting import checks, sizes
from plait.fitting.assemble import as_given, check_alike, given_factors, make_problem, warm_priors
from plait.fitting.options import AUTO, DEFAULT_PRIOR, Options
from plait.fitting.remembered import check_joins, check_ties
from plait.fitting.traps import given_traps, link_traps, rank_traps
from plait.infer.gamma import FactorState
from plait.infer.loop import ADAPT_AFTER, ADAPT_WARM, JOIN, WARM_UP, Settings
from plait.infer.parts import go_on, parts_of
from plait.infer.prior import Prior
from plait.infer.problem import Method, Problem
from plait.infer.state import State
from plait.model import Model
from plait.model.lone_latent import model_traps
from plait.result import Fit
from plait.run.fingerprint import fingerprint
from plait.run.folder import manifest
from plait.run.load import load
from plait.run.record import Member, Origin
from plait.warn import warn_of

Begin = Callable[[int, Executor], Problem]  # the problem of a member, by its seed


@dataclass(frozen=True)
class Task:
    """A fit that has not run: the data, the settings of the loop, and its members by their seeds.

    begun: states that members go on from, by seed. begin: the problem of a member; they share parts and trees.
    """

    data: Data
    loop: Settings
    origin: Origin
    seeds: tuple[int, ...]
    begun: Mapping[int, State]
    begin: Begin
    executor: Executor

    @cached_property
    def problem(self) -> Problem:
        """The problem of the first member."""
        return self.begin(self.seeds[0], self.executor)


def prepare(model: Model | str, data: Mapping[str, Any] | Data, given: Options, *, warn: bool = True) -> Task:
    """Check all arguments against model and data, and make the problem."""
    model = model if isinstance(model, Model) else Model(model)
    _check_alone(given)
    dtype = checks.as_dtype(given.dtype)
    named = checks.fixed_names(model, given.fixed)
    free = tuple(name for name in model.factors if name not in named)
    ranks = checks.ranks(model, given.rank)
    checks.check_tie_indices(model, given.adapt)
    ties = checks.ties(model, given.adapt, given.method, free)
    checks.check_start(given.start, given.method, given.init, given.prune, free)
    executor: Executor = given.executor or Threads(given.threads)
    bound = bound_data(model, data, given.labels)
    pairs = pairs_of(bound, free)
    layouts = sizes.layouts(model, bound, ranks, pairs)
    check_joins(model, pairs)
    ties = check_ties(ties, given.adapt, layouts, chosen=given.adapt != AUTO)
    warm = checks.check_start(given.start, given.method, given.init, given.prune, free, bool(pairs))
    warm_up, adapt_after = (WARM_UP, ADAPT_WARM) if warm else (0, ADAPT_AFTER)
    alone = given.method == "vb" and (given.init is None or begun_in(given.init))
    late = checks.late_factors(model, named, free) if alone else frozenset[str]()
    loop = Settings(
        given.sweeps, given.tol, ties, given.prune, given.accelerate, warm_up, adapt_after,
        dtype.name, late, min(JOIN, given.sweeps // 2) if late else 0,
    )  # fmt: skip
    held = sizes.arrays_held(given.method, given.accelerate, given.restarts)
    sizes.check_memory(layouts, free, dtype, held)
    if warn:
        _warn(bound, {} if given.prune else ranks, named)
    fixed = as_given(given.fixed or {}, given.method)
    known = given_factors(model, layouts, fixed)
    exposures = bind_exposures(bound, {name: fixed[name] for name in fixed if name not in known})
    _refuse_joins(bound, exposures)
    words = _words(given, ranks, loop, executor.threads)
    origin = _origin(bound, given, exposures, known, words)
    begun: dict[int, State] = {}
    if isinstance(given.init, (str, PathLike)):
        origin, loop, begun = _taken_up(given, origin, loop)
        warm = bool(loop.warm_up)
    if isinstance(given.init, Fit):
        check_alike(given.init, layouts, free)
    priors = _priors(bound, given, layouts, free, tuple(ties))
    checks.check_floats(dtype, given.method, priors)
    method = cast(Method, "em" if warm else given.method)
    stored = np.dtype(np.float64) if warm else dtype  # EM's entries fall below what floats hold
    init = given.init if not begun else None
    make = partial(make_problem, bound, layouts, method, priors, exposures, known, init, stored, loop.late)
    parts, forest = parts_of(bound, exposures), Forest()

    def begin(seed: int, executor: Executor) -> Problem:
        own = parts
        if given.bootstrap and seed != origin.seed:
            own = parts_of(reweighed(bound, seed), exposures)
        if seed in begun:
            return go_on(own, begun[seed], given.method, free, executor, forest)
        return make(own, seed, executor, forest)

    return Task(bound, loop, origin, member_seeds(origin.seed, given.restarts), begun, begin, executor)


def _refuse_joins(data: Data, exposures: Exposures) -> None:
    """Refuse exposures by tables where what is observed is a table on disk: M·V would be a table in memory."""
    tables = {relation_of(key) for key, V in exposures.terms.items() if any(term.table for term in V.terms)}
    what = "an exposure for several indices where zeros weigh less than links"
    for name, relation in data.relations.items():
        if name in tables and not all(term.in_memory for term in relation.weights.terms):
            hint = 'Give it for single indices, or fit with `observed="all"`.'
            relation.links.require_memory(name, what, hint)


def _check_alone(given: Options) -> None:
    """What can be said of arguments without model and data."""
    given.check()
    checks.check_helpers(given.executor, given.threads)
    checks.check_prune(given.prune, given.method)
    checks.check_restarts(given.restarts, given.keep, given.init, given.bootstrap)


def _words(given: Options, ranks: Mapping[str, int], loop: Settings, threads: int) -> dict[str, Any]:
    """The settings of a fit as JSON can hold them, for `Fit.settings` and the manifest of a run."""
    resolved = {
        "rank": dict(ranks),
        "adapt": {name: tie if isinstance(tie, str) else list(tie) for name, tie in loop.ties.items()},
        "sweeps": int(loop.sweeps),
        "tol": float(loop.tol),
        "start": "em" if loop.warm_up else "random",
        "threads": threads,
        "dtype": loop.dtype,
        "restarts": int(given.restarts),
        "keep": given.keep or "average",
    }
    found = ({"rank_by": given.rank_by} if given.rank_by else {}) | (given.found_weights or {})
    join = {"join": loop.join} if loop.late else {}
    return given.words(resolved) | {"adapt_after": loop.adapt_after} | join | found


def _taken_up(given: Options, origin: Origin, loop: Settings) -> tuple[Origin, Settings, dict[int, State]]:
    """A run in a folder goes on as it began: its seed, start and tying, and the states of its members by seed."""
    earlier, members = _earlier(given.init, origin, given.start)
    words: dict[str, Any] = {w: earlier.settings[w] for w in ("start", "adapt_after", "join") if w in earlier.settings}
    if given.adapt == AUTO:
        words["adapt"] = earlier.settings["adapt"]
        loop = replace(loop, ties=words["adapt"])
    titles = bind_titles(origin.model, origin.labels, given.titles, earlier.titles)
    origin = replace(origin, seed=earlier.seed, settings=origin.settings | words, titles=titles)
    warm_up = WARM_UP if origin.settings["start"] == "em" else 0
    loop = replace(loop, warm_up=warm_up, adapt_after=earlier.settings.get("adapt_after", ADAPT_AFTER))
    loop = (
        replace(loop, join=earlier.settings["join"]) if "join" in earlier.settings else replace(loop, late=frozenset())
    )
    return origin, loop, {member.seed: member.state for member in members}


def member_seeds(seed: int, count: int) -> tuple[int, ...]:
    """The seeds of the members of an ensemble; the first is that of a single fit."""
    others = [np.random.SeedSequence(seed, spawn_key=(n,)).generate_state(1, np.uint64)[0] for n in range(1, count)]
    return (seed, *(int(other >> np.uint64(1)) for other in others))


def _warn(data: Data, ranks: Mapping[str, int], given: tuple[str, ...]) -> None:
    traps = model_traps(data.model, given), link_traps(data), rank_traps(data, ranks, given), given_traps(data, given)
    warn_of(chain.from_iterable(traps))


def begun_in(init: Any) -> bool:
    """Whether a fit goes on from a folder, and not from factors that are there already."""
    return isinstance(init, (str, PathLike))


def pairs_of(data: Data, free: Sequence[str]) -> dict[str, Pairs]:
    """The pairs of every free factor over several visible indices."""
    for equation in data.model.equations:
        for use in (o for o in equation.occurrences if o.factor in free):
            if any(equation.is_of_pairs(use, pair) for pair in equation.exchanged):
                raise SettingError(
                    f"factor {use} is not given, and pairs of {equation.relation} have no order.",
                    location=TableLocation.of(equation.relation),
                    hint=(
                        f"Give it, `fixed={{{use.factor!r}: plait.Exposure(table, default=0)}}`; or give the two sides "
                        "factors of their own, so that they have an order."
                    ),
                )
    open_pairs = [name for name in free if len(data.model.factor(name).visible) > 1]
    if not open_pairs:
        return {}
    what, hint = f"a free factor over pairs, {open_pairs[0]},", "Give the factor, or fit in memory."
    for equation in data.model.equations:
        if any(o.factor in open_pairs for o in equation.occurrences):
            data.relations[equation.relation].links.require_memory(equation.relation, what, hint)
    return find_pairs(data.model, {n: r.links for n, r in data.relations.items()}, data.sizes, open_pairs)


def bound_data(model: Model, data: Mapping[str, Any] | Data, labels: Mapping[str, Sequence[Any]] | None) -> Data:
    """The data of a fit, bound to its model."""
    if not isinstance(data, Data):
        return bind_all(model, data, labels)
    if data.model != model:
        raise SettingError("`data` was bound to another model.", hint="Bind it again: model.bind(data).")
    if labels is not None:
        raise SettingError(
            "`labels` is given with data that is bound already.",
            hint="Give it to `model.bind`.",
        )
    return data


def _origin(
    data: Data, given: Options, exposures: Exposures, factors: Mapping[str, FactorState], words: dict[str, Any]
) -> Origin:
    seed = secrets.randbits(63) if given.seed is None else int(given.seed)
    likelihood = {name: relation.likelihood for name, relation in data.relations.items()}
    known = {name: Known.of(relation) for name, relation in data.relations.items()}
    mark = fingerprint(data, exposures, {name: factor.parameters for name, factor in factors.items()})
    titles = bind_titles(data.model, data.labels, given.titles)
    return Origin(data.model, given.method, seed, data.labels, likelihood, exposures, known, words, mark, titles)


def _priors(
    data: Data, given: Options, layouts: Mapping[str, Layout], free: tuple[str, ...], adapted: tuple[str, ...]
) -> dict[str, Prior]:
    """The priors to begin with: those of an earlier fit where it is the start."""
    priors = checks.priors(data.model, given.prior, given.method, layouts, free)
    if isinstance(given.init, Fit) and given.method == "vb":
        priors |= warm_priors(given.init, data, layouts, free if given.prior is DEFAULT_PRIOR else adapted)
    return priors


class CannotGoOnError(SettingError):
    """A run that is not one of this very fit. word: what of it is another, "" where it is too old; detail: how."""

    folder: str
    word: str
    detail: str


def _cannot_go_on(folder: str | PathLike[str], word: str = "", detail: str = "") -> CannotGoOnError:
    reason = f"its {word} differs{detail}" if word else "an older version of Plait made it"
    instead = "To start from its factors instead" if word else "Fit again; to start from its factors"
    error = CannotGoOnError(
        f"`init`: the run in {fspath(folder)} cannot go on, for {reason}.",
        hint=f"{instead}, give `init=plait.load({fspath(folder)!r})`.",
    )
    error.folder, error.word, error.detail = fspath(folder), word, detail
    return error


def _earlier(folder: str | PathLike[str], now: Origin, start: str | None) -> tuple[Origin, list[Member]]:
    """The run in a folder, if it is one of this very fit: only then can it go on."""
    earlier, members, _ = load(folder)
    began = earlier.settings.get("start", "random")
    pairs = {
        "model": (str(earlier.model), str(now.model)),
        "method": (earlier.method, now.method),
        "rank": (earlier.settings["rank"], now.settings["rank"]),
        "dtype": (earlier.settings.get("dtype", "float64"), now.settings["dtype"]),
        "start": (began, start or began),
        "bootstrap": (earlier.settings.get("bootstrap", False), now.settings["bootstrap"]),
        "data": (earlier.fingerprint, now.fingerprint),
    }
    for word, (then, here) in pairs.items():
        if then != here:
            if word == "data" and manifest(folder)["version"] < 2:
                raise _cannot_go_on(folder)
            detail = f" ({then} then, {here} now)" if word in ("method", "rank", "dtype", "start", "bootstrap") else ""
            raise _cannot_go_on(folder, word, detail)
    return earlier, members
