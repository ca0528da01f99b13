"""Quantiles of a stream of numbers: exact up to a million, then with a known bound on the error of a rank.

Beyond that, full buffers of sorted values are merged in pairs, and every other value is kept (Munro and Paterson).
Nothing is drawn at random, so the same values in the same order have the same quantiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Up to this number, all values are kept.
EXACT_MAX = 1 << 20
#: The values of one buffer beyond that number.
BUFFER = 1 << 16


class Quantiles:
    """Takes numbers, and returns their quantiles.

    >>> of = Quantiles()
    >>> of.add(np.array([4.0, 1.0, 3.0, 2.0]))
    >>> of.at([0, 0.5, 1]), of.error
    ([1.0, 2.5, 4.0], 0.0)
    """

    def __init__(self) -> None:
        self.count = 0
        self._exact: list[Array] = []
        self._waiting: list[Array] = []
        #: At each level at most one sorted buffer, whose values count for 2**level values each.
        self._levels: list[Array | None] = []
        self._odd: list[bool] = []
        self._rank_error = 0

    @property
    def error(self) -> float:
        """By how much the rank of a quantile may be off, as a share of all values; 0.0 if quantiles are exact."""
        return self._rank_error / self.count if self.count else 0.0

    def add(self, values: Array) -> None:
        """Takes numbers without NaN."""
        before, self.count = self.count, self.count + len(values)
        if self.count <= EXACT_MAX:
            self._exact.append(np.array(values, np.float64))
            return
        if before <= EXACT_MAX:
            self._waiting, self._exact = self._exact, []
        self._waiting.append(np.asarray(values, np.float64))
        if sum(map(len, self._waiting)) >= BUFFER:
            joined = np.concatenate(self._waiting)
            whole = len(joined) // BUFFER * BUFFER
            for start in range(0, whole, BUFFER):
                self._carry(np.sort(joined[start : start + BUFFER]), 0)
            self._waiting = [joined[whole:].copy()]

    def _carry(self, full: Array, level: int) -> None:
        """Puts a full buffer at its level. If the level has a buffer, merges both into a buffer of the next level."""
        while level < len(self._levels) and (other := self._levels[level]) is not None:
            both = np.sort(np.concatenate([other, full]), kind="stable")
            full, self._levels[level] = both[int(self._odd[level]) :: 2], None
            self._odd[level] = not self._odd[level]
            self._rank_error += 1 << level
            level += 1
        if level == len(self._levels):
            self._levels.append(None)
            self._odd.append(False)
        self._levels[level] = full

    def at(self, shares: list[float]) -> list[float]:
        """Returns the quantile at each share (0 to 1), between two values by linear interpolation."""
        if not self.count:
            return [float("nan")] * len(shares)
        if self._exact:
            return _interpolated(np.concatenate(self._exact), np.asarray(shares, np.float64))
        kept = [(level, one) for level, one in enumerate(self._levels) if one is not None]
        values = np.concatenate([*self._waiting, *(one for _, one in kept)])
        weights = np.concatenate(
            [*(np.ones(len(w), np.int64) for w in self._waiting), *(np.full(len(v), 1 << n) for n, v in kept)]
        )
        order = np.argsort(values, kind="stable")
        ranks = np.cumsum(weights[order])
        places = np.searchsorted(ranks, np.asarray(shares) * (self.count - 1), side="right")
        return [float(values[order[min(place, len(values) - 1)]]) for place in places]


def _interpolated(values: Array, shares: Array) -> list[float]:
    """Returns NumPy's quantiles, also next to an infinity, and if the difference of two values overflows."""
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.quantile(values, shares)
        if np.isfinite(found).all():
            return [float(q) for q in found]
        ranks = shares * (len(values) - 1)
        low, part = np.floor(ranks).astype(np.int64), ranks % 1
        values = np.sort(values)
        below, above = values[low], values[np.minimum(low + 1, len(values) - 1)]
        between = np.where((part == 0) | (below == above), below, below * (1 - part) + above * part)
        return [float(q) for q in np.where(np.isfinite(found), found, between)]
