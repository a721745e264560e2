"""A fingerprint of bound data: equal for equal data, whatever table they came from."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.data.bind import Data
from plait.data.exposure import Exposures
from plait.data.weights import Weights


def fingerprint(data: Data, exposures: Exposures, given: Mapping[str, NDArray[np.float64]]) -> str:
    """32 hexadecimal digits over labels, cells, values, weights, exposures, and the arrays of given factors."""
    digest = hashlib.blake2b(digest_size=16)
    for word, content in _parts(data, exposures, given):
        digest.update(word.encode())
        digest.update(content)
    return digest.hexdigest()


def _parts(data: Data, exposures: Exposures, given: Mapping[str, NDArray[np.float64]]) -> Iterator[tuple[str, Any]]:
    yield str(data.model), b""
    for axis in data.model.axes:
        names = data.labels[axis].names
        # The hash of polars depends on its version; the text of the names does not.
        yield f"labels {axis} {len(names)}", "\0".join(map(str, names.to_list())).encode("utf-8", "surrogatepass")
    for name, relation in data.relations.items():
        yield f"relation {name} {relation.likelihood} {relation.shape}", b""
        for array in (relation.cells, relation.values, relation.cell_weights):
            yield _bytes(array)
        yield from _weights("weights", relation.weights)
    for name, weights in exposures.relations.items():
        yield from _weights(f"exposure {name}", weights)
    for name, array in given.items():
        yield f"given {name}", b""
        yield _bytes(array)


def _weights(word: str, weights: Weights) -> Iterator[tuple[str, Any]]:
    for term in weights.terms:
        yield f"{word} {term.coefficient!r}", b""
        for index, vector in sorted(term.vectors.items()):
            yield f"vector {index}", b""
            yield _bytes(vector)
        if term.table is not None:
            yield f"table {term.table.indices}", b""
            yield _bytes(term.table.coords)
            yield _bytes(term.table.values)


def _bytes(array: Any) -> tuple[str, Any]:
    return f"{array.dtype.str} {array.shape}", np.ascontiguousarray(array).reshape(-1).view(np.uint8)
