"""Ops on order and grouping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay._src.usage import THREADS, explained
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class OrderOps(Base):
    """Ops that choose, order and group samples. They move no data."""

    __slots__ = ()

    @explained(
        "shuffle() is of all samples, without a buffer; shuffle(window=1000) is over windows; its seed is that of the "
        "iteration, as in iter(seed=1)",
        reshuffle_each_iteration="iter(epoch=0) yields the same order each time, and iter(epoch=1) another one",
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
        count = None if count is None else _count(count, "repeat", 1, "repeat() repeats for ever")
        return self._then({"op": "repeat", "count": count}, keep_position, name)

    def enumerate(
        self, column: str = "index", *, start: int = 0, keep_position: bool = False, name: str | None = None
    ) -> Dataset:
        """Adds a column with the number of the sample in the epoch.

        The numbers follow the order at this place: `shuffle().enumerate()` numbers the shuffled samples, and
        `enumerate().shuffle()` shuffles numbered samples. All workers and ranks give the same numbers. The op needs a
        known number of samples: after a `filter` or a `flat_map` without `count`, use `enumerate(ds)` of Python.

        Args:
            column: The column, of int64; a name that no column has.
            start: The number of the first sample.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"x": ["a", "b", "c"]}).enumerate(start=1)
        >>> [(int(row["index"]), row["x"]) for row in ds]
        [(1, 'a'), (2, 'b'), (3, 'c')]
        """
        start = arguments.whole(start, "enumerate", "start", -(2**63))
        return self._then({"op": "enumerate", "column": column, "start": start}, keep_position, name)

    def take(self, count: int, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Keeps the first `count` samples; after `batch`, batches.

        >>> import forebay as fb
        >>> [batch["id"].tolist() for batch in fb.range(10**9).batch(2).take(2)]
        [[0, 1], [2, 3]]
        """
        kept = _count(count, "take", 0, "leave it out: all samples come without it")
        return self._then({"op": "take", "count": kept}, keep_position, name)

    def skip(self, count: int, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Leaves the first `count` samples out; after `batch`, batches."""
        return self._then({"op": "skip", "count": arguments.whole(count, "skip", "count", 0)}, keep_position, name)

    @explained(
        "shard(4, 0) keeps every fourth sample, from the first one",
        num_shards="write shard(4, 0): every fourth sample, from the first one",
    )
    def shard(self, count: int, index: int, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Keeps every `count`-th sample, from `index`.

        >>> import forebay as fb
        >>> [int(row["id"]) for row in fb.range(7).shard(3, 1)]
        [1, 4]
        """
        count = arguments.whole(count, "shard", "count", 1)
        index = arguments.whole(index, "shard", "index", 0)
        return self._then({"op": "shard", "count": count, "index": index}, keep_position, name)

    @explained(
        "batch(4, drop_remainder=True) leaves a short last batch out; batch(4, pad=0) pads lists",
        batch_fn="put a function behind it, batch(4).map(fn)",
        batch_size="write batch(4)",
        collate_fn="put a function behind it, batch(4).map(fn)",
        drop_last="write drop_remainder=True",
        drop_last_batch="write drop_remainder=True",
        deterministic="leave it out: batches keep their order; iter(ordered=False) yields them as they come",
        num_parallel_calls=THREADS,
        num_proc=THREADS,
        padded_shapes="write pad_to=512, or pad_to={'ids': 512}",
        padding_values="write pad=-1, or pad={'ids': -1}",
    )
    def batch(
        self,
        size: int,
        *,
        drop_remainder: bool = False,
        pad: float | Mapping[str, float] | None = None,
        pad_to: int | Mapping[str, int] | None = None,
        multiple_of: int | Mapping[str, int] | None = None,
        truncate: bool | Sequence[str] = False,
        lengths: str | Mapping[str, str] | None = None,
        ragged: bool | Sequence[str] = False,
        pad_last: bool = False,
        valid: str = "valid",
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Puts `size` samples together. Only the last batch of an epoch may be short.

        Lists (`int32[?]`, `float32[?, 4]`) are stacked to one array; a batch with lists of different lengths is an
        error. If one of `pad`, `pad_to`, `multiple_of`, `truncate` and `lengths` is given, lists are padded at the end;
        by default to the longest of the batch, as tf.data's `padded_batch` does. Lists of `ragged` columns keep their
        lengths. Lists of texts stay lists.

        Args:
            size: Samples in a batch.
            drop_remainder: Whether a short last batch is left out.
            pad: The number that fills lists of numbers up: one number, or numbers by column (0 for others).
            pad_to: The length of lists in every batch: a length, or lengths by column. The column gets that shape. A
                longer sample is an error, which names the sample.
            multiple_of: The padded length is a multiple of this number, for columns without `pad_to`: one number, or
                numbers by column.
            truncate: Whether lists that are longer than `pad_to` are cut: True for all of these columns, or some names.
            lengths: The name of an int32 column that gets the length of each list after the cut and before the padding.
                If several columns are padded, names by column.
            ragged: The columns of lists that come as a `Ragged`, all values one after another and where each list
                begins: True for all columns of lists, or names.
            pad_last: Whether a short last batch is filled up with its last sample, so that all have one shape. A column
                says which samples are real.
            valid: The name of that column, a bool.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb, numpy as np
        >>> [batch["id"].tolist() for batch in fb.range(5).batch(2)]
        [[0, 1], [2, 3], [4]]
        >>> lists = fb.from_dict({"ids": [np.array(ids) for ids in ([1], [2, 3, 4], [5, 6])]})
        >>> for batch in lists.batch(2, pad=-1, lengths="len", pad_last=True):
        ...     print(batch["ids"].tolist(), batch["len"].tolist(), batch["valid"].tolist())
        [[1, -1, -1], [2, 3, 4]] [1, 3] [True, True]
        [[5, 6], [5, 6]] [2, 2] [True, False]
        >>> ids = next(iter(lists.batch(2, ragged=True)))["ids"]
        >>> ids.values.tolist(), ids.offsets.tolist()
        ([1, 2, 3, 4], [0, 1, 4])
        """
        op = {
            "op": "batch",
            "size": arguments.whole(size, "batch", "size", 1),
            "drop_remainder": arguments.flag(drop_remainder, "batch", "drop_remainder"),
        }
        kept, padding = self._ragged(ragged), None
        if truncate is not False or any(given is not None for given in (pad, pad_to, multiple_of, lengths)):
            if ragged is True and kept:
                hint = "leave one of them out; ragged=['x'] keeps the lengths of the lists that it names alone"
                raise InvalidPipelineError("batch: all columns of lists are ragged, so none is padded", {"hint": hint})
            padding = self._batch_padding(pad, pad_to, multiple_of, truncate, lengths, kept)
        fill = arguments.flag(pad_last, "batch", "pad_last")
        if padding is not None or fill or kept:
            op.update(op="padded_batch", padding=padding, valid=arguments.text(valid, "batch", "valid"), ragged=kept)
            op = {key: value for key, value in op.items() if value is not None and (key != "valid" or fill)}
        return self._then(op, keep_position, name)

    def _ragged(self, ragged: bool | Sequence[str]) -> list[str]:
        """Returns the names of ragged columns."""
        if isinstance(ragged, Sequence) and not isinstance(ragged, str):
            return arguments.columns(ragged, "batch", "ragged") or []
        every = arguments.flag(ragged, "batch", "ragged", "use True for all columns of lists, or a list of their names")
        return self._lists() if every else []

    def _batch_padding(
        self,
        pad: float | Mapping[str, float] | None,
        pad_to: int | Mapping[str, int] | None,
        multiple_of: int | Mapping[str, int] | None,
        truncate: bool | Sequence[str],
        lengths: str | Mapping[str, str] | None,
        ragged: Sequence[str],
    ) -> dict[str, Any]:
        """Returns how each column is padded."""
        lists = [column for column in self._lists() if column not in ragged]
        to = _by_column(pad_to, "pad_to", lists)
        others = [column for column in lists if column not in {name for name, _ in to}]
        if isinstance(truncate, Sequence) and not isinstance(truncate, str):
            cut = arguments.columns(truncate, "batch", "truncate") or []
        else:
            cut = [name for name, _ in to] if arguments.flag(truncate, "batch", "truncate", _TRUNCATE) else []
            if truncate and not cut:
                raise InvalidPipelineError("batch: truncate=True without pad_to", {"hint": "give pad_to= as well"})
        if isinstance(lengths, str):
            if len(lists) != 1:
                message = f"batch: lengths={lengths!r} is one name, and {len(lists)} columns are padded"
                hint = f"give names by column, as {dict.fromkeys(lists[:1] or ['ids'], lengths)!r}"
                raise InvalidPipelineError(message, {"hint": hint})
            lengths = {lists[0]: lengths}
        arguments.mapping(lengths, "batch", "lengths", "give names by column, as {'ids': 'ids_length'}")
        told = [(column, arguments.text(new, "batch", "lengths")) for column, new in (lengths or {}).items()]
        return {
            "values": _pad_values(0 if pad is None else pad, "batch", lists),
            "to": to,
            "multiple_of": _by_column(multiple_of, "multiple_of", others),
            "truncate": cut,
            "lengths": told,
        }

    @explained(
        "bucket_by_length('ids', [64], [8, 4], pad=-1) fills rows with -1",
        bucket_batch_sizes="write bucket_by_length('ids', [64], [8, 4])",
        bucket_boundaries="write bucket_by_length('ids', [64], [8, 4])",
        drop_last="write drop_remainder=True",
        element_length_func="name the column: bucket_by_length('ids', [64], [8, 4])",
        pad_to_bucket_boundary="write pad_to='boundary'",
        padding_values="write pad=-1, or pad={'ids': -1}",
    )
    def bucket_by_length(
        self,
        column: str,
        boundaries: Sequence[int],
        batch_sizes: Sequence[int] | None = None,
        *,
        max_tokens: int | None = None,
        pad_to: Literal["longest", "boundary"] | int = "longest",
        pad: float | Mapping[str, float] = 0,
        drop_remainder: bool = False,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Puts samples of about the same length together, padded to one, as tf.data's `bucket_by_sequence_length` does.

        A sample belongs to the first bucket whose boundary is above its length; a last bucket holds longer samples. A
        batch comes when its bucket is full: it has as many samples as `batch_sizes` says, or one more sample would take
        more than `max_tokens`. The incomplete batches come at the end of an epoch, the shortest first.
        Every column whose rows differ in their first dimension is padded at its end.

        Each consumer has buckets of its own, unless the consumers are `coordinated` (see `iter`).

        Args:
            column: The column whose length counts: the first dimension of its rows.
            boundaries: For each bucket but the last, the first length that it does not hold, in rising order.
            batch_sizes: The most samples of a batch, for each bucket: one more than boundaries.
            max_tokens: The most tokens of a batch with its padding: its samples times the padded length of `column`. A
                sample that is longer by itself is an error, which `on_error="skip"` leaves out. An empty sample counts
                as one token. Give `batch_sizes`, `max_tokens` or both; with `max_tokens`, `boundaries` may be empty.
            pad_to: `"longest"`, as long as the longest sample of the batch, each column by itself; `"boundary"`, as
                long as the longest sample that the bucket may hold; or a length. A longer sample is an error.
            pad: The fill value: a number, or numbers by column (0 for others), as for `batch`.
            drop_remainder: Whether the incomplete batches at the end of an epoch are left out.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb, numpy as np
        >>> lists = lambda row: {"ids": np.arange(1, row["id"] + 1, dtype=np.int32)}
        >>> ds = fb.range(1, 6).map(lists, schema={"ids": ("int32", (None,))})
        >>> [batch["ids"].tolist() for batch in ds.bucket_by_length("ids", [3], [2, 2])]
        [[[1, 0], [1, 2]], [[1, 2, 3, 0], [1, 2, 3, 4]], [[1, 2, 3, 4, 5]]]
        >>> [batch["ids"].shape for batch in ds.bucket_by_length("ids", [3], max_tokens=6)]
        [(1, 3), (1, 4), (1, 5), (2, 2)]
        """
        what = "bucket_by_length"
        if isinstance(pad_to, str) and pad_to not in ("longest", "boundary"):
            raise InvalidPipelineError(
                f"{what}: unknown pad_to {pad_to!r}", {"hint": "use 'longest', 'boundary' or a length"}
            )
        op: dict[str, Any] = {
            "op": what,
            "column": column,
            "boundaries": arguments.wholes(boundaries, what, "boundaries", 1),
            "batch_sizes": [] if batch_sizes is None else arguments.wholes(batch_sizes, what, "batch_sizes", 1),
            "pad_to": pad_to if isinstance(pad_to, str) else {"length": arguments.whole(pad_to, what, "pad_to", 1)},
            "padding": _pad_values(pad, what, self._lists()),
            "drop_remainder": arguments.flag(drop_remainder, what, "drop_remainder"),
        }
        if max_tokens is not None:
            op["max_tokens"] = arguments.whole(max_tokens, what, "max_tokens", 1)
        return self._then(op, keep_position, name)

    @explained(
        "batch_by_key('label', 32) gives batches of one label; batch_by_key('label', 32, pad=0) pads lists",
        batch_size="write batch_by_key('label', 32)",
        drop_last="write drop_remainder=True",
        key_func="name the column: batch_by_key('label', 32); with_column computes one",
        reduce_func="leave it out: rows of one key are batched; a function of batches stands behind it, map(fn)",
        window_size="write batch_by_key('label', 32)",
        window_size_func="all keys have batches of one size: batch_by_key('label', 32)",
    )
    def batch_by_key(
        self,
        key: str | Sequence[str],
        size: int,
        *,
        pad: float | Mapping[str, float] | None = None,
        max_keys: int = 1024,
        drop_remainder: bool = False,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Puts `size` samples of one key together, as tf.data's `group_by_window` with `batch` does.

        A batch comes when `size` samples of its key have come. The incomplete batches come at the end of an epoch, in
        ascending order of their keys. Samples wait in memory until their batch comes.

        The samples of a batch have one shape in each column, which becomes one array: images of different sizes can be
        batched by a key that determines the size.

        Each consumer has batches of its own keys, unless the consumers are `coordinated` (see `iter`): then all have a
        batch of the same key at each step. They share an incomplete batch in equal parts, and fewer samples of it than
        there are consumers are left out.

        Args:
            key: The column of the key, or several: whole numbers, truth values or texts. A missing value is one key.
            size: Samples in a batch.
            pad: If given, lists of numbers are padded at the end, to the longest of the batch: the fill value, or fill
                values by column (0 for others). By default, lists of different lengths in one batch are an error.
            max_keys: The most keys of which samples wait, from 1 to 65,536. The samples from the one that has waited
                longest on have at most so many keys. When a sample of one more key comes, the batch of the sample that
                has waited longest comes first, incomplete.
            drop_remainder: Whether incomplete batches are left out, also batches that come because of `max_keys`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb
        >>> ds = fb.range(7).with_column("odd", fb.col("id") % 2).batch_by_key("odd", 2)
        >>> [batch["id"].tolist() for batch in ds]
        [[0, 2], [1, 3], [4, 6], [5]]
        """
        what = "batch_by_key"
        columns = arguments.columns(key, what, "key") or []
        op: dict[str, Any] = {
            "op": what,
            "key": columns,
            "size": arguments.whole(size, what, "size", 1),
            "drop_remainder": arguments.flag(drop_remainder, what, "drop_remainder"),
            "max_keys": arguments.whole(max_keys, what, "max_keys", 1),
        }
        if pad is not None:
            op["padding"] = _pad_values(pad, what, self._lists())
        return self._then(op, keep_position, name)

    def _lists(self) -> list[str]:
        """Returns the columns that `pad=` pads: numbers whose samples differ in their first dimension."""
        lists = [(name, dtype) for name, dtype, shape, *_ in self._pipeline.schema if shape and shape[0] is None]
        return [name for name, dtype in lists if dtype != "string"]


_TRUNCATE = "use True for all columns of pad_to, or a list of their names"


def _count(value: int, op: str, least: int, all_of_them: str) -> int:
    """Checks a number of samples or passes. -1 means all of them in other libraries, and is an error here."""
    if value == -1:
        raise InvalidPipelineError(f"{op}: count=-1 is out of range", {"hint": all_of_them})
    return arguments.whole(value, op, "count", least)


def _by_column(value: int | Mapping[str, int] | None, argument: str, lists: Sequence[str]) -> list[tuple[str, int]]:
    """Returns whole numbers by column. They are given as one number for all of `lists`, or by column."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [(column, arguments.whole(number, "batch", argument, 1)) for column, number in value.items()]
    number = arguments.whole(value, "batch", argument, 1)
    return [(column, number) for column in lists]


def _pad_values(pad: float | Mapping[str, float], op: str, lists: Sequence[str]) -> list[tuple[str, float]]:
    """Returns the numbers that fill columns, by column. Columns that are filled with 0 are left out."""
    if isinstance(pad, Mapping):
        return [(column, arguments.number(value, op, "pad")) for column, value in pad.items()]
    value = arguments.number(pad, op, "pad")
    return [(column, value) for column in lists] if value else []
