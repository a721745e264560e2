"""What the arguments of a fit may say of factors that remember pairs, whose rows are not those of an array.

The arguments of `plait.fit`, checked against model and data before anything is computed.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.codegen.layout import Layout, PairRows
from plait.data.observation.pairs import Pairs, count_joined
from plait.errors import ParameterError, TableLocation, one_of, suggestion
from plait.fitting.options import AUTO, DEFAULT_PRIOR, NUMBERS, whole
from plait.inference.empirical_bayes import RANK_ONE
from plait.inference.gamma import Gamma, Prior
from plait.inference.loop import WARM_UP
from plait.machine import memory
from plait.model import Equation, Factor, Model, Occurrence

Tie = str | Sequence[str]

FIT = "`init=fit`"
JOINED = 40  # bytes that an entry of a join takes besides its coordinates (`plait.data.observation.terms`)


def check_ties(
    ties: Mapping[str, Tie], adapt_prior: Any, layouts: Mapping[str, Layout], *, chosen: bool
) -> dict[str, Tie]:
    """The ties of all factors; of one over pairs a prior for the whole factor, or for values of latent indices.

    chosen: whether the user said how to adapt.
    """
    found = dict(ties)
    for name, tie in ties.items():
        pairs = layouts[name].pairs
        if pairs is None or tie in ("factor", "component") or _latent(tie, pairs):
            continue
        if chosen:
            hint = {**(adapt_prior if isinstance(adapt_prior, Mapping) else ties), name: "factor"}
            raise ParameterError(
                f"`adapt_prior` is {tie!r} for factor {name}, which remembers pairs: most of them share a row.",
                hint=f'It adapts by "factor" or "component": `adapt_prior={hint!r}`.',
            )
        found[name] = "factor"
    return found


def _latent(tie: Tie, pairs: PairRows) -> bool:
    """Whether a tying by index names has none that is visible."""
    return not isinstance(tie, str) and not set(tie) & set(pairs.visible)


def by_components(name: str, pairs: PairRows, word: str, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """An array of a prior that broadcasts to the factor as written -> (1, *latent); it is one for all pairs."""
    shape = (1,) * (len(pairs.indices) - value.ndim) + value.shape
    if len(shape) > len(pairs.indices) or any(n > 1 for n, i in zip(shape, pairs.indices) if i in pairs.visible):
        raise ParameterError(
            (
                f"`prior` of {name}: {word} has shape {value.shape}, but "
                f"{name}[{', '.join(pairs.indices)}] remembers pairs, and one prior is for all of them."
            ),
            hint=(
                f"Give one number, or one for every value of its latent indices: 1 along {' and '.join(pairs.visible)}."
            ),
        )
    return pairs.for_rows(value)


def refuse_array(layout: Layout) -> None:
    """A start of a factor over pairs cannot be an array: nobody knows its rows before the data are read."""
    if layout.pairs is not None:
        raise ParameterError(
            (
                f"`init` names factor {layout.name}, which remembers pairs: it has a row for each "
                f"of {len(layout.pairs):,} pairs with links, and one for all others of an entity."
            ),
            hint=f"Leave {layout.name} out of `init`; or start from a fit: {FIT}.",
        )


def check_joins(model: Model, pairs: Mapping[str, Pairs]) -> None:
    """Refuse terms in which two factors over pairs meet in more combinations than memory holds, before any is made."""
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
    if count * (4 * len(indices) + JOINED) > memory():
        raise ParameterError(
            (
                f"{first} and {second} remember pairs in one term, which meet in {count:,} combinations of "
                f"{', '.join(indices)}: more than memory holds."
            ),
            location=TableLocation.of(equation.relation),
            hint="Put one of them in a term of its own, or leave it out.",
        )


def _visible(occurrence: Occurrence, pairs: Pairs) -> list[str]:
    """What an equation calls the visible indices of a factor, in the order of its pairs."""
    here = dict(zip(pairs.indices, occurrence.indices))
    return [here[index] for index in pairs.visible]


CORE = 0.02  # concentration of a factor with several latent indices until it adapts (docs/decisions/0004-start.md)
FLOAT_LEAST = 1e-30  # ψ of a concentration below this comes near the end of floats


def as_dtype(given: Any) -> np.dtype[Any]:
    """The numbers that a fit stores, from a word or from what NumPy takes for it."""
    for choice in NUMBERS.choices:
        if isinstance(given, str) and given == choice:
            return np.dtype(choice)
        if isinstance(given, (type, np.dtype)) and given == np.dtype(choice):
            return np.dtype(choice)
    raise ParameterError.must_be("dtype", " or ".join(map(repr, NUMBERS.choices)), given)


def check_floats(dtype: np.dtype[Any], method: str, priors: Mapping[str, Prior]) -> None:
    """Points that may fall to 0 need doubles: at 1e-45 floats end, and the order of unlikely links with them."""
    if dtype == np.float64:
        return
    least = min((float(prior.concentration.min()) for prior in priors.values()), default=1.0)
    if method == "vb" and least < FLOAT_LEAST:
        raise ParameterError(
            f'`dtype="float32"` cannot hold what follows from a concentration of {least:g}.',
            hint=f"Leave `dtype` out, or use a concentration of {FLOAT_LEAST:g} or more.",
        )
    if method == "vb":
        return
    if method == "em" or any((prior.concentration <= 1).any() for prior in priors.values()):
        what = '`method="em"`' if method == "em" else "a concentration of 1"
        raise ParameterError(
            (
                f'`dtype="float32"` does not go with {what}: entries fall without end, and those '
                "that floats cannot hold become 0, so that unlikely links are no longer told apart."
            ),
            hint='Leave `dtype` out, or use `method="vb"` (or "map" with a concentration above 1).',
        )


def check_helpers(executor: Any, threads: int | None) -> None:
    """The executor is one, and threads would not be ignored."""
    if executor is not None and not all(hasattr(executor, name) for name in ("threads", "sum", "rows")):
        raise ParameterError.must_be(
            "executor", "a plait.executors.Executor, such as plait.executors.Threads(2)", executor
        )
    if executor is not None and threads is not None:
        raise ParameterError(
            "`threads` is given next to `executor`, which has its own.",
            hint="Give one of the two.",
        )


def check_prune(prune: bool, method: str) -> None:
    """Only VB knows what a component is worth."""
    if prune and method != "vb":
        raise ParameterError(
            f'`prune` is for `method="vb"` only, got `method="{method}"`.',
            actual=method,
        )


def check_restarts(restarts: int, combine: str | None, init: Any, bootstrap: bool) -> None:
    """What is kept of several members; each must have a start of its own."""
    if bootstrap and restarts == 1:
        raise ParameterError(
            "`bootstrap=True` is for several fits, but `restarts` is 1.",
            hint="Give `restarts=5`, or leave it out.",
        )
    if bootstrap and combine == "best":
        raise ParameterError(
            '`bootstrap=True` is given next to `combine="best"`: bounds of reweighed links do not compare.',
            hint="Leave one of the two out.",
        )
    if combine is not None and restarts == 1:
        raise ParameterError(
            f'`combine="{combine}"` is for several fits, but `restarts` is 1.',
            hint="Give `restarts=5`, or leave it out.",
        )
    if restarts > 1 and init is not None and not isinstance(init, (str, PathLike)):
        raise ParameterError(
            f"`restarts={int(restarts)!r}` is given next to `init`, from which all of them would start alike.",
            hint="Give one of the two.",
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
    if isinstance(init, (str, PathLike)):  # a run that is resumed has begun
        return 0
    if init is not None:
        raise ParameterError("`warmup` and `init` are both given.", hint="Remove one of them.")
    if warmup and method != "vb":
        raise ParameterError(
            f'`warmup` requires `method="vb"`, got {method!r}.', actual=method, hint="Remove `warmup`."
        )
    return int(warmup) if free else 0


def late_factors(model: Model, given: Collection[str], free: Sequence[str]) -> frozenset[str]:
    """Scales of evidence: free factors that stand beside given ones of visible indices alone, where others are latent.

    What evidence explains costs one number, what components explain many; together from the start, or as long as
    priors adapt, evidence takes all there is and components fade, though they know what it does not.
    """
    evidence = {name for name in given if not model.factor(name).latent}
    terms = [term for equation in model.equations for term in equation.terms]
    told = [t for t in terms if evidence & set(t.factors) and not any(model.factor(n).latent for n in t.factors)]
    others = {name for term in terms if term not in told for name in term.factors}
    woven = any(model.factor(name).latent for name in others if name in free)
    found = {name for term in told for name in term.factors if name in free and name not in others}
    return frozenset(found) if woven else frozenset()


def ranks(model: Model, rank: int | Mapping[str, int] | None) -> dict[str, int]:
    """Every latent index's size."""
    if isinstance(rank, Mapping):
        for index in rank:
            if index not in model.latent:
                what = "is visible: its size comes from the data" if index in model.visible else "is not in the model"
                raise ParameterError(
                    f"`rank` is given for {index!r}, which {what}.",
                    hint=f"Latent indices are {_listed(model.latent)}.",
                )
        chosen = _tied_ranks(model, rank)
    elif rank is not None and not model.latent:
        raise ParameterError(
            "`rank` is given, but the model has no latent index.",
            hint="Leave it out.",
        )
    else:
        chosen = dict.fromkeys(model.latent, rank or 0)
    for index, size in chosen.items():
        whole(1).check("rank", size, f" of {index}")
    return {index: int(size) for index, size in chosen.items()}


def _tied_ranks(model: Model, rank: Mapping[str, int]) -> dict[str, int]:
    """Sizes by latent index; indices of one axis have that of any of them."""
    by_axis: dict[str, tuple[str, int]] = {}
    for index, size in rank.items():
        other, known = by_axis.setdefault(model.axis(index), (index, size))
        if known != size:
            raise ParameterError(
                f"`rank` of {index!r} is {size!r}, but {known!r} of {other!r}: a factor has both, so they are one.",
                hint="Give one of the two.",
            )
    missing = [index for index in model.ranks if index not in by_axis]
    if missing:
        raise ParameterError(
            f"`rank` is missing for the latent index {missing[0]!r}.",
            hint=f"Add it: `rank={{{missing[0]!r}: 10}}`.",
        )
    return {index: by_axis[model.axis(index)][1] for index in model.latent}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def fixed_names(model: Model, fixed: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Names of the given factors."""
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
                f"`{argument}` names {name!r}, which is no factor of the model.",
                hint=f"{suggestion(name, model.factors)}Factors are {_listed(model.factors)}.",
            )


def priors(
    model: Model,
    prior: Gamma | Mapping[str, Gamma],
    method: str,
    layouts: Mapping[str, Layout],
    free: Sequence[str],
) -> dict[str, Prior]:
    """The prior of every free factor, inside and broadcastable."""
    if method == "em":
        if prior is not DEFAULT_PRIOR:
            raise ParameterError(
                '`method="em"` is maximum likelihood and has no prior.',
                hint='Leave `prior` out, or use `method="map"`.',
            )
        return {}
    chosen = _by_factor(model, prior, free)
    result = {}
    for name in free:
        A, B = (_inside_prior(layouts[name], word, getattr(chosen[name], word)) for word in ("concentration", "mean"))
        if method == "map" and (A < 1).any():
            raise ParameterError(
                (
                    f'`method="map"` needs a concentration of 1 or more for factor {name}, got '
                    f"{float(A.min()):g}: below 1 the posterior has no mode."
                ),
                hint='Give a prior with `concentration=1.0`, or use `method="vb"`.',
            )
        result[name] = Prior(A, B)
    return result


def _by_factor(model: Model, prior: Any, free: Sequence[str]) -> dict[str, Gamma]:
    if prior is DEFAULT_PRIOR:
        return {name: _default(model, name) for name in free}
    if isinstance(prior, Gamma):
        return dict.fromkeys(free, prior)
    if not isinstance(prior, Mapping):
        raise ParameterError.must_be("prior", "a plait.Gamma or a dict of them by factor", prior)
    check_factor_names(model, "prior", prior)
    for name, value in prior.items():
        if name not in free:
            raise ParameterError(
                f"factor {name} is given, so it has no prior.",
                hint="Remove it from `prior`, or from `fixed`.",
            )
        if not isinstance(value, Gamma):
            raise ParameterError(
                f"`prior` of {name} must be a plait.Gamma, got {value!r}.",
                expected="a plait.Gamma",
                actual=value,
            )
    return {name: prior[name] if name in prior else _default(model, name) for name in free}


def _default(model: Model, name: str) -> Gamma:
    """The prior of a factor that nothing is said of: of the pairs of components that a core has, few meet."""
    return Gamma(CORE, DEFAULT_PRIOR.mean) if len(model.factor(name).latent) > 1 else DEFAULT_PRIOR


def _inside_prior(layout: Layout, word: str, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """A prior array that broadcasts to the factor as written -> inside, with an axis for every index."""
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
    """How each adapted factor's prior is tied."""
    if method != "vb":
        if adapt_prior not in (None, AUTO):
            raise ParameterError(
                f'`adapt_prior` is for `method="vb"` only, got `method="{method}"`.',
                actual=method,
                hint="Leave `adapt_prior` out.",
            )
        return {}
    if isinstance(adapt_prior, Mapping):
        check_factor_names(model, "adapt_prior", adapt_prior)
        for name, tie in adapt_prior.items():
            if name not in free and tie is not None:
                raise ParameterError(
                    f"factor {name} is both given and adapted.",
                    hint="Remove it from `fixed`, or from `adapt_prior`.",
                )
    by_factor = adapt_prior if isinstance(adapt_prior, Mapping) else dict.fromkeys(free, adapt_prior)
    chosen = {name: by_factor[name] for name in free if by_factor.get(name) is not None}
    return {name: _tie(model, model.factor(name), tie) for name, tie in chosen.items()}


def _tie(model: Model, factor: Factor, tie: Any) -> Tie:
    """A tying as the loop wants it: "rank-one" where both sides exist, index names as the factor writes them."""
    words = (AUTO, "factor", "component", "entity", RANK_ONE)
    if isinstance(tie, str):
        one_of("adapt_prior", tie, words)
        if tie == AUTO:
            return _tie(model, factor, RANK_ONE if shared(model, factor.name) else "factor")
        if tie == RANK_ONE and not (factor.visible and factor.latent):
            return "factor"  # one side only: there is no product to take
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
    """Index names in adapt_prior= exist; one given for a single factor is an index of that factor."""
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
                        f"`adapt_prior` names the index {index!r}, which {where} does not have: {_listed(known)}.",
                    )
