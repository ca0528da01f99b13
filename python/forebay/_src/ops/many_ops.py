"""Ops that make any number of samples of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from forebay._src import arguments
from forebay._src.functions import python_functions
from forebay._src.ops.base import Base
from forebay._src.schema import to_fields
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: The most samples that a function may make of one sample.
_COUNT_MAX = 1 << 16


class ManyOps(Base):
    """Ops that make any number of samples of one."""

    __slots__ = ()

    def flat_map(
        self,
        fn: Callable[..., Any],
        *,
        reads: str | Iterable[str] | None = None,
        schema: Mapping[str, Any] | None = None,
        count: int | None = None,
        timeout: float = 60.0,
        version: str | int | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Calls a Python function on each sample, which returns or yields the samples that replace it.

        Each new sample is a dictionary of columns; there may be none. The function is called as that of `map` is.
        Without `count`, the number of samples is not known after this op, as after a `filter`: put `shuffle` and
        `cache` before it.

        The new samples keep the name of the old one. If one of them fails in a later op, and `on_error` skips it, all
        new samples of that old one are skipped. Later random ops draw for each new sample. One sample may become at
        most 65,536 samples, and 128 MiB.

        Args:
            fn: The function.
            reads: The columns that the function gets. Default: all.
            schema: The columns that it returns, as for `map`. Default: found by calling the function on the first four
                samples.
            count: The number of samples that it makes of each one; another number is an error of that sample. With
                `count`, the number of all samples is known, and they may be shuffled; batches that share a sample call
                the function again. Default: any number.
            timeout: Seconds that all samples of one may take, if the function runs in a separate process.
            version: As for `map`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Returns:
            The dataset with the returned columns alone.

        >>> import forebay as fb
        >>> def pieces(row):
        ...     for start in range(0, len(row["text"]), 3):
        ...         yield {"piece": row["text"][start : start + 3]}
        >>> ds = fb.from_dict({"text": ["forebay", "", "tide"]}).flat_map(pieces)
        >>> [row["piece"] for row in ds]
        ['for', 'eba', 'y', 'tid', 'e']
        """
        function, pickle = python_functions.described("flat_map", fn, reads, False, timeout, version)
        if count is not None:
            count = arguments.whole(count, "flat_map", "count", 1, _COUNT_MAX)
        if schema is not None:
            fields = to_fields(f"flat_map ({name})" if name else "flat_map", schema)
        elif self._pipeline.batch_size is not None:
            # The engine refuses `flat_map` on batches.
            fields = []
        else:
            fields = python_functions.probed(self._pipeline, "flat_map", function, pickle, name, makes_rows=True)
        op = {"op": "flat_map", "function": function, "output": fields, "count": count}
        return self._then(op, keep_position, name, pickle)

    def explode(self, *columns: str | Iterable[str], keep_position: bool = False, name: str | None = None) -> Dataset:
        """Makes a sample of each step of a list's, or a tensor's, first dimension; other columns are repeated.

        Several columns are exploded side by side. Their lengths must be equal in each sample; a difference is an error
        of the sample. An empty list makes no sample. A list is never missing here, though a number may be. As after
        `flat_map`, the number of samples is not known after this op.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"doc": ["a", "b"], "ids": [[1, 2], [3, 4]]}).explode("ids")
        >>> [(row["doc"], int(row["ids"])) for row in ds]
        [('a', 1), ('a', 2), ('b', 3), ('b', 4)]
        """
        names = [column for given in columns for column in arguments.columns(given, "explode", "columns") or []]
        return self._then({"op": "explode", "columns": names}, keep_position, name)

    def unbatch(self, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Makes a sample of each step of the first dimension of all columns, as tf.data's `unbatch`.

        For sources whose samples are batches: all columns are tensors with equal first dimensions. It does not undo
        `batch`, which is the last op on samples: where `batch(n).map(fn).unbatch()` makes a function work on many
        samples at once in tf.data, `map(fn, batched=True)` does so here.

        >>> import numpy as np
        >>> import forebay as fb
        >>> ds = fb.from_numpy({"x": np.arange(6).reshape(2, 3), "y": np.ones((2, 3, 4))}).unbatch()
        >>> ds.schema
        Schema(x: int64, y: float64[4])
        >>> [int(row["x"]) for row in ds]
        [0, 1, 2, 3, 4, 5]
        """
        if self._pipeline.batch_size is not None:
            hint = (
                "leave batch and unbatch out: samples come one by one without them. A function of many samples at once "
                "is map(fn, batched=True) before batch; one that makes another number of samples is flat_map(fn), "
                "or window(n).flat_map(fn) for n samples"
            )
            raise InvalidPipelineError("unbatch comes after batch", {"hint": hint})
        return self.explode(
            [column for column, *_ in self._pipeline.schema], keep_position=keep_position, name=name or "unbatch"
        )
