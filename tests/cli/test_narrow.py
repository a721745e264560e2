"""Tables on terminals of any width: no number is cut, no name is lost, and nothing is wider than the terminal."""

import re

import pytest
from rich.cells import cell_len

from plait.cli import output

HEADINGS = ["user", "a long heading of words", "mean", "probability", "upper"]
ROWS = [
    ["ann lee", "café", 123452.0, 0.25, 5],
    ["somebody with a name of many words", "日本語の長い名前", 7.0, 1.0, 1234567],
]
NUMBERS = ["123,452", "0.2500", "5", "7", "1.0000", "1,234,567"]


def printed(capsys, tuning, width, headings=HEADINGS, rows=ROWS, left=2):
    """What a console of this width shows."""
    tuning(pipe_columns=width)
    output.grid(headings, rows, left=left)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [20, 40, 50, 60, 80, 120])
def test_numbers_and_names_are_whole_and_tables_fit(capsys, tuning, width):
    text = printed(capsys, tuning, width)
    assert [word for word in re.split(r"\s+", text) if re.fullmatch(r"[\d,.]+", word)] == NUMBERS
    assert all(word in text for word in ("ann", "lee", "café", "somebody", "words"))
    assert "".join(re.findall("[日本語の長い名前]", text)) == "日本語の長い名前"
    assert width < 50 or max(map(cell_len, text.splitlines())) <= width


def test_in_a_very_narrow_terminal_a_row_is_a_paragraph(capsys, tuning):
    text = printed(capsys, tuning, 40)
    assert text == (
        "user ann lee\n"
        "  a long heading of words café\n"
        "  mean 123,452  probability 0.2500\n"
        "  upper 5\n"
        "user somebody with a name of many words\n"
        "  a long heading of words 日本語の長い名前\n"
        "  mean 7  probability 1.0000\n"
        "  upper 1,234,567\n"
    )


@pytest.mark.thorough
@pytest.mark.parametrize("columns", ["40", "60"])
def test_a_real_terminal_shows_every_number_of_a_link(world, columns):
    text = world.on_a_terminal("top run visits -k 1", {"NO_COLOR": "1", "COLUMNS": columns}).decode()
    assert re.findall(r"[\d.]{6}", text)[:2] == ["1.9292", "1.8258"]
    assert all(name in text for name in ("fay", "gym", "probability", "upper"))
    assert max(map(len, text.splitlines())) <= int(columns)
