"""No message is written in the words of one front end: options and places in it are values."""

import ast
import re
from pathlib import Path

import pytest

import plait

SOURCE = Path(plait.__file__).parent
OWN = ("cli", "config", "explore", "paper", "demo")  # these speak for one front end only
MESSAGES = re.compile(r"\w*(Error|Warning)|Trap|Phrase")
SPOKEN = ("what", "cure", "wanted", "wrong", "hint", "both", "said")
PYTHON = re.compile(r"\b[a-z_]+=(?!=)|plait\.(Relation|Exposure|Gamma)\(")
TOML = re.compile(r"\b[a-z_]+ = |--[a-z]+\b")
# Not options of Plait's: a switch of pandas, and programs that a cure tells to run.
ALLOWED = ("write the file with index=False", "iconv -f latin1 -t utf-8", "plait.read(connection, query=…)")


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and MESSAGES.fullmatch(getattr(node.func, "id", "")):
            yield from (*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in SPOKEN))
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in SPOKEN:
            yield node.value


def literals(node):
    """What is written out in an expression; what stands in braces is a value, or made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    elif isinstance(node, (ast.IfExp, ast.BinOp)):
        for part in ast.iter_child_nodes(node):
            yield from literals(part)


def spoken():
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] not in OWN:
            for expression in calls(ast.parse(path.read_text(encoding="utf-8"))):
                for text in literals(expression):
                    yield path.relative_to(SOURCE), expression.lineno, text


def test_messages_are_found_where_they_are_written():
    assert len(list(spoken())) > 600


@pytest.mark.parametrize(
    "source",
    [
        "raise DataError('x.', cure='Say quoted=False.')",
        "raise DataError(f'{x} is wrong, which value= names.')",
        "raise SettingError(f'Use {y}, or plait.Relation(table, {z}).')",
        "cure = f'Say method={given!r}' if x else ''",
        "Trap(kind, where, 'x.', 'Or prune=True.')",
    ],
)
def test_an_option_that_is_written_out_is_found(source):
    (found,) = [text for expression in calls(ast.parse(source)) for text in literals(expression) if PYTHON.search(text)]
    assert found


@pytest.mark.parametrize("dialect", [PYTHON, TOML], ids=["Python", "TOML"])
def test_no_message_has_an_option_as_text(dialect):
    found = [
        (str(path), line, text)
        for path, line, text in spoken()
        if dialect.search(text) and not any(words in text for words in ALLOWED)
    ]
    assert found == []
