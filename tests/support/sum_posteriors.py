"""Rates of fits with chosen posteriors: moments by enumeration, and exact draws; sums of products."""

import functools
import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import plait
from plait import Posterior
from plait.data.binding.given import bind_exposures
from plait.data.binding.known import Known
from plait.data.observation.links import LinksInMemory

SIZES = {"i": 4, "j": 3, "k": 2}
RANKS = {"p": 2, "q": 3, "r": 3, "s": 2}

# V, N and O are given; O is a sparse table whose default is 0.
SUMS = {
    "pairwise": "X[i,j,k] = A[i,r] B[j,r] + C[j,s] D[k,s] + a[i] b[j] c[k]",
    "background": "X[i,j] = A[i,r] B[j,r] + a[i] + c[]",
    "shared": "X[i,j,k] = A[i,r] (B[j,r] + C[k,r])",
    "all_shared": "X[i,j,k] = A[i,r] B[j,r] + B[j,r] C[k,r] + A[i,r] C[k,r]",
    "chain_of_shared": "X[i,j,k] = A[i,r] B[j,r] + A[i,r] D[i,k,r] + D[i,k,r] w[r] + a[j]",
    "twice": "X[i,j] = A[i,r] A[j,r]; j: i",
    "twice_and_biases": "X[i,j] = A[i,r] A[j,r] + b[i] + b[j]; j: i",
    "twice_and_shared": "X[i,j] = A[i,r] A[j,r] w[r] + A[i,r] B[j,r]; j: i",
    "twice_around_a_core": "X[i,k,j] = A[i,p] G[p,k,q] A[j,q]; j: i",
    "a_core_both_ways": "X[i,j] = A[i,p] G[p,q] A[j,q] + A[i,q] G[p,q] A[j,p]; j: i",
    "a_core_and_its_diagonal": "X[i,j] = A[i,p] G[p,q] A[j,q] + A[i,p] A[j,p]; j: i",
    "exchanged": "X[i,j] = A[i,r] B[j,r] + A[j,r] B[i,r]; j: i",
    "exchanged_cores": "X[i,k,j] = A[i,p] G[p,k] B[j,p] + A[j,p] G[p,k] B[i,p] + c[k]; j: i",
    "tucker_and_cp": "X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r] + D[i,s] E[j,s] F[k,s]",
    "shared_core": "X[i,j,k] = A[i,p] G[p,q] B[j,q] + C[k,p] G[p,q] B[j,q]",
    "shared_and_summed_alone": "X[i,j] = A[i,r] B[j,r] + A[i,r] d[j]",
    "shared_scale": "X[i,j] = b[i] A[i,r] B[j,r] + b[i] d[j]",
    "exposed": "X[i,j] = V[i,j] A[i,r] B[j,r] + w[] N[i,j] + c[i]",
    "exposed_and_shared": "X[i,j,k] = V[i,j] (A[i,r] B[j,r] + A[i,r] C[k,r]) + A[i,r] C[k,r] N[i,k]",
    "given_only": "X[i,j] = A[i,r] B[j,r] + N[i,j]",
    "given_with_default_zero": "X[i,j] = O[i,j] A[i,r] B[j,r] + a[j] O[i,j] + b[i]",
    "given_and_core": "X[i,j] = A[i,p] G[p,q] B[j,q] + w[] V[i,j] + N[j,i]",
}
GIVEN = ("V", "N", "O")


@dataclass(frozen=True, eq=False)
class Rates:
    """The rates of one relation of a fit with its given arrays; factors that are in neither count as 1."""

    fit: Any
    given: dict[str, np.ndarray] = field(default_factory=dict)
    relation: str = "X"

    @property
    def equation(self):
        return self.fit.model.equation(self.relation)

    def of(self, term):
        """The occurrences of a term whose arrays are known."""
        return [o for o in term.occurrences if o.factor in self.given or o.factor in self.fit.factors]

    def rows(self):
        """Every cell, but for those in which a factor would take one row twice."""
        shape = [self.fit.known["X"].shape[n] for n in range(len(self.equation.indices))]
        rows = np.indices(shape).reshape(len(shape), -1).T.astype(np.int64)
        for i, j in self.equation.doubled:
            rows = rows[rows[:, self.equation.indices.index(i)] != rows[:, self.equation.indices.index(j)]]
        return rows

    def moments(self, row):
        """E[λ] and Var[λ] by enumeration: over products of entries, and over all pairs of such products."""
        monomials = list(self._monomials(dict(zip(self.equation.indices, map(int, row)))))
        first = sum(c * np.prod([self._moment(e, 1) for e in entries]) for c, entries in monomials)
        second = 0.0
        for (c, here), (d, there) in itertools.product(monomials, repeat=2):
            both = here & there
            second += c * d * np.prod([self._moment(e, 2) for e in both] + [self._moment(e, 1) for e in here ^ there])
        return first, second - first**2

    def _monomials(self, where):
        """(coefficient, set of entries) for every setting of the latent indices of every term."""
        for term in self.equation.terms:
            latent = self.equation.latent_of(term)
            for setting in itertools.product(*(range(self.fit.rank[self.fit.model.axis(i)]) for i in latent)):
                at = where | dict(zip(latent, setting))
                entries = [(o.factor, tuple(at[i] for i in o.indices)) for o in self.of(term)]
                coefficient = np.prod([self.given[name][place] for name, place in entries if name in self.given])
                free = [entry for entry in entries if entry[0] not in self.given]
                assert len(set(free)) == len(free)
                yield float(coefficient), frozenset(free)

    def _moment(self, entry, order):
        name, place = entry
        posterior = self.fit.factors[name]
        mean = posterior.mean[place]
        return mean if order == 1 else mean**2 + posterior.sd[place] ** 2

    def rates(self, row, draws, rng):
        """Draws of λ at one cell, (draws,): entries of factors drawn once for all terms, then the equation."""
        where = dict(zip(self.equation.indices, map(int, row)))
        drawn: dict[Any, np.ndarray] = {}
        total = np.zeros(draws)
        for term in self.equation.terms:
            inputs, letters = [np.ones(draws), [0]], {}
            for o in self.of(term):
                at = tuple(where.get(i, slice(None)) for i in o.indices)
                if o.factor in self.given:
                    inputs += [self.given[o.factor][at], []]
                    continue
                key = (o.factor, tuple(where.get(i) for i in o.indices))
                if key not in drawn:
                    posterior = self.fit.factors[o.factor]
                    C, D = posterior.concentration[at], posterior.scale[at]
                    drawn[key] = rng.gamma(C, D, (draws, *np.shape(C)))
                latent = [letters.setdefault(i, len(letters) + 1) for i in o.indices if i not in where]
                inputs += [drawn[key], [0, *latent]]
            total += np.einsum(*inputs, [0], optimize=True)
        return total


def posterior(indices, shape, rng, low, high):
    """Concentrations between low and high, means about 1."""
    C = np.exp(rng.uniform(np.log(low), np.log(high), shape))
    E = rng.gamma(2.0, 0.5, shape)
    return Posterior(indices, C, E / C, E, E)


def sum_fit(text, rng, low=0.1, high=20.0, sizes=SIZES, ranks=RANKS):
    """A fit of an equation for X with random posteriors; V, N and O are given."""
    model = plait.Model(text.replace("; ", "\n"))
    equation = model.equations[0]
    size = {index: sizes[model.axis(index)] for index in equation.indices}
    rank = {index: ranks[index] for index in model.ranks}
    size |= {index: rank[model.axis(index)] for index in model.latent}
    shape = {o.factor: tuple(size[i] for i in o.indices) for o in equation.occurrences}
    given = {name: rng.gamma(1.0, 1.0, shape[name]) for name in equation.factors if name in GIVEN}
    for name in given.keys() & {"O"}:
        given[name] *= rng.random(shape[name]) < 0.5
    visible = tuple(size[index] for index in equation.indices)
    data = model.bind({"X": np.ones(visible)})
    factors = {
        name: posterior(model.factor(name).indices, shape[name], rng, low, high)
        for name in model.factors
        if name not in given
    }
    known = Known(
        visible,
        LinksInMemory.of(("",) * len(visible), visible, np.zeros((0, len(visible)), np.int64), np.zeros(0), np.ones(0)),
    )
    fit = replace(
        _any_fit(),
        model=model,
        rank=rank,
        factors=factors,
        prior={},
        entities=data.entities,
        likelihood={"X": "poisson"},
        exposures=bind_exposures(data, given),
        known={"X": known},
    )
    return Rates(fit, given)


@functools.cache
def _any_fit():
    return plait.fit("X[i] = A[i,r]", {"X": np.ones(2)}, rank=1, max_iter=1, seed=0)
