"""Observation weights in a run: M and the rule for cells of new entities, as JSON and arrays."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.data.binding.known import Known
from plait.data.binding.sparse_factors import SparseFactor
from plait.data.observation.observed import Box, Rule
from plait.data.observation.terms import Term, WeightTable
from plait.data.observation.weights import Weights
from plait.data.sparse.sorting import is_uniform
from plait.storage.array_checks import check_flags, check_indices, check_numbers, check_rows

Arrays = Mapping[str, NDArray[Any]]
NUMBERS = ("unlisted", "zero", "weight", "unseen", "self_links", "apart")


def outline(weights: Weights) -> list[dict[str, Any]]:
    """Terms of weights without their arrays."""
    return [
        {"coefficient": term.coefficient, "vectors": list(term.vectors), "table": list(term.table_indices)}
        for term in weights.terms
    ]


def weight_arrays(name: str, weights: Weights, known: Known | None = None) -> dict[str, NDArray[Any]]:
    """Arrays of weights; `known`: links whose cells are not stored again."""
    arrays: dict[str, NDArray[Any]] = {}
    for t, term in enumerate(weights.terms):
        arrays |= {f"{name}/{t}/vector/{index}": vector for index, vector in term.vectors.items()}
        if term.table is not None:
            values = term.table.values
            arrays[f"{name}/{t}/values"] = values[:1].copy() if known is not None and is_uniform(values) else values
            if known is None or not known.links.lists(term.table):
                arrays[f"{name}/{t}/coords"] = term.table.coords
    return arrays


def weight_terms(
    name: str,
    said: list[dict[str, Any]],
    arrays: Arrays,
    indices: tuple[str, ...],
    shape: tuple[int, ...],
    known: Known | None = None,
    rule: Rule | None = None,
) -> tuple[Term, ...]:
    """Terms of weights over these indices; `known`, `rule`: of M."""
    terms, sizes = [], dict(zip(indices, shape))
    for t, entry in enumerate(said):
        vectors = {index: arrays[f"{name}/{t}/vector/{index}"] for index in entry["vectors"]}
        for index, vector in vectors.items():
            check_numbers(f"{name}/{t}/vector/{index}", vector, (sizes[index],))
        check_indices(f"{name}/{t}", entry["table"], indices)
        table = None
        if f"{name}/{t}/values" in arrays:
            over, values = tuple(entry["table"]), arrays[f"{name}/{t}/values"]
            if (coords := arrays.get(f"{name}/{t}/coords")) is not None:
                check_rows(f"{name}/{t}/coords", coords, [sizes[index] for index in over])
                table = WeightTable(over, coords, np.broadcast_to(1.0, len(coords)))
            elif known is None or over != indices:
                raise ValueError(f"{name}/{t} has values without coordinates")
            else:
                table = known.links.table(entry["coefficient"], rule)
            check_numbers(f"{name}/{t}/values", values, (1 if len(values) == 1 else len(table),))
            table = replace(table, values=np.broadcast_to(values, len(table)) if len(values) == 1 else values)
        elif entry["table"]:
            raise ValueError(f"{name}/{t} has no values")
        terms.append(Term(float(entry["coefficient"]), vectors, table))
    return tuple(terms)


def words(known: Known) -> dict[str, Any] | None:
    """Rule and terms of M without arrays; None if unknown."""
    rule = known.rule
    if rule is None:
        return None
    said = {word: getattr(rule, word) for word in NUMBERS}
    overs = [list(over) for over in rule.hidden]
    return said | {"seen": list(rule.seen), "hidden": overs, "weights": outline(known.observed)}


def rule_arrays(known: Mapping[str, Known]) -> dict[str, NDArray[Any]]:
    """Arrays of all rules."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, rule in ((name, one.rule) for name, one in known.items() if one.rule is not None):
        arrays |= {f"{name}/seen/{index}": vector for index, vector in rule.seen.items()}
        arrays |= {f"{name}/hidden/{n}": coords for n, coords in enumerate(rule.hidden.values())}
    return arrays


def observed_arrays(known: Mapping[str, Known]) -> dict[str, NDArray[Any]]:
    """Arrays of M of all relations."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, one in known.items():
        arrays |= weight_arrays(name, one.observed, one) if one.rule is not None else {}
    return arrays


def rule_of(name: str, sizes: Mapping[str, int], said: Mapping[str, Any], arrays: Arrays) -> Rule:
    """Rule of a relation over indices of these sizes, from a run."""
    seen = {index: arrays[f"{name}/seen/{index}"] for index in said["seen"]}
    hidden = {tuple(over): arrays[f"{name}/hidden/{n}"] for n, over in enumerate(said["hidden"])}
    for index, flags in seen.items():
        check_flags(f"{name}/seen/{index}", flags, (sizes[index],))
    for over, coords in hidden.items():
        check_rows(f"{name}/hidden", coords, [sizes[index] for index in over], ordered=False)
    numbers: dict[str, Any] = {word: float(said[word]) if type(said[word]) is int else said[word] for word in NUMBERS}
    return Rule(**numbers, seen=seen, hidden=hidden)


def restored(
    known: Known, name: str, indices: tuple[str, ...], rule: Rule, said: Mapping[str, Any], arrays: Arrays
) -> Known:
    """Known links with the rule and M of a run."""
    terms = weight_terms(name, said["weights"], arrays, indices, known.shape, known, rule)
    weights = Weights(indices, known.shape, terms)
    return replace(known, rule=rule, boxes=(Box((0,) * len(known.shape), weights),))


def sparse_outline(sparse: SparseFactor) -> dict[str, Any]:
    """A sparse given factor without its arrays."""
    names = {"factor": sparse.factor, "weights": sparse.weights, "index": sparse.index, "size": sparse.size}
    return names | {"labels": [label if isinstance(label, (str, int)) else str(label) for label in sparse.labels]}


def sparse_arrays(name: str, sparse: SparseFactor) -> dict[str, NDArray[Any]]:
    """Arrays of a sparse given factor."""
    matrix = sparse.matrix
    arrays = {"cells": sparse.cells, "starts": matrix.indptr, "at": matrix.indices, "values": matrix.data}
    return {f"{name}/summed/{word}": array for word, array in arrays.items()}


def sparse_factor(
    name: str, said: Mapping[str, Any], arrays: Arrays, indices: tuple[str, ...], shape: tuple[int, ...]
) -> SparseFactor:
    """A sparse given factor of a run, checked."""
    from scipy.sparse import csr_array

    cells, starts, at, values = (arrays[f"{name}/summed/{word}"] for word in ("cells", "starts", "at", "values"))
    check_rows(f"{name}/summed/cells", cells, list(shape))
    check_numbers(f"{name}/summed/values", values.astype(np.float64), (len(at),))
    steps = np.diff(starts.astype(np.int64))
    if len(starts) != len(cells) + 1 or starts[0] != 0 or starts[-1] != len(at) or (steps < 0).any():
        raise ValueError(f"{name}/summed has unexpected starts")
    if len(at) and not 0 <= int(at.min()) <= int(at.max()) < said["size"]:
        raise ValueError(f"{name}/summed has values of {said['index']} beyond its size")
    if said["labels"] and len(said["labels"]) != said["size"]:
        raise ValueError(f"{name}/summed has {len(said['labels'])} labels for {said['size']} values")
    matrix = csr_array((values, at, starts), shape=(len(cells), said["size"]))
    return SparseFactor(
        said["factor"], said["weights"], said["index"], indices, shape, cells, matrix, tuple(said["labels"])
    )
