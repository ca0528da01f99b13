"""Writes the golden files with other libraries, and the rows that the same libraries read back.

    pip install numpy pyarrow webdataset tensorflow-cpu
    python write.py

Every FILE has FILE.json beside it: a list of rows, bytes in hexadecimal.
"""

import io
import json
import pathlib
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
RNG = np.random.default_rng(17)


def rows(name, items):
    (HERE / f"{name}.json").write_text(json.dumps(items, separators=(",", ":")) + "\n")


def plain(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return value


def write_tar():
    import webdataset

    name = "webdataset.tar"
    with webdataset.TarWriter(str(HERE / name), encoder=False, mtime=0) as sink:
        for i in range(7):
            sink.write(
                {
                    "__key__": f"train/{i:05}",
                    "jpg": RNG.bytes(int(RNG.integers(0, 1500))),
                    "cls": str(i % 3).encode(),
                    "seg.PNG": RNG.bytes(5),
                }
            )
    samples = webdataset.WebDataset(str(HERE / name), shardshuffle=False, handler=webdataset.reraise_exception)
    read = [{k: plain(v) for k, v in s.items() if k in ("__key__", "jpg", "cls")} for s in samples]
    # webdataset lowers the case of extensions; here they stay as they are written.
    with tarfile.open(HERE / name) as tar:
        for row in read:
            row["seg.PNG"] = tar.extractfile(row["__key__"] + ".seg.PNG").read().hex()
    rows(name, read)

    for name, form in [
        ("pax.tar", tarfile.PAX_FORMAT),
        ("gnu.tar", tarfile.GNU_FORMAT),
        ("ustar.tar", tarfile.USTAR_FORMAT),
    ]:
        expected = []
        deep = "/".join(["folder-" + "é" * 20 if form != tarfile.USTAR_FORMAT else "folder-" + "e" * 30] * 4)
        with tarfile.open(
            HERE / name,
            "w",
            format=form,
            pax_headers={"comment": "a global header"} if form == tarfile.PAX_FORMAT else None,
        ) as tar:
            folder = tarfile.TarInfo(deep)
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            for i in range(3):
                for extension in ("txt", "bin"):
                    info = tarfile.TarInfo(f"{deep}/{i}.{extension}")
                    data = RNG.bytes([0, 512, 700][i])
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
                link = tarfile.TarInfo(f"{deep}/{i}.link")
                link.type, link.linkname = tarfile.SYMTYPE, "elsewhere"
                tar.addfile(link)
            hidden = tarfile.TarInfo(f"{deep}/._0.txt")
            tar.addfile(hidden)
        with tarfile.open(HERE / name) as tar:
            for i in range(3):
                base = f"{deep}/{i}"
                expected.append(
                    {"__key__": base} | {e: tar.extractfile(f"{base}.{e}").read().hex() for e in ("bin", "txt")}
                )
        rows(name, expected)


def write_tfrecord():
    import tensorflow as tf

    def feature(value):
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        if value and isinstance(value[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=value))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=value))

    name = "tensorflow.tfrecord"
    with tf.io.TFRecordWriter(str(HERE / name)) as sink:
        for i in range(20):
            example = {
                "image": RNG.bytes(int(RNG.integers(0, 300))),
                "label": [i - 3],
                "box": [float(x) for x in RNG.random(4)],
                "ids": [int(x) for x in RNG.integers(-(1 << 62), 1 << 62, i % 4 + 1)],
                "score": [i / 7],
            }
            message = tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in example.items()}))
            sink.write(message.SerializeToString())
    raw = [r.numpy() for r in tf.data.TFRecordDataset(str(HERE / name))]
    rows(f"{name}.raw", [{"record": r.hex()} for r in raw])
    spec = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "box": tf.io.FixedLenFeature([4], tf.float32),
        "ids": tf.io.VarLenFeature(tf.int64),
        "score": tf.io.FixedLenFeature([], tf.float32),
    }
    parsed = [tf.io.parse_single_example(r, spec) for r in raw]
    dense = lambda v: tf.sparse.to_dense(v).numpy() if isinstance(v, tf.sparse.SparseTensor) else v.numpy()
    rows(name, [{k: plain(dense(v)) for k, v in p.items()} for p in parsed])
    with tf.io.TFRecordWriter(str(HERE / "gzip.tfrecord"), "GZIP") as sink:
        sink.write(raw[0])


def write_parquet():
    name = "pyarrow.parquet"
    n = 50
    maybe = lambda make: [None if i % 7 == 3 else make(i) for i in range(n)]
    image = pa.FixedSizeListArray.from_arrays(pa.array(RNG.integers(0, 256, n * 6), pa.uint8()), 6)
    shaped = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.uint8(), [2, 3]), image)
    table = pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "x": pa.array(maybe(lambda i: i / 3), pa.float32()),
            "flag": pa.array(maybe(lambda i: i % 2 == 0), pa.bool_()),
            "name": pa.array(maybe(lambda i: f"näme-{i % 5}")).dictionary_encode(),
            "raw": pa.array([RNG.bytes(i % 9) for i in range(n)], pa.binary()),
            "list": pa.array(maybe(lambda i: list(range(i % 4))), pa.list_(pa.int32())),
            "bits": pa.array([[i % 2 == 0, True] for i in range(n)], pa.list_(pa.bool_(), 2)),
            "image": shaped,
            "user": pa.array(
                maybe(lambda i: {"age": i, "at": {"lat": i / 2}}),
                pa.struct([pa.field("age", pa.int16(), nullable=False), ("at", pa.struct([("lat", pa.float64())]))]),
            ),
        }
    )
    pq.write_table(table, HERE / name, row_group_size=20, compression="zstd")
    read = pq.read_table(HERE / name)
    expected = []
    for row in read.to_pylist():
        user = row.pop("user") or {"age": None, "at": {"lat": None}}
        row["user.age"], row["user.at.lat"] = user["age"], (user["at"] or {"lat": None})["lat"]
        row["image"] = np.asarray(row["image"]).reshape(2, 3).tolist()
        expected.append({k: plain(v) for k, v in row.items()})
    rows(name, expected)
    pq.write_table(
        pa.table({"when": pa.array([0], pa.timestamp("us")), "n": pa.array([1])}), HERE / "timestamp.parquet"
    )


def write_jsonl():
    name = "python.jsonl"
    items = [
        {
            "id": i,
            "score": i / 3 if i else 1,
            "name": f'näme "{i}"\n',
            "ok": i % 2 == 0,
            "ids": list(range(i % 3)),
            "pair": [i, i + 0.5],
            "user": {"age": i if i % 3 else None, "tags": ["a", str(i)]},
        }
        for i in range(9)
    ]
    (HERE / name).write_text(
        "".join(json.dumps(x, ensure_ascii=i % 2 == 0) + ("\r\n" if i == 4 else "\n") for i, x in enumerate(items)),
        newline="",
    )
    expected = []
    for item in items:
        user = item.pop("user")
        expected.append(item | {"user.age": user["age"], "user.tags": user["tags"]})
    rows(name, expected)


if __name__ == "__main__":
    write_tar()
    write_tfrecord()
    write_parquet()
    write_jsonl()
