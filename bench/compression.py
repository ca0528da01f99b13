"""The effect of compressing cached columns: why blocks of the cache are not compressed.

    python bench/compression.py [--rounds 5] [--out bench/results/compression.json]

Columns in the form in which pipelines cache them, in groups of 256 KiB: the smallest part that holds a row by itself,
if blocks were Arrow files with compressed buffers. For each codec: how much smaller a group is, the time to pack and to
open a byte of it (CPU time, the best of several rounds), and the bandwidth of a store from which on, or up to which, it
pays: where moving the saved bytes takes longer than opening. `a row` is the time to open the group for one row of it,
because a shuffled epoch requests single rows.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

#: The bytes of rows that are packed together, and the part of each column that is measured.
GROUP_BYTES, COLUMN_BYTES = 256 << 10, 16 << 20
CODECS = {"lz4": ("lz4", None), "zstd 1": ("zstd", 1), "zstd 3": ("zstd", 3)}
PICTURE = Path(__file__).parent / "data" / "picture.jpg"


def pictures(count: int, rng: np.random.Generator) -> np.ndarray:
    """Returns crops of a photo, resized to 256 pixels on the shorter side."""
    photo = Image.open(PICTURE).convert("RGB")
    width, height = photo.size
    rows = []
    for _ in range(count):
        share = rng.uniform(0.5, 1)
        w, h = int(width * share), int(height * share)
        x, y = int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1))
        rows.append(np.asarray(photo.crop((x, y, x + w, y + h)).resize((341, 256), Image.Resampling.BILINEAR)))
    return np.stack(rows)


def columns() -> dict[str, tuple[bytes, int]]:
    """Returns the bytes of each column, and the size of a row."""
    rng = np.random.default_rng(0)
    pixels = pictures(48, rng)
    files = []
    for row in pixels:
        file = io.BytesIO()
        Image.fromarray(row).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    words = np.minimum(rng.zipf(1.2, 4_000_000), 50_256)
    tokens = rng.permutation(50_257)[words].astype(np.int32)
    padded = np.zeros((8_000, 512), np.int32)
    for row in padded:
        n, at = int(rng.integers(64, 512)), int(rng.integers(0, 3_000_000))
        row[:n] = tokens[at : at + n]
    audio = np.cumsum(rng.normal(size=2_000_000)) * 20 % 20_000 - 10_000
    return {
        "JPEG files": (b"".join(files), sum(map(len, files)) // len(files)),
        "decoded pictures, uint8": (pixels.tobytes(), pixels[0].nbytes),
        "the same normalised, float32": (
            ((pixels / np.float32(255) - 0.45) / 0.225).astype(np.float32).tobytes(),
            4 * pixels[0].nbytes,
        ),
        "audio, int16": (audio.astype(np.int16).tobytes(), 32_000),
        "token ids, int32": (tokens.tobytes(), 2_048),
        "token ids, padded to 512": (padded.tobytes(), 2_048),
        "numbers, float64": (rng.normal(size=1_000_000).tobytes(), 8),
        "categories, int64": (rng.integers(0, 1_000, 1_000_000).tobytes(), 8),
    }


def cpu(run: Callable[[], Any], rounds: int) -> float:
    """Returns the least CPU-seconds of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return best


def measure(raw: bytes, codec: pa.Codec, rounds: int) -> dict[str, float]:
    """Measures one column with one codec."""
    groups = [raw[at : at + GROUP_BYTES] for at in range(0, len(raw), GROUP_BYTES)]
    packed = [codec.compress(group) for group in groups]
    ratio = len(raw) / sum(group.size for group in packed)
    packing = cpu(lambda: [codec.compress(group) for group in groups], rounds) / len(raw) * 1e9
    pairs = [*zip(packed, map(len, groups), strict=True)]
    opening = cpu(lambda: [codec.decompress(group, size) for group, size in pairs], rounds) / len(raw) * 1e9
    saved = 1 - 1 / ratio
    return {"ratio": ratio, "pack_ns": packing, "open_ns": opening, "pays_below_mb_s": saved / opening * 1e3}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = []
    names = ["ratio", "pack_ns", "open_ns", "pays_below_mb_s", "row_us"]
    print(f"{'column':30} {'codec':7}", *(f"{name:>16}" for name in names))
    for column, (raw, row_bytes) in columns().items():
        for name, (codec, level) in CODECS.items():
            made = pa.Codec(codec, compression_level=level) if level else pa.Codec(codec)
            figures = measure(raw[:COLUMN_BYTES], made, arguments.rounds)
            # One row cannot be opened without its group, nor a part of a row.
            figures["row_us"] = max(GROUP_BYTES, row_bytes) * figures["open_ns"] / 1e3
            found.append({"column": column, "codec": name, **figures})
            print(f"{column:30} {name:7}", *(f"{figures[key]:16.2f}" for key in names))
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
