"""`plait.fit`: wires model, data, plan, executor and loop."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, cast

from plait import settings
from plait.assemble import make_problem, naming_links, warm_priors
from plait.data.bind import Data, bind
from plait.data.exposure import bind_exposures
from plait.errors import SettingError
from plait.execute import Executor, Threads
from plait.infer.hyper import fix_gauge
from plait.infer.prior import Gamma
from plait.infer.problem import Method
from plait.infer.run import ADAPT_AFTER, Order, Settings, run
from plait.model import Model
from plait.progress import Callback, Progress, as_progress, watching
from plait.result import Fit

Tie = str | Sequence[str]

DEFAULT_PRIOR = Gamma(concentration=0.5, mean=10.0)


def fit(
    model: Model | str,
    data: Mapping[str, Any] | Data,
    *,
    rank: int | Mapping[str, int] | None = None,
    method: str = "vb",
    prior: Gamma | Mapping[str, Gamma] = DEFAULT_PRIOR,
    adapt: Tie | Mapping[str, Tie | None] | None = "factor",
    order: str = "one-pass",
    sweeps: int = 200,
    tol: float = 1e-6,
    seed: int | None = None,
    fixed: Mapping[str, Any] | None = None,
    labels: Mapping[str, Sequence[Any]] | None = None,
    init: Fit | Mapping[str, Any] | None = None,
    threads: int | None = None,
    dtype: str = "float64",
    executor: Executor | None = None,
    progress: Progress | bool | Callback | None = None,
    checkpoint: None = None,
    prune: bool = False,
) -> Fit:
    """Fit a model to data and return the posterior.

    model: a `plait.Model` or its text. data: by relation, a table, an array or a `plait.Relation`; or what
    `model.bind(data)` gave. rank: the size of every latent index, or a dict by index. method: "vb" (variational Bayes),
    "em" (maximum likelihood) or "map". prior: a `plait.Gamma`, or a dict by factor. adapt (VB only): None, "factor",
    "component", "entity", "rank-one" (entity × component means), a tuple of index names, or a dict by factor. order:
    "one-pass" or "per-factor". sweeps, tol: at most so many sweeps, fewer once the bound changes by less than tol of
    its size. seed: where a random start begins; None draws one, kept as `fit.seed`. fixed: given factors by name: an
    array, or, where all indices are visible, an exposure (`plait.Exposure`, a table or an array). labels: entities
    beyond those seen, by axis. init: a Fit, or arrays (or posteriors) by factor. threads: as many as the machine has,
    unless given; executor: another place to compute (`plait.execute`). prune (VB only): remove components that
    explain nothing. progress: None (a bar on a terminal), True, False, a callable, or a `plait.Progress`. dtype and
    checkpoint have one value each in this version.
    """
    model = model if isinstance(model, Model) else Model(model)
    settings.check_words(method, order, dtype)
    settings.check_numbers(sweeps, tol, seed, threads)
    settings.check_helpers(executor, threads, prune, method, checkpoint)
    given = settings.fixed_names(model, fixed)
    free = tuple(name for name in model.factors if name not in given)
    ranks = settings.ranks(model, rank)
    settings.check_tie_indices(model, adapt)
    ties = settings.ties(model, adapt, method, free)
    bound = _bind(model, data, labels)
    layouts = settings.layouts(model, bound, ranks)
    settings.check_memory(layouts, free)
    priors = settings.priors(model, prior, DEFAULT_PRIOR, method, layouts, free)
    executor = executor or Threads(threads)
    report = as_progress(progress)
    seed = secrets.randbits(63) if seed is None else int(seed)

    if isinstance(init, Fit) and method == "vb":
        priors |= warm_priors(init, bound, layouts, free if prior is DEFAULT_PRIOR else tuple(ties))
    exposures = bind_exposures(bound, fixed or {})
    problem = make_problem(bound, layouts, cast(Method, method), priors, exposures, fixed or {}, init, seed, executor)
    with watching(report, sweeps) as watch, naming_links(bound):
        outcome = run(problem, Settings(cast(Order, order), sweeps, tol, ties, prune), watch)
    if outcome.history[-1].sweep > ADAPT_AFTER:
        fix_gauge(outcome.problem, tuple(ties))
    return Fit.of(bound, outcome, exposures, seed)


def _bind(model: Model, data: Mapping[str, Any] | Data, labels: Mapping[str, Sequence[Any]] | None) -> Data:
    if not isinstance(data, Data):
        return bind(model, data, labels)
    if data.model != model:
        raise SettingError("data was bound to another model.\nBind it anew: model.bind(data).")
    if labels is not None:
        raise SettingError("labels is given with data that is bound already.\nGive it to model.bind(data, labels=…).")
    return data
