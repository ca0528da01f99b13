"""`tf.train.SequenceExample`, written byte by byte as its .proto says, read as by `parse_sequence_example`."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest
from sources.test_cut_files import record

Value = list[bytes] | list[float] | list[int]


def varint(n: int) -> bytes:
    n &= 2**64 - 1
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def feature(values: Value) -> bytes:
    if not values:
        return b""
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, v) for v in values))  # type: ignore[arg-type]
    if isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(varint(v) for v in values)))  # type: ignore[arg-type]


def features(values: dict[str, Value]) -> bytes:
    return b"".join(field(1, field(1, name.encode()) + field(2, feature(v))) for name, v in values.items())


def sequence(context: dict[str, Value], lists: dict[str, list[Value]]) -> bytes:
    """Writes a SequenceExample."""
    made = {name: b"".join(field(1, feature(step)) for step in steps) for name, steps in lists.items()}
    entries = b"".join(field(1, field(1, name.encode()) + field(2, steps)) for name, steps in made.items())
    return field(1, features(context)) * bool(context) + field(2, entries) * bool(lists)


def written(path: Path, *records: bytes) -> Path:
    path.write_bytes(b"".join(map(record, records)))
    return path


def rows(ds: fb.Dataset, shuffled: bool) -> list[dict[str, Any]]:
    found = [{n: v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v for n, v in row.items()} for row in ds]
    if shuffled:
        again = rows(ds.shuffle(), False)
        assert sorted(map(str, again)) == sorted(map(str, found))
    return found


@pytest.mark.parametrize("shuffled", [False, True])
def test_contexts_are_columns_and_feature_lists_are_lists(tmp_path, shuffled):
    path = written(
        tmp_path / "a.tfrecord",
        sequence({"id": [7], "name": [b"x"]}, {"tokens": [[5], [-1], [2**40]], "boxes": [[0.5, 1.0], [2.0, 3.0]]}),
        sequence({"id": [8], "name": [b"y"]}, {"tokens": [[1]], "boxes": []}),
    )
    ds = fb.from_tfrecord(path, features="infer")
    assert str(ds.schema) == "Schema(boxes: float32[?, ?], id: int64, name: bytes, tokens: int64[?])"
    assert rows(ds, shuffled) == [
        {"boxes": [[0.5, 1.0], [2.0, 3.0]], "id": 7, "name": b"x", "tokens": [5, -1, 2**40]},
        {"boxes": [], "id": 8, "name": b"y", "tokens": [1]},
    ]
    assert [row["boxes"].shape for row in ds] == [(2, 2), (0, 0)]
    given = {"tokens": ("int64", [None, 1]), "boxes": ("float32", [None, None]), "mask": ("int64?", [None, 3])}
    ds = fb.from_tfrecord(path, features=given)
    assert [row["tokens"].shape for row in ds] == [(3, 1), (1, 1)]
    assert [row["boxes"].shape for row in ds] == [(2, 2), (0, 0)]
    assert [row["mask"].shape for row in ds] == [(0, 3)] * 2


@pytest.mark.parametrize("shuffled", [False, True])
def test_feature_lists_without_a_context_and_those_that_records_lack(tmp_path, shuffled):
    records = [sequence({}, {"t": [[1], [2]], "w": [[1, 2]]}), sequence({}, {"w": [[1, 2, 3], [4, 5, 6]]})]
    ds = fb.from_tfrecord(written(tmp_path / "a", *records), features="infer")
    assert str(ds.schema) == "Schema(t: int64[?], w: int64[?, ?])"
    assert rows(ds, shuffled) == [{"t": [1, 2], "w": [[1, 2]]}, {"t": [], "w": [[1, 2, 3], [4, 5, 6]]}]


@pytest.mark.parametrize(
    ("lists", "why"),
    [
        ({"a": [[1], [2, 3]]}, "has steps of 1 to 2 values"),
        ({"a": [[1], []]}, "has steps of 0 to 1 values"),
        ({"a": [[b"x"], [b"y", b"z"]]}, "has steps of 1 to 2 values"),
        ({"a": [[b"x"], [b"\xff"]]}, "has several byte strings that are not all utf-8"),
        ({"a": [[1], [1.5]]}, "has two types"),
    ],
)
def test_what_no_column_holds_is_refused_with_a_way_out(tmp_path, lists, why):
    path = written(tmp_path / "a", sequence({"id": [1]}, lists))
    with pytest.raises(fb.errors.InvalidPipelineError, match=f'feature list "a" {why}, which no column holds') as info:
        fb.from_tfrecord(path, features="infer")
    assert "features={...}" in (info.value.hint or "")
    assert rows(fb.from_tfrecord(path, features={"id": "int64"}), True) == [{"id": 1}]
    for kind in ("int64", ("int64", [None]), ("int64", [None, 2]), ("int64", [None, None]), ("int64", [2])):
        with pytest.raises(fb.errors.DataError, match=r'feature "a" should be int64.*, and is a feature list'):
            list(fb.from_tfrecord(path, features={"a": kind}))


def test_records_without_features_are_no_empty_schema(tmp_path):
    for payload in (b"", field(3, b"else"), sequence({}, {})):
        with pytest.raises(fb.errors.DataError, match="the first 1 records have no features"):
            fb.from_tfrecord(written(tmp_path / "a", payload), features="infer")
    both = sequence({"a": [1]}, {"a": [[1]]})
    with pytest.raises(fb.errors.InvalidPipelineError, match='"a" is a feature and a feature list'):
        fb.from_tfrecord(written(tmp_path / "a", both), features="infer")
