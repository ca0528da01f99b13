"""Finds loaders of other libraries that change which rows a model sees.

A loader is recognised by the call stack when it requests an iterator or the first batch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from forebay.errors import InvalidPipelineError

#: The number of callers that are examined: a loader is a few calls away.
_DEPTH = 32


def sharding() -> tuple[str, int] | None:
    """Returns the library whose loader divides its input among its processes, and their number; `None` if none does.

    That is Accelerate, also under the Trainer of transformers and under TRL: one process reads for all
    (`DataLoaderDispatcher`), or each reads everything and keeps its part (`IterableDatasetShard`).
    """
    accelerate, trainer = sys.modules.get("accelerate.data_loader"), sys.modules.get("transformers.trainer_pt_utils")
    shards = _classes(accelerate, "IterableDatasetShard") + _classes(trainer, "IterableDatasetShard")
    dispatchers = _classes(accelerate, "DataLoaderDispatcher")
    for caller in _callers() if shards or dispatchers else ():
        who = caller if isinstance(caller, shards) else getattr(caller, "state", None)
        if isinstance(caller, shards + dispatchers) and (count := _processes(who)) > 1:
            return "Accelerate", count
    return None


def check_collation(dataset: object, is_batched: bool) -> None:
    """Refuses a `DataLoader` of PyTorch that makes batches of the batches of a dataset.

    A loader with a function of the user's for `collate_fn` is accepted: that function may unpack the batches.

    Raises:
        InvalidPipelineError: The dataset has batches, and the loader's `batch_size` is not `None`.
    """
    fetchers: Any = _classes(sys.modules.get("torch.utils.data._utils.fetch"), "_BaseDatasetFetcher")
    for caller in _callers() if is_batched and fetchers else ():
        makes_batches = isinstance(caller, fetchers) and caller.auto_collation and _stacks(caller.collate_fn)
        if makes_batches and _reads(caller.dataset, dataset):
            raise InvalidPipelineError(
                "the DataLoader makes batches of batches: the samples of this dataset are in batches already",
                {"hint": "write DataLoader(ds.batch(n).to_torch(), batch_size=None); or leave batch(n) out"},
            )


def _stacks(collate: Any) -> bool:
    """Returns whether a function that makes batches is one of PyTorch or transformers."""
    module = getattr(collate, "__module__", None) or type(collate).__module__
    return str(module).partition(".")[0] in ("torch", "transformers")


def _reads(outer: Any, dataset: object) -> bool:
    """Returns whether a dataset is another one, or a `Subset` of it."""
    subsets = _classes(sys.modules.get("torch.utils.data.dataset"), "Subset")
    inner: Any = outer
    while isinstance(inner, subsets):
        inner = getattr(inner, "dataset", None)
    return inner is dataset


def _processes(who: Any) -> int:
    return int(who.num_processes)


def prefetching() -> Any | None:
    """Returns the caller if it is an object that prefetches batches, which it has in `batches`.

    Lightning prefetches one batch from loaders without a length, and saves the loader's state as if it had been used.
    """
    fetchers = [
        fetcher
        for name in ("lightning.pytorch.loops.fetchers", "pytorch_lightning.loops.fetchers")
        for fetcher in _classes(sys.modules.get(name), "_PrefetchDataFetcher")
    ]
    callers = _callers() if fetchers else ()
    return next((caller for caller in callers if isinstance(caller, tuple(fetchers))), None)


def _classes(module: Any, name: str) -> tuple[type, ...]:
    found = getattr(module, name, None)
    return (found,) if isinstance(found, type) else ()


def _callers() -> Iterator[Any]:
    """Yields the objects whose methods are on the call stack, the nearest first."""
    frame = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame.f_back is None:
            return
        frame = frame.f_back
        # For other frames, reading the locals would cost a copy of them.
        if frame.f_code.co_varnames[:1] == ("self",):
            yield frame.f_locals.get("self")
