"""Columns of lists of different lengths, as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from forebay._src.ragged import Ragged


class TorchRagged(Ragged):
    """A `Ragged` of tensors: `values` and `offsets` go to devices together, as a tensor would."""

    __slots__ = ()

    def __init__(self, values: Any, offsets: Any) -> None:
        # No check, which would wait for the device.
        self.values, self.offsets = values, offsets

    @property
    def device(self) -> torch.device:
        """The device of both tensors."""
        found: torch.device = self.values.device
        return found

    def to(self, *to: Any, non_blocking: bool = False, **options: Any) -> TorchRagged:
        """Returns lists on another device, or of another dtype, as `torch.Tensor.to`. Offsets keep their dtype."""
        values = self.values.to(*to, non_blocking=non_blocking, **options)
        return TorchRagged(values, self.offsets.to(values.device, non_blocking=non_blocking))

    def pin_memory(self) -> TorchRagged:
        """Returns lists in pinned memory."""
        return TorchRagged(self.values.pin_memory(), self.offsets.pin_memory())

    def record_stream(self, stream: Any) -> None:
        """Says that a stream uses both tensors."""
        self.values.record_stream(stream)
        self.offsets.record_stream(stream)

    def to_nested(self) -> torch.Tensor:
        """Returns a nested tensor with the layout `torch.jagged` over the same memory."""
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)

    def numpy(self) -> Ragged:
        """Returns lists of NumPy, over the same memory if that is the host's."""
        return Ragged(self.values.numpy(force=True), self.offsets.numpy(force=True))

    def copy(self) -> TorchRagged:
        """Returns lists in memory of their own."""
        return TorchRagged(self.values.clone(), self.offsets.clone())

    def _full(self, shape: tuple[int, ...], value: float) -> torch.Tensor:
        filled: torch.Tensor = self.values.new_full(shape, value)
        return filled

    def _arange(self, stop: int) -> torch.Tensor:
        return torch.arange(stop, device=self.device)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Returns an array of objects, as `Ragged` does."""
        return self.numpy().__array__(dtype, copy)

    def __arrow_array__(self, type: Any = None) -> Any:
        """Returns a `pyarrow.ListArray`."""
        return self.numpy().__arrow_array__(type)
