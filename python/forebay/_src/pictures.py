"""Image files made of NumPy's pixels, without other packages: data for examples and benchmarks."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from forebay import _native

Array = np.ndarray[Any, Any]


def jpeg(pixels: Array, quality: int = 90) -> bytes:
    """Returns a baseline JPEG file, 4:2:0, of RGB pixels: uint8 of shape (height, width, 3).

    >>> jpeg(np.zeros((8, 16, 3), np.uint8))[:3].hex()
    'ffd8ff'
    """
    height, width, _ = pixels.shape
    return _native.encode_jpeg(np.ascontiguousarray(pixels, np.uint8).tobytes(), height, width, quality)


def png(pixels: Array) -> bytes:
    """Returns a PNG file of grey or RGB pixels: uint8 of shape (height, width) or (height, width, 3).

    >>> png(np.zeros((2, 2), np.uint8))[1:4]
    b'PNG'
    """
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    # Each row begins with its filter; 0 is none.
    rows = np.pad(pixels.astype(np.uint8).reshape(height, -1), ((0, 0), (1, 0))).tobytes()
    chunks = _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows, 6)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
