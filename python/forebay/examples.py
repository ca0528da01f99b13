"""Small data sets to try Forebay on. They are drawn from a fixed seed, so nothing is downloaded.

Example:
    >>> import forebay as fb, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shards = fb.examples.digits(folder)
    ...     fb.from_tar(f"{shards}/train-*.tar").cardinality
    1440
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from forebay._src import pictures
from forebay.errors import ConflictError

__all__ = ["digits", "photos"]

Array = np.ndarray[Any, Any]

#: Every fifth digit is in test.tar.
_TEST_SHARE = 5
_SHARDS = 8
_PHOTO_CLASSES = ("dawn", "night", "noon")
#: A font of 5 by 7 pixels, a row a string.
_FONT = (
    ("01110", "10001", "10011", "10101", "11001", "10001", "01110"),
    ("00100", "01100", "00100", "00100", "00100", "00100", "01110"),
    ("01110", "10001", "00001", "00010", "00100", "01000", "11111"),
    ("11111", "00010", "00100", "00010", "00001", "10001", "01110"),
    ("00010", "00110", "01010", "10010", "11111", "00010", "00010"),
    ("11111", "10000", "11110", "00001", "00001", "10001", "01110"),
    ("00110", "01000", "10000", "11110", "10001", "10001", "01110"),
    ("11111", "00001", "00010", "00100", "01000", "01000", "01000"),
    ("01110", "10001", "10001", "01110", "10001", "10001", "01110"),
    ("01110", "10001", "10001", "01111", "00001", "00010", "01100"),
)


def digits(folder: str | os.PathLike[str] = "digits", count: int = 1800) -> Path:
    """Writes drawn digits as WebDataset shards: `train-000.tar` to `train-007.tar` and `test.tar`.

    Every fifth digit is in `test.tar`. A sample has the members `png` (32 by 32, grey) and `cls` (the digit, as text).
    Files that exist and hold the same bytes stay as they are.

    Args:
        folder: The folder to write to; it is made if it does not exist.
        count: The number of digits, in all files together.

    Returns:
        The folder.

    Raises:
        ConflictError: A file of one of these names holds something else.
    """
    files = {"test.tar": _Tar(), **{f"train-{i:03}.tar": _Tar() for i in range(_SHARDS)}}
    rng = np.random.default_rng(1)
    for i in range(count):
        name = "test.tar" if i % _TEST_SHARE == 0 else f"train-{i % _SHARDS:03}.tar"
        digit = int(rng.integers(10))
        files[name].add(f"{i:05}", {"png": pictures.png(_draw(digit, rng)), "cls": str(digit).encode()})
    return _write(Path(folder), {name: file.bytes() for name, file in files.items()})


def photos(folder: str | os.PathLike[str] = "photos", count: int = 60) -> Path:
    """Writes drawn landscapes as JPEG files of different sizes, in a folder for each class: dawn, night, noon.

    Args:
        folder: The folder to write to; it is made if it does not exist. Files that hold the same bytes stay as they
            are.
        count: The number of files.

    Returns:
        The folder, for `fb.from_image_folder`.

    Raises:
        ConflictError: A file of one of these names holds something else.
    """
    rng = np.random.default_rng(2)
    kinds = len(_PHOTO_CLASSES)
    return _write(
        Path(folder),
        {f"{_PHOTO_CLASSES[i % kinds]}/{i:04}.jpg": pictures.jpeg(_landscape(i % kinds, rng)) for i in range(count)},
    )


def _draw(digit: int, rng: np.random.Generator) -> Array:
    """Returns a digit of 32 by 32 grey pixels: turned, slanted, moved and noisy, as if it were written by hand."""
    glyph = np.pad(np.array([[float(c) for c in row] for row in _FONT[digit]]), 3)
    turn, slant, size = rng.normal(0, 0.12), rng.normal(0, 0.15), rng.uniform(2.6, 3.4)
    y, x = (np.mgrid[0:32, 0:32] - 15.5) / size
    y, x = y * np.cos(turn) + x * np.sin(turn), x * np.cos(turn) - y * np.sin(turn)
    x = x + slant * y
    y, x = (y + 6 + rng.normal(0, 0.25)).clip(0, 11.999), (x + 5 + rng.normal(0, 0.25)).clip(0, 9.999)
    row, column = y.astype(int), x.astype(int)
    down, right = y - row, x - column
    ink = (glyph[row, column] * (1 - right) + glyph[row, column + 1] * right) * (1 - down)
    ink += (glyph[row + 1, column] * (1 - right) + glyph[row + 1, column + 1] * right) * down
    noisy: Array = ink * rng.uniform(180, 250) + rng.normal(0, 12, ink.shape)
    return noisy.clip(0, 255).astype(np.uint8)


def _landscape(kind: int, rng: np.random.Generator) -> Array:
    """Returns hills under a sky of the class's colour, in RGB."""
    sky = np.array([(240, 150, 90), (20, 24, 60), (110, 170, 240)][kind], float)
    height, width = rng.integers(120, 200), rng.integers(160, 280)
    y, x = np.mgrid[0:height, 0:width] / height
    pixels = sky * (0.6 + 0.4 * y)[..., None]
    for ridge in range(3):
        waves = rng.uniform(2, 9, 4), rng.uniform(0, 6.3, 4)
        line = 0.55 + 0.13 * ridge + sum(0.03 * np.sin(f * x + p) for f, p in zip(*waves, strict=True))
        pixels = np.where((y > line)[..., None], sky * (0.55 - 0.15 * ridge) + [0, 18, 0], pixels)
    noisy: Array = pixels + rng.normal(0, 6, pixels.shape)
    return noisy.clip(0, 255).astype(np.uint8)


class _Tar:
    """A tar file in memory whose bytes depend on its members alone."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w", format=tarfile.USTAR_FORMAT)

    def add(self, key: str, members: dict[str, bytes]) -> None:
        for extension, data in members.items():
            member = tarfile.TarInfo(f"{key}.{extension}")
            member.size = len(data)
            self._tar.addfile(member, io.BytesIO(data))

    def bytes(self) -> bytes:
        self._tar.close()
        return self._buffer.getvalue()


def _write(folder: Path, files: dict[str, bytes]) -> Path:
    """Writes the files that are missing, each under its name only when it is complete."""
    for name, data in files.items():
        path = folder / name
        if path.exists():
            if path.read_bytes() != data:
                raise ConflictError(
                    f"{path} exists and is another file", {"hint": "give a folder that holds nothing else"}
                )
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_bytes(data)
        partial.replace(path)
    return folder
