"""Data summary: sizes, links, zeros, missing cells, values, and entities in a single relation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from warnings import WarningMessage

import numpy as np

from plait.data.bound import DIAGONAL_WORDS, BoundRelation, Data
from plait.errors import NoZerosWarning
from plait.rendering.document import Table
from plait.rendering.formatting import write_shape


def relations_table(data: "Data") -> Table:
    """One row per relation."""
    rows = [
        [
            name,
            write_shape(r.shape, "one cell"),
            str(r.likelihood),
            len(r.values),
            r.observed_zeros,
            r.missing_cells,
            r.summed,
        ]
        for name, r in data.relations.items()
    ]
    return Table(["relation", "size", "likelihood", "links", "zeros", "missing", "duplicates"], rows, left=3)


def diagonals(data: "Data") -> dict[str, str]:
    """Observation of self-links, by relation, in words."""
    return {
        name: DIAGONAL_WORDS[relation.self_links] for name, relation in data.relations.items() if relation.self_links
    }


@dataclass(frozen=True)
class ValueSummary:
    """Values of a relation's links: minimum, median, mean and maximum; and the number of ones."""

    least: float
    median: float
    mean: float
    most: float
    ones: int

    @classmethod
    def of(cls, relation: "BoundRelation") -> "ValueSummary | None":
        """None without links."""
        x = relation.values
        if len(x) == 0:
            return None
        return cls(float(x.min()), float(np.median(x)), float(x.mean()), float(x.max()), int((x == 1).sum()))


def alone(data: "Data") -> dict[str, dict[str, int]]:
    """Number of entities with links in one relation only, by axis and relation, and without any (under "")."""
    entities: dict[str, dict[str, int]] = {}
    for axis in data.model.axes:
        seen = {name: np.zeros(len(data.entities[axis]), bool) for name in data.relations}
        for name, relation in data.relations.items():
            for k, index in enumerate(relation.indices):
                if data.model.axis(index) == axis:
                    seen[name][relation.cells[:, k]] = True
        times = np.sum(list(seen.values()), axis=0)
        sharing = [n for n, r in data.relations.items() if any(data.model.axis(i) == axis for i in r.indices)]
        counts = {name: int((seen[name] & (times == 1)).sum()) for name in sharing} if len(sharing) > 1 else {}
        entities[axis] = {**counts, "": int((times == 0).sum())}
    return entities


def warnings_about(data: "Data", traps: Sequence["WarningMessage"]) -> list[str]:
    """Warnings before a fit; `traps`: those of the library."""
    warnings = [str(trap.message) for trap in traps]
    kinds = {trap.category for trap in traps}
    for name, relation in data.relations.items():
        if len(relation.values) == 0:
            continue
        if doubt := relation.likelihood.doubt(relation.values):
            warnings.append(f"{name} has {doubt}")
        if relation.observed_zeros == 0 and NoZerosWarning not in kinds:
            warnings.append(f"{name} has no observed zeros, so every link becomes probable.")
    if len(data.relations) > 1:
        warnings += [
            f"{name} shares no factor with another relation, so it is fitted separately."
            for name in _uncoupled_relations(data)
        ]
    return warnings


def _uncoupled_relations(data: "Data") -> list[str]:
    R = data.model.R
    shared = R.sum(axis=0) > 1
    return [name for name, row in zip(data.model.relations, R) if not (row.astype(bool) & shared).any()]


def as_document(data: "Data", warnings: Sequence[str]) -> dict[str, Any]:
    """The summary as data, with warnings."""
    relations: Mapping[str, BoundRelation] = data.relations
    return {
        "axes": {axis: len(data.entities[axis]) for axis in data.model.axes},
        "relations": {name: _relation(relation) for name, relation in relations.items()},
        "links_in_one_relation_only": {
            axis: {name: count for name, count in counts.items() if name} for axis, counts in alone(data).items()
        },
        "without_links": {axis: counts[""] for axis, counts in alone(data).items()},
        "warnings": list(warnings),
    }


def _relation(relation: "BoundRelation") -> dict[str, Any]:
    values = ValueSummary.of(relation)
    return {
        "indices": relation.indices,
        "shape": relation.shape,
        "likelihood": str(relation.likelihood),
        **({"likelihood_by": relation.likelihood_by} if relation.likelihood_by else {}),
        "links": len(relation.values),
        "zeros": relation.observed_zeros,
        "missing": relation.missing_cells,
        "duplicates": relation.summed,
        "unseen": dict(relation.n_unseen),
        "self_links": relation.self_links or None,
        "dropped_self_links": relation.dropped_self_links,
        "undirected": [[relation.indices[place] for place in group] for group in relation.groups],
        "values": None if values is None else vars(values),
    }
