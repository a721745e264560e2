"""How a rank was chosen: what every rank that was tried scored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.chart.look import BLUE, Spec, finished, number, plain, series, tips
from plait.errors import PlaitError
from plait.run.record import Fitted
from plait.show.svg import INK

BOUND, HIDDEN = "bound", "mean log-probability of a cell put aside"
SETTINGS = ("rank", "adapt", "likelihood")


@dataclass(frozen=True)
class Tries:
    """Ranks tried: rows with rank, score, error (None where it is not known), series and chosen; what a score is."""

    rows: list[dict[str, Any]]
    score: str
    chosen: str


def tried(fit: Fitted) -> Tries:
    """What the fit tried to find its rank."""
    found = fit.settings.get("rank_by")
    if not found or not found["tried"]:
        how = f"was found by {found['way']}, without trying any" if found else "was given"
        raise PlaitError(
            f"there are no ranks to compare: the rank of this fit {how}.",
            hint='Leave `rank` out or say `rank="bound"` to have it searched, or compare some by plait.choose.',
        )
    best = _size(fit)
    rows = [
        {"rank": size, "score": float(score), "error": None, "series": "", "chosen": size == best}
        for size, score in found["tried"]
    ]
    return Tries(rows, BOUND if found["way"] == "bound" else HIDDEN, ", ".join(map(str, fit.rank.values())))


def _size(fit: Fitted) -> int:
    """The size that was chosen for all latent indices; some may have room for less."""
    given = fit.settings["rank"]
    return max(given.values()) if isinstance(given, Mapping) else int(given)


def compared(rows: Sequence[Mapping[str, Any]], by: str) -> Tries:
    """The settings of a `plait.Choice`: a line for every other setting than the rank."""
    figure = "bound" if by == "bound" else "log_likelihood"
    others = [name for name in SETTINGS[1:] if len({str(row.get(name)) for row in rows}) > 1]
    found = [
        {
            "rank": row["rank"],
            "score": float(row[figure]),
            "error": row.get(f"{figure}_se"),
            "series": ", ".join(f"{name} {row[name]}" for name in others),
            "chosen": place == 0,
        }
        for place, row in enumerate(rows)
    ]
    return Tries(found, BOUND if by == "bound" else HIDDEN, str(rows[0]["rank"]))


def draw(found: Tries) -> Spec:
    """Scores by rank, the chosen one ringed."""
    sizes = list(dict.fromkeys(row["rank"] for row in found.rows))
    ordered = sorted(sizes) if all(isinstance(size, int) for size in sizes) else sizes
    rows = [
        {**row, "rank": str(row["rank"]), "place": ordered.index(row["rank"]),
         **({} if row["error"] is None else {"low": row["score"] - row["error"], "high": row["score"] + row["error"]})}
        for row in found.rows
    ]  # fmt: skip
    x: Spec = {"field": "rank", "type": "ordinal", "sort": [str(size) for size in ordered], "title": "rank",
               "axis": {"labelAngle": 0, "labelLimit": 90}}  # fmt: skip
    y = number("score", found.score, scale={"zero": False}, axis={"format": ",.6~g"})
    colour, dash, shape = series(list(dict.fromkeys(row["series"] for row in rows)))
    order = {"field": "place", "type": "quantitative"}
    said = tips(rank="rank#", score=found.score, error="± se")
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
    if any("low" in row for row in rows):
        ends = {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}, "color": colour}
        layers.insert(1, {"mark": {"type": "rule", "strokeWidth": 1.5, "color": BLUE}, "encoding": ends})
    return finished({"width": max(200, 60 * len(ordered)), "height": 190, "data": plain(rows), "layer": layers})
