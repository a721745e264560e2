"""Other data that might have been seen: links reweighed by Exp(1) draws, the Bayesian bootstrap.

Zeros keep their weight: where there are many for each link, drawing theirs too changes nothing that a fit could see.
"""

from dataclasses import replace

import numpy as np

from plait.data.bound import BoundRelation, Data
from plait.data.observing.undirected import in_all_ways
from plait.data.observing.weights import Weights

LEAST = 1e-3  # of a draw: lighter links are none, and would be taken away from a total digit by digit


def reweighed(data: Data, seed: int) -> Data:
    """The same data, each link's weight times a draw of mean 1; the same draws for the same seed and links."""
    relations = {
        name: _reweighed(relation, np.random.default_rng((seed, number)))
        for number, (name, relation) in enumerate(data.relations.items())
    }
    return replace(data, relations=relations)


def _reweighed(relation: BoundRelation, rng: np.random.Generator) -> BoundRelation:
    draws = np.maximum(rng.standard_exponential(len(relation.cell_weights)), LEAST)
    cells, more = in_all_ways(relation.links, (draws - 1.0) * relation.cell_weights, relation.groups)
    change = Weights.from_sorted(relation.indices, relation.shape, cells, more)
    return replace(relation, cell_weights=draws * relation.cell_weights, weights=relation.weights + change)
