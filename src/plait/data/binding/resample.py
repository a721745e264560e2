"""Other data that might have been seen: links reweighed by Exp(1) draws, the Bayesian bootstrap.

Zeros keep their weight: where there are many for each link, drawing theirs too changes nothing that a fit could see.
"""

from dataclasses import replace

from plait.data.bound import BoundRelation, Data
from plait.data.cells.draws import Draws


def reweighed(data: Data, seed: int) -> Data:
    """The same data, each link's weight times a draw of mean 1; the same draws for the same seed and cells."""
    relations = {
        name: _reweighed(relation, Draws((seed, number)))
        for number, (name, relation) in enumerate(data.relations.items())
    }
    return replace(data, relations=relations)


def _reweighed(relation: BoundRelation, draws: Draws) -> BoundRelation:
    links, weights = relation.links.reweighed(draws, relation.weights, relation.groups, relation.rule)
    return replace(relation, links=links, weights=weights)
