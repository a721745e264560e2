"""`plait.compare`: several fits on the same test, and how sure one can be of their differences."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plait.errors import LeakWarning, SettingError, suggestion
from plait.evaluation.comparison import Comparison, Difference
from plait.evaluation.evaluating import UNSEEN, report
from plait.evaluation.figures import Figure, norm
from plait.evaluation.measuring import Measured, measure
from plait.evaluation.task import TestOptions, check_options, set_task
from plait.evaluation.view import View
from plait.fitting.progress import counting
from plait.warn import warn_of

if TYPE_CHECKING:
    from plait.result import Fit


def compare(
    fits: "Mapping[str, Fit]",
    relation: str,
    test: Any,
    *,
    against: str | None = None,
    score: str = "mean",
    rank: bool | str | Sequence[str] | None = None,
    k: int | Sequence[int] | None = None,
    nonlinks: int | None = None,
    known: Any = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Comparison:
    """Measure fits by the same test, side by side: ``plait.compare({"CP": fit, "Tucker": other}, "visits", test)``.

    Figures and options are those of `plait.evaluate`. All fits are asked the same: the same cells, the same queries,
    the same drawn non-links; a link that one of them knows is a known one for all. So what is hard for one is hard for
    the other, and a difference has a smaller standard error than the figures themselves: it is made from the
    differences unit by unit. against: the fit that the others are compared with, the first unless told.

    The fits may differ in everything but the relation: its indices and its likelihood. Candidates are the entities of
    the fit that knows the fewest; every other fit must know these, too.
    """
    against = _check(fits, relation, against)
    options = TestOptions(score, rank, k, nonlinks, known, seed)
    check_options(options)
    smallest = min(fits.values(), key=lambda fit: sum(fit.known[relation].shape))
    views = {name: View.of(fit, relation, score, smallest, name) for name, fit in fits.items()}
    task = set_task(smallest, list(views.values()), relation, test, options)
    with counting("ranking", len(fits) * len(task.places) * int(task.link.sum()), progress) as advance:
        measured = {name: measure(view, task, advance) for name, view in views.items()}
    seen = [f"{name}: {one.seen}" for name, one in measured.items() if one.seen is not None]
    if seen:
        warn_of([LeakWarning(f"{'; '.join(seen)}.", location=relation, hint=UNSEEN)])
    return Comparison(
        metrics={name: report(task, one) for name, one in measured.items()},
        differences={name: _differences(one, measured[against]) for name, one in measured.items() if name != against},
        against=against,
    )


def _differences(measured: Measured, against: Measured) -> dict[str, Difference]:
    """Of all figures that both have."""
    return {
        name: _difference(figure, against.found[name])
        for name, figure in measured.found.items()
        if name in against.found
    }


def _difference(figure: Figure, against: Figure) -> Difference:
    told = len(figure.shares) > 0
    return Difference(figure.value - against.value, norm(figure.shares - against.shares) if told else None)


def _check(fits: Any, relation: str, against: str | None) -> str:
    """Fits that can be compared; the name of the one that the others are compared with."""
    if not isinstance(fits, Mapping) or len(fits) < 2:
        what = f"{len(fits)}" if isinstance(fits, Mapping) else type(fits).__name__
        raise SettingError(
            f"fits must be two fits or more by name, got {what}.",
            hint='Give {"CP": fit, "Tucker": other}.',
        )
    names = [str(name) for name in fits]
    if against is not None and against not in fits:
        raise SettingError(
            f"`against` is {against!r}, which is none of the fits.",
            hint=f"{suggestion(against, names)}They are {', '.join(names)}.",
        )
    first, *others = fits.items()
    wanted = first[1].model.equation(relation).indices, first[1].likelihood[relation]
    for name, fit in others:
        got = fit.model.equation(relation).indices, fit.likelihood[relation]
        if got != wanted:
            raise SettingError(
                f"fits: {relation} is {_described(*wanted)} in {first[0]!r}, but {_described(*got)} in {name!r}.",
                hint="Compare fits of the same relation.",
            )
    return names[0] if against is None else against


def _described(indices: Sequence[str], likelihood: str) -> str:
    return f"[{', '.join(indices)}], {likelihood},"
