"""Ops that change no sample, only when and how often it is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay._src.usage import explained

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class SpeedOps(Base):
    """Hints to the engine: the rows to cache, and how far to compute ahead."""

    __slots__ = ()

    @explained("cache() has no file: FOREBAY_CACHE, up(cache=...) or forebay worker --cache say where rows are kept")
    def cache(self, *, freeze: bool = False, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Caches the output of the ops before it for each sample, so that it is computed once.

        The cached rows serve later epochs, and every other pipeline of the process or service that begins with the same
        ops: other jobs, seeds, orders and later ops. They do not depend on the list of files, and a changed file is
        computed anew. Samples for which there was no room are computed again: the stream is the same. `up(cache=...)`,
        `forebay worker --cache`, or `$FOREBAY_CACHE` set where rows are kept, and how many.

        Put it behind the costly ops and before the first random one. A `batched` function before it gets the samples
        that are not cached yet, in groups of any size: it must compute each sample by itself.

        Args:
            freeze: Whether random ops may come before it. They then draw once for each sample and seed: all epochs see
                the same crops and flips, which augments less.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb
        >>> squares = fb.range(3).map(lambda row: {"square": row["id"] ** 2}).cache()
        >>> [sorted(batch["square"].tolist()) for batch in squares.shuffle().batch(3).iter(epochs=2)]
        [[0, 1, 4], [0, 1, 4]]
        >>> [int(row["square"]) for row in squares.skip(1)]
        [1, 4]
        """
        return self._then({"op": "cache", "freeze": arguments.flag(freeze, "cache", "freeze")}, keep_position, name)

    def autocache(self, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Marks a place at which samples may be cached, as `cache` does, if that lowers the cost.

        Mark as many places as you like; the samples as read from the source are always one of them. Each process
        measures the cost of the ops, the size of samples and the time of a cache hit, and caches at the place with the
        lowest cost, or at none. It decides after a few measurements, and again when the figures change. The stream does
        not depend on the decision. `DatasetIterator.stats` has the decision and its reasons.

        Args:
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb
        >>> squares = fb.range(3).map(lambda row: {"square": row["id"] ** 2}).autocache()
        >>> [sorted(batch["square"].tolist()) for batch in squares.shuffle().batch(3).iter(epochs=2)]
        [[0, 1, 4], [0, 1, 4]]
        """
        return self._then({"op": "autocache"}, keep_position, name)

    @explained("leave prefetch out: how far ahead is computed is chosen here")
    def prefetch(self, count: int, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Sets how many morsels (parts of splits) are computed ahead of the consumer. Default: the engine decides."""
        return self._then(
            {"op": "prefetch", "count": arguments.whole(count, "prefetch", "count", 1, 4096)}, keep_position, name
        )
