"""What a fit returns: posteriors, priors, labels, the bound and how it got there."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.compile.layout import Layout
from plait.data.bind import Data
from plait.data.exposure import Exposures
from plait.data.labels import Labels
from plait.infer.gamma import Factor
from plait.infer.prior import Gamma
from plait.infer.run import Outcome, Record
from plait.model import Model

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


def _posterior(factor: Factor) -> Posterior:
    layout = factor.layout
    mean = layout.written(factor.mean)
    if factor.concentration is None or factor.scale is None:
        arrays = [np.full(mean.shape, np.inf), np.zeros(mean.shape), mean, mean]
    else:
        C, D = layout.written(factor.concentration), layout.written(factor.scale)
        arrays = [C, D, mean, np.asarray(np.exp(layout.written(factor.log_geomean)))]
    for array in arrays:
        array.flags.writeable = False
    return Posterior(layout.indices, *arrays)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model.

    factors: posteriors by name (a given factor without latent indices is an exposure, not among them). prior: what they
    were fitted under, after adaptation (VB, MAP). labels: names by axis and by index, in row order. bound: the evidence
    bound (EM: log-likelihood, MAP: log joint) of exactly this state. history: one `Record` a sweep, the start first.
    stop: why it stopped, a sentence.
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

    @classmethod
    def of(cls, data: Data, outcome: Outcome, exposures: Exposures, seed: int) -> "Fit":
        """The public view of a finished loop."""
        problem, last = outcome.problem, outcome.history[-1]
        priors = {}
        for name, prior in problem.priors.items():
            layout = problem.factors[name].layout
            back = [layout.inside.index(index) for index in layout.indices]
            priors[name] = Gamma(prior.concentration.transpose(back), prior.mean.transpose(back))
        factors = {name: _posterior(problem.factors[name]) for name in data.model.factors if name in problem.factors}
        likelihood = {name: relation.likelihood for name, relation in data.relations.items()}
        return cls(
            data.model, problem.method, dict(last.rank), factors, priors, data.labels, last.bound,
            outcome.history, outcome.stop, seed, likelihood, exposures,
        )  # fmt: skip

    def predict(self, relation: str, cells: Any) -> Any:
        """The mean of a relation at cells: the same table with a column `mean` (Bernoulli: and `rate`) added."""
        from plait.predict import predict

        return predict(self, relation, cells)

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


def _rows(array: Array, rows: NDArray[np.int64], axis: int) -> Array:
    """Rows by number along an axis; −1 takes the average over the axis."""
    average = array.mean(axis=axis, keepdims=True)
    return np.take(np.concatenate([array, average], axis=axis), rows, axis=axis)
