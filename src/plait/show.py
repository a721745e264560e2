"""HTML for notebooks: small pieces that need no script and suit a light page as well as a dark one.

Colours are those of the page, thinned; all text is escaped, since names come from data. What an object shows of itself
is asked of its public attributes only, so this file imports nothing of Plait.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isfinite
from numbers import Integral, Real
from typing import Any

BLOCK = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:60em;overflow-x:auto"
TITLE = "font-weight:600;margin:.5em 0 .2em"
NOTE = "opacity:.7;margin:.2em 0 .5em"
TEXT = "font-family:ui-monospace,monospace;font-size:12px;margin:.2em 0 .5em;white-space:pre;text-align:left"
TABLE = "border-collapse:collapse;margin:.2em 0 .5em;font-variant-numeric:tabular-nums"
EDGE = "border-bottom:1px solid rgba(128,128,128,.35);padding:.15em .9em .15em 0;vertical-align:top"

POINTS = 300  # of a curve at most: more are not seen


def page(*blocks: str) -> str:
    """Pieces of HTML one below the other, as one block."""
    return f'<div style="{BLOCK}">{"".join(blocks)}</div>'


def title(text: object) -> str:
    """A heading."""
    return f'<div style="{TITLE}">{escape(str(text))}</div>'


def note(text: object) -> str:
    """A line in small print."""
    return f'<div style="{NOTE}">{escape(str(text))}</div>'


def text(lines: object) -> str:
    """Text as it is, in letters of one width."""
    return f'<pre style="{TEXT}">{escape(str(lines))}</pre>'


def table(title_text: object, columns: Sequence[object], rows: Iterable[Sequence[Any]], note_text: object = "") -> str:
    """A table: heading, names of columns, rows of values, small print. Numbers stand right; a value may be `Raw`."""
    body = [list(row) for row in rows]
    right = [bool(body) and all(isinstance(row[n], Real) for row in body) for n in range(len(columns))]
    head = "".join(_cell("th", name, right[n]) for n, name in enumerate(columns))
    lines = "".join(f"<tr>{''.join(_cell('td', v, right[n]) for n, v in enumerate(row))}</tr>" for row in body)
    parts = [title(title_text)] if title_text else []
    parts.append(f'<table style="{TABLE}"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>')
    if note_text:
        parts.append(note(note_text))
    return "".join(parts)


def facts(pairs: Mapping[str, Any] | Sequence[tuple[str, Any]]) -> str:
    """Names and values, a line each; a name may be there twice."""
    named = pairs.items() if isinstance(pairs, Mapping) else pairs
    lines = (f"<tr>{_cell('td', name, False, faint=True)}{_cell('td', value, False)}</tr>" for name, value in named)
    return f'<table style="{TABLE}"><tbody>{"".join(lines)}</tbody></table>'


class Raw(str):
    """HTML that is put into a table as it is."""


def _cell(tag: str, value: Any, right: bool, *, faint: bool = False) -> str:
    look = f"{EDGE};text-align:{'right' if right else 'left'}" + (";opacity:.7" if faint else "")
    return f'<{tag} style="{look}">{value if isinstance(value, Raw) else escape(number(value))}</{tag}>'


def number(value: Any) -> str:
    """A value as people read it: 12,345 and 0.1235; anything else as text."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    return f"{int(value):,}" if isinstance(value, Integral) else f"{float(value):,.4g}"


def bar(fraction: float) -> Raw:
    """A share between 0 and 1 as a bar with its percentage."""
    share = min(max(fraction, 0.0), 1.0)
    look = f"display:inline-block;height:.7em;width:{60.0 * share:.1f}px;background:currentColor;opacity:.45"
    return Raw(f'<span style="{look}"></span> {percent(share)}')


def percent(fraction: float) -> str:
    """A share as people say it."""
    if fraction < 0:
        return f"-{percent(-fraction)}"
    if 0.0 < fraction < 0.0005:
        return "under 0.1 %"
    if 0.995 < fraction < 1.0 - 1e-9:
        return "over 99 %"
    return f"{100 * fraction:.0f} %" if fraction == 0 or fraction > 0.0949 else f"{100 * fraction:.1f} %"


def sparkline(values: Sequence[float], width: int = 220, height: int = 36) -> Raw:
    """A curve of the values, as SVG. The first steps of a fit would flatten the rest: they are cut off below."""
    seen = [float(value) for value in values if isfinite(value)]
    if len(seen) < 2:
        return Raw("")
    low, high = sorted(seen)[len(seen) // 10], max(seen)
    if not isfinite(high - low):
        return Raw("")
    step = -(-len(seen) // POINTS)
    seen = [*seen[:-1:step], seen[-1]]
    across = [2 + (width - 4) * n / (len(seen) - 1) for n in range(len(seen))]
    down = [2 + (height - 4) * (1 - max(value - low, 0.0) / ((high - low) or 1.0)) for value in seen]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down))
    line = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    return Raw(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">{line}</svg>'
    )


# --- objects of Plait


def fit_html(fit: Any) -> str:
    """A `plait.Fit`: the model, how the fit went, its factors."""
    bounds = [record.bound for record in fit.history if not record.warm_up]
    seconds = sum(record.seconds for record in fit.history)
    words = {"vb": "evidence bound", "em": "log-likelihood", "map": "log joint density"}
    shown = (
        "the first, which saw the data as they are" if fit.settings.get("bootstrap") else "the one with the best bound"
    )
    about = {
        "method": fit.method,
        **({"members": f"{len(fit.members)}; shown is {shown}"} if len(fit.members) > 1 else {}),
        "rank": _sizes(fit.rank),
        "entities": _sizes({axis: len(fit.labels[axis]) for axis in fit.model.axes}),
        "known links": _sizes({name: len(known) for name, known in fit.known.items()}),
        words.get(fit.method, "bound"): Raw(f"{escape(number(fit.bound))} &#160; {sparkline(bounds)}"),
        "sweeps": f"{max(fit.history[-1].sweep, 0):,} in {seconds:,.2f} s",
        "stopped": str(fit.stop),
        "seed": str(fit.seed),
    }
    rows = [
        (name, ", ".join(posterior.indices), " × ".join(f"{n:,}" for n in posterior.mean.shape) or "1",
         float(posterior.mean.mean()))
        for name, posterior in fit.factors.items()
    ]  # fmt: skip
    columns = ("factor", "indices", "shape", "mean")
    return page(title("Fit"), text(fit.model), facts(about), table("Factors", columns, rows))


def model_html(model: Any) -> str:
    """A `plait.Model`: its equations, and which relations every factor is in."""
    rows = [
        (
            name,
            ", ".join(model.factor(name).indices) or "none",
            ", ".join(r for r, n in zip(model.relations, uses) if n),
        )
        for name, uses in zip(model.factors, model.R.T)
    ]
    about = {
        "axes": "; ".join(_shared(model, axis) for axis in model.axes) or "none",
        "latent indices": ", ".join(model.latent) or "none",
    }
    return page(
        title("Model"), text(model), facts(about), table("Factors", ("factor", "indices", "in relations"), rows)
    )


def _shared(model: Any, axis: str) -> str:
    """An axis, with the other indices that have the same entities."""
    others = [index for index in model.visible if model.axis(index) == axis and index != axis]
    return f"{axis} (also {', '.join(others)})" if others else axis


def relation_html(relation: Any) -> str:
    """A `plait.Relation`: what its data are, and what was said of them."""
    return page(title("Relation"), facts(relation.facts))


def split_html(split: Any) -> str:
    """A `plait.Split`: how much is hidden, and what gives it away."""
    subject = f"{split.relation}[{', '.join(split.indices)}]"
    return page(title(f"Split of {subject}"), facts(split.facts))


def posterior_html(posterior: Any) -> str:
    """A `plait.Posterior`: its size and range, and its first entries."""
    mean, sd = posterior.mean, posterior.sd
    points = not sd.any()
    about = {
        "shape": " × ".join(f"{size:,}" for size in mean.shape) or "one number",
        "kind": "points, known exactly" if points else "independent Gammas",
        "mean": _range(mean),
        **({} if points else {"sd": _range(sd)}),
    }
    if posterior.pairs is not None:
        about["rows"] = f"{len(posterior.pairs):,} pairs, then one for all others of each first entity"
    return page(title(f"Posterior[{', '.join(posterior.indices)}]"), facts(about), *_corner(posterior, points))


def _range(array: Any) -> str:
    return f"{number(array.min())} to {number(array.max())}, on average {number(array.mean())}"


def _corner(posterior: Any, points: bool, most: int = 6) -> list[str]:
    """The first entries of a matrix, by row number; of other shapes nothing, for a page has two dimensions."""
    mean, sd = posterior.mean, posterior.sd
    if mean.ndim != 2:
        return []
    first, second = mean.shape[0], mean.shape[1]
    across = range(min(second, most))

    def entry(row: int, column: int) -> str:
        spread = "" if points else f"\u00a0±\u00a0{number(sd[row, column])}"  # on one line
        return f"{number(mean[row, column])}{spread}"

    rows = [(str(row), *(entry(row, column) for column in across)) for row in range(min(first, most))]
    whole = first <= most and second <= most
    small = "" if whole else f"the first {len(rows):,} of {first:,} rows and {len(across):,} of {second:,} columns"
    return [table("Mean" if points else "Mean ± sd", ("row", *map(str, across)), rows, small)]


def data_html(data: Any) -> str:
    """`plait` data bound to a model: axes, and what was understood of each relation."""
    axes = [(axis, len(data.labels[axis]), _some(data.labels[axis])) for axis in data.model.axes]
    relations = [
        (name, " × ".join(f"{n:,}" for n in r.shape) or "1", len(r.values), float(r.values.sum()), r.observed_zeros,
         r.missing_cells, str(r.likelihood))
        for name, r in data.relations.items()
    ]  # fmt: skip
    columns = ("relation", "shape", "links", "sum", "observed zeros", "missing cells", "likelihood")
    notes = [
        note for name, r in data.relations.items() for note in (_diagonal(name, r), _unseen(name, r), _weight(name, r))
    ]
    return page(
        title("Data"), text(data.model), table("Axes", ("axis", "entities", "names"), axes),
        table("Relations", columns, relations, "; ".join(filter(None, notes))),
    )  # fmt: skip


def _some(labels: Any, most: int = 4) -> str:
    return ", ".join(str(label) for label in labels[:most]) + (", …" if len(labels) > most else "")


def _diagonal(name: str, relation: Any) -> str:
    return f"diagonal of {name}: {relation.diagonal}" if relation.diagonal else ""


def _weight(name: str, relation: Any) -> str:
    return f"weight of {name}: auto, 1 here" if relation.open_weight else ""


def _unseen(name: str, relation: Any) -> str:
    few = [f"{count:,} {index}" for index, count in relation.unseen.items() if count]
    return f"unseen in {name}: {', '.join(few)}" if few else ""


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in sizes.items()) or "none"
