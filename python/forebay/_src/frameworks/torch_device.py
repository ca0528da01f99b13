"""Moves batches of tensors to a device, a few ahead of the loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from forebay._src import arguments
from forebay._src.frameworks.epoch_dataset import AHEAD_MAX
from forebay._src.frameworks.torch_ragged import TorchRagged
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.frameworks.torch_finish import Finish


class Mover:
    """The device that the tensors of batches go to.

    For a CUDA device, tensors are pinned and copied on a stream of their own, so that copies and kernels overlap. A
    batch is handed out when the current stream waits for its copy.
    """

    def __init__(self, device: Any, pin: bool | None, prefetch: int, finish_on: Any = None) -> None:
        self.device = None if device is None else _device(device, "device")
        if finish_on is not None:
            self._set_device_of_finish(_device(finish_on, "finish_on"))
        is_cuda = self.device is not None and self.device.type == "cuda"
        self.pin = is_cuda if pin is None else pin
        if self.pin and not torch.cuda.is_available():
            hint = "leave pin= out; tensors are pinned for copies to a CUDA device"
            raise InvalidPipelineError("to_torch: pin=True, and PyTorch finds no CUDA device", {"hint": hint})
        most = arguments.whole(prefetch, "to_torch", "prefetch", 0, AHEAD_MAX)
        #: The number of batches that are copied before they are requested. In host memory, none waits twice.
        self.ahead = most if is_cuda else 0
        self._is_cuda = is_cuda
        self._stream: Any = None
        #: The ops that run on the device.
        self.finish: Finish | None = None

    def _set_device_of_finish(self, wanted: Any) -> None:
        if self.device is None:
            self.device = wanted
        same = wanted.index is None or wanted.index == self.device.index
        if wanted.type != self.device.type or not same:
            message = f'to_torch: finish_on="{wanted}" is another device than device="{self.device}"'
            hint = "ops finish where the batches go: leave device= out, or write the same device"
            raise InvalidPipelineError(message, {"hint": hint})

    def moved(self, batches: Iterator[dict[str, Any]], ahead: int, moving: deque[Any]) -> Iterator[dict[str, Any]]:
        """Yields the batches on the device; `moving` holds the batches whose copies have begun."""
        if self.device is None and not self.pin:
            return batches
        return self._ahead(batches, ahead, moving) if self._is_cuda else map(self._copied, batches)

    def _ahead(self, batches: Iterator[dict[str, Any]], ahead: int, moving: deque[Any]) -> Iterator[dict[str, Any]]:
        end: Exception | None = None
        reads = 1
        while True:
            for _ in range(reads):
                if end is None and len(moving) <= ahead:
                    try:
                        moving.append(self._sent(next(batches)))
                    except StopIteration:
                        end = StopIteration()
                    except Exception as error:
                        end = error
            if not moving:
                if end is None or isinstance(end, StopIteration):
                    return
                raise end
            # The first batch comes as soon as possible; then each call reads up to two.
            reads = 2
            yield self._arrived(*moving.popleft())

    def _sent(self, batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Begins the copy of a batch; returns the batch, and the event that follows the copy."""
        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self._stream):
            copied = self._copied(batch)
            return copied, self._stream.record_event()

    def _arrived(self, batch: dict[str, Any], event: Any) -> dict[str, Any]:
        current = torch.cuda.current_stream(self.device)
        current.wait_event(event)
        for value in batch.values():
            if isinstance(value, (torch.Tensor, TorchRagged)):
                # The memory was allocated on the other stream, and may be reused only after the kernels of this stream.
                value.record_stream(current)
        return batch

    def _copied(self, batch: dict[str, Any]) -> dict[str, Any]:
        moved = {name: self._one(value) for name, value in batch.items()}
        return moved if self.finish is None else self.finish(moved)

    def _one(self, value: Any) -> Any:
        if not isinstance(value, (torch.Tensor, TorchRagged)):
            return value
        if self.pin:
            value = value.pin_memory()
        return value if self.device is None else value.to(self.device, non_blocking=self.pin)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the stream out: each process has its own."""
        return {**self.__dict__, "_stream": None}


def _device(device: Any, argument: str) -> Any:
    """Returns the device of an argument; refuses a CUDA device that this machine has not."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        hint = 'write "cuda", "cuda:0" or "cpu", or give a torch.device'
        message = f"to_torch: {argument}={arguments.shown(device)} is no device"
        raise InvalidPipelineError(message, {"cause": str(error).splitlines()[0], "hint": hint}) from None
    count = torch.cuda.device_count()
    if found.type == "cuda" and (found.index or 0) >= count:
        message = f'to_torch: {argument}="{found}" is absent: the number of CUDA devices that PyTorch finds is {count}'
        hint = "devices count from cuda:0; " if count else ""
        hint += 'write "cpu", or look at torch.cuda.is_available() and CUDA_VISIBLE_DEVICES'
        raise InvalidPipelineError(message, {"hint": hint})
    return found
