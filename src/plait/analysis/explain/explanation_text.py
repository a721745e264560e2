"""What is said of each number of an explanation; `page` puts it in order.

An explanation as a document: what `plait.analysis.explain.explanation_text` says of its numbers, in order.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from plait.analysis.explain.leading_entities import LEAST
from plait.analysis.titled_tables import beside
from plait.rendering.document import Block, Document, Facts, Note, Section, Share, Table
from plait.rendering.formatting import percent

if TYPE_CHECKING:
    from plait.analysis.explain.explanation import ComponentShare, Entity, Evidence, Explanation, Link

WIDTH = 90  # columns of a list of names, as far as names allow
LINES = 20  # spent on components at most
ENOUGH = 0.95  # components are shown until they make up this share of the cell
RATE_0 = "The model gives this cell rate 0: no component makes it, so no known link bears on it."
LONGEST = 40  # columns of a name before it is cut


def title(e: "Explanation") -> str:
    """The question."""
    return f"Why {e.relation}({', '.join(f'{index}={called(e, index, name)}' for index, name in e.cell.items())})?"


def called(e: "Explanation", index: str, name: Any) -> str:
    """An entity: its name, and its title beside it where it has one."""
    title = e.titles.get(index, {}).get(name)
    return beside(name, None if title is None else _cut(" ".join(title.split())))


def predicted(e: "Explanation") -> str:
    """The prediction in words."""
    told, size = e.prediction, _size(e)
    chance, spread = f"probability of a link {percent(told['probability'])}", f"(sd {told['sd']:.3g})"
    if size == "mean":
        ends = f"90 % between {told['lower']:g} and {told['upper']:g}"
        words = [chance, f"mean {told['mean']:.3g} {spread}", ends]
    else:  # sd and the interval are those of the probability
        ends = f"90 % between {percent(told['lower'])} and {percent(told['upper'])}"
        words = [f"{chance} {spread}", ends, f"rate {told['rate']:.3g}"]
    if "exposure" in told:
        words.append(f"exposure {told['exposure']:g}")
    words.append("not a known link" if e.value is None else f"a known link of value {e.value:g}")
    return "; ".join(words) + "."


def _size(e: "Explanation") -> str:
    """What links add to: the mean count; under Bernoulli the mean is the probability, and the rate is that."""
    return "rate" if "rate" in e.prediction else "mean"


def heading(e: "Explanation", number: int) -> str:
    """What a component makes of the cell."""
    share = e.shares[number]
    told = share.setting or share.name
    here = f"{component(share)} makes {percent(share.share)}" if told else "There is one component"
    return here + ("" if number else "    (* is of this cell)")


def component(share: "ComponentShare") -> str:
    """A component as the beginning of a sentence."""
    words = f"component {share}" if share.setting else f"the {share}" if share.name.startswith("term") else str(share)
    return words[0].upper() + words[1:]


def other_components(e: "Explanation") -> str:
    """What the components that are not shown make together; nothing where all are shown."""
    shown = shown_components(e)
    left, rest = e.component_count - shown, max(0.0, 1.0 - sum(share.share for share in e.shares[:shown]))
    if not left:
        return ""
    return f"{left:,} other component{'' if left == 1 else 's'} {'makes' if left == 1 else 'make'} {percent(rest)}"


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


def names(e: "Explanation", component: int, index: str, width: int = WIDTH) -> str:
    """The leading entities; the cell's own is marked, and named with its rank where it is not among them."""
    own, others = None, []
    top = [s for s in e.standings if s.component == component and s.index == index]
    leading = _leading(top)
    for standing in top:
        if standing in leading:
            others.append(_short(e, standing) + ("*" if standing.of_cell else ""))
        elif standing.of_cell:
            own = f"{_short(e, standing)}* is number {standing.rank:,} of {standing.of:,}"
    end = f"; {own}" if own else ""
    while len(others) > 1 and columns(", ".join(others) + end) > width:
        others.pop()
    return (", ".join(others) + end).removeprefix("; ")


def _leading(top: "Sequence[Entity]") -> "list[Entity]":
    """Those that characterise the component; the cell's own may follow them far behind."""
    return [standing for place, standing in enumerate(top) if standing.rank <= place + 1 and standing.lift > LEAST]


def _short(e: "Explanation", standing: "Entity") -> str:
    """An entity in a list of them."""
    name = called(e, standing.index, standing.name)
    return _cut(standing.name) + name.removeprefix(str(standing.name))


def _cut(name: object) -> str:
    from rich.cells import set_cell_size

    words = str(name)
    return words if columns(words) <= LONGEST else set_cell_size(words, LONGEST - 1).rstrip() + "…"


def columns(words: str) -> int:
    """How many columns of a terminal the words take: two for each of 東京, none for a combining accent."""
    from rich.cells import cell_len

    return cell_len(words)


def link_words(e: "Explanation", link: "Link") -> str:
    """A known link."""
    return f"{link.relation}({', '.join(called(e, index, name) for index, name in link.cell.items())})"


def row_words(e: "Explanation", row: "Evidence") -> str:
    """The entities of a row of a factor."""
    return ", ".join(f"{index} {called(e, index, name)}" for index, name in row.entities.items())


def no_reason(e: "Explanation") -> str:
    """Why no known link is named."""
    if not possible(e):
        return RATE_0
    return f"No {'other ' if e.known else ''}known link bears on it{', only this link itself' if e.known else ''}."


def measure(e: "Explanation") -> str:
    """What the percentage of a known link says."""
    if e.exact is None:
        return f"about how much smaller the {_size(e)} would be, were the link an observed zero"
    how = "an observed zero" if e.exact == "zero" else "missing, not observed at all"
    return f"how much smaller the {_size(e)} is, fitted again with the link {how}"


def same(link: "Link") -> str:
    """What a link and the cell have in common."""
    return f"same {' and '.join(link.through)}"


def other_links(e: "Explanation") -> str:
    """What the known links that are not named do; nothing where there are none."""
    if not e.other_links:
        return ""
    each = percent(e.other_responsibility / e.other_links)
    about = "about " if e.exact else ""  # they are not fitted again
    zero = ", as zeros" if e.exact == "missing" else ""
    if e.other_links == 1:
        return f"1 other link bears on it, {about}{each}{zero}"
    return f"{e.other_links:,} other links bear on it, {about}{each} each on average{zero}"


def basis(e: "Explanation") -> str:
    """What is said of the rows that the cell uses."""
    own = " (this link included)" if e.known else ""
    if not possible(e):
        return "Known links of its entities"
    if e.method == "em":
        return f"It rests on known links alone{own}, for EM has no prior"
    return f"So much of what it rests on comes from data{own}, the rest from the prior"


def has_prior(e: "Explanation") -> bool:
    """Whether it makes sense to say how much comes from data."""
    return possible(e) and e.method != "em"


def describe(e: "Explanation") -> Document:
    """The explanation as a document, about forty lines of text at most."""
    blocks = [Note(predicted(e), quiet=False), *_components(e), *_reasons(e), *_rests_on(e)]
    return Document(title(e), blocks, e.to_dict())


def _components(e: "Explanation") -> Iterator[Block]:
    if not possible(e):
        yield Note(RATE_0, quiet=False)
        return
    shown = shown_components(e)
    for number in range(shown):
        indices = [i for i in e.cell if any(s.component == number and s.index == i for s in e.standings)]
        facts = Facts([(index, names(e, number, index)) for index in indices])
        yield Section(heading(e, number), [facts] if indices else [])
    if e.component_count > shown:
        yield Section(other_components(e), [])


def _reasons(e: "Explanation") -> Iterator[Block]:
    if e.reasons:
        rows = [(link_words(e, r), f"{r.value:g}", percent(r.loss), same(r)) for r in e.reasons]
        heading = f"Because of these known links ({measure(e)})"
        yield Table(("link", "value", "smaller by", "shares"), rows, heading, other_links(e), left=4)
    elif possible(e):  # else said with the components
        yield Section(no_reason(e), [])


def _rests_on(e: "Explanation") -> Iterator[Block]:
    part = has_prior(e)
    rows = [(row_words(e, row), row.factor, *([Share(row.data)] if part else []), row.links) for row in e.rows]
    if rows:
        columns = ("entity", "factor", *(["from data"] if part else []), "known links")
        yield Table(columns, rows, basis(e), left=2)
