"""Count, mean, deviation and extremes of a stream of numbers, merged batch by batch in the order of the stream."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from forebay._src.describe.quantiles import Quantiles

Array = np.ndarray[Any, Any]

#: Whole numbers up to this are exact in float64.
_EXACT = 2**53
#: The most channels of an image.
CHANNELS_MAX = 4


class Moments:
    """The figures of numbers of any dtype; NaN is left out, and counted.

    >>> of = Moments()
    >>> of.add(np.array([1.0, 2.0, np.nan, 3.0]))
    >>> of.count, of.missing, of.mean, of.std, of.least, of.most
    (3, 1, 2.0, 1.0, 1.0, 3.0)
    """

    def __init__(self) -> None:
        self.count = self.missing = 0
        self._mean = self._squares = 0.0
        # Whole numbers that float64 does not hold exactly are counted from the first one.
        self._origin = 0
        self.least: Any = None
        self.most: Any = None
        self._quantiles = Quantiles()

    def add(self, values: Array) -> None:
        """Takes numbers."""
        flat = values.reshape(-1)
        if flat.dtype.kind == "f":
            there = ~np.isnan(flat)
            if not there.all():
                self.missing += int(len(flat) - there.sum())
                flat = flat[there]
        if not len(flat):
            return
        low, high = flat.min().item(), flat.max().item()
        self.least = low if self.least is None else min(self.least, low)
        self.most = high if self.most is None else max(self.most, high)
        if not self.count and flat.dtype.kind in "iu" and abs(first := int(flat[0])) > _EXACT:
            self._origin = first
        self._quantiles.add(flat.astype(np.float64))
        wide = _distances(flat, self._origin)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = float(wide.mean())
            squares = float(np.square(wide - mean).sum())
            count = self.count + len(wide)
            step = mean - self._mean
            self._squares += squares + step * step * self.count * len(wide) / count
            self._mean += step * len(wide) / count
        self.count = count

    @property
    def mean(self) -> float | None:
        """The mean; `None` without numbers."""
        return self._origin + self._mean if self.count else None

    @property
    def std(self) -> float | None:
        """The deviation of a sample (n - 1); `None` with fewer than two numbers."""
        return math.sqrt(self._squares / (self.count - 1)) if self.count > 1 else None

    def quantiles(self, shares: list[float]) -> list[float]:
        """Returns the quantiles at these shares."""
        return self._quantiles.at(shares)

    @property
    def error(self) -> float:
        """The error of the quantiles' ranks."""
        return self._quantiles.error

    @property
    def channels(self) -> tuple[list[float], list[float]] | None:
        """The mean and the deviation of each channel, as shares of 255; `None` if these are no pixels."""
        return None


def _distances(values: Array, origin: int) -> Array:
    """Returns how far numbers are from a whole number, as float64.

    >>> _distances(np.array([2**63 - 1, 2**63 - 3]), 2**63 - 1).tolist()
    [0.0, -2.0]
    """
    if not origin:
        return values.astype(np.float64)
    # The distance of two numbers of 64 bits fits 64 bits without a sign.
    bits, first = values.astype(np.uint64), np.uint64(origin % 2**64)
    return np.where(values >= origin, (bits - first).astype(np.float64), -(first - bits).astype(np.float64))


class ByteCounts:
    """The figures of numbers of 8 bits, all of them exact, and those of each channel of pixels.

    >>> of = ByteCounts(np.dtype(np.uint8), 1)
    >>> of.add(np.array([0, 255], np.uint8))
    >>> of.mean, of.quantiles([0.25]), of.channels
    (127.5, [63.75], ([0.5], [0.70710...]))
    """

    missing, error = 0, 0.0

    def __init__(self, dtype: np.dtype[Any], channels: int | None) -> None:
        self._dtype = dtype
        self._least = -128 if dtype == np.int8 else 0
        self._pixels = channels is not None
        self._counts = np.zeros((channels or 1, 256), np.int64)

    def add(self, values: Array) -> None:
        """Takes numbers; the last dimension of pixels is that of channels."""
        every = (values.astype(np.int16) - self._least).astype(np.uint8).reshape(-1, len(self._counts))
        for channel, counts in enumerate(self._counts):
            counts += np.bincount(every[:, channel], minlength=256)

    def _of(self, counts: Array) -> tuple[int, float, float]:
        """Returns the number, the mean and the deviation of counted numbers."""
        count = int(counts.sum())
        values = np.arange(256) + self._least
        mean = int((counts * values).sum()) / count if count else math.nan
        squares = float((counts * np.square(values - mean)).sum())
        return count, mean, math.sqrt(squares / (count - 1)) if count > 1 else math.nan

    @property
    def count(self) -> int:
        """How many numbers there were."""
        return int(self._counts.sum())

    @property
    def mean(self) -> float | None:
        """The mean; `None` without numbers."""
        return self._of(self._counts.sum(axis=0))[1] if self.count else None

    @property
    def std(self) -> float | None:
        """The deviation of a sample (n - 1); `None` with fewer than two numbers."""
        return self._of(self._counts.sum(axis=0))[2] if self.count > 1 else None

    @property
    def least(self) -> Any:
        """The least number; `None` without numbers."""
        return self._end(0)

    @property
    def most(self) -> Any:
        """The greatest number; `None` without numbers."""
        return self._end(-1)

    def _end(self, place: int) -> Any:
        found = np.flatnonzero(self._counts.sum(axis=0))
        if not len(found):
            return None
        value = int(found[place]) + self._least
        return bool(value) if self._dtype == np.bool_ else value

    def quantiles(self, shares: list[float]) -> list[float]:
        """Returns the quantiles at these shares, by linear interpolation."""
        ranks = np.cumsum(self._counts.sum(axis=0))
        if not ranks[-1]:
            return [math.nan] * len(shares)
        places = np.asarray(shares) * (ranks[-1] - 1)
        low = np.searchsorted(ranks, np.floor(places), side="right")
        high = np.searchsorted(ranks, np.ceil(places), side="right")
        found = low + (high - low) * (places - np.floor(places)) + self._least
        return [float(value) for value in found]

    @property
    def channels(self) -> tuple[list[float], list[float]] | None:
        """The mean and the deviation of each channel, as shares of 255; `None` if these are no pixels."""
        if not self._pixels or not self.count:
            return None
        figures = [self._of(counts) for counts in self._counts]
        return [mean / 255 for _, mean, _ in figures], [std / 255 for *_, std in figures]
