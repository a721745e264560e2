"""Text of an explanation: prediction, components, supporting links and data."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from plait.analysis.explain.leading_entities import MIN_LIFT
from plait.analysis.titled_tables import name_with_title
from plait.rendering.document import Block, Document, Facts, Note, Section
from plait.rendering.formatting import percent, plural

if TYPE_CHECKING:
    from plait.analysis.explain.explanation import Entity, Evidence, Explanation, Link

WIDTH = 96  # columns of the names of a component, as far as names allow
MAX_COMPONENTS = 8  # lines of components
SHOWN_SHARE = 0.95  # components are shown until they make up this share of the cell
RATE_0 = "The predicted rate is 0: no component contributes to it, so there are no supporting links."
MAX_NAME_COLUMNS = 40  # columns of a name before it is cut


def title(e: "Explanation") -> str:
    """The cell: ``visits(ann, zoo)``."""
    return f"{e.relation}({', '.join(called(e, index, name) for index, name in e.cell.items())})"


def called(e: "Explanation", index: str, name: Any) -> str:
    """Name of an entity, followed by its title if it has one."""
    title = e.titles.get(index, {}).get(name)
    return name_with_title(name, None if title is None else _cut(" ".join(title.split())))


def predicted(e: "Explanation") -> str:
    """The prediction with its interval, and whether the cell is a training link."""
    prediction = e.prediction
    chance = f"probability {_probability(prediction['probability'])}"
    if _size(e) == "mean" or prediction["mean"] != prediction["probability"]:
        interval = f"90 % interval {prediction['lower']:g}–{prediction['upper']:g}"
        words = [f"mean {prediction['mean']:.3g} ({interval})", f"{chance} of a link"]
    else:  # Bernoulli: the interval is that of the probability
        interval = f"90 % interval {_probability(prediction['lower'])}–{_probability(prediction['upper'])}"
        words = [f"{chance} ({interval})"]
    if "exposure" in prediction:
        words.append(f"exposure {prediction['exposure']:g}")
    return ", ".join([*words, status(e)])


def status(e: "Explanation") -> str:
    """Whether the cell is a link of the training data."""
    if e.value is None:
        return "not in the training data"
    return "in the training data" + ("" if e.value == 1 else f" with value {e.value:g}")


def _probability(p: float) -> str:
    return f"{p:.3f}" if p == 0 or p >= 0.001 else f"{p:.1e}"


def _size(e: "Explanation") -> str:
    """Word for the quantity that links add to: the mean count, or the rate under Bernoulli."""
    return "rate" if "rate" in e.prediction else "mean"


def other_components(e: "Explanation") -> str:
    """The share of the components that are not shown; nothing where all are shown."""
    shown = shown_components(e)
    left, rest = e.component_count - shown, max(0.0, 1.0 - sum(share.share for share in e.shares[:shown]))
    if not left:
        return ""
    return f"{plural(left, 'other component')}: {percent(rest)}"


def possible(e: "Explanation") -> bool:
    """Whether the rate of the cell is positive."""
    return e.shares[0].share > 0


def shown_components(e: "Explanation") -> int:
    """How many components are shown: those with leading entities, until they make up `SHOWN_SHARE` of the cell."""
    characterised = 1 + max((s.component for s in e.standings), default=0)
    labelled = 1 + max((n for n, share in enumerate(e.shares[:MAX_COMPONENTS]) if share.label), default=0)
    characterised = max(characterised, labelled)
    total, count = 0.0, 0
    for share in e.shares[: min(characterised, MAX_COMPONENTS)]:
        if count and (total >= SHOWN_SHARE or not share.share > 0):
            break
        total, count = total + share.share, count + 1
    return count


def names(e: "Explanation", component: int, index: str, width: int = WIDTH) -> str:
    """The leading entities, and that of the cell with its rank where it is not among them."""
    own, others = None, []
    top = [s for s in e.standings if s.component == component and s.index == index]
    leading = _leading(top)
    for standing in top:
        if standing in leading:
            others.append(_short(e, standing))
        elif standing.of_cell:
            own = f"{_short(e, standing)} (rank {standing.rank:,} of {standing.of:,})"
    end = f", {own}" if own else ""
    while len(others) > 1 and columns(", ".join(others) + end) > width:
        others.pop()
    return (", ".join(others) + end).removeprefix(", ")


def _leading(top: "Sequence[Entity]") -> "list[Entity]":
    """The leading entities, without the cell's own far behind them."""
    return [standing for place, standing in enumerate(top) if standing.rank <= place + 1 and standing.lift > MIN_LIFT]


def _short(e: "Explanation", standing: "Entity") -> str:
    """An entity in a list."""
    name = called(e, standing.index, standing.name)
    return _cut(standing.name) + name.removeprefix(str(standing.name))


def _cut(name: object) -> str:
    from rich.cells import set_cell_size

    words = str(name)
    return words if columns(words) <= MAX_NAME_COLUMNS else set_cell_size(words, MAX_NAME_COLUMNS - 1).rstrip() + "…"


def columns(words: str) -> int:
    """Width of text on a terminal: two columns for each of 東京, none for a combining accent."""
    from rich.cells import cell_len

    return cell_len(words)


def link_words(e: "Explanation", link: "Link") -> str:
    """A known link."""
    return f"{link.relation}({', '.join(called(e, index, name) for index, name in link.cell.items())})"


def row_words(e: "Explanation", row: "Evidence") -> str:
    """Entities of a row of a factor."""
    return ", ".join(f"{index} {called(e, index, name)}" for index, name in row.entities.items())


def no_reason(e: "Explanation") -> str:
    """Why no supporting link is listed."""
    if not possible(e):
        return RATE_0
    return "This link itself is the only supporting link." if e.known else "There are no supporting links."


def measure(e: "Explanation") -> str:
    """What the percentage of a supporting link says."""
    if e.exact is None:
        return f"estimated drop of the {_size(e)} if the link were absent"
    how = "set to zero" if e.exact == "zero" else "missing"
    return f"drop of the {_size(e)} after a refit with the link {how}"


def drop(loss: float) -> str:
    """A drop of the rate: ``−75 %``; a rise has a plus."""
    size = f"{100 * abs(loss):.1f} %" if 0.995 < abs(loss) < 1.0 else percent(abs(loss))
    return size if size.startswith("<") else f"{'−' if loss >= 0 else '+'}{size}"


def same(link: "Link") -> str:
    """Entities that a link shares with the cell."""
    return f"same {' and '.join(link.through)}"


def other_links(e: "Explanation") -> str:
    """The drop by the supporting links that are not listed; nothing where there are none."""
    if not e.other_links:
        return ""
    each = drop(e.other_responsibility / e.other_links) + ("" if e.other_links == 1 else " on average")
    if e.exact:  # they are not fitted again
        each = f"about {each}" + (" if set to zero" if e.exact == "missing" else "")
    return f"{plural(e.other_links, 'other link')}: {each}"


def basis(e: "Explanation") -> str:
    """What the table of factor rows says."""
    own = ", this link included" if e.known else ""
    if not possible(e):
        return "Links of each entity in the training data"
    if e.method == "em":
        return f"Links of each entity in the training data{own}; EM has no prior"
    return f"Links of each entity in the training data{own}, and the share of its factors that comes from data"


def data_line(e: "Explanation") -> str:
    """The training links of each entity, and what the prior contributes to its factors."""
    rows: dict[str, tuple[int, float]] = {}
    for row in e.rows:
        names = [called(e, index, name) for index, name in row.entities.items()]
        name = names[0] if len(names) == 1 else f"({', '.join(names)})"
        links, prior = rows.get(name, (0, 0.0))
        rows[name] = max(links, row.links), max(prior, row.prior)
    little = max((prior for _, prior in rows.values()), default=0.0) < 0.01
    parts = [
        f"{plural(links, 'link') if number == 0 else f'{links:,}'} of {name}"
        + (f" (prior {percent(prior)})" if has_prior(e) and not little else "")
        for number, (name, (links, prior)) in enumerate(rows.items())
    ]
    own = "; this link is included" if e.known else ""
    end = "; EM has no prior" if possible(e) and e.method == "em" else ""
    if has_prior(e) and little:
        end = "; the prior contributes less than 1 %"
    return f"{', '.join(parts)}{own}{end}." if parts else ""


def has_prior(e: "Explanation") -> bool:
    """Whether a share of data and prior is meaningful."""
    return possible(e) and e.method != "em"


def describe(e: "Explanation") -> Document:
    """The explanation as a document of about thirty lines."""
    blocks = [Note(predicted(e), quiet=False), *_components(e), *_reasons(e), *_data(e)]
    return Document(title(e), blocks, e.to_dict())


def _components(e: "Explanation") -> Iterator[Block]:
    if not possible(e):
        yield Note(RATE_0, quiet=False)
        return
    shown = shown_components(e)
    lines = [(percent(share.share), _component(e, number)) for number, share in enumerate(e.shares[:shown])]
    yield Section("Components", [_lines(lines, other_components(e))])


def _component(e: "Explanation", number: int) -> str:
    """The leading entities of a component by index; in a sum the term comes first."""
    indices = [i for i in e.cell if any(s.component == number and s.index == i for s in e.standings)]
    entities = " · ".join(names(e, number, index, WIDTH // len(indices)) for index in indices)
    return ": ".join(filter(None, (e.shares[number].name, e.shares[number].label, entities))) or "the only component"


def _reasons(e: "Explanation") -> Iterator[Block]:
    if e.reasons:
        lines = [(drop(r.loss), link_words(e, r) + _value(r)) for r in e.reasons]
        yield Section(f"Supporting links ({measure(e)})", [_lines(lines, other_links(e))])
    elif possible(e):  # else said with the components
        yield Note(no_reason(e), quiet=False)


def _value(link: "Link") -> str:
    return "" if link.value == 1 else f", value {link.value:g}"


def _lines(lines: Sequence[tuple[str, str]], last: str) -> Facts:
    """Percentages, aligned to the right, each with its words."""
    width = max(len(share) for share, _ in lines)
    return Facts([*((share.rjust(width), words) for share, words in lines), *([("", last)] if last else [])])


def _data(e: "Explanation") -> Iterator[Block]:
    if line := data_line(e):
        yield Facts([("Data:", line)])
