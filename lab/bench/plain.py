"""The VB sweep of docs/math.md (section 4) in plain NumPy, for any equation with visible indices first in every factor.

What a good NumPy user would write: nonzeros in chunks that fit the cache, rows gathered with take, products by einsum
along a path found once, rows added up by one bincount. It uses one core (but for BLAS inside einsum).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, psi

from lab.bench.data import Case, Cells

CHUNK = 1 << 16
Arrays = dict[str, np.ndarray]


def start(case: Case, seed: int = 0) -> Arrays:
    """Random factors, axes as written."""
    rng = np.random.default_rng(seed)
    shapes = {name: indices for _, factors in _equations(case.model).items() for name, indices in factors.items()}
    return {name: rng.gamma(1.0, 1.0, [case.sizes[i] for i in indices]) for name, indices in shapes.items()}


class Plain:
    """A state of the fit, and the sweep that replaces it. E, L: mean and geometric mean of every factor."""

    def __init__(self, case: Case, factors: Arrays, concentration: float = 0.5, mean: float = 10.0):
        equations = _equations(case.model)
        self.relations = [
            _Relation(cells, equations[name], case.sizes, case.likelihood) for name, cells in case.relations.items()
        ]
        hidden = {name: replace(case.relations[name], index=at, x=np.ones(len(at))) for name, at in case.hidden.items()}
        self.hidden = [
            _Relation(hidden[name], equations[name], case.sizes) if name in hidden else None for name in case.relations
        ]
        self.listed = case.observed == "listed"
        self.E, self.L = dict(factors), dict(factors)
        self.A, self.B = concentration, mean
        self.constant = -sum(gammaln(relation.cells.x + 1).sum() for relation in self.relations)  # 0 where all x are 1
        self.rest = np.nan  # the bound without F(L): known after the first sweep

    def counts(self) -> tuple[Arrays, float]:
        """Expected counts L ∘ ∂F/∂L of every factor over all relations, and F(L) = Σ X log Xhat_L."""
        gradient, F = {name: np.zeros_like(L) for name, L in self.L.items()}, 0.0
        for relation in self.relations:
            F += relation.counts(self.L, gradient)
        return {name: self.L[name] * gradient[name] for name in gradient}, F

    def exposure(self, name: str) -> list[np.ndarray]:
        """∂G/∂E of a factor in each relation that has it, broadcastable to the factor."""
        found = []
        for relation, hidden in zip(self.relations, self.hidden):
            if name in relation.factors:
                whole = relation.listed_exposure if self.listed else relation.full_exposure
                found.append(whole(self.E, name) - (hidden.listed_exposure(self.E, name) if hidden else 0.0))
        return found

    def sweep(self) -> float:
        """One sweep. Returns the bound of the state it began with (NaN the first time)."""
        A, B = self.A, self.B
        counts, F = self.counts()
        bound = F + self.rest
        kl = 0.0
        for name in counts:
            C = A + counts[name]
            D = 1 / (A / B + sum(self.exposure(name)))
            D = np.broadcast_to(D, C.shape)
            psi_C, log_D = psi(C), np.log(D)
            self.E[name] = C * D
            self.L[name] = np.exp(psi_C) * D
            gain = (A - 1) * (psi_C + log_D) - A / B * self.E[name] + A * np.log(A / B) - gammaln(A)
            kl -= (gain - (C - 1) * psi_C + log_D + C + gammaln(C)).sum()
        self.rest = self.constant - self.total() - kl
        return bound

    def total(self) -> float:
        """G(E): the expected total over the observed cells."""
        whole = sum(r.listed_total(self.E) if self.listed else r.full_total(self.E) for r in self.relations)
        return whole - sum(hidden.listed_total(self.E) for hidden in self.hidden if hidden)


@dataclass
class _Relation:
    """One equation with its nonzeros. factors: indices of each factor, as written."""

    cells: Cells
    factors: dict[str, tuple[str, ...]]
    sizes: dict[str, int]
    likelihood: str = "poisson"

    def __post_init__(self):
        axes = self.cells.axes
        names = dict.fromkeys(index for indices in self.factors.values() for index in indices)
        letters = {index: chr(ord("a") + m) for m, index in enumerate(names)}  # "z" is the nonzero
        self.full = {f: "".join(letters[i] for i in indices) for f, indices in self.factors.items()}
        self.visible = {f: [i for i in indices if i in axes] for f, indices in self.factors.items()}
        latent = {f: "".join(letters[i] for i in indices if i not in axes) for f, indices in self.factors.items()}
        self.at_nonzero = {f: ("z" if self.visible[f] else "") + latent[f] for f in self.factors}
        self.paths: dict[str, list] = {}

    def einsum(self, inputs: list[str], output: str, *arrays: np.ndarray) -> np.ndarray:
        equation = f"{','.join(inputs)}->{output}"
        if equation not in self.paths:
            # the default limit of memory forbids products larger than an input, which makes Tucker several times slower
            self.paths[equation] = np.einsum_path(equation, *arrays, optimize=("optimal", 1 << 30))[0]
        return np.einsum(equation, *arrays, optimize=self.paths[equation])

    def chunks(self, Z: Arrays) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray], Arrays]]:
        """Values, row numbers and gathered rows (nonzero, latent…) of each factor, chunk by chunk."""
        for begin in range(0, len(self.cells.x), CHUNK):
            part = slice(begin, begin + CHUNK)
            column = {axis: self.cells.index[part, m].astype(np.intp) for m, axis in enumerate(self.cells.axes)}
            rows, gathered = {}, {}
            for f, visible in self.visible.items():
                gathered[f] = Z[f]
                if visible:
                    shape = [self.sizes[i] for i in visible]
                    rows[f] = (
                        np.ravel_multi_index([column[i] for i in visible], shape) if visible[1:] else column[visible[0]]
                    )
                    gathered[f] = Z[f].reshape(np.prod(shape), *Z[f].shape[len(shape) :]).take(rows[f], axis=0)
            yield self.cells.x[part], rows, gathered

    def rate(self, gathered: Arrays) -> np.ndarray:
        """Xhat at the nonzeros of a chunk."""
        return self.einsum([*self.at_nonzero.values()], "z", *gathered.values())

    def add_gradient(
        self, f: str, weight: np.ndarray, rows: dict[str, np.ndarray], gathered: Arrays, out: np.ndarray
    ) -> None:
        """Add Δ_f(weight) of a chunk to `out`, which has the shape of the factor."""
        others = [g for g in self.factors if g != f]
        inputs = ["z", *(self.at_nonzero[g] for g in others)]
        gradient = self.einsum(inputs, self.at_nonzero[f], weight, *(gathered[g] for g in others))
        if f in rows:
            width = gradient[0].size
            flat = (rows[f][:, None] * width + np.arange(width)).ravel()
            gradient = np.bincount(flat, weights=gradient.ravel(), minlength=out.size).reshape(out.shape)
        out += gradient

    def counts(self, L: Arrays, gradient: Arrays) -> float:
        """Add ∂F/∂L of every factor to `gradient`; return F. One pass over the nonzeros."""
        F = 0.0
        for x, rows, gathered in self.chunks(L):
            xhat = self.rate(gathered)
            if self.likelihood == "bernoulli":
                chance = -np.expm1(-xhat)
                F += (xhat + np.log(chance)).sum()
                ratio = 1 / chance
            else:
                F += x @ np.log(xhat)
                ratio = x / xhat
            for f in self.factors:
                self.add_gradient(f, ratio, rows, gathered, gradient[f])
        return F

    def listed_exposure(self, E: Arrays, f: str) -> np.ndarray:
        """∂G/∂E where only the nonzeros are observed: one pass over them."""
        out = np.zeros_like(E[f])
        for x, rows, gathered in self.chunks(E):
            self.add_gradient(f, np.ones_like(x), rows, gathered, out)
        return out

    def full_exposure(self, E: Arrays, f: str) -> np.ndarray:
        """∂G/∂E where every cell is observed: the others contracted, sums only. Broadcastable to the factor."""
        others = [g for g in self.factors if g != f]
        seen = {letter for g in others for letter in self.full[g]}
        output = "".join(letter for letter in self.full[f] if letter in seen)
        exposure = self.einsum([self.full[g] for g in others], output, *(E[g] for g in others))
        return exposure.reshape([E[f].shape[m] if letter in seen else 1 for m, letter in enumerate(self.full[f])])

    def listed_total(self, E: Arrays) -> float:
        return sum(self.rate(gathered).sum() for _, _, gathered in self.chunks(E))

    def full_total(self, E: Arrays) -> float:
        return float(self.einsum([*self.full.values()], "", *(E[f] for f in self.factors)))


def _equations(model: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """relation -> factor -> its indices."""
    equations = {}
    for line in model.strip().splitlines():
        (name, _), *factors = re.findall(r"(\w+)\[(.*?)\]", line)
        equations[name] = {factor: tuple(re.findall(r"\w+", indices)) for factor, indices in factors}
    return equations
