"""The speed of training if data cost nothing: a step runs on batches as they come, and on batches that are kept."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forebay._src import arguments
from forebay._src.iteration.first_samples import bytes_of
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: The most bytes of the batches that are kept.
BYTES_MAX = 1 << 30
#: Steps before the clock starts, in which frameworks compile.
WARM_UP = 2

clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True)
class Headspace:
    """The speed of training, and its speed if data cost nothing.

    Attributes:
        with_data_s: Seconds for a batch while the pipeline computes batches.
        replayed_s: Seconds for a batch that is already there.
        batches: The batches that were taken from the pipeline.
        replays: The steps on batches that were kept.
    """

    with_data_s: float
    replayed_s: float
    batches: int
    replays: int

    @property
    def factor(self) -> float:
        """How many times as fast training would be if data cost nothing. Near 1.0, faster data gain nothing."""
        return self.with_data_s / self.replayed_s if self.replayed_s > 0 else 1.0

    def __str__(self) -> str:
        """The figures in a sentence."""
        took = f"A step takes {_time(self.with_data_s)} with data and {_time(self.replayed_s)} with kept batches"
        if self.factor < 1.05:
            return f"{took}: data costs nothing."
        return f"{took}: training would be {self.factor:.2f} times as fast if data cost nothing."


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def headspace(
    dataset: Dataset,
    step: Callable[[dict[str, Any]], Any],
    *,
    seconds: float,
    keep: int,
    seed: int,
    epoch: int,
    threads: int,
) -> Headspace:
    """Runs steps on batches as they come and on kept batches, each for half of the time."""
    what = "headspace"
    if not callable(step):
        raise InvalidPipelineError(f"{what}: {arguments.shown(step)} cannot be called", {"hint": "give step(batch)"})
    time_each = arguments.number(seconds, what, "seconds") / 2
    if time_each <= 0:
        raise InvalidPipelineError(f"{what}: seconds={seconds} is out of range", {"hint": "use a number above 0"})
    most = arguments.whole(keep, what, "keep", 1, 10_000)
    options = {
        "seed": arguments.seed(seed, what),
        "epoch": arguments.whole(epoch, what, "epoch", 0),
        "threads": arguments.whole(threads, what, "threads", 0, 4096),
    }
    kept: list[dict[str, Any]] = []
    size = taken = 0
    with dataset.iter(**options, epochs=None, consumers=(0, 1)) as batches:  # type: ignore[arg-type]
        for batch in itertools.islice(batches, WARM_UP):
            kept.append(batch)
            step(batch)
        if not kept:
            raise InvalidPipelineError(f"{what}: an epoch of this dataset has no batches")
        _finish()
        size = sum(map(bytes_of, kept))
        start = clock()
        for batch in batches:
            step(batch)
            taken += 1
            if len(kept) < most and size < BYTES_MAX:
                kept.append(batch)
                size += bytes_of(batch)
            if clock() - start >= time_each:
                break
        _finish()
        with_data = clock() - start
    replays = 0
    start = clock()
    for batch in itertools.cycle(kept):
        step(batch)
        replays += 1
        if clock() - start >= time_each:
            break
    _finish()
    replayed = clock() - start
    return Headspace(with_data / taken, replayed / replays, taken, replays)


def _finish() -> None:
    """Waits for the accelerator, on which steps of PyTorch may still run."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()
