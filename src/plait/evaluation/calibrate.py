"""Recalibration of a fit on held-out cells: complementary log-log regression.

With Λ = −log P(x = 0) of the fit, −log P'(x = 0) = Λ' = exp(b + β log Λ + Σ γ_j z_j), where z_j are standardised
logarithms of features. The parameters maximise

    Σ w ( [x > 0] log(1 − e^−Λ') − [x = 0] Λ' ) + k (log β − β + 1) − k/2 Σ γ_j²,

which is concave, by Newton's method. The last terms, a Gamma prior with mode 1 and a normal one, shrink β to 1 and γ to
0 as k links would. Weights w say how many cells a zero stands for. Cross-validation chooses among the identity, the
regression on Λ alone and that with features (docs/math.md, section 12; decision 40).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from plait._typing import Array, Flags, Rows
from plait.analysis.predict.lookup import as_frame
from plait.analysis.predict.prediction import raw_neg_log_p_zero
from plait.data.encoding.columns import number_array
from plait.data.observation.symmetry import orders
from plait.data.sparse.keys import columns_of, pack
from plait.errors import DataError, ParameterError, TableLocation, one_of, quoted, suggestion
from plait.evaluation.negative_sampling import KnownLinks, count_non_links, uniform
from plait.evaluation.test_set import read_test
from plait.storage.calibration import NO_CALIBRATION, Calibration, CalibrationFeature
from plait.storage.fitted import structural_zeros_of

if TYPE_CHECKING:
    from plait.result import Fit

F = TypeVar("F", bound="Fit")

HELD_OUT = TableLocation("held_out")
ZEROS = ("all", "sample")
ZEROS_PER_LINK, MIN_ZEROS, MAX_ZEROS = 10, 10_000, 100_000  # that are drawn; more listed ones are sampled
MAX_MISSING_ZEROS = 3.0  # factor by which the zeros of a random sample of cells may be fewer than expected
FOLDS = 5
SHRINKAGE = 10.0  # links that the priors of β and γ count as
COUNTS, COUNT_OFFSET = "counts", 0.5  # of links, where 0 must have a logarithm
OFFSET_QUANTILE = 0.05  # quantile of a table's positive values, half of which is the offset of a zero
TOLERANCE, MAX_STEPS = 1e-10, 100  # of Newton's method: gain of log-likelihood that a step promises
MIN_STEP = 1e-14  # largest change of a parameter, below which a step is rounding


def calibrate(
    fit: F, relation: str, held_out: Any, *, features: Any = None, zeros: str | None = None, seed: int = 0
) -> F:
    """The fit with calibrated probabilities of a relation; see `Fit.calibrate`."""
    if zeros is not None:
        one_of("zeros", zeros, ZEROS)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ParameterError.must_be("seed", "an integer of at least 0", seed)
    layer = _features(fit, relation, features)
    cells, values = read_test(fit, relation, held_out)
    rng = np.random.default_rng(seed)
    rows, link, weights = _weighted(fit, relation, cells, values > 0, zeros, rng)
    logs = [own.log_values(fit.known[relation], fit.known[relation].canonical(rows)) for own in layer]
    calibration = regress(raw_neg_log_p_zero(fit, relation, rows), link, weights, rng, layer, logs)
    return replace(fit, calibration=fit.calibration | {relation: calibration})


# --- features


def _features(fit: "Fit", relation: str, features: Any) -> list[CalibrationFeature]:
    """Numbers of known links that agree on subsets of the indices, then tables; coefficients are 0."""
    if features is None:
        return []
    if features != COUNTS and not isinstance(features, Mapping):
        hint = suggestion(features, [COUNTS]).strip() or 'Give `features={"name": table}`.'
        raise ParameterError.must_be("features", f"{COUNTS!r}, or a dict of tables", features, hint=hint)
    tables = [] if features == COUNTS else [_table(fit, relation, name, own) for name, own in features.items()]
    return [*_counts(fit, relation), *tables]


def _counts(fit: "Fit", relation: str) -> list[CalibrationFeature]:
    """One feature per proper subset of the indices, or per orbit of subsets in symmetric relations."""
    indices, groups = fit.model.equation(relation).indices, fit.known[relation].groups
    order, features = len(indices), list[CalibrationFeature]()
    for size in range(1, order):
        for places in combinations(range(order), size):
            images = [tuple(sorted(way[place] for place in places)) for way in orders(groups, order)]
            if places == min(images):
                name = f"links of {' and '.join(indices[place] for place in places)}"
                features.append(CalibrationFeature(name, places, 0.0, COUNT_OFFSET))
    return features


def _table(fit: "Fit", relation: str, name: Any, table: Any) -> CalibrationFeature:
    """A table over some of the indices with one column of values; names that the fit does not know are left out."""
    if not isinstance(name, str) or not name:
        raise ParameterError.must_be("features", "a dict with names as keys", name, hint="Name each table.")
    where, indices, known = (
        TableLocation(f"features[{name!r}]"),
        fit.model.equation(relation).indices,
        fit.known[relation],
    )
    frame = as_frame(table, where)
    own = {index: c for index in indices for c in (known.columns.get(index, index), index) if c in frame.columns}
    others = [column for column in frame.columns if column not in own.values()]
    if not own or len(others) != 1:
        have = ", ".join(map(quoted, frame.columns)) or "none"
        raise DataError(
            f"expected a column for one or more of {', '.join(indices)}, and one of values; got {have}.",
            location=where,
            hint="Remove or rename columns.",
        )
    column = where.at(others[0])
    values = np.asarray(number_array(frame.get_column(others[0]), column), np.float64)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        row = int(np.argmin(np.isfinite(values) & (values >= 0)))
        raise DataError(
            f"values must be finite and at least 0, got {values[row]}.", location=column.at(row=row),
            hint="Shift or transform the values.",
        )  # fmt: skip
    cells = np.stack(
        [fit.entities[i].encode(frame.get_column(c), where=where.at(c), unknown="mark") for i, c in own.items()], 1
    )
    kept = (cells >= 0).all(axis=1) & (values > 0)
    cells, values, places = cells[kept], values[kept], tuple(indices.index(index) for index in own)
    if not len(values):
        raise DataError("no row has a value above 0 and entities of the fit.", location=where, hint="Check the names.")
    if known.groups:  # an undirected pair counts in both directions
        images = [(cells, values)]
        for way in orders(known.groups, len(indices)):
            image = [way[place] for place in places]
            if sorted(image) == sorted(places):
                images.append((cells[:, [image.index(place) for place in places]], values))
        cells, values = (np.concatenate(parts) for parts in zip(*images))
    _, first, which = np.unique(
        pack(columns_of(cells), [known.shape[place] for place in places], len(cells)),
        return_index=True, return_inverse=True,
    )  # fmt: skip
    if (values != values[first][which]).any():
        raise DataError("a cell has two values.", location=where, hint="Aggregate the rows of a cell.")
    offset = float(np.quantile(values[first], OFFSET_QUANTILE)) / 2
    return CalibrationFeature(name, places, 0.0, offset, cells[first], values[first])


# --- which cells


def _weighted(
    fit: "Fit", relation: str, cells: Rows, link: Flags, zeros: str | None, rng: np.random.Generator
) -> tuple[Rows, Flags, Array]:
    """Cells (n, order), which of them are links, and how many cells each stands for, (n,)."""
    links, others = cells[link], cells[~link]
    if not len(links):
        what = f"there are {len(others):,} zeros, but no links." if len(others) else "the table is empty."
        raise DataError(what, location=HELD_OUT, hint="Hold out more cells.")
    seen = int(np.count_nonzero(fit.known[relation].contain(links)))
    if seen:
        raise DataError(
            f"{seen:,} of {len(links):,} links are in the training data.",
            location=HELD_OUT,
            hint="Use links that the fit has not seen, such as those of plait.train_test_split.",
        )
    if len(others) and _is_listed(fit, relation):
        total = float(len(others))
    else:
        total = _expected_zeros(fit, relation, links)
        if not len(others):
            others = _draw_zeros(fit, relation, links, rng)
        elif zeros != "sample":
            if zeros is None and total > MAX_MISSING_ZEROS * len(others):
                raise DataError(
                    f"there are {len(others):,} zeros, but about {total:,.0f} are expected for {len(links):,} "
                    "held-out links.",
                    location=HELD_OUT,
                    hint=(
                        'Set `zeros="sample"` if the zeros are a random sample of the cells without a link, '
                        '`zeros="all"` if no zeros are left out.'
                    ),
                )
            total = float(len(others))
    if len(others) > MAX_ZEROS:
        others = others[rng.permutation(len(others))[:MAX_ZEROS]]
    weights = np.repeat([1.0, total / max(len(others), 1)], [len(links), len(others)])
    return np.concatenate([links, others]), np.arange(len(weights)) < len(links), weights


def has_sampled_zeros(fit: "Fit", relation: str, cells: Rows, link: Flags) -> bool:
    """Whether links and zeros are no random sample of cells, as zeros are too few."""
    if _is_listed(fit, relation):
        return False
    return bool(_expected_zeros(fit, relation, cells[link]) > MAX_MISSING_ZEROS * np.count_nonzero(~link))


def _is_listed(fit: "Fit", relation: str) -> bool:
    """Whether cells that the data do not list are missing."""
    rule = fit.known[relation].rule
    return rule is not None and rule.unlisted == 0


def _known(fit: "Fit", relation: str, links: Rows) -> KnownLinks:
    axes = [fit.model.axis(index) for index in fit.model.equation(relation).indices]
    return KnownLinks(fit.known[relation], structural_zeros_of(fit, relation), links, axes)


def _expected_zeros(fit: "Fit", relation: str, links: Rows) -> float:
    """Number of zeros among the cells that these links are the held-out links of.

    Missing or thinned links are a share of all links, and stand for this share of all cells. Links that the fit saw as
    zeros are all that is hidden among its zeros.
    """
    known = fit.known[relation]
    count = count_non_links(_known(fit, relation, links))
    as_zeros = known.rule is not None and known.rule.unlisted == 1 and np.mean(known.observed.at(links) > 0) > 0.5
    return count if as_zeros else count * len(links) / (len(links) + len(known))


def _draw_zeros(fit: "Fit", relation: str, links: Rows, rng: np.random.Generator) -> Rows:
    """Random cells without a link."""
    if _is_listed(fit, relation):
        raise DataError(
            "there are no zeros, and cells that the data do not list are missing.",
            location=HELD_OUT,
            hint='Hold out zeros too: `plait.train_test_split(…, by="cells")`.',
        )
    count = min(max(ZEROS_PER_LINK * len(links), MIN_ZEROS), MAX_ZEROS)
    zeros = uniform(_known(fit, relation, links), count, rng)
    if not len(zeros):
        raise DataError("all cells are links.", location=HELD_OUT, hint="Hold out zeros too.")
    return zeros


# --- regression


def regress(
    miss: Array,
    link: Flags,
    weights: Array,
    rng: np.random.Generator,
    features: Sequence[CalibrationFeature] = (),
    logs: Sequence[Array] = (),
) -> Calibration:
    """Calibration from Λ = −log P(x = 0) of held-out cells; all (n,). `logs`: log(f + ε) of the features."""
    some = miss > 0  # a cell of probability 0 keeps it
    log, link, weights, logs = np.log(miss[some]), link[some], weights[some], [own[some] for own in logs]
    n_links, n_zeros = int(np.count_nonzero(link)), int(np.count_nonzero(~link))
    folds = min(FOLDS, n_links, n_zeros)
    best = replace(NO_CALIBRATION, links=n_links, zeros=n_zeros)
    if folds < 2:
        return best
    varied = [n for n, own in enumerate(logs) if np.ptp(own) > 0]
    features, logs = [features[n] for n in varied], [logs[n] for n in varied]
    fold = np.empty(len(link), np.int64)
    for kind, count in ((link, n_links), (~link, n_zeros)):
        fold[kind] = rng.permutation(count) % folds
    alone, before = log_likelihood(log, link), np.zeros(len(link))
    for used in (0, len(features)) if features else (0,):
        x = np.array([log, *logs[:used]])
        gains = np.empty(len(link))
        for n in range(folds):
            out = fold == n
            theta = newton(x[:, ~out], link[~out], weights[~out])
            gains[out] = weights[out] * (log_likelihood(theta[0] + theta[1:] @ x[:, out], link[out]) - alone[out])
        if used == 0:
            best = replace(best, gain=float(gains.sum()) / n_links, gain_error=_error(gains) / n_links)
        if (gains - before).sum() > _error(gains - before):
            theta, before = newton(x, link, weights), gains
            best = replace(
                best, intercept=float(theta[0]), slope=float(theta[1]), gain=float(gains.sum()) / n_links,
                gain_error=_error(gains) / n_links,
                features=tuple(replace(own, coefficient=float(g)) for own, g in zip(features, theta[2:])),
            )  # fmt: skip
    return best


def _error(gains: Array) -> float:
    """Standard error of a sum."""
    return float(np.sqrt(np.sum((gains - gains.mean()) ** 2)))


def log_likelihood(log: Array, link: Flags) -> Array:
    """log(1 − e^−Λ) of links and −Λ of zeros, (n,), from log Λ."""
    with np.errstate(divide="ignore", over="ignore"):
        rate = np.exp(log)
        return np.where(link, np.log(-np.expm1(-rate)), -rate)


def newton(log: Array, link: Flags, weights: Array) -> Array:
    """b, β > 0 and γ that maximise the penalised likelihood; `log`: log Λ and logarithms of features, (m, n)."""
    log = np.atleast_2d(log)
    centre = np.average(log, axis=1, weights=weights)
    size = np.sqrt(np.average((log - centre[:, None]) ** 2, axis=1, weights=weights))
    size = np.where(size > 0, size, 1.0)
    size[0] = 1.0  # β is shrunk to 1 on the scale of log Λ
    x = np.vstack([np.ones(log.shape[1]), (log - centre[:, None]) / size[:, None]])
    ridge = np.array([0.0, 0.0, *np.full(len(log) - 1, SHRINKAGE)])

    def objective(theta: Array) -> float:
        if theta[1] <= 0:
            return -math.inf
        shrunk = SHRINKAGE * float(np.log(theta[1]) - theta[1] + 1) - float(ridge @ theta**2) / 2
        return float(weights @ log_likelihood(theta @ x, link)) + shrunk

    theta = np.array([centre[0], 1.0, *np.zeros(len(log) - 1)])
    value = objective(theta)
    for _ in range(MAX_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            rate = np.exp(theta @ x)
            share = np.where(rate < 700, rate / np.expm1(np.minimum(rate, 700.0)), 0.0)
        first = weights * np.where(link, share, -rate)
        second = weights * np.where(link, share * (rate + share - 1), rate)  # minus the second derivative
        gradient = x @ first - ridge * theta
        gradient[1] += SHRINKAGE * (1 / theta[1] - 1)
        curvature = ridge + np.array([1e-12, SHRINKAGE / theta[1] ** 2, *np.zeros(len(log) - 1)])
        step = np.linalg.solve((x * second) @ x.T + np.diag(curvature), gradient)
        if gradient @ step < TOLERANCE:
            break
        while not (new := objective(theta + step)) > value and np.abs(step).max() >= MIN_STEP:
            step = step / 2
        if not new > value:
            break
        theta, value = theta + step, new
    theta[1:] /= size
    theta[0] -= theta[1:] @ centre
    return theta
