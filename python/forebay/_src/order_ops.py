"""Ops on order and grouping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay._src import arguments
from forebay._src.base import Base

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class OrderOps(Base):
    """Ops that decide which samples come, in which order, and how many together. They move no data."""

    __slots__ = ()

    def shuffle(self, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Puts all samples into a random order, another one each epoch. It needs no memory.

        >>> import forebay as fb
        >>> ds = fb.range(5).shuffle()
        >>> order = [[int(row["id"]) for row in ds.iter(seed=1, epoch=epoch)] for epoch in (0, 1)]
        >>> order[0] != order[1] and sorted(order[0]) == sorted(order[1])
        True
        """
        return self._then({"op": "shuffle"}, keep_position, name)

    def repeat(self, count: int | None = None, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Gives the samples `count` times over (for ever by default), within one epoch."""
        count = None if count is None else arguments.whole(count, "repeat", "count", 1)
        return self._then({"op": "repeat", "count": count}, keep_position, name)

    def take(self, count: int, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Keeps the first `count` samples."""
        return self._then({"op": "take", "count": arguments.whole(count, "take", "count", 0)}, keep_position, name)

    def skip(self, count: int, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Leaves the first `count` samples out."""
        return self._then({"op": "skip", "count": arguments.whole(count, "skip", "count", 0)}, keep_position, name)

    def shard(self, count: int, index: int, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Keeps every `count`-th sample, from `index`.

        >>> import forebay as fb
        >>> [int(row["id"]) for row in fb.range(7).shard(3, 1)]
        [1, 4]
        """
        count = arguments.whole(count, "shard", "count", 1)
        index = arguments.whole(index, "shard", "index", 0)
        return self._then({"op": "shard", "count": count, "index": index}, keep_position, name)

    def batch(
        self, size: int, *, drop_remainder: bool = False, keep_position: bool = False, name: str | None = None
    ) -> Dataset:
        """Puts `size` samples together. Only the last batch of an epoch may be short.

        Args:
            size: Samples in a batch.
            drop_remainder: Whether a short last batch is left out.
            keep_position: Whether the optimiser leaves the op where it is.
            name: What to call the op in errors and explanations.

        >>> import forebay as fb
        >>> [batch["id"].tolist() for batch in fb.range(5).batch(2)]
        [[0, 1], [2, 3], [4]]
        """
        op = {"op": "batch", "size": arguments.whole(size, "batch", "size", 1), "drop_remainder": bool(drop_remainder)}
        return self._then(op, keep_position, name)

    def prefetch(self, count: int, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Lets `count` pieces of work be done ahead of the consumer. Without it, the engine decides."""
        return self._then(
            {"op": "prefetch", "count": arguments.whole(count, "prefetch", "count", 1, 4096)}, keep_position, name
        )
