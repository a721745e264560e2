"""Ridge self-regression (EASE; Steck 2019) with the own link left out.

Rows of a binary matrix X (n_rows, n_facts) are entities, columns are facts about them. Each column is regressed on all
others with ridge λ. The prediction of a cell is that of a regression in which its own target were 0, so that linked and
unlinked cells can be compared (docs/math.md, section 15). `SelfRegression` is exact and inverts a matrix of the smaller
side; `restricted_entries` regresses a column on its nearest columns only, for sides that are too large to invert.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array, Rows
from plait.data.sparse.parallel import on_threads, shares
from plait.jit import exact_kernel, kernel
from plait.tuning import TUNING

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # tried; the best one was inside this range on every data set looked at
SAMPLE_LINKS = 1000  # by whose rank a ridge is chosen
MIN_SHARE = (
    0.05  # of the mean prediction of a link: smaller ones are left out, for they are noise and most cells have one
)
MIN_RELATIVE_RANK = 0.99  # of the best mean reciprocal rank: the largest ridge that reaches it is taken
FLOAT_ROWS = 4096  # sides from which on the inverse is kept in floats: their error is far below that of the truncation
CANDIDATE_COLUMNS = 100  # columns that a restricted regression uses, as measured on Gowalla (docs/quality.md)
RESTRICTED_RIDGES = (5.0, 20.0, 50.0, 200.0)  # tried
SAMPLE_COLUMNS = 300  # by whose links a ridge of restricted regressions is chosen
DIAGONAL_SHARE = 0.3  # of the diagonal that a restricted regression adds to it


class MatrixEntries(NamedTuple):
    """MatrixEntries of a sparse matrix: rows (n,), columns (n,) and values (n,)."""

    rows: Rows
    columns: Rows
    values: Array

    def take(self, which: Any) -> "MatrixEntries":
        """Some of them, by mask or position."""
        return MatrixEntries(self.rows[which], self.columns[which], self.values[which])

    @classmethod
    def join(cls, parts: "list[MatrixEntries]") -> "MatrixEntries":
        """All entries of some parts."""
        if not parts:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts)))


@dataclass(frozen=True, eq=False)
class SelfRegression:
    """The regression of every column of X on the others, solved.

    inverse: (XXᵀ + λI)⁻¹ if `is_dual`, else (XᵀX + λI)⁻¹. leverage (n_rows,): of each row in the regression of all
    columns.
    """

    X: Any
    ridge: float
    is_dual: bool
    inverse: AnyArray
    leverage: Array

    @classmethod
    def solve(cls, X: Any, ridge: float) -> "SelfRegression":
        """Invert the smaller side of X, a SciPy csr array of ones."""
        from scipy.linalg import cho_factor, cho_solve

        is_dual = X.shape[0] <= X.shape[1]
        side = min(X.shape)
        gram = (X @ X.T if is_dual else X.T @ X).toarray().astype(np.float32 if side > FLOAT_ROWS else np.float64)
        gram[np.diag_indices(side)] += ridge
        factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        inverse = cho_solve(factor, np.eye(side, dtype=gram.dtype), overwrite_b=True, check_finite=False)
        if is_dual:
            leverage = 1.0 - ridge * np.diag(inverse).astype(np.float64)
        else:
            leverage = _quadratic_forms(X, inverse)
        return cls(X, ridge, is_dual, inverse, leverage)

    def predictions(self, columns: AnyArray) -> tuple[Array, NDArray[np.bool_]]:
        """Predictions (n_rows, n) of some columns, own links left out, and where these have links."""
        own = self.X[:, columns]
        linked = own.toarray() > 0
        if self.is_dual:
            solved = (own.T @ self.inverse).T.astype(np.float64)  # XP; the inverse is symmetric
            diagonal = (1.0 - np.where(linked, solved, 0.0).sum(axis=0)) / self.ridge
        else:
            solved = (self.X @ np.ascontiguousarray(self.inverse[:, columns])).astype(np.float64)
            diagonal = np.diag(self.inverse)[columns].astype(np.float64)
        diagonal = np.maximum(diagonal, np.finfo(np.float32).tiny)
        predicted = -solved / diagonal
        own_leverage = self.leverage[:, None] - solved**2 / diagonal
        return np.where(linked, 1.0 + predicted - own_leverage, predicted), linked


def _quadratic_forms(X: Any, inverse: AnyArray) -> Array:
    """xᵀ inverse x (n_rows,) of every row x of X."""
    forms = np.zeros(X.shape[0])
    for start, stop in _chunks(X.shape[0], X.shape[1]):
        rows = X[start:stop]
        forms[start:stop] = rows.multiply(rows @ inverse).sum(axis=1)
    return forms


def _chunks(count: int, width: int) -> Iterator[tuple[int, int]]:
    """Ranges of `count` rows whose dense arrays of this width stay small."""
    step = max(1, TUNING.ranking_scores // max(width, 1))
    return ((start, min(start + step, count)) for start in range(0, count, step))


def choose_ridge(X: Any, seed: int) -> float:
    """The ridge under which sampled links rank best among the cells of their column, own link left out.

    Of many rows a sample decides.
    """
    rng = np.random.default_rng(seed)
    if min(X.shape) > TUNING.ridge_sample_rows:
        chosen = np.sort(rng.choice(X.shape[0], TUNING.ridge_sample_rows, replace=False))
        X = X[chosen]
    coordinates = X.tocoo()
    rows, columns = coordinates.coords
    if not len(rows):
        return RIDGES[0]
    at = rng.choice(len(rows), min(SAMPLE_LINKS, len(rows)), replace=False)
    ranks = {ridge: _mean_reciprocal_rank(SelfRegression.solve(X, ridge), rows[at], columns[at]) for ridge in RIDGES}
    return _largest_good(ranks)


def _largest_good(ranks: Mapping[float, float]) -> float:
    """The largest ridge that ranks links about as well as the best one: predictions of small ridges overfit."""
    best = max(ranks.values())
    return max(ridge for ridge, score in ranks.items() if score >= MIN_RELATIVE_RANK * best)


def _mean_reciprocal_rank(solved: SelfRegression, rows: AnyArray, columns: AnyArray) -> float:
    total = 0.0
    for start, stop in _chunks(len(rows), solved.X.shape[0]):
        scores, linked = solved.predictions(columns[start:stop])
        own = scores[rows[start:stop], np.arange(stop - start)]
        above = ((scores > own) & ~linked).sum(axis=0)
        level = ((scores == own) & ~linked).sum(axis=0)
        total += float((1.0 / (1.0 + above + level / 2)).sum())
    return total / max(len(rows), 1)


def exact_entries(X: Any, ridge: float, max_entries: int) -> MatrixEntries:
    """The predictions, own links left out, without those far below that of a mean link.

    The largest ones where they are too many.
    """
    solved = SelfRegression.solve(X, ridge)
    least = MIN_SHARE * _mean_link(solved)
    parts: list[MatrixEntries] = []
    count = 0
    for start, stop in _chunks(X.shape[1], X.shape[0]):
        scores, _ = solved.predictions(np.arange(start, stop))
        rows, columns = np.nonzero(scores > least)
        parts.append(MatrixEntries(rows, columns + start, scores[rows, columns]))
        count += len(rows)
        if count > 2 * max_entries:
            parts = [_largest(MatrixEntries.join(parts), max_entries)]
            count, least = max_entries, float(parts[0].values.min())
    return _largest(MatrixEntries.join(parts), max_entries)


def _mean_link(solved: SelfRegression) -> float:
    """The mean prediction of evenly spread links, negative ones counted as 0."""
    rows, columns = solved.X.tocoo().coords
    at = np.linspace(0, len(rows) - 1, min(SAMPLE_LINKS, len(rows))).astype(np.int64)
    values = [0.0]
    for start, stop in _chunks(len(at), solved.X.shape[0]):
        scores, _ = solved.predictions(columns[at[start:stop]])
        values.extend(np.maximum(scores[rows[at[start:stop]], np.arange(stop - start)], 0.0).tolist())
    return float(np.mean(values[1:])) if len(values) > 1 else 0.0


def _largest(entries: MatrixEntries, count: int) -> MatrixEntries:
    if len(entries.values) <= count:
        return entries
    return entries.take(np.sort(np.argpartition(entries.values, -count)[-count:]))


def contributions(X: Any, ridge: float, row: int, column: int) -> tuple[Rows, Array]:
    """Columns (n,) of the other links of a row, and what each adds to the prediction of a column, own link left out."""
    from scipy.sparse.linalg import LinearOperator, cg

    def gram(vector: Array) -> Array:
        facts = X.T @ vector
        facts[column] = 0.0  # a column is regressed on the others
        return np.asarray(X @ facts + ridge * vector)

    target = X[:, [column]].toarray()[:, 0].astype(np.float64)
    target[row] = 0.0
    solved, _ = cg(LinearOperator((X.shape[0],) * 2, matvec=gram, dtype=np.float64), target, rtol=1e-8)
    facts = X.indices[X.indptr[row] : X.indptr[row + 1]].astype(np.int64)
    facts = facts[facts != column]
    return facts, np.asarray(X[:, facts].T @ solved)


def restricted_entries(X: Any, ridge: float, *, per_row: bool) -> MatrixEntries:
    """The largest predictions of regressions of each column on its nearest columns, own links left out.

    Rows weigh less the more links they have. A column is nearer the larger its weighted number of common rows is,
    compared with its own. Keeps `ridge_row_predictions` per row, or per column if not `per_row`.
    """
    problem = _Restricted.of(X)
    return _keep_largest(X, *problem.regress(np.arange(X.shape[1]), ridge), per_row)


def choose_restricted_ridge(X: Any, seed: int) -> float:
    """The ridge of restricted regressions under which links of sampled columns rank best, own link left out."""
    problem, rng = _Restricted.of(X), np.random.default_rng(seed)
    columns = np.unique(rng.choice(X.indices, min(SAMPLE_COLUMNS, X.nnz)))

    def mean_reciprocal_rank(ridge: float) -> float:
        near, weights, links = problem.regress(columns, ridge)
        own = np.split(links, np.cumsum(np.diff(problem.columns.indptr)[columns])[:-1])
        ranks = []
        for k, column in enumerate(columns):
            used = near[k] >= 0
            scores = problem.columns[:, near[k][used]] @ weights[k][used].astype(np.float64)
            linked = problem.columns.indices[problem.columns.indptr[column] : problem.columns.indptr[column + 1]]
            others = np.sort(np.delete(scores, linked))
            ranks.append(1.0 + len(others) - np.searchsorted(others, own[k], side="right"))
        return float(np.mean(1.0 / np.concatenate(ranks)))

    return _largest_good({ridge: mean_reciprocal_rank(ridge) for ridge in RESTRICTED_RIDGES})


class _Restricted(NamedTuple):
    """Regressions on the nearest columns: X by rows and by columns, weights of rows, and common rows of columns."""

    rows: Any
    columns: Any
    row_weights: Array
    common: Any
    own: Array

    @classmethod
    def of(cls, X: Any) -> "_Restricted":
        from scipy.sparse import diags_array

        degrees = np.diff(X.indptr).astype(np.float64)
        weights = np.divide(1.0, np.sqrt(degrees), out=np.zeros(len(degrees)), where=degrees > 0)
        weights *= X.nnz / max(float(weights @ degrees), 1e-300)  # a link weighs 1 on average
        pairs = np.sort(degrees**2)
        heavy = pairs[np.searchsorted(np.cumsum(pairs), TUNING.ridge_pairs, side="right") - 1 :]
        if float(pairs.sum()) > TUNING.ridge_pairs:  # rows with very many links say little and cost most
            weights[degrees**2 > heavy[0]] = 0.0
        common = (X.T @ diags_array(weights) @ X).tocsr().astype(np.float32)
        common.sort_indices()
        return cls(X, X.tocsc(), weights, common, common.diagonal().astype(np.float64))

    def regress(self, chosen: Rows, ridge: float) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Regress some columns on their nearest ones.

        Returns the nearest columns (n, CANDIDATE_COLUMNS), −1 for none, their coefficients, and the predictions of the
        links of the columns, own link left out, column after column.
        """
        near = np.full((len(chosen), CANDIDATE_COLUMNS), -1, np.int32)
        weights = np.zeros((len(chosen), CANDIDATE_COLUMNS), np.float32)
        starts = np.concatenate([[0], np.cumsum(np.diff(self.columns.indptr)[chosen])])
        links = np.zeros(starts[-1], np.float32)

        def regress(_: int, start: int, stop: int) -> None:
            regress_columns(
                chosen[start:stop], starts[start:stop], self.common.indptr, self.common.indices, self.common.data,
                self.own, ridge, self.columns.indptr, self.columns.indices, self.rows.indptr, self.rows.indices,
                self.row_weights, near[start:stop], weights[start:stop], links,
            )  # fmt: skip

        on_threads(regress, shares(len(chosen)))
        return near, weights, links


@kernel
def regress_columns(
    chosen: AnyArray,
    link_starts: AnyArray,
    common_starts: AnyArray,
    common_ends: AnyArray,
    common: AnyArray,
    own: AnyArray,
    ridge: float,
    column_starts: AnyArray,
    column_rows: AnyArray,
    row_starts: AnyArray,
    row_columns: AnyArray,
    row_weights: AnyArray,
    near: AnyArray,
    weights: AnyArray,
    links: AnyArray,
) -> None:
    """Regress columns on their nearest ones: these, their coefficients, and the predictions of the columns' links.

    A link's prediction is less its leverage, so that the own link is left out.
    """
    size = near.shape[1]
    factor, solution = np.zeros((size, size)), np.zeros(size)
    for k in range(len(chosen)):
        j = chosen[k]
        lo, hi = common_starts[j], common_starts[j + 1]
        scores = np.zeros(hi - lo)
        for at in range(lo, hi):
            if common_ends[at] != j:
                scores[at - lo] = common[at] / (own[common_ends[at]] + ridge)
        least = np.partition(scores, hi - lo - size)[hi - lo - size] if hi - lo > size else 0.0
        count = 0
        for at in range(lo, hi):
            if count < size and scores[at - lo] > 0.0 and scores[at - lo] >= least:
                near[k, count], solution[count] = common_ends[at], common[at]
                count += 1
        for a in range(count):  # the lower triangle of the common rows of the nearest columns, then its Cholesky factor
            i = near[k, a]
            at, end = common_starts[i], common_starts[i + 1]
            for b in range(a):
                at += np.searchsorted(common_ends[at:end], near[k, b])
                factor[a, b] = common[at] if at < end and common_ends[at] == near[k, b] else 0.0
            for b in range(a):
                total = factor[a, b]
                for c in range(b):
                    total -= factor[a, c] * factor[b, c]
                factor[a, b] = total / factor[b, b]
            total = (1.0 + DIAGONAL_SHARE) * own[i] + ridge
            for c in range(a):
                total -= factor[a, c] * factor[a, c]
            factor[a, a] = np.sqrt(max(total, ridge * 1e-6))
        for a in range(count):
            for c in range(a):
                solution[a] -= factor[a, c] * solution[c]
            solution[a] /= factor[a, a]
        for a in range(count - 1, -1, -1):
            for c in range(a + 1, count):
                solution[a] -= factor[c, a] * solution[c]
            solution[a] /= factor[a, a]
            weights[k, a] = solution[a]
        whitened = np.zeros(count)
        for at in range(column_starts[j], column_starts[j + 1]):
            row = column_rows[at]
            facts = row_columns[row_starts[row] : row_starts[row + 1]]
            whitened[:] = 0.0
            value, place, begin = 0.0, 0, count
            for a in range(count):  # both are ascending
                place += np.searchsorted(facts[place:], near[k, a])
                if place < len(facts) and facts[place] == near[k, a]:
                    value += weights[k, a]
                    whitened[a] = 1.0
                    begin = min(begin, a)
            leverage = 0.0
            for a in range(begin, count):
                total = whitened[a]
                for c in range(begin, a):
                    total -= factor[a, c] * whitened[c]
                whitened[a] = total / factor[a, a]
                leverage += whitened[a] * whitened[a]
            links[link_starts[k] + at - column_starts[j]] = value - row_weights[row] * leverage


def _keep_largest(X: Any, near: AnyArray, weights: AnyArray, links: AnyArray, per_row: bool) -> MatrixEntries:
    """The largest predictions per row or column, and those of links that are as large."""
    from scipy.sparse import csr_array

    n_rows, n_columns = X.shape
    chosen = near >= 0
    lengths = chosen.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    coefficients = csr_array((weights[chosen], near[chosen], starts), shape=(n_columns, n_columns))
    own = csr_array((links, X.tocsc().indices, X.tocsc().indptr), shape=(n_columns, n_rows))  # columns × rows
    left, right, links_of = (X, coefficients.T.tocsr(), own.T.tocsr()) if per_row else (coefficients, X.T.tocsr(), own)
    links_of.sort_indices()
    count, width = left.shape[0], right.shape[1]
    capacity = count * TUNING.ridge_row_predictions + X.nnz
    places, others, values = np.empty(capacity, np.int64), np.empty(capacity, np.int64), np.empty(capacity)
    count_kept = largest_products(
        left.indptr, left.indices, left.data, right.indptr, right.indices, right.data,
        links_of.indptr, links_of.indices, links_of.data, width, TUNING.ridge_row_predictions,
        places, others, values,
    )  # fmt: skip
    places, others, values = places[:count_kept].copy(), others[:count_kept].copy(), values[:count_kept].copy()
    return MatrixEntries(places, others, values) if per_row else MatrixEntries(others, places, values)


@exact_kernel
def largest_products(
    starts: AnyArray,
    ends: AnyArray,
    data: AnyArray,
    right_starts: AnyArray,
    right_ends: AnyArray,
    right_data: AnyArray,
    link_starts: AnyArray,
    link_ends: AnyArray,
    link_values: AnyArray,
    width: int,
    kept: int,
    places: AnyArray,
    others: AnyArray,
    values: AnyArray,
) -> int:
    """Largest entries of each row of a product of sparse matrices that are no links, and links that are as large."""
    sums, seen = np.zeros(width), np.zeros(width, np.int64)
    linked, count = np.zeros(width, np.bool_), 0
    for row in range(len(starts) - 1):
        reached = 0
        for at in range(link_starts[row], link_starts[row + 1]):
            linked[link_ends[at]] = True
        for at in range(starts[row], starts[row + 1]):
            for other in range(right_starts[ends[at]], right_starts[ends[at] + 1]):
                end = right_ends[other]
                if not linked[end]:
                    if sums[end] == 0.0:
                        seen[reached] = end
                        reached += 1
                    sums[end] += data[at] * right_data[other]
        scores = sums[seen[:reached]]
        least = 0.0
        if reached > kept:
            least = max(0.0, np.partition(scores, reached - kept)[reached - kept])
        taken = 0
        for k in range(reached):
            if scores[k] > 0.0 and scores[k] >= least and taken < kept:
                places[count], others[count], values[count] = row, seen[k], scores[k]
                count += 1
                taken += 1
        for at in range(link_starts[row], link_starts[row + 1]):
            linked[link_ends[at]] = False
            if link_values[at] > 0.0 and link_values[at] >= least:
                places[count], others[count], values[count] = row, link_ends[at], link_values[at]
                count += 1
        sums[seen[:reached]] = 0.0
    return count
