"""How things are timed: all of them, ours and the rivals', by the same code."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

WARM_UP_SECONDS_MAX = 1.0
EPOCHS = 7


@dataclass(frozen=True)
class Speed:
    """How a stream went.

    Attributes:
        first_ms: Milliseconds from making the iterator to its first batch.
        rate: Rows a second, once it was warm.
    """

    first_ms: float
    rate: float


def speed(start: Callable[[], Iterable[int]], seconds: float) -> Speed:
    """Times a stream without end, as it says how many rows each of its batches has.

    >>> import itertools
    >>> speed(lambda: itertools.repeat(8), 0.01).rate > 0
    True
    """
    warm_up = min(seconds, WARM_UP_SECONDS_MAX)
    begin = time.perf_counter()
    first = started = math.nan
    rows = 0
    for size in start():
        now = time.perf_counter()
        if math.isnan(first):
            first = now - begin
        elif math.isnan(started):
            if now - begin - first > warm_up:
                started = now
        else:
            rows += size
            if now - started > seconds:
                return Speed(1e3 * first, rows / (now - started))
    raise AssertionError("the stream of a benchmark has no end")


def epoch_ms(start: Callable[[], Iterable[object]]) -> float:
    """Returns the median of the milliseconds that a whole epoch takes."""
    taken = []
    for _ in range(EPOCHS):
        before = time.perf_counter()
        for _ in start():
            pass
        taken.append(1e3 * (time.perf_counter() - before))
    return statistics.median(taken)
