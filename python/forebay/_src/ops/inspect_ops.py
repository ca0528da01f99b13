"""Inspects a dataset before and during training: its statistics, its samples in notebooks, its cost for training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from forebay._src.describe.read import describe
from forebay._src.describe.result import Statistics
from forebay._src.iteration.headspace import Headspace, headspace
from forebay._src.ops.base import Base

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class InspectOps(Base):
    """Methods that read samples and describe them."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The columns and the first samples with pictures, for notebooks; computed when it is shown, within 2 s."""
        from forebay._src.preview.preview import notebook

        return notebook(cast("Dataset", self))

    def describe(
        self,
        columns: str | Iterable[str] | None = None,
        *,
        rows: int | None = None,
        quantiles: Iterable[float] = (0.25, 0.5, 0.75),
        top: int = 10,
        seed: int = 0,
        epoch: int = 0,
        threads: int = 0,
    ) -> Statistics:
        """Reads the samples of an epoch and returns the statistics of their columns; `print` shows a table.

        Missing values, mean, deviation, extremes and quantiles of numbers (of tensors: of all their numbers), the most
        frequent texts, bytes, whole numbers and booleans, and the sizes of texts, bytes and tensors. The result depends
        on the samples and their order, never on threads. The memory is bounded: `quantile_error` and `top_error` of a
        column say how exact its quantiles and counts are.

        `stats["image"].pixels` has the arguments of `normalize`, and `stats["label"].values` a vocabulary.

        Args:
            columns: The columns to describe; others are not even read. Default: all.
            rows: The most samples to read. Default: all.
            quantiles: Shares from 0.0 to 1.0.
            top: How many of the most frequent values to return.
            seed: As for `iter`.
            epoch: As for `iter`.
            threads: As for `iter`.

        Raises:
            NotFoundError: There is no such column.
            InvalidPipelineError: An epoch never ends, and `rows` is not given.

        >>> import forebay as fb
        >>> stats = fb.from_dict({"x": [1.0, 2.0, None, 6.0], "kind": ["a", "b", "a", "a"]}).describe()
        >>> stats["x"].count, stats["x"].nulls, stats["x"].mean, stats["x"].quantiles[0.5]
        (3, 1, 3.0, 2.0)
        >>> stats["kind"].top
        (('a', 3), ('b', 1))
        >>> print(stats)
        all 4 rows
          column  type      nulls  mean  std    min  25 %  50 %  75 %  max  distinct  values
          x       float64?  1      3     2.646  1    1.5   2     4     6              such as 1
          kind    string    0                                               2         1 characters each; a (3), b (1)
        """
        return describe(
            cast("Dataset", self),
            columns,
            rows=rows,
            quantiles=quantiles,
            top=top,
            seed=seed,
            epoch=epoch,
            threads=threads,
        )

    def headspace(
        self,
        step: Callable[[dict[str, Any]], Any],
        *,
        seconds: float = 10.0,
        keep: int = 32,
        seed: int = 0,
        epoch: int = 0,
        threads: int = 0,
    ) -> Headspace:
        """Says how fast training could be if data cost nothing; `print` shows a sentence.

        Runs `step` on batches as the pipeline computes them, and then on the first of these batches again and again.
        The first two steps are not measured, because frameworks compile in them. The method waits for steps of PyTorch
        on a GPU. With JAX, let the step call `block_until_ready`.

        Args:
            step: Trains on one batch. It changes your model.
            seconds: How long to measure, a half for each.
            keep: The most batches to keep; they take at most 1 GiB.
            seed: As for `iter`.
            epoch: The first epoch; when it is over, the next one follows.
            threads: As for `iter`.

        >>> import forebay as fb
        >>> found = fb.range(1000).batch(100).headspace(lambda batch: batch["id"].sum(), seconds=0.1)
        >>> found.batches > 0, found.factor > 0
        (True, True)
        """
        return headspace(
            cast("Dataset", self), step, seconds=seconds, keep=keep, seed=seed, epoch=epoch, threads=threads
        )
