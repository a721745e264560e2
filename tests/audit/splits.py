"""What is asked of splits: nothing is lost or leaks."""

from dataclasses import replace

import numpy as np
import polars as pl

import plait
from tests.audit.drawn import Audited
from tests.audit.observing import cells_of
from tests.support.problems import bits


def hidden(case: Audited) -> None:
    """A split keeps every link once, hides what it tests, and no fit knows what hidden values are."""
    _deaf_to_missing(case)
    found = _split(case)
    if found is None:
        return
    relation, by, (train, test) = found
    indices = case.model.equation(relation).indices
    X, M = case.problem.X[relation], case.problem.M[relation]
    rows = tuple(test[index].to_numpy() for index in indices)
    assert (M[rows] > 0).all(), "a missing cell is tested"
    np.testing.assert_array_equal(test["value"].to_numpy(), X[rows])
    bound = case.model.bind(train, entities=case.entities).relations[relation]
    tested = np.zeros(X.shape, bool)
    tested[rows] = True
    links = np.zeros(X.shape, bool)
    links[tuple(bound.cells.T)] = True
    np.testing.assert_array_equal(links, (X > 0) & (M > 0) & ~tested, err_msg="links of the train")
    if by != "thinned_links":
        left = np.where(tested, 0.0, M)
        np.testing.assert_allclose(
            _dense(bound), left, rtol=1e-12, atol=1e-12 * M.max(), err_msg="weights of the train"
        )
    _deaf(case, relation, by, tested)


def _deaf_to_missing(case: Audited) -> None:
    """Other values in the rows of a table that `missing` hides give the same fit, to the bit."""
    lied = {}
    for relation, seen in case.observed.items():
        if case.decided.ways[relation].table and seen.hidden.any():
            lied[relation] = _lied(case, relation, seen.hidden, keep_links=False)
    if lied:
        one, two = (case.fit(data=case.relations | d, entities=case.entities, max_iter=3) for d in ({}, lied))
        assert bits(one) == bits(two), f"values of missing cells of {', '.join(lied)} reach the fit"


def _dense(bound: object) -> np.ndarray:
    return bound.weights.at(cells_of(bound.shape)).reshape(bound.shape)  # type: ignore[attr-defined]


def _deaf(case: Audited, relation: str, by: object, tested: np.ndarray) -> None:
    """The same split of data that differ in the hidden values alone gives the same fit, to the bit."""
    lied = _lied(case, relation, tested, keep_links=by in ("links", "thinned_links"))
    if lied is None:
        return
    found = []
    for data in (case.relations, case.relations | {relation: lied}):
        try:
            train, test = _train_test_split(case, data, relation, by)
        except plait.errors.DataError:  # it was the last link
            return
        found.append((bits(case.fit(data=train, entities=case.entities, max_iter=3)), test))
    if found[0][1].drop("value").equals(found[1][1].drop("value")):
        assert found[0][0] == found[1][0], f"hidden values of {relation} reach the fit, by={by!r}"


def _lied(case: Audited, relation: str, tested: np.ndarray, *, keep_links: bool) -> plait.Relation | None:
    """The relation with other values in the tested cells that it lists."""
    given, binary = case.relations[relation], case.decided.likelihood[relation] == "bernoulli"
    if binary and keep_links:
        return None
    if not case.decided.ways[relation].table:
        X = given.data
        other = 1.0 - X if binary else np.where(X > 0, X + 3.0, 0.0 if keep_links else 2.0)
        return replace(given, data=np.where(tested & ~np.isnan(X), other, X))
    rows = tuple(given.data[index].to_numpy() for index in case.model.equation(relation).indices)
    x = given.data["value"].to_numpy()
    other = 1.0 - x if binary else np.where(x > 0, x + 3.0, 0.0 if keep_links else 2.0)
    return replace(given, data=given.data.with_columns(value=pl.Series(np.where(tested[rows], other, x))))


def _split(case: Audited) -> tuple[str, object, object] | None:
    """A random split of a relation that has something to hide; None where none has."""
    rng = case.decided.stream(10)
    ways: list[object] = ["cells", "links", "thinned_links", "index", "pair"]
    for relation, indices, _ in case.problem.equations:
        by: object = ways[rng.integers(len(ways))]
        if by == "index" and indices:
            by = ("index", str(rng.choice(indices)))
        elif by in ("index", "pair"):
            by = ("pair", *map(str, rng.permutation(indices)[:2])) if len(indices) > 1 else "cells"
        try:
            return relation, by, _train_test_split(case, case.relations, relation, by)
        except (plait.errors.ParameterError, plait.errors.DataError):
            continue  # too few cells to hide some of them
    return None


def _train_test_split(case: Audited, data: dict, relation: str, by: object) -> object:
    rng = case.decided.stream(11)
    fraction = float(rng.choice([0.1, 0.3, 0.5, 0.7]))
    return plait.train_test_split(
        data, relation, fraction=fraction, by=by, seed=case.decided.number, model=case.model, leakage="ignore",
        entities=case.entities,
    )  # fmt: skip
