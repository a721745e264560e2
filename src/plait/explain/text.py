"""An explanation in words, for a terminal and for a notebook."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from plait import show
from plait.explain.entities import LEAST

if TYPE_CHECKING:
    from plait.explain.report import Entity, Explanation

WIDTH = 100  # columns of a line, as far as names allow
LINES = 20  # spent on components at most
ENOUGH = 0.95  # components are shown until they make up this share of the cell
RATE_0 = "The model gives this cell rate 0: no component makes it, so no known link bears on it."
LONGEST = 40  # columns of a name before it is cut


def written(e: "Explanation") -> str:
    """The explanation as text, about forty lines at most."""
    parts = [
        [f"Why {_name(e)}?", _predicted(e)],
        *_components(e),
        _reasons(e),
        _rests_on(e),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _name(e: "Explanation") -> str:
    return f"{e.relation}({', '.join(f'{index}={name}' for index, name in e.cell.items())})"


def _predicted(e: "Explanation") -> str:
    """The prediction in words."""
    told, size = e.prediction, _size(e)
    chance, spread = f"probability of a link {percent(told['probability'])}", f"(sd {told['sd']:.3g})"
    if size == "mean":
        ends = f"90 % between {told['low']:g} and {told['high']:g}"
        words = [chance, f"mean {told['mean']:.3g} {spread}", ends]
    else:  # sd and the interval are those of the probability
        ends = f"90 % between {percent(told['low'])} and {percent(told['high'])}"
        words = [f"{chance} {spread}", ends, f"rate {told['rate']:.3g}"]
    if "exposure" in told:
        words.append(f"exposure {told['exposure']:g}")
    words.append("not a known link" if e.value is None else f"a known link of value {e.value:g}")
    return "; ".join(words) + "."


def _size(e: "Explanation") -> str:
    """What links add to: the mean count; under Bernoulli the mean is the probability, and the rate is that."""
    return "rate" if "rate" in e.prediction else "mean"


def percent(fraction: float) -> str:
    """A share as people say it."""
    if 0.0 < fraction < 0.0005:
        return "under 0.1 %"
    if 0.995 < fraction < 1.0 - 1e-9:
        return "over 99 %"
    return f"{100 * fraction:.0f} %" if fraction == 0 or fraction > 0.0949 else f"{100 * fraction:.1f} %"


def _components(e: "Explanation") -> Iterator[list[str]]:
    if not possible(e):
        yield [RATE_0]
        return
    shown = shown_components(e)
    for number in range(shown):
        share = e.shares[number]
        here = f"Component {share} makes {percent(share.share)}" if share.setting else "There is one component"
        here += "" if number else "    (* is of this cell)"
        indices = [i for i in e.cell if any(s.component == number and s.index == i for s in e.standings)]
        wide = max(map(columns, indices), default=0)
        yield [here, *(f"    {padded(i, wide)}  {_names(e, number, i, WIDTH - wide - 6)}" for i in indices)]
    left = e.component_count - shown
    if left:
        rest = max(0.0, 1.0 - sum(share.share for share in e.shares[:shown]))
        yield [f"{left:,} other component{'' if left == 1 else 's'} {'makes' if left == 1 else 'make'} {percent(rest)}"]


def possible(e: "Explanation") -> bool:
    """Whether the rate of the cell is over 0."""
    return e.shares[0].share > 0


def shown_components(e: "Explanation") -> int:
    """How many components are worth showing: the characterised ones until they are enough, a screenful at most."""
    characterised = 1 + max((s.component for s in e.standings), default=0)
    room = max(1, LINES // (len(e.cell) + 2))
    total, count = 0.0, 0
    for share in e.shares[: min(characterised, room)]:
        if count and (total >= ENOUGH or not share.share > 0):
            break
        total, count = total + share.share, count + 1
    return count


def _names(e: "Explanation", component: int, index: str, width: int) -> str:
    """The leading entities; the cell's own is marked, and named with its rank where it is not among them."""
    own, others = None, []
    top = [s for s in e.standings if s.component == component and s.index == index]
    leading = _leading(top)
    for standing in top:
        if standing in leading:
            others.append(_cut(standing.name) + ("*" if standing.of_cell else ""))
        elif standing.of_cell:
            own = f"{_cut(standing.name)}* is number {standing.rank:,} of {standing.of:,}"
    end = f"; {own}" if own else ""
    while len(others) > 1 and columns(", ".join(others) + end) > width:
        others.pop()
    return (", ".join(others) + end).removeprefix("; ")


def _leading(top: "Sequence[Entity]") -> "list[Entity]":
    """Those that characterise the component; the cell's own may follow them far behind."""
    return [standing for place, standing in enumerate(top) if standing.rank <= place + 1 and standing.lift > LEAST]


def _cut(name: object) -> str:
    from rich.cells import set_cell_size

    words = str(name)
    return words if columns(words) <= LONGEST else set_cell_size(words, LONGEST - 1).rstrip() + "…"


def columns(words: str) -> int:
    """How many columns of a terminal the words take: two for each of 東京, none for a combining accent."""
    from rich.cells import cell_len

    return cell_len(words)


def padded(words: str, width: int) -> str:
    """The words, and blanks up to this many columns."""
    return words + " " * (width - columns(words))


def _reasons(e: "Explanation") -> list[str]:
    if not possible(e):
        return []  # said with the components
    if not e.reasons:
        return [
            f"No {'other ' if e.known else ''}known link bears on it{', only this link itself' if e.known else ''}."
        ]
    names = [f"{r}{'' if r.value == 1 else f' = {r.value:g}'}" for r in e.reasons]
    wide = min(max(map(columns, names)), WIDTH - 30)
    lines = [f"Because of these known links (how much smaller the {_size(e)} would be without their counts)"]
    for name, reason in zip(names, e.reasons):
        lines.append(
            f"    {_loss(reason.responsibility):>11}  {padded(name, wide)}  same {' and '.join(reason.through)}"
        )
    if e.other_links:
        each = e.other_responsibility / e.other_links
        many = f"{e.other_links:,} other links bear on it, {_loss(each)} each on average"
        lines.append(f"    {many if e.other_links > 1 else f'1 other link bears on it, {_loss(each)}'}")
    return lines


def _loss(responsibility: float) -> str:
    """How much smaller the mean is when its logarithm falls by this."""
    return percent(-math.expm1(-responsibility))


def _rests_on(e: "Explanation") -> list[str]:
    if not e.rows:
        return []
    names = [f"{row} ({row.factor})" for row in e.rows]
    wide = max(map(columns, names))
    own = " (this link included)" if e.known else ""
    if not possible(e):
        heading = "Known links of its entities"
    elif e.method == "em":
        heading = f"It rests on known links alone{own}, for EM has no prior"
    else:
        heading = f"So much of what it rests on comes from data{own}, the rest from the prior"
    shares = possible(e) and e.method != "em"
    lines = [heading]
    for name, row in zip(names, e.rows):
        part = f"  {percent(row.data):>11}" if shares else ""
        lines.append(f"    {padded(name, wide)}{part}  {row.links:,} known link{'' if row.links == 1 else 's'}")
    return lines


def html(e: "Explanation") -> str:
    """The explanation for a notebook."""
    shown = e.shares[: shown_components(e)]
    rows = [
        (str(share), show.bar(share.share), *(_names(e, number, index, 10**6) for index in e.cell))
        for number, share in enumerate(shown)
    ]
    links = [(str(r), r.value, r.responsibility, " and ".join(r.through)) for r in e.reasons]
    rests = [(str(row), row.factor, show.bar(row.data), row.links) for row in e.rows]
    more = f"{e.other_links:,} other links have {e.other_responsibility:.3g} together" if e.other_links else ""
    if not e.reasons:
        more = " ".join(_reasons(e)) or RATE_0
    left = e.component_count - len(shown)
    return show.page(
        show.title(f"Why {_name(e)}?"),
        show.note(_predicted(e)),
        show.table("Components", ("component", "share", *e.cell), rows, f"{left:,} others" if left else ""),
        show.table("Known links", ("link", "value", "responsibility", "same"), links, more),
        show.table("What it rests on", ("entity", "factor", "from data", "known links"), rests),
    )
