import gzip
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import plait
from plait.files import line_of
from tests.support.data_errors import assert_mentions, error_text

TRIPLES = ["head", "relation", "tail"]


def given(text: str | bytes, name: str = "visits.csv") -> str:
    Path(name).write_bytes(text.encode() if isinstance(text, str) else text)
    return name


def message(source: str, **options: Any) -> str:
    return error_text(plait.read, source, **options)


def test_a_csv_has_integers_decimals_and_words():
    table = plait.read(given("user,place,plays,share\n1,p1,3,0.5\n2,p2,4,-1e-3\n"))
    expected = pl.DataFrame({"user": [1, 2], "place": ["p1", "p2"], "plays": [3, 4], "share": [0.5, -0.001]})
    assert_frame_equal(table, expected)


@pytest.mark.parametrize(
    "code", ["007", "+7", "-0", "-07", "12e4", "12345678901234567890", "1x", "0x10", "1_000", " 7", "７"]
)
def test_one_field_that_is_no_plain_number_makes_a_column_text(code):
    table = plait.read(given(f"id,n\n1,1\n{code},2\n3,3\n"))
    assert table["id"].to_list() == ["1", code, "3"]


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        *(([str(k) for k in range(1, 2000)], word, lambda fields: fields) for word in ("abc", "007", "nan")),
        (["1"] * 2000, "1.5", lambda fields: [*map(float, fields)]),
        ([""] * 100, "5", lambda fields: [None] * 100 + [5]),
    ],
    ids=["word", "leading zeros", "nan", "decimal", "number below empty fields"],
)
def test_a_late_field_changes_the_type_of_its_column(first, last, found, tuning):
    tuning(csv_sample_bytes=40)
    fields = [*first, last]
    table = plait.read(given("id,n\n" + "".join(f"{field},1.5\n" for field in fields)))
    assert table["id"].to_list() == found(fields)
    assert table["n"].dtype == pl.Float64


@pytest.mark.parametrize(
    ("fields", "numbers"), [("+5\n007\n", [5, 7]), ("1\n2.5\n", [1.0, 2.5]), ("1e3\n-0\n", [1e3, 0.0])]
)
def test_a_value_column_accepts_every_form_of_a_number(fields, numbers):
    assert plait.read(given("plays\n" + fields), value="plays")["plays"].to_list() == numbers


def test_a_file_with_only_a_header_is_an_empty_table():
    for text in ("user,place,value\n", "user,place,value", "\n\nuser,place,value\r\n\r\n"):
        table = plait.read(given(text))
        assert table.shape == (0, 3)
        assert table.columns == ["user", "place", "value"]
    data = {"r": table, "other": pl.DataFrame({"user": ["ann"], "age": [3]})}
    bound = plait.Model("r[user, place] = A[user, k] B[place, k]\nother[user, age] = A[user, k] C[age, k]").bind(
        data, entities={"place": ["x", "y"]}
    )
    assert len(bound.entities["user"]) == 1


def test_blank_lines_are_no_rows():
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


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.tab", "t.txt", "t.CSV", "t.csv.gz", "t.tsv.gz", "t.txt.gz"])
def test_every_ending_of_delimited_text_is_read(name):
    text = b"a\tb\n1\tx\n" if name[2] == "t" else b"a,b\n1,x\n"
    source = given(gzip.compress(text) if name.endswith("gz") else text, name)
    assert plait.read(source, header=True).rows() == [(1, "x")]
    assert plait.read(Path(source), header=True).rows() == [(1, "x")]


@pytest.mark.parametrize(
    ("text", "options", "columns", "rows"),
    [
        ("new york\tis in\tusa\n", {"columns": TRIPLES}, TRIPLES, [("new york", "is in", "usa")]),
        ("a,b\n1,2\n", {"columns": ["a", "b"]}, ["a", "b"], [(1, 2)]),
        ("userID,n\nx,1\n", {"columns": ["user", "plays"], "header": True}, ["user", "plays"], [("x", 1)]),
        ("x,1\ny,2\n", {"header": False}, ["column1", "column2"], [("x", 1), ("y", 2)]),
        ("\ufeffuser,n\na,1\n", {}, ["user", "n"], [("a", 1)]),
        ("\ufeffa,1\n", {"columns": ["user", "n"]}, ["user", "n"], [("a", 1)]),
        ('pipe,n\n5" wide,1\n"6",2\n', {"quoted": False}, ["pipe", "n"], [('5" wide', 1), ('"6"', 2)]),
        ("user;n\na;1,5\nb;2,5\n", {}, ["user", "n"], [("a", "1,5"), ("b", "2,5")]),
        ('user,place\n,x\n"",y\n', {}, ["user", "place"], [(None, "x"), ("", "y")]),
        ("id,n\n1.10,1\n1.1,2\n", {"text": ["id"]}, ["id", "n"], [("1.10", 1), ("1.1", 2)]),
    ],
)
def test_headers_marks_and_empty_fields(text, options, columns, rows):
    table = plait.read(given(text), **options)
    assert (table.columns, table.rows()) == (columns, rows)
    assert line_of("visits.csv", len(rows) - 1, **options) == text.count("\n")


def test_triples_without_a_header(shared):
    table = plait.read(shared / "nations" / "train.txt", columns=TRIPLES)
    assert table.shape == (1592, 3)
    assert table.row(0) == ("netherlands", "militaryalliance", "uk")


def test_a_bracket_in_a_file_name_is_no_pattern():
    given("a,b\n1,2\n", "a1.csv")
    assert plait.read(given("a,b\n3,4\n", "a[1].csv")).rows() == [(3, 4)]


PLAYS = {"value": "plays"}
NAMES = {"columns": ["user", "plays"]}

# name of the case: bytes, options, words of the error
FAULTS: dict[str, tuple[bytes, dict[str, Any], list[str]]] = {
    "a word for a number": (b'user,plays\n"a\nb",1\nc,2\nd,abc\n', PLAYS, ["line 5, column 'plays'", "'abc'", "0.25"]),
    "a word in the column called value": (b"user,value\na,1\nb,many\n", {}, ["line 3, column 'value'", "'many'"]),
    "two value columns": (b"a,v,w\r\na,1,1\r\n\r\nb,2,x\r\n", {"value": ["v", "w"]}, ["line 4, column 'w'", "'x'"]),
    "nan": (b"user,plays\na,1\nb,nan\n", PLAYS, ["line 3, column 'plays'", "'nan'"]),
    "a decimal comma": (b"user;plays\na;1\nb;1,5\n", PLAYS, ["line 3, column 'plays'", "'1,5'"]),
    "a last line without an end": (b"us;er,place,value\na,x,1\nb,y,2W", {}, ["line 3, column 'value'", "'2W'"]),
    "a header read as a row": (b"ann,plays\n", NAMES | PLAYS, ["line 1, column 'plays'", "`header=True`"]),
    "too few fields": (b"user,place,n\na,x,1\nb,2\n", {}, ["line 3", "2 fields", "3 columns, 'user', 'place', 'n'"]),
    "too few fields below an empty one": (b"user,place,n\na,x,\nb,2\n", {}, ["line 3", "2 fields"]),
    "too many fields": (b'user,n\n"a\n",1\nb,2,3\n', {}, ["line 4", "3 fields", "2 columns", "quotes"]),
    "too many fields for one column": (b"user\na\nb,2\n", {}, ["line 3", "2 fields", "1 column, 'user'"]),
    "too many fields without quotes": (b"user,n\nb,2,3\n", {"quoted": False}, ["line 2", "3 fields", "quoted=False"]),
    "Latin-1 in a row": ("user,n\na,1\nrenée,2\n".encode("latin1"), {}, ["line 3", "0xe9 at offset 14", "iconv"]),
    "Latin-1 in the header": ("prénom,n\na,1\n".encode("latin1"), {}, ["line 1", "byte 0xe9 at offset 2"]),
    "UTF-16": ("user,n\na,1\n".encode("utf-16"), {}, ["UTF-16", "Save it as UTF-8"]),
    "an empty file": (b"", {}, ["the file is empty"]),
    "a file of blank lines": (b"\n \n\r\n", {}, ["the file is empty"]),
    "an open quotation mark": (b'user,n\na,1\n"b,2\nc,3\n', {}, ["line 3", "not closed", "`quoted=False`"]),
    "text after a quotation mark": (b'user,n\n"a"b,1\n', {}, ["line 2", "closing quotation mark", "`quoted=False`"]),
    "a lone quotation mark": (b'user,n\na,1\n5" pipe,2\n', {}, ["line 3", "inside an unquoted", "`quoted=False`"]),
    "two columns of one name": (b"user,user\na,1\n", {}, ["line 1", "two columns", "'user'"]),
    "a column without a name": (b",user\n0,a\n", {}, ["line 1", "column 1 has no name", "index=False"]),
    "numbers for names": (b"ann,1\nbob,2\n", {}, ["line 1", "'1' is a number", "`columns`", "`header=True`"]),
    "a header despite columns": (b"id,weight\na,1\n", NAMES, ["line 1", "'weight'", "`header=True`", "`header=False`"]),
    "columns for another file": (b"a,b\n1,2\n", {"columns": TRIPLES}, ["line 1", "2 fields", "`columns` has 3 names"]),
    "carriage returns alone": (b"user,n\ra,1\rb,2\r", {}, ["line 1", "carriage return"]),
    "a carriage return inside a line": (b'user)p"lace,\rvalu{\na,x,1N5,\ny,\n2p', {}, ["line 1", "carriage return"]),
    "a field that is too long": (b"a" * 131_073 + b",n\nx,1\n", {}, ["line 1", "131,072", "`quoted=False`"]),
    "an unknown value column": (b"a,plays\na,1\n", {"value": "play"}, ["'play'", "`value`", "Did you mean 'plays'?"]),
    "an unknown text column": (b"user,plays\na,1\n", {"text": ["usr"]}, ["'usr'", "`text`", "Did you mean 'user'?"]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_with_line_and_column(case, tuning):
    data, options, words = FAULTS[case]
    text = message(given(data), **options)
    assert_mentions(text, "visits.csv", *words)
    for chunk in (1, 20):
        tuning(csv_chunk_bytes=chunk)
        assert message("visits.csv", **options) == text
    if "offset" not in text:
        packed = given(gzip.compress(data), "visits.csv.gz")
        assert message(packed, **options) == text.replace(".csv", ".csv.gz")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"text": ["plays"], "value": "plays"}, ["'plays'", "`value`", "`text`"]),
        ({"delimiter": "::"}, ["`delimiter`", "'::'"]),
        ({"columns": "user"}, ["`columns`", "['user']"]),
        ({"columns": ["x", "x"]}, ["`columns`", "'x' twice"]),
    ],
)
def test_options_that_contradict_are_refused(options, words):
    assert_mentions(message(given("user,plays\na,1\n"), **options), *words)


def test_a_fault_beyond_the_sample_is_found(tuning):
    tuning(csv_sample_bytes=40)
    rows = "".join(f"u{k},{k}\n" for k in range(5000))
    assert message(given(f"user,value\n{rows}x,y\n")).startswith("visits.csv, line 5002, column 'value': 'y'")
    assert message(given(f"user,value\n{rows}x\n{rows}")).startswith("visits.csv, line 5002: 1 field,")
    assert message(given(f"user,value\n{rows}x,1,2\n{rows}")).startswith("visits.csv, line 5002: 3 fields,")
    late = f"user,value\n{rows}".encode() + b"caf\xe9,1\n"
    assert message(given(late)).startswith(f"visits.csv, line 5002: byte 0xe9 at offset {len(late) - 4:,} is")


@pytest.mark.parametrize("chunk", [1, 7, 64, 4 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_of_finds_every_row_at_any_chunk_size(chunk, end, tuning):
    tuning(csv_chunk_bytes=chunk)
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
    assert_mentions(message(given("a\tb\tc\n", "train.txt")), "train.txt, line 1", "`columns`", "`header=True`")


def test_a_truncated_or_damaged_gzip_is_named(tuning):
    tuning(csv_sample_bytes=40)
    whole = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (k, k * k % 977) for k in range(20_000)))
    for cut in (whole[:1000], whole[:-9]):
        assert_mentions(message(given(cut, "t.csv.gz")), "t.csv.gz", "is truncated")
    wrong = bytearray(whole)
    wrong[-6] ^= 0xFF
    assert_mentions(message(given(bytes(wrong), "t.csv.gz")), "t.csv.gz", "damaged (CRC check")


def test_the_line_of_a_row_that_the_relation_refuses_is_known():
    source = given('user,value\n"a\nb",1\n\n,2\n')
    with pytest.raises(
        plait.errors.DataError, match=r"column 'user', row 1 \(counting from 0\): the name .* is missing"
    ):
        plait.Model("r[user] = A[user]").bind({"r": plait.read(source)})
    assert line_of(source, 1) == 5


# --- blanks around fields


BLANKS = "user, place , value\nann, cafe, 3\n bob,\tgym ,4 \n   \ncem,  , 5\n"


def test_strip_removes_blanks_from_names_numbers_and_columns():
    table = plait.read(given(BLANKS), strip=True)
    assert table.columns == ["user", "place", "value"]
    assert table.rows() == [("ann", "cafe", 3), ("bob", "gym", 4), ("cem", None, 5)]
    assert table["value"].dtype == pl.Int64
    assert [line_of("visits.csv", row, strip=True) for row in range(3)] == [2, 3, 5]
    given("user,place\nann, cafe\n")
    assert plait.read("visits.csv")["place"][0] == plait.read("visits.csv", strip=False)["place"][0] == " cafe"


def test_faults_of_stripped_files_keep_their_lines():
    source = given(BLANKS + " dee, inn, many\n")
    assert_mentions(message(source, strip=True), "line 6, column 'value'", "'many'")
    assert_mentions(message(given("user, user\nann, cafe\n"), strip=True), "line 1", "'user'")


def test_strip_reads_late_words_without_blanks():
    rows = [f"u{n}, {n}\n" for n in range(30_000)]
    table = plait.read(given("user, id\n" + "".join(rows) + "v, 007 \n"), strip=True)
    assert table["id"].to_list() == [*map(str, range(30_000)), "007"]


def test_strip_works_for_other_tables():
    table = pl.DataFrame({" user": [" ann", "bob "], "n": [1, 2]}).with_columns(
        kind=pl.Series(["a ", "b"]).cast(pl.Categorical)
    )
    bare = pl.DataFrame({"user": ["ann", "bob"], "n": [1, 2], "kind": ["a", "b"]})
    table.write_parquet("a.parquet")
    table.write_ipc("a.arrow")
    for name in ("a.parquet", "a.arrow"):
        assert plait.read(name, strip=True).equals(bare)
    pl.DataFrame({"a ": [1], "a": [2]}).write_parquet("b.parquet")
    assert_mentions(message("b.parquet", strip=True), "b.parquet", "two columns", "'a'")


# --- texts that mean no value, and rows that cannot be read


def test_null_values_are_null_in_every_column_and_do_not_make_it_text():
    rows = 'NA,cafe,3\n7,NA,-\n8,\'-,"NA"\nNA,NA,-\n9,gym,4\n'
    table = plait.read(given(f"user,place,value\n{rows}"), null_values=["NA", "-"])
    # An escaped name is not the text that means no value; a row without any value is a blank one.
    assert table.rows() == [(None, "cafe", 3), (7, None, None), (8, "-", None), (9, "gym", 4)]
    assert [line_of("visits.csv", row, null_values=["NA", "-"]) for row in range(5)] == [2, 3, 4, 6, None]
    assert plait.read(given("a,b\n NA ,1\nx,2\n"), null_values="NA", strip=True)["a"].to_list() == [None, "x"]
    assert plait.read(given("a\n1\nNA\n"), null_values="NA").rows() == [(1,)]


BAD = [
    ("short", 'ann\n"q\nr",park\n'),
    ("long", 'ann,cafe,3,4\nann,cafe,3,"x\ny"\n'),
    ("no number", "ann,cafe,many\n\nann,cafe,inf\n"),
]


@pytest.mark.parametrize("rows", [rows for _, rows in BAD], ids=[name for name, _ in BAD])
@pytest.mark.parametrize("before", [0, 1, 30])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_bad_rows_are_left_out_with_one_warning(rows, before, end, tuning):
    tuning(csv_sample_bytes=60)
    good = [(f"u{n}", "a\nb" if n == 2 else "gym", n) for n in range(60)]
    lines = [f'{user},"{place}",{value}\n' for user, place, value in good]
    text = "".join(["user,place,value\n", *lines[:before], rows, *lines[before:]])
    source = given(gzip.compress(text.encode()) if end else text, f"visits.csv{end}")
    first = 2 + sum(line.count("\n") for line in lines[:before])
    with pytest.warns(plait.errors.SkippedRowsWarning, match="2 rows are left out") as caught:
        table = plait.read(source, on_bad_rows="skip")
    assert len(caught) == 1
    assert caught[0].message.location.lines == (first,)
    assert table.rows() == good
    assert table["value"].dtype == pl.Int64
    whole = text.splitlines()
    for row in (0, 1, 29, 30, 59):
        assert whole[line_of(source, row, on_bad_rows="skip") - 1].startswith(f"u{row},")
    scanned = plait.scan(source, on_bad_rows="skip")
    with pytest.warns(plait.errors.SkippedRowsWarning, match="2 rows are left out") as caught:
        batches = list(scanned.batches(["user", "value"], 10))
    assert len(caught) == 1
    after = batches[max(k for k, batch in enumerate(batches) if batch is None) + 1 :]  # what came before is void
    assert pl.concat(after).rows() == [(user, value) for user, _, value in good]


def test_skip_neither_hides_other_faults_nor_warns_of_good_files():
    source = given("user,value\nann,1\nbob,x\n")
    assert_mentions(message(source), "line 3", "'x' is not a number")
    assert_mentions(message(given('user,value\nann,"1\nbob,x\n'), on_bad_rows="skip"), "line 2", "not closed")
    assert_mentions(message(given(b"user,value\nann,1\nb\xff,2\ncem\n"), on_bad_rows="skip"), "line 3", "UTF-8")
    assert plait.read(given("user,value\nann,1\nbob,\n"), on_bad_rows="skip").rows() == [("ann", 1), ("bob", None)]
    assert_mentions(message(source, on_bad_rows="drop"), "`on_bad_rows` must be 'error' or 'skip', got 'drop'")
    assert_mentions(message(source, null_values=0), "`null_values` must be text or a list of texts, got 0")
    pl.DataFrame({"a": [1]}).write_parquet("a.parquet")
    assert_mentions(message("a.parquet", null_values="NA"), "`null_values` is not an option for a.parquet")
