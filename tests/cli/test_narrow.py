"""Tables on terminals of any width: no number is cut, no name is lost, and nothing is wider than the terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from plait.cli import output
from plait.show import text
from tests.cli.test_program import on_a_terminal

HEADINGS = ["user", "a long heading of words", "mean", "probability", "high"]
ROWS = [
    ["ann lee", "café", 123452.0, 0.25, 5],
    ["somebody with a name of many words", "日本語の長い名前", 7.0, 1.0, 1234567],
]
NUMBERS = ["123,452", "0.2500", "5", "7", "1.0000", "1,234,567"]


def printed(capsys, monkeypatch, width, headings=HEADINGS, rows=ROWS, left=2):
    """What a console of this width shows."""
    monkeypatch.setattr(text, "PIPE", width)
    output.grid(headings, rows, left=left)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [20, 40, 50, 60, 80, 120])
def test_numbers_and_names_are_whole_at_any_width(capsys, monkeypatch, width):
    text = printed(capsys, monkeypatch, width)
    assert [word for word in re.split(r"\s+", text) if re.fullmatch(r"[\d,.]+", word)] == NUMBERS
    assert all(word in text for word in ("ann", "lee", "café", "somebody", "words"))
    assert "".join(re.findall("[日本語の長い名前]", text)) == "日本語の長い名前"


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(capsys, monkeypatch, width):
    assert max(map(cell_len, printed(capsys, monkeypatch, width).splitlines())) <= width


def test_a_narrow_table_folds_text_and_headings(capsys, monkeypatch):
    text = printed(capsys, monkeypatch, 50, ["axis", "linked in one relation only", "entities"], [["user", "none", 6]])
    assert [line.rstrip() for line in text.splitlines()] == [
        "axis   linked in one relation only   entities",
        "─" * 45,
        "user   none                                 6",
    ]
    text = printed(capsys, monkeypatch, 30, ["axis", "linked in one relation only", "entities"], [["user", "none", 6]])
    assert [line.rstrip() for line in text.splitlines()] == [
        "      linked in one",
        "axis  relation only   entities",
        "─" * 30,
        "user  none                   6",
    ]


def test_where_even_that_is_too_wide_every_row_is_a_paragraph(capsys, monkeypatch):
    text = printed(capsys, monkeypatch, 40)
    assert text == (
        "user ann lee\n"
        "  a long heading of words café\n"
        "  mean 123,452  probability 0.2500\n"
        "  high 5\n"
        "user somebody with a name of many words\n"
        "  a long heading of words 日本語の長い名前\n"
        "  mean 7  probability 1.0000\n"
        "  high 1,234,567\n"
    )


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=6),
    st.lists(st.text("abc ", max_size=40), min_size=1, max_size=3),
    st.integers(1, 130),
)
def test_columns_have_room_for_their_numbers_and_fit(numbers, names, room):
    headings = [f"n{k}" for k in range(len(names))] + [f"x{k}" for k in range(len(numbers))]
    cells = [[name] for name in names] + [[f"{number:,}"] for number in numbers]
    gap, widths = text._fit(headings, cells, len(names), room)
    if widths is not None:
        assert sum(widths) + gap * (len(widths) - 1) <= room
        assert all(width >= len(cell) for width, (cell,) in zip(widths[len(names) :], cells[len(names) :]))
        assert all(width >= min(len(cell), text.TEXT_WIDTH) for width, (cell,) in zip(widths, cells))


@pytest.mark.parametrize("columns", ["40", "60"])
def test_a_real_terminal_shows_every_number_of_a_link(world, columns):
    text = on_a_terminal(world, "top run visits -k 1", {"NO_COLOR": "1", "COLUMNS": columns}).decode()
    assert re.findall(r"[\d.]{6}", text)[:2] == ["1.9292", "1.8258"]
    assert all(name in text for name in ("fay", "gym", "probability", "high"))
    assert max(map(len, text.splitlines())) <= int(columns)
