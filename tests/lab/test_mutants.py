"""Mutants: the same ones in every run, each one change of a file that still parses."""

import ast
from pathlib import Path

import pytest

from lab.mutants import PACKAGES, Finder, draw

SOURCE = Path(__file__).parents[2] / "src"
EXAMPLE = '''"""Docstring with 1 < 2."""
from plait.jit import kernel

LIMIT = 0.5
CHUNK_CELLS = 256


@kernel
def add(x):
    return x + 1


def both(a: int = 3, *, é=(1, 2)) -> bool:
    assert a > 0
    if a < 0:
        raise ValueError(f"{a + 1}: 1 < 2" + str(a - 1))
    if not (a  # 1 == 2
            == 2):
        a *= max(a, 2)
    return a > 1 and "é" != "e"
'''


def changes(text):
    """Line, operator, before and after of the mutants of a text."""
    return [(m.line, m.operator, m.before, m.after) for m in Finder("example.py", text.encode()).mutants]


def test_operators_constants_and_conditions_change_and_nothing_else_does():
    assert changes(EXAMPLE) == [
        (4, "constant", "0.5", "1.5"),
        (10, "+ to -", "+", "-"),
        (10, "constant", "1", "2"),
        (13, "constant", "3", "4"),
        (13, "constant", "1", "2"),
        (13, "constant", "2", "3"),
        (15, "< to <=", "<", "<="),
        (15, "constant", "0", "1"),
        (17, "condition to True", "not (a  # 1 == 2\n            == 2)", "True"),
        (17, "not removed", "not ", ""),
        (18, "== to !=", "==", "!="),
        (18, "constant", "2", "3"),
        (19, "* to /", "*", "/"),
        (19, "max to min", "max", "min"),
        (19, "constant", "2", "3"),
        (20, "return negated", 'a > 1 and "é" != "e"', 'not (a > 1 and "é" != "e")'),
        (20, "> to >=", ">", ">="),
        (20, "constant", "1", "2"),
        (20, "and to or", "and", "or"),
        (20, "!= to ==", "!=", "=="),
    ]


def test_only_statements_inside_of_interpreted_functions_have_lines_of_their_own():
    lines = {m.line: m.lines for m in Finder("example.py", EXAMPLE.encode()).mutants}
    assert lines == {4: None, 10: None, 13: None, 15: (15, 15), 17: (17, 18), 18: (17, 18), 19: (19, 19), 20: (20, 20)}


@pytest.mark.budget(3)
def test_draws_are_the_same_in_every_run_and_nested():
    drawn = draw(SOURCE, 40, seed=0)
    assert drawn == draw(SOURCE, 40, seed=0)
    assert len(set(drawn)) == 40
    assert set(draw(SOURCE, 20, seed=0)) < set(drawn)
    assert drawn != draw(SOURCE, 40, seed=1)


@pytest.mark.budget(5)
@pytest.mark.parametrize("package", PACKAGES)
def test_every_mutant_parses_and_differs_in_one_place(package):
    for path in sorted((SOURCE / package).rglob("*.py")):
        data = path.read_bytes()
        tree = ast.dump(ast.parse(data))
        found = Finder(path.name, data).mutants
        for mutant in found[:: max(1, len(found) // 10)]:
            changed = mutant.apply(data)
            assert ast.dump(ast.parse(changed)) != tree
            assert changed[: mutant.start] == data[: mutant.start]
            assert changed[mutant.start + len(mutant.after.encode()) :] == data[mutant.end :]
