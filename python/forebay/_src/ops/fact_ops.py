"""Facts of a dataset: its columns, its length and id, the order of its ops, and how well it is shuffled."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Literal, cast

from forebay import _native
from forebay._src import arguments
from forebay._src.command_line import quality
from forebay._src.command_line.quality import ShuffleQuality
from forebay._src.ops.base import Base
from forebay._src.reorder import Order, reordered
from forebay._src.schema import Schema
from forebay.errors import ForebayError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: Sources whose samples are counted by reading all their bytes.
_UNCOUNTED = ("tar", "tfrecord", "text", "jsonl", "json", "csv")


def _uncounted(source: dict[str, Any]) -> str | None:
    """Returns the kind of a source whose samples are not counted, or of one that it is combined of."""
    parts = (_uncounted(part["graph"]["source"]) for part in source.get("parts", []))
    kind = str(source["source"])
    return kind if kind in _UNCOUNTED else next((found for found in parts if found is not None), None)


def uncounted(pipeline: _native.Pipeline) -> str | None:
    """Returns the kind of source of a pipeline, if its samples are counted only by reading all files."""
    return _uncounted(json.loads(pipeline.to_json())["source"])


class FactOps(Base):
    """Describes a dataset, and chooses the order of its ops by measurement."""

    __slots__ = ()

    @property
    def schema(self) -> Schema:
        """The columns of a sample: names, dtypes, shapes. Known before anything runs."""
        return Schema._of(self._pipeline.schema, self._pipeline.batch_size, self._pipeline.times)

    @property
    def cardinality(self) -> int | float | None:
        """The number of batches (or samples) of an epoch; `math.inf` if endless, `None` if a filter decides.

        Forebay counts files when it needs the number.
        """
        count = self._pipeline.cardinality()
        return math.inf if count == -1 else count

    def __len__(self) -> int:
        """Returns the number of batches (or samples) of an epoch.

        Raises:
            TypeError: There is no end; or the number is known only when the samples are computed, or when all files are
                read, which `cardinality` does.

        >>> import forebay as fb
        >>> len(fb.range(10).batch(4))
        3
        """
        # `list(dataset)` and progress bars call this first, and must not read the files twice.
        source = uncounted(self._pipeline)
        if source is not None:
            raise TypeError(f"this dataset has no length: the files of {source} are not counted; `cardinality` does it")
        try:
            count = self.cardinality
        except ForebayError as error:
            raise TypeError(f"this dataset has no length: {error.message}") from error
        if count is None:
            raise TypeError("this dataset has no length: how much there is shows when it is computed")
        if count == math.inf:
            raise TypeError("this dataset has no length: an epoch of it never ends; take() ends it")
        return int(count)

    @property
    def dataset_id(self) -> str:
        """The id of the dataset: the same pipeline has the same id on every machine."""
        return self._pipeline.dataset_id

    def optimize(self, *, samples: int = 256, order: Literal["exact", "relaxed"] = "exact") -> Dataset:
        """Returns the same dataset in the order of row ops that is fastest here by measurement.

        Runs the ops on the first `samples` samples, each op by itself, and chooses the cheapest order of row ops by the
        measured cost of each op and the share of rows that each filter keeps. The dataset uses the new order if it
        yields the same bytes on these samples and is at least 3 % faster; else it runs as written. `explain()` shows
        the order, and how much faster it is.

        With `order="relaxed"` it also tries orders whose samples differ but have the same distribution. It uses one if
        on these samples the shapes and dtypes, and of each column the mean and the deviation, equal those of the order
        as written, and if it is 3 % faster than the best order of the same bytes. Such an order is part of the returned
        dataset, and of its id when it is iterated with `order="relaxed"`. Measure once and pass on that dataset (it
        pickles), because two machines may find two orders, which are two datasets.

        Every worker of a service runs this order. It applies to iterations with the same `order=`; ops that are added
        later run behind it.

        Args:
            samples: How many samples to measure on.
            order: Which orders to try, as for `iter`.

        >>> import forebay as fb
        >>> ds = fb.range(1000).map(lambda row: {"square": row["id"] ** 2}, reads=["id"], writes=["square"])
        >>> ds = ds.filter(fb.col("id") % 50 == 0)
        >>> [row["square"] for row in ds.optimize()] == [row["square"] for row in ds.iter(order="off")]
        True
        """
        count = arguments.whole(samples, "optimize", "samples", 1, 2**20)
        mode = arguments.choice(order, "optimize", "order", "exact", "relaxed")
        return cast("Dataset", type(self)(self._pipeline.optimize(mode, count)))

    def explain(
        self,
        *,
        splits: bool = True,
        consumers: int = 1,
        even: bool | None = None,
        coordinated: bool = False,
        order: Order = "exact",
    ) -> str:
        """Returns the pipeline as written, the order in which it runs, and the splits of an epoch.

        If ops run in another order than written, it shows the order, the reason, and the estimated saving.

        Args:
            splits: Whether to show the splits of an epoch; files are listed, and counted if need be.
            consumers: The number of consumers.
            even: As for `iter`.
            coordinated: As for `iter`.
            order: As for `iter`.
        """
        count = arguments.whole(consumers, "explain", "consumers", 1, 2**20)
        pipeline = reordered(self._pipeline, order, "explain")
        return pipeline.explain(
            arguments.flag(splits, "explain", "splits"),
            count,
            arguments.flag_or_none(even, "explain", "even"),
            arguments.flag(coordinated, "explain", "coordinated"),
        )

    def shuffle_quality(
        self,
        *,
        seed: int = 0,
        epoch: int = 0,
        batch: int | None = None,
        batches: int | None = None,
        label: str | None = None,
        id: str | None = None,
    ) -> ShuffleQuality:
        """Returns figures of how well an epoch is shuffled; `print` them. `forebay quality` does so for a script.

        Reads the source twice, in its own order and in the shuffled one, and only the columns that it needs. It leaves
        out the ops that compute, filter, pack or repeat rows; so nothing is decoded, and batches contain rows in the
        order of the shuffle.

        Args:
            seed: As for `iter`.
            epoch: As for `iter`.
            batch: Rows of a batch. Default: the size given to `batch()`, or 64.
            batches: The number of batches of the shuffled epoch to read. Default: all.
            label: A column of the source; the figures include its runs of the same value.
            id: A column of the source that identifies a row. Default: `__key__` of tar shards, `path` of files, else
                all columns together.

        Raises:
            NotFoundError: The source has no such column.
            InvalidPipelineError: Too many rows are alike in these columns.

        >>> import forebay as fb
        >>> print(fb.range(10_000).shuffle().batch(100).shuffle_quality(seed=1))
        10000 of 10000 rows, in batches of 100
          rows move by 0.33... of the epoch; a perfect shuffle: 0.333
          pairs of a batch from the same hundredth of the input: ... times as many as by chance
        """
        return quality.measure(cast("Dataset", self), **quality.options(seed, epoch, batch, batches, label, id))
