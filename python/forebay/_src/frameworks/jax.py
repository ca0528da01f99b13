"""Datasets for JAX: global or local arrays on devices, a few batches ahead of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from forebay._src import arguments
from forebay._src.frameworks import for_torch
from forebay._src.frameworks.epoch_dataset import AHEAD_MAX, EpochDataset, EpochIterator, chosen
from forebay._src.frameworks.jax_sharding import Shardings
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset
    from forebay._src.service.service import Service

#: The integers that JAX has where it has none of 64 bits.
_NARROW = {"int64": np.dtype("int32"), "uint64": np.dtype("uint32")}


def to_jax(
    dataset: Dataset,
    service: Service | str | None,
    sharding: Any,
    prefetch: int,
    columns: str | Iterable[str] | None,
    options: dict[str, Any],
) -> JaxDataset:
    """Returns the result of `Dataset.to_jax`."""
    ahead = arguments.whole(prefetch, "to_jax", "prefetch", 0, AHEAD_MAX)
    dataset, parts = chosen(dataset, columns, "to_jax")
    for_torch.check_numbers(dataset.schema, "to_jax")
    shardings = None if sharding is None else Shardings(sharding, dataset)
    return JaxDataset(dataset, service, options, shardings, ahead, parts)


class JaxDataset(EpochDataset):
    """Yields dictionaries of JAX arrays (or tuples, or arrays). Iterations are epochs, as `EpochDataset` describes."""

    _op = "to_jax"

    def __init__(
        self,
        dataset: Dataset,
        service: Service | str | None,
        options: dict[str, Any],
        shardings: Shardings | None,
        ahead: int,
        parts: Callable[[dict[str, Any]], Any],
    ) -> None:
        # Before the base class, which may ask for the ranks.
        self._shardings, self._ahead, self._parts = shardings, ahead, parts
        super().__init__(dataset, service, options)

    def _ranks(self) -> tuple[int, int]:
        if self._shardings is not None:
            return self._shardings.consumers()
        return jax.process_index(), jax.process_count()

    def __iter__(self) -> EpochIterator:
        """Returns an iterator over the epoch that comes next when its first batch is requested."""
        return EpochIterator(self, self._converted, self._ahead)

    def _converted(self, batch: Mapping[str, Any]) -> Any:
        return self._parts({name: self._array(name, value) for name, value in batch.items()})

    def _array(self, name: str, value: Any) -> jax.Array:
        array = _narrowed(name, np.asarray(value))
        if self._shardings is None:
            return jax.device_put(array)
        return jax.make_array_from_process_local_data(self._shardings.of(name, array), array)


def _narrowed(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns integers as JAX would make them, if that changes no value."""
    narrow = _NARROW.get(array.dtype.name)
    if narrow is None or jax.config.read("jax_enable_x64"):
        return array
    limits = np.iinfo(narrow)
    if array.size and not (limits.min <= array.min() and array.max() <= limits.max):
        hint = (
            'write jax.config.update("jax_enable_x64", True) before the first array; or cast the column, or leave it '
            "out by columns="
        )
        what = f"to_jax: column {name!r} has a value that {narrow} does not hold, and JAX has no 64 bits here"
        raise InvalidPipelineError(what, {"column": name, "hint": hint})
    return array.astype(narrow)
