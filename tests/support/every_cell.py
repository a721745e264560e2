"""What `fit.top` is compared with: the rates of all cells by one dense einsum, and the best of them by sorting."""

import itertools
import warnings

import numpy as np

import plait
from tests.support.pair_factors import whole


def all_rates(fit, relation):
    """Σ_terms V · Xhat of all cells, by one dense einsum a term; of an ensemble the mean over its members."""
    if len(fit.members) > 1:
        return np.mean([all_rates(member, relation) for member in fit.members], axis=0)
    equation = fit.model.equation(relation)
    shape = [len(fit.entities[index]) for index in equation.indices]
    rates = np.zeros(shape)
    for number, term in enumerate(equation.terms):
        letters, inputs = {}, [np.ones(()), []]

        def labels(indices, letters=letters):
            return [letters.setdefault(index, len(letters)) for index in indices]

        for index, size in zip(equation.indices, shape):
            inputs += [np.ones(size), labels([index])]
        for occurrence in term.occurrences:
            if occurrence.factor in fit.factors:
                mean = whole(fit, occurrence.factor, fit.factors[occurrence.factor].mean)
                inputs += [mean, labels(occurrence.indices)]
        rates += np.einsum(*inputs, labels(equation.indices)) * exposure(fit, relation, number, shape)
    return rates


def exposure(fit, relation, number, shape):
    """V of a term at all cells."""
    V = fit.exposures.at(relation, number, np.argwhere(np.ones(shape)))
    return np.ones(shape) if V is None else V.reshape(shape)


def allowed(fit, relation, known, zeros=None):
    """Which cells may be answers: none that is known or whose terms all have exposure 0, nor any of a mask."""
    equation = fit.model.equation(relation)
    shape = [len(fit.entities[index]) for index in equation.indices]
    mask = np.zeros(shape, bool)
    for number in range(len(equation.terms)):
        mask |= exposure(fit, relation, number, shape) > 0
    if zeros is not None:
        mask &= ~zeros
    for cell in () if known else fit.known[relation].cells:
        mask[tuple(cell)] = False
    return mask


def check(fit, relation, k, fixed, *, known=False, scores=None, score="mean", zeros=None):
    """The table has the best scores of all allowed cells, at distinct cells that have these scores."""
    indices = fit.model.equation(relation).indices
    scores = all_rates(fit, relation) if scores is None else scores
    place = tuple(fixed.get(index, slice(None)) for index in indices)
    open_cells = allowed(fit, relation, known, zeros)
    wanted = np.sort(scores[place][open_cells[place]].ravel())[::-1][:k]
    names = {index: fit.entities[index][row] for index, row in fixed.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.errors.NoCandidatesWarning)
        table = fit.top(relation, k, given=names, include_known=known, score=score)
    assert tuple(table.columns[: len(indices)]) == indices
    cells = (
        np.stack([fit.entities[i].encode(table[i]) for i in indices], axis=1) if indices else np.zeros((len(table), 0))
    )
    cells = cells.astype(int)
    here = scores[tuple(cells.T)] if indices else np.repeat(scores, len(table))
    np.testing.assert_allclose(here, wanted, rtol=1e-9)
    assert (np.diff(here) <= 1e-9 * wanted[:-1]).all()
    assert len(np.unique(cells, axis=0)) == len(cells) or not indices
    assert all(open_cells[tuple(cell)] for cell in cells)
    assert all((table[index] == name).all() for index, name in names.items())
    if score in table.columns:
        np.testing.assert_allclose(table[score].to_numpy(), wanted, rtol=1e-9)


def subsets(indices):
    """Every set of indices, the second row of each given."""
    for count in range(len(indices) + 1):
        for some in itertools.combinations(indices, count):
            yield dict.fromkeys(some, 1)
