"""Writes mosaicml-streaming 0.13.0's output for `rows()` to the folders beside this file; needs that package."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

#: An encoding for each column: all with a fixed size and all without.
COLUMNS = {
    "blob": "bytes",
    "count": "int",
    "fixed": "ndarray:int32:2,3",
    "free": "ndarray",
    "json": "json",
    "long": "ndarray:float32",
    "picture": "png",
    "photo": "jpeg",
    "pil": "pil",
    "text": "str",
    "exact": "str_int",
    "pickled": "pkl",
    **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{name: name for name in ("float16", "float32", "float64")},
}
#: The compression of each folder.
FOLDERS = {"plain": None, "zstd": "zstd:7", "gz": "gz"}
ROWS = 23


def rows() -> list[dict[str, Any]]:
    """Returns samples without their pictures: numbers at both ends of a type, texts and arrays of many lengths."""
    made = []
    for i in range(ROWS):
        row: dict[str, Any] = {
            "blob": bytes(range(i)),
            "count": -(2**63) + i,
            "fixed": np.arange(6, dtype=np.int32).reshape(2, 3) * i,
            "free": np.full((1 + i % 3, 2, 1), i, np.uint16),
            "json": {"i": i, "names": ["ä"] * (i % 3)},
            "long": np.linspace(0, i, 1 + 20 * i, dtype=np.float32),
            "text": "zwölf " * i,
            "exact": 10**30 + i,
            "pickled": (i, "x"),
        }
        for name in COLUMNS:
            if name.startswith(("int", "uint")):
                info = np.iinfo(name)
                row[name] = np.dtype(name).type((info.min if i % 2 else info.max) // (1 + i // 2))
            elif name.startswith("float"):
                row[name] = np.dtype(name).type(i / 3 - 2)
        made.append(row)
    return made


def main() -> None:
    """Writes the samples with each compression, and the pictures' pixels as the package reads them."""
    from PIL import Image
    from streaming import MDSWriter

    here = Path(__file__).parent
    for name, compression in FOLDERS.items():
        shutil.rmtree(here / name, ignore_errors=True)
        # Small shards, so that there are several; only the first folder has all columns.
        columns = COLUMNS if name == "plain" else {key: COLUMNS[key] for key in ("count", "text", "long")}
        with MDSWriter(out=str(here / name), columns=columns, compression=compression, size_limit=1 << 13) as sink:
            for i, row in enumerate(rows()):
                image = Image.fromarray(np.full((3, 4, 3), i * 10, np.uint8))
                images = {"picture": image, "photo": image, "pil": image}
                sink.write({key: {**row, **images}[key] for key in columns})


if __name__ == "__main__":
    main()
