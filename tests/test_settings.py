"""Every wrong argument of plait.fit is refused before anything is computed, with a message that names the cure."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.fitting import sizes

TEXT = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
X = np.random.default_rng(0).poisson(1.0, (4, 3, 2)).astype(float)
TUCKER = "X[i,j,k] = A[i,p] B[j,q] G[p,q,k]"
EXPOSED = "X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j]"
VECTOR = "X[i,j,k] = a[i] b[j] c[k]"
V = np.ones((4, 3))
GAMMA = plait.Gamma(0.5, 1.0)

# What was asked for -> (model, arguments, message).
WRONG = {
    "rank missing for one index": (
        TUCKER,
        {"rank": {"p": 2}},
        "`rank` is missing for the latent index 'q'.\nAdd it: `rank={'q': 10}`.",
    ),
    "rank for a visible index": (
        TEXT,
        {"rank": {"r": 2, "i": 3}},
        "`rank` is given for 'i', which is visible: its size comes from the data.\nLatent indices are r.",
    ),
    "rank for no index": (
        TEXT,
        {"rank": {"r": 2, "z": 3}},
        "`rank` is given for 'z', which is not in the model.\nLatent indices are r.",
    ),
    "rank where nothing is latent": (
        VECTOR,
        {"rank": 3},
        "`rank` is given, but the model has no latent index.\nLeave it out.",
    ),
    "rank 0": (TEXT, {"rank": 0}, "`rank` of r must be a whole number, 1 or more, got 0."),
    "rank below 0": (TEXT, {"rank": {"r": -2}}, "`rank` of r must be a whole number, 1 or more, got -2."),
    "rank not whole": (TEXT, {"rank": 2.5}, "`rank` of r must be a whole number, 1 or more, got 2.5."),
    "rank not a number": (TEXT, {"rank": "3"}, '`rank` must be a whole number, "auto" or "bound", got \'3\'.'),
    "rank true": (TEXT, {"rank": True}, "`rank` of r must be a whole number, 1 or more, got True."),
    "method": (
        TEXT,
        {"rank": 2, "method": "vbb"},
        "`method` must be one of 'vb', 'em', 'map', got 'vbb'.\nDid you mean 'vb'?",
    ),
    "dtype": (TEXT, {"rank": 2, "dtype": "float16"}, "`dtype` must be 'float64' or 'float32', got 'float16'."),
    "floats for EM": (
        TEXT,
        {"rank": 2, "dtype": "float32", "method": "em"},
        (
            '`dtype="float32"` does not go with `method="em"`: entries fall without end, and those that floats '
            "cannot hold become 0, so that unlikely links are no longer told apart.\n"
            'Leave `dtype` out, or use `method="vb"` (or "map" with a concentration above 1).'
        ),
    ),
    "floats for points that may be 0": (
        TEXT,
        {"rank": 2, "dtype": "float32", "method": "map", "prior": plait.Gamma(1.0, 1.0)},
        (
            '`dtype="float32"` does not go with a concentration of 1: entries fall without end, and those that '
            "floats cannot hold become 0, so that unlikely links are no longer told apart.\n"
            'Leave `dtype` out, or use `method="vb"` (or "map" with a concentration above 1).'
        ),
    ),
    "dtype and a tiny concentration": (
        TEXT,
        {"rank": 2, "dtype": "float32", "prior": plait.Gamma(1e-50, 1.0)},
        (
            '`dtype="float32"` cannot hold what follows from a concentration of 1e-50.\n'
            "Leave `dtype` out, or use a concentration of 1e-30 or more."
        ),
    ),
    "dtype of integers": (TEXT, {"rank": 2, "dtype": int}, "`dtype` must be 'float64' or 'float32', got int."),
    "seed": (TEXT, {"rank": 2, "seed": "x"}, "`seed` must be a whole number, 0 or more, got 'x'."),
    "accelerate": (TEXT, {"rank": 2, "accelerate": "yes"}, "`accelerate` must be True or False, got 'yes'."),
    "checkpoint": (
        TEXT,
        {"rank": 2, "checkpoint": 10},
        "`checkpoint` must be a folder or a plait.Checkpoint, got 10.",
    ),
    "progress": (
        TEXT,
        {"rank": 2, "progress": 3},
        "`progress` must be None, True, False, a callable or a plait.Progress, got 3.",
    ),
    "adapt on em": (
        TEXT,
        {"rank": 2, "method": "em", "adapt": "component"},
        '`adapt` is for `method="vb"` only, got `method="em"`.\nLeave `adapt` out.',
    ),
    "adapt on map": (
        TEXT,
        {"rank": 2, "method": "map", "adapt": {"A": "factor"}},
        '`adapt` is for `method="vb"` only, got `method="map"`.\nLeave `adapt` out.',
    ),
    "adapt word": (
        TEXT,
        {"rank": 2, "adapt": "components"},
        (
            "`adapt` must be one of 'auto', 'factor', 'component', 'entity', 'rank-one', got 'components'.\n"
            "Did you mean 'component'?"
        ),
    ),
    "adapt number": (
        TEXT,
        {"rank": 2, "adapt": 3},
        (
            "`adapt` must be None, one of 'auto', 'factor', 'component', 'entity', 'rank-one', or a tuple of index "
            "names, got 3."
        ),
    ),
    "adapt index": (
        TEXT,
        {"rank": 2, "adapt": ("i", "s")},
        "`adapt` names the index 's', which the model does not have: i, j, k, r.",
    ),
    "adapt index of another factor": (
        TEXT,
        {"rank": 2, "adapt": {"A": ("j",)}},
        "`adapt` names the index 'j', which factor A does not have: i, r.",
    ),
    "adapt factor": (
        TEXT,
        {"rank": 2, "adapt": {"AA": "factor"}},
        "`adapt` names 'AA', which is no factor of the model.\nDid you mean 'A'? Factors are A, B, C.",
    ),
    "adapt indices of no factor": (
        TEXT,
        {"rank": 2, "adapt": {"AA": ("i",)}},
        "`adapt` names 'AA', which is no factor of the model.\nDid you mean 'A'? Factors are A, B, C.",
    ),
    "given and adapted": (
        TEXT,
        {"rank": 2, "fixed": {"A": np.ones((4, 2))}, "adapt": {"A": "factor"}},
        "factor A is both given and adapted.\nRemove it from `fixed`, or from `adapt`.",
    ),
    "prior on em": (
        TEXT,
        {"rank": 2, "method": "em", "prior": GAMMA},
        '`method="em"` is maximum likelihood and has no prior.\nLeave `prior` out, or use `method="map"`.',
    ),
    "prior is a number": (
        TEXT,
        {"rank": 2, "prior": 0.5},
        "`prior` must be a plait.Gamma or a dict of them by factor, got 0.5.",
    ),
    "prior of one is a number": (
        TEXT,
        {"rank": 2, "prior": {"A": 0.5}},
        "`prior` of A must be a plait.Gamma, got 0.5.",
    ),
    "prior factor": (
        TEXT,
        {"rank": 2, "prior": {"D": GAMMA}},
        "`prior` names 'D', which is no factor of the model.\nFactors are A, B, C.",
    ),
    "prior of a given factor": (
        EXPOSED,
        {"rank": 2, "fixed": {"V": V}, "prior": {"V": GAMMA}},
        "factor V is given, so it has no prior.\nRemove it from `prior`, or from `fixed`.",
    ),
    "prior shape": (
        TEXT,
        {"rank": 2, "prior": {"A": plait.Gamma(0.5, np.ones(4))}},
        "`prior` of A: mean has shape (4,), which does not broadcast to the factor's (4, 2).",
    ),
    "map below 1": (
        TEXT,
        {"rank": 2, "method": "map", "prior": plait.Gamma(np.array([1.0, 0.5]), 1.0)},
        (
            '`method="map"` needs a concentration of 1 or more for factor A, got 0.5: below 1 the posterior has no '
            "mode.\n"
            'Give a prior with `concentration=1.0`, or use `method="vb"`.'
        ),
    ),
    "fixed factor": (
        TEXT,
        {"rank": 2, "fixed": {"V": V}},
        "`fixed` names 'V', which is no factor of the model.\nFactors are A, B, C.",
    ),
    "fixed is no dict": (TEXT, {"rank": 2, "fixed": [V]}, "`fixed` must be a dict by factor name, got list."),
    "fixed shape": (
        TEXT,
        {"rank": 2, "fixed": {"A": np.ones((2, 4))}},
        "fixed: factor A has shape (2, 4), wanted (4, 2) (i: 4, r: 2).",
    ),
    "fixed below 0": (
        TEXT,
        {"rank": 2, "fixed": {"A": -np.ones((4, 2))}},
        "fixed: factor A must be finite and 0 or more.",
    ),
    "fixed no numbers": (
        TEXT,
        {"rank": 2, "fixed": {"A": "ones"}},
        "fixed: factor A must be an array of numbers, got str.",
    ),
    "init shape": (
        TEXT,
        {"rank": 2, "init": {"B": np.ones((3, 3))}},
        "init: factor B has shape (3, 3), wanted (3, 2) (j: 3, r: 2).",
    ),
    "init factor": (
        TEXT,
        {"rank": 2, "init": {"D": np.ones((3, 3))}},
        "`init` names 'D', which is no factor of the model.\nFactors are A, B, C.",
    ),
    "init of a given factor": (
        TEXT,
        {"rank": 2, "init": {"A": np.ones((4, 2))}, "fixed": {"A": np.ones((4, 2))}},
        "`init` names factor A, which is given.\nRemove it from `init`, or from `fixed`.",
    ),
    "init 0 under vb": (
        TEXT,
        {"rank": 2, "init": {"A": np.zeros((4, 2))}},
        "init: factor A must be finite and positive.",
    ),
    "init below 0": (
        TEXT,
        {"rank": 2, "method": "em", "init": {"A": -np.ones((4, 2))}},
        "init: factor A must be finite and 0 or more.",
    ),
    "init nan": (
        TEXT,
        {"rank": 2, "method": "em", "init": {"A": np.full((4, 2), np.nan)}},
        "init: factor A must be finite and 0 or more.",
    ),
    "init is no dict": (TEXT, {"rank": 2, "init": 3}, "`init` must be a dict by factor name, got int."),
}


def refused(error_class, *arguments, **keywords):
    with pytest.raises(plait.PlaitError) as error:
        plait.fit(*arguments, **keywords)
    assert type(error.value) is error_class
    assert isinstance(error.value, ValueError)
    return str(error.value)


@pytest.mark.parametrize("what", WRONG)
def test_wrong_argument_is_refused_with_its_cure(what):
    text, arguments, message = WRONG[what]
    assert refused(plait.SettingError, text, {"X": X}, **arguments) == message


def test_gamma_refuses_what_is_no_prior():
    messages = {
        ("concentration", -1.0): "`concentration` must be positive and finite, got -1.0.",
        ("mean", 0): "`mean` must be positive and finite, got 0.",
        ("mean", float("inf")): "`mean` must be positive and finite, got inf.",
        ("mean", "ten"): "`mean` must be a number or an array of numbers, got 'ten'.",
    }
    for (word, value), message in messages.items():
        with pytest.raises(plait.SettingError) as error:
            plait.Gamma(**{word: value})
        assert str(error.value) == message


def test_progress_refuses_an_unknown_interrupt():
    with pytest.raises(plait.SettingError) as error:
        plait.Progress(interrupt="stop")
    assert str(error.value) == '`interrupt` must be "raise", "return" or None, got \'stop\'.'


def test_labels_beside_bound_data_are_refused():
    data = plait.Model(TEXT).bind({"X": X})
    message = refused(plait.SettingError, TEXT, data, rank=2, labels={"i": range(4)})
    assert message == "`labels` is given with data that is bound already.\nGive it to `model.bind`."


def test_data_bound_to_another_model_are_refused():
    data = plait.Model("X[i,j,k] = A[i,r] B[j,r] D[k,r]").bind({"X": X})
    message = refused(plait.SettingError, TEXT, data, rank=2)
    assert message == "`data` was bound to another model.\nBind it again: model.bind(data)."


def test_data_bound_to_an_equal_model_are_taken():
    data = plait.Model(TEXT).bind({"X": X})
    assert plait.fit(plait.Model(TEXT), data, rank=2, sweeps=1).rank == {"r": 2}


def test_a_factor_too_large_for_memory_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(sizes, "memory", lambda: 1_000_000_000)
    links = pl.DataFrame({"i": [0, 1_999_999], "j": [0, 1]})
    message = refused(
        plait.SettingError, "X[i,j] = A[i,r] B[j,r]", {"X": links}, rank=200, labels={"i": range(2_000_000)}
    )
    assert message == (
        "factor A is too large: 2,000,000 × 200 needs about 19.2 GB, 19.2 GB with the others; "
        "this machine has 1.0 GB.\n"
        "Use a smaller rank, or a model in which no factor has so many visible indices."
    )


def test_where_memory_is_unknown_no_factor_is_refused(monkeypatch):
    monkeypatch.setattr(sizes, "memory", lambda: float("inf"))
    assert plait.fit(TEXT, {"X": X}, rank=2, sweeps=1).rank == {"r": 2}


def test_a_link_where_the_exposure_is_0_is_named():
    visits = pl.DataFrame({"user": ["ann", "bob"], "place": ["inn", "spa"]})
    places = pl.DataFrame({"user": ["ann"], "place": ["inn"]})
    message = refused(
        plait.DataError, "X[user,place] = U[user,r] P[place,r] V[user,place]", {"X": visits}, rank=2,
        fixed={"V": plait.Exposure(places, default=0.0)},
    )  # fmt: skip
    assert message == (
        "X: the link at user='bob', place='spa' has exposure 0, so it cannot happen (1 such).\n"
        "Give these cells a positive exposure, for example a small default."
    )


def test_a_given_factor_that_makes_a_link_impossible_is_named():
    with pytest.raises(plait.FitError) as error:
        plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": np.eye(2)}, rank=1, fixed={"A": [[1.0], [0.0]]}, seed=0)
    assert str(error.value) == (
        "X: the model gives rate 0 to the link at i=1, j=1, so its likelihood is 0.\n"
        "Zeros in a given factor or in `init` can never change; use small positive numbers there."
    )
