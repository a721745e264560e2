"""`plait.fit`: prepare, run the loop, keep what it leaves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, cast

from plait.checks import check_baseline
from plait.data.bound import Data
from plait.data.sources.relation import RELATION_OPTIONS
from plait.errors import OF_FIT, InterruptedWarning, refusing_unknown, warn_of
from plait.executors import Executor
from plait.fitting.ensemble import Runner
from plait.fitting.given_factors import naming_impossible_links
from plait.fitting.options import DEFAULT_PRIOR, Options, Tie
from plait.fitting.prepare import prepare
from plait.inference.baseline import popularity_alone
from plait.inference.gamma import Gamma
from plait.inference.state import Reason, Stop
from plait.model import Model
from plait.model_selection.auto_settings import resolve_settings
from plait.progress import Callback, Progress, as_progress, saying, watching
from plait.result import Fit
from plait.storage.checkpoint import Checkpoint, Saver, as_checkpoint


@refusing_unknown("plait.fit", OF_FIT, elsewhere=RELATION_OPTIONS)
def fit(
    model: Model | str,
    data: Mapping[str, Any] | Data,
    *,
    rank: int | Mapping[str, int] | Literal["auto", "elbo"] | None = None,
    method: Literal["vb", "em", "map"] = "vb",
    prior: Gamma | Mapping[str, Gamma] | None = None,
    adapt_prior: Tie | Mapping[str, Tie | None] | None = "auto",
    max_iter: int = 200,
    tol: float = 1e-6,
    seed: int | None = None,
    fixed: Mapping[str, Any] | None = None,
    entities: Mapping[str, Sequence[Any]] | None = None,
    init: Fit | Mapping[str, Any] | str | PathLike[str] | None = None,
    threads: int | None = None,
    dtype: Any = "float64",
    executor: Executor | None = None,
    progress: Progress | bool | Callback | None = None,
    checkpoint: Checkpoint | str | PathLike[str] | None = None,
    prune: bool = False,
    accelerate: bool = False,
    warmup: int | None = None,
    restarts: int = 1,
    combine: Literal["average", "best"] | None = None,
    bootstrap: bool = False,
    titles: Mapping[str, Any] | None = None,
) -> Fit:
    """Fit a model to data and return the posterior.

    model: a `plait.Model` or its text. data: by relation, a table, an array or a `plait.Relation`; or what
    `model.bind(data)` gave. rank: the size of every latent index, or a dict by index; left out or "auto", what predicts
    best, found by links put aside from the data or, where these are many, by rule; "elbo" (VB only), how many groups
    there are, by the bound. method: "vb" (variational Bayes), "em" (maximum likelihood) or "map". prior: a
    `plait.Gamma`, or a dict by factor; the default has concentration 0.5, and 0.02 for factors with several latent
    indices. adapt_prior (VB only): what has a prior of its own, "auto" ("rank-one" for factors that several relations
    share, "factor" for others), None, "factor", "component", "entity", "rank-one" (entity × component means), a tuple
    of index names, or a dict by factor. max_iter: the maximum number of sweeps. tol: stop once a sweep changes the
    bound by less than this part of its size. seed: where a random start begins; None draws one, kept as `fit.seed`.
    fixed: given factors by name: an array; a posterior of another fit (`fit.factors["U"]`), with its uncertainty in VB
    and by its mean elsewhere; or, where all indices are visible, an exposure (`plait.Exposure`, a table or an array).
    entities: those beyond the ones seen, by axis. init: where to start: a Fit, or arrays (or posteriors) by factor; or
    the folder of a run that was interrupted, which then goes on as if it had not been. threads: of the sweeps (reading
    and sorting take all processors); as many as the machine has, unless given. executor: another place to compute
    (`plait.executors`). prune (VB only): remove components that explain nothing. accelerate: after 20 sweeps, go on
    beyond the end of each as long as the bound does not fall, and wait for nothing that has come to rest: often half
    the sweeps, but the optimum may be another one. warmup (VB without init): sweeps of maximum likelihood before its
    own, 50 (0 with prune) unless given. progress: None (a bar on a terminal and in a notebook), True, False, a
    callable, or a `plait.Progress`, which also says what Ctrl-C does: by default the fit so far is returned, with an
    `InterruptedWarning`, and a second one raises. checkpoint: a folder to save the run in every minute, or a
    `plait.Checkpoint`. dtype: "float64", or "float32", which stores factors in half the memory and adds counts up in
    floats: right to about 1e-5, the bound to about 1e-7 of its size (a smaller tol means little); not for EM, whose
    entries fall below what floats hold. What a Fit hands out are doubles.

    restarts: fit so many times, from seeds of which `seed` is the first. combine: with several, "average" (the default)
    answers from the mixture of all of them (`fit.members`) and shows the factors of the one with the best bound; "best"
    keeps that one alone. bootstrap: all members but the first see links reweighed at random, so that they differ as
    other data would make them; shown is the first. Wider intervals, slightly worse predictions. titles: what people
    call entities, shown beside their names by all that a fit answers: by axis a table with a column of ids, named as
    the axis (or the first one), and a column `title` (or `name`, or the only other one); or a dict {id: title}. Ids
    that the data do not have are ignored. They change nothing else; `Fit.with_titles` takes them later.
    """
    options = Options(
        rank=rank, method=method, prior=DEFAULT_PRIOR if prior is None else prior, adapt_prior=adapt_prior,
        max_iter=max_iter, tol=tol, seed=seed, fixed=fixed, entities=entities, init=init, threads=threads, dtype=dtype,
        executor=executor, prune=prune, accelerate=accelerate, warmup=warmup, restarts=restarts, combine=combine,
        bootstrap=bootstrap, titles=titles,
    )  # fmt: skip
    saving, report = as_checkpoint(checkpoint), as_progress(progress)
    model = model if isinstance(model, Model) else Model(model)
    with saying(report) as say:
        data, options = resolve_settings(model, data, options, say)
    task = prepare(model, data, options)
    saver = None if saving is None else Saver(saving, task.origin, cast(Any, init) if task.begun else None)
    with watching(report, max_iter, restarts) as watch, naming_impossible_links(task.data):
        ran = Runner(task, watch, saver).run()
    origin, relations = task.origin, [part.name for part in ran.best.parts]
    if not options.rank_by:  # one that was found is not to be called too large
        alone = popularity_alone(ran.best, method, ran.outcome, task.loop.ties)
        if alone is not None:
            origin = replace(origin, settings=origin.settings | {"popularity": alone})
            warn_of(check_baseline(relations, method, alone, bool(task.loop.ties)))
    if saver:
        saver.origin = origin
        saver.finish(ran.members, ran.stop)
    if report.interrupt is None:  # else it was asked for
        _warn_of_interrupt(ran.stop)
    members, stop = ran.members, ran.stop
    del task, ran, saver  # what the loop worked on is larger than what it leaves
    return Fit._of(origin, members, stop)


def _warn_of_interrupt(stop: Stop) -> None:
    if stop.reason == Reason.INTERRUPTED:
        hint = 'Go on: `init=fit`. To have Ctrl-C raise instead: `progress=plait.Progress(interrupt="raise")`.'
        warn_of([InterruptedWarning(stop.sentence, location="fit", hint=hint)])
