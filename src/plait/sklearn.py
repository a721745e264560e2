"""Poisson factorisation as an estimator of scikit-learn, which is optional: `import plait.sklearn`."""

import warnings
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from plait._typing import Array
from plait.errors import ParameterError, PlaitError
from plait.fitting.fit import fit
from plait.incremental.fold_in import TransientEntities
from plait.inference.state import Reason
from plait.progress import Progress

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_array, check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise PlaitError(
        "plait.sklearn needs scikit-learn, 1.6 or newer, which is not installed.",
        hint="Install it: pip install 'tensorplait[sklearn]'.",
    ) from None

if TYPE_CHECKING:
    import polars as pl

    from plait.result import Fit

MODEL = "X[sample, feature] = W[sample, component] H[feature, component]"
NUMBERS = (np.float64, np.float32)
SETTLED = 20  # iterations after which samples no longer change in digits that a fit agrees upon with itself


class PoissonFactorization(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Bayesian Poisson factorisation: X[sample, feature] ≈ W[sample, component] H[feature, component].

    n_components: how many; None finds what predicts best, by entries put aside. max_iter: sweeps at most; a
    `ConvergenceWarning` says that they were not enough. tol: fewer sweeps once one changes the bound by less than this
    part of its size. random_state: where the random start begins.

    X is an array, a sparse matrix or a table, 0 or more, and every 0 is observed. Values need not be whole: the
    likelihood x log λ − λ is that of the generalised Kullback–Leibler divergence, as in NMF. Priors are Gammas, adapted
    to the data.

    components_ is the posterior mean of H, (n_components, n_features), and `transform` gives that of W, so that
    transform(X) @ components_ is E[X]. Samples are always folded in, those of the fit as well: `fit_transform` is `fit`
    and then `transform`, to the bit, and no sample depends on others beside it. n_components_, n_iter_, bound_: what
    came of it. fit_: the `plait.Fit`, which answers all else; it keeps the entries of X.
    """

    def __init__(
        self, n_components: int | None = None, *, max_iter: int = 500, tol: float = 1e-5, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the components of X (n_samples, n_features); y is ignored."""
        self._check_settings()
        entries = self._entries(X, reset=True)
        self.fit_: Fit = fit(
            MODEL,
            {"X": entries},
            rank=None if self.n_components is None else int(self.n_components),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)),
            progress=Progress(bar=False, interrupt="raise"),
        )
        self.components_ = np.array(self.fit_.factors["H"].mean.T, order="C")
        self.n_components_ = len(self.components_)
        self.n_iter_ = self.fit_.history[-1].sweep
        self.bound_ = self.fit_.objective
        self._warn_if_not_converged()
        return self

    def transform(self, X: Any) -> Array:
        """The posterior means of W (n_samples, n_components) of samples against held components."""
        return np.array(self._folded(X).alone("X").factors["W"].mean)

    def inverse_transform(self, X: Any) -> Array:
        """What is expected of samples (n_samples, n_features): X @ components_, X as `transform` gives it."""
        check_is_fitted(self)
        W = check_array(X, accept_sparse="csr", dtype=NUMBERS)
        if W.shape[1] != self.n_components_:
            raise ParameterError(
                f"X has {W.shape[1]} columns, but there are {self.n_components_} components.",
                hint="Give what transform returns.",
            )
        return np.asarray(W @ self.components_)

    def score(self, X: Any, y: Any = None) -> float:
        """How well samples are explained: the evidence bound of their entries, the mean by sample; y is ignored.

        A lower bound of log p(x | what the fit knows), W integrated out; larger is better, for `GridSearchCV`, too.
        """
        guests = self._folded(X)
        return float(guests.solutions[0].bound / guests.growth.new("sample"))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def _entries(self, X: Any, *, reset: bool) -> Any:
        """X as a sparse array of its own, checked."""
        checked = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=NUMBERS, ensure_non_negative=True)
        entries = sparse.csr_array(checked, copy=sparse.issparse(checked), dtype=np.float64)
        entries.sum_duplicates()
        entries.eliminate_zeros()
        return entries

    def _folded(self, X: Any) -> TransientEntities:
        """Samples as guests of the fit, under numbers that it has not."""
        check_is_fitted(self)
        rows = _table(self._entries(X, reset=False), len(self.fit_.entities["sample"]))
        return TransientEntities(self.fit_, {"X": rows}, SETTLED)

    def _check_settings(self) -> None:
        kinds = {
            "n_components": (
                self.n_components is None or _whole(self.n_components),
                "None or a whole number, 1 or more",
            ),
            "max_iter": (_whole(self.max_iter), "a whole number, 1 or more"),
            "tol": (isinstance(self.tol, Real) and 0 <= self.tol < np.inf, "a finite number, 0 or more"),
        }
        for name, (right, wanted) in kinds.items():
            if not right:
                raise ParameterError.must_be(name, wanted, getattr(self, name))

    def _warn_if_not_converged(self) -> None:
        if self.fit_.stop.reason == Reason.MAX_ITER:
            text = f"The bound still changes after {self.n_iter_} sweeps. Raise max_iter to go on, or tol."
            warnings.warn(text, ConvergenceWarning, stacklevel=3)


def _whole(given: Any) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= 1


def _table(entries: Any, first: int) -> "pl.DataFrame":
    """Entries as rows; one 0 of each sample without any, for it has to be named."""
    import polars as pl

    cells = entries.tocoo()
    empty = np.flatnonzero(np.diff(entries.indptr) == 0)
    samples = np.concatenate([cells.row, empty]).astype(np.int64) + first
    features = np.concatenate([cells.col, np.zeros(len(empty), np.int64)]).astype(np.int64)
    values = np.concatenate([cells.data, np.zeros(len(empty))])
    return pl.DataFrame({"sample": samples, "feature": features, "value": values})
