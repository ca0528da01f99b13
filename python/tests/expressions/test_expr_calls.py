"""Functions of texts and lists, and look-ups, give what pyarrow, NumPy and Python's own methods give."""

from __future__ import annotations

import pickle
import random
import re

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from computed_columns import ROWS, computed, each, texts

E = fb.errors


def ascii_texts(seed: int) -> list[str]:
    """Chunks in which all characters are ASCII and none is missing are computed another way."""
    rng = random.Random(seed)
    return ["".join(rng.choices("aBz-_1 \x00", k=rng.randrange(8))) for _ in range(ROWS)]


X = fb.col("x")
RNG = random.Random(5)
PLACES = [None, 0, 1, 3, 9, -1, -2, -9]
#: All that `slice` takes.
SLICES = [(a, b) for a in PLACES for b in PLACES if b is None or ((a or 0) < b if (b < 0) == ((a or 0) < 0) else b < 0)]
CASES = [
    ("lower", X.str.lower(), str.lower),
    ("upper", X.str.upper(), str.upper),
    ("strip", X.str.strip(), str.strip),
    ("strip chars", X.str.strip("a -"), lambda t: t.strip("a -")),
    ("strip nothing", X.str.strip(""), lambda t: t.strip("")),
    ("contains", X.str.contains("a"), lambda t: "a" in t),
    ("contains a dot", X.str.contains("."), lambda t: "." in t),
    ("starts", X.str.starts_with("é"), lambda t: t.startswith("é")),
    ("ends", X.str.ends_with("ß"), lambda t: t.endswith("ß")),
    ("replace", X.str.replace("ab", "__"), lambda t: t.replace("ab", "__")),
    ("replace nothing", X.str.replace("", "+"), lambda t: t.replace("", "+")),
    ("match", X.str.match("[a-zé]+"), lambda t: re.match("[a-zé]+", t) is not None),
    ("search", X.str.search("[A-ZÉ]{2}|^$"), lambda t: re.search("[A-ZÉ]{2}|^$", t) is not None),
    ("len", X.str.len(), len),
    ("split first", X.str.split("a", 0), lambda t: t.split("a")[0]),
    *[(f"slice {a} {b}", X.str.slice(a, b), lambda t, a=a, b=b: t[a:b]) for a, b in SLICES],
]


@pytest.mark.parametrize(("what", "expr", "python"), CASES, ids=[case[0] for case in CASES])
def test_texts_are_those_of_python(what, expr, python):
    for column in (texts(1), ascii_texts(1)):
        assert computed(column, expr) == each(python, column)


def test_texts_are_those_of_pyarrow():
    # Texts of letters whose case pyarrow maps one by one.
    column = [None if text is None else "".join(c for c in text if c in "aBz é日-1ab") for text in texts(2)]
    array = pa.array(column)
    pairs = [
        (X.str.lower(), pc.utf8_lower(array)),
        (X.str.upper(), pc.utf8_upper(array)),
        (X.str.strip(), pc.utf8_trim_whitespace(array)),
        (X.str.strip("aB"), pc.utf8_trim(array, "aB")),
        (X.str.contains("ab"), pc.match_substring(array, "ab")),
        (X.str.starts_with("a"), pc.starts_with(array, "a")),
        (X.str.ends_with("1"), pc.ends_with(array, "1")),
        (X.str.replace("a", "éé"), pc.replace_substring(array, "a", "éé")),
        (X.str.search("^[a-z]+-"), pc.match_substring_regex(array, "^[a-z]+-")),
        (X.str.slice(1, 4), pc.utf8_slice_codeunits(array, 1, 4)),
        (X.str.slice(-3, None), pc.utf8_slice_codeunits(array, -3)),
        (X.isin(["a", "ab", "é"]), pc.if_else(pc.is_null(array), None, pc.is_in(array, pa.array(["a", "ab", "é"])))),
    ]
    for expr, want in pairs:
        assert computed(column, expr) == want.to_pylist(), str(expr)


@pytest.mark.parametrize("index", [0, 1, 2, -1, -2, 5])
def test_a_part_of_a_text_is_that_of_split_or_missing(index):
    column = texts(3)
    part = lambda t: dict(enumerate(p := t.split("a"))).get(index if index >= 0 else len(p) + index)  # noqa: E731
    expr = X.str.split("a", index)
    assert computed(column, expr) == each(part, column)
    assert str(fb.from_dict({"x": ["a"]}).with_column("y", expr).schema["y"].dtype) == "string"
    kept = [row["x"] for row in fb.from_dict({"x": column}).filter(~expr.is_null())]
    assert kept == [t for t in column if t is not None and part(t) is not None]


def test_whole_numbers_are_read_in_any_base():
    rng = random.Random(4)
    for base in (2, 8, 10, 16, 36):
        numbers = [rng.randrange(-(2**63), 2**63) >> rng.randrange(64) for _ in range(50)]
        written = [np.base_repr(abs(n), base).lower() for n in numbers]
        column = [("-" if n < 0 else "") + w for n, w in zip(numbers, written, strict=True)]
        assert computed([*column, None], X.str.to_int(base)) == [*(int(t, base) for t in column), None]
    assert computed([" 0xFF\n", "-0x10", "+7f"], X.str.to_int(16)) == [255, -16, 127]
    assert computed(["1.5", "-2e3"], X.str.to_float()) == [1.5, -2000.0]
    for text in ("", "-", "--1", "1_0", "0x", "9223372036854775808", "é"):
        with pytest.raises(E.DataError, match="no whole number of base 10") as told:
            computed(["1", text], X.str.to_int())
        assert told.value.context["sample"] == "row 1"


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64", "float16", "float32", "float64", "bool"])
def test_numbers_are_looked_up_as_numpy_and_pyarrow_do(dtype):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2, 200).astype(dtype) if dtype == "bool" else rng.integers(0, 9, 200).astype(dtype)
    if dtype.startswith("float"):
        x[:4] = [np.nan, np.inf, -0.0, 2.5]
    ds = fb.from_numpy({"x": x, "pair": np.stack([x, x], 1)})
    bounds = [0.5, 2, 2.5, 5]
    ds = (
        ds.with_column("a", X.isin([0, 1, 7, 300]))
        .with_column("b", X.isin([0.0, 2.5]))
        .with_column("s", X.cast("float64").sign())
    )
    ds = ds.with_column("c", X.bucketize(bounds)).with_column("d", X.bucketize(bounds, right=True))
    ds = ds.with_column("e", fb.col("pair").isin([3]))
    got = next(iter(ds.batch(200)))
    np.testing.assert_array_equal(got["a"], np.isin(x, [0, 1, 7, 300]))
    np.testing.assert_array_equal(got["b"], np.isin(x, [0.0, 2.5]))
    np.testing.assert_array_equal(got["c"], np.digitize(x.astype("f8"), bounds))
    np.testing.assert_array_equal(got["d"], np.digitize(x.astype("f8"), bounds, right=True))
    np.testing.assert_array_equal(got["e"], np.isin(np.stack([x, x], 1), [3]))
    np.testing.assert_array_equal(got["s"], np.sign(x.astype("f8")))
    if not dtype.startswith("float"):
        n = 9
        hot = next(iter(ds.with_column("h", X.one_hot(n)).batch(200)))["h"]
        np.testing.assert_array_equal(hot, np.eye(n, dtype=np.float32)[x.astype(int)], strict=True)


def test_what_is_missing_stays_missing_or_is_filled():
    column = [3, None, 7, None, 9]
    assert computed(column, X.isin([3, 9])) == [True, None, False, None, True]
    assert computed(column, X.bucketize([5])) == [0, None, 1, None, 1]
    assert computed(column, fb.coalesce(X, X * 2, -1)) == pc.coalesce(pa.array(column), -1).to_pylist()
    with pytest.raises(E.DataError, match="would be missing"):
        computed(column, X.one_hot(10))
    for value, says in ((-1, "-1 is no class"), (4, "4 is no class")):
        with pytest.raises(E.DataError, match=says) as told:
            computed([0, value], X.one_hot(4))
        assert told.value.context["sample"] == "row 1"


LISTS = [np.array(values) for values in ([1, -2, 3], [], [7], [5, 5, -9, 4], [0, 0])]


def ragged(dtype: str, inner: tuple[int, ...] = ()) -> tuple[fb.Dataset, list[np.ndarray]]:
    lists = [np.broadcast_to(a.reshape(-1, *(1 for _ in inner)), (len(a), *inner)).astype(dtype) for a in LISTS]
    give = lambda row: {"x": lists[int(row["id"])]}  # noqa: E731
    return fb.range(len(lists)).map(give, schema={"x": (dtype, (None, *inner))}), lists


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "float32", "float64", "bool"])
@pytest.mark.parametrize("inner", [(), (2,)])
def test_lists_are_those_of_numpy(dtype, inner):
    ds, lists = ragged(dtype, inner)
    for name in ("sum", "mean", "min", "max"):
        got = [row["y"] for row in ds.with_column("y", getattr(X.list, name)())]
        for value, a in zip(got, lists, strict=True):
            if a.size == 0 and name != "sum":
                missing = value is None or np.isnan(value)
                assert missing, name
                continue
            want = getattr(a, name)()
            assert np.asarray(value).dtype == want.dtype, name
            np.testing.assert_allclose(float(value), float(want), rtol=1e-3 if dtype == "float16" else 1e-6)
    for a, b in RNG.choices(SLICES, k=12):
        rows = list(ds.with_column("y", X.list.slice(a, b)).with_column("n", fb.col("y").list.len()))
        for row, want in zip(rows, lists, strict=True):
            np.testing.assert_array_equal(row["y"], want[a:b], strict=True)
            assert row["n"] == len(want[a:b])
    long = ds.filter(X.len() > 0)
    for index in (0, -1):
        got = [row["y"] for row in long.with_column("y", X.list.get(index))]
        for value, want in zip(got, [a[index] for a in lists if len(a)], strict=True):
            np.testing.assert_array_equal(value, want)


def test_arrays_of_one_shape_are_lists_too():
    x = np.arange(24, dtype=np.int16).reshape(4, 3, 2)
    ds = fb.from_numpy({"x": x}).with_column("s", X.list.slice(-2)).with_column("g", X.list.get(1))
    ds = ds.with_column("m", X.list.max())
    assert (ds.schema["s"].shape, ds.schema["g"].shape, str(ds.schema["m"].dtype)) == ((2, 2), (2,), "int16")
    batch = next(iter(ds.batch(4)))
    np.testing.assert_array_equal(batch["s"], x[:, -2:])
    np.testing.assert_array_equal(batch["g"], x[:, 1])
    np.testing.assert_array_equal(batch["m"], x.reshape(4, -1).max(1))


def test_an_item_that_is_not_there_is_an_error_of_its_row():
    ds, _ = ragged("int64")
    with pytest.raises(E.DataError, match=r"get\(2\): the list has 0 items") as told:
        list(ds.with_column("y", X.list.get(2)))
    assert told.value.context["sample"] == "row 1"
    assert len(list(ds.with_column("y", X.list.get(2)).iter(on_error="skip", error_budget=9))) == 2


def test_what_cannot_be_is_refused_where_it_is_written():
    ds = fb.from_dict({"s": ["a"], "b": [b"a"], "n": [1], "f": [0.5]})
    bad = [
        (fb.col("n").str.lower(), "lower: int64 is no string"),
        (fb.col("b").str.contains("a"), "this is bytes, not a string"),
        (fb.col("s").str.search("(a"), "is no pattern"),
        (fb.col("s").str.search("(?=a)"), "is no pattern"),
        (fb.col("s").str.search("a{1000}{1000}"), "is no pattern"),
        (fb.col("s").str.split("", 0), "the separator is empty"),
        (fb.col("n").list.sum(), "int64 is no list"),
        (fb.col("s").list.get(0), "no list|string"),
        (fb.col("s").isin([1]), "cannot be compared with numbers"),
        (fb.col("n").isin(["a"]), "cannot be compared with texts"),
        (fb.col("f").one_hot(3), "is no class"),
        (fb.col("s").bucketize([1]), "is no number"),
    ]
    for expr, says in bad:
        with pytest.raises(E.InvalidPipelineError, match=says) as told:
            ds.with_column("y", expr)
        assert "hint" in told.value.context or "hint" in str(told.value), str(expr)
    wrong = [
        (lambda: X.isin("abc"), TypeError, "a list or a set"),
        (lambda: X.isin([1, "a"]), TypeError, "among strings"),
        (lambda: X.isin([None]), TypeError, "is_null"),
        (lambda: X.isin([float("nan")]), TypeError, "is_nan"),
        (lambda: X.isin([2**64]), OverflowError, "64 bits"),
        (lambda: X.bucketize([2, 1]), ValueError, "do not rise"),
        (lambda: X.bucketize([float("nan")]), ValueError, "finite"),
        (lambda: X.one_hot(0), ValueError, "2\\*\\*20"),
        (lambda: X.str.to_int(1), ValueError, "2 to 36"),
        (lambda: X.str.slice(1.5), TypeError, "an integer"),
        (lambda: X.list.slice(36, 12), ValueError, r"not before stop=12: .* slice\(start, start \+ number\)"),
        (lambda: X.str.slice(0, 0), ValueError, "not before"),
        (lambda: X.list.slice(-2, -3), ValueError, "not before"),
        (lambda: X.list.slice(-3, 3), ValueError, r"from the beginning: .* slice\(-number\)"),
        (lambda: X.str.contains(3), TypeError, "a string"),
        (lambda: X.list.get(True), TypeError, "an integer"),
    ]
    for make, kind, says in wrong:
        with pytest.raises(kind, match=says):
            make()


def test_an_expression_travels_and_says_what_it_is():
    expr = X.str.strip().str.split(":", -1).isin(["b", "a"])
    assert str(pickle.loads(pickle.dumps(expr))) == "col('x').str.strip().str.split(':', -1).isin(['a', 'b'])"
    ds = fb.from_dict({"x": ["k: a", "k: c"]})
    ids = {ds.filter(X.isin(values)).dataset_id for values in (["a", "b"], ["b", "a", "a"], {"a", "b"})}
    assert len(ids) == 1, "the order of values names nothing"
    assert "isin(2 values)" in ds.filter(expr).explain(splits=False)


def test_rows_do_not_depend_on_where_chunks_are_cut():
    column = texts(9)
    expr = fb.where(X.str.contains("a"), X.str.upper().str.slice(0, 3), X.str.split("-", -1))
    ds = fb.from_dict({"x": column, "id": list(range(ROWS))}).with_column("y", expr)
    want = [row["y"] for row in ds]
    for size in (1, 7, 300):
        assert [y for batch in ds.batch(size).iter(threads=3) for y in batch["y"].tolist()] == want
    shuffled = ds.shuffle().iter(seed=4)
    assert all(row["y"] == want[row["id"]] for row in shuffled)


def test_texts_are_joined_as_pythons() -> None:
    columns = {"a": ["x", "é", None, ""], "b": ["1", None, "3", "4"], "n": [1, 2, 3, 4], "f": [0.5, 1.0, 2.0, 3.0]}
    ds = fb.from_dict(columns)
    cases = [
        (fb.col("a") + fb.col("b"), "ab", lambda a, b: a + b),
        (fb.col("a") + " " + fb.col("b"), "ab", lambda a, b: a + " " + b),
        ("<" + fb.col("b") + ">", "b", lambda b: "<" + b + ">"),
        (fb.concat_str("a", "b", fb.lit("!"), separator="-"), "ab", lambda a, b: f"{a}-{b}-!"),
        (fb.concat_str(fb.col("n"), fb.col("b")), "nb", lambda n, b: f"{n}{b}"),
        (fb.format("{n}: {} {{{a}}}", fb.col("b")), "nba", lambda n, b, a: f"{n}: {b} {{{a}}}"),
        (fb.format("{f}/{n}"), "fn", lambda f, n: f"{f}/{n}"),
        (fb.lit("a") + "b", "n", lambda n: "ab"),
        (fb.format(""), "n", lambda n: ""),
    ]
    for expr, names, python in cases:
        made = [row["y"] for row in ds.with_column("y", expr)]
        rows = zip(*(columns[name] for name in names), strict=True)
        assert made == [None if None in row else python(*row) for row in rows], expr
    encoded = ds.with_column("y", fb.col("a").cast(bytes) + fb.col("b").cast(bytes))
    assert [row["y"] for row in encoded] == [b"x1", None, None, b"4"]


def test_what_joins_no_texts_says_what_does() -> None:
    ds = fb.from_dict({"a": ["x"], "n": [1]})
    with pytest.raises(E.InvalidPipelineError, match="string and int64 cannot be added") as caught:
        ds.with_column("y", fb.col("a") + fb.col("n"))
    assert ".cast(str)" in caught.value.context["hint"]
    for template, parts, message in [
        ("{} {}", ("a",), "more {} than values"),
        ("{}", ("a", "n"), "have no {}"),
        ("{a", (), "expected '}'"),
        ("{a:.2f}", (), "a format of its own"),
    ]:
        with pytest.raises(ValueError, match=message.replace("{", r"\{").replace("}", r"\}")):
            fb.format(template, *parts)
