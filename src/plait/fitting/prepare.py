"""Preparation of a fit: arguments checked against model and data, and problems ready for the first sweep or for
resumption.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from os import PathLike, fspath
from typing import Any, cast

import numpy as np

from plait.checks import check_fixed_coverage, check_links, check_model, check_ranks
from plait.codegen.layout import Layout, PairRows
from plait.data.binding.given import ComputedFactor, Exposures, bind_exposures, relation_of
from plait.data.binding.known import Known, reweighed
from plait.data.binding.sparse_factors import sparse_names
from plait.data.bound import Data
from plait.data.observation.pairs import Pairs, find_pairs
from plait.data.outofcore.bind_blocks import bind_all
from plait.data.sparse.csf import CSFCache
from plait.data.titles import bind_titles
from plait.errors import ParameterError, TableLocation, warn_of
from plait.executors import Executor, Threads
from plait.fitting import validation
from plait.fitting.given_factors import check_alike, fixed_arrays, given_factors, make_problem, warm_priors
from plait.fitting.options import AUTO, DEFAULT_PRIOR, Options
from plait.fitting.validation import check_joins, check_ties
from plait.inference.gamma import FactorState, Gamma, Prior
from plait.inference.initialisation import go_on, parts_of
from plait.inference.loop import ADAPT_AFTER, ADAPT_WARM, JOIN_SWEEP, Settings
from plait.inference.problem import Problem
from plait.inference.state import State
from plait.likelihood import as_likelihood
from plait.machine import memory
from plait.model import Model
from plait.result import Fit
from plait.storage.fingerprint import fingerprint
from plait.storage.fitted import Member, Origin, Posterior
from plait.storage.load import read_run
from plait.storage.run_folder import VERSION, manifest

PEAK_ARRAYS = 6  # of a factor's size, in a plain fit


def build_layouts(
    model: Model, data: Data, ranks: Mapping[str, int], pairs: Mapping[str, PairRows] | None = None
) -> dict[str, Layout]:
    """Layout of every factor; `pairs`: of those over pairs, by name."""
    result, unscaled = {}, model.unscaled({name: own.likelihood for name, own in data.relations.items()})
    for name in model.factors:
        factor, scaled = model.factor(name), name not in unscaled
        if pairs and name in pairs:
            own = tuple(ranks[index] for index in factor.latent)
            result[name] = Layout.of_pairs(name, pairs[name], factor.latent, own, scaled)
            continue
        sizes = tuple(ranks[i] if i in ranks else data.sizes[i] for i in factor.visible + factor.latent)
        result[name] = Layout(name, factor.indices, factor.visible, factor.latent, sizes, scaled)
    return result


def arrays_held(method: str, accelerate: bool, restarts: int = 1) -> int:
    """Number of arrays of a factor's size in a fit; acceleration doubles C and D (Z of a point), and finished members
    keep C, D and log L (Z).
    """
    own = 2 if method == "vb" else 1
    return PEAK_ARRAYS + (own if accelerate else 0) + (restarts - 1) * (3 if method == "vb" else 1)


def check_memory(layouts: Mapping[str, Layout], free: Sequence[str], dtype: np.dtype[Any], arrays: int) -> None:
    """Refuse factors that do not fit into memory, with `arrays` arrays each."""
    size = dtype.itemsize * arrays
    needs = {name: size * layouts[name].rows * layouts[name].columns for name in free}
    if sum(needs.values()) <= memory():
        return
    name = max(needs, key=lambda name: needs[name])
    shape = " × ".join(f"{size:,}" for size in layouts[name].shape)
    others = f", {sum(needs.values()) / 1e9:,.1f} GB with the others" if len(needs) > 1 else ""
    raise ParameterError(
        (
            f"factor {name} is too large: {shape} needs about {needs[name] / 1e9:,.1f} GB{others}; "
            f"this machine has {memory() / 1e9:,.1f} GB."
        ),
        hint="Use a smaller rank, or a model with fewer visible indices per factor.",
    )


Begin = Callable[[int, Executor], Problem]  # the problem of a member, by its seed


@dataclass(frozen=True)
class Task:
    """A fit before its run: data, settings of the loop, and its members by seed.

    `begun`: states of members to resume, by seed. `begin`: builds the problem of a member; they share parts and trees.
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
        """Problem of the first member."""
        return self.begin(self.seeds[0], self.executor)


@dataclass(frozen=True)
class Arguments:
    """Arguments of `plait.fit`, checked against model and data."""

    data: Data
    free: tuple[str, ...]
    ranks: dict[str, int]
    layouts: Mapping[str, Layout]
    loop: Settings
    dtype: np.dtype[Any]
    given: Mapping[str, FactorState]
    exposures: Exposures
    priors: dict[str, Prior]


def check_arguments(
    model: Model | str, data: Mapping[str, Any] | Data, given: Options, *, warn: bool = True
) -> Arguments:
    """Check all arguments against model and data, without computing anything of the size of the links."""
    model = model if isinstance(model, Model) else Model(model)
    _check_alone(given)
    dtype = validation.as_dtype(given.dtype)
    named = validation.fixed_names(model, given.fixed)
    free = tuple(name for name in model.factors if name not in named)
    summed = sparse_names(model, given.fixed)
    ranks = validation.ranks(model, validation.with_summed(model, cast(Any, given.rank), summed))
    validation.check_tie_indices(model, given.adapt_prior)
    ties = validation.ties(model, given.adapt_prior, given.method, free)
    validation.warmup_sweeps(given.warmup, given.method, given.init, given.prune, free)
    bound = bound_data(model, data, given.entities)
    if is_resumed(given.init):
        bound = _with_begun_likelihoods(bound, manifest(given.init)["likelihood"])
    chains = validation.chained(model, given.prior, given.method, free)
    pairs = pairs_of(bound, free, chains)
    fixed = fixed_arrays(given.fixed or {}, given.method)
    sparse = [name for name in fixed if name in summed or not model.factor(name).latent]
    exposures = bind_exposures(bound, {name: fixed[name] for name in sparse if not isinstance(fixed[name], Posterior)})
    ranks |= {own.index: own.size for own in exposures.summed.values()}
    layouts = build_layouts(model, bound, ranks, pairs)
    check_joins(model, pairs)
    ties = check_ties(ties, given.adapt_prior, layouts, chains=chains, chosen=given.adapt_prior != AUTO)
    warm_up = validation.warmup_sweeps(given.warmup, given.method, given.init, given.prune, free, bool(pairs))
    alone = given.method == "vb" and (given.init is None or is_resumed(given.init))
    scales = validation.evidence_scales(model, named, free, summed) if alone else frozenset[str]()
    computed = {name for name, own in fixed.items() if isinstance(own, ComputedFactor) and own.is_fitted_first}
    held = validation.evidence_scales(model, computed, free) & scales
    loop = Settings(
        given.max_iter, given.tol, ties, given.prune, given.accelerate, warm_up,
        ADAPT_WARM if warm_up else ADAPT_AFTER, dtype.name, scales - held, held,
        min(JOIN_SWEEP, given.max_iter // 2) if scales else 0,
    )  # fmt: skip
    check_memory(layouts, free, dtype, arrays_held(given.method, given.accelerate, given.restarts))
    if warn:
        _warn(bound, {} if given.prune else ranks, named)
    known = given_factors(model, layouts, {name: fixed[name] for name in fixed if name not in exposures.names})
    _refuse_joins(bound, exposures)
    if isinstance(given.init, Fit):
        check_alike(given.init, layouts, free)
    defaults = _rule_priors(bound, fixed, exposures)
    priors = _priors(bound, given, layouts, free, tuple(ties), chains, defaults)
    validation.check_floats(dtype, given.method, priors)
    return Arguments(bound, free, ranks, layouts, loop, dtype, known, exposures, priors)


def prepare(model: Model | str, data: Mapping[str, Any] | Data, given: Options, *, warn: bool = True) -> Task:
    """Check all arguments, and prepare the problems of all members."""
    checked = check_arguments(model, data, given, warn=warn)
    bound, exposures, loop = checked.data, checked.exposures, checked.loop
    executor: Executor = given.executor or Threads(given.threads)
    words = _words(bound, given, checked.ranks, loop, executor.threads)
    origin = _origin(bound, given, exposures, checked.given, words)
    begun: dict[int, State] = {}
    if isinstance(given.init, (str, PathLike)):
        origin, loop, begun = _resume(given, origin, loop)
    method = "em" if loop.warm_up else given.method
    stored = np.dtype(np.float64) if loop.warm_up else checked.dtype  # EM's entries fall below what floats hold
    init = given.init if not begun else None
    make = partial(
        make_problem, bound, checked.layouts, method, checked.priors, exposures, checked.given, init, stored, loop.late,
        loop.held,
    )  # fmt: skip
    parts, forest = parts_of(bound, exposures), CSFCache()

    def begin(seed: int, executor: Executor) -> Problem:
        own = parts
        if given.bootstrap and seed != origin.seed:
            own = parts_of(reweighed(bound, seed), exposures)
        if seed in begun:
            return go_on(own, begun[seed], given.method, checked.free, executor, forest)
        return make(own, seed, executor, forest)

    return Task(bound, loop, origin, member_seeds(origin.seed, given.restarts), begun, begin, executor)


def _refuse_joins(data: Data, exposures: Exposures) -> None:
    """Refuse exposures by tables if the observed cells are a table on disk: M·V would be a table in memory."""
    tables = {relation_of(key) for key, V in exposures.terms.items() if any(term.table for term in V.terms)}
    what = "an exposure over several indices with `observed` below 1"
    for name, relation in data.relations.items():
        if name in tables and not all(term.in_memory for term in relation.weights.terms):
            hint = 'Use exposures over single indices, or set `observed="all"`.'
            relation.links.require_memory(name, what, hint)


def _check_alone(given: Options) -> None:
    """Check arguments without model and data."""
    given.check()
    validation.check_helpers(given.executor, given.threads)
    validation.check_prune(given.prune, given.method)
    validation.check_restarts(given.restarts, given.combine, given.init, given.bootstrap)


def _words(data: Data, given: Options, ranks: Mapping[str, int], loop: Settings, threads: int) -> dict[str, Any]:
    """Settings of a fit as JSON, for `Fit.settings` and the manifest of a run."""
    resolved = {
        "rank": dict(ranks),
        "adapt_prior": {name: tie if isinstance(tie, str) else list(tie) for name, tie in loop.ties.items()},
        "max_iter": int(loop.max_iter),
        "tol": float(loop.tol),
        "warmup": int(loop.warm_up),
        "threads": threads,
        "dtype": loop.dtype,
        "restarts": int(given.restarts),
        "combine": given.combine or "average",
    }
    words = ({"rank_by": given.rank_by} if given.rank_by else {}) | dict(given.found_weights or {})
    terms = {
        name: value.words(data) for name, value in (given.fixed or {}).items() if isinstance(value, ComputedFactor)
    }
    words |= {"evidence_terms": terms} if terms else {}
    reasons = {name: relation.likelihood_by for name, relation in data.relations.items() if relation.likelihood_by}
    words |= {"likelihood_by": reasons} if reasons else {}
    join = {"join": loop.join} if loop.late | loop.held else {}
    return given.words(resolved) | {"adapt_after": loop.adapt_after} | join | words


def _resume(given: Options, origin: Origin, loop: Settings) -> tuple[Origin, Settings, dict[int, State]]:
    """Seed, start and ties of a run to resume, and the states of its members by seed."""
    earlier, members = _earlier(given.init, origin, given.warmup)
    words: dict[str, Any] = {w: earlier.settings[w] for w in ("warmup", "adapt_after", "join") if w in earlier.settings}
    if given.adapt_prior == AUTO:
        words["adapt_prior"] = earlier.settings["adapt_prior"]
        loop = replace(loop, ties=words["adapt_prior"])
    titles = bind_titles(origin.model, origin.entities, given.titles, earlier.titles)
    origin = replace(origin, seed=earlier.seed, settings=origin.settings | words, titles=titles)
    loop = replace(
        loop, warm_up=origin.settings["warmup"], adapt_after=earlier.settings.get("adapt_after", ADAPT_AFTER)
    )
    loop = (
        replace(loop, join=earlier.settings["join"])
        if "join" in earlier.settings
        else replace(loop, late=frozenset(), held=frozenset())
    )
    return origin, loop, {member.seed: member.state for member in members}


def member_seeds(seed: int, count: int) -> tuple[int, ...]:
    """Seeds of the members of an ensemble; the first is that of a single fit."""
    others = [np.random.SeedSequence(seed, spawn_key=(n,)).generate_state(1, np.uint64)[0] for n in range(1, count)]
    return (seed, *(int(other >> np.uint64(1)) for other in others))


def _warn(data: Data, ranks: Mapping[str, int], given: tuple[str, ...]) -> None:
    traps = (
        check_model(data.model, given),
        check_links(data),
        check_ranks(data, ranks, given),
        check_fixed_coverage(data, given),
    )
    warn_of(chain.from_iterable(traps))


def is_resumed(init: Any) -> bool:
    """Whether `init` is a folder to resume from."""
    return isinstance(init, (str, PathLike))


def pairs_of(data: Data, free: Sequence[str], chains: Sequence[str] = ()) -> dict[str, Pairs]:
    """Pairs of every free factor over several visible indices; `chains`: those with rows for all periods instead."""
    for equation in data.model.equations:
        for use in (o for o in equation.occurrences if o.factor in free):
            if any(equation.is_of_pairs(use, pair) for pair in equation.exchanged):
                raise ParameterError(
                    f"factor {use} must be fixed, because the equation of {equation.relation} is symmetric.",
                    location=TableLocation.of(equation.relation),
                    hint=(
                        f"Set `fixed={{{use.factor!r}: plait.Exposure(table, default=0)}}`, or use different "
                        "factors for the two sides."
                    ),
                )
    open_pairs = [name for name in free if len(data.model.factor(name).visible) > 1 and name not in chains]
    if not open_pairs:
        return {}
    what, hint = f"a free factor over pairs, {open_pairs[0]},", "Fix the factor, or fit in memory."
    for equation in data.model.equations:
        if any(o.factor in open_pairs for o in equation.occurrences):
            data.relations[equation.relation].links.require_memory(equation.relation, what, hint)
    return find_pairs(data.model, {n: r.links for n, r in data.relations.items()}, data.sizes, open_pairs)


def bound_data(model: Model, data: Mapping[str, Any] | Data, labels: Mapping[str, Sequence[Any]] | None) -> Data:
    """Data of a fit, bound to its model."""
    if not isinstance(data, Data):
        return bind_all(model, data, labels)
    if data.model != model:
        raise ParameterError(
            "`data` was bound to another model.", hint="Bind the data to this model: model.bind(data)."
        )
    if labels is not None:
        raise ParameterError(
            "`entities` cannot be used with bound data.",
            hint="Pass `entities` to `model.bind`.",
        )
    return data


def _with_begun_likelihoods(data: Data, likelihoods: Mapping[str, Any]) -> Data:
    """The data with the likelihoods that were chosen when a run began."""
    relations = dict(data.relations)
    for name, relation in relations.items():
        if relation.likelihood_by and name in likelihoods and relation.links.in_memory:
            begun = as_likelihood(likelihoods[name])
            if not begun.bad(relation.links.stored).any():
                relations[name] = replace(relation, likelihood=begun)
    return replace(data, relations=relations)


def _origin(
    data: Data, given: Options, exposures: Exposures, factors: Mapping[str, FactorState], words: dict[str, Any]
) -> Origin:
    seed = secrets.randbits(63) if given.seed is None else int(given.seed)
    likelihood = {name: relation.likelihood for name, relation in data.relations.items()}
    known = {name: Known.of(relation) for name, relation in data.relations.items()}
    mark = fingerprint(data, exposures, {name: factor.parameters for name, factor in factors.items()})
    titles = bind_titles(data.model, data.entities, given.titles)
    return Origin(data.model, given.method, seed, data.entities, likelihood, exposures, known, words, mark, titles)


def _priors(
    data: Data, given: Options, layouts: Mapping[str, Layout], free: tuple[str, ...], adapted: tuple[str, ...],
    chains: tuple[str, ...], defaults: Mapping[str, Gamma],
) -> dict[str, Prior]:  # fmt: skip
    """Initial priors: those of an earlier fit where it is the start."""
    priors = validation.priors(data.model, given.prior, given.method, layouts, free, chains, defaults)
    if isinstance(given.init, Fit) and given.method == "vb":
        priors |= warm_priors(given.init, data, layouts, free if given.prior is DEFAULT_PRIOR else adapted, priors)
    return priors


def _rule_priors(data: Data, fixed: Mapping[str, Any], exposures: Exposures) -> dict[str, Gamma]:
    """Default priors of the weights of rules, for links of the average value of their relation (decision 38)."""
    return {
        own.weights: Gamma(0.5, fixed[own.factor].weight_mean * float(data.relations[relation_of(key)].values.mean()))
        for key, own in exposures.summed.items()
        if hasattr(fixed[own.factor], "weight_mean") and len(data.relations[relation_of(key)].links)
    }


class CannotGoOnError(ParameterError):
    """A run that does not belong to this fit. `word`: what differs, "" for an old format; `detail`: how."""

    folder: str
    word: str
    detail: str


def _cannot_go_on(folder: str | PathLike[str], word: str = "", detail: str = "") -> CannotGoOnError:
    reason = f"its {word} differs{detail}" if word else "an older version of Plait made it"
    instead = "To start from its factors instead" if word else "Fit again; to start from its factors"
    error = CannotGoOnError(
        f"`init`: the run in {fspath(folder)} cannot continue: {reason}.",
        hint=f"{instead}, use `init=plait.load({fspath(folder)!r})`.",
    )
    error.folder, error.word, error.detail = fspath(folder), word, detail
    return error


def _earlier(folder: str | PathLike[str], now: Origin, warmup: int | None) -> tuple[Origin, list[Member]]:
    """The run in a folder, if it belongs to this fit."""
    if manifest(folder)["version"] < VERSION:
        raise _cannot_go_on(folder)
    earlier, members, _ = read_run(folder)
    began = earlier.settings.get("warmup", 0)
    pairs = {
        "model": (str(earlier.model), str(now.model)),
        "method": (earlier.method, now.method),
        "rank": (earlier.settings["rank"], now.settings["rank"]),
        "dtype": (earlier.settings.get("dtype", "float64"), now.settings["dtype"]),
        "warmup": (began, began if warmup is None else warmup),
        "bootstrap": (earlier.settings.get("bootstrap", False), now.settings["bootstrap"]),
        "data": (earlier.fingerprint, now.fingerprint),
    }
    for word, (then, here) in pairs.items():
        if then != here:
            detail = f" ({then} then, {here} now)" if word in ("method", "rank", "dtype", "warmup", "bootstrap") else ""
            raise _cannot_go_on(folder, word, detail)
    return earlier, members
