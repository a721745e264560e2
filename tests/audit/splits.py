"""What is asked of splits and of figures of merit: nothing is lost or leaks, and the figures are the textbook's."""

from dataclasses import replace

import numpy as np
import polars as pl
from scipy import stats
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

import plait
from tests.audit.answers import predicted
from tests.audit.drawn import Audited
from tests.audit.fits import near
from tests.audit.observing import cells_of
from tests.cases import bits


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
    bound = case.model.bind(train, labels=case.labels).relations[relation]
    tested = np.zeros(X.shape, bool)
    tested[rows] = True
    links = np.zeros(X.shape, bool)
    links[tuple(bound.cells.T)] = True
    np.testing.assert_array_equal(links, (X > 0) & (M > 0) & ~tested, err_msg="links of the train")
    if by != "thin":
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
        one, two = (case.fit(data=case.relations | d, labels=case.labels, sweeps=3) for d in ({}, lied))
        assert bits(one) == bits(two), f"values of missing cells of {', '.join(lied)} reach the fit"


def _dense(bound: object) -> np.ndarray:
    return bound.weights.at(cells_of(bound.shape)).reshape(bound.shape)  # type: ignore[attr-defined]


def _deaf(case: Audited, relation: str, by: object, tested: np.ndarray) -> None:
    """The same split of data that differ in the hidden values alone gives the same fit, to the bit."""
    lied = _lied(case, relation, tested, keep_links=by in ("links", "thin"))
    if lied is None:
        return
    found = []
    for data in (case.relations, case.relations | {relation: lied}):
        try:
            train, test = _hide(case, data, relation, by)
        except plait.DataError:  # it was the last link
            return
        found.append((bits(case.fit(data=train, labels=case.labels, sweeps=3)), test))
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
    ways: list[object] = ["cells", "links", "thin", "index", "pair"]
    for relation, indices, _ in case.problem.equations:
        by: object = ways[rng.integers(len(ways))]
        if by == "index" and indices:
            by = ("index", str(rng.choice(indices)))
        elif by in ("index", "pair"):
            by = ("pair", *map(str, rng.permutation(indices)[:2])) if len(indices) > 1 else "cells"
        try:
            return relation, by, _hide(case, case.relations, relation, by)
        except (plait.SettingError, plait.DataError):
            continue  # too few cells to hide some of them
    return None


def _hide(case: Audited, data: dict, relation: str, by: object) -> object:
    rng = case.decided.stream(11)
    fraction = float(rng.choice([0.1, 0.3, 0.5, 0.7]))
    return plait.hide(
        data, relation, fraction=fraction, by=by, seed=case.decided.number, model=case.model, twins="ignore",
        labels=case.labels,
    )  # fmt: skip


# --- figures of merit


def evaluate(case: Audited) -> None:
    """Figures over the tested cells are scikit-learn's, those of ranks a plain count."""
    for relation in case.model.relations:
        try:
            train, test = _hide(case, case.relations, relation, "cells")
        except (plait.SettingError, plait.DataError):
            continue
        values = "value" if "value" in test.columns else case.decided.ways[relation].value
        x = test[values].to_numpy()
        if (x > 0).all() or (x == 0).all():
            continue
        fit = case.fit(data=train, labels=case.labels, sweeps=4)
        indices = case.model.equation(relation).indices
        rows = np.stack([test[index].to_numpy() for index in indices], axis=1)
        rank = str(case.decided.stream(12).choice(indices))
        found = plait.evaluate(fit, relation, test, rank=rank)
        table = predicted(case, fit, relation, rows)
        _figures(found, table, x, certain=fit.method != "vb", poisson=case.decided.likelihood[relation] == "poisson")
        _ranks(case, fit, relation, rows[x > 0], rank, found)
        _read_alike(case, fit, relation, test.rename({values: "value"}), found)


def _read_alike(case: Audited, fit: plait.Fit, relation: str, test: pl.DataFrame, found: plait.Metrics) -> None:
    """The column that holds the values of the relation holds those of a test, and a test may be a Relation."""
    own = case.decided.ways[relation].value
    for other in (test.rename({"value": own}), plait.Relation(test.rename({"value": "count"}), value="count")):
        again = plait.evaluate(fit, relation, other)
        for name in ("roc_auc", "rmse"):
            near(again[name], found[name], 0.0, f"{name} of the same test in another form")


def _figures(found: plait.Metrics, table: pl.DataFrame, x: np.ndarray, *, certain: bool, poisson: bool) -> None:
    mean, p = table["mean"].to_numpy(), table["probability"].to_numpy()
    near(found["roc_auc"], roc_auc_score(x > 0, mean), 1e-9, "roc_auc")
    near(found["average_precision"], average_precision_score(x > 0, mean), 1e-9, "average_precision")
    near(found["brier"], brier_score_loss(x > 0, p), 1e-9, "brier")
    scale = float(np.abs(mean - x).max())
    near(found["rmse"], float(np.sqrt(np.mean((mean - x) ** 2))), 1e-9 * scale, "rmse")
    near(found["mae"], float(np.mean(np.abs(mean - x))), 1e-9 * scale, "mae")
    if certain and "log_likelihood" in found:
        rate = mean if poisson else table["rate"].to_numpy()
        link = np.log(-np.expm1(-np.where(x > 0, rate, 1.0)))
        log = stats.poisson.logpmf(x, rate) if poisson else np.where(x > 0, link, -rate)
        near(found["log_likelihood"], float(np.mean(log)), 1e-7 * float(np.mean(np.abs(log))) + 1e-12, "log_likelihood")


def _ranks(case: Audited, fit: plait.Fit, relation: str, links: np.ndarray, rank: str, found: plait.Metrics) -> None:
    """Every link among all entities of one axis, without the other links; ties have their expected rank."""
    indices = case.model.equation(relation).indices
    place, known = indices.index(rank), case.problem.X[relation] * (case.problem.M[relation] > 0) > 0
    known = known | case.observed[relation].closed  # neither counts as a rival
    cells = cells_of(known.shape)
    score = fit.predict(relation, pl.DataFrame(dict(zip(indices, cells.T))))["mean"].to_numpy().reshape(known.shape)
    ranks = []
    for row in links:
        at = tuple(slice(None) if n == place else value for n, value in enumerate(row))
        own, others = score[tuple(row)], np.delete(score[at], row[place])
        others = others[~np.delete(known[at], row[place])]
        tied = np.isclose(others, own, rtol=1e-12, atol=0.0)
        ranks.append(1 + np.count_nonzero((others > own) & ~tied) + np.count_nonzero(tied) / 2)
    near(found["mrr"], float(np.mean(1 / np.array(ranks))), 1e-9, f"mrr on {rank}")
    near(found["mean_rank"], float(np.mean(ranks)), 1e-9, f"mean_rank on {rank}")
