"""Any value as any argument of any public function: it works, or an error explains the mistake. Never a bug of ours.

Functions and their parameters are found by introspection, so a new one is tried, too: a parameter without default needs
a plausible value in `PLAUSIBLE`. The test also runs the ops with wild arguments, because some are refused only there.
"""

from __future__ import annotations

import datetime as dt
import decimal
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pytest
from forebay import errors as E
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PLAUSIBLE: dict[str, Any] = {
    "alpha": 1.0,
    "arg": 1,
    "batch_sizes": [2, 2],
    "boundaries": [2],
    "bits": 4,
    "bounds": [1.0, 2.0],
    "classes": 3,
    "template": "{id}",
    "column": "id",
    "columns": ["id"],
    "cond": True,
    "count": 2,
    "data": {"x": [1, 2]},
    "dataset": [{"x": 1}, {"x": 2}],
    "datasets": [fb.range(3), fb.range(4)],
    "degrees": 10,
    "dtype": "int8",
    "factor": 2.0,
    "first": 1,
    "fn": dict,
    "function": lambda: iter([{"x": 1}]),
    "impulse_response": "id",
    "index": 0,
    "into": "part",
    "job": "job",
    "kernel_size": 3,
    "label": "id",
    "length": 4,
    "mask_id": 1,
    "mean": 0.5,
    "middle": "<M>",
    "n": 3,
    "name": "id",
    "no": 1,
    "on": "id",
    "other": 1,
    "others": fb.range(3),
    "padding": 2,
    "parts": ["id"],
    "path": "saved",
    "paths": "nothing-*.txt",
    "points": {0: [1, 2]},
    "predicate": fb.col("id") > 1,
    "prefix": "nothing",
    "sample_rate": 16000,
    "seconds": 0.1,
    "root": ".",
    "rows": [0, 1],
    "sentinel_ids": [9],
    "service": "forebay://127.0.0.1:9",
    "share": 0.5,
    "size": 4,
    "start": 3,
    "state": {},
    "std": 0.5,
    "suffix": "<S>",
    "table": pa.table({"id": [1, None]}),
    "tokenizer": "tokenizer.json",
    "uri": "nothing.lance",
    "value": 1,
    "key": "id",
    "offsets": [0, 1],
    "values": [1],
    "vocab_size": 9,
    "yes": 0,
    "x": "id",
}

#: They start processes, use a network or are no functions of users' values.
ELSEWHERE = {
    "ColumnStatistics",
    "Headspace",
    "ShuffleQuality",
    "Statistics",
    "SkippedSample",
    "up",
    "connect",
    "Distributed",
    "Service",
    "DatasetIterator",
    "Dataset",
    "Expr",
    "Saved",
    "Schedule",
    "Tls",
}
#: They measure or run a pipeline.
SLOW = {"headspace", "optimize", "save"}


def datasets() -> dict[str, fb.Dataset]:
    """Returns the objects whose methods are called."""
    numbers = fb.range(4)
    images = fb.from_numpy({"id": np.zeros((3, 8, 8, 3), np.uint8), "y": [0, 1, 2]})
    return {
        "numbers": numbers,
        "batches": numbers.batch(2),
        "images": images,
        "normalised": images.normalize("id", mean=[0.5] * 3, std=[0.5] * 3).batch(2),
        "texts": fb.from_dict({"id": ["a", None, "ccc"]}),
        "bytes": fb.from_dict({"id": [b"a", b"\xff"]}),
        "lists": fb.from_generator(lambda: iter([{"id": [1]}, {"id": [1, 2, 3]}])),
        "missing": fb.from_dict({"id": [1, None, 3], "z": [0.5, None, None]}),
    }


def signature(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function).parameters
    return {name: p for name, p in found.items() if name != "self" and p.kind is not p.VAR_KEYWORD}


def public(owner: Any) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_") and callable(getattr(owner, name))]


def targets() -> list[tuple[str, str]]:
    """Returns the place of each function, and its name."""
    found = {name: getattr(fb, name) for name in fb.__all__ if name not in ELSEWHERE}
    is_error = {name for name, f in found.items() if isinstance(f, type) and issubclass(f, BaseException)}
    modules = [("fb", name) for name, f in found.items() if callable(f) and name not in is_error]
    methods = [("Dataset", name) for name in public(fb.Dataset) if name not in SLOW]
    operators = [f"__{op}__" for op in ("add", "rsub", "truediv", "mod", "pow", "eq", "lt", "and", "or", "round")]
    return modules + methods + [("Expr", name) for name in [*public(fb.Expr), *operators]]


def odd_arrays() -> list[Any]:
    return [
        np.arange(3).astype(">i4"),
        np.arange(3).astype(">f8")[1],
        np.array([(1, 2.0)], dtype=[("a", ">i4"), ("b", "f8")]),
        np.array([object(), None], dtype=object),
        np.array(3),
        np.array("x"),
        np.array(["a", "bc"]),
        np.array([b"a", b"bc"]),
        np.array([1 + 2j]),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([1], "m8[s]"),
        np.array([], np.float32),
        np.zeros((2, 0, 3)),
        np.ma.array([1, 2], mask=[True, False]),
        np.ma.masked,
        np.longdouble(1),
        np.float16("nan"),
        np.bool_(True),
        np.datetime64("NaT"),
        np.uint64(2**64 - 1),
        np.random.default_rng(0),
    ]


class Odd:
    """Breaks every operation on it."""

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __getitem__(self, _: Any) -> Any:
        raise RuntimeError("no item")

    def __iter__(self) -> Any:
        raise RuntimeError("no iterator")


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["", "id", "int8", "int64?", "\ud800", "a\udcff", "\0", "x" * 100_000, "é", "RGB", "infer", "{blob}"]
    ),
    st.binary(max_size=8),
    st.sampled_from(odd_arrays()),
    st.sampled_from(
        [int, float, str, np.int8, np.dtype(">i4"), object(), Odd(), Ellipsis, len, print, lambda: 1, lambda x: x]
    ),
    st.sampled_from([decimal.Decimal("1.5"), dt.date(2020, 1, 1), Path("x"), slice(1), {1, 2}, frozenset(), iter([])]),
    st.sampled_from(
        [fb.col("id"), fb.col("no such"), fb.col("id").is_null(), fb.lit(1), fb.range(3), fb.errors, E.DataError]
    ),
)
WILD = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.sampled_from(["id", "x", "\ud800", ""]), st.integers()), inner, max_size=3),
    ),
    max_leaves=5,
)

FINE = (E.ForebayError, TypeError, ValueError)
#: Texts that no message may have.
OURS = ("report this", "panicked", "internal", "_src", "Ops.")


def raised(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Returns the result or the exception of a call."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(), None
    except (Exception, BaseExceptionGroup) as error:
        return None, error


def check(call: Callable[[], Any], said: str) -> Any:
    """Makes a call, and checks its exception."""
    made, error = raised(call)
    if error is None or isinstance(error, StopIteration):
        return made
    text = str(error)
    is_fine = isinstance(error, FINE) and not isinstance(error, E.InternalError)
    is_fine |= isinstance(error, OverflowError) and "64 bits" in text
    is_fine |= isinstance(error, RuntimeError) and text in ("no length", "no item", "no iterator")
    is_fine |= isinstance(error, ImportError) and "torch" in text
    if not is_fine or not text or any(word in text for word in OURS):
        pytest.fail(f"{said}: {type(error).__name__}: {text}")
    return None


def run(made: Any, said: str) -> None:
    """Reads a few samples of a dataset."""
    if isinstance(made, fb.Expr):
        made = check(lambda: datasets()["missing"].with_column("y", made), said)
    if not isinstance(made, fb.Dataset):
        return
    it = check(lambda: made.iter(threads=1), said)
    for _ in range(3):
        if check(lambda: next(it), said) is None:
            break
    it.close()
    check(made.explain, said)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """A folder with wild file names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("wild"))
        yield


@settings(max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_value_works_or_is_refused_in_words(data):
    owner, name = data.draw(st.sampled_from(targets()))
    subject = {"fb": lambda: fb, "Expr": lambda: fb.col("id")}.get(owner)
    if subject is None:
        which = data.draw(st.sampled_from(sorted(datasets())))
        subject = lambda: datasets()[which]  # noqa: E731
    function = getattr(subject(), name)
    parameters = signature(function)
    wild = data.draw(st.sets(st.sampled_from(sorted(parameters)), min_size=1, max_size=2)) if parameters else set()
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter, p in parameters.items():
        if parameter in wild:
            value = data.draw(WILD)
        elif p.default is p.empty:
            value = PLAUSIBLE[parameter]
        else:
            continue
        if p.kind is p.VAR_POSITIONAL or p.kind is p.POSITIONAL_ONLY:
            args.append(value)
        else:
            kwargs[parameter] = value
    said = f"{owner}.{name}(*{args!r}, **{kwargs!r})"[:2000]
    run(check(lambda: function(*args, **kwargs), said), said)


@settings(max_examples=120, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(WILD, st.sampled_from(["row", "column", "batch", "filter", "mask", "item", "yield", "schema", "late"]))
def test_any_value_that_functions_return_is_a_column_or_is_refused_in_words(value, way):
    ds, said = fb.range(3), f"{way} {value!r}"[:2000]
    made = {
        "row": lambda: ds.map(lambda row: value),
        "column": lambda: ds.map(lambda row: {"x": value}),
        "batch": lambda: ds.map(lambda batch: {"x": value}, batched=True),
        "filter": lambda: ds.filter(lambda row: value),
        "mask": lambda: ds.filter(lambda batch: value, batched=True),
        "item": lambda: fb.from_map_dataset([{"x": value}, {"x": value}]),
        "yield": lambda: fb.from_generator(lambda: iter([value, value])),
        "schema": lambda: ds.map(lambda row: {"x": value}, schema={"x": "int64?"}),
        "late": lambda: ds.map(lambda row: {"x": value if row["id"] else "a"}, schema={"x": "string?"}),
    }[way]
    run(check(made, said), said)


@settings(max_examples=80, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(WILD, max_size=4), st.booleans())
def test_any_list_is_a_column_or_is_refused_in_words(values, as_rows):
    said = f"{values!r}"[:2000]
    run(check(lambda: fb.from_dict({"x": values}), said), said)
    if as_rows:
        run(check(lambda: fb.from_map_dataset([{"x": v} for v in values]), said), said)
    for value in values:
        run(check(lambda value=value: fb.from_numpy({"x": value}), said), said)


def test_chains_of_a_thousand_terms_are_computed_and_longer_ones_refused():
    x = fb.col("id")
    total, any_of = x, x == 0
    for i in range(999):
        total = total + 1 if i < 990 else total
        any_of = any_of | (x == i) if i < 990 else any_of
    rows = list(fb.range(3).with_column("y", total).filter(any_of).filter(~(total < 0)))
    assert [int(row["y"]) for row in rows] == [990, 991, 992]
    deep = x
    for _ in range(2000):
        deep = -deep
    with pytest.raises(E.InvalidPipelineError, match="more than 1000 levels") as caught:
        fb.range(3).with_column("y", deep)
    assert "with_column" in caught.value.hint


def test_numbers_of_another_byte_order_and_beyond_int64_keep_their_values():
    for dtype in (">i4", ">u8", ">f4", "<i2"):
        array = np.arange(3).astype(dtype)
        for ds in (fb.from_numpy(array), fb.from_dict({"value": array}), fb.from_dict({"value": list(array)})):
            assert [row["value"] for row in ds] == [0, 1, 2]
            assert ds.schema["value"].dtype == np.dtype(dtype).newbyteorder("=").name
        mapped = fb.range(3).map(lambda row, a=array: {"x": a[row["id"]], "y": a})
        assert [int(row["x"]) for row in mapped] == [0, 1, 2]
        assert [row["y"].tolist() for row in mapped] == [[0, 1, 2]] * 3
    large = fb.from_dict({"a": [1, 2**63, 2**64 - 1], "v": [[2**63, i] for i in range(3)]})
    assert large.schema["a"].dtype == "uint64"
    assert [int(row["a"]) for row in large] == [1, 2**63, 2**64 - 1]
    assert [row["v"].tolist() for row in large] == [[2**63, i] for i in range(3)]
    with pytest.raises(E.InvalidPipelineError, match="which 64 bits do not hold"):
        fb.from_dict({"a": [2**64]})


def test_a_text_that_no_encoding_has_a_place_for_is_the_fault_of_its_sample(tmp_path):
    ds = fb.range(10).map(lambda row: {"x": "\ud800" if row["id"] == 7 else "a"}, schema={"x": "string"})
    for executor in ("thread", "process"):
        with pytest.raises(E.DataError, match="not valid Unicode") as caught:
            list(ds.iter(executor=executor))
        assert caught.value.context["sample"] == "row 7"
        assert len(list(ds.iter(executor=executor, on_error="skip", error_budget=1))) == 9
    with pytest.raises(E.InvalidPipelineError, match=r'"a" that is not valid Unicode: .*ud800'):
        fb.from_dict({"a": ["\ud800"]})


def test_one_column_is_asked_for_wherever_one_is_named():
    images = fb.from_numpy({"image": np.zeros((2, 8, 8, 3), np.uint8), "mask": np.zeros((2, 8, 8, 1), np.uint8)})
    pair = ["image", "mask"]
    for call in (
        lambda: images.random_flip(pair),
        lambda: images.random_resized_crop(pair, 4),
        lambda: images.color_jitter(tuple(pair), brightness=0.5),
    ):
        with pytest.raises(E.InvalidPipelineError, match="the name of one column, not") as caught:
            call()
        assert "would not agree" in caught.value.hint
        assert "annotate(" in caught.value.hint
    for call in (
        lambda: images.resize(pair, 4),
        lambda: images.with_column(pair, 1),
        lambda: images.decode_image(pair),
    ):
        with pytest.raises(E.InvalidPipelineError, match="the name of one column, not") as caught:
            call()
        assert "once for each column" in caught.value.hint
