"""NetworkX: scores of pairs by the neighbours that they share."""

from typing import Any

import numpy as np

from lab.quality.data import Seen
from lab.quality.methods.method import Method
from lab.quality.scores import Dense, Scores


class ResourceAllocation(Method):
    """Σ 1 ÷ degree over shared neighbours."""

    package = "networkx"
    says = "NetworkX: Σ 1 ÷ degree over the neighbours that two nodes share"
    kinds = ("graph",)
    index = "resource_allocation_index"

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        import networkx

        graph = networkx.Graph()
        graph.add_nodes_from(range(seen.shape[0]))
        graph.add_edges_from(seen.links.tolist())
        pairs = np.stack(np.triu_indices(seen.shape[0], 1), axis=1)
        scores = np.zeros(seen.shape)
        for one, other, score in getattr(networkx, self.index)(graph, pairs.tolist()):
            scores[one, other] = scores[other, one] = score
        return Dense(scores)


class AdamicAdar(ResourceAllocation):
    """Σ 1 ÷ log degree over shared neighbours."""

    says = "NetworkX: Σ 1 ÷ log degree over the neighbours that two nodes share"
    index = "adamic_adar_index"
