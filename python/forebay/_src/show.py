"""Text for batches and samples."""

from __future__ import annotations

from typing import Any

import numpy as np


def line(batch: dict[str, Any]) -> str:
    """Returns one line for a batch or a sample.

    >>> line({"x": np.arange(3), "name": "a.png", "raw": b"12345"})
    "{x: int64[3]  0 1 2, name: 'a.png', raw: 5 bytes}"
    """
    return "{" + ", ".join(f"{name}: {_value(value)}" for name, value in batch.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        dims = ", ".join(map(str, value.shape))
        first = " ".join(_item(v) for v in value.ravel()[:4])
        return f"{value.dtype}[{dims}]  {first}{' …' if value.size > 4 else ''}"
    return _item(value)


def _item(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, (np.floating, float)):
        return f"{value:.4g}"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
