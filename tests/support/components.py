"""Weights of components, by einsum over whole arrays."""

import itertools

import numpy as np


def weights_of_others(fit, name):
    """What all other factors hold of each setting of a factor's latent indices, by einsum over whole arrays."""
    factor, total = fit.model.factor(name), 0.0
    for equation in fit.model.equations:
        for term in equation.terms:
            uses = [use for use in term.occurrences if use.factor in fit.factors]
            for n, use in enumerate(uses):
                if use.factor != name:
                    continue
                letters, arguments = itertools.count(), []
                latent = {index: next(letters) for index in equation.latent_of(term)}
                for other in uses[:n] + uses[n + 1 :]:
                    where = [latent[i] if i in latent else next(letters) for i in other.indices]
                    arguments += [fit.factors[other.factor].mean, where]
                here = [use.indices[factor.indices.index(index)] for index in factor.latent]
                ones = [np.ones([fit.rank[index] for index in here]), [latent[index] for index in here]]
                total = total + np.einsum(*arguments, *ones, [latent[index] for index in here])
    return total
