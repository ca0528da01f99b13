"""`from_csv` against Python's `csv` and pyarrow's reader: rows, quotes, types, missing values, and damaged files."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import math
import random
from pathlib import Path
from typing import Any

import forebay as fb
import pyarrow.csv
import pytest
from forebay.errors import DataError, InvalidPipelineError, NotFoundError

LETTERS = ["a", "b", "é", "😀", ",", ";", '"', " ", "\t", "'", "1"]


def written(rows: list[list[str]], **dialect: Any) -> str:
    to = io.StringIO(newline="")
    csv.writer(to, **dialect).writerows(rows)
    return to.getvalue()


def rows_of(ds: fb.Dataset, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in ds.iter(**options)]


@pytest.mark.parametrize("seed", range(40))
def test_random_tables_are_read_as_pythons_csv_reads_them(tmp_path, seed):
    rng = random.Random(seed)
    letters = LETTERS + (["\n", "\r\n"] if seed % 2 else [])
    width = rng.randint(1, 5)
    dialect = {
        "delimiter": rng.choice(",;\t|"),
        "lineterminator": rng.choice(["\n", "\r\n"]),
        "quoting": rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    }
    names = [f"c{i}" for i in range(width)]
    tables = []
    for file in range(rng.randint(1, 3)):
        # A row of one empty field would be a blank line.
        row = lambda: ["".join(rng.choices(letters, k=rng.randint(int(width == 1), 6))) for _ in range(width)]  # noqa: E731
        table = [row() for _ in range(rng.randint(1, 300))]
        text = written([names, *table], **dialect)
        Path(tmp_path, f"{file}.csv").write_text(text, encoding="utf-8", newline="")
        tables += list(csv.reader(io.StringIO(text, newline=""), delimiter=dialect["delimiter"]))[1:]
    options = {"delimiter": dialect["delimiter"], "schema": dict.fromkeys(names, "string")}
    breaks = True if seed % 2 else None
    ds = fb.from_csv(tmp_path / "*.csv", newlines_in_values=breaks, **options)
    want = [tuple(row) for row in tables]
    assert rows_of(ds, threads=1) == want == rows_of(ds, threads=3)
    shuffled = rows_of(ds.shuffle(), seed=seed)
    assert sorted(shuffled) == sorted(want)
    assert shuffled == rows_of(ds.shuffle(), seed=seed, threads=1)
    # A file that ends without a line end, and one that is compressed.
    for name, pack in (("z.csv.gz", gzip.compress), ("z.csv.bz2", bz2.compress)):
        Path(tmp_path, name).write_bytes(pack(written([names, *want], **dialect).rstrip("\r\n").encode()))
        packed = fb.from_csv(tmp_path / name, newlines_in_values=breaks, **options)
        if want[-1][-1] == want[-1][-1].rstrip("\r\n"):
            assert rows_of(packed) == want


def test_types_and_missing_values_are_pyarrows(tmp_path):
    rng = random.Random(7)
    names = ["n", "x", "ok", "word", "sparse"]
    values = [
        [
            str(rng.randint(-(10**12), 10**12)),
            repr(rng.uniform(-1e9, 1e9)) if i % 3 else str(rng.randint(0, 9)),
            rng.choice(["true", "false"]),
            rng.choice(["", "NA", "x", "0x1", "1 2"]),
            rng.choice(["", "5", "-3"]),
        ]
        for i in range(3000)
    ]
    path = tmp_path / "a.csv"
    path.write_text(written([names, *values]))
    ds = fb.from_csv(path)
    kinds = {name: column.dtype for name, column in ds.schema.items()}
    assert kinds == {"n": "int64", "x": "float64", "ok": "bool", "word": "string", "sparse": "int64"}
    table = pyarrow.csv.read_csv(path)
    assert rows_of(ds) == [tuple(row.values()) for row in table.to_pylist()]
    assert rows_of(fb.from_csv(path, columns=["sparse", "n"])) == [
        (row["sparse"], row["n"]) for row in table.to_pylist()
    ]
    (first, *_) = rows_of(fb.from_csv(path, schema={"word": "string?", "n": "float32"}))
    assert first[0] is None or isinstance(first[0], str)
    assert fb.from_csv(path).filter(fb.col("sparse") > 0).cardinality is None


def test_where_a_row_begins_does_not_depend_on_where_reading_began(tmp_path):
    rows = [[str(i), f'say "{i}"', "x" * (i % 50)] for i in range(60_000)]
    for part in range(3):
        (tmp_path / f"{part}.csv").write_text(written([["i", "t", "x"], *rows[part::3]]))
    ds = fb.from_csv(tmp_path / "*.csv")
    for shuffled in (ds.shuffle(), ds.shuffle(window="1MiB"), ds.shuffle(window=10_000)):
        got = [int(row["i"]) for row in shuffled.iter(seed=3)]
        assert sorted(got) == list(range(60_000))
        assert got != sorted(got)
    assert len(list(ds.shuffle().iter(seed=3, consumers=(0, 2), epochs=1))) > 0
    with fb.up(workers=2, threads=1) as service:
        batched = ds.shuffle().batch(64)
        here = [batch["i"].tolist() for batch in batched.iter(seed=3)]
        there = [batch["i"].tolist() for batch in batched.distribute(service, job="csv", seed=3)]
        assert here == there


@pytest.mark.parametrize(
    ("text", "options", "want"),
    [
        ("\ufeffa,b\n1,2\n", {}, [(1, 2)]),
        ("1,2\n3,4\n", {"header": False}, [(1, 2), (3, 4)]),
        ("1,2\n3,4\n", {"header": ["a", "b"], "columns": "b"}, [(2,), (4,)]),
        ("a\n1\n\n\n", {}, [(1,)]),
        ("a;b\n1;2", {"delimiter": ";"}, [(1, 2)]),
        ('a,b\n5" disk,1\n', {}, [('5" disk', 1)]),
        ("a,b\n'x,y',1\n", {"quote": "'"}, [("x,y", 1)]),
        ('a,b\n"x,1\n', {"quote": None}, [('"x', 1)]),
        ('a,b\n"1\n2",3\n', {}, [("1\n2", 3)]),
        ('a\n""\n"NA"\nNA\n', {"schema": {"a": "string?"}}, [("",), ("NA",), (None,)]),
        ("a\n-\n3\n", {"null": ["-"]}, [(None,), (3,)]),
        ("a\ntrue\nFALSE\n", {}, [(True,), (False,)]),
        ("a\n1\n2.5\n", {}, [(1.0,), (2.5,)]),
        ("a\ntrue\n1\n", {}, [("true",), ("1",)]),
        ("a,b\r\n1,\r\n", {}, [(1, "")]),
        ("a\tb\n1\t2\n\t\n3\t\n\t\n", {"delimiter": "\t"}, [(1, 2), (None, None), (3, None), (None, None)]),
        ("a\n1\n\n3\n\n", {}, [(1,), (None,), (3,)]),
        ("a\n18446744073709551615\n", {}, [("18446744073709551615",)]),
    ],
)
def test_small_files(tmp_path, text, options, want):
    (tmp_path / "a.csv").write_text(text, newline="")
    assert rows_of(fb.from_csv(tmp_path / "a.csv", **options)) == want


def test_tabs_separate_the_fields_of_tsv(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n1,5\t2\n")
    for path in (tmp_path / "*.tsv", tmp_path, f"{tmp_path}/", tmp_path / "*"):
        assert rows_of(fb.from_csv(path)) == [("1,5", 2)]


def test_files_without_rows_are_passed_over(tmp_path):
    for name, text in {"0": "a,b\n", "1": "", "2": 'a,b\n1,"x\ny"\n3,z\n', "3": "a,b\n", "4": ""}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "5.csv.gz").write_bytes(gzip.compress(b""))
    ds = fb.from_csv(tmp_path / "*")
    assert rows_of(ds) == [(1, "x\ny"), (3, "z")]
    assert sorted(rows_of(ds.shuffle())) == [(1, "x\ny"), (3, "z")]


def test_no_consumer_reads_a_file_with_another_header(tmp_path):
    rows = "".join(f"{i},{-i}\n" for i in range(300_000))
    for name, header in (("0", "a,b"), ("1", "a,b"), ("2", "b,a")):
        (tmp_path / f"{name}.csv").write_text(f"{header}\n{rows}")
    ds = fb.from_csv(tmp_path / "*.csv").shuffle(window="1MiB").batch(1000)
    for consumer in range(4):
        with pytest.raises(DataError, match=r"the header of this file is .*b, a"):
            list(ds.iter(consumers=(consumer, 4), even=False, threads=1))


@pytest.mark.parametrize(
    ("text", "options", "says", "hint"),
    [
        ("a,b\n1,2\n3\n", {}, "a record has 1 fields, and there are 2 columns", "delimiter"),
        ("a,b\n1,2\n3,4,5\n", {}, "a record has 3 fields, and there are 2 columns", "on_error"),
        ('a\n1\n"2\n', {"schema": {"a": "string"}, "newlines_in_values": True}, "is not closed", "cut off"),
        ("a\n" + "1\n" * 1000 + "x\n", {}, 'column "a" should be int64', 'schema={"a": "string"'),
        ("a\n" + "1\n" * 1000 + "1.5\n", {}, 'column "a" should be int64', 'schema={"a": "float64"'),
        ("a,b\n" + "1,2\n" * 1000 + ",2\n", {}, "has no value in this row", 'schema={"a": "int64?"'),
    ],
)
def test_a_row_that_is_not_right_is_an_error_with_its_line(tmp_path, text, options, says, hint):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        list(fb.from_csv(path, **options))
    assert [part for part in (says, hint, str(path)) if part not in str(caught.value)] == []
    good = list(fb.from_csv(path, **options).iter(on_error="skip", error_budget=1))
    assert len(good) == text.count("\n") - 2


def test_a_file_with_a_header_alone_needs_a_schema(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n")
    with pytest.raises(DataError, match="there is no row in the first files") as caught:
        fb.from_csv(path)
    assert "with schema=" in caught.value.hint
    assert list(fb.from_csv(path, schema={"a": "int64", "b": "string"})) == []


def test_a_line_break_in_a_field_is_never_read_as_the_end_of_a_row(tmp_path):
    """Otherwise the second half of the field would be a row of its own, even if the first half were left out."""
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,2\n"x\n3,4"\n5,6\n')
    ds = fb.from_csv(path, schema={"a": "string", "b": "string"}, newlines_in_values=False)
    for options in ({}, {"on_error": "skip", "error_budget": 10}):
        for order in (ds, ds.shuffle()):
            with pytest.raises(DataError, match="is not closed") as caught:
                list(order.iter(**options))
            assert "newlines_in_values=True" in caught.value.hint


def test_what_users_write_by_mistake_is_refused_with_a_hint(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    for options, says in [
        ({"columns": ["c"]}, "c"),
        ({"schema": {"c": "int64"}}, "c"),
        ({"schema": {"a": ("int64", [3])}}, "cannot be"),
        ({"schema": {"a": "int64"}, "columns": ["a"]}, "both say what to read"),
        ({"delimiter": ",,"}, "is not one letter"),
        ({"delimiter": "é"}, "no ASCII letter"),
        ({"delimiter": '"'}, "the same letter"),
        ({"header": ["a"]}, "header names 1 columns"),
        ({"header": 3}, "header=3 is not a bool"),
        ({"newlines_in_values": "no"}, "is not a bool"),
    ]:
        with pytest.raises((InvalidPipelineError, NotFoundError), match=says):
            fb.from_csv(path, **options)
    (tmp_path / "b.csv").write_text("b,a\n1,2\n")
    with pytest.raises(DataError, match=r"the header of this file is .*b, a"):
        list(fb.from_csv(tmp_path / "*.csv"))
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    with pytest.raises(InvalidPipelineError, match="twice"):
        fb.from_csv(tmp_path / "twice.csv")
    (tmp_path / "latin.csv").write_bytes("a\nÄ\n".encode("latin-1"))
    with pytest.raises(DataError, match='column "a" is not utf-8') as caught:
        list(fb.from_csv(tmp_path / "latin.csv"))
    assert caught.value.context["file_line"] == "2"
    with pytest.raises(InvalidPipelineError, match="begins with these names, too"):
        fb.from_csv(path, header=["a", "b"])
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 10)
    with pytest.raises(DataError, match="no text"):
        fb.from_csv(tmp_path / "binary.csv")
    (tmp_path / "mac.csv").write_bytes(b"a,b\r1,2\r")
    with pytest.raises(DataError, match="carriage returns alone"):
        fb.from_csv(tmp_path / "mac.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match="there is no row"):
        fb.from_csv(tmp_path / "empty.csv")


def test_a_header_in_one_piece_is_warned_of(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b\n1;2\n")
    with pytest.warns(UserWarning, match=r"the only column is named 'a;b'.* write delimiter=';'"):
        fb.from_csv(path)
    assert list(fb.from_csv(path, delimiter=";").schema) == ["a", "b"]


def test_ten_thousand_columns_of_which_two_are_read(tmp_path):
    names = [f"c{i}" for i in range(10_000)]
    path = tmp_path / "wide.csv"
    path.write_text(written([names, *[[str(i + j) for j in range(10_000)] for i in range(20)]]))
    assert rows_of(fb.from_csv(path, columns=["c9999", "c0"])) == [(9999 + i, i) for i in range(20)]


def test_numbers_are_read_as_python_reads_them(tmp_path):
    texts = ["1e308", "-0.0", "0.1", "1e-320", "inf", "-inf", "nan", "+5", " 7 ", "12345678901234567890"]
    path = tmp_path / "a.csv"
    path.write_text("x\n" + "\n".join(texts) + "\n")
    got = [row["x"] for row in fb.from_csv(path, schema={"x": "float64"})]
    assert all(a == float(b) or (math.isnan(a) and b == "nan") for a, b in zip(got, texts, strict=True))


def test_a_cast_that_fails_names_its_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n2\nx\n4\n")
    with pytest.raises(DataError) as caught:
        list(fb.from_csv(path, schema={"a": "string"}).cast(a="int64").batch(4))
    assert caught.value.context["sample"] == f"{path}#2"
