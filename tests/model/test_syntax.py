"""The grammar: which texts are statements, and what the others are told."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plait.errors import ModelError
from plait.model.syntax import Bracket, Declaration, Statement, parse

ONE_LINE = "An equation is one line: relation[index, …] = Factor[index, …] Factor[index, …] + …"
BRACKET = "Indices are names with commas between them, in one bracket: A[i, r]."
LANGUAGE = "Names are letters, digits and _; the marks are [ ] ( ) , = * + : ; and # before a comment."
NUMBER = "Names begin with a letter or _; a constant is a factor without indices, such as c[]."
SIDE_BY_SIDE = "Factors stand side by side, or with * between them: A[i, r] B[j, r]."

READ = {
    "": [],
    " \n\t\n": [],
    "# only a comment": [],
    ";;": [],
    "X[i,j]=A[i,r]B[j,r]": ["X[i,j] = A[i,r] B[j,r]"],
    "X [ i ,j ] = A[ i,r ] B [j,r]": ["X[i,j] = A[i,r] B[j,r]"],
    "X[i,j] = A[i,r] * B[j,r]": ["X[i,j] = A[i,r] B[j,r]"],
    "X[] = c[ ]": ["X[] = c[]"],
    "X[i,j]=A[i,r]B[j,r]+a[i]+c[]": ["X[i,j] = A[i,r] B[j,r] + a[i] + c[]"],
    "X[i,j] = V[i](A[i,r]*B[j,r] + c[])": ["X[i,j] = V[i] A[i,r] B[j,r] + V[i] c[]"],
    "X[i] = (a[i] + b[i]) (c[] + d[])": ["X[i] = a[i] c[] + a[i] d[] + b[i] c[] + b[i] d[]"],
    "X[i] = ((a[i])) * ( (b[] + c[]) d[] ) e[]": ["X[i] = a[i] b[] d[] e[] + a[i] c[] d[] e[]"],
    f"X[i] = {'(' * 50}a[i]{')' * 50}": ["X[i] = a[i]"],
    f"X[i] = {'(((a[i]))) ' * 60}": ["X[i] =" + " a[i]" * 60],
    "X[i] = b[i] # c[i] ; Y[i] = ]": ["X[i] = b[i]"],
    "X[i] = b[i]; Y[j] = d[j];": ["X[i] = b[i]", "Y[j] = d[j]"],
    "X[i] = b[i]\r\n\r\n\tY[j] = d[j]\rZ[k] = e[k]": ["X[i] = b[i]", "Y[j] = d[j]", "Z[k] = e[k]"],
    "friend : user": ["friend: user"],
    "a:b;c:d": ["a: b", "c: d"],
    "\ufeffX[i] = b[i]": ["X[i] = b[i]"],
    "X[i]\u00a0=\u2003b[i]\x0c": ["X[i] = b[i]"],
    "größe[höhe] = Ω[höhe, ρ] 因子[ρ]": ["größe[höhe] = Ω[höhe,ρ] 因子[ρ]"],
    "हिन्दी[e\u0301] = A[e\u0301]": ["हिन्दी[e\u0301] = A[e\u0301]"],
    "X[i] = A[class, _, for] B[x1]": ["X[i] = A[class,_,for] B[x1]"],
}

REFUSED = {
    # how a statement begins
    "= A[i]": f"a statement cannot begin with =.\n  = A[i]\n  ^\n{ONE_LINE}",
    "* B[j,r]": f"a statement cannot begin with *.\n  * B[j,r]\n  ^\n{ONE_LINE}",
    "X": "relation X has no brackets.\n  X\n  ^\nWrite its indices, as in X[i, j], or X[] if it is a single cell.",
    "X = A[i]": "relation X has no brackets.\n  X = A[i]\n  ^\n"
    "Write its indices, as in X[i, j], or X[] if it is a single cell.",
    # around the =
    "X[i, j]": f"there is no = after X[i, j].\n  X[i, j]\n  ^^^^^^^\n{ONE_LINE}",
    "X[i] A[i]": f"there is no = after X[i].\n  X[i] A[i]\n  ^^^^\n{ONE_LINE}",
    "X[i] * A[i]": f"there is no = after X[i].\n  X[i] * A[i]\n  ^^^^\n{ONE_LINE}",
    "X[i] =": f"there is no factor after =.\n  X[i] =\n       ^\n{ONE_LINE}",
    "X[i] = # A[i]": f"there is no factor after =.\n  X[i] = # A[i]\n       ^\n{ONE_LINE}",
    "X[i] = * A[i]": f"there is no factor after =.\n  X[i] = * A[i]\n       ^\n{ONE_LINE}",
    "X[i] = A[i] *": f"there is no factor after *.\n  X[i] = A[i] *\n              ^\n{ONE_LINE}",
    "X[i] = A[i] ** B[i]": f"there is no factor after *.\n  X[i] = A[i] ** B[i]\n              ^\n{ONE_LINE}",
    "X[i] == A[i]": "the equation has a second =.\n  X[i] == A[i]\n        ^\nWrite one equation a line.",
    "X[i] = A[i] = B[i]": "the equation has a second =.\n  X[i] = A[i] = B[i]\n              ^\n"
    "Write one equation a line.",
    # sums and parentheses
    "X[i] = A[i] +": f"there is no term after +.\n  X[i] = A[i] +\n              ^\n{ONE_LINE}",
    "X[i] = + A[i]": f"there is no term before +.\n  X[i] = + A[i]\n         ^\n{ONE_LINE}",
    "X[i] = A[i] + + b[]": f"there is no term after +.\n  X[i] = A[i] + + b[]\n              ^\n{ONE_LINE}",
    "X[i] = A[i] (+ b[])": f"there is no factor after (.\n  X[i] = A[i] (+ b[])\n              ^\n{ONE_LINE}",
    "X[i] = A[i] (b[] +)": f"there is no term after +.\n  X[i] = A[i] (b[] +)\n                   ^\n{ONE_LINE}",
    "X[i] = A[i] ()": f"there is nothing between the parentheses.\n  X[i] = A[i] ()\n              ^^\n{ONE_LINE}",
    "X[i] = A[i] (b[] + c[]": "this parenthesis is not closed.\n  X[i] = A[i] (b[] + c[]\n"
    "              ^^^^^^^^^^\nWrite ) behind its last term.",
    "X[i] = A[i])": "this parenthesis was not opened.\n  X[i] = A[i])\n             ^\n"
    "Parentheses hold terms with + between them: V[i] (A[i, r] B[j, r] + c[]).",
    "X[i] = (a[i] + b[i]) = c[]": "the equation has a second =.\n  X[i] = (a[i] + b[i]) = c[]\n"
    "                       ^\nWrite one equation a line.",
    "X[i] + A[i]": f"there is no = after X[i].\n  X[i] + A[i]\n  ^^^^\n{ONE_LINE}",
    f"X[i] = {'(' * 400}a[i]{')' * 400}": "parentheses are nested more than 50 deep here.\n"
    f"  X[i] = {'(' * 400}a[i]{')' * 400}\n{' ' * 59}^\nLeave out those around a single term or a whole sum.",
    f"X[i] = {'(a[i]+b[])' * 7}": f"this product has 128 terms.\n  X[i] = {'(a[i]+b[])' * 7}\n       ^\n"
    "An equation has 100 terms at most; a latent index makes sums of any length.",
    # factors
    "X[i] = A": "factor A has no brackets.\n  X[i] = A\n         ^\n"
    "Write its indices, as in A[i, r], or A[] if it is a single number.",
    "X[i] = A[i], B[i]": "there is a comma outside brackets.\n  X[i] = A[i], B[i]\n             ^\n"
    "Factors stand side by side: A[i, r] B[j, r].",
    # brackets
    "X[i = A[i]": f"the bracket of X is not closed.\n  X[i = A[i]\n  ^^^\n{BRACKET}",
    "X[i] = A[": f"the bracket of A is not closed.\n  X[i] = A[\n         ^^\n{BRACKET}",
    "X[i] = A[i,": f"the bracket of A is not closed.\n  X[i] = A[i,\n         ^^^^\n{BRACKET}",
    "X[i] = A[i,r B[j,r]": f"the bracket of A is not closed.\n  X[i] = A[i,r B[j,r]\n         ^^^^^\n{BRACKET}",
    "X[i] = A[i; r]": f"the bracket of A is not closed.\n  X[i] = A[i; r]\n         ^^^\n{BRACKET}",
    "X[i] = A[i r]": f"there is no comma between i and r.\n  X[i] = A[i r]\n           ^^^\n{BRACKET}",
    "X[i] = A[i,,r]": f"an index of A is missing here.\n  X[i] = A[i,,r]\n             ^\n{BRACKET}",
    "X[i] = A[i,]": f"an index of A is missing here.\n  X[i] = A[i,]\n             ^\n{BRACKET}",
    "X[,i] = A[i]": f"an index of X is missing here.\n  X[,i] = A[i]\n    ^\n{BRACKET}",
    "X[i]] = A[i]": f"this bracket was not opened.\n  X[i]] = A[i]\n      ^\n{BRACKET}",
    "X[i] = A[i][r]": f"this bracket follows no name.\n  X[i] = A[i][r]\n             ^\n{BRACKET}",
    "X[i] = [i]": f"this bracket follows no name.\n  X[i] = [i]\n         ^\n{BRACKET}",
    # declarations
    "friend:": "friend is declared to be nothing.\n  friend:\n  ^^^^^^^\n"
    "A declaration names two axes: axis: other_axis.",
    "a: b, c: d": "the declaration of a goes on after b.\n  a: b, c: d\n      ^\n"
    "Write one declaration a line, two names: axis: other_axis.",
    "a: U[b]": "the declaration of a goes on after U.\n  a: U[b]\n      ^\n"
    "Write one declaration a line, two names: axis: other_axis.",
    "X[i]: j": "there is a : in an equation.\n  X[i]: j\n      ^\n"
    "A declaration, axis: other_axis, stands on a line of its own.",
    "X[i] = A[i] i: j": "factor i has no brackets.\n  X[i] = A[i] i: j\n              ^\n"
    "Write its indices, as in i[i, r], or i[] if it is a single number.",
    # characters
    "X[i] = 0.5 A[i]": f"0.5 begins with a digit.\n  X[i] = 0.5 A[i]\n         ^^^\n{NUMBER}",
    "X[2nd] = A[2nd]": f"2nd begins with a digit.\n  X[2nd] = A[2nd]\n    ^^^\n{NUMBER}",
    "X[i] = A(i)": "factor A has no brackets.\n  X[i] = A(i)\n         ^\n"
    "Write its indices, as in A[i, r], or A[] if it is a single number.",
    "X[i] = A{i}": "unexpected character '{'.\n  X[i] = A{i}\n          ^\nIndices stand in square brackets: A[i, r].",
    "X[user-id] = A[i]": "unexpected character '-'.\n  X[user-id] = A[i]\n        ^\n"
    "Names are letters, digits and _; factors are never subtracted.",
    "X[i] = A[i] · B[i]": f"unexpected character '·'.\n  X[i] = A[i] · B[i]\n              ^\n{SIDE_BY_SIDE}",
    "X['i'] = A[i]": "unexpected character '''.\n  X['i'] = A[i]\n    ^\nNames are written without quotes.",
    "X[i] ~ A[i]": "unexpected character '~'.\n  X[i] ~ A[i]\n       ^\n"
    "Write = between a relation and its factors; the likelihood belongs to plait.Relation.",
    "X[i] = A[i] / B[i]": f"unexpected character '/'.\n  X[i] = A[i] / B[i]\n              ^\n{LANGUAGE}",
    "X[i\u200b] = A[i]": f"unexpected character U+200B.\n  X[i\ufffd] = A[i]\n     ^\n{LANGUAGE}",
    "X[\u0301] = A[i]": f"unexpected character U+0301.\n  X[\u0301] = A[i]\n    ^\n{LANGUAGE}",
    "X[\ud800] = A[i]": f"unexpected character U+D800.\n  X[\ufffd] = A[i]\n    ^\n{LANGUAGE}",
    # where: line numbers, indentation, tabs, wide and combining characters, comments
    "a: b\nX": "relation X has no brackets.\n  line 2: X\n          ^\n"
    "Write its indices, as in X[i, j], or X[] if it is a single cell.",
    "\n    # first\n\n    X[i] =  # none\n": "there is no factor after =.\n  line 3: X[i] =  # none\n"
    f"               ^\n{ONE_LINE}",
    "\n    X[i] =\n": f"there is no factor after =.\n  X[i] =\n       ^\n{ONE_LINE}",
    "a: b\r\nX[i] =\r\n": f"there is no factor after =.\n  line 2: X[i] =\n               ^\n{ONE_LINE}",
    "\tX[i]\t=\t*": f"there is no factor after =.\n  X[i]    =   *\n          ^\n{ONE_LINE}",
    "日本[語] = / ": f"unexpected character '/'.\n  日本[語] = /\n             ^\n{LANGUAGE}",
    "e\u0301[語 i]": f"there is no comma between 語 and i.\n  e\u0301[語 i]\n    ^^^^\n{BRACKET}",
    "a: b; X[i] = A": "factor A has no brackets.\n  a: b; X[i] = A\n               ^\n"
    "Write its indices, as in A[i, r], or A[] if it is a single number.",
}


def plain(statement: Statement) -> str:
    if isinstance(statement, Declaration):
        return f"{statement.axis.text}: {statement.other.text}"
    terms = [" ".join(map(plain_bracket, term)) for term in statement.terms]
    return f"{plain_bracket(statement.left)} = {' + '.join(terms)}"


def plain_bracket(bracket: Bracket) -> str:
    return f"{bracket.name.text}[{','.join(index.text for index in bracket.indices)}]"


@pytest.mark.parametrize("text", READ)
def test_text_is_read_as(text):
    assert [plain(statement) for statement in parse(text)] == READ[text]


@pytest.mark.parametrize("text", REFUSED)
def test_refusal_says_what_where_and_a_cure(text):
    with pytest.raises(ModelError) as refusal:
        parse(text)
    assert str(refusal.value) == REFUSED[text]


def test_spans_are_what_the_user_wrote():
    equation, declaration = parse("a: b; X[ i ] = A[i,  r] * B[r]  # so")[::-1]
    assert equation.left.span.text == "X[ i ]"
    assert [term.span.text for term in equation.right] == ["A[i,  r]", "B[r]"]
    assert [index.span.text for index in equation.right[0].indices] == ["i", "r"]
    assert declaration.span.text == "a: b"


NEARLY = st.text(st.sampled_from("AXi日\u0301[],=*:;# \t\r\n1+\x00\u200b"))


@settings(deadline=None)
@given(st.text() | NEARLY)
@example("")
@example("[" * 5000)
@example("X[i] = " + "A[i] * " * 5000)
def test_any_text_is_read_or_refused_with_a_caret_under_its_line(text):
    try:
        parse(text)
    except ModelError as refusal:
        _, source, carets, cure = str(refusal).split("\n")
        assert source.startswith("  ")
        assert set(carets.strip()) == {"^"}
        assert carets.startswith("  ")
        assert cure
        str(refusal).encode()
