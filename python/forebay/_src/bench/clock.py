"""Times all pipelines, ours and the rivals', with the same code."""

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
    """The figures of a stream.

    Attributes:
        first_ms: Milliseconds from making the iterator to its first batch.
        rate: Rows a second after the warm-up.
    """

    first_ms: float
    rate: float


def speed(start: Callable[[], Iterable[int]], seconds: float) -> Speed:
    """Times an endless stream that yields the number of rows of each of its batches.

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
