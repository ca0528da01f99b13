"""Damaged images and records: the rows, and their pixels, are a function of their bytes and of the pipeline as written.
Not of earlier images, of threads, crops, `cache()`, order, epoch or another job.
"""

from __future__ import annotations

import io
import json
import random
import struct
import tarfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

SIDE = 48
Rows = list[tuple[int, bytes]]


def picture(n: int, mode: str = "RGB", side: int = SIDE) -> Image.Image:
    y, x = np.mgrid[:side, :side]
    noise = np.random.default_rng(n).integers(0, 60, (side, side))
    levels = np.stack([(x * 3 + n) % 256, (y * 5 + noise) % 256, (x + y + n * 7) % 256], -1).astype(np.uint8)
    return Image.fromarray(levels).convert(mode)


def encoded(n: int, mode: str = "RGB", form: str = "JPEG", **options: object) -> bytes:
    file = io.BytesIO()
    picture(n, mode).save(file, form, **options)
    return file.getvalue()


def jpegs(n: int) -> list[bytes]:
    """A JPEG of each kind."""
    quality = (95, 75, 30)[n % 3]
    return [
        encoded(n, quality=quality, subsampling=n % 3),
        encoded(n, quality=quality, subsampling=2, restart_marker_blocks=1 + n % 5),
        encoded(n, quality=quality, progressive=True),
        encoded(n, quality=quality, optimize=True),
        encoded(n, "L", quality=quality),
        encoded(n, "CMYK", quality=quality),
    ]


def others(n: int) -> list[bytes]:
    """A PNG and a WebP of each kind."""
    return [
        encoded(n, form="PNG"),
        encoded(n, "P", "PNG"),
        encoded(n, "L", "PNG"),
        encoded(n, "RGBA", "WEBP", lossless=True),
        encoded(n, form="WEBP", quality=60),
    ]


def scan(jpeg: bytes) -> int:
    """Returns the start of the coded pixels."""
    at = jpeg.index(b"\xff\xda")
    return at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")


def damaged_pixels(draw: random.Random, jpeg: bytes) -> bytes:
    """Returns a JPEG whose coded pixels are damaged, but not its header."""
    b, first = bytearray(jpeg), scan(jpeg)
    for _ in range(draw.randint(1, 3)):
        if len(b) < first + 8:
            break
        at = draw.randrange(first, len(b) - 3)
        kind = draw.randrange(7)
        if kind < 2:
            b[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            b[at] = draw.choice([0xFF, 0, draw.randrange(256)])
        elif kind == 3:
            del b[at : min(at + draw.randint(1, 60), len(b) - 2)]
        elif kind == 4:
            b += b[at : at + 40] if draw.random() < 0.5 else b"\xff\xd9"
        elif kind == 5:
            b[at : at + 2] = bytes([0xFF, 0xC0 | draw.randrange(64)])
        else:
            del b[at if draw.random() < 0.5 else len(b) - draw.randint(1, 12) :]
    return bytes(b)


def damaged(draw: random.Random, image: bytes) -> bytes:
    """Returns an image that is damaged anywhere, most often in its header."""
    b = bytearray(image)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(min(len(b), draw.choice([120, 700, len(b)])))
        b[at] = draw.choice([b[at] ^ 1 << draw.randrange(8), draw.randrange(256)])
    return bytes(b[: draw.randrange(1, len(b))]) if draw.random() < 0.1 else bytes(b)


def without(jpeg: bytes, marker: int) -> bytes:
    """Leaves out the segments of one kind before the first scan: quantisation (0xDB) or Huffman tables (0xC4)."""
    out, at = jpeg[:2], 2
    while True:
        kind, size = jpeg[at + 1], int.from_bytes(jpeg[at + 2 : at + 4], "big") + 2
        out += jpeg[at : at + size] if kind != marker else b""
        at += size
        if kind == 0xDA:
            return out + jpeg[at:]


def pillow(image: bytes, mode: str | None = "RGB") -> np.ndarray | None:
    """Pillow's pixels, or None for its error."""
    try:
        opened = Image.open(io.BytesIO(image))
        pixels = np.asarray(opened.convert(mode) if mode else opened)
    except Exception:  # Pillow raises many types
        return None
    return pixels if pixels.ndim == 3 else pixels[..., None]


def of(rows: Rows | list[bytes]) -> fb.Dataset:
    images = [row if isinstance(row, bytes) else row[1] for row in rows]
    return fb.from_dict({"i": list(range(len(images))), "image": images})


def kept(ds: fb.Dataset, **how: object) -> dict[int, np.ndarray]:
    """Returns the rows that are not left out."""
    it = ds.iter(on_error="skip", error_budget=10**6, **how)
    return {int(row["i"]): np.array(row["image"]) for row in it}


def same(a: dict[int, np.ndarray], b: dict[int, np.ndarray]) -> None:
    assert sorted(a) == sorted(b)
    different = [i for i in a if not np.array_equal(a[i], b[i])]
    assert not different


def cropped(pixels: np.ndarray, size: int) -> np.ndarray:
    top, left = ((n - size) // 2 for n in pixels.shape[:2])
    return pixels[top : top + size, left : left + size]


@pytest.fixture(scope="module")
def broken_jpegs() -> list[bytes]:
    """JPEGs with damaged pixels, some whole ones among them, of one size."""
    draw = random.Random(5)
    rows = [jpeg for n in range(70) for jpeg in jpegs(n)]
    return [row if draw.random() < 0.1 else damaged_pixels(draw, row) for row in rows]


def test_damaged_jpegs_have_pillows_pixels_and_verdict(broken_jpegs: list[bytes]) -> None:
    pillows = {i: pixels for i, row in enumerate(broken_jpegs) if (pixels := pillow(row)) is not None}
    assert len(broken_jpegs) / 2 < len(pillows) < len(broken_jpegs) - 20
    same(kept(of(broken_jpegs).decode_image("image"), threads=2), pillows)


def test_what_follows_does_not_decide_which_damaged_jpegs_there_are(broken_jpegs: list[bytes]) -> None:
    ds = of(broken_jpegs).decode_image("image")
    whole = kept(ds)
    crops = {i: cropped(pixels, 16) for i, pixels in whole.items()}
    same(kept(ds.center_crop("image", 16)), crops)
    same(kept(ds.center_crop("image", 16), threads=4, order="off"), crops)
    same(kept(ds.cache().center_crop("image", 16)), crops)
    same(kept(ds.filter(lambda row: True).center_crop("image", 16)), crops)
    same(kept(ds.with_column("z", fb.col("i") * 2).center_crop("image", 16)), crops)
    some = ds.random_resized_crop("image", 16, scale=(0.05, 0.3))
    apart = ds.cache().random_resized_crop("image", 16, scale=(0.05, 0.3))
    for epoch in range(3):
        drawn = kept(some, epoch=epoch)
        assert sorted(drawn) == sorted(whole)
        same(kept(apart, epoch=epoch), drawn)


def test_nothing_of_a_damaged_image_reaches_another() -> None:
    """All decoders, every kind of damage: each row is the same as alone, on any number of threads and in any order."""
    draw = random.Random(9)
    rows: list[bytes] = []
    for n in range(25):
        for image in jpegs(n) + others(n):
            rows += [image, damaged(draw, image)]
        rows += [without(jpeg, marker) for jpeg in jpegs(n)[:3] for marker in (0xDB, 0xC4)]
    draw.shuffle(rows)
    # Alone: a decoder that has read nothing else.
    alone: dict[int, np.ndarray] = {}
    for i, row in enumerate(rows):
        image = kept(of([row]).decode_image("image"), threads=1)
        if image:
            alone[i] = image[0]
    assert len(rows) / 3 < len(alone) < len(rows) * 0.9
    for threads in (1, 2, 4):
        same(kept(of(rows).decode_image("image"), threads=threads), alone)
    back = kept(of(rows[::-1]).decode_image("image"), threads=2)
    same({len(rows) - 1 - i: image for i, image in back.items()}, alone)
    # Without the damaged images the stream is the same.
    good = sorted(alone)
    rest = kept(of([rows[i] for i in good]).decode_image("image"), threads=2)
    same({good[i]: image for i, image in rest.items()}, alone)
    bare = {i: pillow(row) for i, row in enumerate(rows) if b"\xff\xdb" not in row[:200] and row[:2] == b"\xff\xd8"}
    same({i: alone[i] for i in bare if i in alone}, {i: image for i, image in bare.items() if image is not None})


def test_a_damaged_image_reaches_no_other_job_of_its_worker(broken_jpegs: list[bytes]) -> None:
    draw = random.Random(3)
    bad = [damaged(draw, jpeg) for n in range(20) for jpeg in jpegs(n)] + broken_jpegs[:120]
    good = [jpeg for n in range(30) for jpeg in jpegs(n)]
    with fb.up(workers=1) as service:

        def stream(rows: list[bytes], **how: object) -> dict[int, np.ndarray]:
            ds = of(rows).decode_image("image").center_crop("image", 16)
            it = ds.distribute(service, job=f"job-{uuid.uuid4().hex[:8]}", **how)
            return {int(row["i"]): np.array(row["image"]) for row in it}

        first = stream(bad, on_error="skip", error_budget=10**6)
        same(stream(good), kept(of(good).decode_image("image").center_crop("image", 16)))
        same(first, kept(of(bad).decode_image("image").center_crop("image", 16)))


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def jsonl(folder: Path, rows: Rows, bad: set[int]) -> fb.Dataset:
    lines = ['{"i": 1, "image": [' if i in bad else json.dumps({"i": i, "text": row.hex()}) for i, row in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    return fb.from_jsonl(str(folder / "rows.jsonl"), schema={"i": "int64", "text": "string"})


def tfrecord(folder: Path, rows: Rows, bad: set[int]) -> fb.Dataset:
    def masked(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    with (folder / "rows.tfrecord").open("wb") as file:
        for i, row in rows:
            data, size = struct.pack("<q", i) + row, struct.pack("<Q", 8 + len(row))
            file.write(size + masked(size) + data + (b"sum?" if i in bad else masked(data)))
    return fb.from_tfrecord(str(folder / "rows.tfrecord"))


def tar(folder: Path, rows: Rows, bad: set[int]) -> fb.Dataset:
    with tarfile.open(folder / "rows.tar", "w") as file:
        for i, row in rows:
            for kind, data in (("id", struct.pack("<q", i)), ("bin", row)):
                if (kind, i in bad) != ("bin", True):
                    info = tarfile.TarInfo(f"{i:05d}.{kind}")
                    info.size = len(data)
                    file.addfile(info, io.BytesIO(data))
    return fb.from_tar(str(folder / "rows.tar"), extensions=["id", "bin"])


def table(rows: Rows, bad: set[int]) -> pa.Table:
    # Text that is not UTF-8.
    texts = [b"\xff\xfe" if i in bad else row.hex().encode() for i, row in rows]
    text = pa.array(texts, pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(text), text.buffers())
    return pa.table({"i": pa.array([i for i, _ in rows]), "text": text})


def parquet(folder: Path, rows: Rows, bad: set[int]) -> fb.Dataset:
    pq.write_table(table(rows, bad), folder / "rows.parquet", row_group_size=1, compression="zstd")
    return fb.from_parquet(str(folder / "rows.parquet"))


def arrow(folder: Path, rows: Rows, bad: set[int]) -> fb.Dataset:
    written = table(rows, bad)
    with pa.OSFile(str(folder / "rows.arrow"), "wb") as file, pa.ipc.new_file(file, written.schema) as writer:
        writer.write_table(written, max_chunksize=1)
    return fb.from_arrow(str(folder / "rows.arrow"))


def texts(ds: fb.Dataset, **how: object) -> Iterator[str]:
    """Yields rows in a comparable form."""
    for row in ds.iter(on_error="skip", error_budget=10**6, **how):
        yield repr(sorted((name, bytes(v) if isinstance(v, bytes) else str(v)) for name, v in row.items()))


@pytest.mark.parametrize("make", [jsonl, tfrecord, tar, parquet, arrow])
def test_a_damaged_record_reaches_no_other(tmp_path: Path, make: Callable[[Path, Rows, set[int]], fb.Dataset]) -> None:
    """The stream without damaged records equals that of the intact ones, in order and shuffled, on any threads."""
    draw = random.Random(4)
    rows = [(i, draw.randbytes(draw.choice([0, 7, 60, 400]))) for i in range(150)]
    bad = set(draw.sample(range(150), 40)) | {0, 149}
    for name in ("some", "none"):
        (tmp_path / name).mkdir()
    some, none = make(tmp_path / "some", rows, bad), make(tmp_path / "none", rows, set())
    whole = list(texts(none))
    want = [text for i, text in enumerate(whole) if i not in bad]
    for threads in (1, 2, 4):
        assert list(texts(some, threads=threads)) == want
        assert sorted(texts(some.shuffle(), threads=threads)) == sorted(want)
    assert list(texts(none)) == whole
