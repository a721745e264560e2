"""Models: their parts, errors, and printing."""

import copy
import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import ModelError
from plait.model import Equation, Factor, Model, Occurrence, Summand
from plait.model.model import RESERVED
from tests.support.data_errors import assert_mentions, error_text, underlined
from tests.support.models import MODELS

FRIENDS = """
    visits[user, place, activity] = U[user, r] P[place, r] T[activity, r]
    friends[user, friend]         = U[user, r] F[friend, r]
    friend: user
"""

# text -> (relations, factors, visible, latent, axes, R)
MEANS = {
    "X[i,j] = A[i,r] B[j,r]": ("X", "A B", "i j", "r", "i j", [[1, 1]]),
    "X[] = c[]": ("X", "c", "", "", "", [[1]]),
    "X[i] = c[] b[i]": ("X", "c b", "i", "", "i", [[1, 1]]),
    "X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]": ("X", "A B C G", "i j k", "p q r", "i j k", [[1, 1, 1, 1]]),
    "X[i,j] = G[s,r] A[r,i] B[j,s]": ("X", "G A B", "i j", "s r", "i j", [[1, 1, 1]]),
    "X[i,j] = A[i,r] B[j,r]; Y[j,m] = B[j,r] D[m,r]": ("X Y", "A B D", "i j m", "r", "i j m", [[1, 1, 0], [0, 1, 1]]),
    FRIENDS: (
        "visits friends",
        "U P T F",
        "user place activity friend",
        "r",
        "user place activity",
        [[1, 1, 1, 0], [1, 0, 0, 1]],
    ),
    "X[a] = A[a]; Y[b] = A[b]; Z[c] = A[c]; a: b; b: c": ("X Y Z", "A", "a b c", "", "c", [[1], [1], [1]]),
    "X[a] = A[a]; Y[b] = A[b]; b: a; b: a": ("X Y", "A", "a b", "", "a", [[1], [1]]),
    # an index may have the name of a factor or of a relation, and differ from another in case only
    "X[A, X] = A[A, r] B[X, r, R]": ("X", "A B", "A X", "r R", "A X", [[1, 1]]),
    # a factor may be used transposed, if its indices have one axis
    "X[a,b] = H[a,b]; Y[a,b] = H[b,a]; b: a": ("X Y", "H", "a b", "", "a", [[1], [1]]),
}

# text, with « » around what the carets underline -> words of the error
REFUSED = {
    "": ["no equation"],
    "# X[i] = A[i]": ["no equation"],
    "a: b": ["no equation"],
    # names
    "X[i] = A[i]; «X»[j] = B[j]": ["X has two equations"],
    "X[i] = A[i]\nY[i] = «X»[i]": ["line 2", "X is both a relation and a factor"],
    "X[\u00e9] = A[«e\u0301»]": ["different characters"],
    # one equation
    "X[i,«i»] = A[i]": ["i occurs twice", "X", "other: axis"],
    "X[i] = A[i,r,«r»]": ["r occurs twice", "A"],
    "X[i,j] = A[i,r] A[«j»,r]": ["factor A is i", "and j", "declare j: i"],
    "X[i] = A[i,r] w[r] «w[r]»": ["w occurs twice", "X", "no visible index"],
    "X[i,j,k,l] = A[i,j] «A[k,l]»; k: i; l: j": ["A occurs twice", "more than one visible index"],
    "X[i,j,k] = A[i] A[j] «A[k]»; j: i; k: i": ["A occurs 3 times"],
    "X[i,j] = A[i,r] B[j,r] + «B[j,r] A[i,r]»": ["B[j, r] A[i, r] occurs twice"],
    "X[i,j] = A[i,r] B[j,r] + A[i,«s»] C[j,s]": ["index 2 of factor A is r", "and s"],
    "X[i,«j»] = A[i,r]": ["j of X does not occur in any factor"],
    "X[user,«plcae»] = A[user,place]": ["plcae of X does not occur in any factor", "Did you mean place?"],
    # one index, two roles
    "X[i] = A[i,r]\nY[«r»] = B[r]": ["line 2", "r is latent in X but visible in Y"],
    "X[i,j] = A[i,j]\nY[i] = B[i,«j»]": ["line 2", "j is visible in X but latent in Y"],
    # one factor, two shapes
    "X1[i,j] = A[i,r] B[j,r]\nX2[i,m] = «A[i,r,s]» D[m,r]": ["line 2", "A has 2 indices in X1 but 3 in X2"],
    "X[i] = A[i]; Y[] = «A[]»": ["A has 1 index in X but 0 in Y"],
    "X[i] = A[i,r]; Y[i] = A[«r»,i]": ["index 1 of factor A is i in X but r in Y", "one order"],
    "X[i] = A[i,r]; Y[i] = A[i,«s»]": ["index 2 of factor A is r in X but s in Y", "r in both"],
    "X[i] = A[i,r]; Y[i,j] = A[i,«j»]": ["index 2 of factor A is r in X but j in Y"],
    "X[i] = A[i]; Y[j] = A[«j»]": ["index 1 of factor A is i in X but j in Y", "declare j: i"],
    # declarations
    "X[i] = A[i]\n«i: i»": ["line 2", "i is declared as itself"],
    "X[i,j,k] = A[i,j,k]\ni: j\nj: k\n«k: i»": ["line 4", "k is declared as i, which is already k"],
    "X[i,j,k] = A[i,j,k]\ni: j\n«i: k»": ["line 3", "i is declared twice", "declare j: k"],
    "X[user] = A[user]\n«friend»: user": ["line 2", "friend is not an index of any equation"],
    "X[user] = A[user]\nuser: «usr»": ["line 2", "usr is not an index of any equation", "Did you mean user?"],
    "X[i] = A[i,r]\n«r»: i": ["line 2", "r is a latent index"],
    "X[i] = A[i,r]\ni: «r»": ["line 2", "r is a latent index"],
}


@pytest.mark.parametrize("text", MEANS)
def test_parts_of_texts(text):
    model = Model(text)
    names = (model.relations, model.factors, model.visible, model.latent, model.axes)
    assert (*map(" ".join, names), model.R.tolist()) == MEANS[text]


@pytest.mark.parametrize("text", REFUSED)
def test_a_bad_model_is_refused_with_a_caret(text):
    shown = error_text(Model, re.sub("[«»]", "", text))
    assert_mentions(shown, *REFUSED[text])
    assert underlined(shown) in ["", *text.split("\n")]
    assert bool(underlined(shown)) == ("«" in text)


@pytest.mark.parametrize("name", sorted(RESERVED))
@pytest.mark.parametrize("text", ["X[{0}] = A[{0}]", "X[i] = A[i, {0}]"])
def test_reserved_names_are_no_indices(name, text):
    with pytest.raises(ModelError, match=f"^{name} is a reserved name and cannot be an index."):
        Model(text.format(name))
    assert Model(f"{name}[i] = {name}_[i]").relations == (name,)


@pytest.mark.parametrize("text", [None, 3, b"X[i] = A[i]", ["X[i] = A[i]"], Model("X[i] = A[i]")])
def test_a_model_is_made_from_text_only(text):
    with pytest.raises(ModelError, match=f"^`model` must be a string, got {type(text).__name__}."):
        Model(text)


def test_parts_of_a_model():
    model = Model(FRIENDS)
    occurrences = (Occurrence("U", ("user", "r")), Occurrence("F", ("friend", "r")))
    equation = Equation("friends", ("user", "friend"), (Summand(occurrences),))
    assert model.equation("friends") == equation == model.equations[1]
    assert equation.latent == ("r",)
    assert equation.factors == ("U", "F")
    assert model.factor("F") == Factor("F", ("friend", "r"), visible=("friend",), latent=("r",))
    factor = Model("X[j,i] = A[r,j,s,i]; Y[k,i] = A[r,k,s,i]; j: k").factor("A")
    assert factor == Factor("A", ("r", "j", "s", "i"), visible=("j", "i"), latent=("r", "s"))
    assert str(factor) == "A[r, j, s, i]"
    assert model.indices == ("user", "place", "activity", "r", "friend")
    assert [model.axis(index) for index in model.indices] == ["user", "place", "activity", "r", "user"]


def test_parentheses_are_multiplied_out():
    equation = Model("X[u,i,t] = V[u,i] (U[u,r] T[t,r] + c[]) + b[i]").equations[0]
    assert [str(term) for term in equation.terms] == ["V[u, i] U[u, r] T[t, r]", "V[u, i] c[]", "b[i]"]
    assert str(equation) == "X[u, i, t] = V[u, i] U[u, r] T[t, r] + V[u, i] c[] + b[i]"
    assert equation.factors == ("V", "U", "T", "c", "b")
    assert [equation.latent_of(term) for term in equation.terms] == [("r",), (), ()]


# text -> (doubled, exchanged, ranks)
EXCHANGES = {
    "X[i,j] = A[i,r] B[j,r]; j: i": ([], [], ["r"]),
    "X[i,j] = A[i,r] A[j,r]; j: i": ([("i", "j")], [("i", "j")], ["r"]),
    "X[i,j] = A[j,r] A[i,r] w[r] + c[]; j: i": ([("i", "j")], [("i", "j")], ["r"]),
    "X[i,j] = A[i,r] A[j,r] + b[i]; j: i": ([("i", "j")], [], ["r"]),
    "X[i,j] = A[i,r] B[j,r] + A[j,r] B[i,r]; j: i": ([], [("i", "j")], ["r"]),
    "X[h,k,t] = A[h,p] G[p,k,q] A[t,q]; t: h": ([("h", "t")], [], ["p"]),
    "X[i,j,k,l] = A[i,r] A[j,r] B[k,s] B[l,s]; j: i; l: k": (
        [("i", "j"), ("k", "l")], [("i", "j"), ("k", "l")], ["r", "s"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", EXCHANGES)
def test_a_relation_is_undirected_if_exchanging_two_indices_changes_nothing(text):
    model = Model(text)
    (equation,) = model.equations
    assert (list(equation.doubled), list(equation.exchanged), list(model.ranks)) == EXCHANGES[text]


def test_latent_indices_of_a_doubled_factor_share_an_axis():
    model = Model("X[h,k,t] = A[h,p] G[p,k,q] A[t,q]; t: h")
    assert model.latent == ("p", "q")
    assert [model.axis(index) for index in ("p", "q", "t")] == ["p", "p", "h"]


@pytest.mark.parametrize(
    ("method", "name", "words"),
    [
        (Model.equation, "visit", ["no relation visit", "Did you mean visits?", "visits, friends"]),
        (Model.factor, "Q", ["no factor Q", "U, P, T, F"]),
        (Model.axis, "usr", ["no index usr", "Did you mean user?", "user, place, activity, r, friend"]),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(method, name, words):
    assert_mentions(error_text(method, Model(FRIENDS), name), *words)


def test_models_are_equal_if_they_mean_the_same():
    one = Model("X[a,b,c] = A[a,b,c]; a: b; b: c")
    assert one == Model("b: c\na: c # the same\nX[a, b, c] = A[a, b, c]")
    assert hash(one) == hash(Model(str(one)))
    assert one != Model("X[a,b,c] = A[a,b,c]; a: b; c: b")
    assert one != Model("X[a,b,c] = A[a,b,c]")
    assert one != str(one)


def test_a_model_does_not_change():
    model = Model(FRIENDS)
    with pytest.raises(AttributeError):
        model.equations = ()
    with pytest.raises(ValueError, match="read-only"):
        model.R[0, 0] = 7
    assert np.issubdtype(model.R.dtype, np.integer)


def test_a_model_survives_pickle_and_copy():
    model = Model(FRIENDS)
    assert model.R.sum() == 5
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert other == model
        assert not other.R.flags.writeable


def test_repr_is_the_call_that_makes_the_model():
    assert repr(Model("X[i,j]=A[i,r]*B[j,r]")) == 'Model("X[i, j] = A[i, r] B[j, r]")'
    assert repr(Model("X[i,j]=A[i,j];i:j")) == 'Model("""\n    X[i, j] = A[i, j]\n    i: j\n""")'
    assert eval(repr(Model(FRIENDS))) == Model(FRIENDS)


@pytest.mark.parametrize("name", MODELS)
def test_printed_models_of_the_tests_read_back(name):
    model = Model(MODELS[name])
    assert Model(str(model)) == model


LETTERS = st.sampled_from("abrstABXYZ_é日ωß\u0301")
NAME = st.text(LETTERS, min_size=1, max_size=3).filter(lambda name: name.isidentifier() and "e\u0301" not in name)


def names(size):
    return st.lists(NAME, min_size=size, max_size=size, unique=True)


@st.composite
def texts(draw):
    """Texts of models: shared factors, any shapes and orders, indices that go by their other name in some equations."""
    *visible, r, s = draw(names(6))
    others = {index: f"{index}2" for index in visible}
    *factors, X, Y, Z = draw(names(7))
    shape = st.lists(st.sampled_from([*visible, r, s]), unique=True, max_size=4)
    shapes = {factor: draw(shape) for factor in factors}
    lines, used = [], set()
    for relation in (X, Y, Z)[: draw(st.integers(1, 3))]:
        renamed = {index: others[index] for index in visible if draw(st.booleans())}
        chosen = draw(st.lists(st.sampled_from(factors), unique=True, min_size=1))
        terms = [Occurrence(factor, tuple(renamed.get(index, index) for index in shapes[factor])) for factor in chosen]
        outer = sorted({index for term in terms for index in term.indices} - {r, s})
        used.update(outer)
        lines.append(str(Equation(relation, tuple(draw(st.permutations(outer))), tuple(terms))))
    both = [pair for pair in others.items() if used.issuperset(pair)]
    lines += [": ".join(draw(st.permutations(pair))) for pair in both]
    return "\n".join(lines)


@pytest.mark.thorough
@settings(deadline=None)
@given(texts())
def test_printed_models_read_back(text):
    model = Model(text)
    assert text.startswith("\n".join(map(str, model.equations)))
    assert Model(str(model)) == model
    assert str(Model(str(model))) == str(model)
    assert eval(repr(model)) == model


SPACE = st.text(st.sampled_from(" \t\u00a0\x0c"), max_size=2)
END = st.tuples(st.sampled_from(["", "# so", "#;]= [", ";"]), st.sampled_from(["\n", "\r\n", "\r", "\n\n"])).map(
    "".join
)


@settings(deadline=None)
@given(texts(), st.booleans(), st.data())
def test_space_comments_and_stars_change_nothing(text, stars, data):
    noisy = data.draw(SPACE)
    for char in re.sub(r"\] (?![=+])", "]*", text) if stars else text:
        mark = data.draw(END) if char == "\n" else char
        noisy += f"{data.draw(SPACE)}{mark}{data.draw(SPACE)}" if char in "[],=*:+ \n" else mark
    assert Model(noisy + data.draw(END | st.just("# end") | SPACE)) == Model(text)


@settings(deadline=None)
@given(texts(), st.data())
def test_a_typo_gives_a_model_or_a_model_error(text, data):
    at = data.draw(st.integers(0, len(text)))
    inserted = data.draw(
        st.sampled_from(["", "[", "]", ",", "=", ":", "*", ";", "#", " ", "\n", "1", "+", "r", "(", ")"])
    )
    slip = text[:at] + inserted + text[at + data.draw(st.integers(0, 3)) :]
    try:
        model = Model(slip)
    except ModelError:
        return
    assert Model(str(model)) == model
