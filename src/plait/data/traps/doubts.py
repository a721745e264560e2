"""What data say that was hardly meant. Each name is looked at once, links by sample: little beside reading them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plait.data.labels.names import Labels, listed
from plait.data.reading.relation import Relation, Source
from plait.data.reading.tables import TableSource
from plait.data.traps.mirror import one_factor, one_way
from plait.data.traps.spelling import alike, padded
from plait.errors import (
    EventAxisWarning,
    NoCommonNamesWarning,
    NoZerosWarning,
    OneWayWarning,
    PlaitWarning,
    SpellingWarning,
    quoted,
)
from plait.model.model import Model

if TYPE_CHECKING:
    from plait.data.bound import BoundRelation, Data

Seen = NDArray[np.bool_]

SEVERAL = 10  # links of one value, from which on nobody has looked at each of the cells
MANY_ROWS = 100  # of a table from which on an axis that is new in nearly every row is no chance
NEARLY = 0.95


def data_traps(
    data: "Data", relations: Mapping[str, Relation], sources: Mapping[str, Source]
) -> Iterator[PlaitWarning]:
    """All traps in bound data; relations and sources: what they were read from."""
    mentioned = {name: relation.seen for name, relation in data.relations.items()}
    yield from axis_traps(data.model, data.labels, mentioned)
    for name in relations:
        relation = data.relations[name]
        if relations[name].observed == "listed" and len(relation.links) >= SEVERAL:
            value = relation.links.stored[0]
            yield from no_zeros(relation, float(value) if bool((relation.links.stored == value).all()) else None)
        if isinstance(source := sources[name], TableSource):
            yield from events(relation, source.rows, data.model)
        yield from listed_one_way(relation, data.model, one_way(relation, data.model))


def axis_traps(
    model: Model, labels: Mapping[str, Labels], mentioned: Mapping[str, Mapping[str, Seen]]
) -> Iterator[PlaitWarning]:
    """What the names of all axes say; mentioned: by relation and index, which entities it has."""
    for axis in model.axes:
        yield from _spelling(labels[axis])
    yield from name_traps(model, labels, mentioned)


def _spelling(labels: Labels) -> Iterator[PlaitWarning]:
    count, example = padded(labels)
    if count:
        what = f"{count:,} of {len(labels):,} names begin or end with a blank, such as {example}."
        hint = "Give `strip=True`: ' cafe' and 'cafe' are two entities."
        yield SpellingWarning(what, location=f"axis {labels.axis}", hint=hint)
        return
    count, example = alike(labels)
    if count:
        what = f"{count:,} of {len(labels):,} names differ from another by case or blanks only, such as {example}."
        yield SpellingWarning(
            what, location=f"axis {labels.axis}", hint="Write each entity in one way: these count as two."
        )


def name_traps(
    model: Model, labels: Mapping[str, Labels], mentioned: Mapping[str, Mapping[str, Seen]]
) -> Iterator[PlaitWarning]:
    """For each axis the first relation that is coupled by it to others, and has none of their names.

    mentioned: by relation and index, which entities it has.
    """
    for axis, sharing in _coupled(model, mentioned).items():
        for name, own in sharing.items():
            others = {other: seen for other, seen in sharing.items() if other != name}
            union = np.any(list(others.values()), axis=0)
            if own.any() and union.any() and not (own & union).any():
                yield _strangers(labels[axis], name, own, others, union)
                break


def _coupled(model: Model, mentioned: Mapping[str, Mapping[str, Seen]]) -> dict[str, dict[str, Seen]]:
    """By axis: the tables that a shared factor couples over it, and the entities that each mentions."""
    found: dict[str, dict[str, Seen]] = {}
    for name in model.factors:
        uses = [(e.relation, o) for e in model.equations for o in e.occurrences if o.factor == name]
        for relation, occurrence in uses if len(uses) > 1 else ():
            for index, seen in mentioned[relation].items():
                if index in occurrence.indices:
                    found.setdefault(model.axis(index), {})[relation] = seen
    return {axis: sharing for axis, sharing in found.items() if len(sharing) > 1}


def _strangers(labels: Labels, name: str, own: Seen, others: Mapping[str, Seen], union: Seen) -> PlaitWarning:
    mine, theirs = labels.names.filter(own), labels.names.filter(union)
    return NoCommonNamesWarning(
        f"{name} has no name in common with {', '.join(others)}: {listed(mine)} here, {listed(theirs)} there, so that "
        "they are not coupled.",
        location=f"axis {labels.axis}",
        hint="Spell the names alike (case and blanks count), or give the axes names of their own.",
    )


def no_zeros(relation: "BoundRelation", value: float | None) -> Iterator[PlaitWarning]:
    """Where values differ, as ratings do, they tell something without zeros; value: what all are, None: they differ."""
    if value is not None and relation.observed_zeros == 0 and relation.missing_cells:
        yield NoZerosWarning(
            f'`observed="listed"`, but all {len(relation.links):,} listed cells are {value:g} and none is '
            "0: everything else is missing, so every link becomes probable.",
            location=relation.name,
            hint='List zeros too, or say `observed="all"` where a cell that is not listed is a zero.',
        )


def events(relation: "BoundRelation", rows: int, model: Model) -> Iterator[PlaitWarning]:
    """Entities that occur once and nowhere else tell nothing about each other; those of another relation may."""
    for index, seen in relation.seen.items() if len(relation.indices) > 1 and rows >= MANY_ROWS else ():
        uses = sum(model.axis(i) == model.axis(index) for equation in model.equations for i in equation.indices)
        count = int(np.count_nonzero(seen))
        if uses == 1 and count >= NEARLY * rows:
            yield EventAxisWarning(
                f"{count:,} entities in {rows:,} rows: hardly any occurs twice, so nothing can be learned of them.",
                location=f"{relation.name}, index {index}",
                hint=f"Make {index} coarser (hours or weekdays instead of moments), or leave it out.",
            )


def listed_one_way(
    relation: "BoundRelation", model: Model, found: tuple[str, str, int] | None
) -> Iterator[PlaitWarning]:
    """Links between entities of one axis that are all listed one way; found: what `one_way` says."""
    if found is not None:
        first, second, count = found
        once = one_factor(model.equation(relation.name), first, second)
        hint = "list each both ways" if once is None else f"write one factor twice, {once}, or list each both ways"
        yield OneWayWarning(
            f"none of {count:,} links between {quoted(first)} and {quoted(second)}, which are one axis, is there the "
            "other way round: those cells are read as zeros.",
            location=relation.name,
            hint=f"If links have no direction, {hint}. If they have one, ignore plait.OneWayWarning.",
        )
