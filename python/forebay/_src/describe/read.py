"""Reads a dataset and gathers the figures of its columns, in the order of the stream.

Batches have as many rows as fit into a few megabytes by the first rows, so neither the result nor the memory depends on
threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from forebay import _native
from forebay._src import arguments
from forebay._src.describe.columns import Gathered
from forebay._src.describe.result import Statistics
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: The rows that are looked at for the size of a batch.
_LOOK = 32
#: The bytes and the rows of a batch.
_BATCH_BYTES, _BATCH_ROWS = 8 << 20, 8192
_QUANTILES = (0.25, 0.5, 0.75)


def describe(
    dataset: Dataset,
    columns: str | Iterable[str] | None,
    *,
    rows: int | None,
    quantiles: Iterable[float],
    top: int,
    seed: int,
    epoch: int,
    threads: int,
    bytes_max: int | None = None,
) -> Statistics:
    """Reads at most `rows` rows, or until their values have `bytes_max` bytes, and returns the figures."""
    what = "describe"
    schema = dataset.schema
    names = arguments.columns(columns, what, "columns")
    names = list(schema) if names is None else list(dict.fromkeys(names))
    if not names:
        raise InvalidPipelineError(f"{what}: there is no column to describe", {"hint": "name at least one"})
    for name in names:
        arguments.known_column(what, name, list(schema))
    shares = arguments.numbers(quantiles, what, "quantiles")
    if wrong := [share for share in shares if not 0 <= share <= 1]:
        raise InvalidPipelineError(f"{what}: a quantile at {wrong[0]}", {"hint": "give shares from 0.0 to 1.0"})
    top = arguments.whole(top, what, "top", 0, 10_000)
    most = None if rows is None else arguments.whole(rows, what, "rows", 1)
    if most is None and bytes_max is None and dataset._pipeline.cardinality() == -1:
        raise InvalidPipelineError(f"{what}: an epoch never ends", {"hint": "give rows="})
    options = {
        "seed": arguments.seed(seed, what),
        "epoch": arguments.whole(epoch, what, "epoch", 0),
        "threads": arguments.whole(threads, what, "threads", 0, 4096),
        "consumers": (0, 1),
    }
    gathered = {name: Gathered(schema[name], name in schema.nullable) for name in names}
    chosen = dataset.select(names) if schema.batch_size is None and names != list(schema) else dataset
    seen, size, complete = 0, 0, True
    bar = _native.Progress("describing", "rows")
    total = _total(dataset, most) if bar.shown else 0
    for batch, count in _batches(chosen, options):
        left = count if most is None else min(count, most - seen)
        if left <= 0:
            complete = False
            break
        for name in names:
            values = batch[name][:left]
            size += _bytes(values)
            gathered[name].add(values)
        seen += left
        bar.show(seen, total)
        if left < count or (bytes_max is not None and size >= bytes_max):
            # Whether this was the end is not known without reading on.
            complete = False
            break
    bar.end()
    found = {name: one.result(name, shares, top) for name, one in gathered.items()}
    return Statistics(found, seen, complete, size)


def _total(dataset: Dataset, most: int | None) -> int:
    """Returns the number of rows that will be read at most; 0 if it is not known."""
    count = dataset._pipeline.cardinality() or 0
    rows = max(0, count) * (dataset.schema.batch_size or 1)
    return min(most or rows, rows or most or 0)


def _batches(dataset: Dataset, options: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yields columns of some rows, and the number of the rows."""
    schema = dataset.schema
    if schema.batch_size is None and not any(None in column.shape for column in schema.values()):
        dataset = dataset.batch(_batch_rows(dataset, options))
    elif schema.batch_size is None:
        yield from _of_samples(dataset, options)
        return
    with dataset.iter(**options) as batches:
        for batch in batches:
            yield batch, len(next(iter(batch.values())))


def _batch_rows(dataset: Dataset, options: dict[str, Any]) -> int:
    """Returns how many rows of the size of the first ones fit into a batch."""
    with dataset.iter(**{**options, "threads": 1}) as samples:
        sizes = [sum(_bytes_of(value) for value in row.values()) for row, _ in zip(samples, range(_LOOK), strict=False)]
    mean = max(1.0, sum(sizes) / len(sizes)) if sizes else 1.0
    return max(1, min(_BATCH_ROWS, math.floor(_BATCH_BYTES / mean)))


def _of_samples(dataset: Dataset, options: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Collects single samples, because rows of different shapes make no batch."""
    rows: list[dict[str, Any]] = []
    size = 0
    with dataset.iter(**options) as samples:
        for row in samples:
            rows.append(row)
            size += sum(_bytes_of(value) for value in row.values())
            if size >= _BATCH_BYTES or len(rows) >= _BATCH_ROWS:
                yield _columns(rows)
                rows, size = [], 0
    if rows:
        yield _columns(rows)


def _columns(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], int]:
    return {name: [row[name] for row in rows] for name in rows[0]}, len(rows)


def _bytes(values: Any) -> int:
    if isinstance(values, np.ndarray) and values.dtype != np.object_:
        return int(values.nbytes)
    return sum(_bytes_of(value) for value in values)


def _bytes_of(value: Any) -> int:
    if isinstance(value, (np.ndarray, np.generic)):
        return int(value.nbytes)
    return 0 if value is None else len(value)
