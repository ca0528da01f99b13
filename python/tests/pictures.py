"""Pictures to encode."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image


def picture(i: int, height: int = 24, width: int = 32) -> np.ndarray:
    """A picture with gradients and noise: no two are alike."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(i).integers(0, 40, (height, width, 3))
    base = np.stack([x * 6 + i, y * 9 + 2 * i, x * 3 + y * 3], -1)
    return ((base + noise) % 256).astype(np.uint8)


def encoded(pixels: np.ndarray, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()
