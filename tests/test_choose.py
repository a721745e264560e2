"""plait.choose: settings in one table, the best first, and its fit."""

import numpy as np
import pytest

import plait
from lab.paper.sources.drawn import draw

TEXT = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
X = draw((20, 15, 6), 3, 600, seed=0).astype(float)
LINKS = (X > 0).astype(float)


def chosen(data=X, **given):
    return plait.choose(TEXT, {"X": data}, **{"seed": 0, "seeds": 1, "sweeps": 20} | given)


def test_every_combination_has_a_row_with_figures_and_standard_errors():
    found = chosen(rank=[1, 2], adapt=["factor", "component"])
    assert set(zip(found.table["rank"], found.table["adapt"])) == {
        (rank, adapt) for rank in (1, 2) for adapt in ("factor", "component")
    }
    for figure in ("log_likelihood", "average_precision", "roc_auc"):
        assert (found.table[f"{figure}_se"] > 0).all()
    assert found.table["log_likelihood"].is_sorted(descending=True)


def test_the_best_setting_is_fitted_to_all_data():
    found = chosen(rank=[1, 2], seeds=2)
    again = plait.fit(TEXT, {"X": X}, **found.best, seed=0, sweeps=20, restarts=2)
    assert found.fit.fingerprint == again.fingerprint
    assert found.fit.bound == again.bound
    assert len(found.fit.members) == 2


def test_by_the_bound_the_best_fit_is_the_one_that_has_it():
    found = chosen(rank=[1, 2, 3], by="bound", seeds=2)
    assert found.fit.bound == found.table["bound"].max()
    assert found.table["bound"].is_sorted(descending=True)
    assert "log_likelihood" not in found.table.columns


def test_likelihoods_are_compared_by_whether_there_is_a_link():
    found = chosen(LINKS, rank=2, likelihood=["poisson", "bernoulli"])
    assert set(found.table["likelihood"]) == {"poisson", "bernoulli"}
    assert found.fit.likelihood["X"] == found.table["likelihood"][0]
    assert "bounds compare under the same likelihood only" in str(found)


def test_the_relation_whose_links_are_put_aside_can_be_named():
    text = f"{TEXT}\nY[i,m] = A[i,r] M[m,r]"
    side = np.random.default_rng(0).poisson(1.0, (20, 7)).astype(float)
    found = plait.choose(text, {"X": X, "Y": side}, rank=[1, 2], relation="Y", seed=0, seeds=1, sweeps=5)
    assert found.relation == "Y"
    assert "links of Y put aside" in str(found)


def test_a_choice_shows_as_text_html_and_plain_types():
    found = chosen(rank=[1, 2], by="bound")
    assert str(found).splitlines()[0] == "2 settings, compared by the bound; the best first"
    assert "<table" in found._repr_html_()
    assert found.to_dict()["best"] == found.best


WRONG = {
    "bounds of several tyings": (
        {"rank": 2, "adapt": ["factor", None], "by": "bound"},
        '`by="bound"` cannot compare several adapt: bounds compare under one adapt only.\n'
        'Give `by="hidden"`, or give one adapt.',
    ),
    "bounds of EM": (
        {"rank": [1, 2], "method": "em", "adapt": None, "by": "bound"},
        '`by="bound"` needs `method="vb"`, got `method="em"`: a likelihood grows with any rank.\nGive `by="hidden"`.',
    ),
    "nothing": (
        {"rank": []},
        "there is nothing to compare: a list is empty.\nGive at least one rank, adapt and likelihood.",
    ),
    "by": ({"rank": 2, "by": "bond"}, "`by` must be one of 'hidden', 'bound', got 'bond'.\nDid you mean 'bound'?"),
    "seeds": ({"rank": 2, "seeds": 0}, "`seeds` must be a whole number, 1 or more, got 0."),
    "fraction": (
        {"rank": 2, "fraction": 1.0},
        "`fraction` must be over 0 and under 1, got 1.0.\nGive 0.1 to hold out a tenth.",
    ),
    "relation": ({"rank": 2, "relation": "Y"}, "`relation` is 'Y', which the model does not have.\nIt has X."),
    "init": ({"rank": 2, "init": {}}, "`init` is for one fit, and plait.choose makes several.\nLeave it out."),
    "links of counts": (
        {"rank": 2, "likelihood": "bernoulli"},
        "likelihood 'bernoulli' is not for X, which has a value of 2.\n"
        "Links are 0 or 1. Leave it out, or give other data.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_name_their_cure(case):
    arguments, message = WRONG[case]
    with pytest.raises(plait.SettingError) as error:
        chosen(**arguments)
    assert str(error.value) == message
