"""Grid search over settings: `plait.grid_search`, scored by held-out links or by the ELBO."""

import itertools
import secrets
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait.data.bound import Data
from plait.data.held_out import HeldOut, hold_out
from plait.data.sources.relation import RELATION_OPTIONS
from plait.errors import OF_FIT, BelowBaselineWarning, ParameterError, one_of, refuse_unknown, suggestion
from plait.evaluation import metrics
from plait.fitting.fit import fit
from plait.fitting.options import Options
from plait.fitting.prepare import bound_data, member_seeds
from plait.likelihood import Likelihood, as_likelihood
from plait.model import Model
from plait.model_selection.auto_settings import resolve_settings, run_fit
from plait.model_selection.rank_search import link_probability, log_score
from plait.progress import as_progress, saying
from plait.rendering.document import Document, Note, Table
from plait.result import Fit

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoDataFrame

    from plait.plotting.plots import GridSearchPlot

ERROR_SUFFIX = "_se"  # of columns with standard errors


@dataclass(frozen=True, eq=False, repr=False)
class GridSearch:
    """Compared settings, and the fit of the best one.

    Attributes
    ----------
    best : dict
        The best setting.
    fit : Fit
        Its fit to all data.
    table : table
        One row per setting, best first.
    rows : tuple of dict
        The rows of ``table``.
    by : str
        ``"hidden"`` or ``"elbo"``.
    relation : str or None
        Relation of the held-out links.
    notes : tuple of str
        Remarks on the scores.
    plot : GridSearchPlot
        Charts.

    Examples
    --------
    >>> options = {"by": "elbo", "seeds": 1, "seed": 0, "max_iter": 5, "warmup": 0}
    >>> search = plait.grid_search(model, {"visits": visits}, rank=[1, 2], **options)
    >>> search.best["rank"] == search.fit.rank["r"]
    True
    """

    rows: tuple[dict[str, Any], ...]
    best: dict[str, Any]
    fit: Fit
    by: str
    relation: str | None
    notes: tuple[str, ...] = ()

    @cached_property
    def table(self) -> "IntoDataFrame":
        """Table of the settings, best first; columns that end in ``_se`` are standard errors."""
        import polars as pl

        return self.fit._in_kind(pl.DataFrame(self.rows, infer_schema_length=None), self.relation)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the fit in types that JSON can hold.

        Returns
        -------
        dict
            ``by``, ``relation``, ``best``, ``settings`` and ``notes``.

        Examples
        --------
        >>> options = {"by": "elbo", "seeds": 1, "seed": 0, "max_iter": 5, "warmup": 0}
        >>> search = plait.grid_search(model, {"visits": visits}, rank=[1, 2], **options)
        >>> search.to_dict()["by"]
        'elbo'
        """
        return {"by": self.by, "relation": self.relation, "best": self.best, "settings": list(self.rows),
                "notes": list(self.notes)}  # fmt: skip

    @property
    def plot(self) -> "GridSearchPlot":
        """Charts: ``search.plot.rank()``.

        Requires ``pip install 'tensorplait[report]'``.
        """
        from plait.plotting.plots import GridSearchPlot

        return GridSearchPlot(self.rows, self.by)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from plait.rendering.text import render

        return render(self.describe())

    def _repr_html_(self) -> str:
        from plait.rendering.html import render

        return render(self.describe())

    def describe(self) -> Document:
        """The search as a document."""
        names, rows = self._table_cells()
        return Document(self._title(), (Table(names, rows), *map(Note, self.notes)), self.to_dict())

    def _title(self) -> str:
        what = f"held-out links of {self.relation}" if self.by == "hidden" else "the ELBO"
        count = len(self.rows)
        return f"{count} setting{'' if count == 1 else 's'}, compared by {what}; the best first"

    def _table_cells(self) -> tuple[list[str], list[list[str]]]:
        """Names and cells for display: a figure and its standard error together."""
        names = [name for name in self.rows[0] if not name.endswith(ERROR_SUFFIX)]
        return names, [[_cell(row, name) for name in names] for row in self.rows]


def _cell(row: dict[str, Any], name: str) -> str:
    value = row[name]
    if not isinstance(value, float):
        return str(value)
    if name in ("objective", "seconds"):
        return f"{value:,.1f}"
    error = row.get(name + ERROR_SUFFIX)
    return f"{value:.4f}" + ("" if error is None else f" ± {error:.4f}")


WAYS = ("hidden", "elbo")
BOOTSTRAP_DRAWS = 100  # of held-out cells, for standard errors of ranking metrics


def grid_search(
    model: Model | str,
    data: Any,
    *,
    rank: Any = None,
    adapt_prior: Any = "auto",
    likelihood: Any = None,
    seeds: int = 3,
    by: str = "hidden",
    relation: str | None = None,
    fraction: float = 0.1,
    seed: int | None = None,
    **options: Any,
) -> GridSearch:
    """Compare settings, and fit the best one to all data.

    Parameters
    ----------
    model : Model or str
        The model, or its equations as text.
    data : mapping of str to table, array, graph or Relation
        One entry per relation; for a model of one relation, its data alone; or the result of
        ``model.bind(data)``. `Relation` lists the forms that data may have.
    rank : int, dict, str or list of these, default None
        Ranks to compare, as in `plait.fit`.
    adapt_prior : str, tuple, dict or list of these, default "auto"
        Ways to adapt priors to compare, as in `plait.fit`.
    likelihood : str, Likelihood or list of these, default None
        Likelihoods of ``relation`` to compare. ``None`` keeps its own.
    seeds : int, default 3
        Number of fits per setting.
    by : one of "hidden", "elbo", default "hidden"
        Compare by the log-likelihood of held-out cells, or by the ELBO.
    relation : str, default None
        Relation whose links are held out; the first of the model by default.
    fraction : float, default 0.1
        Fraction of its links to hold out.
    seed : int or None, default None
        Random seed of the held-out cells and of the fits.
    **options
        Further arguments of `plait.fit`, the same for all settings.

    Returns
    -------
    GridSearch
        All settings with their scores, and the fit of the best one.

    Raises
    ------
    plait.errors.ParameterError
        If an option is wrong, or ``by="elbo"`` cannot compare the settings.

    Notes
    -----
    All combinations of the lists are compared.

    ``"hidden"`` holds out a fraction of the links and ten zeros for each. The score is the
    log-likelihood of these cells under the mixture of the fits of a setting;
    ``average_precision`` and ``roc_auc`` are also given. The best setting is then fitted to
    all data with ``restarts=seeds``.

    ``"elbo"`` takes the best ELBO of the seeds. ELBOs are comparable only with one
    ``adapt_prior`` and one likelihood.

    Examples
    --------
    >>> options = {"by": "elbo", "seeds": 1, "seed": 0, "max_iter": 5, "warmup": 0}
    >>> search = plait.grid_search(model, {"visits": visits}, rank=[1, 2], **options)
    >>> len(search.table)
    2
    """
    refuse_unknown("plait.grid_search", options, list(signature(fit).parameters), OF_FIT, RELATION_OPTIONS)
    model = model if isinstance(model, Model) else Model(model)
    plan = _plan(rank, adapt_prior, likelihood, by, seeds, fraction, options)
    restarts = options.pop("restarts", seeds)
    report = as_progress(options.pop("progress", None))
    bound = bound_data(model, data, options.pop("entities", None))
    if by == "elbo" and bound.open_weights:
        raise ParameterError(
            (
                f'`by="elbo"` cannot compare fits with an automatic weight of {bound.open_weights[0]}: '
                "ELBOs with different weights are not comparable."
            ),
            hint='Use `by="hidden"`, or a number as weight.',
        )
    name = _judged(model, relation)
    task = GridRunner(bound, name, secrets.randbits(62) if seed is None else int(seed), seeds, options)
    with saying(report) as say:
        if by == "elbo":
            tried = [task.by_bound(setting, say) for setting in plan]
        else:
            held_out = _held_out(bound, name, fraction, task.seed)
            links_only = len({setting.likelihood for setting in plan}) > 1
            tried = [task.by_hidden(setting, held_out, links_only, say) for setting in plan]
    tried.sort(key=lambda one: -one.row["objective" if by == "elbo" else "log_likelihood"])
    best, rows = tried[0], _alike([one.row for one in tried])
    if by == "elbo":
        return GridSearch(rows, best.setting.words, best.fit, by, None)
    data = _with_likelihood(bound, name, best.setting.likelihood)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BelowBaselineWarning)  # no warning about a rank that predicts best
        fitted = fit(model, data, seed=task.seed, restarts=restarts, progress=report, **best.setting.words, **options)
    return GridSearch(rows, best.setting.words, fitted, by, name, _notes(plan))


@dataclass(frozen=True)
class Setting:
    """One combination: arguments of `plait.fit`, and the likelihood of the scored relation (None: its own)."""

    rank: Any
    adapt_prior: Any
    likelihood: Likelihood | None

    @property
    def words(self) -> dict[str, Any]:
        """Arguments of `plait.fit`."""
        return {"rank": self.rank, "adapt_prior": self.adapt_prior}


@dataclass(frozen=True)
class Tried:
    """A setting, its row in the table, and its best fit."""

    setting: Setting
    row: dict[str, Any]
    fit: Fit


@dataclass(frozen=True)
class GridRunner:
    """Data and options of all settings."""

    data: Data
    relation: str
    seed: int
    seeds: int
    options: Mapping[str, Any]

    def by_bound(self, setting: Setting, say: Any) -> Tried:
        """The best ELBO over seeds."""
        began = time.perf_counter()
        fits = self._fits(setting, _with_likelihood(self.data, self.relation, setting.likelihood), say)
        best = max(fits, key=lambda one: one.objective)
        row = {"objective": best.objective, "seconds": time.perf_counter() - began}
        return Tried(setting, _about(setting, best) | row, best)

    def by_hidden(self, setting: Setting, held_out: HeldOut, links_only: bool, say: Any) -> Tried:
        """Scores of the mixture of some fits on held-out cells."""
        began = time.perf_counter()
        fits = self._fits(setting, _with_likelihood(held_out.data, self.relation, setting.likelihood), say)
        seconds = time.perf_counter() - began
        best = max(fits, key=lambda one: one.objective)
        figures = _figures(held_out, fits, links_only)
        return Tried(setting, _about(setting, best) | figures | {"objective": best.objective, "seconds": seconds}, best)

    def _fits(self, setting: Setting, data: Data, say: Any) -> list[Fit]:
        data, given = resolve_settings(data.model, data, Options(seed=self.seed, **setting.words, **self.options), say)
        fits = []
        for number, seed in enumerate(member_seeds(self.seed, self.seeds)):
            say(f"{_write_setting(setting)}: fit {number + 1} of {self.seeds}")
            fits.append(run_fit(data, replace(given, seed=seed)))
        return fits


def _plan(
    rank: Any, adapt_prior: Any, likelihood: Any, by: str, seeds: Any, fraction: Any, options: Mapping[str, Any]
) -> list[Setting]:
    """Every combination, checked."""
    one_of("by", by, WAYS)
    if isinstance(seeds, bool) or not isinstance(seeds, (int, np.integer)) or seeds < 1:
        raise ParameterError.must_be("seeds", "an integer of at least 1", seeds)
    if not isinstance(fraction, (int, float)) or not 0 < fraction < 1:
        raise ParameterError.must_be(
            "fraction",
            "greater than 0 and less than 1",
            fraction,
            hint="Example: 0.1 holds out a tenth.",
        )
    for word in ("init", "checkpoint", "combine"):
        if word in options:
            raise ParameterError(
                f"`{word}` is not possible in plait.grid_search, which runs several fits.", hint="Remove it."
            )
    likelihoods = [None if one is None else as_likelihood(one) for one in _several(likelihood)]
    plan = list(itertools.starmap(Setting, itertools.product(_several(rank), _several(adapt_prior), likelihoods)))
    if not plan:
        raise ParameterError(
            "a list of values to compare is empty.",
            hint="Give at least one value of `rank`, `adapt_prior` and `likelihood`.",
        )
    if by == "elbo":
        _check_comparable(plan, options.get("method", "vb"))
    return plan


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list) else [given]


def _check_comparable(plan: Sequence[Setting], method: str) -> None:
    if method != "vb":
        raise ParameterError(
            f'`by="elbo"` requires `method="vb"`, got {method!r}.',
            hint='Use `by="hidden"`.',
        )
    for word in ("adapt_prior", "likelihood"):
        given = [getattr(setting, word) for setting in plan]
        if any(one != given[0] for one in given):
            raise ParameterError(
                f'`by="elbo"` cannot compare several values of `{word}`: their ELBOs are not comparable.',
                hint=f'Use `by="hidden"`, or one value of `{word}`.',
            )


def _judged(model: Model, relation: str | None) -> str:
    if relation is None:
        return model.relations[0]
    if relation not in model.relations:
        raise ParameterError(
            f"`relation`: {relation!r} is not a relation of the model.",
            hint=f"{suggestion(relation, model.relations)}The relations are {', '.join(model.relations)}.",
        )
    return relation


def _held_out(data: Data, relation: str, fraction: float, seed: int) -> HeldOut:
    held_out = hold_out(data, relation, fraction, np.random.default_rng([seed, len(relation)]))
    if held_out is None:
        raise ParameterError(
            f"`fraction={fraction:g}` of the links of {relation} is none or all of them.",
            hint="Use another `fraction`, or more data.",
        )
    return held_out


def _with_likelihood(data: Data, relation: str, likelihood: Likelihood | None) -> Data:
    """The data with another likelihood of a relation."""
    bound = data.relations[relation]
    if likelihood is None or likelihood == bound.likelihood:
        return data
    bad = likelihood.bad(bound.values)
    if bad.any():
        raise ParameterError(
            f"likelihood {str(likelihood)!r} is not possible for {relation}, which has the value "
            f"{bound.values[bad][0]:g}.",
            hint=f"{likelihood.wanted}. Remove it from the list.",
        )
    return replace(data, relations={**data.relations, relation: replace(bound, likelihood=likelihood)})


def _figures(held_out: HeldOut, fits: Sequence[Fit], links_only: bool) -> dict[str, float]:
    """Log-likelihood, average precision and AUC of the mixture, with standard errors."""
    logs, chance, link = log_score(held_out, fits, links_only), link_probability(held_out, fits), held_out.values > 0
    figures = {
        "log_likelihood": float(logs.mean()),
        f"log_likelihood{ERROR_SUFFIX}": float(logs.std() / np.sqrt(len(logs))),
    }
    if link.all():
        return figures
    draws = list(_draws(link))
    for name, figure in (("average_precision", metrics.average_precision), ("roc_auc", metrics.roc_auc)):
        figures[name] = float(figure(link, chance))
        figures[name + ERROR_SUFFIX] = float(np.std([figure(link[at], chance[at]) for at in draws]))
    return figures


def _draws(link: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """Bootstrap draws of cells, stratified by links and zeros."""
    rng, kinds = np.random.default_rng(0), (np.flatnonzero(link), np.flatnonzero(~link))
    for _ in range(BOOTSTRAP_DRAWS):
        yield np.concatenate([rng.choice(kind, len(kind)) for kind in kinds])


def _about(setting: Setting, fitted: Fit) -> dict[str, Any]:
    sizes = set(fitted.settings["rank"].values())
    rank = sizes.pop() if len(sizes) == 1 else ", ".join(f"{i} = {n}" for i, n in fitted.settings["rank"].items())
    return {"rank": rank, "adapt_prior": str(setting.adapt_prior)} | (
        {"likelihood": str(setting.likelihood)} if setting.likelihood else {}
    )


def _alike(rows: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Rows whose ranks are all numbers, or all words."""
    plain = all(isinstance(row["rank"], int) for row in rows)
    return tuple(row if plain else row | {"rank": str(row["rank"])} for row in rows)


def _write_setting(setting: Setting) -> str:
    likelihood = f", {setting.likelihood}" if setting.likelihood else ""
    return f"rank {setting.rank or 'auto'}, adapt {setting.adapt_prior}{likelihood}"


def _notes(plan: Sequence[Setting]) -> tuple[str, ...]:
    several = [w for w in ("adapt_prior", "likelihood") if any(getattr(s, w) != getattr(plan[0], w) for s in plan)]
    return (f"ELBOs are comparable only for the same {' and '.join(several)}",) if several else ()
