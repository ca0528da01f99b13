"""Samples by their index, chosen samples, and the parts of a split."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, cast, overload

import numpy as np
from forebay._src import arguments
from forebay._src.frameworks.torch_loaders import check_collation
from forebay._src.iteration.repeats import note_loader
from forebay._src.ops.order_ops import OrderOps
from forebay._src.usage import explained
from forebay.errors import ForebayError, InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


#: The most rows of `select_rows`: they travel with the pipeline.
_ROWS_MAX = 2**20


class AccessOps(OrderOps):
    """Reads samples by their index, and divides a dataset in two. Only the samples of the call are read."""

    __slots__ = ()

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, key: slice) -> Dataset: ...

    def __getitem__(self, key: Any) -> Any:
        """`ds[i]` is sample (or batch) `i` of epoch 0 as `iter()` gives it; `ds[a:b]` a dataset of some of them.

        Of a source with an index, only these samples are read. `ds[a:b]` is `ds.skip(a).take(b - a)`, so it follows
        the seed and the epoch that it is iterated with.

        Raises:
            IndexError: There is no such sample.
            InvalidPipelineError: The place is counted from the end, and the number of samples is not known.

        >>> import forebay as fb
        >>> ds = fb.range(10**9)
        >>> int(ds[5]["id"]), int(ds[-1]["id"]), [int(row["id"]) for row in ds[7:9]]
        (5, 999999999, [7, 8])
        >>> ds.batch(4)[2]["id"].tolist()
        [8, 9, 10, 11]
        """
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, bool) or getattr(key, "ndim", 0) > 0 or not hasattr(key, "__index__"):
            message = f"ds[...]: this is a {type(key).__name__}, not a place or a slice"
            hint = "a column of all samples is [row[name] for row in ds]; select_rows takes numpy.flatnonzero(mask)"
            if isinstance(key, str):
                hint = f"a column is fb.col({key!r}) in expressions; of all samples it is [row[{key!r}] for row in ds]"
            raise InvalidPipelineError(message, {"hint": hint})
        place = int(key.__index__())
        if place < 0:
            place += self._count(f"ds[{place}]")
        if 0 <= place < 2**63:
            check_collation(self, self._pipeline.batch_size is not None)
            note_loader(self._pipeline)
            with self._part(f"ds[{key}]", place, 1).iter(epoch=0, threads=1, consumers=(0, 1)) as items:
                for item in items:
                    return item
        raise IndexError(f"this dataset has no sample or batch {int(key.__index__())}")

    def __contains__(self, value: object) -> NoReturn:
        """Refuses `value in ds`: samples are dictionaries, so a value would never be found."""
        raise TypeError(
            f"`in` has no meaning for a dataset: write {arguments.shown(value)} in ds.schema for a column, "
            "any(row['x'] == value for row in ds) for a value, and ds.filter(fb.col('x') == value) for its samples"
        )

    def _slice(self, key: slice) -> Dataset:
        op = "ds[a:b]"
        if key.step not in (None, 1):
            hint = "shard(n, i) takes every n-th sample from i; select_rows takes places in any order"
            raise InvalidPipelineError(f"{op}: a step of {key.step}", {"hint": hint})
        ends = [None if end is None else arguments.whole(end, op, "a place", -(2**63)) for end in (key.start, key.stop)]
        if any(end is not None and end < 0 for end in ends):
            count = self._count(op)
            ends = [end if end is None or end >= 0 else max(end + count, 0) for end in ends]
        first, end = ends[0] or 0, ends[1]
        return self._part(op, first, None if end is None else max(end - first, 0))

    def _part(self, op: str, first: int, count: int | None) -> Dataset:
        try:
            rest = self.skip(first) if first else cast("Dataset", self)
            return rest if count is None else rest.take(count)
        except InvalidPipelineError as error:
            hint = "iterate: itertools.islice(ds, a, b) passes over what comes before"
            raise InvalidPipelineError(f"{op}: {error.message}", {"hint": hint}) from error

    def select_rows(self, rows: Iterable[int], *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Keeps the samples at these places, in this order. A place may be given more than once.

        Only these samples are read. The op is for subsets and samplers of datasets whose samples are counted. It takes
        at most 2**20 places, because the places travel with the pipeline.

        Args:
            rows: Places from 0, from the end if negative: integers or an array of them.
            keep_position: Whether the optimiser leaves the op where it is.
            name: What to call the op in errors and explanations.

        >>> import forebay as fb
        >>> [int(row["id"]) for row in fb.range(10**9).select_rows([7, -1, 7])]
        [7, 999999999, 7]
        """
        places = _places(rows)
        if places.size and places.min() < 0:
            count = self._count("select_rows")
            places = np.where(places < 0, places + count, places)
            arguments.whole(int(places.min()), "select_rows", "a row", 0, max(count - 1, 0))
        return self._then_rows(places, keep_position, name)

    @explained(
        "train, test = ds.split(0.9, seed=0)",
        stratify="write it for each class: ds.filter(fb.col('label') == 0).split(0.9)",
        stratify_by_column="write it for each class: ds.filter(fb.col('label') == 0).split(0.9)",
        test_size="write train, test = ds.split(0.9): the share of the first part",
        train_size="write train, test = ds.split(0.9): the share of the first part",
    )
    def split(self, share: float, *, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Returns two datasets: one with this share of the samples, one with the rest.

        Each sample is in one of the two parts, and never changes its part: in each epoch, on every machine, with any
        seed of the iteration, before or after `shuffle`, filters and maps. So no training reads a test sample.
        Each part keeps the order of the samples, and is counted if the samples are. The source must be one whose rows
        are counted. If rows are added at its end, all rows before them keep their part, except the last 64.

        To keep samples of one key together, as of a patient, filter by `fb.col("patient").hash_mod(100) < 90`.

        Args:
            share: Of the first part, more than 0 and less than 1. It has this share of the samples, rounded down.
            seed: Another seed gives other parts.

        >>> import forebay as fb
        >>> train, test = fb.range(10).split(0.8, seed=1)
        >>> len(train), len(test), sorted(int(row["id"]) for ds in (train, test) for row in ds)
        (8, 2, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        """
        if isinstance(share, (list, tuple)):
            hint = "divide the rest once more: train, rest = ds.split(0.8); val, test = rest.split(0.5)"
            raise InvalidPipelineError(f"split: {len(share)} shares, and there are two parts", {"hint": hint})
        given = arguments.number(share, "split", "share")
        if not 0 < given < 1:
            raise InvalidPipelineError(f"split: share={given} is out of range", {"hint": "use 0 < share < 1"})
        # To the nearest 2**-32, and up, so that 0.9 of 10 are 9.
        parts = min(max(math.ceil(given * 2**32), 1), 2**32 - 1)
        part = {"op": "part", "share": parts, "seed": arguments.seed(seed, "split")}
        return self._then({**part, "rest": False}, False, None), self._then({**part, "rest": True}, False, None)

    def k_fold(self, n: int, *, seed: int = 0) -> list[tuple[Dataset, Dataset]]:
        """Returns `n` pairs of datasets, to train and to test: each sample is in the test part of one pair.

        The test parts are about equal, at most two samples apart. As those of `split`, they are the same for ever, in
        each epoch and on every machine, and rows that are added at the end of the source move none but the last 64.

        Args:
            n: The number of pairs, 2 to 32.
            seed: Another one gives other parts.

        >>> import forebay as fb
        >>> for train, test in fb.range(6).k_fold(3):
        ...     print(len(train), sorted(int(row["id"]) for row in test))
        4 [2, 5]
        4 [0, 3]
        4 [1, 4]
        """
        count = arguments.whole(n, "k_fold", "n", 2, 32)
        given = arguments.seed(seed, "k_fold")
        edges = [-(-fold * 2**32 // count) for fold in range(count + 1)]
        pairs = []
        for begin, end in itertools.pairwise(edges):
            part = {"op": "part", "share": end, "from": begin, "seed": given}
            train, test = (
                self._then({**part, "rest": True}, False, None),
                self._then({**part, "rest": False}, False, None),
            )
            pairs.append((train, test))
        return pairs

    def _count(self, op: str) -> int:
        """Returns how many samples or batches there are, for an op that counts from the end."""
        try:
            count = self._pipeline.cardinality()
        except ForebayError as error:
            raise InvalidPipelineError(f"{op}: this dataset has no length: {error.message}") from error
        if count is None or count == -1:
            why = "it shows when it is computed" if count is None else "an epoch of it never ends"
            hint = "iterate, with itertools.islice(ds, n) for the first n; or put what filters behind"
            raise InvalidPipelineError(f"{op}: how many there are is not known: {why}", {"hint": hint})
        return count


def _places(rows: Iterable[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns places as int64. Whole arrays and lists are converted at once: a check of each takes seconds."""
    if isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind == "i":
        given: Any = rows
    else:
        given = list(islice(rows, _ROWS_MAX + 1))
    if len(given) > _ROWS_MAX:
        count = len(rows) if isinstance(rows, Sized) else f"more than {_ROWS_MAX}"
        hint = f"give at most {_ROWS_MAX}; a filter on a column chooses any number"
        raise InvalidPipelineError(f"select_rows: {count} rows", {"hint": hint})
    if isinstance(given, list) and not set(map(type, given)) <= {int}:
        given = [arguments.whole(_place(row), "select_rows", "a row", -(2**63)) for row in given]
    try:
        return np.array(given, np.int64)
    except OverflowError:
        outside = next(row for row in given if not -(2**63) <= row < 2**63)
        arguments.whole(outside, "select_rows", "a row", -(2**63))
        raise


def _place(row: Any) -> Any:
    """Returns a place as it is. It refuses a truth value: a mask would choose the first two samples again and again."""
    if isinstance(row, (bool, np.bool_)):
        hint = "of a mask, numpy.flatnonzero(mask) returns the places"
        raise InvalidPipelineError("select_rows: a row is a whole number, not a truth value", {"hint": hint})
    return row
