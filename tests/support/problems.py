"""Small problems: data for Plait, and the oracle's problem of the same data, and a fit's state as the oracle's."""

import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import plait
from plait.executors import Reference
from tests.support import oracle
from tests.support.models import DOUBLED, EXPOSED, GIVEN, MODELS, ONLY_EXPOSED, RANKS, SIZES, SUMS
from tests.support.ways_of_observing import observe, off_diagonal, undirected

PLAIN = MODELS | SUMS | DOUBLED

# Kernels equal dense sums (tests/codegen, tests/inference/test_against_oracle.py), and laws of fits hold by either:
# in the first tier they are compiled for these models only.
COMPILED = {"matrix", "cp3", "tucker", "two_visible", "bias", "scalar", "coupled_paper"}
ALL = False

# Sweeps, as docs/ARCHITECTURE.md says them.
WARM_UP = 50  # of EM before VB
ADAPT_AFTER, ADAPT_WARM = 10, 30  # before priors adapt, without and after a warm-up
RANK_ONE_MEAN_SWEEPS = 20  # before the concentrations of rank-one priors adapt

PRIOR = {"vb": plait.Gamma(0.7, 1.3), "map": plait.Gamma(1.6, 1.3)}


class Start:
    """A posterior handed over as a start."""

    def __init__(self, concentration, scale):
        self.concentration, self.scale = concentration, scale


@dataclass(frozen=True)
class Case:
    """A model with data: bound for Plait, dense for the oracle."""

    model: plait.Model
    data: Any
    problem: oracle.Problem
    fixed: dict[str, Any] | None
    dense: bool = field(default=False, kw_only=True)  # fits, where nothing is said of who does the work

    @property
    def rank(self):
        return {index: RANKS[index] for index in self.model.ranks} or None

    def fit(self, method="vb", **settings):
        """A fit that stops for nothing but `max_iter`, on one thread, seeded, without a warm-up."""
        if method == "vb" and "init" not in settings:
            settings = {"warmup": 0} | settings
        if method in PRIOR:
            settings = {"prior": PRIOR[method]} | settings
        settings = {"rank": self.rank, "fixed": self.fixed, "tol": 0.0, "seed": 0} | settings
        if "executor" not in settings:
            dense = self.dense and not settings.keys() & {"threads", "dtype"}
            settings = ({"executor": Reference()} if dense else {"threads": 1}) | settings
        return plait.fit(self.model, self.data, method=method, **settings)

    def start(self, seed, method="vb"):
        """A random state, as the oracle has it."""
        return oracle.start(self.problem, SIZES | RANKS, np.random.default_rng(seed), method)

    def under(self, fit):
        """The oracle's problem under the priors that a fit reports."""
        return replace(self.problem, prior={name: (p.concentration, p.mean) for name, p in fit.prior.items()})

    def objective(self, fit):
        """The bound, log-likelihood or log joint of a fit's state, from scratch and dense."""
        return oracle.objective(self.under(fit), state_of(fit, self.problem.free), fit.method)

    def slack(self, fit):
        """|F| + |G| + |KL| of a fit's state: what tolerances are relative to."""
        problem, state = self.under(fit), state_of(fit, self.problem.free)
        if fit.method == "vb":
            return oracle.bound_terms(problem, state).scale
        rate = oracle.total_rate(problem, state | dict(problem.given))
        prior = oracle.log_prior(problem, state) if fit.method == "map" else 0.0
        return abs(oracle.log_likelihood(problem, state) + rate) + rate + abs(prior)


def as_counts(data):
    """Data of a relation, or of several by name, as Poisson counts where no likelihood is named."""
    if isinstance(data, dict):
        return {name: as_counts(one) for name, one in data.items()}
    relation = data if isinstance(data, plait.Relation) else plait.Relation(data)
    return replace(relation, likelihood="poisson") if relation.likelihood == "auto" else relation


def make(name, way="all", likelihood="poisson", *, exposed=False):
    """A model of `support.models` with data drawn from it, observed in a way of `support.ways_of_observing`."""
    model = plait.Model((EXPOSED | ONLY_EXPOSED if exposed else PLAIN)[name])
    plain = oracle.from_model(model)
    rng = np.random.default_rng(zlib.crc32(f"{name} {way} {likelihood} {exposed}".encode()))
    given = [factor for factor in oracle.factor_indices(plain) if factor in GIVEN]
    drawn = oracle.instance(plain, SIZES | RANKS, rng, likelihood=likelihood, missing=0.0, given=given)
    drawn = replace(drawn, given=without_order(model, dict(drawn.given)))
    data, M = {}, {}
    for relation in oracle.relations_of(plain):
        data[relation], M[relation] = seen(way, model.equation(relation), drawn.X[relation], likelihood, rng)
    bound = model.bind(data, entities={axis: range(SIZES[axis]) for axis in model.axes})
    dense = not ALL and name not in COMPILED
    return Case(model, bound, replace(drawn, M=M), dict(drawn.given) or None, dense=dense)


def without_order(model, given):
    """Given factors, symmetric where they are those of pairs that have no order."""
    for equation in model.equations:
        for use in equation.occurrences:
            for pair in equation.exchanged:
                if use.factor in given and equation.is_of_pairs(use, pair):
                    array = given[use.factor]
                    given[use.factor] = (array + array.swapaxes(*(use.indices.index(index) for index in pair))) / 2
    return given


def seen(way, equation, X, likelihood, rng):
    """A relation seen in some way, as its equation allows: not where a factor would meet itself."""
    arguments = way, equation.indices, X, likelihood, rng
    if equation.exchanged:
        return undirected(*arguments, equation.exchanged[0])
    if equation.doubled:
        return off_diagonal(*arguments, equation.doubled[0])
    return observe(*arguments)


def starts(state):
    """The oracle's state as `init=`."""
    return {name: Start(*value) if isinstance(value, tuple) else value for name, value in state.items()}


def state_of(fit, free):
    """A fit's factors as the oracle's state."""
    if fit.method == "vb":
        return {name: (fit.factors[name].concentration, fit.factors[name].scale) for name in free}
    return {name: fit.factors[name].mean for name in free}


def own_bounds(fit):
    """The bound at the start of a fit's own sweeps and after each of them; a warm-up has another."""
    return np.array([record.objective for record in fit.history if not record.warm_up])


def bits(fit):
    """Everything a fit found, as bytes: for claims of exact equality."""
    arrays = [a for f in fit.factors.values() for a in (f.concentration, f.scale, f.mean, f.exp_mean_log)]
    arrays += [a for p in fit.prior.values() for a in (p.concentration, p.mean)]
    return [a.tobytes() for a in arrays], [record.objective for record in fit.history]


def assert_same(fit, other, rtol=1e-9):
    """Two fits agree to rounding."""
    assert other.objective == fit.objective or abs(other.objective - fit.objective) <= rtol * abs(fit.objective)
    for name in fit.factors:
        np.testing.assert_allclose(other.factors[name].mean, fit.factors[name].mean, rtol=rtol, err_msg=name)
        np.testing.assert_allclose(other.factors[name].sd, fit.factors[name].sd, rtol=rtol, err_msg=name)
