"""`plait.fit`: prepare, run the loop, return the `Fit`."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, cast

from plait.checks import check_baseline
from plait.data.sources.relation import RELATION_OPTIONS
from plait.errors import OF_FIT, InterruptedWarning, refusing_unknown, warn_of
from plait.executors import Executor
from plait.fitting.ensemble import Runner
from plait.fitting.given_factors import naming_impossible_links
from plait.fitting.options import DEFAULT_PRIOR, Options, Tie
from plait.fitting.prepare import prepare
from plait.inference.baseline import compare_with_baseline
from plait.inference.gamma import Gamma, GammaChain
from plait.inference.state import Reason, Stop
from plait.model import Model
from plait.model_selection.auto_settings import resolve_settings
from plait.progress import Callback, Progress, as_progress, saying, watching
from plait.result import Fit
from plait.storage.checkpoint import Checkpoint, Saver, as_checkpoint
from plait.storage.run_folder import manifest


@refusing_unknown("plait.fit", OF_FIT, elsewhere=RELATION_OPTIONS)
def fit(
    model: Model | str,
    data: Any,
    *,
    rank: int | Mapping[str, int] | Literal["auto", "elbo"] | None = None,
    method: Literal["vb", "em", "map"] = "vb",
    prior: Gamma | Mapping[str, Gamma | GammaChain] | None = None,
    adapt_prior: Tie | Mapping[str, Tie | None] | None = "auto",
    max_iter: int = 200,
    tol: float = 1e-6,
    seed: int | None = None,
    fixed: Mapping[str, Any] | None = None,
    entities: Mapping[str, Sequence[Any]] | None = None,
    init: Fit | Mapping[str, Any] | str | PathLike[str] | None = None,
    threads: int | None = None,
    dtype: Literal["float64", "float32"] = "float64",
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
    evidence: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
) -> Fit:
    """Fit a coupled tensor factorisation.

    Parameters
    ----------
    model : Model or str
        The model, or its equations as text.
    data : mapping of str to table, array, graph or Relation
        One entry per relation; for a model of one relation, its data alone; or the result of
        ``model.bind(data)``. `Relation` lists the forms that data may have.
    rank : int, dict of str to int, "auto", "elbo" or None, default None
        Size of every latent index, or one size per index. ``None`` and ``"auto"`` choose
        the size that ranks links best, ``"elbo"`` (VB only) the one with the largest ELBO.
    method : one of "vb", "em", "map", default "vb"
        Variational Bayes, maximum likelihood (EM) or posterior mode (MAP).
    prior : Gamma, dict of str to Gamma or GammaChain, or None, default None
        Prior of all factors, or one per factor. The default has concentration 0.5 (0.02
        for factors with several latent indices, and the fraction of pairs that occur for
        factors over pairs) and mean 10. A factor with an index of an ordered axis has a
        `GammaChain` unless the dict names a `Gamma` for it.
    adapt_prior : str, tuple of str, dict or None, default "auto"
        Which entries of a factor share a prior that is adapted to the data (VB only):
        ``"factor"``, ``"component"``, ``"entity"``, ``"rank-one"``, a tuple of index
        names, or a dict of these by factor. ``None`` keeps the priors fixed. See Notes.
    max_iter : int, default 200
        Maximum number of sweeps after the warm-up.
    tol : float, default 1e-6
        Stop when a sweep changes the objective by less than this fraction of its size.
    seed : int or None, default None
        Random seed. ``None`` draws one and stores it in ``fit.seed``.
    fixed : dict of str to array, Posterior, Exposure or table, default None
        Given factors by name. A `Posterior` of another fit keeps its uncertainty in VB;
        EM and MAP use its mean. A factor without latent indices is an exposure: pass an
        `Exposure`, a table or an array.
    entities : dict of str to sequence, default None
        Entities per axis that exist although the data do not mention them.
    init : Fit, dict of str to array or Posterior, path or None, default None
        Starting point: a fit, or factors by name. A path continues an interrupted run
        from its checkpoint.
    threads : int or None, default None
        Number of threads of the sweeps; by default one per processor. Reading and sorting
        always use all processors.
    dtype : one of "float64", "float32", default "float64"
        Storage of factors during the fit. ``"float32"`` needs half the memory and is
        accurate to about 1e-5; it is not available for EM. Results are always float64.
    executor : plait.executors.Executor or None, default None
        Where the sums over links are computed; by default on threads of this process.
    progress : Progress or bool or callable or None, default None
        ``None`` shows a bar on a terminal and in a notebook. A callable gets the `Record`
        of every sweep; the fit stops when it returns ``False``.
    checkpoint : Checkpoint or path or None, default None
        Folder in which the run is saved every minute, or a `Checkpoint` with other rules.
    prune : bool, default False
        Remove components that explain nothing (VB only).
    accelerate : bool, default False
        Extrapolate after each sweep, from sweep 20 on, while the objective does not fall.
        Often halves the number of sweeps; the fit may reach another local optimum.
    warmup : int or None, default None
        Number of EM sweeps before VB. The default is 50, and 0 with ``prune`` or ``init``.
    restarts : int, default 1
        Number of fits from different random starts. The first one uses ``seed``.
    combine : one of "average", "best" or None, default None
        With ``restarts``: predict with the mixture of all fits (``"average"``, the
        default), or keep only the fit with the best objective (``"best"``).
    bootstrap : bool, default False
        Reweight the links at random in all fits but the first. Intervals become wider and
        predictions slightly worse.
    titles : dict of str to table or dict, default None
        Display names per axis: a table with the column of the axis and a column ``title``,
        or a dict ``{id: title}``. See `Fit.with_titles`.
    evidence : "auto", "neighbours", "paths", "rules", list, dict or None, default None
        Terms that are computed from the links and added to the equations, for all
        relations or by relation. ``"auto"`` adds those that suit a relation if a fit with
        them ranks held-out links higher. See `plait.evidence.neighbours` and
        `plait.evidence.rules`.

    Returns
    -------
    Fit
        Posterior of all factors, and the methods to query it.

    Raises
    ------
    plait.errors.ModelError
        If the text of the model is wrong.
    plait.errors.DataError
        If the data are wrong or do not match the model.
    plait.errors.ParameterError
        If an argument is wrong, or does not suit the model or the data.
    plait.errors.FitError
        If the fit cannot continue, for example when the starting point makes a link
        impossible.

    Notes
    -----
    ``rank=None`` holds out a tenth of the links, compares short fits of ranks 4, 8, 16, …
    and keeps the one that ranks these links highest. For very few or very many links the
    rank follows a rule instead.
    `grid_search` compares ranks, priors and likelihoods in a table.

    ``adapt_prior="auto"`` is ``"rank-one"`` for factors that several relations share and
    ``"factor"`` for the others. ``"rank-one"`` has one prior mean per entity times one per
    component.

    With several ``restarts``, ``fit.members`` has all fits. ``fit.factors`` is that of the
    fit with the best objective, with ``bootstrap`` that of the first.

    Ctrl-C returns the fit so far with an `InterruptedWarning`; a second Ctrl-C raises
    ``KeyboardInterrupt``. `Progress` changes this.

    Guides: <https://tensorplait.github.io/tensorplait/models.html> for models and
    likelihoods, <https://tensorplait.github.io/tensorplait/missing.html> for missing data.

    Examples
    --------
    >>> fit = plait.fit(
    ...     "visits[user, place] = U[user, r] P[place, r]", {"visits": visits}, rank=2, seed=0
    ... )
    >>> fit.converged
    True
    >>> fit.top("visits", k=1, given={"user": "bob"})["place"].to_list()
    ['club']
    """
    options = Options(
        rank=rank, method=method, prior=DEFAULT_PRIOR if prior is None else prior, adapt_prior=adapt_prior,
        max_iter=max_iter, tol=tol, seed=seed, fixed=fixed, entities=entities, init=init, threads=threads, dtype=dtype,
        executor=executor, prune=prune, accelerate=accelerate, warmup=warmup, restarts=restarts, combine=combine,
        bootstrap=bootstrap, titles=titles, evidence=evidence,
    )  # fmt: skip
    saving, report = as_checkpoint(checkpoint), as_progress(progress)
    model = model if isinstance(model, Model) else Model(model)
    began = time.perf_counter()
    with saying(report) as say:
        data, options = resolve_settings(model, data, options, say)
    if evidence is not None:  # the equations may have more terms now
        model = cast(Any, data).model
    searched = time.perf_counter() - began if options.rank_by or options.found_weights else None
    if isinstance(init, (str, PathLike)):  # it searched when it began
        searched = manifest(init)["settings"].get("search_seconds")
    task = prepare(model, data, options)
    saver = None if saving is None else Saver(saving, task.origin, cast(Any, init) if task.begun else None)
    report._announce("fit")
    with watching(report, max_iter, restarts) as watch, naming_impossible_links(task.data):
        ran = Runner(task, watch, saver).run()
    origin, relations = task.origin, [part.name for part in ran.best.parts]
    if not options.rank_by:  # no warning about a rank that was searched
        alone = compare_with_baseline(ran.best, method, ran.outcome, task.loop.ties)
        if alone is not None:
            origin = replace(origin, settings=origin.settings | {"popularity": alone})
            warn_of(check_baseline(relations, method, alone, bool(task.loop.ties)))
    if searched is not None:
        origin = replace(origin, settings=origin.settings | {"search_seconds": searched})
    if saver:
        report._announce("saving")
        saver.origin = origin
        saver.finish(ran.members, ran.stop)
    if report.interrupt is None:  # else requested by the caller
        _warn_of_interrupt(ran.stop)
    members, stop = ran.members, ran.stop
    del task, ran, saver  # frees the loop's memory, which is larger than the result
    return Fit._of(origin, members, stop)


def _warn_of_interrupt(stop: Stop) -> None:
    if stop.reason == Reason.INTERRUPTED:
        hint = 'Continue with `init=fit`. Set `progress=plait.Progress(interrupt="raise")` if Ctrl-C should raise.'
        warn_of([InterruptedWarning(stop.sentence, location="fit", hint=hint)])
