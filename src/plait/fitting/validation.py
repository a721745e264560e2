"""Validation of the arguments of `plait.fit` against model and data, before anything is computed."""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.codegen.layout import Layout, PairRows
from plait.data.observation.pairs import Pairs, count_joined
from plait.errors import ParameterError, TableLocation, one_of, suggestion
from plait.fitting.options import AUTO, DEFAULT_PRIOR, NUMBERS, whole
from plait.inference.empirical_bayes import RANK_ONE
from plait.inference.gamma import Chain, Gamma, GammaChain, Prior
from plait.inference.loop import WARM_UP
from plait.machine import memory
from plait.model import Equation, Factor, Model, Occurrence

Tie = str | Sequence[str]

FIT = "`init=fit`"
JOIN_ENTRY_BYTES = 40  # of an entry of a join without its coordinates (`plait.data.observation.terms`)


def check_ties(
    ties: Mapping[str, Tie],
    adapt_prior: Any,
    layouts: Mapping[str, Layout],
    *,
    chains: Collection[str] = (),
    chosen: bool,
) -> dict[str, Tie]:
    """Ties of all factors; one over pairs, or with a chain, has one prior, or one per value of latent indices.
    `chosen`: whether `adapt_prior` was given.
    """
    ties_of = dict(ties)
    for name, tie in ties.items():
        layout = layouts[name]
        if layout.pairs is None and name not in chains:
            continue
        visible = layout.visible if layout.pairs is None else layout.pairs.visible
        if tie in ("factor", "component") or not (isinstance(tie, str) or set(tie) & set(visible)):
            continue
        if chosen:
            hint = {**(adapt_prior if isinstance(adapt_prior, Mapping) else ties), name: "factor"}
            kind = "has a chain along an ordered axis" if name in chains else "is a factor over pairs"
            raise ParameterError(
                f"`adapt_prior` cannot be {tie!r} for factor {name}, which {kind}.",
                hint=f'Use "factor" or "component", such as `adapt_prior={hint!r}`.',
            )
        ties_of[name] = "factor"
    return ties_of


def by_components(name: str, pairs: PairRows, word: str, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Array of a prior of a factor over pairs as (1, *latent), one for all pairs."""
    shape = (1,) * (len(pairs.indices) - value.ndim) + value.shape
    if len(shape) > len(pairs.indices) or any(n > 1 for n, i in zip(shape, pairs.indices) if i in pairs.visible):
        raise ParameterError(
            (
                f"`prior` of {name}: {word} has shape {value.shape}, but "
                f"{name}[{', '.join(pairs.indices)}] is a factor over pairs, which has one prior for all "
                "pairs."
            ),
            hint=(f"Give one number, or an array of size 1 along {' and '.join(pairs.visible)}."),
        )
    return pairs.for_rows(value)


def refuse_array(layout: Layout) -> None:
    """Refuse an array as start of a factor over pairs, whose rows follow from the data."""
    if layout.pairs is not None:
        raise ParameterError(
            (
                f"`init` cannot contain an array for {layout.name}, which is a factor over pairs "
                f"({len(layout.pairs):,} pairs with links)."
            ),
            hint=f"Remove {layout.name} from `init`, or start from a fit: {FIT}.",
        )


def check_joins(model: Model, pairs: Mapping[str, Pairs]) -> None:
    """Refuse terms in which two factors over pairs meet in more combinations than memory holds."""
    for equation in model.equations:
        for term in equation.terms:
            own = [occurrence for occurrence in term.occurrences if occurrence.factor in pairs]
            for first, second in combinations(own, 2):
                _check_join(equation, first, second, pairs)


def _check_join(equation: Equation, first: Occurrence, second: Occurrence, pairs: Mapping[str, Pairs]) -> None:
    one, other = ([i for i in occurrence.indices if i in equation.indices] for occurrence in (first, second))
    indices = [index for index in equation.indices if index in one or index in other]
    if len(indices) in (len(one), len(other)):
        return
    names = [_visible(occurrence, pairs[occurrence.factor]) for occurrence in (first, second)]
    common = [(n, names[1].index(index)) for n, index in enumerate(names[0]) if index in names[1]]
    count = count_joined(pairs[first.factor], pairs[second.factor], common)
    if count * (4 * len(indices) + JOIN_ENTRY_BYTES) > memory():
        raise ParameterError(
            (
                f"{first} and {second} are factors over pairs in one term, with {count:,} combinations of "
                f"{', '.join(indices)}, which is too many for the memory."
            ),
            location=TableLocation.of(equation.relation),
            hint="Put one of them in a separate term, or remove it.",
        )


def _visible(occurrence: Occurrence, pairs: Pairs) -> list[str]:
    """Names of a factor's visible indices in an equation, in the order of its pairs."""
    here = dict(zip(pairs.indices, occurrence.indices))
    return [here[index] for index in pairs.visible]


CHAIN_CONCENTRATION = 10.0  # of a chain until it adapts: a step has a relative standard deviation of 0.47
CORE_CONCENTRATION = 0.02  # of a factor with several latent indices until it adapts (docs/decisions/0004-start.md)
MIN_FLOAT32_CONCENTRATION = 1e-30  # ψ of a smaller one nearly overflows float32


def as_dtype(given: Any) -> np.dtype[Any]:
    """Dtype of a fit's factors, from a word or any NumPy equivalent."""
    for choice in NUMBERS.choices:
        if isinstance(given, str) and given == choice:
            return np.dtype(choice)
        if isinstance(given, (type, np.dtype)) and given == np.dtype(choice):
            return np.dtype(choice)
    raise ParameterError.must_be("dtype", " or ".join(map(repr, NUMBERS.choices)), given)


def check_floats(dtype: np.dtype[Any], method: str, priors: Mapping[str, Prior]) -> None:
    """Refuse float32 for points, which may fall below its smallest number 1e-45 and lose the order of
    unlikely links.
    """
    if dtype == np.float64:
        return
    least = min((float(prior.concentration.min()) for prior in priors.values()), default=1.0)
    if method == "vb" and least < MIN_FLOAT32_CONCENTRATION:
        raise ParameterError(
            f'`dtype="float32"` requires a concentration of at least {MIN_FLOAT32_CONCENTRATION:g}, got {least:g}.',
            hint="Remove `dtype`, or increase the concentration.",
        )
    if method == "vb":
        return
    if method == "em" or any((prior.concentration <= 1).any() for prior in priors.values()):
        what = '`method="em"`' if method == "em" else "a concentration of 1"
        raise ParameterError(
            (
                f'`dtype="float32"` is not possible with {what}: small entries become 0, and unlikely '
                "links get the same score."
            ),
            hint='Remove `dtype`, or use `method="vb"` (or "map" with a concentration above 1).',
        )


def check_helpers(executor: Any, threads: int | None) -> None:
    """Check the executor, and that `threads` would not be ignored."""
    if executor is not None and not all(hasattr(executor, name) for name in ("threads", "sum", "rows")):
        raise ParameterError.must_be(
            "executor", "a plait.executors.Executor, such as plait.executors.Threads(2)", executor
        )
    if executor is not None and threads is not None:
        raise ParameterError(
            "`threads` and `executor` exclude each other.",
            hint="Remove one of the two.",
        )


def check_prune(prune: bool, method: str) -> None:
    """Refuse pruning without VB."""
    if prune and method != "vb":
        raise ParameterError(
            f'`prune` requires `method="vb"`, got {method!r}.',
            actual=method,
            hint="Remove `prune`, or change `method`.",
        )


def check_restarts(restarts: int, combine: str | None, init: Any, bootstrap: bool) -> None:
    """Check options of ensembles; members need different starts."""
    if bootstrap and restarts == 1:
        raise ParameterError(
            "`bootstrap=True` requires `restarts` of at least 2, got 1.",
            hint="Set `restarts=5`, or remove the option.",
        )
    if bootstrap and combine == "best":
        raise ParameterError(
            '`bootstrap=True` and `combine="best"` exclude each other: objectives of reweighted links are '
            "not comparable.",
            hint="Remove one of the two.",
        )
    if combine is not None and restarts == 1:
        raise ParameterError(
            "`combine` requires `restarts` of at least 2, got 1.",
            hint="Set `restarts=5`, or remove the option.",
        )
    if restarts > 1 and init is not None and not isinstance(init, (str, PathLike)):
        raise ParameterError(
            "`restarts` and `init` exclude each other: all fits would have the same start.",
            hint="Remove one of the two.",
        )


def warmup_sweeps(
    warmup: int | None, method: str, init: Any, prune: bool, free: Sequence[str], pairs: bool = False
) -> int:
    """Return the number of EM sweeps before VB: 50 by default where VB starts at random.

    There is no default warm-up with `prune`, since VB seldom removes components that EM has made sharp, nor with
    factors over pairs (`pairs`), since EM gives them everything that was observed.
    """
    if warmup is None:
        return WARM_UP if method == "vb" and init is None and not prune and free and not pairs else 0
    if isinstance(init, (str, PathLike)):  # a resumed run has started
        return 0
    if init is not None:
        raise ParameterError("`warmup` and `init` are both given.", hint="Remove one of the two.")
    if warmup and method != "vb":
        raise ParameterError(
            f'`warmup` requires `method="vb"`, got {method!r}.', actual=method, hint="Remove `warmup`."
        )
    return int(warmup) if free else 0


def evidence_scales(
    model: Model, given: Collection[str], free: Sequence[str], sparse: Collection[str] = ()
) -> frozenset[str]:
    """Scales of evidence: free factors in terms with given factors over visible indices only, next to latent terms, and
    weights of `sparse` given factors.

    Evidence needs one parameter, components many. Together from the start, or while priors adapt, one of the two often
    takes everything (decision 20).
    """
    evidence = {name for name in given if not model.factor(name).latent}
    terms = [term for equation in model.equations for term in equation.terms]
    given_terms = [
        t
        for t in terms
        if set(t.factors) & set(sparse)
        or (evidence & set(t.factors) and not any(model.factor(n).latent for n in t.factors))
    ]
    others = {name for term in terms if term not in given_terms for name in term.factors}
    woven = any(model.factor(name).latent for name in others if name in free)
    scales = {name for term in given_terms for name in term.factors if name in free and name not in others}
    return frozenset(scales) if woven else frozenset()


def with_summed(model: Model, rank: Any, sparse: Collection[str]) -> Any:
    """A rank for all latent indices, although the sizes of some come with sparse given factors later."""
    given = {index: 1 for name in sparse for index in model.factor(name).latent}
    if not given or isinstance(rank, str):
        return rank
    if isinstance(rank, Mapping):
        return given | dict(rank)
    return dict.fromkeys(model.latent, rank or 0) | given


def ranks(model: Model, rank: int | Mapping[str, int] | None) -> dict[str, int]:
    """Size of every latent index."""
    if isinstance(rank, Mapping):
        for index in rank:
            if index not in model.latent:
                what = (
                    "is a visible index, whose size comes from the data"
                    if index in model.visible
                    else "is not an index of the model"
                )
                raise ParameterError(
                    f"`rank`: {index!r} {what}.",
                    hint=f"The latent indices are {_join_names(model.latent)}.",
                )
        chosen = _tied_ranks(model, rank)
    elif rank is not None and not model.latent:
        raise ParameterError(
            "`rank` has no effect: the model has no latent index.",
            hint="Remove it.",
        )
    else:
        chosen = dict.fromkeys(model.latent, rank or 0)
    for index, size in chosen.items():
        whole(1).check("rank", size, f" of {index}")
    return {index: int(size) for index, size in chosen.items()}


def _tied_ranks(model: Model, rank: Mapping[str, int]) -> dict[str, int]:
    """Sizes by latent index; indices of one axis share theirs."""
    by_axis: dict[str, tuple[str, int]] = {}
    for index, size in rank.items():
        other, known = by_axis.setdefault(model.axis(index), (index, size))
        if known != size:
            raise ParameterError(
                f"`rank` of {index!r} is {size!r}, but {known!r} of {other!r}, although they are one "
                "index of a factor.",
                hint="Remove one of the two.",
            )
    missing = [index for index in model.ranks if index not in by_axis]
    if missing:
        raise ParameterError(
            f"`rank` is missing for the latent index {missing[0]!r}.",
            hint=f"Add `rank={{{missing[0]!r}: 10}}`.",
        )
    return {index: by_axis[model.axis(index)][1] for index in model.latent}


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def fixed_names(model: Model, fixed: Mapping[str, Any] | None) -> tuple[str, ...]:
    fixed = fixed or {}
    check_factor_names(model, "fixed", fixed)
    return tuple(name for name in model.factors if name in fixed)


def check_factor_names(model: Model, argument: str, given: Mapping[str, Any]) -> None:
    """Refuse names that are no factor of the model."""
    if not isinstance(given, Mapping):
        raise ParameterError.must_be(argument, "a dict by factor name", type(given))
    for name in given:
        if name not in model.factors:
            raise ParameterError(
                f"`{argument}`: {name!r} is not a factor of the model.",
                hint=f"{suggestion(name, model.factors)}The factors are {_join_names(model.factors)}.",
            )


def chained(model: Model, prior: Any, method: str, free: Sequence[str]) -> tuple[str, ...]:
    """Free factors with a chain along an ordered axis."""
    named = prior if isinstance(prior, Mapping) else {}
    for name, given in named.items():
        if isinstance(given, GammaChain) and name in model.factors and not model._ordered_places(name):
            indices = ", ".join(model.factor(name).visible) or "no visible index"
            hint = f"Declare it in the model, such as `{model.factor(name).visible[0]}: ordered`." if indices else ""
            what = f"`prior` of {name} is a plait.GammaChain, but the factor has no ordered axis ({indices})."
            raise ParameterError(what, hint=hint if model.factor(name).visible else "Use a plait.Gamma.")
    names = [name for name in free if model._ordered_places(name) and not isinstance(named.get(name), Gamma)]
    for name in names:
        factor = model.factor(name)
        places = model._ordered_places(name)
        if len(places) > 1:
            along = " and ".join(factor.visible[place] for place in places)
            raise ParameterError(
                f"factor {factor} has two indices of ordered axes, {along}, but a chain has one.",
                hint=f"Set `prior={{{name!r}: plait.Gamma()}}` for a factor without a chain.",
            )
        if method == "em":
            raise ParameterError(
                f'`method="em"` has no priors, so the ordered axis of factor {factor} has no effect.',
                hint='Remove the declaration "ordered", or use `method="vb"` or "map".',
            )
    return tuple(names)


def priors(
    model: Model,
    prior: Gamma | Mapping[str, Gamma | GammaChain],
    method: str,
    layouts: Mapping[str, Layout],
    free: Sequence[str],
    chains: Collection[str] = (),
    defaults: Mapping[str, Gamma] = MappingProxyType({}),
) -> dict[str, Prior]:
    """Prior of every free factor, broadcastable to the inside shape; `chains`: factors with a chain.

    `defaults`: where no prior is given, of some factors.
    """
    if method == "em":
        if prior is not DEFAULT_PRIOR:
            raise ParameterError(
                '`prior` is not possible with `method="em"`, which is maximum likelihood.',
                hint='Remove `prior`, or use `method="map"`.',
            )
        return {}
    chosen = _by_factor(model, prior, layouts, free, defaults)
    result = {}
    for name in free:
        own, chain = chosen[name], None
        if name in chains:
            whole = own if isinstance(own, GammaChain) else GammaChain(start=own)
            own, chain = whole.start or _default(model, layouts[name]), _chain(model, name, whole)
        assert isinstance(own, Gamma)
        A, B = (_inside_prior(layouts[name], word, getattr(own, word)) for word in ("concentration", "mean"))
        if chain and any(array.shape[chain.axis] > 1 for array in (A, B)):
            index = layouts[name].visible[chain.axis]
            raise ParameterError(
                f"`prior` of {name}: a chain along {index} has one prior for its first period, got one per period.",
                hint=f"Give numbers, or arrays of length 1 along {index}.",
            )
        if method == "map" and (A < 1).any():
            raise ParameterError(
                (f'`method="map"` requires a concentration of at least 1 for factor {name}, got {float(A.min()):g}.'),
                hint=(
                    f'Set `prior={{{name!r}: plait.GammaChain(start=plait.Gamma(1.0))}}`, or `method="vb"`.'
                    if chain
                    else 'Use a prior with `concentration=1.0`, or `method="vb"`.'
                ),
            )
        result[name] = Prior(A, B, chain)
    return result


def _chain(model: Model, name: str, prior: GammaChain) -> Chain:
    auto = prior.concentration == "auto"
    (axis,) = model._ordered_places(name)
    return Chain(axis, CHAIN_CONCENTRATION if isinstance(prior.concentration, str) else prior.concentration, auto)


def _by_factor(
    model: Model, prior: Any, layouts: Mapping[str, Layout], free: Sequence[str], defaults: Mapping[str, Gamma]
) -> dict[str, Gamma | GammaChain]:
    plain = {name: defaults[name] if name in defaults else _default(model, layouts[name]) for name in free}
    if prior is DEFAULT_PRIOR:
        return {**plain}
    if isinstance(prior, Gamma):
        return dict.fromkeys(free, prior)
    if not isinstance(prior, Mapping):
        raise ParameterError.must_be("prior", "a plait.Gamma, or a dict by factor", prior)
    check_factor_names(model, "prior", prior)
    for name, value in prior.items():
        if name not in free:
            raise ParameterError(
                f"factor {name} is both in `prior` and in `fixed`.",
                hint="Remove it from one of the two.",
            )
        if not isinstance(value, (Gamma, GammaChain)):
            raise ParameterError(
                f"`prior` of {name} must be a plait.Gamma or a plait.GammaChain, got {value!r}.",
                expected="a plait.Gamma or a plait.GammaChain",
                actual=value,
            )
    return {**plain, **prior}


def _default(model: Model, layout: Layout) -> Gamma:
    """Default prior of a factor; a core is sparse, as few pairs of components interact.

    A factor over pairs is as sparse as its pairs: all entries together have one prior event for each pair that occurs
    (docs/decisions/0037-repeated-pairs.md).
    """
    if layout.pairs is not None and len(layout.pairs):
        n_entries = layout.pairs.weights.sum() * math.prod(layout.sizes[1:])
        return Gamma(len(layout.pairs) / n_entries, DEFAULT_PRIOR.mean)
    if len(model.factor(layout.name).latent) > 1:
        return Gamma(CORE_CONCENTRATION, DEFAULT_PRIOR.mean)
    return DEFAULT_PRIOR


def _inside_prior(layout: Layout, word: str, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Prior array with the inside shape, with an axis for every index."""
    if layout.pairs is not None:
        value = by_components(layout.name, layout.pairs, word, value)
    shape = layout.shape
    try:
        np.broadcast_to(value, shape)
    except ValueError:
        raise ParameterError(
            (
                f"`prior` of {layout.name}: {word} has shape {value.shape}, which does not "
                f"broadcast to the factor's {shape}."
            ),
        ) from None
    full = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    return np.array(layout.moved(full), np.float64)


def ties(
    model: Model, adapt_prior: Tie | Mapping[str, Tie | None] | None, method: str, free: Sequence[str]
) -> dict[str, Tie]:
    """Tie of each adapted factor's prior."""
    if method != "vb":
        if adapt_prior not in (None, AUTO):
            raise ParameterError(
                f'`adapt_prior` requires `method="vb"`, got {method!r}.',
                actual=method,
                hint="Remove `adapt_prior`, or change `method`.",
            )
        return {}
    if isinstance(adapt_prior, Mapping):
        check_factor_names(model, "adapt_prior", adapt_prior)
        for name, tie in adapt_prior.items():
            if name not in free and tie is not None:
                raise ParameterError(
                    f"factor {name} is both in `fixed` and in `adapt_prior`.",
                    hint="Remove it from one of the two.",
                )
    by_factor = adapt_prior if isinstance(adapt_prior, Mapping) else dict.fromkeys(free, adapt_prior)
    chosen = {name: by_factor[name] for name in free if by_factor.get(name) is not None}
    return {name: _tie(model, model.factor(name), tie) for name, tie in chosen.items()}


def _tie(model: Model, factor: Factor, tie: Any) -> Tie:
    """A tie for the loop: "rank-one" where both sides exist, index names as the factor writes them."""
    words = (AUTO, "factor", "component", "entity", RANK_ONE)
    if isinstance(tie, str):
        one_of("adapt_prior", tie, words)
        if tie == AUTO:
            return _tie(model, factor, RANK_ONE if shared(model, factor.name) else "factor")
        if tie == RANK_ONE and not (factor.visible and factor.latent):
            return "factor"  # with one side there is no product
        return str(tie)
    if not isinstance(tie, (tuple, list)) or not all(isinstance(index, str) for index in tie):
        raise ParameterError.must_be(
            "adapt_prior", f"None, one of {', '.join(map(repr, words))}, or a tuple of index names", tie
        )
    axes = {model.axis(index) for index in tie}
    return tuple(index for index in factor.indices if model.axis(index) in axes)


def shared(model: Model, factor: str) -> bool:
    """Whether a factor couples relations."""
    return sum(factor in equation.factors for equation in model.equations) > 1


def check_tie_indices(model: Model, adapt_prior: Any) -> None:
    """Check index names in `adapt_prior`."""
    if isinstance(adapt_prior, Mapping):
        check_factor_names(model, "adapt_prior", adapt_prior)
    given = adapt_prior.items() if isinstance(adapt_prior, Mapping) else [(None, adapt_prior)]
    for name, tie in given:
        if isinstance(tie, (tuple, list)):
            known = model.indices if name is None else model.factor(name).indices
            axes = {model.axis(index) for index in known}
            for index in tie:
                if index not in model.indices or model.axis(index) not in axes:
                    where = "the model" if name is None else f"factor {name}"
                    raise ParameterError(
                        f"`adapt_prior`: {index!r} is not an index of {where}, which has {_join_names(known)}.",
                    )
