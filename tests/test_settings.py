"""A wrong argument of plait.fit is refused before anything is computed, by a message that names it."""

import numpy as np
import polars as pl
import pytest

import plait

TEXT = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
X = np.random.default_rng(0).poisson(1.0, (4, 3, 2)).astype(float)
TUCKER = "X[i,j,k] = A[i,p] B[j,q] G[p,q,k]"
EXPOSED = "X[i,j,k] = A[i,r] B[j,r] C[k,r] V[i,j]"
VECTOR = "X[i,j,k] = a[i] b[j] c[k]"
V, A, B = np.ones((4, 3)), np.ones((4, 2)), np.ones((3, 3))
GAMMA = plait.Gamma(0.5, 1.0)
FLOATS = {"dtype": "float32", "rank": 2}

VB_ONLY = '`adapt_prior` requires `method="vb"`|Remove `adapt_prior`, or change `method`.'
# Arguments, and words of the message separated by |.
WRONG = [
    ({"rank": 0}, "`rank` of r must be an integer of at least 1, got 0."),
    ({"rank": {"r": -2}}, "`rank` of r|got -2."),
    ({"rank": 2.5}, "`rank` of r|got 2.5."),
    ({"rank": "3"}, "`rank` must be an integer, \"auto\" or|got '3'."),
    ({"rank": True}, "`rank` of r|got True."),
    ({"rank": {"r": 2, "i": 3}}, "`rank`: 'i' is a visible index|The latent indices are r."),
    ({"rank": {"r": 2, "z": 3}}, "`rank`: 'z' is not an index|The latent indices are r."),
    ({"method": "vbb"}, "`method` must be one of 'vb', 'em', 'map', got 'vbb'.|Did you mean 'vb'?"),
    ({"dtype": "float16"}, "`dtype` must be 'float64' or 'float32', got 'float16'."),
    ({"dtype": int}, "`dtype`|got int."),
    (FLOATS | {"method": "em"}, '`dtype="float32"`|`method="em"`|Remove `dtype`'),
    (FLOATS | {"method": "map", "prior": plait.Gamma(1.0, 1.0)}, '`dtype="float32"`|a concentration of 1:'),
    (FLOATS | {"prior": plait.Gamma(1e-50, 1.0)}, '`dtype="float32"`|a concentration of at least 1e-30, got 1e-50'),
    ({"seed": "x"}, "`seed` must be an integer of at least 0, got 'x'."),
    ({"accelerate": "yes"}, "`accelerate` must be True or False, got 'yes'."),
    ({"checkpoint": 10}, "`checkpoint` must be a folder or a plait.Checkpoint, got 10."),
    ({"progress": 3}, "`progress`|got 3."),
    ({"method": "em", "adapt_prior": "component"}, VB_ONLY),
    ({"method": "map", "adapt_prior": {"A": "factor"}}, VB_ONLY),
    ({"adapt_prior": "components"}, "`adapt_prior` must be one of 'auto'|got 'components'.|Did you mean 'component'?"),
    ({"adapt_prior": 3}, "`adapt_prior` must be None|got 3."),
    ({"adapt_prior": ("i", "s")}, "`adapt_prior`: 's' is not an index of the model, which has i, j, k, r."),
    ({"adapt_prior": {"A": ("j",)}}, "`adapt_prior`: 'j' is not an index of factor A, which has i, r."),
    ({"adapt_prior": {"AA": "factor"}}, "`adapt_prior`: 'AA' is not a factor|The factors are A, B, C."),
    ({"adapt_prior": {"AA": ("i",)}}, "`adapt_prior`: 'AA' is not a factor|Did you mean 'A'?"),
    ({"fixed": {"A": A}, "adapt_prior": {"A": "factor"}}, "factor A|both in `fixed` and in `adapt_prior`."),
    ({"method": "em", "prior": GAMMA}, '`method="em"`|Remove `prior`'),
    ({"prior": 0.5}, "`prior` must be a plait.Gamma|got 0.5."),
    ({"prior": {"A": 0.5}}, "`prior` of A must be a plait.Gamma or a plait.GammaChain, got 0.5."),
    ({"prior": {"D": GAMMA}}, "`prior`: 'D' is not a factor|The factors are A, B, C."),
    ({"prior": {"A": plait.Gamma(0.5, np.ones(4))}}, "`prior` of A: mean has shape (4,)|(4, 2)."),
    ({"method": "map", "prior": plait.Gamma(np.array([1.0, 0.5]), 1.0)}, "factor A, got 0.5|`concentration=1.0`"),
    ({"fixed": {"V": V}}, "`fixed`: 'V' is not a factor|The factors are A, B, C."),
    ({"fixed": [V]}, "`fixed` must be a dict by factor name, got list."),
    ({"fixed": {"A": A.T}}, "`fixed`: factor A has shape (2, 4), expected (4, 2) (i: 4, r: 2)."),
    ({"fixed": {"A": -A}}, "`fixed`: factor A must be finite and at least 0."),
    ({"fixed": {"A": "ones"}}, "`fixed`: factor A must be an array of numbers, got str."),
    ({"init": {"B": B}}, "`init`: factor B has shape (3, 3), expected (3, 2) (j: 3, r: 2)."),
    ({"init": {"D": B}}, "`init`: 'D' is not a factor|The factors are A, B, C."),
    ({"init": {"A": A}, "fixed": {"A": A}}, "factor A is both in `init` and in `fixed`.|Remove it from one"),
    ({"init": {"A": 0 * A}}, "`init`: factor A must be finite and positive."),
    ({"method": "em", "init": {"A": -A}}, "`init`: factor A must be finite and at least 0."),
    ({"method": "em", "init": {"A": np.nan * A}}, "`init`: factor A must be finite and at least 0."),
    ({"init": 3}, "`init` must be a dict by factor name, got int."),
    ({"max_iter": 1.5}, "`max_iter` must be an integer of at least 0, got 1.5."),
    ({"max_iter": True}, "`max_iter`|got True."),
    ({"max_iter": np.array([3])}, "`max_iter`|got array([3])."),
    ({"tol": -1}, "`tol` must be a finite number of at least 0, got -1."),
    ({"tol": float("nan")}, "`tol`|got nan."),
    ({"prune": 1}, "`prune` must be True or False, got 1."),
    ({"warmup": "em"}, "`warmup` must be an integer of at least 0, got 'em'."),
    ({"combine": 3}, "`combine` must be one of 'average', 'best', got 3."),
    ({"threads": 0}, "`threads` must be an integer of at least 1, got 0."),
    ({"restarts": None}, "`restarts` must be an integer of at least 1, got None."),
    ({"model": TUCKER, "rank": {"p": 2}}, "`rank` is missing for the latent index 'q'.|`rank={'q': 10}`"),
    ({"model": VECTOR, "rank": 3}, "`rank` has no effect: the model has no latent index.|Remove it."),
    ({"model": EXPOSED, "fixed": {"V": V}, "prior": {"V": GAMMA}}, "factor V|both in `prior` and in `fixed`"),
]  # fmt: skip


def refused(error_class, *arguments, **keywords):
    with pytest.raises(plait.PlaitError) as error:
        plait.fit(*arguments, **keywords)
    assert type(error.value) is error_class
    assert isinstance(error.value, ValueError)
    return str(error.value)


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[words for _, words in WRONG])
def test_a_wrong_argument_is_refused(arguments, words):
    options = {"rank": 2, "model": TEXT} | arguments
    message = refused(plait.errors.ParameterError, options.pop("model"), {"X": X}, **options)
    assert [word for word in words.split("|") if word not in message] == []


def test_numbers_of_numpy_are_numbers():
    numbers = {"rank": np.int64(2), "max_iter": np.int32(3), "tol": np.float32(1e-3), "seed": np.uint8(0)}
    fit = plait.fit(TEXT, {"X": X}, warmup=np.int16(0), **numbers)
    assert fit.objective == plait.fit(TEXT, {"X": X}, rank=2, max_iter=3, tol=1e-3, seed=0, warmup=0).objective


@pytest.mark.parametrize(
    ("word", "value"), [("concentration", -1.0), ("mean", 0), ("mean", float("inf")), ("mean", "ten")]
)
def test_a_wrong_prior_is_refused(word, value):
    with pytest.raises(plait.errors.ParameterError, match=f"`{word}` must be .*, got {value!r}"):
        plait.Gamma(**{word: value})


def test_an_unknown_interrupt_is_refused():
    with pytest.raises(plait.errors.ParameterError, match=r"`interrupt` must be .*, got 'stop'"):
        plait.Progress(interrupt="stop")


def test_bound_data_belong_to_their_model_and_labels():
    data = plait.Model(TEXT).bind({"X": X})
    assert plait.fit(plait.Model(TEXT), data, rank=2, max_iter=1).rank == {"r": 2}
    assert "`entities` cannot" in refused(plait.errors.ParameterError, TEXT, data, rank=2, entities={"i": range(4)})
    other = plait.Model("X[i,j,k] = A[i,r] B[j,r] D[k,r]").bind({"X": X})
    assert "`data` was bound to another model.\nBind the data" in refused(
        plait.errors.ParameterError, TEXT, other, rank=2
    )


def test_a_factor_too_large_for_memory_is_refused(tuning):
    tuning(memory_bytes=1e9)
    links = pl.DataFrame({"i": [0, 1_999_999], "j": [0, 1]})
    labels = {"i": range(2_000_000)}
    message = refused(plait.errors.ParameterError, "X[i,j] = A[i,r] B[j,r]", {"X": links}, rank=200, entities=labels)
    for word in ("factor A is too large: 2,000,000 × 200", "19.2 GB", "1.0 GB", "\nUse a smaller rank"):
        assert word in message
    tuning(memory_bytes=float("inf"))
    assert plait.fit(TEXT, {"X": X}, rank=2, max_iter=1).rank == {"r": 2}


def test_a_link_where_the_exposure_is_0_is_named():
    visits = pl.DataFrame({"user": ["ann", "bob"], "place": ["inn", "spa"]})
    exposure = plait.Exposure(visits.head(1), default=0.0)
    text = "X[user,place] = U[user,r] P[place,r] V[user,place]"
    message = refused(plait.errors.DataError, text, {"X": visits}, rank=2, fixed={"V": exposure})
    assert "X: the link at user='bob', place='spa' has exposure 0" in message
    assert "\nGive these cells a positive exposure" in message


def test_a_given_factor_that_makes_a_link_impossible_is_named():
    with pytest.raises(
        plait.errors.FitError, match=r"X: the model gives rate 0 to the link at i=1, j=1.*\n.*small positive"
    ):
        plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": np.eye(2)}, rank=1, fixed={"A": [[1.0], [0.0]]}, seed=0)
