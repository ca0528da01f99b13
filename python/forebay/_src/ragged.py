"""Columns of lists that differ in length, in batches: all values one after another, and where each list begins."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from forebay.errors import InvalidPipelineError

_Self = TypeVar("_Self", bound="Ragged")
_FORM = "give one offset more than lists: [0, 1, 4] for lists of 1 and 3 values"


class Ragged:
    """The lists of one column of a batch, which may differ in length.

    It has a length, items and slices as a list of arrays has. Functions of NumPy take it as an array of objects, and
    pyarrow as a `ListArray` over the same memory.

    Attributes:
        values: The values of all lists, one after another: an array `[total]`, or `[total, 4]` of boxes.
        offsets: Where each list begins in `values`, and the end of the last one: int32, one more than lists. It is the
            `cu_seqlens` of attention kernels, the offsets of Arrow and the row splits of TensorFlow.

    >>> import forebay as fb
    >>> ds = fb.from_dict({"ids": [[1], [2, 3, 4], [], [5, 6]]}).batch(3, ragged=True)
    >>> ids = next(iter(ds))["ids"]
    >>> ids.values.tolist(), ids.offsets.tolist(), ids.lengths.tolist()
    ([1, 2, 3, 4], [0, 1, 4, 4], [1, 3, 0])
    >>> len(ids), ids[1].tolist(), ids[1:].tolist()
    (3, [2, 3, 4], [[2, 3, 4], []])
    >>> ids.to_padded(-1).tolist()
    [[1, -1, -1], [2, 3, 4], [-1, -1, -1]]
    """

    __slots__ = ("offsets", "values")
    values: Any
    offsets: Any

    def __init__(self, values: Any, offsets: Any) -> None:
        try:
            self.values, self.offsets = np.asarray(values), np.asarray(offsets, np.int32)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidPipelineError(f"Ragged: no arrays of numbers: {error}", {"hint": _FORM}) from error
        ends, total = self.offsets, self.values.shape[0] if self.values.ndim else -1
        if ends.ndim != 1 or not len(ends) or ends[0] or ends[-1] != total or (ends[1:] < ends[:-1]).any():
            what = f"Ragged: offsets of {max(total, 0)} values do not rise from 0 to {max(total, 0)}"
            raise InvalidPipelineError(what, {"hint": _FORM})

    @property
    def lengths(self) -> Any:
        """The length of each list."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def dtype(self) -> Any:
        """The type of the values."""
        return self.values.dtype

    def __len__(self) -> int:
        """The number of lists."""
        return len(self.offsets) - 1

    def __getitem__(self: _Self, index: int | slice) -> Any:
        """Returns a list as an array, or the lists of a slice without steps; both share memory."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise IndexError("a slice of a Ragged has no steps: index its lists one by one")
            offsets = self.offsets[start : max(start, stop) + 1]
            return type(self)(self.values[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0])
        place = operator.index(index)
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no list {place} among {len(self)}")
        place %= len(self)
        return self.values[int(self.offsets[place]) : int(self.offsets[place + 1])]

    def __iter__(self) -> Iterator[Any]:
        """Yields each list as an array."""
        ends = self.offsets.tolist()
        return (self.values[start:end] for start, end in pairwise(ends))

    def __repr__(self) -> str:
        """As in `Ragged(2 lists: int64[4])`."""
        shape = ", ".join(map(str, self.values.shape))
        return f"Ragged({len(self)} lists: {self.values.dtype}[{shape}])"

    def tolist(self) -> list[Any]:
        """Returns lists of Python's numbers."""
        return [row.tolist() for row in self]

    def to_padded(self, value: float = 0, length: int | None = None) -> Any:
        """Returns one array: lists are filled up behind their end.

        Args:
            value: The number that fills them up.
            length: Their common length. Default: that of the longest.

        Raises:
            InvalidPipelineError: A list is longer.
        """
        lengths = self.lengths
        longest = int(lengths.max()) if len(self) else 0
        if length is not None and longest > length:
            what = f"to_padded: a list has length {longest}, and lists are padded to {length}"
            raise InvalidPipelineError(what, {"hint": "pad to more, or cut the lists: .list.slice(0, length)"})
        shape = (len(self), longest if length is None else length, *self.values.shape[1:])
        padded = self._full(shape, value)
        padded[self._arange(shape[1])[None, :] < lengths[:, None]] = self.values
        return padded

    def _full(self, shape: tuple[int, ...], value: float) -> Any:
        return np.full(shape, value, self.values.dtype)

    def _arange(self, stop: int) -> Any:
        return np.arange(stop)

    def copy(self: _Self) -> _Self:
        """Returns lists in memory of their own."""
        return type(self)(self.values.copy(), self.offsets.copy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Returns an array of objects: the array of each list."""
        array = np.empty(len(self), object)
        for place, row in enumerate(self):
            array[place] = row
        return array if dtype is None else array.astype(dtype)

    def __arrow_array__(self, type: Any = None) -> Any:
        """Returns a `pyarrow.ListArray` over the same memory."""
        import pyarrow as pa

        values = pa.array(self.values.reshape(-1))
        for size in reversed(self.values.shape[1:]):
            values = pa.FixedSizeListArray.from_arrays(values, size)
        lists = pa.ListArray.from_arrays(pa.array(self.offsets), values)
        return lists if type is None else lists.cast(type)

    def __getstate__(self) -> tuple[Any, Any]:
        """Returns both arrays."""
        return self.values, self.offsets

    def __setstate__(self, state: tuple[Any, Any]) -> None:
        """Sets both arrays."""
        self.values, self.offsets = state
