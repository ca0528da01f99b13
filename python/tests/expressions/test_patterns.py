"""Patterns, words, texts of times and lists that are joined or looked up give what Python's own functions give."""

from __future__ import annotations

import datetime as dt
import random
import re

import forebay as fb
import numpy as np
import pytest
from computed_columns import computed, each, texts

E = fb.errors
X, WHEN = fb.col("x"), fb.col("when")


def without_separators(seed: int) -> list[str | None]:
    """Texts without U+001C, which is white space in Python alone."""
    return each(lambda text: text.replace("\x1c", ""), texts(seed))


def first(pattern: str, group: int | str):
    def of(text: str) -> str | None:
        found = re.search(pattern, text)
        return None if found is None else found[group]

    return of


REPLACED = [
    ("[aB]+", "<\\g<0>>"),
    ("(a)(?P<other>b)?", r"\2\\\1\g<other>$"),
    (r"\s+", " "),
    ("^", "^"),
    ("é|日", r"\n"),
    ("(?i)B", "-"),
    ("z$", ""),
]


@pytest.mark.parametrize(("pattern", "new"), REPLACED)
def test_matches_are_replaced_as_by_re_sub(pattern, new):
    column = without_separators(1)
    assert computed(column, X.str.replace(pattern, new, regex=True)) == each(lambda t: re.sub(pattern, new, t), column)


@pytest.mark.parametrize(
    ("pattern", "group"), [("a(b?)", 1), ("[aé].", 0), ("(?P<x>z)|(B)", "x"), (r"(\w)(\W)", 2), ("$", 0)]
)
def test_groups_are_those_of_re_search(pattern, group):
    column = texts(2)
    expr = X.str.extract(pattern, group)
    assert computed(column, expr) == each(first(pattern, group), column)
    kept = [row["x"] for row in fb.from_dict({"x": column}).filter(~expr.is_null())]
    assert kept == [t for t in column if t is not None and first(pattern, group)(t) is not None]


@pytest.mark.parametrize("pattern", ["a", "[aB]+", "(a)(?:b)?", r"\S+", "(z)|B", "(?i)b"])
def test_matches_are_those_of_re_findall(pattern):
    column = without_separators(3)
    assert computed(column, X.str.findall(pattern)) == each(lambda t: re.findall(pattern, t), column)


def test_words_are_those_of_python():
    rng = random.Random(1)
    some = ["".join(rng.choices("ab \t\n\x1c\u3000\u00a0\u200b", k=rng.randrange(9))) for _ in range(300)]
    column = [*some, None, "", " "]
    assert computed(column, X.str.split()) == each(str.split, column)
    for index in (0, 1, -1, -3):
        part = lambda t, i=index: dict(enumerate(p := t.split())).get(i if i >= 0 else len(p) + i)  # noqa: E731
        assert computed(column, X.str.split(None, index)) == each(part, column)


FORMATS = [
    "%Y-%m-%d %H:%M:%S.%f",
    "%d/%m/%y %I:%M %p",
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A %d. %B %Y",
    "%Y%j",
    "%Y%m%dT%H%M%S%z",
    "%Y-%m",
    "100%% %Y  %H",
]


@pytest.mark.parametrize("format", FORMATS)
def test_times_in_texts_are_those_of_strptime_and_strftime(format):
    rng = random.Random(3)
    span = (dt.datetime(1969, 1, 1), dt.datetime(2068, 12, 31))
    times = [span[0] + rng.random() * (span[1] - span[0]) for _ in range(300)]
    times = [t.replace(tzinfo=dt.UTC) for t in [*times, dt.datetime(2000, 2, 29), dt.datetime(2023, 12, 31, 12)]]
    written = [t.strftime(format) for t in times]
    told = [dt.datetime.strptime(text, format).replace(tzinfo=dt.UTC) for text in written]
    us = [(t - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1) for t in times]
    assert computed([*us, None], WHEN.dt("us").strftime(format), "when") == [*written, None]
    for unit, tick in (("us", dt.timedelta(microseconds=1)), ("s", dt.timedelta(seconds=1)), ("D", dt.timedelta(1))):
        want = [(t - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // tick for t in told]
        for texts_of in (written, [text.upper() for text in written]):
            assert computed([*texts_of, None], WHEN.str.to_time(unit, format), "when") == [*want, None]
    read = fb.from_dict({"when": written}).with_column("when", WHEN.str.to_time("us", format))
    again = read.with_column("text", WHEN.dt.strftime(format))
    assert [row["text"] for row in again] == written, "the column knows its unit"


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("%Y-%m-%d", "2023-02-29"),
        ("%Y-%m-%d", "2023-1-1x"),
        ("%Y %I %p", "2023 13 PM"),
        ("%Y %H", "2023 24"),
        ("%Y", "23"),
        ("%b %Y", "Foo 2023"),
        ("%Y%z", "2023+25:00"),
        ("%Y %m", "202312"),
    ],
)
def test_a_text_that_strptime_refuses_is_an_error_of_its_row(format, text):
    with pytest.raises(ValueError, match=r"time|day|unconverted|offset|range"):
        dt.datetime.strptime(text, format)
    good = dt.datetime(2023, 1, 2, tzinfo=dt.UTC).strftime(format)
    with pytest.raises(E.DataError, match="is no time in s") as told:
        computed([good, text], X.str.to_time("s", format))
    assert (told.value.context["sample"], told.value.context["format"]) == ("row 1", format)


def test_lists_are_joined_as_numpy_does():
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 9, int(n)).astype(np.int32) for n in rng.integers(0, 5, 50)]
    boxes = [rng.random((len(row), 4), np.float32) for row in rows]
    fixed = rng.integers(0, 9, (50, 2))
    ds = fb.from_dict({"ids": rows, "boxes": boxes, "fixed": list(fixed), "n": [len(row) for row in rows]})
    ds = ds.with_column("all", fb.concat_list([1, "ids", "fixed", fb.col("n"), fb.col("ids") * 2]))
    ds = ds.with_column("twice", fb.concat_list(["boxes", "boxes"])).with_column("pair", fb.concat_list(["fixed", 7]))
    assert (ds.schema["all"], ds.schema["twice"].shape) == (("int64", (None,)), (None, 4))
    assert ds.schema["pair"] == ("int64", (3,))
    for row, ids, own, pair in zip(ds, rows, boxes, fixed, strict=True):
        np.testing.assert_array_equal(row["all"], np.concatenate([[1], ids, pair, [len(ids)], ids * 2]))
        np.testing.assert_array_equal(row["twice"], np.concatenate([own, own]), strict=True)
        np.testing.assert_array_equal(row["pair"], [*pair, 7])
    padded = ds.batch(10, pad=0).with_column("more", fb.concat_list(["ids", "all"]))
    assert {"more"} <= padded.schema.padded
    assert all(b["more"].shape[1] == b["ids"].shape[1] + b["all"].shape[1] for b in padded)
    words = [["a", None], [], None, ["b"]]
    ds = fb.from_dict({"x": words, "y": ["c", "d", "e", None]})
    made = [row["z"] for row in ds.with_column("z", fb.concat_list([fb.lit("<"), "x", "y"]))]
    assert made == [["<", "a", None, "c"], ["<", "d"], None, ["<", "b", None]]


def test_items_are_looked_up_one_by_one():
    rows = [[3, 1], [], [2, 2, 9]]
    ds = fb.from_dict({"x": rows, "words": [["cat", "cow"], [], ["dog", None]]})
    table = {1: 10, 2: 20}
    made = ds.with_column("y", X.list.lookup(table, default=-1)).with_column("z", X.list.lookup({1: "one"}))
    made = made.with_column("w", fb.col("words").list.lookup({"cat": "C"}, default="?"))
    assert [row["y"].tolist() for row in made] == [[table.get(i, -1) for i in row] for row in rows]
    assert [row["z"] for row in made] == [[{1: "one"}.get(i) for i in row] for row in rows]
    assert [row["w"] for row in made] == [["C", "?"], [], ["?", None]]
    ids = fb.col("words").list.slice(0, 1).list.lookup({"cat": 1, "dog": 2}, default=0)
    assert [row["i"].tolist() for row in ds.with_column("i", ids)] == [[1], [], [2]]
    with pytest.raises(E.DataError, match="a text of a list, or a list, is missing") as told:
        list(ds.with_column("i", fb.col("words").list.lookup({"cat": 1}, default=0)))
    assert told.value.context["sample"] == "row 2"


def test_what_cannot_be_is_refused_where_it_is_written():
    ds = fb.from_dict({"s": ["a"], "n": [1], "l": [[1], [2, 3]][:1], "t": [["a"]], "f": [0.5]})
    s, n, lists = fb.col("s").str, fb.col("n"), fb.col("t")
    bad = [
        (s.replace("(", "", regex=True), "is no pattern"),
        (s.replace("a", r"\1", regex=True), "has no group 1"),
        (s.replace("(a)", "$1", regex=True), "a group in another form"),
        (s.replace("a", r"\d", regex=True), "stands for nothing"),
        (s.extract("a"), "has no group 1, but 0 groups"),
        (s.extract("(a)", "b"), 'has no group "b"'),
        (s.findall("(a)(b)"), "has 2 groups"),
        (s.to_time("s", "%q"), "has %q"),
        (s.to_time("s", "%F"), "write %Y-%m-%d"),
        (s.to_time("s", "%H:%M"), "has no year"),
        (s.to_time("s", "%Y %d"), "a day and no month"),
        (n.dt("s").strftime("%E"), "has %E"),
        (fb.col("f").dt("s").strftime("%Y"), "counts no time"),
        (n.str.split(), "is no string"),
        (fb.concat_list(["n", "n"]), "there is no list"),
        (fb.concat_list(["s", "l"]), "among texts"),
        (fb.concat_list(["n", "s"]), "among numbers"),
        (fb.concat_list([]), "there is no list"),
        (n.list.lookup({1: 2}, 0), "is no list"),
        (lists.lookup({"a": 1}), r"write .list.lookup"),
        (lists.list.lookup({"a": 1}), "may have no entry"),
        (lists.list.lookup({1: 1}, 0), "cannot be compared with numbers"),
        (fb.col("s").sin(), "has no arithmetic"),
    ]
    for expr, says in bad:
        with pytest.raises(E.InvalidPipelineError) as told:
            ds.with_column("y", expr)
        assert says in str(told.value), str(expr)
    wrong = [
        (lambda: s.contains("a", regex=True), r"search\(pattern\)"),
        (lambda: s.replace("a", "b", regex=1), "regex is True or False"),
        (lambda: s.extract("a", None), "group is an integer"),
        (lambda: s.to_time("s", 3), "format is a string"),
    ]
    for make, says in wrong:
        with pytest.raises(TypeError, match=says):
            make()
