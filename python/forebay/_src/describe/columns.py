"""Gathers the figures of one column from batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from forebay._src.describe.counts import ValueCounts
from forebay._src.describe.numbers import CHANNELS_MAX, ByteCounts, Moments
from forebay._src.describe.result import ColumnStatistics
from forebay._src.schema import Column


class Gathered:
    """The figures of one column so far.

    Args:
        column: Its type.
        nullable: Whether a value may be missing.
    """

    def __init__(self, column: Column, nullable: bool) -> None:
        self._column, self._nullable = column, nullable
        self._rows = self._nulls = 0
        self._example: Any = None
        self._numbers: Moments | ByteCounts | None = None
        self._sizes: Moments | None = None
        self._counts: ValueCounts | None = None
        is_sized = column.dtype in ("bytes", "string")
        if not is_sized:
            dtype = np.dtype(column.dtype)
            self._numbers = ByteCounts(dtype, _channels(column)) if dtype.itemsize == 1 else Moments()
        if is_sized or None in column.shape:
            self._sizes = Moments()
        if is_sized or (not column.shape and column.dtype not in ("float16", "float32", "float64")):
            self._counts = ValueCounts()

    def add(self, values: Any) -> None:
        """Takes the values of some rows: an array, a masked one, or a list of values that may be `None`."""
        self._rows += len(values)
        if isinstance(values, np.ma.MaskedArray):
            # A tensor can only be missing as a whole.
            lost = np.ma.getmaskarray(values).reshape(len(values), -1).any(axis=1)
            self._nulls += int(lost.sum())
            self._take(values.data[~lost])
        elif self._column.dtype in ("bytes", "string"):
            known = [value for value in list(values) if value is not None]
            self._nulls += len(values) - len(known)
            self._take_sized(known)
        elif isinstance(values, np.ndarray) and values.dtype != np.object_:
            self._take(values)
        else:
            known = [value for value in values if value is not None]
            self._nulls += len(values) - len(known)
            if self._column.shape:
                self._take_each(known)
            else:
                self._take(np.array(known, self._column.dtype))

    def _take(self, values: np.ndarray[Any, Any]) -> None:
        if self._example is None and len(values):
            # A single float that is missing is NaN, and cannot serve as an example.
            there = values[values == values] if values.ndim == 1 else values
            self._example = there[0] if len(there) else None
        if self._numbers is not None:
            self._numbers.add(values)
        if self._counts is not None and len(values):
            unique, counts = np.unique(values, return_counts=True)
            self._counts.add_counted(zip(unique.tolist(), counts.tolist(), strict=True))

    def _take_each(self, known: list[np.ndarray[Any, Any]]) -> None:
        if not known:
            return
        if self._example is None:
            self._example = known[0]
        assert self._numbers is not None
        channels = len(self._numbers._counts) if isinstance(self._numbers, ByteCounts) else 1
        self._numbers.add(np.concatenate([value.reshape(-1) for value in known]).reshape(-1, channels))
        if self._sizes is not None:
            self._sizes.add(np.array([value.size for value in known], np.int64))

    def _take_sized(self, known: list[Any]) -> None:
        if not known:
            return
        if self._example is None:
            self._example = known[0]
        assert self._sizes is not None
        assert self._counts is not None
        self._sizes.add(np.fromiter(map(len, known), np.int64, len(known)))
        items = known if not self._column.shape else [one for value in known for one in value if one is not None]
        self._counts.add_sized(items)

    def result(self, name: str, shares: list[float], top: int) -> ColumnStatistics:
        """Returns the figures."""
        numbers, sizes, counts = self._numbers, self._sizes, self._counts
        # A single float that is missing is NaN. NaN in a tensor is not a missing value.
        missing = 0 if numbers is None else numbers.missing
        is_scalar = not self._column.shape
        quantiles = [] if numbers is None or not numbers.count else numbers.quantiles(shares)
        values = counts.all() if counts is not None and counts.distinct is not None else None
        return ColumnStatistics(
            name=name,
            column=self._column,
            nullable=self._nullable,
            rows=self._rows,
            nulls=self._nulls + (missing if is_scalar else 0),
            nans=0 if is_scalar else missing,
            mean=None if numbers is None else numbers.mean,
            std=None if numbers is None else numbers.std,
            min=None if numbers is None else numbers.least,
            max=None if numbers is None else numbers.most,
            quantiles=dict(zip(shares, quantiles, strict=False)),
            quantile_error=0.0 if numbers is None else numbers.error,
            distinct=None if counts is None else counts.distinct,
            top=() if counts is None else tuple(counts.top(top)),
            top_error=0 if counts is None else counts.error,
            sizes=None if sizes is None or not sizes.count else (sizes.least, sizes.mean or 0.0, sizes.most),
            channels=None if numbers is None else numbers.channels,
            example=self._example,
            _values=None if values is None else tuple(values),
        )


def _channels(column: Column) -> int | None:
    """Returns the channels of pixels, which are the last of three dimensions; `None` for other tensors."""
    last = column.shape[-1] if len(column.shape) == 3 else None
    return last if column.dtype == "uint8" and last is not None and 1 <= last <= CHANNELS_MAX else None
