"""Writes the seeds of the corpus that other libraries write: images, Parquet, tar, TFRecord, JSON lines.

Run it where `requirements-dev.txt` is installed: `python fuzz/seeds.py`.
"""

from __future__ import annotations

import io
import json
import struct
import tarfile
from pathlib import Path

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

CORPUS = Path(__file__).parent / "corpus"
GOLDEN = Path(__file__).parent.parent / "crates" / "io" / "tests" / "golden"


def keep(target: str, name: str, data: bytes) -> None:
    """Writes one seed."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


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
    for path in sorted((GOLDEN.parents[2] / "exec" / "tests" / "golden" / "image").glob("*.png")):
        if path.stat().st_size < 700:
            keep("image", path.stem, b"\0" + path.read_bytes())


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
    out = io.BytesIO()
    pq.write_table(table.select(["i"]), out, store_schema=False, compression="none")
    keep("parquet", "small", out.getvalue())


def tars() -> None:
    """The three dialects, with long names."""
    for name, dialect in {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}.items():
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=dialect) as tar:
            for key in ("a/0", "long/" + "n" * (90 if name == "ustar" else 150)):
                for extension, data in {"txt": b"text", "cls": b"3"}.items():
                    member = tarfile.TarInfo(f"{key}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        keep("tar", name, out.getvalue().rstrip(b"\0") + b"\0" * 1024)


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
    keep("text", "lines", "one\r\n\ntwo é\nlast".encode())


if __name__ == "__main__":
    images()
    parquet()
    tars()
    records()
    lines()
