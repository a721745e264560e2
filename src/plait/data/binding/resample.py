"""Other data that might have been seen: links reweighed by Exp(1) draws, the Bayesian bootstrap.

Zeros keep their weight: where there are many for each link, drawing theirs too changes nothing that a fit could see.
"""

from dataclasses import replace

import numpy as np

from plait.data.bound import BoundRelation, Data
from plait.data.cells.draws import Draws, Weighing
from plait.data.cells.fibres import FoundElsewhere
from plait.data.cells.keys import columns_of
from plait.data.observing.terms import Table, Term
from plait.data.observing.undirected import in_all_ways
from plait.data.observing.weights import Weights


def reweighed(data: Data, seed: int) -> Data:
    """The same data, each link's weight times a draw of mean 1; the same draws for the same seed and cells."""
    relations = {
        name: _reweighed(relation, Draws((seed, number)))
        for number, (name, relation) in enumerate(data.relations.items())
    }
    return replace(data, relations=relations)


def _reweighed(relation: BoundRelation, draws: Draws) -> BoundRelation:
    if isinstance(relation.links, FoundElsewhere):
        return _on_disk(relation, relation.links, draws)
    drawn = draws(columns_of(relation.cells))
    cells, more = in_all_ways(relation.links, (drawn - 1.0) * relation.cell_weights, relation.groups)
    change = Weights.from_sorted(relation.indices, relation.shape, cells, more)
    return replace(relation, cell_weights=drawn * relation.cell_weights, weights=relation.weights + change)


def _on_disk(relation: BoundRelation, links: FoundElsewhere, draws: Draws) -> BoundRelation:
    """The same where links are not in memory: what each weighs is drawn when it is read."""
    assert relation.rule is not None
    rule = relation.rule
    terms = [term for term in relation.weights.terms if term.table is None or not term.table.elsewhere]
    for sign in (-1.0, 1.0) if rule.unlisted > 0 else (1.0,):
        cells = links.weighing(Weighing(rule.unlisted, rule.zero, sign, draws))
        terms.append(Term(sign * rule.weight, {}, Table(relation.indices, cells, np.broadcast_to(1.0, len(cells)))))
    return replace(relation, links=links.drawn(draws), weights=replace(relation.weights, terms=tuple(terms)))
