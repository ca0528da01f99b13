"""Runs the `normalize` at the end of a pipeline on a device, so that pixels travel and not floats."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import torch
from forebay import _native
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: For each layout that is not the order of the pixels, where it has the channels, from the end.
_CHANNELS = {"CHW": -3, "CTHW": -4}
#: Ops behind which a `normalize` gives the same values as before them: they change no value of a row.
_VALUES_UNCHANGED = frozenset({"batch", "select", "drop", "take", "skip", "repeat", "shard"})


class Finish:
    """The `normalize` ops that a device runs on batches of 8-bit pixels."""

    def __init__(self, ops: list[dict[str, Any]]) -> None:
        self._ops = ops
        #: For each op, its numbers as tensors on the device.
        self._numbers: list[tuple[Any, ...]] | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Returns the batch with the ops applied, on the device of its tensors and on the current stream."""
        pixels = [batch.get(op["column"]) for op in self._ops]
        if self._numbers is None:
            self._numbers = [_numbers(op, value) for op, value in zip(self._ops, pixels, strict=True)]
        made = dict(batch)
        for op, value, numbers in zip(self._ops, pixels, self._numbers, strict=True):
            if isinstance(value, torch.Tensor):
                made[op["column"]] = _normalized(value, op["layout"], *numbers)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the tensors out: each process makes its own."""
        return {"_ops": self._ops, "_numbers": None}


def divided(dataset: Dataset, device: str) -> tuple[Dataset, Finish]:
    """Returns the dataset without the `normalize` ops at its end, and these ops.

    Raises:
        InvalidPipelineError: There is none, or a later op needs its result.
    """
    graph = json.loads(dataset._pipeline.to_json())
    places = list(_at_the_end(graph["nodes"], dataset.schema))
    if not places:
        message = f'to_torch(finish_on="{device}"): the pipeline does not end with normalize'
        hint = (
            "only normalize runs on the device; write it last, before .batch(n), or leave finish_on= out. The columns "
            "that it is for must be among columns="
        )
        raise InvalidPipelineError(message, {"hint": hint})
    ops = [graph["nodes"].pop(place)["op"] for place in places]
    blobs = [blob for _, blob in sorted(dataset._pipeline.blobs())]
    return type(dataset)(_native.Pipeline.from_json(json.dumps(graph), blobs)), Finish(ops)


def _at_the_end(nodes: list[dict[str, Any]], columns: Collection[str]) -> Iterator[int]:
    """Yields the places of `normalize` ops of these columns after which no op changes a value, the last one first."""
    for place in range(len(nodes) - 1, -1, -1):
        op = nodes[place]["op"]
        if op["op"] == "normalize":
            if op["column"] in columns:
                yield place
        elif op["op"] not in _VALUES_UNCHANGED:
            return


def _numbers(op: dict[str, Any], like: Any) -> tuple[Any, ...]:
    """Returns 255 (of 16 bits 65535), mean and standard deviation as tensors that broadcast over the op's layout."""
    is_tensor = isinstance(like, torch.Tensor)
    device = like.device if is_tensor else None
    shape = (-1,) + (1,) * (-1 - _CHANNELS.get(op["layout"], -1))
    full = 65535.0 if is_tensor and like.dtype == torch.uint16 else 255.0
    lists = ([full], op["mean"], op["std"])
    return tuple(torch.tensor(numbers, dtype=torch.float32, device=device).reshape(shape) for numbers in lists)


def _normalized(pixels: Any, layout: str, full: Any, mean: Any, std: Any) -> Any:
    """Returns `(pixels / 255 - mean) / std` in float32, in the order of the engine's own operations.

    Each step is one rounded IEEE operation, so the values are the engine's to the bit. 255 is a tensor, because PyTorch
    multiplies by the reciprocal of a plain number.
    """
    pixels = pixels.movedim(-1, _CHANNELS.get(layout, -1))
    floats = pixels.to(torch.float32, memory_format=torch.contiguous_format)
    return floats.div_(full).sub_(mean).div_(std)
