"""How the bound of a fit rose, sweep by sweep."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from plait.chart.look import BLUE, GREY, Spec, finished, number, plain, tips
from plait.run.record import Fitted
from plait.show.objects import BOUNDS

POINTS = 300  # of a line
LINES = 20  # members that are drawn beside the one that is shown
STEEP = 0.35  # of all that is left to rise: a single sweep that rises by more flattens what comes after it
FLAT = 1e-6  # of the bound: less to rise than that is nothing to see


@dataclass(frozen=True)
class Rise:
    """Sweeps and bounds: of the fit that is shown, and of the other members; from the first sweep that is drawn on."""

    shown: list[tuple[int, float]]
    others: list[list[tuple[int, float]]]
    first: int
    name: str


def rise(fit: Fitted) -> Rise:
    """What is drawn: without the warm-up, whose bound is another, and without first steps that would flatten the rest.

    Members that saw links reweighed have other bounds: they are left out.
    """
    shown = _steps(fit)
    first = shown[_steep(shown)][0]
    others = [] if fit.settings.get("bootstrap") else [m for m in fit.members if m.history != fit.history][:LINES]
    lines = [[step for step in _steps(member) if step[0] >= first] for member in others]
    return Rise(_thinned(shown[_steep(shown) :]), [_thinned(line) for line in lines if line], first, _name(fit))


def _steps(fit: Fitted) -> list[tuple[int, float]]:
    own = [(record.sweep, record.bound) for record in fit.history if not record.warm_up]
    return own or [(record.sweep, record.bound) for record in fit.history]


def _name(fit: Fitted) -> str:
    return "log-likelihood of the warm-up" if fit.history[-1].warm_up else BOUNDS.get(fit.method, "bound")


def _steep(steps: Sequence[tuple[int, float]]) -> int:
    """The first step, in the first half, from which on no sweep is too steep; or hardly steeper than all are."""
    bounds = [bound for _, bound in steps]
    best = max(bounds)
    rises = [later - bound for bound, later in pairwise(bounds)]
    steepest = list(accumulate(reversed(rises), max))[::-1]  # from each step on
    left = [(n, best - bounds[n]) for n in range((len(bounds) + 1) // 2) if best - bounds[n] > FLAT * abs(best)]
    shares = {n: steepest[n] / rest for n, rest in left}
    most = max(STEEP, 1.2 * min(shares.values(), default=0.0))
    return next((n for n, share in shares.items() if share <= most), 0)


def _thinned(steps: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most POINTS of them, evenly, both ends among them."""
    last = len(steps) - 1
    return list(steps) if last < POINTS else [steps[round(n * last / (POINTS - 1))] for n in range(POINTS)]


def draw(found: Rise) -> Spec:
    """The bound by sweep; other members as thin lines."""
    word = f"sweep (those before {found.first:,} are far below)" if found.first > 0 else "sweep"
    across = number("sweep", word, scale={"nice": False, "zero": False}, axis={"tickMinStep": 1, "format": "d"})
    up = number("bound", found.name, scale={"zero": False}, axis={"format": ",.7~g"})
    layers: list[Spec] = [
        {
            "data": plain(_rows([("fit", found.shown)])),
            "mark": {"type": "line", "color": BLUE, "strokeWidth": 2.5, "point": len(found.shown) < 3},
            "encoding": {"x": across, "y": up, "tooltip": tips(sweep="sweep", bound=found.name)},
        },
        {
            "data": plain(_rows([("fit", found.shown[-1:])])),
            "mark": {"type": "point", "filled": True, "size": 45, "color": BLUE, "opacity": 1},
            "encoding": {"x": across, "y": up},
        },
    ]
    if found.others:
        thin = [(f"member {n + 1}", line) for n, line in enumerate(found.others)]
        others: Spec = {
            "data": plain(_rows(thin)),
            "mark": {"type": "line", "color": GREY, "strokeWidth": 1, "strokeDash": [4, 2]},
            "encoding": {"x": across, "y": up, "detail": {"field": "member", "type": "nominal"}},
        }
        layers.insert(0, others)
    return finished({"width": 380, "height": 170, "layer": layers})


def _rows(lines: Sequence[tuple[str, Sequence[tuple[int, float]]]]) -> list[dict[str, Any]]:
    return [{"member": name, "sweep": sweep, "bound": bound} for name, line in lines for sweep, bound in line]
