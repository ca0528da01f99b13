"""Writes the seeds of the corpus: files and streams as other libraries write them, pipelines as Forebay does.

Run it where Forebay and `requirements-dev.txt` are installed: `python fuzz/seeds.py`.
"""

from __future__ import annotations

import io
import json
import struct
import tarfile
from pathlib import Path

import crc32c
import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

CORPUS = Path(__file__).parent / "corpus"
GOLDENS = Path(__file__).parent.parent / "python" / "tests" / "golden"
GOLDEN = Path(__file__).parent.parent / "crates" / "io" / "tests" / "golden"


def keep(target: str, name: str, data: bytes) -> None:
    """Writes one seed."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def sounds() -> None:
    """Short sounds of every format that is decoded."""
    for path in sorted((GOLDEN.parents[2] / "exec" / "tests" / "golden" / "audio").iterdir()):
        if path.suffix not in (".py", ".txt"):
            keep("audio", path.name, path.read_bytes())


def fax() -> bytes:
    """Returns a black and white TIFF in the code of fax machines."""
    out = io.BytesIO()
    Image.fromarray(np.add.outer(np.arange(9), np.arange(17)) % 5 < 2).save(out, "TIFF", compression="group4")
    return out.getvalue()


def images() -> None:
    """Small images of every kind that is decoded; byte 0 chooses a region."""
    rng = np.random.default_rng(0)

    def draw(height: int, width: int, channels: int) -> np.ndarray:
        smooth = np.add.outer(np.arange(height) * 3, np.arange(width) * 5)[..., None]
        noise = rng.integers(0, 60, (height, width, channels))
        return ((smooth + noise) % 256).astype(np.uint8)

    def save(name: str, pixels: np.ndarray, mode: str, kind: str, **options: object) -> None:
        out = io.BytesIO()
        image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels, mode if kind != "PNG1" else None)
        image.save(out, kind, **options)
        keep("image", name, bytes([0b0100_0101]) + out.getvalue())

    for subsampling in (0, 1, 2):
        save(f"jpeg-{subsampling}", draw(21, 37, 3), "RGB", "JPEG", quality=60, subsampling=subsampling)
    save("jpeg-grey", draw(18, 20, 1), "L", "JPEG", quality=80)
    save("jpeg-optimised", draw(24, 40, 3), "RGB", "JPEG", quality=95, optimize=True)
    save("jpeg-progressive", draw(24, 40, 3), "RGB", "JPEG", progressive=True)
    save("jpeg-restart", draw(40, 40, 3), "RGB", "JPEG", restart_marker_blocks=2)
    save("jpeg-restart-rows", draw(40, 24, 3), "RGB", "JPEG", restart_marker_rows=1, subsampling=2)
    save("jpeg-cmyk", draw(16, 16, 4), "CMYK", "JPEG")
    save("jpeg-exif", draw(8, 8, 3), "RGB", "JPEG", exif=Image.Exif(), comment=b"tide")
    save("png-rgb", draw(9, 7, 3), "RGB", "PNG")
    save("png-rgba", draw(9, 7, 4), "RGBA", "PNG")
    save("png-grey", draw(9, 7, 1), "L", "PNG")
    save("webp", draw(12, 10, 3), "RGB", "WEBP", quality=50)
    save("webp-alpha", draw(12, 10, 4), "RGBA", "WEBP", quality=50)
    save("webp-lossless", draw(12, 10, 3), "RGB", "WEBP", lossless=True)
    moving = {"save_all": True, "append_images": [Image.fromarray(draw(12, 10, 4))], "duration": 40}
    save("webp-animated", draw(12, 10, 4), "RGBA", "WEBP", quality=50, **moving)
    save("webp-animated-lossless", draw(12, 10, 4), "RGBA", "WEBP", lossless=True, **moving)
    save("gif", draw(9, 7, 3), "RGB", "GIF")
    save("gif-animated", draw(9, 7, 3), "RGB", "GIF", save_all=True, append_images=[Image.fromarray(draw(9, 7, 3))])
    save("bmp", draw(5, 7, 3), "RGB", "BMP")
    save("bmp-grey", draw(5, 7, 1), "L", "BMP")
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
        save(f"tiff-{compression}", draw(9, 7, 3), "RGB", "TIFF", compression=compression)
    save("tiff-rgba", draw(9, 7, 4), "RGBA", "TIFF")
    save("tiff-cmyk", draw(9, 7, 4), "CMYK", "TIFF")
    keep("image", "tiff-fax", b"\0" + fax())
    for path in sorted((GOLDEN.parents[2] / "exec" / "tests" / "golden" / "image").glob("*.png")):
        if path.stat().st_size < 700:
            keep("image", path.stem, b"\0" + path.read_bytes())


def unusual() -> pa.Table:
    """Types that are read as whole numbers, as text, or as JSON text."""
    return pa.table(
        {
            "w": pa.array([1, None, -3], pa.timestamp("us", "UTC")),
            "y": pa.array([1, None, 3], pa.date32()),
            "p": pa.array(["1.50", None, "-0.01"]).cast(pa.decimal128(9, 2)),
            "z": pa.nulls(3),
            "t": pa.array([["a", None], None, []]),
            "c": pa.array([[{"r": "u", "n": 1, "b": b"x"}], [None], None]),
            "m": pa.array([[("k", 1.5)], [], None], pa.map_(pa.string(), pa.float32())),
            "k": pa.array([[(1, [True])], [], None], pa.map_(pa.int64(), pa.list_(pa.bool_()))),
            "v": pa.array([[1], [], [2, 3]], pa.list_view(pa.int32())),
        }
    )


def parquet() -> None:
    """Tables of every type that is read, small, in several encodings."""
    table = pa.table(
        {
            "i": pa.array([1, 2, None], pa.int32()),
            "x": pa.array([0.5, 1.5, 2.5], pa.float64()),
            "t": pa.array(["a", "bé", ""]),
            "d": pa.array(["u", "v", "u"]).dictionary_encode(),
            "b": pa.array([b"", b"xy", None], pa.binary()),
            "l": pa.array([[1, 2], [], [3]], pa.list_(pa.int64())),
            "f": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6), pa.float32()), 2),
            "s": pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["n"]),
        }
    )
    for name, options in {
        "plain": {"compression": "none", "use_dictionary": False},
        "dictionary": {"compression": "snappy", "row_group_size": 2},
        "zstd": {"compression": "zstd", "data_page_version": "2.0"},
        "lz4": {"compression": "lz4", "write_statistics": False},
    }.items():
        out = io.BytesIO()
        pq.write_table(table, out, **options)
        keep("parquet", name, out.getvalue())
    for codec in ("gzip", "brotli"):
        out = io.BytesIO()
        pq.write_table(unusual(), out, compression=codec, row_group_size=2, write_statistics=False)
        keep("parquet", f"unusual-{codec}", out.getvalue())
    out = io.BytesIO()
    pq.write_table(table.select(["i"]), out, store_schema=False, compression="none")
    keep("parquet", "small", out.getvalue())


def arrows() -> None:
    """Files of every type that is read, as pyarrow writes them: plain, compressed, of several batches."""
    table = pa.table(
        {
            "i": pa.array([1, 2, None], pa.int32()),
            "x": pa.array([0.5, 1.5, 2.5], pa.float64()),
            "y": pa.array([True, False, True]),
            "t": pa.array(["a", "bé", ""]),
            "b": pa.array([b"", b"xy", None], pa.large_binary()),
            "l": pa.array([[1, 2], [], [3]], pa.list_(pa.int64())),
            "f": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6), pa.float32()), 2),
        }
    )
    dictionary = pa.table({"d": pa.array(["u", "v", "u"]).dictionary_encode()})
    parts = [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]
    lists = pa.array([["a"], ["b", "c"]])
    rare = pa.table(
        {
            "u": pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), parts),
            "e": pa.UnionArray.from_dense(pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), parts),
            "r": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), lists),
            "l": pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), lists),
            "i": pa.array([pa.MonthDayNano([1, -2, 3]), None, None]),
        }
    )
    for name, rows, batch, compression in [
        ("plain", table, 3, None),
        ("batches", table, 1, None),
        ("lz4", table, 2, "lz4"),
        ("zstd", table, 2, "zstd"),
        ("dictionary", dictionary, 2, None),
        ("nothing", table.slice(0, 0), 1, None),
        ("unusual", unusual(), 2, None),
        ("rare", rare, 2, None),
    ]:
        out = io.BytesIO()
        with pa.ipc.new_file(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as file:
            file.write_table(rows, max_chunksize=batch)
        keep("arrow", name, out.getvalue())


def tars() -> None:
    """The three dialects, with long names; and samples that lack a member."""
    for name, dialect in {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}.items():
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=dialect) as tar:
            for key in ("a/0", "long/" + "n" * (90 if name == "ustar" else 150)):
                for extension, data in {"txt": b"text", "cls": b"3"}.items():
                    member = tarfile.TarInfo(f"{key}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        keep("tar", name, out.getvalue().rstrip(b"\0") + b"\0" * 1024)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in ("0.txt", "1.cls", "1.txt", "2.txt"):
            tar.addfile(tarfile.TarInfo(name))
    keep("tar", "lacking", out.getvalue().rstrip(b"\0") + b"\0" * 1024)


def record(data: bytes) -> bytes:
    """Frames a record as TensorFlow does."""

    def masked(part: bytes) -> bytes:
        crc = crc32c.crc32c(part)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def records() -> None:
    """Records, some of which are Examples that TensorFlow wrote."""
    written = (GOLDEN / "tensorflow.tfrecord").read_bytes()
    at, examples = 0, []
    while at < len(written):
        (length,) = struct.unpack_from("<Q", written, at)
        examples.append(written[at + 12 : at + 12 + length])
        at += length + 16
    for i, example in enumerate(sorted(examples, key=len)[:3]):
        keep("example", f"tensorflow-{i}", example)
    keep("tfrecord", "examples", b"".join(record(e) for e in sorted(examples, key=len)[:2]))
    keep("tfrecord", "raw", record(b"") + record(b"abc") + record(bytes(40)))
    keep("tfrecord", "gzip", (GOLDEN / "gzip.tfrecord").read_bytes())


def lines() -> None:
    """JSON lines and text."""
    rows = [
        {"a": 1, "b": {"c": "x", "d": [1, 2]}, "e": [], "f": True, "g": None, "h": [[1]]},
        {"a": -2.5e300, "b": {"c": "é\n\ud83d\ude00", "d": [3, 4]}, "e": [1, 2.5], "f": False, "h": []},
    ]
    keep("jsonl", "nested", "".join(json.dumps(row) + "\n" for row in rows).encode())
    keep("jsonl", "numbers", b'{"n": 9223372036854775807}\n{"n": 18446744073709551616}\n{"n": -0.0}\r\n')
    given = [{"a": 255, "b": [1, 2.5], "c": {"d": "x"}}, {"c": [None]}, {"a": None, "b": [], "c": 1.5}]
    keep("jsonl", "given", b"\xef\xbb\xbf" + "".join(json.dumps(row) + "\n" for row in given).encode())
    keep("text", "mark", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    keep("text", "lines", "one\r\n\ntwo é\nlast".encode())


def pipelines() -> None:
    """Pipelines, and with them jobs, ledger records and saved states."""
    rows = fb.range(100)
    x = fb.col("id").cast("float32")
    columns = (
        rows.with_column("x", x)
        .with_column("y", x / 0)
        .with_column("s", fb.stack([fb.col("x"), fb.col("y")]))
        .with_column("h", fb.col("id").hash_mod(10))
        .with_column("c", fb.col("id").clip(1, 7))
        .cast(id="int8")
        .drop("y")
        .batch(4)
    )
    kept = {
        "order": rows.shuffle().repeat(2).take(50).skip(3).shard(2, 1).batch(7, drop_remainder=True),
        "filter": rows.filter(fb.col("id") % 5 < 3).take(20).rename(id="n").select("n").prefetch(2),
        "columns": columns,
    }
    for name, ds in kept.items():
        graph = ds._pipeline.to_json().replace(str(Path(__file__).resolve()), "seeds.py")
        extent = json.dumps({"rows": 100, "blocks": 1, "bytes": 800})
        sizing = json.dumps({"unit_rows": 7 if name == "order" else 4, "morsel_units": 1, "split_units": 2})
        keep("graph", name, graph.encode())
        keep("job", name, f"{graph}\n{extent}\n{sizing}\n2".encode())
        job = {"id": 1, "name": name, "dataset": "d", "graph": graph, "seed": 3, "epochs": 2, "consumers": 2}
        keep("ledger", name, json.dumps({**job, "extent": extent, "sizing": sizing, "index": "i"}).encode())
    start = {"epoch": 0, "split": 0, "chunk": 0, "rows": 0}
    for name, more in {
        "start": {},
        "middle": {"epoch": 1, "split": 1, "chunk": 1, "rows": 3, "counters": [3, 7]},
        "packed": {"rows": 1, "unpacked": {"row": 1, "token": 2}},
    }.items():
        keep("state", name, json.dumps({**start, **more}).encode())


def messages() -> None:
    """Control messages in protobuf's wire format; byte 0 is the tag."""

    def text(number: int, value: str) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value.encode()

    job = text(1, "0.1.0") + text(2, "job") + text(3, "{}") + b"\x20\x01\x28\x02\x30\x03"
    definition = b"\x08\x01" + text(2, "job") + text(3, "{}") + text(7, "{}") + text(8, "{}") + text(9, "ab")
    keep("messages", "open", b"\0" + job)
    keep("messages", "opened", b"\1" + bytes([2 << 3 | 2, len(definition)]) + definition)
    keep("messages", "definition", b"\2" + definition)
    for tag, name in {3: "worker", 4: "to-worker", 5: "consumer", 6: "to-consumer"}.items():
        for field in range(1, 7):
            inner = b"\x08\x01\x10\x02\x18\x03"
            keep("messages", f"{name}-{field}", bytes([tag, field << 3 | 2, len(inner)]) + inner)
    error = {"kind": "data", "message": "bad", "context": [["file", "f"], ["hint", "h"]]}
    keep("messages", "error", bytes([7 | 13 << 3]) + json.dumps(error).encode())
    ticket = {"job": 1, "epoch": 2, "consumer": 3, "ordinal": 4, "token": 5, "from_chunk": 6}
    keep("small", "ticket", json.dumps(ticket).encode())
    keep("small", "address", b"forebay://[::1]:7070")
    keep("small", "loan", b"\0" + struct.pack("<QQ", 7, 0))
    keep("small", "ended", b"\1" + struct.pack("<QQ", 3, 9))


def streams() -> None:
    """A schema and a batch as Arrow's own library writes them, for the columns that the target has."""
    columns = {
        "n": pa.array([1, 2], pa.int64()),
        "x": pa.array([0.5, None], pa.float32()),
        "raw": pa.array([b"a", b"bc"], pa.large_binary()),
        "text": pa.array(["a", None], pa.large_string()),
        "image": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12), pa.uint8()), 6),
        "ragged": pa.StructArray.from_arrays(
            [
                pa.array([[1, 2], [3]], pa.list_(pa.float32())),
                pa.FixedSizeListArray.from_arrays(pa.array([2, 1], pa.int32()), 1),
            ],
            ["data", "shape"],
        ),
    }
    batch = pa.record_batch(columns)
    ids = pa.array([1 << 24, 1 << 24 | 1], pa.uint64())
    named = pa.record_batch({**columns, "__sample": ids, "__epoch": ids})

    def parts(message: bytes) -> tuple[bytes, bytes]:
        (length,) = struct.unpack_from("<i", message, 4)
        return message[8 : 8 + length], message[8 + length :]

    for name, table in {"plain": batch, "named": named}.items():
        schema, _ = parts(table.schema.serialize().to_pybytes())
        header, body = parts(table.serialize().to_pybytes())
        whole = bytes(13)
        lent = bytes(12) + b"\2" + struct.pack("<QIQQ", 1, 0, 0, 16)
        for kind, head in {"whole": whole, "lent": lent}.items():
            framed = b"".join(struct.pack("<H", len(p)) + p for p in (schema, head, header, body))
            keep("stream", f"{name}-{kind}", framed)


def blocks() -> None:
    """Blocks of the cache: one with a column of each kind, and one of rows that a filter removed."""
    for path in (GOLDEN.parents[2] / "cache" / "tests" / "golden").glob("*-1.arrow"):
        keep("block", path.stem.removesuffix("-1"), path.read_bytes())


def indexes() -> None:
    """Indexes of each kind, without their first five and last 32 bytes; see `crates/io/src/index`."""
    computed, files, counted, groups = b"\1\x64\x08\0", b"\2\0\0\1", b"\4\0\0\1", b"\5\0\0\1"
    file = b"\0\5/none" + b"\x09" + b"\0\6" + b"\0"
    tagged = b"\0\5/none" + b"\x09" + b'\1\3"x"' + b"\0"
    keep("index", "computed", computed + b"\0")
    keep("index", "files", files + file)
    keep("index", "frames", counted + file + b"\0" + b"\3\0\x0e\4")
    keep("index", "groups", groups + tagged + b"\2" + b"\2\4\2")
    tar = b"\1" + b"\4abcd" + b"\2\4\4" + b"\4\0\2\2\2" + b"\4\2\0\0\0"
    keep("index", "tar", counted + file + tar)


def shards() -> None:
    """The first shard of each folder that MosaicML's and LitData's libraries wrote, with an index of it alone."""

    def seed(target: str, name: str, choice: int, index: bytes, shard: bytes) -> None:
        keep(target, name, struct.pack("<BH", choice, len(index)) + index + shard)

    for choice, name in enumerate(("plain", "zstd", "gz")):
        folder = GOLDENS / "mds" / name
        written = json.loads((folder / "index.json").read_text())
        first = written["shards"][0]
        data = first["zip_data"] or first["raw_data"]
        shard = (folder / data["basename"]).read_bytes()
        first["raw_data"]["basename"] = "s.mds"
        if first["zip_data"]:
            first["zip_data"]["basename"] = f"s.mds.{name}"
        index = json.dumps(written | {"shards": [first]}).encode()
        seed("mds", name, choice, index.replace(b'"bytes": %d' % len(shard), b'"bytes": @'), shard)
    for folder in sorted(path.parent for path in (GOLDENS / "litdata").glob("*/index.json")):
        written = json.loads((folder / "index.json").read_text())
        first = written["chunks"][0]
        shard = (folder / first["filename"]).read_bytes()
        first["filename"] = "c.bin"
        index = json.dumps({"chunks": [first], "config": written["config"]}).encode()
        index = index.replace(b'"pickle"', b'"bytes"')  # a pickle is refused, and the other columns with it
        seed("litdata", folder.name, 0, index.replace(b'"chunk_bytes": %d' % len(shard), b'"chunk_bytes": @'), shard)
    for code, dtype in ((8, "uint16"), (4, "int32")):
        sequences = [np.arange(n, dtype=dtype) for n in (3, 0, 5, 2)]
        lengths = np.array([len(ids) for ids in sequences], "<i4")
        begins = np.concatenate([[0], np.cumsum(lengths[:-1] * sequences[0].itemsize)]).astype("<i8")
        documents = np.array([0, 2, 4], "<i8")
        header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(sequences), len(documents))
        index = header + lengths.tobytes() + begins.tobytes() + documents.tobytes()
        seed("megatron", dtype, 0, index, b"".join(ids.tobytes() for ids in sequences))


def flat_tokens() -> None:
    """Token ids alone, behind the header of llm.c, and as NumPy saves them; byte 0 chooses how they are read."""
    ids = np.arange(40, dtype="<u2")
    keep("tokens", "flat", bytes([0b000_011_00]) + ids.tobytes())
    keep("tokens", "overlapping", bytes([0b010_101_00]) + ids.tobytes())
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(ids)
    keep("tokens", "llmc", bytes([0b000_011_00]) + header.tobytes() + ids.tobytes())
    out = io.BytesIO()
    np.save(out, ids.astype("<i8"))
    keep("tokens", "npy", bytes([0b000_011_11]) + out.getvalue())


if __name__ == "__main__":
    sounds()
    images()
    parquet()
    arrows()
    tars()
    records()
    lines()
    pipelines()
    messages()
    streams()
    blocks()
    indexes()
    shards()
    flat_tokens()
