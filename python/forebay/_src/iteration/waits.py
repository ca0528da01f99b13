"""How long training waited for batches in the last minute, and how long it trained."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

#: The seconds that are looked back at.
MINUTE = 60.0

clock: Callable[[], float] = time.perf_counter


class Totals(NamedTuple):
    """The sums of an iterator since its start."""

    waited: float = 0.0
    """Seconds of waiting."""
    trained: float = 0.0
    """Seconds of training."""
    batches: int = 0
    """Batches that were delivered, or runs of single samples."""
    samples: int = 0
    """Samples in them."""


class Waits:
    """Notes when a batch is requested and when it comes; the time between is waiting, the rest is training.

    Figures are kept by the second, for a minute.
    """

    def __init__(self) -> None:
        #: For each second: its number, the seconds of waiting and of training that ended in it, and the batches.
        self._seconds: deque[tuple[int, float, float, int]] = deque(maxlen=int(MINUTE) + 1)
        self._asked = 0.0
        self._got: float | None = None
        self.totals = Totals()

    def asked(self) -> None:
        """Notes that a batch is requested."""
        self._asked = clock()

    def got(self) -> None:
        """Notes that the requested batch has come."""
        now = clock()
        trained = 0.0 if self._got is None else max(0.0, self._asked - self._got)
        waited = max(0.0, now - self._asked)
        self._add(int(now), waited, trained, 1)
        before = self.totals
        self.totals = Totals(before.waited + waited, before.trained + trained, before.batches + 1, before.samples)
        self._got = now

    def count(self, samples: int) -> None:
        """Notes the number of samples of that batch."""
        self.totals = self.totals._replace(samples=self.totals.samples + samples)

    def ended(self) -> None:
        """Notes that there are no more batches: the time from now on is not training."""
        if self._got is not None:
            self._add(int(clock()), 0.0, max(0.0, self._asked - self._got), 0)
        self._got = None

    def _add(self, second: int, waited: float, trained: float, batches: int) -> None:
        if self._seconds and self._seconds[-1][0] == second:
            _, waited_before, trained_before, batches_before = self._seconds.pop()
            waited, trained, batches = waited + waited_before, trained + trained_before, batches + batches_before
        self._seconds.append((second, min(waited, MINUTE), min(trained, MINUTE), batches))

    def last_minute(self) -> tuple[float, float, int]:
        """Returns the seconds of waiting and of training of the last minute, and the batches that came in it.

        >>> waits = Waits()
        >>> waits.last_minute()
        (0.0, 0.0, 0)
        """
        now = clock()
        recent = [one for one in self._seconds if one[0] > now - MINUTE]
        training = 0.0 if self._got is None else min(MINUTE, max(0.0, now - self._got))
        waited, trained = sum((one[1] for one in recent), 0.0), sum((one[2] for one in recent), 0.0)
        return waited, trained + training, sum(one[3] for one in recent)
