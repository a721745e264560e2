"""Poisson factorisation as an estimator of scikit-learn, which is optional: `import plait.sklearn`."""

import warnings
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from plait._typing import Array
from plait.data.sources.relation import Relation
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
CONVERGED_ITERATIONS = (
    20  # iterations after which samples no longer change in digits that a fit agrees upon with itself
)


class PoissonFactorization(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Bayesian Poisson factorisation, X ≈ W H, as an estimator of scikit-learn.

    Parameters
    ----------
    n_components : int or None, default None
        Number of components. ``None`` chooses the number that best predicts held-out entries.
    max_iter : int, default 500
        Maximum number of sweeps. A ``ConvergenceWarning`` reports that they were not enough.
    tol : float, default 1e-5
        Stop when a sweep changes the ELBO by less than this fraction of its size.
    random_state : int or numpy.random.RandomState or None, default None
        Random seed.

    Attributes
    ----------
    components_ : numpy.ndarray
        Posterior mean of H, of shape ``(n_components, n_features)``.
    n_components_ : int
        Number of components.
    n_iter_ : int
        Number of sweeps.
    objective_ : float
        ELBO of the fit.
    fit_ : Fit
        The fit. It stores the entries of X.

    Notes
    -----
    X is an array, a sparse matrix or a table of non-negative numbers; all zeros are observed.
    Numbers need not be whole: the likelihood x log λ − λ is that of the generalised
    Kullback–Leibler divergence, as in NMF. Gamma priors are adapted to the data.

    Samples are always folded in, also those of the fit: ``fit_transform`` equals ``fit`` and
    then ``transform``, and no sample depends on others.

    Examples
    --------
    >>> from plait.sklearn import PoissonFactorization
    >>> X = np.array([[9, 7, 0], [6, 9, 0], [0, 0, 8], [0, 1, 7]])
    >>> W = PoissonFactorization(n_components=2, random_state=0).fit_transform(X)
    >>> W.shape
    (4, 2)
    """

    def __init__(
        self, n_components: int | None = None, *, max_iter: int = 500, tol: float = 1e-5, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the components of X.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            Non-negative numbers.
        y : None, default None
            Ignored.

        Returns
        -------
        PoissonFactorization
            The estimator.

        Raises
        ------
        plait.errors.ParameterError
            If a parameter is wrong.

        Examples
        --------
        >>> from plait.sklearn import PoissonFactorization
        >>> X = np.array([[9, 7, 0], [6, 9, 0], [0, 0, 8], [0, 1, 7]])
        >>> PoissonFactorization(n_components=2, random_state=0).fit(X).components_.shape
        (2, 3)
        """
        self._check_settings()
        entries = self._entries(X, reset=True)
        self.fit_: Fit = fit(
            MODEL,
            {"X": Relation(entries, likelihood="poisson")},
            rank=None if self.n_components is None else int(self.n_components),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)),
            progress=Progress(bar=False, interrupt="raise"),
        )
        self.components_ = np.array(self.fit_.factors["H"].mean.T, order="C")
        self.n_components_ = len(self.components_)
        self.n_iter_ = self.fit_.history[-1].sweep
        self.objective_ = self.fit_.objective
        self._warn_if_not_converged()
        return self

    def transform(self, X: Any) -> Array:
        """Compute the weights of the components in samples.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            Non-negative numbers.

        Returns
        -------
        numpy.ndarray
            Posterior mean of W, of shape ``(n_samples, n_components)``; the components do not
            change.

        Examples
        --------
        >>> from plait.sklearn import PoissonFactorization
        >>> X = np.array([[9, 7, 0], [6, 9, 0], [0, 0, 8], [0, 1, 7]])
        >>> model = PoissonFactorization(n_components=2, random_state=0).fit(X)
        >>> model.transform(X[:1]).shape
        (1, 2)
        """
        return np.array(self._folded(X).alone("X").factors["W"].mean)

    def inverse_transform(self, X: Any) -> Array:
        """Compute the expected values of samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)
            Weights, as `transform` returns them.

        Returns
        -------
        numpy.ndarray
            ``X @ components_``, of shape ``(n_samples, n_features)``.

        Raises
        ------
        plait.errors.ParameterError
            If X has the wrong number of columns.

        Examples
        --------
        >>> from plait.sklearn import PoissonFactorization
        >>> X = np.array([[9, 7, 0], [6, 9, 0], [0, 0, 8], [0, 1, 7]])
        >>> model = PoissonFactorization(n_components=2, random_state=0).fit(X)
        >>> model.inverse_transform(model.transform(X)).shape
        (4, 3)
        """
        check_is_fitted(self)
        W = check_array(X, accept_sparse="csr", dtype=NUMBERS)
        if W.shape[1] != self.n_components_:
            raise ParameterError(
                f"X has {W.shape[1]} columns, expected {self.n_components_} (one per component).",
                hint="Pass the result of `transform`.",
            )
        return np.asarray(W @ self.components_)

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the mean ELBO of samples.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            Non-negative numbers.
        y : None, default None
            Ignored.

        Returns
        -------
        float
            Mean per sample of a lower bound of log p(x | fit), W integrated out. Larger is better.

        Examples
        --------
        >>> from plait.sklearn import PoissonFactorization
        >>> X = np.array([[9, 7, 0], [6, 9, 0], [0, 0, 8], [0, 1, 7]])
        >>> model = PoissonFactorization(n_components=2, random_state=0).fit(X)
        >>> model.score(X) > model.score(X[:, [2, 0, 1]])
        True
        """
        folded = self._folded(X)
        return float(folded.solutions[0].bound / folded.growth.new("sample"))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def _entries(self, X: Any, *, reset: bool) -> Any:
        """A checked copy of X as a sparse array."""
        checked = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=NUMBERS, ensure_non_negative=True)
        entries = sparse.csr_array(checked, copy=sparse.issparse(checked), dtype=np.float64)
        entries.sum_duplicates()
        entries.eliminate_zeros()
        return entries

    def _folded(self, X: Any) -> TransientEntities:
        """Fold samples into the fit, named by numbers that are not in use."""
        check_is_fitted(self)
        rows = _table(self._entries(X, reset=False), len(self.fit_.entities["sample"]))
        return TransientEntities.read(self.fit_, {"X": rows}, CONVERGED_ITERATIONS)

    def _check_settings(self) -> None:
        kinds = {
            "n_components": (
                self.n_components is None or _whole(self.n_components),
                "None or an integer of at least 1",
            ),
            "max_iter": (_whole(self.max_iter), "an integer of at least 1"),
            "tol": (isinstance(self.tol, Real) and 0 <= self.tol < np.inf, "a finite number of at least 0"),
        }
        for name, (right, wanted) in kinds.items():
            if not right:
                raise ParameterError.must_be(name, wanted, getattr(self, name))

    def _warn_if_not_converged(self) -> None:
        if self.fit_.stop.reason == Reason.MAX_ITER:
            text = f"The fit has not converged after {self.n_iter_} sweeps. Increase `max_iter` or `tol`."
            warnings.warn(text, ConvergenceWarning, stacklevel=3)


def _whole(given: Any) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= 1


def _table(entries: Any, first: int) -> "pl.DataFrame":
    """Entries as rows; a sample without entries has a row with value 0, so that it has a name."""
    import polars as pl

    cells = entries.tocoo()
    empty = np.flatnonzero(np.diff(entries.indptr) == 0)
    samples = np.concatenate([cells.row, empty]).astype(np.int64) + first
    features = np.concatenate([cells.col, np.zeros(len(empty), np.int64)]).astype(np.int64)
    values = np.concatenate([cells.data, np.zeros(len(empty))])
    return pl.DataFrame({"sample": samples, "feature": features, "value": values})
