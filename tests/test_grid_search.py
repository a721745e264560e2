"""plait.grid_search: settings in one table, the best first, and its fit."""

import numpy as np
import pytest

import plait
from lab.paper.sources.drawn import draw

TEXT = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
X = draw((20, 15, 6), 3, 600, seed=0).astype(float)
LINKS = (X > 0).astype(float)


def searched(data=X, **given):
    return plait.grid_search(TEXT, {"X": data}, **{"seed": 0, "seeds": 1, "max_iter": 20} | given)


def test_every_combination_has_a_row():
    found = searched(rank=[1, 2], adapt_prior=["factor", "component"])
    assert set(zip(found.table["rank"], found.table["adapt_prior"])) == {
        (rank, adapt) for rank in (1, 2) for adapt in ("factor", "component")
    }
    for figure in ("log_likelihood", "average_precision", "roc_auc"):
        assert (found.table[f"{figure}_se"] > 0).all()
    assert found.table["log_likelihood"].is_sorted(descending=True)


def test_the_best_setting_is_fitted_to_all_data():
    found = searched(rank=[1, 2], seeds=2)
    again = plait.fit(TEXT, {"X": X}, **found.best, seed=0, max_iter=20, restarts=2)
    assert found.fit.fingerprint == again.fingerprint
    assert found.fit.objective == again.objective
    assert len(found.fit.members) == 2


def test_the_best_setting_by_the_bound():
    found = searched(rank=[1, 2, 3], by="elbo", seeds=2)
    assert found.fit.objective == found.table["objective"].max()
    assert found.table["objective"].is_sorted(descending=True)
    assert "log_likelihood" not in found.table.columns
    assert str(found).splitlines()[0] == "3 settings, compared by the ELBO; the best first"
    assert "<table" in found._repr_html_()
    assert found.to_dict()["best"] == found.best


def test_likelihoods_are_compared():
    found = searched(LINKS, rank=2, likelihood=["poisson", "bernoulli"])
    assert set(found.table["likelihood"]) == {"poisson", "bernoulli"}
    assert found.fit.likelihood["X"] == found.table["likelihood"][0]
    assert "ELBOs are comparable only for the same likelihood" in str(found)


def test_links_of_a_named_relation_are_held_out():
    text = f"{TEXT}\nY[i,m] = A[i,r] M[m,r]"
    side = np.random.default_rng(0).poisson(1.0, (20, 7)).astype(float)
    found = plait.grid_search(text, {"X": X, "Y": side}, rank=[1, 2], relation="Y", seed=0, seeds=1, max_iter=5)
    assert found.relation == "Y"
    assert "held-out links of Y" in str(found)


WRONG = {
    "bounds of several tyings": (
        {"rank": 2, "adapt_prior": ["factor", None], "by": "elbo"},
        "several values of `adapt_prior`.*\nUse",
    ),
    "bounds of EM": (
        {"rank": [1, 2], "method": "em", "adapt_prior": None, "by": "elbo"},
        "requires .*, got 'em'.*\nUse",
    ),
    "nothing": ({"rank": []}, "a list of values to compare is empty.\nGive"),
    "by": ({"rank": 2, "by": "elbow"}, "`by` must be .* got 'elbow'.\nDid you mean 'elbo'"),
    "seeds": ({"rank": 2, "seeds": 0}, "`seeds` must be an integer of at least 1, got 0"),
    "fraction": ({"rank": 2, "fraction": 1.0}, "`fraction` must be greater than 0 and less than 1, got 1.0.\nExample"),
    "relation": ({"rank": 2, "relation": "Y"}, "`relation`: 'Y' is not .*\nThe relations are X"),
    "init": ({"rank": 2, "init": {}}, "`init` is not possible in plait.grid_search.*\nRemove it"),
    "links of counts": ({"rank": 2, "likelihood": "bernoulli"}, "'bernoulli' .* X, .* 2.\nLinks are 0 or 1"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(plait.errors.ParameterError, match=message):
        searched(**arguments)
