"""Ops that change no sample, only when and how often it is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay._src import arguments
from forebay._src.base import Base

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class SpeedOps(Base):
    """Hints to the engine: what to keep, and how far to work ahead."""

    __slots__ = ()

    def cache(self, *, freeze: bool = False, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Keeps what the ops before it make of each sample, so that it is computed once.

        What is kept serves later epochs, and every other pipeline of the process or service that begins alike: other
        jobs, seeds, orders and later ops. Which files there are does not matter, a file that changed is computed anew.
        Samples for which there was no room are computed again: the stream is the same. Where they are kept, and how
        many, is said by `up(cache=...)`, by `forebay worker --cache`, or by `$FOREBAY_CACHE`.

        Put it behind the costly ops and before the first random one. A `batched` function before it gets the samples
        that were not kept yet, in groups of any size: it must give each sample by itself.

        Args:
            freeze: Whether random ops may come before it. They then draw once for each sample and seed: all epochs see
                the same crops and flips, which augments less.
            keep_position: Whether the optimiser leaves the op where it is.
            name: What to call the op in errors and explanations.

        >>> import forebay as fb
        >>> squares = fb.range(3).map(lambda row: {"square": row["id"] ** 2}).cache()
        >>> [sorted(batch["square"].tolist()) for batch in squares.shuffle().batch(3).iter(epochs=2)]
        [[0, 1, 4], [0, 1, 4]]
        >>> [int(row["square"]) for row in squares.skip(1)]
        [1, 4]
        """
        return self._then({"op": "cache", "freeze": arguments.flag(freeze, "cache", "freeze")}, keep_position, name)

    def autocache(self, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Marks a place whose samples may be kept: what `cache` would keep there, if that pays.

        Mark as many places as you like; the samples as they are read are always one of them. Each process measures what
        the ops cost, how large samples are and how long it takes to find them, and keeps at one place, or at none,
        whatever costs least. It decides after a few measurements, and anew when the figures move. The stream is the
        same, whatever is kept. What is decided, and why, is in `DatasetIterator.stats`.

        Args:
            keep_position: Whether the optimiser leaves the op where it is.
            name: What to call the op in errors and explanations.

        >>> import forebay as fb
        >>> squares = fb.range(3).map(lambda row: {"square": row["id"] ** 2}).autocache()
        >>> [sorted(batch["square"].tolist()) for batch in squares.shuffle().batch(3).iter(epochs=2)]
        [[0, 1, 4], [0, 1, 4]]
        """
        return self._then({"op": "autocache"}, keep_position, name)

    def prefetch(self, count: int, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Lets `count` pieces of work be done ahead of the consumer. Without it, the engine decides."""
        return self._then(
            {"op": "prefetch", "count": arguments.whole(count, "prefetch", "count", 1, 4096)}, keep_position, name
        )
