"""What a method is."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse

from lab.quality.data import Seen
from lab.quality.scores import Scores

TRIES = 4  # settings that a method may try on the links to choose by
TWO = ("graph", "matrix")
THREE = ("triples", "tensor")


class Method(ABC):
    """Something that scores cells after it has seen links.

    package: as pip knows it, if there is one. says: what it does, in a few words. kinds: of data that it is for.
    settings: what it tries, at most TRIES; those of a method without any are one empty dict. lengths: of training, from
    short to full, which `python -m lab.bench answers` adds to a setting. large: whether it is for data with too many
    cells for an array.
    """

    package = ""
    says = ""
    kinds: tuple[str, ...] = (*TWO, *THREE)
    settings: tuple[dict[str, Any], ...] = ({},)
    lengths: tuple[dict[str, Any], ...] = ({},)
    large = False

    @abstractmethod
    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        """Scores after training; quick: a short training, only to see that it works."""


def matrix(seen: Seen) -> scipy.sparse.csr_matrix:
    """The links of a relation of two indices as 0/1."""
    ones = np.ones(len(seen.links), np.float32)
    return scipy.sparse.csr_matrix((ones, tuple(seen.links.T)), shape=seen.shape)
