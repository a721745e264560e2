"""Given factors and starting factors: `fixed` and `init` of `plait.fit` as the factors of a problem."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from plait._typing import Array
from plait.codegen.layout import Layout
from plait.data.binding.given import Exposures
from plait.data.bound import Data
from plait.data.sparse.csf import CSFCache
from plait.errors import FitError, ParameterError, TableLocation
from plait.executors import Executor
from plait.fitting.validation import check_factor_names, refuse_array
from plait.inference.gamma import FactorState, Prior, point, posterior
from plait.inference.initialisation import TINIEST, as_stored, match_totals, parameters_around, random_factor
from plait.inference.problem import Method, Problem
from plait.inference.relation_sums import RelationData
from plait.inference.underflow import ImpossibleLinkError
from plait.machine import MAX_NUMBER
from plait.model import Model
from plait.result import Fit
from plait.storage.fitted import Posterior

ARRAYS = "`init={factor: array, …}`"


def make_problem(
    data: Data,
    layouts: Mapping[str, Layout],
    method: Method,
    priors: Mapping[str, Prior],
    exposures: Exposures,
    given: Mapping[str, FactorState],
    init: Fit | Mapping[str, Any] | None,
    dtype: np.dtype[Any],
    late: frozenset[str],
    parts: Sequence[RelationData],
    seed: int,
    executor: Executor,
    forest: CSFCache,
) -> Problem:
    """Everything that the loop works on, at its start."""
    free = tuple(name for name in data.model.factors if name not in given and name not in exposures.names)
    starts, random = _start_factors(data, layouts, free, method, seed, init, dtype)
    learnt = _learnt(init, parts) if isinstance(init, Fit) else {}
    problem = Problem(method, parts, {**given, **starts}, free, dict(priors), executor, forest, learnt)
    match_totals(problem, random, late)
    return problem


def _learnt(init: Fit, parts: Sequence[RelationData]) -> dict[str, dict[str, float]]:
    """What an earlier fit has learnt about the likelihoods that are still the same."""
    return {
        part.name: init.likelihood_params[part.name]
        for part in parts
        if init.likelihood.get(part.name) == part.likelihood
    }


def as_given(fixed: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Given factors, with posteriors that are points, or that a method without uncertainty takes for such, as arrays.

    Any other is its own prior and its own posterior: q = p, so that it adds nothing to the bound, which stays one.
    """
    found = dict(fixed)
    for name, given in fixed.items():
        if isinstance(given, Posterior):
            if given.pairs is not None:
                raise ParameterError(
                    f"`fixed`: factor {name} is a posterior over the pairs that another fit remembers.",
                    hint="Give it as a table of pairs: `default`.",
                )
            if method != "vb" or np.isinf(given.concentration).any():
                found[name] = given.mean
    return found


def given_factors(model: Model, layouts: Mapping[str, Layout], fixed: Mapping[str, Any]) -> dict[str, FactorState]:
    """Given factors that are no exposures, with latent indices or uncertain: ordinary ones that are never updated."""
    names = [name for name in fixed if model.factor(name).latent or isinstance(fixed[name], Posterior)]
    return {name: _given(layouts[name], fixed[name]) for name in names}


def _given(layout: Layout, given: Any) -> FactorState:
    if isinstance(given, Posterior):
        C, D = (_packed(layout, array, "fixed", least=TINIEST) for array in (given.concentration, given.scale))
        return posterior(layout, C, D)
    return point(layout, _packed(layout, given, "fixed", least=0.0))


def _packed(layout: Layout, given: Any, argument: str, *, least: float) -> Array:
    """An array as written -> stored, checked."""
    shape = layout.shape
    if hasattr(given, "columns"):  # a table's rows would be taken by position, its names ignored
        raise ParameterError(
            f"factor {layout.name} must be an array, got a table ({type(given).__name__}).",
            location=argument,
        )
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            f"factor {layout.name} must be an array of numbers, got {type(given).__name__}.",
            location=argument,
        ) from None
    if array.shape != shape:
        wanted = ", ".join(f"{index}: {size}" for index, size in zip(layout.indices, shape))
        raise ParameterError(
            f"factor {layout.name} has shape {array.shape}, wanted {shape} ({wanted}).",
            location=argument,
        )
    if not (np.isfinite(array).all() and (array >= least).all()):
        words = "finite and 0 or more" if least == 0.0 else "finite and positive"
        raise ParameterError(f"factor {layout.name} must be {words}.", location=argument)
    if argument == "fixed" and array.size and array.max() > MAX_NUMBER:
        raise ParameterError(
            f"factor {layout.name} has numbers up to {array.max():g}; {MAX_NUMBER:g} is the most.",
            location=argument,
            hint="Use another unit.",
        )
    return layout.pack(layout.moved(array))


def _start_factors(
    data: Data,
    layouts: Mapping[str, Layout],
    free: Sequence[str],
    method: str,
    seed: int,
    init: Fit | Mapping[str, Any] | None,
    dtype: np.dtype[Any],
) -> tuple[dict[str, FactorState], tuple[str, ...]]:
    """Every free factor at its start, and which of them are random."""
    known: Mapping[str, Any] = init._aligned(data, layouts) if isinstance(init, Fit) else (init or {})
    if isinstance(init, Fit):
        if not set(known) & set(free):
            raise ParameterError(
                "`init` is a fit that shares no factor with this model.",
                hint="Leave it out, or rename the factors.",
            )
    else:
        check_factor_names(data.model, "init", known)
        for name in known:
            if name not in free:
                raise ParameterError(
                    f"`init` names factor {name}, which is given.",
                    hint="Remove it from `init`, or from `fixed`.",
                )
            refuse_array(layouts[name])
    factors, random = {}, []
    for position, name in enumerate(data.model.factors):
        if name in free:
            if name not in known:
                random.append(name)
            parameters = _parameters(
                layouts[name],
                known[name] if name in known else random_factor(layouts[name], position, seed, data.seen),
                method,
                dtype,
            )  # the numbers themselves are let go before the rest is made: all are as large as the factor
            factors[name] = (posterior if method == "vb" else point)(layouts[name], *parameters)
    return factors, tuple(random)


def check_alike(init: Fit, layouts: Mapping[str, Layout], names: Sequence[str]) -> None:
    """Refuse a fit to start from in which a factor of the same name is another one: other indices, or other latent."""
    for name in names:
        if name in init.factors:
            then, now = init.model.factor(name), layouts[name]
            indices = now.indices if now.pairs is None else now.pairs.indices
            if (then.indices, set(then.latent)) != (indices, set(now.latent)):
                shapes = init.factors[name].mean.shape, now.shape
                was, wanted = _sizes(then.indices, then.latent, shapes[0]), _sizes(now.indices, now.latent, shapes[1])
                raise ParameterError(
                    (
                        f"`init`: factor {name} has shape {shapes[0]} ({was}) in that fit, "
                        f"wanted {shapes[1]} ({wanted})."
                    ),
                    hint=f"Rename it in one of the two models, or give arrays for the others: {ARRAYS}.",
                )


def _sizes(indices: Sequence[str], latent: Sequence[str], shape: Sequence[int]) -> str:
    return ", ".join(f"{'latent ' * (i in latent)}{i}: {size}" for i, size in zip(indices, shape)) or "a number"


def _parameters(layout: Layout, start: Any, method: str, dtype: np.dtype[Any]) -> tuple[Array, ...]:
    """What a factor is made from, as stored, from means or from a posterior (anything with concentration and scale)."""
    known = hasattr(start, "concentration") and hasattr(start, "scale")
    if method != "vb":
        return (as_stored(_packed(layout, start.mean if known else start, "init", least=0.0), dtype),)
    if known and np.isfinite(np.asarray(start.concentration)).all():
        C, D = (_packed(layout, a, "init", least=TINIEST) for a in (start.concentration, start.scale))
        return as_stored(C, dtype), as_stored(D, dtype)
    mean = _packed(layout, np.maximum(start.mean, TINIEST) if known else start, "init", least=TINIEST)
    return parameters_around(layout, mean, dtype)


@contextmanager
def naming_impossible_links(data: Data) -> Iterator[None]:
    """A link that no update can explain is reported by its names instead of its row numbers."""
    try:
        yield
    except ImpossibleLinkError as error:
        place = ", ".join(f"{i}={data.entities[i][row]!r}" for i, row in error.cell.items() if i in data.entities)
        raise FitError(
            f"the model gives rate 0 to the link at {place}, so its likelihood is 0.",
            location=TableLocation.of(error.relation),
            hint="Zeros in a given factor or in `init` can never change; use small positive numbers there.",
        ) from None


def _inside(layout: Layout, prior: Array) -> Array:
    """An array of a prior as written -> inside."""
    return layout.moved(prior if layout.pairs is None else layout.pairs.for_rows(prior))


def warm_priors(init: Fit, data: Data, layouts: Mapping[str, Layout], names: Sequence[str]) -> dict[str, Prior]:
    """The priors of an earlier fit, where they still fit the factor's shape."""
    result = {}
    for name in names:
        if name in init.prior and init._same_rows(data, name):
            layout, prior = layouts[name], init.prior[name]
            A, B = (np.array(_inside(layout, np.asarray(array))) for array in (prior.concentration, prior.mean))
            if all(n in (1, size) for array in (A, B) for n, size in zip(array.shape, layout.sizes)):
                result[name] = Prior(A, B)
    return result
