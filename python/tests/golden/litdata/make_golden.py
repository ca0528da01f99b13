"""Writes litdata's output for `rows()`.

To write the folders beside this file, run it with litdata 0.2.76, and `python make_golden.py old` with litdata 0.2.40.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 17
#: The compression of each folder, and how much is compressed at once.
FOLDERS = {
    "plain": (None, None),
    "chunk": ("zstd", "chunk"),
    "batch": ("zstd:4", "batch"),
    "sample": ("zstd", "sample"),
}


def rows() -> list[dict[str, Any]]:
    """Returns samples without PyTorch or Pillow: `pixels` and the tensors are arrays here."""
    made = []
    for i in range(ROWS):
        made.append(
            {
                "int": -(2**63) + i,
                "float": i / 3,
                "text": "zwölf " * i,
                "blob": bytes(range(i)),
                "flag": i % 2 == 0,
                "matrix": np.full((1 + i % 3, 2), i - 0.5, np.float32),
                "ids": np.arange(i, dtype=np.uint16),
                "tensor": np.full((2, 1 + i % 2), i, np.int16),
                "tokens": np.arange(i, dtype=np.int64) - 3,
                "point": np.array(i, np.float64),
                "mask": np.array([i % 2 == 0, True, False]),
                "pixels": np.full((3, 4, 3), i * 9, np.uint8),
                "grey": np.full((2, 5, 1), i * 9, np.uint8),
                "deep": {"label": i, "pair": (i, f"{i}")},
            }
        )
    return made


#: The columns of PyTorch's tensors, and the columns of Pillow's images.
TENSORS, PICTURES = ("tensor", "tokens", "point", "mask"), ("pixels", "grey")


def main(is_old: bool) -> None:
    """Writes the samples in each way."""
    import torch
    from litdata.streaming.item_loader import TokensLoader
    from litdata.streaming.writer import BinaryWriter
    from PIL import Image

    def written(name: str, samples: list[Any], **how: Any) -> None:
        folder = Path(__file__).parent / name
        shutil.rmtree(folder, ignore_errors=True)
        writer = BinaryWriter(str(folder), **{"chunk_size": 7, **how})
        for i, sample in enumerate(samples):
            writer[i] = sample
        writer.done()
        writer.merge()

    samples = rows()
    for row in samples:
        row.update({name: torch.from_numpy(row[name]) for name in TENSORS})
        row.update({name: Image.fromarray(np.squeeze(row[name])) for name in PICTURES})
        photo = io.BytesIO()
        row["pixels"].save(photo, "JPEG")
        row["photo"] = Image.open(io.BytesIO(photo.getvalue()))
        row["pickled"] = {1, row["int"]}
    few = [{name: row[name] for name in ("int", "text", "ids")} for row in samples]
    tokens = [torch.from_numpy(row["tokens"].numpy().astype(np.int32)) for row in samples]
    if is_old:
        written("old", samples)
        written("old-zstd", few, compression="zstd")
        return
    for name, (compression, level) in FOLDERS.items():
        written(name, samples if name == "plain" else few, compression=compression, compression_level=level)
    written("documents", tokens, item_loader=TokensLoader(), chunk_size=None, chunk_bytes=1 << 8)


if __name__ == "__main__":
    main(sys.argv[1:] == ["old"])
