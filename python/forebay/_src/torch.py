"""Datasets for PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from forebay.errors import InvalidPipelineError


def torch_dataset(iterate: Callable[..., Iterator[dict[str, Any]]], options: Mapping[str, Any]) -> Any:
    """Makes an iterable dataset whose n-th iteration is the n-th epoch."""
    import torch
    from torch.utils.data import IterableDataset, get_worker_info

    class TorchDataset(IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]
        """Yields dictionaries of tensors; what is no number stays as it is."""

        def __init__(self) -> None:
            self.epoch = int(options.get("epoch", 0))

        def __iter__(self) -> Iterator[dict[str, Any]]:
            if get_worker_info() is not None:
                raise InvalidPipelineError(
                    "the DataLoader has worker processes, and Forebay has its own threads",
                    {"hint": "use num_workers=0"},
                )
            epoch, self.epoch = self.epoch, self.epoch + 1
            for batch in iterate(**{**options, "epoch": epoch}):
                yield {name: _tensor(torch, value) for name, value in batch.items()}

    return TorchDataset()


def _tensor(torch: Any, value: Any) -> Any:
    """Shares memory where the array is ours alone; copies what is read-only."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ma.MaskedArray) or not isinstance(value, np.ndarray) or value.dtype == object:
        return value
    return torch.from_numpy(value if value.flags.writeable else value.copy())
