"""Given and starting factors: `fixed` and `init` of `plait.fit` as factors of a problem."""

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
from plait.inference.gamma import FactorState, GammaChain, Prior, point, posterior
from plait.inference.initialisation import (
    MIN_POSTERIOR_MEAN,
    as_stored,
    fit_scales_alone,
    match_totals,
    parameters_around,
    random_factor,
)
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
    held: frozenset[str],
    parts: Sequence[RelationData],
    seed: int,
    executor: Executor,
    forest: CSFCache,
) -> Problem:
    """The problem of the loop, at its start."""
    free = tuple(name for name in data.model.factors if name not in given and name not in exposures.names)
    starts, random = _start_factors(data, layouts, free, method, seed, init, dtype)
    learnt = _earlier_params(init, parts) if isinstance(init, Fit) else {}
    problem = Problem(method, parts, {**given, **starts}, free, dict(priors), executor, forest, learnt)
    if held:
        fit_scales_alone(problem, random, held, late)
    else:
        match_totals(problem, random, late)
    return problem


def _earlier_params(init: Fit, parts: Sequence[RelationData]) -> dict[str, dict[str, float]]:
    """Likelihood parameters of an earlier fit, for likelihoods that are the same."""
    return {
        part.name: init.likelihood_params[part.name]
        for part in parts
        if init.likelihood.get(part.name) == part.likelihood
    }


def fixed_arrays(fixed: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Given factors; posteriors that are points, or that EM and MAP take as points, become arrays.

    Other posteriors are their own prior: q = p, so they add nothing to the ELBO.
    """
    arrays = dict(fixed)
    for name, given in fixed.items():
        if isinstance(given, Posterior):
            if given.pairs is not None:
                raise ParameterError(
                    f"`fixed`: factor {name} must be an array or a table, got a posterior over pairs.",
                    hint="Give a plait.Exposure of a table of pairs, with `default`.",
                )
            if method != "vb" or np.isinf(given.concentration).any():
                arrays[name] = given.mean
    return arrays


def given_factors(model: Model, layouts: Mapping[str, Layout], fixed: Mapping[str, Any]) -> dict[str, FactorState]:
    """Given factors with latent indices or uncertainty, which are never updated; exposures are not included."""
    names = [name for name in fixed if model.factor(name).latent or isinstance(fixed[name], Posterior)]
    return {name: _fixed_state(layouts[name], fixed[name]) for name in names}


def _fixed_state(layout: Layout, given: Any) -> FactorState:
    if isinstance(given, Posterior):
        C, D = (
            _packed(layout, array, "fixed", least=MIN_POSTERIOR_MEAN) for array in (given.concentration, given.scale)
        )
        return posterior(layout, C, D)
    return point(layout, _packed(layout, given, "fixed", least=0.0))


def _packed(layout: Layout, given: Any, argument: str, *, least: float) -> Array:
    """Stored form of an array as written, checked."""
    shape = layout.shape
    if hasattr(given, "columns"):  # names of a table would be ignored
        raise ParameterError(
            f"factor {layout.name} must be an array, got a table ({type(given).__name__}).",
            location=f"`{argument}`",
        )
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            f"factor {layout.name} must be an array of numbers, got {type(given).__name__}.",
            location=f"`{argument}`",
        ) from None
    if array.shape != shape:
        wanted = ", ".join(f"{index}: {size}" for index, size in zip(layout.indices, shape))
        raise ParameterError(
            f"factor {layout.name} has shape {array.shape}, expected {shape} ({wanted}).",
            location=f"`{argument}`",
        )
    if not (np.isfinite(array).all() and (array >= least).all()):
        words = "finite and at least 0" if least == 0.0 else "finite and positive"
        raise ParameterError(f"factor {layout.name} must be {words}.", location=f"`{argument}`")
    if argument == "fixed" and array.size and array.max() > MAX_NUMBER:
        raise ParameterError(
            f"factor {layout.name} has numbers up to {array.max():g} (maximum {MAX_NUMBER:g}).",
            location=f"`{argument}`",
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
                "`init` has no factor in common with this model.",
                hint="Remove `init`, or rename the factors.",
            )
    else:
        check_factor_names(data.model, "init", known)
        for name in known:
            if name not in free:
                raise ParameterError(
                    f"factor {name} is both in `init` and in `fixed`.",
                    hint="Remove it from one of the two.",
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
    """Refuse a fit to start from with a factor of the same name and other indices or ranks."""
    for name in names:
        if name in init.factors:
            then, now = init.model.factor(name), layouts[name]
            indices = now.indices if now.pairs is None else now.pairs.indices
            if (then.indices, set(then.latent)) != (indices, set(now.latent)):
                shapes = init.factors[name].mean.shape, now.shape
                was, wanted = _sizes(then.indices, then.latent, shapes[0]), _sizes(now.indices, now.latent, shapes[1])
                raise ParameterError(
                    (
                        f"`init`: factor {name} has shape {shapes[0]} ({was}) in that fit, expected "
                        f"{shapes[1]} ({wanted})."
                    ),
                    hint=f"Rename it in one of the two models, or give arrays: {ARRAYS}.",
                )


def _sizes(indices: Sequence[str], latent: Sequence[str], shape: Sequence[int]) -> str:
    return ", ".join(f"{'latent ' * (i in latent)}{i}: {size}" for i, size in zip(indices, shape)) or "a number"


def _parameters(layout: Layout, start: Any, method: str, dtype: np.dtype[Any]) -> tuple[Array, ...]:
    """Stored parameters of a factor, from means or from a posterior."""
    known = hasattr(start, "concentration") and hasattr(start, "scale")
    if method != "vb":
        return (as_stored(_packed(layout, start.mean if known else start, "init", least=0.0), dtype),)
    if known and np.isfinite(np.asarray(start.concentration)).all():
        C, D = (_packed(layout, a, "init", least=MIN_POSTERIOR_MEAN) for a in (start.concentration, start.scale))
        return as_stored(C, dtype), as_stored(D, dtype)
    mean = _packed(
        layout, np.maximum(start.mean, MIN_POSTERIOR_MEAN) if known else start, "init", least=MIN_POSTERIOR_MEAN
    )
    return parameters_around(layout, mean, dtype)


@contextmanager
def naming_impossible_links(data: Data) -> Iterator[None]:
    """Context that reports an impossible link by its names."""
    try:
        yield
    except ImpossibleLinkError as error:
        place = ", ".join(f"{i}={data.entities[i][row]!r}" for i, row in error.cell.items() if i in data.entities)
        raise FitError(
            f"the model gives rate 0 to the link at {place}, so its likelihood is 0.",
            location=TableLocation.of(error.relation),
            hint="Zeros in `fixed` or `init` never change; use small positive numbers instead.",
        ) from None


def _inside(layout: Layout, prior: Array) -> Array:
    """Array of a prior with the inside shape."""
    return layout.moved(prior if layout.pairs is None else layout.pairs.for_rows(prior))


def warm_priors(
    init: Fit, data: Data, layouts: Mapping[str, Layout], names: Sequence[str], priors: Mapping[str, Prior]
) -> dict[str, Prior]:
    """Priors of an earlier fit, where they match the factor's shape and kind in `priors`."""
    result = {}
    for name in names:
        if name in init.prior and init._same_rows(data, name):
            layout, prior = layouts[name], init.prior[name]
            chain = init.state.priors[name].chain
            own = prior.start if isinstance(prior, GammaChain) else prior
            assert own is not None
            A, B = (np.array(_inside(layout, np.asarray(array))) for array in (own.concentration, own.mean))
            fits = all(n in (1, size) for array in (A, B) for n, size in zip(array.shape, layout.sizes))
            now = priors[name].chain
            if fits and (chain is None) == (now is None):
                result[name] = Prior(A, B, chain if now and now.adapts else now)
    return result
