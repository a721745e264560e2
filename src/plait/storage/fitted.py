"""What a fit comes from and what came of it: the record that all questions to a fit are answered from.

An ensemble is several records of one origin. It shows the one with the best bound (bootstrapped: the first); what it
predicts is the mixture of all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.codegen.layout import Layout
from plait.data.binding.given import Exposures
from plait.data.binding.known import Known
from plait.data.bound import Data
from plait.data.encoding.names import Labels
from plait.data.observation.pairs import Pairs
from plait.data.sparse.keys import columns_of
from plait.data.sparse.parallel import PIECE
from plait.data.titles import Titles
from plait.inference.empirical_bayes import normalise_scale
from plait.inference.gamma import Gamma, Prior
from plait.inference.initialisation import around
from plait.inference.loop import ADAPT_AFTER
from plait.inference.state import FactorSnapshot, Reason, Record, State, Stop
from plait.likelihood import Likelihood, as_likelihood
from plait.model import Model


@dataclass(frozen=True, eq=False)
class Origin:
    """Model, data as far as they are remembered, and the arguments of the fit; settings hold only what JSON can."""

    model: Model
    method: str
    seed: int
    entities: Mapping[str, Labels]
    likelihood: dict[str, Likelihood]
    exposures: Exposures
    known: dict[str, Known]
    settings: dict[str, Any]
    fingerprint: str
    titles: Mapping[str, Titles] = field(default_factory=dict)


class Member(NamedTuple):
    """One run of the loop: where its random start began, its state, and why it stopped (None: it goes on)."""

    seed: int
    state: State
    stop: Stop | None


@dataclass(frozen=True, eq=False)
class Posterior:
    """One factor's posterior, arrays with the axes as written.

    VB: Gamma(concentration, scale). EM, MAP and given factors are points: infinite concentration, scale and sd 0.

    pairs: of a factor over pairs (M[u, i], M[u, i, z]) which pairs have rows of their own, `pairs.coords` (n, …); its
    arrays have rows in place of the visible axes: those of the pairs, then one for all others of each first entity.
    """

    indices: tuple[str, ...]
    concentration: Array
    scale: Array
    mean: Array
    exp_mean_log: Array
    pairs: Pairs | None = None

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

    def _repr_html_(self) -> str:
        from plait.rendering.html import render
        from plait.rendering.objects import describe_posterior

        return render(describe_posterior(self))


def posterior_of(kept: FactorSnapshot, log_scale: float) -> Posterior:
    """The public view of a factor, in the gauge."""
    layout = kept.layout
    if kept.concentration is None or kept.scale is None or kept.log_geomean is None:
        assert kept.mean is not None
        mean = layout.written(kept.mean)
        arrays = [np.full(mean.shape, np.inf), np.zeros(mean.shape), mean, mean]
    else:
        C, D, geomean = map(layout.written, (kept.concentration, kept.scale, kept.log_geomean))
        D *= np.exp(log_scale)  # these are copies
        geomean += log_scale
        arrays = [C, D, C * D, np.exp(geomean, out=geomean)]
    arrays = [np.asarray(array) for array in arrays]  # of no index: NumPy makes numbers of sums and products
    for array in arrays:
        array.flags.writeable = False
    pairs = cast(Pairs | None, layout.pairs)
    C, D, mean, geomean = arrays
    return Posterior(layout.indices if pairs is None else pairs.indices, C, D, mean, geomean, pairs)


@dataclass(frozen=True, eq=False)
class Promised:
    """A posterior that is made when it is first asked for, from arrays that do not change any more.

    warming_up: the factor is still a point, and becomes a posterior around it.
    """

    kept: FactorSnapshot
    log_scale: float
    warming_up: bool

    @cached_property
    def posterior(self) -> Posterior:
        """The public view of the factor."""
        kept = self.kept
        if self.warming_up:
            kept = FactorSnapshot.of(around(kept.layout, cast(Array, kept.mean), np.dtype(np.float64)))
        return posterior_of(kept, self.log_scale)

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again."""
        return {name: value for name, value in self.__dict__.items() if name != "posterior"}


class Factors(Mapping[str, Posterior]):
    """Posteriors by name, some of them only promised: their arrays may be as large as all else in a fit."""

    def __init__(self, given: Mapping[str, Posterior | Promised]) -> None:
        self._given = dict(given)

    def __getitem__(self, name: str) -> Posterior:
        given = self._given[name]
        return given.posterior if isinstance(given, Promised) else given

    def __contains__(self, name: object) -> bool:  # that of Mapping would make it
        return name in self._given

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __or__(self, others: Mapping[str, Posterior]) -> "Factors":
        """These, and others in place of them or beside them."""
        return Factors(self._given | dict(others))

    def __repr__(self) -> str:
        return repr(dict(self))


def prior_of(layout: Layout, prior: Prior, log_scale: float) -> Gamma:
    """The public view of a factor's prior, in the gauge."""
    return Gamma(_as_written(layout, prior.concentration), _as_written(layout, prior.mean) * np.exp(log_scale))


def _log_scales(model: Model, state: State, adapted: list[str], adapt_after: int) -> dict[str, float]:
    """The gauge of a fit whose priors have been adapted; terms are products of the factors that are not given."""
    if not adapted or state.history[-1].sweep <= adapt_after:
        return {}
    terms = [term for equation in model.equations for term in equation.terms]
    R = np.array([[float(term.factors.count(name)) for name in adapted] for term in terms])
    means = []
    for name in adapted:
        kept = state.factors[name]
        seen = state.exposed.get(name, np.ones(kept.layout.rows, bool))  # the others only echo the prior
        if kept.layout.pairs is not None:
            seen = seen & (np.arange(len(seen)) < len(kept.layout.pairs))
        means.append(_mean_of(kept, seen if seen.any() else np.ones(len(seen), bool)))
    return dict(zip(adapted, normalise_scale(means, R).tolist()))


def _mean_of(kept: FactorSnapshot, seen: NDArray[np.bool_]) -> float:
    """The mean of a posterior's means over some rows; multiplied in pieces, for every array of them may be large."""
    assert kept.concentration is not None
    assert kept.scale is not None
    C, D = (kept.layout.unpack(array).reshape(kept.layout.rows, -1) for array in (kept.concentration, kept.scale))
    means, rows = C[seen], np.flatnonzero(seen)
    for at in range(0, len(rows), PIECE):
        means[at : at + PIECE] *= D[rows[at : at + PIECE]]
    return float(means.mean(dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, without questions to it; `plait.Fit` says what its fields are."""

    model: Model
    method: str
    rank: dict[str, int]
    factors: Factors
    prior: dict[str, Gamma]
    entities: Mapping[str, Labels]
    objective: float
    history: list[Record]
    stop: Stop
    seed: int
    likelihood: dict[str, Likelihood]
    exposures: Exposures
    known: dict[str, Known]
    settings: dict[str, Any] = field(repr=False)
    fingerprint: str = field(repr=False)
    state: State = field(repr=False)
    ensemble: tuple[Self, ...] = field(default=(), repr=False)
    titles: Mapping[str, Titles] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        named = {name: as_likelihood(likelihood) for name, likelihood in self.likelihood.items()}
        object.__setattr__(self, "likelihood", named)

    @classmethod
    def _of(cls, origin: Origin, members: Sequence[Member], stop: Stop | None) -> Self:
        """The public view of the loops' states: of the one with the best bound, with all of them behind it.

        Where members see links reweighed, their bounds do not compare, and the first sees them as they are.
        stop: why the whole fit stopped; None where it was not at its end.
        """
        fits = [cls._alone(origin, member) for member in _ready(members)]
        best = fits[0] if origin.settings.get("bootstrap") else max(fits, key=lambda fit: fit.objective)
        best = replace(best, stop=stop or unfinished(members[-1].state.history[-1]))
        if len(fits) == 1 or origin.settings.get("combine") == "best":
            return best
        return replace(best, seed=origin.seed, ensemble=tuple(fits))

    @classmethod
    def _alone(cls, origin: Origin, member: Member) -> Self:
        state, settings = member.state, origin.settings
        last = state.history[-1]
        scales = state.log_scales
        if scales is None:
            after = settings.get("adapt_after", ADAPT_AFTER)
            scales = _log_scales(origin.model, state, list(settings["adapt_prior"]), after)
            state = replace(state, log_scales=scales)
        factors, priors = {}, {}
        for name in origin.model.factors:
            if name in state.factors:
                warming_up = last.warm_up and name in state.divergences
                factors[name] = Promised(state.factors[name], scales.get(name, 0.0), warming_up)
            if name in state.priors:
                priors[name] = prior_of(state.factors[name].layout, state.priors[name], scales.get(name, 0.0))
        return cls(
            origin.model, origin.method, dict(last.rank), Factors(factors), priors, origin.entities, last.objective,
            list(state.history), member.stop or unfinished(last), member.seed, origin.likelihood, origin.exposures,
            origin.known, origin.settings, origin.fingerprint, state, titles=origin.titles,
        )  # fmt: skip

    @cached_property
    def _sums(self) -> dict[Any, Array]:
        """Sums over the rows of factors that were needed so far (`plait.incremental`), kept for the next time."""
        return {}

    @cached_property
    def _cached_answers(self) -> dict[str, Any]:
        """Answers that take a pass over all known links, kept for the next time."""
        return {}

    @property
    def converged(self) -> bool:
        """Whether the fit stopped because the objective converged."""
        return self.stop.reason in (Reason.CONVERGED, Reason.NOTHING)

    @property
    def members(self) -> tuple[Self, ...]:
        """The fits whose mixture answers: those of an ensemble, or this one alone."""
        return self.ensemble or (self,)

    @property
    def likelihood_params(self) -> dict[str, dict[str, float]]:
        """By relation its likelihood's own numbers as they were learnt or given; counts and links have none."""
        return {name: dict(self.state.likelihood_params.get(name, {})) for name in self.likelihood}

    @property
    def _origin(self) -> Origin:
        """What the fit comes from."""
        return Origin(
            self.model, self.method, self.seed, self.entities, self.likelihood, self.exposures, self.known,
            self.settings, self.fingerprint, self.titles,
        )  # fmt: skip

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in ("ensemble", "exposures", "state")]

    def _with_known(self, known: dict[str, Known]) -> Self:
        """The same fit, which remembers these links only."""
        ensemble = tuple(replace(member, known=known) for member in self.ensemble)
        return replace(self, known=known, ensemble=ensemble)

    def _with_bound_titles(self, titles: Mapping[str, Titles]) -> Self:
        """The same fit with these titles."""
        ensemble = tuple(replace(member, titles=titles) for member in self.ensemble)
        return replace(self, titles=titles, ensemble=ensemble)

    def _same_rows(self, data: Data, name: str) -> bool:
        """Whether a factor has the same entities in other data."""
        axes = {self.model.axis(index) for index in self.model.factor(name).visible}
        return all(axis in data.entities and self.entities[axis] == data.entities[axis] for axis in axes)

    def _aligned(self, data: Data, layouts: Mapping[str, Layout]) -> dict[str, Any]:
        """Starting points for a fit of other data: rows by name; a new entity starts as the average one."""
        result: dict[str, Any] = {}
        for name, factor in self.factors.items():
            now = cast(Pairs | None, layouts[name].pairs) if name in layouts else None
            if factor.pairs is not None and now is not None:
                if self._same_rows(data, name) and now.indices == factor.indices:
                    result[name] = _of_pairs(factor, factor.pairs, now)
            elif name in layouts and factor.pairs is None and layouts[name].indices == factor.indices:
                result[name] = factor if self._same_rows(data, name) else self._moved(data, factor)
        return result

    def _moved(self, data: Data, factor: Posterior) -> Posterior:
        C, D, mean, geomean = factor.concentration, factor.scale, factor.mean, factor.exp_mean_log
        for axis, index in enumerate(factor.indices):
            if index in data.sizes:
                rows = self.entities[index].encode(data.entities[index].names, unknown="mark")
                C, D, mean, geomean = (_rows(array, rows, axis) for array in (C, D, mean, geomean))
        return Posterior(factor.indices, C, D, mean, geomean)


def _as_written(layout: Layout, inside: Array) -> Array:
    """An array of a prior, inside -> with an axis for every index as written, of length 1 where it is tied."""
    array = inside.transpose([layout.inside.index(index) for index in layout.indices])
    if layout.pairs is None:
        return array
    sizes = dict(zip(layout.indices, array.shape))
    return array.reshape([sizes.get(index, 1) for index in layout.pairs.indices])


def _of_pairs(factor: Posterior, then: Pairs, now: Pairs) -> Posterior:
    """The posterior of a factor that remembers other pairs of the same entities: a new one has what it shared."""
    own = then.find(columns_of(now.coords))
    rows = np.concatenate([own, np.arange(len(then), then.rows)])
    C, D, mean, geomean = (a[rows] for a in (factor.concentration, factor.scale, factor.mean, factor.exp_mean_log))
    return Posterior(factor.indices, C, D, mean, geomean, now)


def unfinished(last: Record) -> Stop:
    """What stands for a stop where the loop was not at its end."""
    when = "of the warm-up" if last.warm_up else f"after sweep {last.sweep}"
    return Stop(Reason.UNFINISHED, f"not finished: this is the checkpoint {when}.", "`init` goes on from here.")


def _ready(members: Sequence[Member]) -> Sequence[Member]:
    """The members of an ensemble that can answer: one that is still warming up compares with no other."""
    return [m for m in members if not m.state.history[-1].warm_up] or members[:1]


def _rows(array: Array, rows: NDArray[np.int64], axis: int) -> Array:
    """Rows by number along an axis; −1 takes the average over the axis."""
    average = array.mean(axis=axis, keepdims=True)
    return np.take(np.concatenate([array, average], axis=axis), rows, axis=axis)
