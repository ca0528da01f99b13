"""Datasets for PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.iterator import DatasetIterator


def torch_dataset(iterate: Callable[..., DatasetIterator], options: Mapping[str, Any]) -> Any:
    """Makes an iterable dataset whose n-th iteration is the n-th epoch."""
    import torch
    from torch.utils.data import IterableDataset, get_worker_info

    class TorchDataset(IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]
        """Yields dictionaries of tensors; what is no number stays as it is.

        The state is that of the iteration that began last: once it is loaded, the next iteration is the rest of that
        one, and those that follow are the epochs after it.
        """

        def __init__(self) -> None:
            self.epoch = int(options.get("epoch", 0))
            self._current: DatasetIterator | None = None
            self._loaded: Mapping[str, Any] | None = None

        def __iter__(self) -> Iterator[dict[str, Any]]:
            if get_worker_info() is not None:
                raise InvalidPipelineError(
                    "the DataLoader has worker processes, and Forebay has its own threads",
                    {"hint": "use num_workers=0"},
                )
            # Where this iteration begins is settled here, not when its first batch is asked for.
            batches, self._loaded = self._next(), None
            self._current, self.epoch = batches, self.epoch + 1
            return ({name: _tensor(torch, value) for name, value in batch.items()} for batch in batches)

        def _next(self) -> DatasetIterator:
            """The iteration that comes next, not begun."""
            batches = iterate(**{**options, "epoch": self.epoch})
            if self._loaded is not None:
                batches.load_state_dict(self._loaded)
            return batches

        def state_dict(self) -> dict[str, Any]:
            """Returns where the iteration is: numbers and strings, a few hundred bytes."""
            batches = self._next() if self._current is None or self._loaded is not None else self._current
            return {"first": self.epoch - (batches is self._current), **batches.state_dict()}

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            """Lets the next iteration go on from where `state_dict` was called."""
            rest = dict(state) if isinstance(state, Mapping) else {}
            first = rest.pop("first", None)
            if not isinstance(first, int):
                raise InvalidPipelineError(
                    "this is not a state of to_torch(): it has no first epoch",
                    {"hint": "give what state_dict() of such a dataset returned; to begin at the start, load nothing"},
                )
            self.epoch, self._loaded = first, rest
            self._next()

    return TorchDataset()


def _tensor(torch: Any, value: Any) -> Any:
    """Shares memory where the array is ours alone; copies what is read-only."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ma.MaskedArray) or not isinstance(value, np.ndarray) or value.dtype == object:
        return value
    return torch.from_numpy(value if value.flags.writeable else value.copy())
