"""The first samples of a dataset, in the order and with the ops as written, and comparisons of samples."""

from __future__ import annotations

import contextlib
import itertools
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from forebay._src.functions.tolerance import NonDeterministicWarning, SkippedSample
from forebay._src.iteration.iterator import DatasetIterator
from forebay._src.ragged import Ragged
from forebay._src.written import beginning
from forebay.errors import ClosedError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: The most samples (or batches), and the most rows of the source that are read for them.
SAMPLES_MAX, ROWS_MAX = 64, 1 << 16
#: The bytes and the seconds after which no more samples are computed.
BYTES_MAX, SECONDS_MAX = 64 << 20, 5.0


def first(
    dataset: Dataset,
    most: int = SAMPLES_MAX,
    *,
    rows: int | None = ROWS_MAX,
    seed: int = 0,
    epoch: int = 0,
    seconds: float = SECONDS_MAX,
    failed: list[SkippedSample] | None = None,
) -> list[dict[str, Any]]:
    """Returns the first samples; fewer if they are large or slow.

    Args:
        dataset: The dataset.
        most: The most samples.
        rows: The most rows of the source that are read for them; `None` is all.
        seed: As for `iter`.
        epoch: As for `iter`.
        seconds: When to stop.
        failed: Gets the samples that failed, which are left out.
    """
    found: list[dict[str, Any]] = []
    size = 0
    options: dict[str, Any] = {"seed": seed, "epoch": epoch, "order": "off", "threads": 1, "consumers": (0, 1)}
    cut = dataset if rows is None else beginning(dataset, rows)
    with warnings.catch_warnings():
        # The rule on functions that are not deterministic reports this error.
        warnings.simplefilter("ignore", NonDeterministicWarning)
        samples = cut.iter(**options, on_error="skip", error_budget=1.0)
        with ended(samples, seconds), contextlib.suppress(ClosedError):
            for sample in itertools.islice(samples, most):
                found.append(sample)
                size += bytes_of(sample)
                if size >= BYTES_MAX:
                    break
        if failed is not None:
            failed += samples.skipped
    return found


@contextlib.contextmanager
def ended(samples: DatasetIterator, seconds: float) -> Iterator[None]:
    """Closes an iterator at the end, or after this number of seconds."""
    timer = threading.Timer(seconds, samples.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        samples.close()


def bytes_of(value: Any) -> int:
    """Returns the bytes of a sample's values."""
    if isinstance(value, dict):
        return sum(bytes_of(part) for part in value.values())
    if isinstance(value, Ragged):
        return int(value.values.nbytes + value.offsets.nbytes)
    if isinstance(value, np.ndarray) and value.dtype == np.object_:
        return sum(bytes_of(part) for part in value)
    if isinstance(value, (np.ndarray, np.generic)):
        return int(value.nbytes)
    return len(value) if isinstance(value, (bytes, str)) else 0


def same(one: Any, other: Any) -> bool:
    """Returns whether two results are the same, in types and in bytes; NaN is the same as NaN.

    >>> same({"x": np.float64("nan")}, {"x": np.float64("nan")}), same(1, 1.0), same([np.arange(2)], [np.arange(2)])
    (True, False, True)
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Ragged) and isinstance(other, Ragged):
        return same([one.values, one.offsets], [other.values, other.offsets])
    if isinstance(one, np.ma.MaskedArray) or isinstance(other, np.ma.MaskedArray):
        masks = np.ma.getmaskarray(one), np.ma.getmaskarray(other)
        return same(*masks) and same(np.ma.filled(one, 0), np.ma.filled(other, 0))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.dtype == np.object_:
            return same(one.tolist(), other.tolist())
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
    if type(one) is not type(other):
        return False
    try:
        return bool(one == other) or bool(one != one and other != other)
    except Exception:  # Objects of users may refuse any comparison. Then they count as the same.
        return True
