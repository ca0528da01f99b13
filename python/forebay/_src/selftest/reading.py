"""The consumer: requests batches at a steady pace, as a training loop does, and times each wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from forebay._src.selftest.oracle import Stream

#: The seconds of a training step.
STEP_SECONDS = 0.002


class Batches(Iterator[dict[str, Any]], Protocol):
    """An iterator that knows its epoch."""

    @property
    def epoch(self) -> int:
        """The epoch of the last batch."""


@dataclass
class Reading:
    """The rows that a consumer was given, and the times.

    Attributes:
        stream: The rows.
        began: The start of each wait, by `time.perf_counter`.
        waits: The seconds of each wait; the last one is for the end.
    """

    stream: Stream = field(default_factory=Stream)
    began: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def longest(self, start: int = 1) -> tuple[float, float]:
        """Returns the longest wait from batch `start` on, in seconds, and the time at which it ended."""
        wait, began = max(zip(self.waits[start:], self.began[start:], strict=True), default=(0.0, 0.0))
        return wait, began + wait


def read(batches: Batches, strikes: Mapping[int, Callable[[], None]]) -> Reading:
    """Reads to the end. Each of `strikes` is called before the batch of its number is requested."""
    reading = Reading()
    while True:
        place = len(reading.waits)
        if place in strikes:
            strikes[place]()
        began = time.perf_counter()
        batch = next(batches, None)
        now = time.perf_counter()
        reading.began.append(began)
        reading.waits.append(now - began)
        if batch is None:
            return reading
        reading.stream.add(batches.epoch, batch)
        time.sleep(max(0.0, STEP_SECONDS - (time.perf_counter() - now)))
