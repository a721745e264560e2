"""What `plait.grid_search` gives: a row for every setting, and the fit of the best one.

`plait.grid_search`: fit every setting, compare them by the bound or by links put aside, and fit the best.
"""

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
    import polars as pl

    from plait.plotting.plots import ChoicePlot

ERRORS = "_se"  # ends the name of a column with the standard error of another


@dataclass(frozen=True, eq=False, repr=False)
class GridSearch:
    """Settings compared. table: a row for each, the best first. best: its settings. fit: its fit, to all data.

    by: "hidden" or "elbo", what settings were compared by. notes: sentences on what the figures must not be taken for.
    """

    rows: tuple[dict[str, Any], ...]
    best: dict[str, Any]
    fit: Fit
    by: str
    relation: str | None
    notes: tuple[str, ...] = ()

    @cached_property
    def table(self) -> "pl.DataFrame":
        """The settings, best first, with their figures and standard errors (columns that end in _se)."""
        import polars as pl

        return pl.DataFrame(self.rows, infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the fit in plain types, for JSON."""
        return {"by": self.by, "relation": self.relation, "best": self.best, "settings": list(self.rows),
                "notes": list(self.notes)}  # fmt: skip

    @property
    def plot(self) -> "ChoicePlot":
        """Its chart, ``choice.plot.rank()``: an Altair chart (`pip install 'tensorplait[report]'`)."""
        from plait.plotting.plots import ChoicePlot

        return ChoicePlot(self.rows, self.by)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from plait.rendering.text import render

        return render(self.describe())

    def _repr_html_(self) -> str:
        from plait.rendering.html import render

        return render(self.describe())

    def describe(self) -> Document:
        """What is shown of it."""
        names, rows = self._shown()
        return Document(self._title(), (Table(names, rows), *map(Note, self.notes)), self.to_dict())

    def _title(self) -> str:
        what = f"links of {self.relation} put aside" if self.by == "hidden" else "the bound"
        count = len(self.rows)
        return f"{count} setting{'' if count == 1 else 's'}, compared by {what}; the best first"

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Names and cells as people read them: a figure and its standard error together."""
        names = [name for name in self.rows[0] if not name.endswith(ERRORS)]
        return names, [[_cell(row, name) for name in names] for row in self.rows]


def _cell(row: dict[str, Any], name: str) -> str:
    value = row[name]
    if not isinstance(value, float):
        return str(value)
    if name in ("objective", "seconds"):
        return f"{value:,.1f}"
    error = row.get(name + ERRORS)
    return f"{value:.4f}" + ("" if error is None else f" ± {error:.4f}")


WAYS = ("hidden", "elbo")
DRAWS = 100  # of the cells put aside, with replacement, for standard errors of what ranks them


def grid_search(
    model: Model | str,
    data: Mapping[str, Any] | Data,
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
    """Compare settings in one table, and give back the best one's fit.

    rank, adapt_prior, likelihood: lists of what to compare, every combination of them; what is no list is the same for
    all. Ranks and tyings are those of `plait.fit`, likelihoods words or objects, of the relation that is judged. seeds:
    number of fits of every setting. by: what is compared.

    - "hidden": a fraction of the links of a relation (the first one of the model unless `relation` names another), and
      ten zeros for each, are put aside with their mirror images. The best setting has the highest log-likelihood of
      these cells under the mixture of its fits; average_precision and roc_auc are beside it, all with standard errors.
      Then that setting is fitted to all data (`restarts=seeds`).
    - "elbo": the best of the seeds' bounds. Bounds compare ranks and equations only under one adapt_prior and
      one likelihood; others are refused.

    seed: of what is put aside and of the fits; None draws one. All other arguments are those of `plait.fit`.
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
                f'`by="elbo"` cannot compare fits that find the weight of {bound.open_weights[0]}: '
                "bounds compare under the same weights only."
            ),
            hint='Give `by="hidden"`, or give a number as weight.',
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
        warnings.simplefilter("ignore", BelowBaselineWarning)  # what predicts best is not to be called too large
        fitted = fit(model, data, seed=task.seed, restarts=restarts, progress=report, **best.setting.words, **options)
    return GridSearch(rows, best.setting.words, fitted, by, name, _notes(plan))


@dataclass(frozen=True)
class Setting:
    """One combination: arguments of `plait.fit`, and the likelihood of the relation that is judged (None: its own)."""

    rank: Any
    adapt_prior: Any
    likelihood: Likelihood | None

    @property
    def words(self) -> dict[str, Any]:
        """The arguments of `plait.fit`."""
        return {"rank": self.rank, "adapt_prior": self.adapt_prior}


@dataclass(frozen=True)
class Tried:
    """A setting, its row in the table, and its best fit."""

    setting: Setting
    row: dict[str, Any]
    fit: Fit


@dataclass(frozen=True)
class GridRunner:
    """What all settings are fitted to."""

    data: Data
    relation: str
    seed: int
    seeds: int
    options: Mapping[str, Any]

    def by_bound(self, setting: Setting, say: Any) -> Tried:
        """The best bound of some seeds."""
        began = time.perf_counter()
        fits = self._fits(setting, _with_likelihood(self.data, self.relation, setting.likelihood), say)
        best = max(fits, key=lambda one: one.objective)
        row = {"objective": best.objective, "seconds": time.perf_counter() - began}
        return Tried(setting, _about(setting, best) | row, best)

    def by_hidden(self, setting: Setting, held_out: HeldOut, links_only: bool, say: Any) -> Tried:
        """How well the mixture of some fits predicts what was put aside."""
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
            say(f"{_shown(setting)}: fit {number + 1} of {self.seeds}")
            fits.append(run_fit(data, replace(given, seed=seed)))
        return fits


def _plan(
    rank: Any, adapt_prior: Any, likelihood: Any, by: str, seeds: Any, fraction: Any, options: Mapping[str, Any]
) -> list[Setting]:
    """Every combination, checked."""
    one_of("by", by, WAYS)
    if isinstance(seeds, bool) or not isinstance(seeds, (int, np.integer)) or seeds < 1:
        raise ParameterError.must_be("seeds", "a whole number, 1 or more", seeds)
    if not isinstance(fraction, (int, float)) or not 0 < fraction < 1:
        raise ParameterError.must_be(
            "fraction",
            "over 0 and under 1",
            fraction,
            hint="Give 0.1 to hold out a tenth.",
        )
    for word in ("init", "checkpoint", "combine"):
        if word in options:
            raise ParameterError(f"`{word}` is for one fit, and plait.grid_search makes several.", hint="Leave it out.")
    likelihoods = [None if one is None else as_likelihood(one) for one in _several(likelihood)]
    plan = list(itertools.starmap(Setting, itertools.product(_several(rank), _several(adapt_prior), likelihoods)))
    if not plan:
        raise ParameterError(
            "there is nothing to compare: a list is empty.",
            hint="Give at least one rank, adapt and likelihood.",
        )
    if by == "elbo":
        _check_comparable(plan, options.get("method", "vb"))
    return plan


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list) else [given]


def _check_comparable(plan: Sequence[Setting], method: str) -> None:
    if method != "vb":
        raise ParameterError(
            f'`by="elbo"` needs `method="vb"`, got `method="{method}"`: a likelihood grows with any rank.',
            hint='Give `by="hidden"`.',
        )
    for word in ("adapt_prior", "likelihood"):
        given = [getattr(setting, word) for setting in plan]
        if any(one != given[0] for one in given):
            raise ParameterError(
                f'`by="elbo"` cannot compare several {word}: bounds compare under one {word} only.',
                hint=f'Give `by="hidden"`, or give one {word}.',
            )


def _judged(model: Model, relation: str | None) -> str:
    if relation is None:
        return model.relations[0]
    if relation not in model.relations:
        raise ParameterError(
            f"`relation` is {relation!r}, which the model does not have.",
            hint=f"{suggestion(relation, model.relations)}It has {', '.join(model.relations)}.",
        )
    return relation


def _held_out(data: Data, relation: str, fraction: float, seed: int) -> HeldOut:
    held_out = hold_out(data, relation, fraction, np.random.default_rng([seed, len(relation)]))
    if held_out is None:
        raise ParameterError(
            f"a fraction of {fraction:g} of the links of {relation} is none or all of them.",
            hint="Give another fraction, or more data.",
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
            f"likelihood {str(likelihood)!r} is not for {relation}, which has a value of {bound.values[bad][0]:g}.",
            hint=f"{likelihood.wanted}. Leave it out, or give other data.",
        )
    return replace(data, relations={**data.relations, relation: replace(bound, likelihood=likelihood)})


def _figures(held_out: HeldOut, fits: Sequence[Fit], links_only: bool) -> dict[str, float]:
    """Log-likelihood, average precision and AUC of the mixture, with standard errors."""
    logs, chance, link = log_score(held_out, fits, links_only), link_probability(held_out, fits), held_out.values > 0
    found = {"log_likelihood": float(logs.mean()), f"log_likelihood{ERRORS}": float(logs.std() / np.sqrt(len(logs)))}
    if link.all():
        return found
    draws = list(_draws(link))
    for name, figure in (("average_precision", metrics.average_precision), ("roc_auc", metrics.roc_auc)):
        found[name] = float(figure(link, chance))
        found[name + ERRORS] = float(np.std([figure(link[at], chance[at]) for at in draws]))
    return found


def _draws(link: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """Cells drawn with replacement, links and zeros in the shares that they have."""
    rng, kinds = np.random.default_rng(0), (np.flatnonzero(link), np.flatnonzero(~link))
    for _ in range(DRAWS):
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


def _shown(setting: Setting) -> str:
    likelihood = f", {setting.likelihood}" if setting.likelihood else ""
    return f"rank {setting.rank or 'auto'}, adapt {setting.adapt_prior}{likelihood}"


def _notes(plan: Sequence[Setting]) -> tuple[str, ...]:
    several = [w for w in ("adapt_prior", "likelihood") if any(getattr(s, w) != getattr(plan[0], w) for s in plan)]
    return (f"bounds compare under the same {' and '.join(several)} only",) if several else ()
