import gzip
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import plait
from plait.files import line_of

TRIPLES = ["head", "relation", "tail"]


def given(text: str | bytes, name: str = "visits.csv") -> str:
    Path(name).write_bytes(text.encode() if isinstance(text, str) else text)
    return name


def message(source: str, **options: Any) -> str:
    with pytest.raises((plait.DataError, plait.SettingError)) as caught:
        plait.read(source, **options)
    return str(caught.value)


def test_a_csv_has_integers_decimals_and_words():
    table = plait.read(given("user,place,plays,share\n1,p1,3,0.5\n2,p2,4,-1e-3\n"))
    expected = pl.DataFrame({"user": [1, 2], "place": ["p1", "p2"], "plays": [3, 4], "share": [0.5, -0.001]})
    assert_frame_equal(table, expected)


@pytest.mark.parametrize(
    "code", ["007", "+7", "-0", "-07", "12e4", "12345678901234567890", "1x", "0x10", "1_000", " 7", "７"]
)
def test_one_field_that_is_no_plain_number_keeps_the_column_as_text(code):
    table = plait.read(given(f"id,n\n1,1\n{code},2\n3,3\n"))
    assert table["id"].to_list() == ["1", code, "3"]


@pytest.mark.parametrize("word", ["abc", "007", "nan"])
def test_a_word_far_down_makes_the_whole_column_text(word, monkeypatch):
    monkeypatch.setattr("plait.files.dialect.SAMPLE", 40)
    numbers = [str(k) for k in range(1, 2000)]
    table = plait.read(given("id,n\n" + "".join(f"{k},{k}.5\n" for k in numbers) + f"{word},1.5\n"))
    assert table["id"].to_list() == [*numbers, word]
    assert table["n"].dtype == pl.Float64


def test_a_decimal_far_down_makes_the_whole_column_decimals(monkeypatch):
    monkeypatch.setattr("plait.files.dialect.SAMPLE", 40)
    table = plait.read(given("id,n\n" + "x,1\n" * 2000 + "x,1.5\n"))
    assert table["n"].to_list() == [1.0] * 2000 + [1.5]


def test_a_column_that_is_empty_at_first_is_typed_by_what_follows(monkeypatch):
    monkeypatch.setattr("plait.files.dialect.SAMPLE", 40)
    table = plait.read(given("id,n\n" + ",1\n" * 100 + "5,1\n"))
    assert table["id"].to_list() == [None] * 100 + [5]


def test_text_keeps_a_column_of_numbers_as_it_stands():
    table = plait.read(given("id,n\n1.10,1\n1.1,2\n"), text=["id"])
    assert table["id"].to_list() == ["1.10", "1.1"]


@pytest.mark.parametrize(
    ("fields", "numbers"), [("+5\n007\n", [5, 7]), ("1\n2.5\n", [1.0, 2.5]), ("1e3\n-0\n", [1e3, 0.0])]
)
def test_a_value_column_takes_every_way_to_write_a_number(fields, numbers):
    assert plait.read(given("plays\n" + fields), value="plays")["plays"].to_list() == numbers


def test_an_empty_field_is_null_and_a_quoted_one_an_empty_string():
    table = plait.read(given('user,place\n,x\n"",y\n'))
    assert table["user"].to_list() == [None, ""]


def test_a_file_with_only_a_header_is_an_empty_table():
    for text in ("user,place,value\n", "user,place,value", "\n\nuser,place,value\r\n\r\n"):
        table = plait.read(given(text))
        assert table.shape == (0, 3)
        assert table.columns == ["user", "place", "value"]
    data = {"r": table, "other": pl.DataFrame({"user": ["ann"], "age": [3]})}
    bound = plait.Model("r[user, place] = A[user, k] B[place, k]\nother[user, age] = A[user, k] C[age, k]").bind(
        data, labels={"place": ["x", "y"]}
    )
    assert len(bound.labels["user"]) == 1


def test_blank_lines_and_lines_of_delimiters_are_no_rows():
    source = given("\nuser,n\n\na,1\n,\n\nb,2\n\n\n")
    table = plait.read(source)
    assert table.rows() == [("a", 1), ("b", 2)]
    assert [line_of(source, row) for row in range(3)] == [4, 7, None]


def test_lines_are_counted_through_quoted_line_breaks():
    source = given('"us\ner",n\r\n"a\r\n\r\nb",1\r\nc,2\r\n"d,\n",3\r\ne,4\r\n')
    table = plait.read(source)
    assert table.rows() == [("a\r\n\r\nb", 1), ("c", 2), ("d,\n", 3), ("e", 4)]
    assert table.columns == ["us\ner", "n"]
    assert [line_of(source, row) for row in range(4)] == [3, 6, 7, 9]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter):
    text = delimiter.join(["user", "place", "n"]) + "\n" + delimiter.join(["ann", '"a, b; c\t| d"', "1"]) + "\n"
    assert plait.read(given(text)).rows() == [("ann", "a, b; c\t| d", 1)]


def test_decimal_commas_do_not_hide_a_semicolon():
    assert plait.read(given("user;n\na;1,5\nb;2,5\n")).columns == ["user", "n"]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.tab", "t.txt", "t.CSV", "t.csv.gz", "t.tsv.gz", "t.txt.gz"])
def test_every_ending_of_delimited_text_is_read(name):
    text = b"a\tb\n1\tx\n" if name[2] == "t" else b"a,b\n1,x\n"
    source = given(gzip.compress(text) if name.endswith("gz") else text, name)
    assert plait.read(source, header=True).rows() == [(1, "x")]
    assert plait.read(Path(source), header=True).rows() == [(1, "x")]


def test_triples_without_a_header_are_read_by_the_names_of_their_columns():
    source = given("new york\tis in\tusa\nuk\tis in\teurope\n", "train.txt")
    assert plait.read(source, columns=TRIPLES).rows() == [("new york", "is in", "usa"), ("uk", "is in", "europe")]
    assert line_of(source, 1, columns=TRIPLES) == 2


def test_columns_that_repeat_the_header_do_not_make_it_a_row():
    assert plait.read(given("a,b\n1,2\n"), columns=["a", "b"]).rows() == [(1, 2)]


def test_columns_replace_the_names_of_a_header():
    assert plait.read(given("userID,n\nx,1\n"), columns=["user", "plays"], header=True).to_dicts() == [
        {"user": "x", "plays": 1}
    ]


def test_a_file_said_to_have_no_header_has_numbered_columns():
    assert plait.read(given("x,1\ny,2\n"), header=False).columns == ["column1", "column2"]


def test_a_byte_order_mark_is_no_part_of_the_first_name_or_field():
    assert plait.read(given("\ufeffuser,n\na,1\n")).columns == ["user", "n"]
    assert plait.read(given("\ufeffa,1\n"), columns=["user", "n"]).rows() == [("a", 1)]


def test_quotation_marks_can_be_ordinary_characters():
    assert plait.read(given('pipe,n\n5" wide,1\n"6",2\n'), quoted=False)["pipe"].to_list() == ['5" wide', '"6"']


def test_a_file_with_a_bracket_in_its_name_is_no_pattern():
    given("a,b\n1,2\n", "a1.csv")
    assert plait.read(given("a,b\n3,4\n", "a[1].csv")).rows() == [(3, 4)]


def test_the_nations_triples_have_1592_rows_to_train(shared):
    table = plait.read(shared / "nations" / "train.txt", columns=TRIPLES)
    assert table.shape == (1592, 3)
    assert table.row(0) == ("netherlands", "militaryalliance", "uk")


ADD = "Add what is missing; a field may be empty, but not left out."
MARKS = "or give `quoted=False` where quotation marks are ordinary characters."

# name of the case: bytes, options, message
FAULTS: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "a word where a number must be": (
        b'user,plays\n"a\nb",1\nc,2\nd,abc\n',
        {"value": "plays"},
        "visits.csv, line 5, column 'plays': 'abc' is not a number.\nWrite a number such as 3 or 0.25.",
    ),
    "the column called value must be numbers": (
        b"user,value\na,1\nb,many\n",
        {},
        "visits.csv, line 3, column 'value': 'many' is not a number.\nWrite a number such as 3 or 0.25.",
    ),
    "one of several value columns": (
        b"user,value,weight\r\na,1,1\r\n\r\nb,2,x\r\n",
        {"value": ["value", "weight"]},
        "visits.csv, line 4, column 'weight': 'x' is not a number.\nWrite a number such as 3 or 0.25.",
    ),
    "a number that is none": (
        b"user,plays\na,1\nb,nan\n",
        {"value": "plays"},
        "visits.csv, line 3, column 'plays': 'nan' is not a number.\nWrite a number such as 3 or 0.25.",
    ),
    "a decimal comma": (
        b"user;plays\na;1\nb;1,5\n",
        {"value": "plays"},
        "visits.csv, line 3, column 'plays': '1,5' is not a number.\nWrite a number such as 3 or 0.25.",
    ),
    "a header read as a row": (
        b"ann,plays\n",
        {"columns": ["user", "plays"], "value": "plays"},
        (
            "visits.csv, line 1, column 'plays': 'plays' is not a number.\n"
            "Write a number such as 3 or 0.25; if the line is the header, give `header=True`."
        ),
    ),
    "too few fields": (
        b"user,place,n\na,x,1\nb,2\n",
        {},
        f"visits.csv, line 3: 2 fields, but the file has 3 columns, 'user', 'place', 'n'.\n{ADD}",
    ),
    "too few fields below an empty one": (
        b"user,place,n\na,x,\nb,2\n",
        {},
        f"visits.csv, line 3: 2 fields, but the file has 3 columns, 'user', 'place', 'n'.\n{ADD}",
    ),
    "too many fields": (
        b'user,n\n"a\n",1\nb,2,3\n',
        {},
        "visits.csv, line 4: 3 fields, but the file has 2 columns, 'user', 'n'.\n"
        "Put a field that has ',' in it into quotes.",
    ),
    "too many fields for one column": (
        b"user\na\nb,2\n",
        {},
        "visits.csv, line 3: 2 fields, but the file has 1 column, 'user'.\nPut a field that has ',' in it into quotes.",
    ),
    "too many fields without quotes": (
        b"user,n\nb,2,3\n",
        {"quoted": False},
        (
            "visits.csv, line 2: 3 fields, but the file has 2 columns, 'user', 'n'.\n"
            "No field may have ',' in it while `quoted=False`."
        ),
    ),
    "Latin-1 in a row": (
        "user,n\na,1\nrenée,2\n".encode("latin1"),
        {},
        "visits.csv, line 3: byte 0xe9 at offset 14 is not UTF-8.\n"
        "Save the file as UTF-8; from Latin-1: iconv -f latin1 -t utf-8.",
    ),
    "Latin-1 in the header": (
        "prénom,n\na,1\n".encode("latin1"),
        {},
        "visits.csv, line 1: byte 0xe9 at offset 2 is not UTF-8.\n"
        "Save the file as UTF-8; from Latin-1: iconv -f latin1 -t utf-8.",
    ),
    "UTF-16": ("user,n\na,1\n".encode("utf-16"), {}, "visits.csv: the file is UTF-16.\nSave it as UTF-8."),
    "an empty file": (
        b"",
        {},
        "visits.csv: the file is empty.\nA table has at least a line with the names of its columns.",
    ),
    "a file of blank lines": (
        b"\n \n\r\n",
        {},
        "visits.csv: the file is empty.\nA table has at least a line with the names of its columns.",
    ),
    "an open quotation mark": (
        b'user,n\na,1\n"b,2\nc,3\n',
        {},
        f"visits.csv, line 3: a quotation mark opens a field and is not closed.\nClose it; {MARKS}",
    ),
    "text after a quotation mark": (
        b'user,n\n"a"b,1\n',
        {},
        "visits.csv, line 2: text follows a closing quotation mark.\n"
        f"A quotation mark inside quotes is written twice; {MARKS}",
    ),
    "a lone quotation mark": (
        b'user,n\na,1\n5" pipe,2\n6" pipe,3\n',
        {},
        "visits.csv, line 3: a quotation mark stands inside a field.\n"
        f"Write the field in quotes, with the mark twice; {MARKS}",
    ),
    "two columns of one name": (
        b"user,user\na,1\n",
        {},
        "visits.csv, line 1: two columns are called 'user'.\nRename one of the two.",
    ),
    "a column without a name": (
        b",user\n0,a\n",
        {},
        "visits.csv, line 1: column 1 has no name.\n"
        "Name it; if pandas wrote its row numbers there, write the file with index=False.",
    ),
    "numbers for names": (
        b"ann,1\nbob,2\n",
        {},
        (
            "visits.csv, line 1: '1' is a number, so this does not look like names of columns.\n"
            "Name them with `columns`; or give `header=True` if it is the header."
        ),
    ),
    "a header where columns say there is none": (
        b"userID,weight\na,1\n",
        {"columns": ["user", "plays"]},
        (
            "visits.csv, line 1: 'weight' stands above numbers, so this looks like names of columns.\n"
            "Give `header=True` if it is the header, or `header=False` if it is data."
        ),
    ),
    "columns for another file": (
        b"a,b\n1,2\n",
        {"columns": TRIPLES},
        "visits.csv, line 1: 2 fields, but `columns` names 3.\nName every column of the file.",
    ),
    "carriage returns alone": (
        b"user,n\ra,1\rb,2\r",
        {},
        "visits.csv, line 1: a carriage return stands alone.\nEnd lines with LF or CRLF.",
    ),
    "a carriage return inside a line": (
        b'user)p"lace,\rvalu{\na,x,1N5,\ny,\n2p',
        {},
        "visits.csv, line 1: a carriage return stands alone.\nEnd lines with LF or CRLF.",
    ),
    "a word for a number in a last line without an end": (
        b"us;er,place,value\na,x,1\nb,y,2W",
        {},
        "visits.csv, line 3, column 'value': '2W' is not a number.\nWrite a number such as 3 or 0.25.",
    ),
    "a field beyond what one can be": (
        b"a" * 131_073 + b",n\nx,1\n",
        {},
        "visits.csv, line 1: a field has more than 131,072 characters.\n"
        f"Close the quotation mark that opens it, if one does; {MARKS}",
    ),
    "a value column that is not there": (
        b"user,plays\na,1\n",
        {"value": "play"},
        (
            "visits.csv: there is no column 'play', which `value` names; the file has 'user', 'plays'.\n"
            "Did you mean 'plays'? Name a column of the file."
        ),
    ),
    "a text column that is not there": (
        b"user,plays\na,1\n",
        {"text": ["usr"]},
        (
            "visits.csv: there is no column 'usr', which `text` names; the file has 'user', 'plays'.\n"
            "Did you mean 'user'? Name a column of the file."
        ),
    ),
    "a column of numbers and of text": (
        b"user,plays\na,1\n",
        {"text": ["plays"], "value": "plays"},
        "column 'plays' is in `value` and in `text`.\nIt is one of the two.",
    ),
    "a long delimiter": (
        b"user,plays\na,1\n",
        {"delimiter": "::"},
        "`delimiter` is '::'.\nIt is one character, such as ',', ';' or '\\t'.",
    ),
    "one name for columns": (
        b"user\na\n",
        {"columns": "user"},
        "`columns` is 'user'.\nGive a list of names: ['user'].",
    ),
    "a name twice in columns": (
        b"a,b\nc,d\n",
        {"columns": ["x", "x"]},
        "`columns` has 'x' twice.\nGive each column a name of its own.",
    ),
}


@pytest.mark.parametrize("chunk", [1, 20, 4 << 20])
@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_with_line_and_column(case, chunk, monkeypatch):
    monkeypatch.setattr("plait.files.lines.CHUNK", chunk)
    data, options, expected = FAULTS[case]
    assert message(given(data), **options) == expected


@pytest.mark.parametrize("case", [case for case in FAULTS if "offset" not in FAULTS[case][2]])
def test_a_fault_in_a_compressed_file_has_the_same_message(case):
    data, options, expected = FAULTS[case]
    assert message(given(gzip.compress(data), "visits.csv.gz"), **options) == expected.replace(".csv", ".csv.gz")


def test_a_fault_beyond_the_sample_is_found_by_the_second_pass(monkeypatch):
    monkeypatch.setattr("plait.files.dialect.SAMPLE", 40)
    rows = "".join(f"u{k},{k}\n" for k in range(5000))
    assert message(given(f"user,value\n{rows}x,y\n")).startswith("visits.csv, line 5002, column 'value': 'y'")
    assert message(given(f"user,value\n{rows}x\n{rows}")).startswith("visits.csv, line 5002: 1 field,")
    assert message(given(f"user,value\n{rows}x,1,2\n{rows}")).startswith("visits.csv, line 5002: 3 fields,")
    late = f"user,value\n{rows}".encode() + b"caf\xe9,1\n"
    assert message(given(late)).startswith(f"visits.csv, line 5002: byte 0xe9 at offset {len(late) - 4:,} is")


@pytest.mark.parametrize("chunk", [1, 7, 64, 4 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_of_every_row_is_known_however_the_file_is_cut(chunk, end, monkeypatch):
    monkeypatch.setattr("plait.files.lines.CHUNK", chunk)
    rng = np.random.default_rng(chunk)
    text, lines = f"user,n{end}", []
    for k in range(60):
        if rng.random() < 0.2:
            text += end if rng.random() < 0.5 else f",{end}"
        lines.append(text.count("\n") + 1)
        text += f'"a{end}b",{k}{end}' if k > 40 and rng.random() < 0.3 else f"u{k},{k}{end}"
    source = given(text)
    assert len(plait.read(source)) == 60
    assert [line_of(source, row) for row in range(61)] == [*lines, None]


def test_a_txt_must_say_whether_it_has_a_header():
    assert message(given("a\tb\tc\n", "train.txt")) == (
        "train.txt, line 1: it is not certain whether a .txt begins with the names of its columns.\n"
        "Name them with `columns`, or give `header=True`."
    )


def test_a_truncated_or_damaged_gzip_is_named(monkeypatch):
    monkeypatch.setattr("plait.files.dialect.SAMPLE", 40)
    whole = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (k, k * k % 977) for k in range(20_000)))
    cut = "t.csv.gz: the compressed file ends too early.\nIt was cut off; fetch it again."
    assert message(given(whole[:1000], "t.csv.gz")) == cut
    assert message(given(whole[:-9], "t.csv.gz")) == cut
    wrong = bytearray(whole)
    wrong[-6] ^= 0xFF
    assert message(given(bytes(wrong), "t.csv.gz")).startswith("t.csv.gz: the compressed file is damaged (CRC check")


def test_the_line_of_a_row_that_the_relation_refuses_is_known():
    source = given('user,value\n"a\nb",1\n\n,2\n')
    with pytest.raises(plait.DataError, match=r"column 'user', row 1 \(counting from 0\): the label is missing"):
        plait.Model("r[user] = A[user]").bind({"r": plait.read(source)})
    assert line_of(source, 1) == 5


# --- blanks around fields


BLANKS = "user, place , value\nann, cafe, 3\n bob,\tgym ,4 \n   \ncem,  , 5\n"


def test_strip_takes_blanks_off_names_numbers_and_columns():
    Path("a.csv").write_text(BLANKS)
    table = plait.read("a.csv", strip=True)
    assert table.columns == ["user", "place", "value"]
    assert table.rows() == [("ann", "cafe", 3), ("bob", "gym", 4), ("cem", None, 5)]
    assert table["value"].dtype == pl.Int64
    Path("b.csv").write_text("user,place\nann, cafe\n")
    assert plait.read("b.csv")["place"][0] == plait.read("b.csv", strip=False)["place"][0] == " cafe"


def test_strip_keeps_lines_and_faults_where_they_are():
    Path("a.csv").write_text(BLANKS)
    assert [plait.files.line_of("a.csv", row, strip=True) for row in range(3)] == [2, 3, 5]
    Path("b.csv").write_text(BLANKS + " dee, inn, many\n")
    with pytest.raises(plait.DataError, match=r"b.csv, line 6, column 'value': 'many' is not a number"):
        plait.read("b.csv", strip=True)
    Path("c.csv").write_text("user, user\nann, cafe\n")
    with pytest.raises(plait.DataError, match=r"c.csv, line 1: two columns are called 'user'"):
        plait.read("c.csv", strip=True)


def test_strip_reads_late_surprises_as_without_blanks():
    """A column that looks like numbers for longer than the sample, then has a word and codes with blanks."""
    rows = [f"u{n}, {n}\n" for n in range(30_000)]
    Path("a.csv").write_text("user, id\n" + "".join(rows) + "v, 007 \n")
    table = plait.read("a.csv", strip=True)
    assert table["id"].to_list() == [*map(str, range(30_000)), "007"]


def test_strip_of_tables_in_other_files(tmp_path):
    table = pl.DataFrame({" user": [" ann", "bob "], "n": [1, 2]}).with_columns(
        kind=pl.Series(["a ", "b"]).cast(pl.Categorical)
    )
    bare = pl.DataFrame({"user": ["ann", "bob"], "n": [1, 2], "kind": ["a", "b"]})
    table.write_parquet("a.parquet")
    table.write_ipc("a.arrow")
    for name in ("a.parquet", "a.arrow"):
        assert plait.read(name, strip=True).equals(bare)
    pl.DataFrame({"a ": [1], "a": [2]}).write_parquet("b.parquet")
    with pytest.raises(plait.DataError, match=r"b.parquet: two columns are called 'a' but for blanks"):
        plait.read("b.parquet", strip=True)
