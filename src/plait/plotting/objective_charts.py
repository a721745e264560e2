"""Charts of the optimisation: objective by sweep, and scores of the ranks that were tried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from plait.errors import PlaitError
from plait.plotting.theme import BLUE, GREY, Spec, finished, number, plain, series, tips
from plait.rendering.formatting import objective_word
from plait.rendering.svg import INK
from plait.storage.fitted import Fitted

MAX_POINTS = 300  # of a line
MAX_LINES = 20  # other members drawn
MAX_SWEEP_RISE = 0.35  # of the remaining rise: a steeper sweep would flatten the rest of the curve
MIN_VISIBLE_RISE = 1e-6  # relative to the objective


@dataclass(frozen=True)
class Rise:
    """Sweeps and bounds: of the fit that is shown, and of the other members; from the first sweep that is drawn on."""

    shown: list[tuple[int, float]]
    others: list[list[tuple[int, float]]]
    first: int
    name: str


def rise(fit: Fitted) -> Rise:
    """Sweeps of the chart, without the warm-up (another objective) and first sweeps that would flatten the rest.

    Members that saw links reweighed have other bounds: they are left out.
    """
    shown = _steps(fit)
    first = shown[_steep(shown)][0]
    others = [] if fit.settings.get("bootstrap") else [m for m in fit.members if m.history != fit.history][:MAX_LINES]
    lines = [[step for step in _steps(member) if step[0] >= first] for member in others]
    return Rise(_thinned(shown[_steep(shown) :]), [_thinned(line) for line in lines if line], first, _name(fit))


def _steps(fit: Fitted) -> list[tuple[int, float]]:
    own = [(record.sweep, record.objective) for record in fit.history if not record.warm_up]
    return own or [(record.sweep, record.objective) for record in fit.history]


def _name(fit: Fitted) -> str:
    return "log-likelihood of the warm-up" if fit.history[-1].warm_up else objective_word(fit.method)


def _steep(steps: Sequence[tuple[int, float]]) -> int:
    """The first step, in the first half, from which on no sweep is too steep; or hardly steeper than all are."""
    bounds = [bound for _, bound in steps]
    best = max(bounds)
    rises = [later - bound for bound, later in pairwise(bounds)]
    steepest = list(accumulate(reversed(rises), max))[::-1]  # from each step on
    left = [
        (n, best - bounds[n]) for n in range((len(bounds) + 1) // 2) if best - bounds[n] > MIN_VISIBLE_RISE * abs(best)
    ]
    shares = {n: steepest[n] / rest for n, rest in left}
    most = max(MAX_SWEEP_RISE, 1.2 * min(shares.values(), default=0.0))
    return next((n for n, share in shares.items() if share <= most), 0)


def _thinned(steps: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most MAX_POINTS of them, evenly, both ends among them."""
    last = len(steps) - 1
    return list(steps) if last < MAX_POINTS else [steps[round(n * last / (MAX_POINTS - 1))] for n in range(MAX_POINTS)]


def draw_objective(rise: Rise) -> Spec:
    """The bound by sweep; other members as thin lines."""
    word = f"sweep (from {rise.first:,} on; earlier values are far lower)" if rise.first > 0 else "sweep"
    across = number("sweep", word, scale={"nice": False, "zero": False}, axis={"tickMinStep": 1, "format": "d"})
    up = number("objective", rise.name, scale={"zero": False}, axis={"format": ",.7~g"})
    layers: list[Spec] = [
        {
            "data": plain(_rows([("fit", rise.shown)])),
            "mark": {"type": "line", "color": BLUE, "strokeWidth": 2.5, "point": len(rise.shown) < 3},
            "encoding": {"x": across, "y": up, "tooltip": tips(sweep="sweep", objective=rise.name)},
        },
        {
            "data": plain(_rows([("fit", rise.shown[-1:])])),
            "mark": {"type": "point", "filled": True, "size": 45, "color": BLUE, "opacity": 1},
            "encoding": {"x": across, "y": up},
        },
    ]
    if rise.others:
        thin = [(f"member {n + 1}", line) for n, line in enumerate(rise.others)]
        others: Spec = {
            "data": plain(_rows(thin)),
            "mark": {"type": "line", "color": GREY, "strokeWidth": 1, "strokeDash": [4, 2]},
            "encoding": {"x": across, "y": up, "detail": {"field": "member", "type": "nominal"}},
        }
        layers.insert(0, others)
    return finished({"width": 380, "height": 170, "layer": layers})


def _rows(lines: Sequence[tuple[str, Sequence[tuple[int, float]]]]) -> list[dict[str, Any]]:
    return [{"member": name, "sweep": sweep, "objective": value} for name, line in lines for sweep, value in line]


BOUND, HIDDEN = "ELBO", "mean log-probability of held-out cells"
ORDER = "average precision of held-out links"
SETTINGS = ("rank", "adapt_prior", "likelihood")


@dataclass(frozen=True)
class Tries:
    """Ranks tried: rows with rank, score, error (None where it is not known), series and chosen; what a score is."""

    rows: list[dict[str, Any]]
    score: str
    chosen: str


def tried(fit: Fitted) -> Tries:
    """What the fit tried to find its rank."""
    tries = fit.settings.get("rank_by")
    if not tries or not tries["tried"]:
        how = f"was chosen by {tries['way']}, without a search" if tries else "was given"
        raise PlaitError(
            f"there are no ranks to compare: the rank of this fit {how}.",
            hint='Remove `rank` or set `rank="elbo"` for a search, or use plait.grid_search.',
        )
    best = _size(fit)
    rows = [
        {"rank": size, "score": float(score), "error": None, "series": "", "chosen": size == best}
        for size, score in tries["tried"]
    ]
    way = tries["way"]
    score = BOUND if way == "elbo" else ORDER if way.startswith("held-out links") else HIDDEN
    return Tries(rows, score, ", ".join(map(str, fit.rank.values())))


def _size(fit: Fitted) -> int:
    """The size that was chosen for all latent indices; some may have room for less."""
    given = fit.settings["rank"]
    return max(given.values()) if isinstance(given, Mapping) else int(given)


def compared(rows: Sequence[Mapping[str, Any]], by: str) -> Tries:
    """The settings of a `plait.GridSearch`: a line for every other setting than the rank."""
    figure = "objective" if by == "elbo" else "log_likelihood"
    others = [name for name in SETTINGS[1:] if len({str(row.get(name)) for row in rows}) > 1]
    points = [
        {
            "rank": row["rank"],
            "score": float(row[figure]),
            "error": row.get(f"{figure}_se"),
            "series": ", ".join(f"{name} {row[name]}" for name in others),
            "chosen": place == 0,
        }
        for place, row in enumerate(rows)
    ]
    return Tries(points, BOUND if by == "elbo" else HIDDEN, str(rows[0]["rank"]))


def draw_ranks(tries: Tries) -> Spec:
    """Scores by rank, the chosen one ringed."""
    sizes = list(dict.fromkeys(row["rank"] for row in tries.rows))
    ordered = sorted(sizes) if all(isinstance(size, int) for size in sizes) else sizes
    rows = [
        {**row, "rank": str(row["rank"]), "place": ordered.index(row["rank"]),
         **_ends(row["score"], row["error"])}
        for row in tries.rows
    ]  # fmt: skip
    x: Spec = {"field": "rank", "type": "ordinal", "sort": [str(size) for size in ordered], "title": "rank",
               "axis": {"labelAngle": 0, "labelLimit": 90}}  # fmt: skip
    y = number("score", tries.score, scale={"zero": False}, axis={"format": ",.6~g"})
    colour, dash, shape = series(list(dict.fromkeys(row["series"] for row in rows)))
    order = {"field": "place", "type": "quantitative"}
    said = tips(rank="rank#", score=tries.score, error="± se")
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "strokeWidth": 1.5},
            "encoding": {"x": x, "y": y, "color": colour, "strokeDash": dash, "order": order},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": said},
        },
        {
            "transform": [{"filter": "datum.chosen"}],
            "mark": {"type": "point", "filled": False, "size": 260, "color": INK, "strokeWidth": 1.5},
            "encoding": {"x": x, "y": y},
        },
        {
            "transform": [{"filter": "datum.chosen"}],
            "mark": {"type": "text", "color": INK, "dy": -16, "fontSize": 11, "text": "chosen"},
            "encoding": {"x": x, "y": y},
        },
    ]
    if any("lower" in row for row in rows):
        ends = {"x": x, "y": y | {"field": "lower"}, "y2": {"field": "upper"}, "color": colour}
        layers.insert(1, {"mark": {"type": "rule", "strokeWidth": 1.5, "color": BLUE}, "encoding": ends})
    return finished({"width": max(200, 60 * len(ordered)), "height": 190, "data": plain(rows), "layer": layers})


def _ends(score: float, error: float | None) -> dict[str, float]:
    return {} if error is None else {"lower": score - error, "upper": score + error}
