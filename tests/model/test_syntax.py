"""Grammar of models: statements, and errors with carets."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plait.errors import ModelError
from plait.model.syntax import Bracket, Declaration, Statement, parse
from tests.support.data_errors import assert_mentions, error_text, underlined

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

# text, with « » around what the carets underline -> words of the error
REFUSED = {
    "«=» A[i]": ["statement cannot begin with ="],
    "«*» B[j,r]": ["statement cannot begin with *"],
    "«X»": ["relation X has no brackets"],
    "«X» = A[i]": ["relation X has no brackets"],
    "«X[i, j]»": ["= is missing after X[i, j]"],
    "«X[i]» A[i]": ["= is missing after X[i]"],
    "«X[i]» * A[i]": ["= is missing after X[i]"],
    "X[i] «=»": ["a factor is missing after ="],
    "X[i] «=» # A[i]": ["a factor is missing after ="],
    "X[i] «=» * A[i]": ["a factor is missing after ="],
    "X[i] = A[i] «*»": ["a factor is missing after *"],
    "X[i] = A[i] «*»* B[i]": ["a factor is missing after *"],
    "X[i] =«=» A[i]": ["equation has a second ="],
    "X[i] = A[i] «=» B[i]": ["equation has a second ="],
    "X[i] = A[i] «+»": ["a term is missing after +"],
    "X[i] = «+» A[i]": ["a term is missing before +"],
    "X[i] = A[i] «+» + b[]": ["a term is missing after +"],
    "X[i] = A[i] «(»+ b[])": ["a factor is missing after ("],
    "X[i] = A[i] (b[] «+»)": ["a term is missing after +"],
    "X[i] = A[i] «()»": ["the parentheses are empty"],
    "X[i] = A[i] «(b[] + c[]»": ["parenthesis is not closed"],
    "X[i] = A[i]«)»": ["closing parenthesis has no opening parenthesis"],
    "X[i] = (a[i] + b[i]) «=» c[]": ["equation has a second ="],
    "«X[i]» + A[i]": ["= is missing after X[i]"],
    f"X[i] = {'(' * 50}«(»{'(' * 349}a[i]{')' * 400}": ["parentheses are nested more than 50 levels deep"],
    f"X[i] «=» {'(a[i]+b[])' * 7}": ["product has 128 terms"],
    "X[i] = «A»": ["factor A has no brackets"],
    "X[i] = A[i]«,» B[i]": ["comma outside brackets"],
    "«X[i» = A[i]": ["bracket of X is not closed"],
    "X[i] = «A[»": ["bracket of A is not closed"],
    "X[i] = «A[i,»": ["bracket of A is not closed"],
    "X[i] = «A[i,r» B[j,r]": ["bracket of A is not closed"],
    "X[i] = «A[i»; r]": ["bracket of A is not closed"],
    "X[i] = A[«i r»]": ["a comma is missing between i and r"],
    "X[i] = A[i,«,»r]": ["index of A is missing here"],
    "X[i] = A[i,«]»": ["index of A is missing here"],
    "X[«,»i] = A[i]": ["index of X is missing here"],
    "X[i]«]» = A[i]": ["closing bracket has no opening bracket"],
    "X[i] = A[i]«[»r]": ["a name is missing before this bracket"],
    "X[i] = «[»i]": ["a name is missing before this bracket"],
    "«friend:»": ["declaration of friend is incomplete"],
    "a: b«,» c: d": ["text after the declaration of a"],
    "a: U«[»b]": ["text after the declaration of a"],
    "X[i]«:» j": [": in an equation"],
    "X[i] = A[i] «i»: j": ["factor i has no brackets"],
    "X[i] = «0.5» A[i]": ["0.5 begins with a digit"],
    "X[«2nd»] = A[2nd]": ["2nd begins with a digit"],
    "X[i] = «A»(i)": ["factor A has no brackets"],
    "X[i] = A«{»i}": ["character '{'", "square brackets"],
    "X[user«-»id] = A[i]": ["character '-'", "cannot be subtracted"],
    "X[i] = A[i] «·» B[i]": ["character '·'", "next to each other"],
    "X[«'»i'] = A[i]": ["character '''", "without quotes"],
    "X[i] «~» A[i]": ["character '~'", "likelihood"],
    "X[i] = A[i] «/» B[i]": ["character '/'"],
    "a: b\n«X»": ["line 2: ", "relation X has no brackets"],
    "\n    # first\n\n    X[i] «=»  # none\n": ["line 3: ", "a factor is missing after ="],
    "\n    X[i] «=»\n": ["a factor is missing after ="],
    "a: b\r\nX[i] «=»\r\n": ["line 2: ", "a factor is missing after ="],
    "日本[語] = «/» ": ["character '/'"],
    "e\u0301[«語 i»]": ["a comma is missing between 語 and i"],
    "a: b; X[i] = «A»": ["factor A has no brackets"],
}

# characters that are shown as others, tabs, and a lone combining character
SHOWN = {
    "X[i\u200b] = A[i]": "unexpected character U+200B.\n  X[i\ufffd] = A[i]\n     ^\n",
    "X[\u0301] = A[i]": "unexpected character U+0301.\n  X[\u0301] = A[i]\n    ^\n",
    "X[\ud800] = A[i]": "unexpected character U+D800.\n  X[\ufffd] = A[i]\n    ^\n",
    "\tX[i]\t=\t*": "a factor is missing after =.\n  X[i]    =   *\n          ^\n",
}


def plain(statement: Statement) -> str:
    if isinstance(statement, Declaration):
        return f"{statement.axis.text}: {statement.other.text}"
    terms = [" ".join(map(plain_bracket, term)) for term in statement.terms]
    return f"{plain_bracket(statement.left)} = {' + '.join(terms)}"


def plain_bracket(bracket: Bracket) -> str:
    return f"{bracket.name.text}[{','.join(index.text for index in bracket.indices)}]"


@pytest.mark.parametrize("text", READ)
def test_statements_of_a_text(text):
    assert [plain(statement) for statement in parse(text)] == READ[text]


@pytest.mark.parametrize("text", REFUSED)
def test_other_text_is_refused_with_a_caret(text):
    shown = error_text(parse, re.sub("[«»]", "", text))
    assert_mentions(shown, *REFUSED[text])
    assert underlined(shown) in [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize("text", SHOWN)
def test_carets_stand_under_tabs_and_invisible_characters(text):
    assert error_text(parse, text).startswith(SHOWN[text])


NEARLY = st.text(st.sampled_from("AXi日\u0301[],=*:;# \t\r\n1+\x00\u200b"))


@settings(deadline=None)
@given(st.text() | NEARLY)
@example("")
@example("[" * 5000)
@example("X[i] = " + "A[i] * " * 5000)
def test_any_text_is_read_or_refused_with_a_caret(text):
    try:
        parse(text)
    except ModelError as refusal:
        _, source, carets, hint = str(refusal).split("\n")
        assert source.startswith("  ")
        assert set(carets.strip()) == {"^"}
        assert carets.startswith("  ")
        assert hint
        str(refusal).encode()
