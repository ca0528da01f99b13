"""Every source, on files that other libraries wrote."""

from __future__ import annotations

import json
import struct

import crc32c
import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset
from pictures import encoded, picture


def column(ds: fb.Dataset, name: str) -> list:
    return [row[name] for row in ds]


def test_files_are_whole(images):
    paths = sorted((images / "cat").iterdir())
    ds = fb.from_files(images / "cat" / "*")
    assert list(ds.schema) == ["path", "bytes"]
    assert column(ds, "bytes") == [p.read_bytes() for p in paths]
    assert column(ds, "path") == [str(p) for p in paths]
    assert column(fb.from_files(paths), "bytes") == [p.read_bytes() for p in paths]
    assert ds.cardinality == 5


def test_an_image_folder_labels_by_sorted_class_names(images):
    ds = fb.from_image_folder(images)
    rows = list(ds)
    assert len(rows) == 15
    classes = sorted(p.name for p in images.iterdir())
    for row in rows:
        path = row["path"]
        assert classes[row["label"]] in path
        with open(path, "rb") as file:
            assert row["image"] == file.read()


@pytest.mark.parametrize("shuffled", [False, True])
def test_tar_shards_by_tarfile(shards, shuffled):
    ds = fb.from_tar(str(shards / "train-{000..002}.tar"))
    assert list(ds.schema) == ["__key__", "cls", "json", "png"]
    if shuffled:
        ds = ds.shuffle()
        assert ds.cardinality == 60
    rows = sorted(ds.iter(seed=3), key=lambda r: r["__key__"])
    assert [r["__key__"] for r in rows] == [f"{n:04}" for n in range(60)]
    assert [json.loads(r["json"])["n"] for r in rows] == list(range(60))
    assert rows[7]["png"] == encoded(picture(7, 16, 16), "PNG")


def test_tar_shards_by_webdataset(tmp_path):
    with webdataset.ShardWriter(str(tmp_path / "w-%03d.tar"), maxcount=8, verbose=0) as sink:
        for i in range(20):
            sink.write({"__key__": f"k{i:03}", "npy.bin": bytes([i]) * i, "txt": f"text {i}"})
    ds = fb.from_tar(tmp_path / "w-*.tar")
    rows = list(ds)
    assert [r["__key__"] for r in rows] == [f"k{i:03}" for i in range(20)]
    assert [r["txt"] for r in rows] == [f"text {i}".encode() for i in range(20)]
    assert [r["npy.bin"] for r in rows] == [bytes([i]) * i for i in range(20)]
    assert sorted(column(ds.shuffle(), "__key__")) == [f"k{i:03}" for i in range(20)]


def record(data: bytes) -> bytes:
    """Returns a TFRecord frame, as TensorFlow writes it."""

    def masked(part: bytes) -> bytes:
        crc = crc32c.crc32c(part)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def example(**features: list) -> bytes:
    """A tf.train.Example."""
    entries = b""
    for name, values in features.items():
        if isinstance(values[0], bytes):
            feature = field(1, b"".join(field(1, v) for v in values))
        elif isinstance(values[0], float):
            feature = field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            feature = field(3, field(1, b"".join(varint(v % 2**64) for v in values)))
        entries += field(1, field(1, name.encode()) + field(2, feature))
    return field(1, entries)


@pytest.fixture
def tfrecords(tmp_path):
    for shard in range(2):
        rows = range(shard * 10, shard * 10 + 10)
        frames = [record(example(label=[i - 5], x=[i / 2, i / 4], img=[b"%d" % i])) for i in rows]
        (tmp_path / f"{shard}.tfrecord").write_bytes(b"".join(frames))
    return tmp_path / "*.tfrecord"


def test_tfrecords_raw(tfrecords):
    ds = fb.from_tfrecord(tfrecords)
    assert list(ds.schema) == ["record"]
    assert column(ds, "record")[3] == example(label=[-2], x=[1.5, 0.75], img=[b"3"])
    assert sorted(column(ds.shuffle(), "record")) == sorted(column(ds, "record"))


@pytest.mark.parametrize("features", ["infer", {"label": "int64", "x": ("float32", (2,)), "img": bytes}])
def test_tfrecords_parsed(tfrecords, features):
    ds = fb.from_tfrecord(tfrecords, features=features)
    assert ds.schema["x"] == ("float32", (None,) if features == "infer" else (2,))
    assert ds.schema["label"] == ("int64", ())
    assert next(iter(ds.batch(20)))["x"].shape == (20, 2)
    rows = list(ds)
    assert [int(r["label"]) for r in rows] == list(range(-5, 15))
    assert rows[3]["x"].tolist() == [1.5, 0.75]
    assert rows[19]["img"] == b"19"


@pytest.mark.parametrize("shuffled", [False, True])
def test_parquet_by_pyarrow(parquet, table, shuffled):
    ds = fb.from_parquet(parquet / "*.parquet")
    assert ds.schema["vec"] == ("float32", (3,))
    assert ds.schema["flag"] == ("bool", ())
    rows = list(ds.shuffle() if shuffled else ds)
    rows.sort(key=lambda r: r["i"])
    for name in ("i", "x", "flag", "name", "raw"):
        assert [r[name] for r in rows] == table[name].to_pylist(), name
    assert [r["vec"].tolist() for r in rows] == table["vec"].to_pylist()


def test_parquet_reads_only_the_columns_asked_for(parquet):
    assert list(fb.from_parquet(parquet / "a.parquet", columns=["x", "i"]).schema) == ["x", "i"]
    with pytest.raises(fb.errors.NotFoundError, match="did you mean"):
        fb.from_parquet(parquet / "a.parquet", columns=["nam"])


def test_parquet_with_missing_values(tmp_path):
    pq.write_table(pa.table({"i": [1, None, 3], "s": ["a", None, "c"]}), tmp_path / "n.parquet")
    rows = list(fb.from_parquet(tmp_path / "n.parquet"))
    assert [r["i"] for r in rows] == [1, None, 3]
    assert [r["s"] for r in rows] == ["a", None, "c"]


def test_text_lines(tmp_path):
    (tmp_path / "a.txt").write_bytes("eins\nzwei ä\r\n\nvier".encode())
    (tmp_path / "b.txt").write_bytes(b"five\n")
    ds = fb.from_text([tmp_path / "a.txt", tmp_path / "b.txt"])
    assert column(ds, "text") == ["eins", "zwei ä", "", "vier", "five"]
    assert sorted(column(ds.shuffle(), "text")) == sorted(["eins", "zwei ä", "", "vier", "five"])


def test_jsonl_fields(tmp_path):
    lines = [{"id": i, "x": i / 2, "name": f"n{i}", "deep": {"ok": i % 2 == 0}} for i in range(30)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ds = fb.from_jsonl(tmp_path / "a.jsonl")
    assert set(ds.schema) == {"id", "x", "name", "deep.ok"}
    rows = list(ds)
    assert [int(r["id"]) for r in rows] == list(range(30))
    assert [float(r["x"]) for r in rows] == [line["x"] for line in lines]
    assert [r["name"] for r in rows] == [line["name"] for line in lines]
    assert [bool(r["deep.ok"]) for r in rows] == [i % 2 == 0 for i in range(30)]


class Squares:
    """As a torch Dataset."""

    def __len__(self) -> int:
        return 9

    def __getitem__(self, i: int) -> tuple:
        return np.full((2,), i * i, np.float32), i


def test_map_datasets_may_have_tuples():
    ds = fb.from_map_dataset(Squares(), columns=["x", "label"])
    assert ds.schema["x"] == ("float32", (2,))
    assert [r["x"][0] for r in ds] == [i * i for i in range(9)]
    assert sorted(int(r["label"]) for r in ds.shuffle()) == list(range(9))
    assert list(fb.from_map_dataset(Squares()).schema) == ["0", "1"]
    assert column(fb.from_map_dataset([b"a", b"b"]), "value") == [b"a", b"b"]


def test_generators_start_anew_each_epoch():
    def words():
        for i in range(150):
            yield {"n": i, "word": f"w{i}"}

    ds = fb.from_generator(words)
    assert ds.cardinality is None
    for epochs in (1, 2):
        rows = list(ds.iter(epochs=epochs))
        assert [int(r["n"]) for r in rows] == list(range(150)) * epochs
    with pytest.raises(fb.errors.InvalidPipelineError, match="shuffle"):
        ds.shuffle()


@pytest.mark.parametrize("args", [(5,), (2, 11, 3), (10, 0, -4), (0,), (5, 2)])
def test_range_is_pythons(args):
    assert column(fb.range(*args), "id") == list(range(*args))


def test_paths_with_spaces_and_umlauts(tmp_path):
    folder = tmp_path / "with space ä#%"
    folder.mkdir()
    (folder / "ö 1.txt").write_text("hello\n")
    assert column(fb.from_text(folder / "*.txt"), "text") == ["hello"]
    assert column(fb.from_text(folder / "ö 1.txt"), "text") == ["hello"]
