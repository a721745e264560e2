"""Fitted model: the origin of a fit and the states of its members, from which all queries are answered.

An ensemble has several members of one origin. It shows the one with the best objective (with bootstrap: the first); its
predictions are the mixture of all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.codegen.layout import Layout
from plait.data.binding.given import Exposures
from plait.data.binding.known import Known
from plait.data.binding.sparse_factors import SparseFactor
from plait.data.bound import Data
from plait.data.encoding.names import Labels
from plait.data.observation.pairs import Pairs
from plait.data.observation.structural_zeros import StructuralZeros, add_diagonal_slices
from plait.data.sparse.keys import columns_of
from plait.data.sparse.parallel import CHUNK_ROWS
from plait.data.titles import Titles
from plait.errors import UnknownNameError
from plait.inference.chains import concentrations
from plait.inference.empirical_bayes import normalise_scale
from plait.inference.gamma import Gamma, GammaChain, Prior
from plait.inference.initialisation import around
from plait.inference.loop import ADAPT_AFTER
from plait.inference.state import FactorSnapshot, Reason, Record, State, Stop
from plait.likelihood import Likelihood, as_likelihood
from plait.model import Model
from plait.storage.calibration import Calibration
from plait.tuning import TUNING


@dataclass(frozen=True, eq=False)
class Origin:
    """Model, known data, and the arguments of the fit; settings are JSON values."""

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
    calibration: dict[str, Calibration] = field(default_factory=dict)


class Member(NamedTuple):
    """One run of the loop: its seed, its state, why it stopped (None: not yet), and given names of its components."""

    seed: int
    state: State
    stop: Stop | None
    names: Mapping[str, Mapping[int, str]] = {}


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of one factor.

    ``fit.factors["U"]`` is one. Under VB each entry has a Gamma posterior. EM, MAP and given
    factors are points: infinite ``concentration``, ``scale`` 0 and ``sd`` 0.

    Attributes
    ----------
    indices : tuple of str
        The indices of the factor, as written in the model.
    concentration, scale : numpy.ndarray
        Parameters of the Gamma distributions, with one axis per index.
    mean : numpy.ndarray
        Posterior mean, ``concentration * scale``.
    exp_mean_log : numpy.ndarray
        Geometric mean, exp(E[log x]).
    sd : numpy.ndarray
        Posterior standard deviation.
    pairs : Pairs or None
        Which pairs a factor over pairs of entities stores. ``pairs.coords`` has their row
        numbers, of shape ``(n_pairs, …)``. The first axis of the arrays is then that of the
        pairs, followed by one row per first entity for all its other pairs.

    Examples
    --------
    >>> posterior = fit.factors["P"]
    >>> posterior.indices
    ('place', 'r')
    >>> bool((posterior.sd < posterior.mean).any())
    True
    """

    indices: tuple[str, ...]
    concentration: Array
    scale: Array
    mean: Array
    exp_mean_log: Array
    pairs: Pairs | None = None

    @cached_property
    def sd(self) -> Array:
        """Posterior standard deviation, ``sqrt(concentration) * scale``."""
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
    """Public posterior of a factor, in normal scale."""
    layout = kept.layout
    if kept.concentration is None or kept.scale is None or kept.log_geomean is None:
        assert kept.mean is not None
        mean = layout.written(kept.mean)
        arrays = [np.full(mean.shape, np.inf), np.zeros(mean.shape), mean, mean]
    else:
        C, D, mean_log = map(layout.written, (kept.concentration, kept.scale, kept.log_geomean))
        D *= np.exp(log_scale)  # a copy
        mean_log += log_scale
        arrays = [C, D, C * D, np.exp(mean_log, out=mean_log)]
    arrays = [np.asarray(array) for array in arrays]  # without indices NumPy returns scalars
    for array in arrays:
        array.flags.writeable = False
    pairs = cast(Pairs | None, layout.pairs)
    C, D, mean, exp_mean_log = arrays
    return Posterior(layout.indices if pairs is None else pairs.indices, C, D, mean, exp_mean_log, pairs)


@dataclass(frozen=True, eq=False)
class Promised:
    """A posterior that is built when first used, from arrays that no longer change.

    `warming_up`: the factor is still a point, and becomes a posterior around it.
    """

    kept: FactorSnapshot
    log_scale: float
    warming_up: bool

    @cached_property
    def posterior(self) -> Posterior:
        kept = self.kept
        if self.warming_up:
            kept = FactorSnapshot.of(around(kept.layout, cast(Array, kept.mean), np.dtype(np.float64)))
        return posterior_of(kept, self.log_scale)

    def __getstate__(self) -> dict[str, Any]:
        """Without cached arrays."""
        return {name: value for name, value in self.__dict__.items() if name != "posterior"}


V = TypeVar("V")


class NamedItems(dict[str, V]):
    """A dict that suggests close names for an unknown key."""

    def __init__(self, kind: str, items: Mapping[str, V]) -> None:
        super().__init__(items)
        self._kind = kind

    def __missing__(self, name: object) -> V:
        raise UnknownNameError.of(self._kind, name, self)

    def __reduce__(self) -> Any:
        return NamedItems, (self._kind, dict(self))


class Factors(Mapping[str, Posterior]):
    """Posteriors by name, built when first used: their arrays may be as large as the rest of a fit."""

    def __init__(self, given: Mapping[str, Posterior | Promised]) -> None:
        self._given = dict(given)

    def __getitem__(self, name: str) -> Posterior:
        if name not in self._given:
            raise UnknownNameError.of("factor", name, self._given)
        given = self._given[name]
        return given.posterior if isinstance(given, Promised) else given

    def __contains__(self, name: object) -> bool:  # that of Mapping would build it
        return name in self._given

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __or__(self, others: Mapping[str, Posterior]) -> "Factors":
        """These factors, updated by others."""
        return Factors(self._given | dict(others))

    def __repr__(self) -> str:
        return repr(dict(self))


def prior_of(layout: Layout, prior: Prior, log_scale: float) -> Gamma | GammaChain:
    """Public prior of a factor, in normal scale."""
    own = Gamma(_as_written(layout, prior.concentration), _as_written(layout, prior.mean) * np.exp(log_scale))
    return GammaChain(prior.chain.concentration, own) if prior.chain else own


def prior_concentration(fit: "Fitted", name: str) -> Array:
    """A of a factor's prior, which broadcasts to the factor as written; of a chain given its neighbours."""
    prior = fit.prior[name]
    if isinstance(prior, Gamma):
        return np.asarray(prior.concentration, np.float64)
    layout = fit.state.factors[name].layout
    return _as_written(layout, concentrations(layout, fit.state.priors[name]))


def _log_scales(model: Model, state: State, adapted: list[str], adapt_after: int) -> dict[str, float]:
    """Log-scales of a fit with adapted priors (`normalise_scale`); terms are products of free factors."""
    if not adapted or state.history[-1].sweep <= adapt_after:
        return {}
    terms = [term for equation in model.equations for term in equation.terms]
    R = np.array([[float(term.factors.count(name)) for name in adapted] for term in terms])
    means = []
    for name in adapted:
        kept = state.factors[name]
        seen = state.exposed.get(name, np.ones(kept.layout.rows, bool))  # other rows equal the prior
        if kept.layout.pairs is not None:
            seen = seen & (np.arange(len(seen)) < len(kept.layout.pairs))
        means.append(_mean_of(kept, seen if seen.any() else np.ones(len(seen), bool)))
    return dict(zip(adapted, normalise_scale(means, R).tolist()))


def _mean_of(kept: FactorSnapshot, seen: NDArray[np.bool_]) -> float:
    """Mean of a posterior's means over some rows, in chunks to save memory."""
    assert kept.concentration is not None
    assert kept.scale is not None
    C, D = (kept.layout.unpack(array).reshape(kept.layout.rows, -1) for array in (kept.concentration, kept.scale))
    means, rows = C[seen], np.flatnonzero(seen)
    for at in range(0, len(rows), CHUNK_ROWS):
        means[at : at + CHUNK_ROWS] *= D[rows[at : at + CHUNK_ROWS]]
    return float(means.mean(dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model without queries; `plait.Fit` documents its fields."""

    model: Model
    method: str
    rank: dict[str, int]
    factors: Factors
    prior: dict[str, Gamma | GammaChain]
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
    calibration: dict[str, Calibration] = field(default_factory=dict, repr=False)
    given_names: Mapping[str, Mapping[int, str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        named = {name: as_likelihood(likelihood) for name, likelihood in self.likelihood.items()}
        object.__setattr__(self, "likelihood", NamedItems("relation", named))
        object.__setattr__(self, "known", NamedItems("relation", self.known))
        object.__setattr__(self, "entities", NamedItems("axis or index", self.entities))

    @classmethod
    def _of(cls, origin: Origin, members: Sequence[Member], stop: Stop | None) -> Self:
        """Fit from the states of the loops; shows the member with the best objective.

        With bootstrap the objectives are not comparable, and the first member is shown. `stop`: why the whole fit
        stopped; None if it has not.
        """
        fits = [cls._alone(origin, member) for member in _ready(members)]
        best = fits[0] if origin.settings.get("bootstrap") else max(fits, key=lambda fit: fit.objective)
        stop = stop or unfinished(members[-1].state.history[-1])
        best = replace(best, stop=stop, calibration=origin.calibration)
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
            origin.known, origin.settings, origin.fingerprint, state, titles=origin.titles, given_names=member.names,
        )  # fmt: skip

    @cached_property
    def _sums(self) -> dict[Any, Array]:
        """Cache of sums over the rows of factors (`plait.incremental`)."""
        return {}

    @cached_property
    def _cached_answers(self) -> dict[str, Any]:
        """Cache of results that take a pass over all known links."""
        return {}

    @property
    def converged(self) -> bool:
        """Whether the fit stopped because the objective converged."""
        return self.stop.reason in (Reason.CONVERGED, Reason.NOTHING)

    @property
    def members(self) -> tuple[Self, ...]:
        """The fits of an ensemble, or this one."""
        return self.ensemble or (self,)

    @property
    def likelihood_params(self) -> dict[str, dict[str, float]]:
        """Parameters of each relation's likelihood, estimated or given; empty for counts and links."""
        return {name: dict(self.state.likelihood_params.get(name, {})) for name in self.likelihood}

    @property
    def _origin(self) -> Origin:
        return Origin(
            self.model, self.method, self.seed, self.entities, self.likelihood, self.exposures, self.known,
            self.settings, self.fingerprint, self.titles, self.calibration,
        )  # fmt: skip

    def __dir__(self) -> list[str]:
        internal = ("ensemble", "exposures", "given_names", "state")
        return [name for name in super().__dir__() if not name.startswith("_") and name not in internal]

    def _uncalibrated(self) -> Self:
        """The fit with the probabilities of its posterior; searches bound these."""
        return replace(self, calibration={}) if self.calibration else self

    def _with_known(self, known: dict[str, Known]) -> Self:
        """The fit with these known links."""
        ensemble = tuple(replace(member, known=known) for member in self.ensemble)
        return replace(self, known=known, ensemble=ensemble)

    def _with_bound_titles(self, titles: Mapping[str, Titles]) -> Self:
        """The fit with these titles."""
        ensemble = tuple(replace(member, titles=titles) for member in self.ensemble)
        return replace(self, titles=titles, ensemble=ensemble)

    def _with_given_names(self, names: Mapping[str, Mapping[int, str]]) -> Self:
        """The fit with these names of its components, which are those of the member that it shows."""
        ensemble = tuple(
            replace(member, given_names=names) if member.state is self.state else member for member in self.ensemble
        )
        return replace(self, given_names=names, ensemble=ensemble)

    def _same_rows(self, data: Data, name: str) -> bool:
        """Whether a factor has the same entities in other data."""
        axes = {self.model.axis(index) for index in self.model.factor(name).visible}
        return all(axis in data.entities and self.entities[axis] == data.entities[axis] for axis in axes)

    def _aligned(self, data: Data, layouts: Mapping[str, Layout]) -> dict[str, Any]:
        """Starting points for a fit of other data: rows by name; a new entity starts as the average."""
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
        C, D, mean, exp_mean_log = factor.concentration, factor.scale, factor.mean, factor.exp_mean_log
        for axis, index in enumerate(factor.indices):
            if index in data.sizes:
                rows = self.entities[index].encode(data.entities[index].names, unknown="mark")
                C, D, mean, exp_mean_log = (_rows(array, rows, axis) for array in (C, D, mean, exp_mean_log))
        return Posterior(factor.indices, C, D, mean, exp_mean_log)


def _as_written(layout: Layout, inside: Array) -> Array:
    """Array of a prior from inside to written order, with length 1 where tied."""
    array = inside.transpose([layout.inside.index(index) for index in layout.indices])
    if layout.pairs is None:
        return array
    sizes = dict(zip(layout.indices, array.shape))
    return array.reshape([sizes.get(index, 1) for index in layout.pairs.indices])


def _of_pairs(factor: Posterior, then: Pairs, now: Pairs) -> Posterior:
    """Posterior of a factor over other pairs of the same entities: a new pair has its shared row."""
    own = then.find(columns_of(now.coords))
    rows = np.concatenate([own, np.arange(len(then), then.rows)])
    C, D, mean, exp_mean_log = (a[rows] for a in (factor.concentration, factor.scale, factor.mean, factor.exp_mean_log))
    return Posterior(factor.indices, C, D, mean, exp_mean_log, now)


def unfinished(last: Record) -> Stop:
    """Stop of a loop that is not at its end."""
    when = "of the warm-up" if last.warm_up else f"after sweep {last.sweep}"
    return Stop(Reason.UNFINISHED, f"not finished: this is the checkpoint {when}.", "Continue with `init`.")


def _ready(members: Sequence[Member]) -> Sequence[Member]:
    """Members that are past their warm-up, if any."""
    return [m for m in members if not m.state.history[-1].warm_up] or members[:1]


def _rows(array: Array, rows: NDArray[np.int64], axis: int) -> Array:
    """Rows by number along an axis; −1 takes the average."""
    average = array.mean(axis=axis, keepdims=True)
    return np.take(np.concatenate([array, average], axis=axis), rows, axis=axis)


def sparse_sums(fit: Fitted, sparse: SparseFactor) -> tuple[Array, Array]:
    """Mean and variance of Σ_q w[q] N at all cells of a sparse given factor, of one member; cached."""
    key = f"sums of {sparse.factor}"
    if key not in fit._cached_answers:
        weights = fit.factors[sparse.weights]
        fit._cached_answers[key] = (sparse.sums(weights.mean), sparse.squares(weights.sd**2))
    return cast(tuple[Array, Array], fit._cached_answers[key])


def structural_zeros_of(fit: Fitted, relation: str) -> StructuralZeros:
    """The cells of a relation that no link is expected in: by rules of the data, and slices without self-links."""
    key, known, indices = f"structural zeros {relation}", fit.known[relation], fit.model.equation(relation).indices
    if key not in fit._cached_answers:
        zeros = replace(known.structural_zeros, indices=indices, shape=known.shape)
        if known.rule is None or known.rule.self_links != "observed":
            pieces = (known.written_in(cells) for cells, _, _ in known.pieces(TUNING.listing_chunk))
            zeros = add_diagonal_slices(zeros, [fit.model.axis(index) for index in indices], pieces, known.groups)
        fit._cached_answers[key] = zeros
    return cast(StructuralZeros, fit._cached_answers[key])
