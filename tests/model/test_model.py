"""The meaning of models: what they say, what they refuse, and that they print as they read."""

import copy
import pickle
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import ModelError
from plait.model import Equation, Factor, Model, Occurrence, Summand
from plait.model.model import RESERVED
from tests.models import MODELS

FRIENDS = """
    visits[user, place, activity] = U[user, r] P[place, r] T[activity, r]
    friends[user, friend]         = U[user, r] F[friend, r]
    friend: user                                   # an axis with the same names as another
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

ONE_SHAPE = "A factor has one shape in the whole model"

REFUSED = {
    "": "the model has no equation.\nWrite at least one, such as X[i, j] = A[i, r] B[j, r].",
    "# X[i] = A[i]": "the model has no equation.\nWrite at least one, such as X[i, j] = A[i, r] B[j, r].",
    "a: b": "the model has no equation.\nWrite at least one, such as X[i, j] = A[i, r] B[j, r].",
    # names
    "X[i] = A[i]; X[j] = B[j]": "relation X has two equations.\n  X[i] = A[i]; X[j] = B[j]\n               ^\n"
    "A relation has one equation; rename one of the two.",
    "X[i] = A[i]\nY[i] = X[i]": "X is both a relation and a factor.\n  line 2: Y[i] = X[i]\n                 ^\n"
    "A relation is data, a factor is unknown; rename one of the two.",
    "X[\u00e9] = A[e\u0301]": "e\u0301 looks like an earlier name but is made of other characters.\n"
    "  X[\u00e9] = A[e\u0301]\n           ^\nCopy one of the two over the other.",
    # one equation
    "X[i,i] = A[i]": "index i is twice in the bracket of X.\n  X[i,i] = A[i]\n      ^\n"
    "The two sides need names of their own; if they have the same entities, declare it: other: axis.",
    "X[i] = A[i,r,r]": "index r is twice in the bracket of A.\n  X[i] = A[i,r,r]\n               ^\n"
    "The two sides need names of their own; if they have the same entities, declare it: other: axis.",
    "X[i,j] = A[i,r] A[j,r]": "index 1 of factor A is i in one place and j in another.\n  X[i,j] = A[i,r] A[j,r]\n"
    "                    ^\nIf the two have the same entities, declare j: i; else rename one of the two factors.",
    "X[i] = A[i,r] w[r] w[r]": "factor w is twice in a term of X, with no visible index different.\n"
    "  X[i] = A[i,r] w[r] w[r]\n                     ^^^^\n"
    "Twice, it takes two rows: one visible index differs, as in w[i, …] w[j, …] with j: i.",
    "X[i,j,k,l] = A[i,j] A[k,l]; k: i; l: j": "factor A is twice in a term of X, with more than one visible index "
    "different.\n  X[i,j,k,l] = A[i,j] A[k,l]; k: i; l: j\n                      ^^^^^^\n"
    "Twice, it takes two rows: one visible index differs, as in A[i, …] A[j, …] with j: i.",
    "X[i,j,k] = A[i] A[j] A[k]; j: i; k: i": "factor A is 3 times in a term of X.\n"
    "  X[i,j,k] = A[i] A[j] A[k]; j: i; k: i\n                       ^^^^\n"
    "It may stand twice, with two indices of one axis; rename one, or write a second factor.",
    "X[i,j] = A[i,r] B[j,r] + B[j,r] A[i,r]": "the term B[j, r] A[i, r] is twice in the equation of X.\n"
    "  X[i,j] = A[i,r] B[j,r] + B[j,r] A[i,r]\n                           ^^^^^^^^^^^^^\n"
    "Twice a term is a scale, and the factors have one already; remove it, or give it factors of its own.",
    "X[i,j] = A[i,r] B[j,r] + A[i,s] C[j,s]": "index 2 of factor A is r in one place and s in another.\n"
    "  X[i,j] = A[i,r] B[j,r] + A[i,s] C[j,s]\n                               ^\n"
    f"{ONE_SHAPE}; write r in both, or rename one of the two.",
    "X[i,j] = A[i,r]": "index j of X is in no factor.\n  X[i,j] = A[i,r]\n      ^\n"
    "Add it to a factor, or remove it from X.",
    "X[user,plcae] = A[user,place]": "index plcae of X is in no factor.\n  X[user,plcae] = A[user,place]\n"
    "         ^^^^^\nDid you mean place? Add it to a factor, or remove it from X.",
    # one index, two roles
    "X[i] = A[i,r]\nY[r] = B[r]": "index r is latent in X but visible in Y.\n  line 2: Y[r] = B[r]\n            ^\n"
    "Rename it in one of the two, or add it to the bracket of X.",
    "X[i,j] = A[i,j]\nY[i] = B[i,j]": "index j is visible in X but latent in Y.\n  line 2: Y[i] = B[i,j]\n"
    "                     ^\nRename it in one of the two, or add it to the bracket of Y.",
    # one factor, two shapes
    "X1[i,j] = A[i,r] B[j,r]\nX2[i,m] = A[i,r,s] D[m,r]": "factor A has 2 indices in X1 but 3 in X2.\n"
    f"  line 2: X2[i,m] = A[i,r,s] D[m,r]\n                    ^^^^^^^^\n{ONE_SHAPE}; rename one of the two.",
    "X[i] = A[i]; Y[] = A[]": "factor A has 1 index in X but 0 in Y.\n  X[i] = A[i]; Y[] = A[]\n"
    f"                     ^^^\n{ONE_SHAPE}; rename one of the two.",
    "X[i] = A[i,r]; Y[i] = A[r,i]": "index 1 of factor A is i in X but r in Y.\n  X[i] = A[i,r]; Y[i] = A[r,i]\n"
    f"                          ^\n{ONE_SHAPE}; write its indices in one order.",
    "X[i] = A[i,r]; Y[i] = A[i,s]": "index 2 of factor A is r in X but s in Y.\n  X[i] = A[i,r]; Y[i] = A[i,s]\n"
    f"                            ^\n{ONE_SHAPE}; write r in both, or rename one of the two.",
    "X[i] = A[i,r]; Y[i,j] = A[i,j]": "index 2 of factor A is r in X but j in Y.\n  X[i] = A[i,r]; Y[i,j] = A[i,j]\n"
    f"                              ^\n{ONE_SHAPE}; write r in both, or rename one of the two.",
    "X[i] = A[i]; Y[j] = A[j]": "index 1 of factor A is i in X but j in Y.\n  X[i] = A[i]; Y[j] = A[j]\n"
    "                        ^\nIf the two have the same entities, declare j: i; else rename one of the two factors.",
    # declarations
    "X[i] = A[i]\ni: i": "i is declared to be itself.\n  line 2: i: i\n          ^^^^\nRemove this declaration.",
    "X[i,j,k] = A[i,j,k]\ni: j\nj: k\nk: i": "k is declared to be i, which is already k.\n"
    "  line 4: k: i\n          ^^^^\nRemove this declaration.",
    "X[i,j,k] = A[i,j,k]\ni: j\ni: k": "i is declared twice, to be j and k.\n  line 3: i: k\n          ^^^^\n"
    "Keep one; if j and k have the same entities too, declare j: k.",
    "X[user] = A[user]\nfriend: user": "friend is an index of no equation.\n  line 2: friend: user\n          ^^^^^^\n"
    "A declaration names indices of relations.",
    "X[user] = A[user]\nuser: usr": "usr is an index of no equation.\n  line 2: user: usr\n                ^^^\n"
    "Did you mean user? A declaration names indices of relations.",
    "X[i] = A[i,r]\nr: i": "r is a latent index.\n  line 2: r: i\n          ^\n"
    "Only indices of relations have entities to share; remove the declaration.",
    "X[i] = A[i,r]\ni: r": "r is a latent index.\n  line 2: i: r\n             ^\n"
    "Only indices of relations have entities to share; remove the declaration.",
}


@pytest.mark.parametrize("text", MEANS)
def test_text_means(text):
    model = Model(text)
    names = (model.relations, model.factors, model.visible, model.latent, model.axes)
    assert (*map(" ".join, names), model.R.tolist()) == MEANS[text]


@pytest.mark.parametrize("text", REFUSED)
def test_refusal_says_what_where_and_a_cure(text):
    with pytest.raises(ModelError) as refusal:
        Model(text)
    assert str(refusal.value) == REFUSED[text]


@pytest.mark.parametrize("name", sorted(RESERVED))
@pytest.mark.parametrize("text", ["X[{0}] = A[{0}]", "X[i] = A[i, {0}]"])
def test_reserved_names_are_no_indices(name, text):
    with pytest.raises(ModelError, match=f"^{name} is reserved and cannot be an index."):
        Model(text.format(name))


def test_reserved_names_may_be_relations_and_factors():
    assert Model("rate[i] = weight[i]").factors == ("weight",)


@pytest.mark.parametrize("text", [None, 3, b"X[i] = A[i]", ["X[i] = A[i]"], Model("X[i] = A[i]")])
def test_a_model_is_made_from_text_only(text):
    with pytest.raises(ModelError, match=f"^a model is a text \\(str\\), not {type(text).__name__}."):
        Model(text)


def test_parts_of_a_model():
    model = Model(FRIENDS)
    occurrences = (Occurrence("U", ("user", "r")), Occurrence("F", ("friend", "r")))
    equation = Equation("friends", ("user", "friend"), (Summand(occurrences),))
    assert model.equation("friends") == equation == model.equations[1]
    assert equation.latent == ("r",)
    assert equation.factors == ("U", "F")
    assert model.factor("F") == Factor("F", ("friend", "r"), visible=("friend",), latent=("r",))
    assert model.indices == ("user", "place", "activity", "r", "friend")
    assert [model.axis(index) for index in model.indices] == ["user", "place", "activity", "r", "user"]


def test_a_factor_has_its_indices_as_first_written():
    factor = Model("X[j,i] = A[r,j,s,i]; Y[k,i] = A[r,k,s,i]; j: k").factor("A")
    assert (factor.indices, factor.visible, factor.latent) == (("r", "j", "s", "i"), ("j", "i"), ("r", "s"))
    assert str(factor) == "A[r, j, s, i]"


def test_an_equation_is_the_sum_of_its_terms_parentheses_multiplied_out():
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
def test_a_relation_is_undirected_where_exchanging_two_indices_changes_nothing(text):
    model = Model(text)
    (equation,) = model.equations
    assert (list(equation.doubled), list(equation.exchanged), list(model.ranks)) == EXCHANGES[text]


def test_latent_indices_at_one_place_of_a_factor_that_stands_twice_are_one_axis():
    model = Model("X[h,k,t] = A[h,p] G[p,k,q] A[t,q]; t: h")
    assert model.latent == ("p", "q")
    assert [model.axis(index) for index in ("p", "q", "t")] == ["p", "p", "h"]


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (lambda model: model.equation("visit"), "no relation visit.\nDid you mean visits? It has visits, friends."),
        (lambda model: model.factor("Q"), "no factor Q.\nIt has U, P, T, F."),
        (lambda model: model.axis("usr"), "no index usr.\nDid you mean user? It has user, place, activity, r, friend."),
        (lambda model: Model("X[] = c[]").axis(0), "no index 0.\nIt has none."),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(look, message):
    with pytest.raises(ModelError) as refusal:
        look(Model(FRIENDS))
    assert str(refusal.value) == f"the model has {message}"


def test_equal_models_are_equal_however_written():
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


def test_a_model_survives_pickle_and_copy_with_r_read_only():
    model = Model(FRIENDS)
    assert model.R.sum() == 5
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert other == model
        assert not other.R.flags.writeable


def test_repr_is_the_call_that_makes_the_model():
    assert repr(Model("X[i,j]=A[i,r]*B[j,r]")) == 'Model("X[i, j] = A[i, r] B[j, r]")'
    assert repr(Model("X[i,j]=A[i,j];i:j")) == 'Model("""\n    X[i, j] = A[i, j]\n    i: j\n""")'
    assert eval(repr(Model(FRIENDS))) == Model(FRIENDS)


def test_bind_hands_model_data_and_labels_on(monkeypatch):
    def bind(*args, **kwargs):
        return args, kwargs

    monkeypatch.setitem(sys.modules, "plait.data.blocks.binding", SimpleNamespace(bind_all=bind))
    model = Model(FRIENDS)
    assert model.bind({"visits": 1}) == ((model, {"visits": 1}), {"labels": None})
    assert model.bind({}, labels={"user": [1]}) == ((model, {}), {"labels": {"user": [1]}})


@pytest.mark.parametrize("name", MODELS)
def test_the_models_of_all_tests_print_as_they_read(name):
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


@settings(deadline=None)
@given(texts())
def test_models_print_as_they_read(text):
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
def test_a_slip_of_the_pen_is_another_model_or_a_model_error(text, data):
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


@settings(deadline=None)
@given(st.text() | st.text(st.sampled_from("AXir[],=*:;+()# \n")))
def test_any_text_is_a_model_or_a_model_error(text):
    try:
        model = Model(text)
    except ModelError:
        return
    assert Model(str(model)) == model
