"""`tf.train.Example`, written by the protobuf library from TensorFlow's messages, and read by `from_tfrecord`."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from formats.test_sequence_examples import rows, sequence, written
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

E = fb.errors


def _messages() -> Any:
    """Returns the class of `tf.train.Example`, from feature.proto and example.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    kind = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, int, int, str, bool]) -> descriptor_pb2.DescriptorProto:
        made = file.message_type.add(name=name)
        for field, number, type, of, repeated in fields:
            label = kind.LABEL_REPEATED if repeated else kind.LABEL_OPTIONAL
            made.field.add(name=field, number=number, type=type, type_name=of or None, label=label)
        return made

    message("BytesList", ("value", 1, kind.TYPE_BYTES, "", True))
    message("FloatList", ("value", 1, kind.TYPE_FLOAT, "", True))
    message("Int64List", ("value", 1, kind.TYPE_INT64, "", True))
    lists = [("bytes_list", ".t.BytesList"), ("float_list", ".t.FloatList"), ("int64_list", ".t.Int64List")]
    feature = message("Feature", *((name, i + 1, kind.TYPE_MESSAGE, of, False) for i, (name, of) in enumerate(lists)))
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    features = message("Features", ("feature", 1, kind.TYPE_MESSAGE, ".t.Features.FeatureEntry", True))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kind.TYPE_MESSAGE, type_name=".t.Feature", label=kind.LABEL_OPTIONAL)
    message("Example", ("features", 1, kind.TYPE_MESSAGE, ".t.Features", False))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


Example = _messages()


def example(row: dict[str, list[Any] | None]) -> bytes:
    """Writes a row: lists of ints, floats or bytes; `None` is a feature without a list."""
    made = Example()
    for name, values in row.items():
        feature = made.features.feature[name]
        if values is None:
            continue
        kind = (
            "bytes"
            if not values or isinstance(values[0], bytes)
            else "float"
            if isinstance(values[0], float)
            else "int64"
        )
        list_of = getattr(feature, kind + "_list")
        list_of.SetInParent()
        list_of.value.extend(values)
    return made.SerializeToString()


def test_lists_of_any_length_come_back_as_they_were_written(tmp_path):
    draw = random.Random(3)
    words = [b"", "naïve".encode(), b"x" * 300, "日".encode()]
    data = []
    for i in range(300):
        # The first 100 records have lists of one length, as the records that are looked at.
        count = 2 if i < 100 else draw.randrange(4)
        row = {
            "id": [i - 7],
            "tags": draw.choices(words, k=count),
            "ints": [draw.randrange(-(2**63), 2**63) for _ in range(count)] or None,
            "floats": [float(draw.randrange(100)) for _ in range(count)] or None,
            "raw": [bytes([i % 256])],
        }
        data.append(row if i % 5 else {name: row[name] for name in ("id", "raw")})
    ds = fb.from_tfrecord(written(tmp_path / "a", *map(example, data)), features="infer")
    assert str(ds.schema) == "Schema(floats: float32[?], id: int64, ints: int64[?], raw: bytes, tags: string[?]?)"
    expected = [
        {
            "floats": row.get("floats") or [],
            "id": row["id"][0],
            "ints": row.get("ints") or [],
            "raw": row["raw"][0],
            "tags": [tag.decode() for tag in row["tags"]] if "tags" in row else None,
        }
        for row in data
    ]
    assert rows(ds, True) == expected
    again = ds.select("id", "tags").filter(~fb.col("tags").is_null())
    assert rows(again.with_column("n", fb.col("tags").list.len()).select("n"), False) == [
        {"n": len(row["tags"])} for row in expected if row["tags"] is not None
    ]


def test_single_byte_strings_stay_single_and_empty_lists_of_them_are_missing(tmp_path):
    path = written(tmp_path / "a", example({"x": [b"\xff"]}), example({"x": []}), example({"x": None}), example({}))
    ds = fb.from_tfrecord(path, features="infer")
    assert str(ds.schema) == "Schema(x: bytes?)"
    assert rows(ds, True) == [{"x": b"\xff"}] + [{"x": None}] * 3
    path = written(tmp_path / "b", example({"x": []}), example({"x": [b"a", b"b"]}))
    assert rows(fb.from_tfrecord(path, features="infer"), True) == [{"x": []}, {"x": ["a", "b"]}]
    path = written(tmp_path / "c", *[example({"x": [b"a"]})] * 100, example({"x": [b"a", b"b"]}))
    with pytest.raises(E.DataError, match='feature "x" should be bytes, and is a list of 2 byte strings') as caught:
        list(fb.from_tfrecord(path, features="infer"))
    assert '{"x": ("string", [None])}' in (caught.value.hint or "")
    assert len(list(fb.from_tfrecord(path, features={"x": ("string", [None])}))) == 101


def test_byte_strings_that_are_no_texts_are_refused_and_others_are_read(tmp_path: Path):
    path = written(tmp_path / "a", example({"x": [b"\xff\xd8", b"\xff\xd8"], "id": [1]}))
    with pytest.raises(E.InvalidPipelineError, match='feature "x" has several byte strings that are not all utf-8'):
        fb.from_tfrecord(path, features="infer")
    assert rows(fb.from_tfrecord(path, features={"id": "int64"}), False) == [{"id": 1}]
    with pytest.raises(E.DataError, match=r'feature "x" should be string\[\?\], and is bytes that are not utf-8'):
        list(fb.from_tfrecord(path, features={"x": ("string", [None])}))


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_text_in_each_step_of_a_feature_list_is_a_list_of_texts(tmp_path, shuffled):
    lists = [{"w": [[b"one"], [b"two"]]}, {"w": []}, {}]
    ds = fb.from_tfrecord(written(tmp_path / "a", *(sequence({"id": [1]}, one) for one in lists)), features="infer")
    assert str(ds.schema) == "Schema(id: int64, w: string[?]?)"
    assert [row["w"] for row in rows(ds, shuffled)] == [["one", "two"], [], None]
    path = written(tmp_path / "b", sequence({}, {"w": [[b"one"], [1]]}))
    with pytest.raises(E.DataError, match=r'feature "w" should be string\[\?\], and is a feature list of two types'):
        list(fb.from_tfrecord(path, features={"w": ("string", [None])}))
