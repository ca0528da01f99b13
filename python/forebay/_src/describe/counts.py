"""Counts of values: exact up to a number of different values, then lower bounds with a known error.

Beyond that number, the rarest values are dropped (Misra and Gries).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from typing import Any

#: The number of different values that are kept. At twice as many, the rarest are dropped.
VALUES_MAX = 50_000
#: The most characters (or bytes) of a counted value. Of a longer value only the size is taken.
LENGTH_MAX = 200


class ValueCounts:
    """Counts values that can be keys of a dictionary.

    >>> of = ValueCounts()
    >>> of.add(["b", "a", "b"])
    >>> of.top(1), of.distinct
    ([('b', 2)], 2)
    """

    def __init__(self) -> None:
        self._counts: Counter[Any] = Counter()
        #: By how much a count may be too low.
        self.error = 0
        #: The number of values that were too long to be counted.
        self.long = 0

    def add(self, values: Iterable[Any]) -> None:
        """Counts values."""
        self._counts.update(values)
        self._shrink()

    def add_counted(self, pairs: Iterable[tuple[Any, int]]) -> None:
        """Adds values with their counts."""
        self._counts.update(dict(pairs))
        self._shrink()

    def add_sized(self, values: list[Any]) -> None:
        """Counts texts or bytes, except long ones."""
        short = [value for value in values if len(value) <= LENGTH_MAX]
        self.long += len(values) - len(short)
        self.add(short)

    def _shrink(self) -> None:
        if len(self._counts) > 2 * VALUES_MAX:
            least = heapq.nlargest(VALUES_MAX + 1, self._counts.values())[-1]
            self.error += least
            self._counts = Counter({value: n - least for value, n in self._counts.items() if n > least})

    @property
    def distinct(self) -> int | None:
        """The number of different values; `None` if it is not known."""
        return None if self.error or self.long else len(self._counts)

    def top(self, most: int) -> list[tuple[Any, int]]:
        """Returns the most frequent values with their counts; of equal counts, the smaller value first."""
        sure = [(value, n) for value, n in self._counts.items() if n > self.error]
        return heapq.nsmallest(most, sure, key=lambda pair: (-pair[1], pair[0]))

    def all(self) -> list[Any]:
        """Returns all values, sorted."""
        return sorted(self._counts)
