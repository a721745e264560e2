"""What a fit returns: posteriors, priors, labels, the bound and how it got there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from plait.compile.layout import Layout
from plait.data.bind import Data
from plait.data.exposure import Exposures
from plait.data.known import Known
from plait.data.labels import Labels
from plait.infer.hyper import gauge
from plait.infer.prior import Gamma
from plait.infer.run import ADAPT_AFTER
from plait.infer.start import around
from plait.infer.state import Kept, Record, State
from plait.model import Model
from plait.store.origin import Origin

if TYPE_CHECKING:
    from plait.explain import Explanation

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Posterior:
    """One factor's posterior, arrays with the axes as written.

    VB: Gamma(concentration, scale). EM, MAP and given factors are points: infinite concentration, scale and sd 0.
    """

    indices: tuple[str, ...]
    concentration: Array
    scale: Array
    mean: Array
    geomean: Array

    @cached_property
    def sd(self) -> Array:
        """Standard deviation: √concentration · scale."""
        return (
            np.zeros(self.mean.shape)
            if np.isinf(self.concentration).any()
            else np.sqrt(self.concentration) * self.scale
        )

    def __repr__(self) -> str:
        return f"Posterior[{', '.join(self.indices)}] of shape {self.mean.shape}"


def _posterior(kept: Kept, log_scale: float) -> Posterior:
    """The public view of a factor, in the gauge."""
    layout = kept.layout
    if kept.concentration is None or kept.scale is None or kept.log_geomean is None:
        assert kept.mean is not None
        mean = layout.written(kept.mean)
        arrays = [np.full(mean.shape, np.inf), np.zeros(mean.shape), mean, mean]
    else:
        C, D = layout.written(kept.concentration), layout.written(kept.scale) * np.exp(log_scale)
        arrays = [C, D, C * D, np.exp(layout.written(kept.log_geomean) + log_scale)]
    arrays = [np.asarray(array) for array in arrays]  # of no index: NumPy makes numbers of sums and products
    for array in arrays:
        array.flags.writeable = False
    return Posterior(layout.indices, *arrays)


def _log_scales(model: Model, state: State, adapted: list[str], adapt_after: int) -> dict[str, float]:
    """The gauge of a fit whose priors have been adapted; relations are products of the factors that are not given."""
    if not adapted or state.history[-1].sweep <= adapt_after:
        return {}
    R = np.array([[float(name in equation.factors) for name in adapted] for equation in model.equations])
    means = []
    for name in adapted:
        kept = state.factors[name]
        assert kept.concentration is not None
        assert kept.scale is not None
        rows = kept.layout.unpack(kept.concentration * kept.scale).reshape(kept.layout.rows, -1)
        seen = state.exposed.get(name, np.ones(len(rows), bool))  # the others only echo the prior
        means.append(float(rows[seen if seen.any() else slice(None)].mean(dtype=np.float64)))
    return dict(zip(adapted, gauge(means, R).tolist()))


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model.

    factors: posteriors by name (a given factor without latent indices is an exposure, not among them). prior: what they
    were fitted under, after adaptation (VB, MAP). labels: names by axis and by index, in row order. bound: the evidence
    bound (EM: log-likelihood, MAP: log joint) of exactly this state. history: one `Record` a sweep, the start first.
    stop: why it stopped, a sentence. known: the observed links by relation. settings: the arguments of the fit.
    fingerprint: of the data, equal for equal data. state: what the loop would go on from.
    """

    model: Model
    method: str
    rank: dict[str, int]
    factors: dict[str, Posterior]
    prior: dict[str, Gamma]
    labels: Mapping[str, Labels]
    bound: float
    history: list[Record]
    stop: str
    seed: int
    likelihood: dict[str, str]
    exposures: Exposures
    known: dict[str, Known]
    settings: dict[str, Any] = field(repr=False)
    fingerprint: str = field(repr=False)
    state: State = field(repr=False)

    @classmethod
    def of(cls, origin: Origin, state: State, stop: str) -> "Fit":
        """The public view of a loop's state."""
        last = state.history[-1]
        settings = origin.settings
        scales = _log_scales(origin.model, state, list(settings["adapt"]), settings.get("adapt_after", ADAPT_AFTER))
        factors, priors = {}, {}
        for name in origin.model.factors:
            if name in state.factors:
                kept = state.factors[name]
                if last.warm_up and name in state.divergences:
                    kept = Kept.of(around(kept.layout, cast(Array, kept.mean), np.dtype(np.float64)))
                factors[name] = _posterior(kept, scales.get(name, 0.0))
            if name in state.priors:
                layout, prior = state.factors[name].layout, state.priors[name]
                back = [layout.inside.index(index) for index in layout.indices]
                mean = prior.mean.transpose(back) * np.exp(scales.get(name, 0.0))
                priors[name] = Gamma(prior.concentration.transpose(back), mean)
        return cls(
            origin.model, origin.method, dict(last.rank), factors, priors, origin.labels, last.bound,
            list(state.history), stop, origin.seed, origin.likelihood, origin.exposures, origin.known,
            origin.settings, origin.fingerprint, state,
        )  # fmt: skip

    def predict(self, relation: str, cells: Any, *, unknown: str = "error") -> Any:
        """What is expected at some cells: the same kind of table, with the columns mean, sd, probability, low, high.

        cells: a table (or a dict of columns) with a column for each index of the relation, by outside names. unknown: a
        name that the fit has not seen is an "error", or has the "prior".

        probability: of a link, P(x > 0). mean: the expected count. sd: of its rate, from the uncertainty of the
        factors. low, high: a 90 % predictive interval of the count.

        Under Bernoulli `mean` is the probability of a link, 1 − e^−rate averaged over the posterior; sd, low and high
        say how unsure that probability is: its standard deviation and a 90 % credible interval. A column `rate` holds
        the expected rate.

        EM and MAP know no uncertainty: sd is 0, a count has the interval of a Poisson distribution, and a probability
        that of a point.
        """
        from plait.predict.chance import predict

        return predict(self, relation, cells, unknown=unknown)

    def top(
        self, relation: str, k: int = 10, *, given: Mapping[str, Any] | None = None, known: bool = False,
        score: str = "mean",
    ) -> Any:  # fmt: skip
        """The k most probable links of a relation, best first: a polars table like that of `predict`.

        Exact, though most cells are never looked at.

        given: some of the indices, each with a name or a list of names. known: whether links of the data may be among
        them. score: the column to rank by, "mean", "probability" or "rate".

        What a rule makes unobservable is not proposed: pairs and slices of `missing=`, self-links where hardly any is
        observed, cells of exposure 0. Single missing cells, and all that is hidden for a test, may be. Where rules
        leave nothing of what is asked for, a `plait.ClosedWarning` says so.
        """
        from plait.search.top import top

        return top(self, relation, k, given=given, known=known, score=score)

    def explain(
        self, relation: str, cell: Mapping[str, Any], *, top: int = 5, exact: bool | str = False,
        data: Mapping[str, Any] | Data | None = None,
    ) -> "Explanation":  # fmt: skip
        """Why a link is predicted: the share of every component, who characterises it, and which known links say so.

        cell: the name of each index. top: how many entities and links to show of each kind.

        The percentage of a known link is about how much smaller the mean would be, were the link an observed zero: its
        entities in this cell settle anew, all others are held. A link that is missing, not observed at all, is another
        question, and takes less away.

        exact: fit again to be exact, warm and with the priors held, once for each link that is named: True or "zero"
        with the link an observed zero, "missing" with the link not observed. data: what was given to `plait.fit`,
        which a fit does not keep; only needed for exact.
        """
        from plait.explain import explain

        return explain(self, relation, cell, top=top, exact=exact, data=data)

    def samples(self, n: int, seed: int | None = None) -> dict[str, Array]:
        """Draws of all factors from the posterior, by name: arrays (n, …) with the axes as written."""
        from plait.predict.samples import samples

        return samples(self, n, seed)

    def to_xarray(self) -> Any:
        """The factors as a labelled `xarray.Dataset` (needs xarray: pip install 'plait[xarray]')."""
        from plait.labelled import to_xarray

        return to_xarray(self)

    def save(self, folder: str | PathLike[str], *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fit into a folder, for `plait.load`; an earlier run there is replaced, as a whole or not at all.

        extra: anything that JSON can hold, kept beside it.
        """
        from plait.store.save import save

        save(folder, self.origin, self.state, self.stop, extra=extra)

    @property
    def members(self) -> "tuple[Fit, ...]":
        """The fits that predictions are made of; a single fit is its own only member."""
        return (self,)

    @property
    def origin(self) -> Origin:
        """What the fit comes from."""
        return Origin(
            self.model, self.method, self.seed, self.labels, self.likelihood, self.exposures, self.known,
            self.settings, self.fingerprint,
        )  # fmt: skip

    def same_rows(self, data: Data, name: str) -> bool:
        """Whether a factor has the same entities in other data."""
        axes = {self.model.axis(index) for index in self.model.factor(name).visible}
        return all(axis in data.labels and self.labels[axis] == data.labels[axis] for axis in axes)

    def aligned(self, data: Data, layouts: Mapping[str, Layout]) -> dict[str, Any]:
        """Starting points for a fit of other data: rows by name; a new entity starts as the average one."""
        result: dict[str, Any] = {}
        for name, factor in self.factors.items():
            if name in layouts and layouts[name].indices == factor.indices:
                result[name] = factor if self.same_rows(data, name) else self._moved(data, factor)
        return result

    def _moved(self, data: Data, factor: Posterior) -> Posterior:
        C, D, mean, geomean = factor.concentration, factor.scale, factor.mean, factor.geomean
        for axis, index in enumerate(factor.indices):
            if index in data.sizes:
                rows = self.labels[index].encode(data.labels[index].names, unknown="mark")
                C, D, mean, geomean = (_rows(array, rows, axis) for array in (C, D, mean, geomean))
        return Posterior(factor.indices, C, D, mean, geomean)

    def __repr__(self) -> str:
        relations = ", ".join(self.model.relations)
        ranks = ", ".join(f"{index}={size}" for index, size in self.rank.items())
        return f"Fit of {relations} by {self.method}, rank {ranks or 'none'}: bound {self.bound:,.6g}; {self.stop}"

    def __str__(self) -> str:
        if self.method != "vb":
            return repr(self)
        if self.history[-1].warm_up:
            return f"{self!r}\nIts bound is the log-likelihood that the warm-up has reached: it compares with no other."
        return f"{self!r}\nIts bound compares with those of other ranks and equations: same data, same adapt=."

    def _repr_html_(self) -> str:
        from plait.show import fit_html

        return fit_html(self)


def _rows(array: Array, rows: NDArray[np.int64], axis: int) -> Array:
    """Rows by number along an axis; −1 takes the average over the axis."""
    average = array.mean(axis=axis, keepdims=True)
    return np.take(np.concatenate([array, average], axis=axis), rows, axis=axis)


def load(folder: str | PathLike[str]) -> Fit:
    """The fit that `Fit.save` or a checkpoint wrote into a folder; everything works as on the day it was made.

    A run that was interrupted loads as it stood at its last checkpoint; `plait.fit(…, init=folder)` goes on with it.
    """
    from plait.store.load import load as read

    return Fit.of(*read(folder))
