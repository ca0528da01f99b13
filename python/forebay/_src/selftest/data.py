"""The input: records and pictures whose every row has its number, in files of unequal sizes.

The records are in TFRecord files as any library writes them: each is a number, four floats and a checksum of its own,
so that a row that was damaged, or put together of two, is not mistaken for an original one.
"""

from __future__ import annotations

import itertools
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from forebay._src.pictures import jpeg

Array = np.ndarray[Any, Any]

#: One record. `crc` is zlib's, over the bytes before it.
RECORD = np.dtype([("id", "<u8"), ("x", "<f4", (4,)), ("crc", "<u4")])
#: The bytes that the checksum covers.
PAYLOAD_BYTES = RECORD.itemsize - 4
FILES = 10
PICTURE_SIZES = ((48, 64), (64, 48), (57, 61))


def records(folder: Path, count: int, seed: int) -> Array:
    """Writes `count` records to files of unequal sizes, one of them empty and one of one record; returns them all."""
    made = np.zeros(count, RECORD)
    made["id"] = np.arange(count)
    made["x"] = np.random.default_rng(seed).standard_normal((count, 4), np.float32)
    payloads = made.view(np.uint8).reshape(count, RECORD.itemsize)[:, :PAYLOAD_BYTES]
    made["crc"] = [zlib.crc32(payload.tobytes()) for payload in payloads]
    inner = np.sort(np.random.default_rng(seed).integers(1, count, FILES - 3))
    cuts = [0, 1, 1, *(int(cut) for cut in inner), count]
    folder.mkdir()
    for i, (start, end) in enumerate(itertools.pairwise(cuts)):
        (folder / f"part-{i:05}-of-{FILES:05}.tfrecord").write_bytes(framed(made[start:end]))
    return made


def framed(rows: Array) -> bytes:
    """Frames rows as a TFRecord file does: the length, its masked CRC-32C, the bytes, and their masked CRC-32C.

    >>> len(framed(np.zeros(3, RECORD)))
    132
    """
    size, count = RECORD.itemsize, len(rows)
    file = np.zeros((count, 8 + 4 + size + 4), np.uint8)
    file[:, :8] = np.frombuffer(np.uint64(size).tobytes(), np.uint8)
    file[:, 12:-4] = rows.view(np.uint8).reshape(count, size)
    for start, end in ((0, 8), (12, 12 + size)):
        crc = crc32c(file[:, start:end])
        masked = ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)
        file[:, end : end + 4] = masked.astype("<u4").reshape(count, 1).view(np.uint8)
    return file.tobytes()


def crc32c(rows: Array) -> Array:
    """Returns the CRC-32C (Castagnoli) of each row of bytes.

    >>> [hex(crc) for crc in crc32c(np.frombuffer(b"123456789", np.uint8)[None])]
    ['0xe3069283']
    """
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(0x82F63B78), table >> np.uint32(1))
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in rows.T:
        crc = table[(crc ^ column) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    return ~crc


def pictures(folder: Path, count: int, seed: int) -> None:
    """Writes JPEG files of three sizes, in folders of unequal sizes; a file's name is its number."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        height, width = PICTURE_SIZES[i % 3]
        ramp = np.linspace(0, 255, width)[None, :, None] * rng.random(3)
        pixels = np.clip(ramp + rng.normal(0, 16, (height, width, 3)), 0, 255).astype(np.uint8)
        of_class = folder / f"{int(np.sqrt(i)) % 7}"
        of_class.mkdir(parents=True, exist_ok=True)
        (of_class / f"{i:06}.jpg").write_bytes(jpeg(pixels, quality=90))
