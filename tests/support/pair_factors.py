"""Equations with free factors over pairs, fits of them, and those of docs/math.md, section 10, written densely.

`whole` makes of a fit's factor the array over all pairs that it stands for; everything here is then summed over all
cells and all pairs, so that nothing knows which of them have rows of their own but the update of the shared ones.
"""

import warnings
import zlib
from dataclasses import replace

import numpy as np
from scipy.special import gammaln, psi, xlogy

import plait
from plait import Posterior
from plait.executors import Reference
from tests.support.ways_of_observing import observe

PAIRS: dict[str, str] = {
    "lone": "X[i,j] = M[i,j]",
    "alone": "X[i,j] = M[i,j] + A[i,r] B[j,r]",
    "narrow": "X[i,j,k] = M[i,j] + A[i,r] B[j,r] C[k,r]",
    "turned": "X[i,j,k] = M[k,i] c[j] + A[i,r] B[j,r] C[k,r]",
    "memory": "X[i,j,k] = M[i,j,z] A[i,r] B[j,r] C[k,r]",
    "woven": "X[i,j,k] = M[j,r,i] C[k,r]",
    "exposure": "X[i,j,k] = M[i,j] A[i,r] C[k,r]",
    "two": "X[i,j,k] = M[i,j,z] N[j,k,y] A[i,r] B[j,r] C[k,r]",
    "parallel": "X[i,j,k] = M[i,j,r] N[i,j] C[k,r]",
    "both_terms": "X[i,j,k] = M[i,j] C[k,r] w[r] + M[i,j] + b[k]",
    "triple": "X[i,j,k] = T[i,j,k] + M[j,k] A[i,r] B[j,r]",
    "coupled": "X[i,j] = M[i,j] + A[i,r] B[j,r]; Y[i,j,k] = M[i,j] C[k,r] B[j,r]",
    "renamed": "X[i,h] = M[i,h] + A[i,r] B[h,r]; Y[h,i] = M[h,i] a[i]; h: i",
}
SIZES = {"i": 7, "j": 6, "k": 4, "h": 7}
RANKS = {"r": 3, "z": 2, "y": 2}
PRIORS = {"vb": plait.Gamma(0.7, 1.3), "map": plait.Gamma(1.6, 1.3), "em": None}


def draw(name, way="all", likelihood="poisson"):
    """A model, relations of few links, and their X and M over all cells."""
    model = plait.Model(PAIRS[name])
    rng = np.random.default_rng(zlib.crc32(f"{name} {way} {likelihood}".encode()))
    relations, X, M = {}, {}, {}
    for equation in model.equations:
        shape = [SIZES[index] for index in equation.indices]
        counts = rng.poisson(1.5, shape) * (rng.random(shape) < 0.15)
        counts[(0, 2, 0)[: len(shape)]] = 1  # so that there is a link, however few are drawn
        counts[_diagonal(model, equation)] = 0
        X[equation.relation] = np.minimum(counts, 1.0) if likelihood == "bernoulli" else counts.astype(float)
        one, weights = observe(way, equation.indices, X[equation.relation], likelihood, rng)
        if equation.doubled or way != "listed":  # without a self-link the diagonal is unobserved
            weights = np.where(_diagonal(model, equation), 0.0, weights)
        relations[equation.relation], M[equation.relation] = one, weights
        X[equation.relation] = np.where(weights > 0, X[equation.relation], 0.0)
    labels = {axis: range(SIZES[axis]) for axis in model.axes}
    return model, model.bind(relations, entities=labels), X, M


def _diagonal(model, equation):
    """The cells with one entity at two indices."""
    rows = np.indices([SIZES[index] for index in equation.indices])
    places = {model.axis(index): n for n, index in enumerate(equation.indices)}
    repeated = [(n, places[model.axis(i)]) for n, i in enumerate(equation.indices) if places[model.axis(i)] != n]
    return np.any([rows[n] == rows[k] for n, k in repeated] or np.zeros((1, *rows.shape[1:]), bool), axis=0)


def fit_of(model, data, method="vb", **settings):
    """A fit that stops for nothing but its sweeps."""
    if PRIORS[method] is not None:
        settings = {"prior": PRIORS[method]} | settings
    if method == "vb":
        settings = {"adapt_prior": None} | settings
    rank = {index: RANKS[index] for index in model.latent} or None
    settings = {"rank": rank, "seed": 0, "tol": 0.0, "max_iter": 4} | settings
    settings = settings if "threads" in settings else {"executor": Reference()} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.errors.MissingExposureWarning)  # some of the equations have one
        return plait.fit(model, data, method=method, **settings)


# --- a fit's state, over all pairs


def whole(fit, name, array):
    """An array of a fit's factor, over all entities of its visible indices, axes as written."""
    pairs = fit.factors[name].pairs
    if pairs is None:
        return array
    own, shared = array[: len(pairs.coords)], array[len(pairs.coords) :]
    latent = [index for index in pairs.indices if index not in pairs.visible]
    result = np.empty((*pairs.sizes, *array.shape[1:]))
    result[...] = shared.reshape(len(shared), *(1,) * (len(pairs.sizes) - 1), *array.shape[1:])
    result[tuple(pairs.coords.T.astype(int))] = own
    order = [*pairs.visible, *latent]
    return result.transpose([order.index(index) for index in pairs.indices])


def state_of(fit):
    """(C, D) of every factor, or Z twice."""
    words = ("concentration", "scale") if fit.method == "vb" else ("mean", "mean")
    return {name: tuple(whole(fit, name, getattr(f, w)) for w in words) for name, f in fit.factors.items()}


def means(state, method):
    return {name: C * D if method == "vb" else C for name, (C, D) in state.items()}


def geomeans(state, method):
    return {name: np.exp(psi(C)) * D if method == "vb" else C for name, (C, D) in state.items()}


# --- sums over all cells


def _einsum(arrays, output):
    """The sum over all indices but those of the output; arrays: (indices, array)."""
    letters = {}
    labels = [[letters.setdefault(i, len(letters)) for i in indices] for indices, _ in arrays]
    inputs = [part for (_, array), own in zip(arrays, labels) for part in (array, own)]
    return np.einsum(*inputs, [letters[i] for i in output])


def _ones(equation):
    return [((index,), np.ones(SIZES[index])) for index in equation.indices]


def rates(equation, Z):
    """Xhat, the terms added up."""
    terms = [[(o.indices, Z[o.factor]) for o in term.occurrences] for term in equation.terms]
    return sum(_einsum([*_ones(equation), *term], equation.indices) for term in terms)


def gradient(model, weights, Z, name):
    """∂/∂Z Σ_relations Σ weights · Xhat of one factor, over all pairs."""
    total = np.zeros(Z[name].shape)
    for equation in model.equations:
        for term in equation.terms:
            for n, mine in enumerate(term.occurrences):
                if mine.factor == name:
                    others = [(o.indices, Z[o.factor]) for k, o in enumerate(term.occurrences) if k != n]
                    sizes = [((i,), np.ones(s)) for i, s in zip(mine.indices, Z[name].shape)]
                    arrays = [(equation.indices, weights[equation.relation]), *others, *sizes]
                    total += _einsum(arrays, mine.indices)
    return total


def objective(model, state, method, prior, X, M, likelihood="poisson"):
    """The bound, log joint or log-likelihood of a state, and |F| + |G| + |KL|."""
    E, L, data, rate, divergence = means(state, method), geomeans(state, method), 0.0, 0.0, 0.0
    for equation in model.equations:
        x, m, low = X[equation.relation], M[equation.relation], rates(equation, L)
        links = (x > 0) & (m > 0)
        x, m, low = x[links], m[links], low[links]
        data += m @ (np.log(np.expm1(low)) if likelihood == "bernoulli" else x * np.log(low) - gammaln(x + 1))
        rate += float(np.sum(M[equation.relation] * rates(equation, E)))
    for name, (C, D) in state.items() if method != "em" else ():
        A, B = np.asarray(prior[name].concentration), np.asarray(prior[name].mean)
        A, B = (np.broadcast_to(a, C.shape) for a in (A, B))
        if method == "vb":
            kl = (C - A) * psi(C) - gammaln(C) + gammaln(A) + A * np.log(B / (A * D)) + C * (D * A / B - 1)
            divergence += float(kl.sum())
        else:
            divergence -= float(np.sum(xlogy(A - 1, C) - A / B * C + A * np.log(A / B) - gammaln(A)))
    return data - rate - divergence, abs(data) + abs(rate) + abs(divergence)


# --- one sweep, over all pairs


def remembered(model, X, M, name):
    """Which pairs have a link in any relation, over the visible indices as first written."""
    factor = model.factor(name)
    found = np.zeros([SIZES[index] for index in factor.visible], bool)
    for equation in model.equations:
        for occurrence in equation.occurrences:
            if occurrence.factor == name:
                here = dict(zip(factor.indices, occurrence.indices))
                places = [equation.indices.index(here[index]) for index in factor.visible]
                cells = np.argwhere((X[equation.relation] > 0) & (M[equation.relation] > 0))
                found[tuple(cells[:, places].T)] = True
    return found


def shared_mean(model, name, exposure, own):
    """The exposure with that of pairs without rows of their own replaced by its mean over those of one first entity."""
    factor = model.factor(name)
    order = [*factor.visible, *factor.latent]
    moved = exposure.transpose([factor.indices.index(index) for index in order]).copy()
    for row in range(len(moved)):
        if (~own[row]).any():
            moved[row][~own[row]] = moved[row][~own[row]].mean(axis=0)
    return moved.transpose([order.index(index) for index in factor.indices])


def sweep(model, state, method, prior, X, M, likelihood):
    """One sweep of the restricted family: pairs that no link has share the mean exposure of theirs."""
    state, fixed = dict(state), None
    for name in model.factors:
        if fixed is None:
            L, weights = geomeans(state, method), {}
            for equation in model.equations:
                x, low = X[equation.relation], rates(equation, L)
                low = np.where(x > 0, low, 1.0)
                n = x * low / -np.expm1(-low) if likelihood == "bernoulli" else x
                weights[equation.relation] = M[equation.relation] * n / low
            fixed = {factor: L[factor] * gradient(model, weights, L, factor) for factor in model.factors}
        counts, exposure = fixed[name], gradient(model, M, means(state, method), name)
        if len(model.factor(name).visible) > 1:
            exposure = shared_mean(model, name, exposure, remembered(model, X, M, name))
        if method == "em":
            old = state[name][0]
            Z = np.where(exposure > 0, counts / np.where(exposure > 0, exposure, 1.0), old)
            state[name] = (Z, Z)
            continue
        A, B = (float(np.squeeze(a)) for a in (prior[name].concentration, prior[name].mean))
        if method == "vb":
            state[name] = (A + counts, 1.0 / (A / B + exposure))
        else:
            Z = (A - 1.0 + counts) / (A / B + exposure)
            state[name] = (Z, Z)
    return state


def spread_out(fit):
    """The same fit with a row for every pair."""
    factors = {}
    for name, factor in fit.factors.items():
        arrays = [whole(fit, name, getattr(factor, w)) for w in ("concentration", "scale", "mean", "exp_mean_log")]
        factors[name] = Posterior(factor.indices, *arrays)
    return replace(fit, factors=factors, ensemble=tuple(spread_out(one) for one in fit.ensemble))
