"""Fingerprint of bound data, equal for equal data in any table."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.data.binding.given import Exposures
from plait.data.bound import Data
from plait.data.observation.links import Links
from plait.data.observation.terms import Content
from plait.data.observation.weights import Weights
from plait.data.sparse.sorting import is_uniform
from plait.machine import processors

CHUNK_BYTES = 1 << 22  # hashed at a time
CHUNK_NAMES = 1 << 16  # converted to text at a time


def fingerprint(data: Data, exposures: Exposures, given: Mapping[str, Sequence[NDArray[np.floating]]]) -> str:
    """32 hexadecimal digits over labels, cells, values, weights, exposures, and the arrays of given factors."""
    digest = hashlib.blake2b(digest_size=16)
    parts = list(_parts(data, exposures, given))
    is_small = sum(len(content) for _, content in parts) <= CHUNK_BYTES  # hashed before a thread starts
    with nullcontext() if is_small else ThreadPoolExecutor(processors()) as pool:
        marks = map(_marks_of, parts) if pool is None else pool.map(_marks_of, parts)
        for (word, _), own in zip(parts, marks):
            digest.update(word.encode())
            digest.update(own)
    return digest.hexdigest()


def _marks_of(part: tuple[str, Any]) -> bytes:
    return _marks(part[1])


def _marks(content: Any) -> bytes:
    """Bytes of the content: itself, or the digests of its chunks where it is long."""
    if len(content) <= CHUNK_BYTES:
        return bytes(content)
    starts = range(0, len(content), CHUNK_BYTES)
    return b"".join(hashlib.blake2b(content[at : at + CHUNK_BYTES], digest_size=16).digest() for at in starts)


def _parts(
    data: Data, exposures: Exposures, given: Mapping[str, Sequence[NDArray[np.floating]]]
) -> Iterator[tuple[str, Any]]:
    yield str(data.model), b""
    for axis in data.model.axes:
        names = data.entities[axis].names
        # The hash of polars depends on its version; the text of the names does not.
        yield f"labels {axis} {len(names)}", _text(names)
    for name, relation in data.relations.items():
        likelihood = f"{relation.likelihood}{relation.likelihood.settings() or ''}"
        yield f"relation {name} {likelihood} {relation.shape}", b""
        yield from map(_marked, relation.links.content())
        yield from _weights("weights", relation.weights, relation.links)
    for name, weights in exposures.terms.items():
        yield from _weights(f"exposure {name}", weights)
    for name, sparse in exposures.summed.items():
        yield f"summed {name} {sparse.matrix.shape}", b""
        yield from map(_bytes, (sparse.cells, sparse.matrix.indptr, sparse.matrix.indices, sparse.matrix.data))
    for name in data.model.factors:  # independent of the order of `fixed`
        if name in given:
            yield f"given {name}", b""
            yield from map(_bytes, given[name])


def _text(names: Any) -> bytes:
    """Text of all names, in chunks: Python strings take far more memory."""
    some = (names[at : at + CHUNK_NAMES].to_list() for at in range(0, len(names), CHUNK_NAMES))
    return b"\0".join("\0".join(map(str, part)).encode("utf-8", "surrogatepass") for part in some)


def _marked(content: Content) -> tuple[str, Any]:
    return (content, b"") if isinstance(content, str) else _bytes(*content)


def _weights(word: str, weights: Weights, links: Links | None = None) -> Iterator[tuple[str, Any]]:
    for term in weights.terms:
        yield f"{word} {term.coefficient!r}", b""
        for index, vector in sorted(term.vectors.items()):
            yield f"vector {index}", b""
            yield _bytes(vector)
        if term.table is not None:
            yield f"table {term.table.indices}", b""
            if links is None or not links.lists(term.table):  # else the links include them
                yield from map(_marked, term.table.content())
            yield _bytes(term.table.values)


def _bytes(array: Any, kind: np.dtype[Any] | None = None) -> tuple[str, Any]:
    """Bytes of an array; `kind`: dtype to hash it in."""
    kind = kind or array.dtype
    # A broadcast number equals an array that is full of it.
    shown = array[:1] if is_uniform(array) or (array.ndim == 1 and len(array) and (array == array[0]).all()) else array
    return f"{kind.str} {array.shape} {shown.shape}", _ConvertedBytes(np.ascontiguousarray(shown).reshape(-1), kind)


class _ConvertedBytes:
    """Bytes of an array that is converted to another dtype in chunks."""

    def __init__(self, array: Any, kind: np.dtype[Any]) -> None:
        self.array, self.kind = array, kind

    def __len__(self) -> int:
        return len(self.array) * self.kind.itemsize

    def __getitem__(self, part: slice) -> Any:
        begin, end, _ = part.indices(len(self))
        some = self.array[begin // self.kind.itemsize : end // self.kind.itemsize]
        return some.astype(self.kind, copy=False).view(np.uint8)

    def __bytes__(self) -> bytes:
        return bytes(self[:])
