"""The input of the benchmark, made from a seed, so that it is the same on every machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from forebay._src import pictures

CLASSES = 10


def photos(folder: Path, count: int) -> None:
    """Writes files like ImageNet's into a folder for each class: shapes and noise, 500 by 375, quality 93, 4:2:0."""
    rng = np.random.default_rng(1)
    ramp = np.linspace(0, 255, 500)[None, :, None] * np.array([1.0, 0.6, 0.3])
    for i in range(count):
        noise = rng.normal(0, 12, (375, 500, 3))
        pixels = np.clip(ramp + 40 * np.sin(np.arange(375) / (5 + i % 30))[:, None, None] + noise, 0, 255)
        of_class = folder / str(i % CLASSES)
        of_class.mkdir(parents=True, exist_ok=True)
        (of_class / f"{i}.jpg").write_bytes(pictures.jpeg(pixels, quality=93))


def records(count: int) -> dict[str, np.ndarray[Any, Any]]:
    """Returns records of four float32, `x`, and a label, `y`.

    >>> {name: (array.dtype.name, array.shape) for name, array in records(3).items()}
    {'x': ('float32', (3, 4)), 'y': ('int64', (3,))}
    """
    rng = np.random.default_rng(1)
    return {"x": rng.standard_normal((count, 4), np.float32), "y": rng.integers(0, CLASSES, count)}
