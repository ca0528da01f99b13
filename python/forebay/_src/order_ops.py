"""Ops on order and grouping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from forebay._src import arguments
from forebay._src.base import Base
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class OrderOps(Base):
    """Ops that decide which samples come, in which order, and how many together. They move no data."""

    __slots__ = ()

    @explained(
        "shuffle() is of all samples, without a buffer; shuffle(window=1000) is over windows; its seed is that of the "
        "iteration, as in iter(seed=1)"
    )
    def shuffle(
        self, *, window: arguments.Window = "auto", keep_position: bool = False, name: str | None = None
    ) -> Dataset:
        """Puts the samples into a random order, another one each epoch.

        Args:
            window: The number of samples that the shuffle permutes together. None: all, which needs no memory, and
                reads samples in an order that may be slow for storage. A number of samples, or a size in memory like
                `"256MiB"`: the blocks of the source (row groups, shards) come in a random order, and samples are
                permuted within windows of whole blocks, each at most of that size (or of one block that is larger), so
                that each block is read once. For tar, TFRecord, text and JSON lines files a size counts stored bytes,
                many files are read side by side, and nothing is counted before the first batch. `"auto"`: windows of
                256 MiB if the source is Parquet or Arrow files of more than 512 MiB in memory; of 16 MiB if it is tar,
                TFRecord, text or JSON lines files in a store; else all samples. `explain()` shows the window.
                TFRecord, text or JSON lines files in a store; else over all. `explain()` says which.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb
        >>> ds = fb.range(5).shuffle()
        >>> order = [[int(row["id"]) for row in ds.iter(seed=1, epoch=epoch)] for epoch in (0, 1)]
        >>> order[0] != order[1] and sorted(order[0]) == sorted(order[1])
        True
        """
        op: dict[str, Any] = {"op": "shuffle"}
        if window != "auto":
            op["window"] = arguments.window(window, "shuffle")
        return self._then(op, keep_position, name)

    def repeat(self, count: int | None = None, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Yields the samples `count` times (for ever by default), within one epoch."""
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

    @explained("batch(4, drop_remainder=True) leaves a short last batch out")
    def batch(
        self, size: int, *, drop_remainder: bool = False, keep_position: bool = False, name: str | None = None
    ) -> Dataset:
        """Puts `size` samples together. Only the last batch of an epoch may be short.

        Args:
            size: Samples in a batch.
            drop_remainder: Whether a short last batch is left out.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb
        >>> [batch["id"].tolist() for batch in fb.range(5).batch(2)]
        [[0, 1], [2, 3], [4]]
        """
        op = {
            "op": "batch",
            "size": arguments.whole(size, "batch", "size", 1),
            "drop_remainder": arguments.flag(drop_remainder, "batch", "drop_remainder"),
        }
        return self._then(op, keep_position, name)

    def bucket_by_length(
        self,
        column: str,
        boundaries: Sequence[int],
        batch_sizes: Sequence[int],
        *,
        pad_to: Literal["longest", "boundary"] | int = "longest",
        padding: float | Mapping[str, float] = 0,
        drop_remainder: bool = False,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Puts samples of about the same length together, padded to one, as tf.data's `bucket_by_sequence_length` does.

        A sample belongs to the first bucket whose boundary is above its length; a last bucket holds longer samples. A
        batch comes when its bucket is full. The incomplete batches come at the end of an epoch, the shortest first.
        Every column whose rows differ in their first dimension is padded behind.

        Each of several consumers has buckets of its own, unless they are `coordinated` (see `iter`).

        Args:
            column: The column whose length counts: the first dimension of its rows.
            boundaries: The first length that a bucket does not hold, rising.
            batch_sizes: Samples in a batch, for each bucket: one more than boundaries.
            pad_to: `"longest"`, as long as the longest sample of the batch, each column by itself; `"boundary"`, as
                long as the longest sample that the bucket may hold; or a length. A longer sample is an error.
            padding: The fill value: a number, or numbers by column (0 for others).
            drop_remainder: Whether batches that are not full are left out.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb, numpy as np
        >>> lists = lambda row: {"ids": np.arange(1, row["id"] + 1, dtype=np.int32)}
        >>> ds = fb.range(1, 6).map(lists, schema={"ids": ("int32", (None,))})
        >>> [batch["ids"].tolist() for batch in ds.bucket_by_length("ids", [3], [2, 2])]
        [[[1, 0], [1, 2]], [[1, 2, 3, 0], [1, 2, 3, 4]], [[1, 2, 3, 4, 5]]]
        """
        what = "bucket_by_length"
        if isinstance(pad_to, str) and pad_to not in ("longest", "boundary"):
            raise InvalidPipelineError(
                f"{what}: unknown pad_to {pad_to!r}", {"hint": "use 'longest', 'boundary' or a length"}
            )
        op: dict[str, Any] = {
            "op": what,
            "column": column,
            "boundaries": [arguments.whole(b, what, "boundaries", 1) for b in boundaries],
            "batch_sizes": [arguments.whole(size, what, "batch_sizes", 1) for size in batch_sizes],
            "pad_to": pad_to if isinstance(pad_to, str) else {"length": arguments.whole(pad_to, what, "pad_to", 1)},
            "padding": self._padding(padding),
            "drop_remainder": arguments.flag(drop_remainder, what, "drop_remainder"),
        }
        return self._then(op, keep_position, name)

    def _padding(self, padding: float | Mapping[str, float]) -> list[tuple[str, float]]:
        number = arguments.number
        if isinstance(padding, Mapping):
            return [(column, number(value, "bucket_by_length", "padding")) for column, value in padding.items()]
        value = number(padding, "bucket_by_length", "padding")
        padded = (name for name, _, shape, _ in self._pipeline.schema if shape and shape[0] is None)
        return [(column, value) for column in padded] if value else []
