"""Data for Keras 3: an adapter that `fit`, `evaluate` and `predict` take as it is, with any backend.

Keras takes batches without telling which epoch it is in, and drops iterators: one that only showed a batch to build the
model, and one whose steps are limited. An epoch that was not finished begins again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from forebay._src import arguments
from forebay._src.frameworks import for_torch
from forebay._src.frameworks.epoch_dataset import EpochDataset, EpochIterator
from forebay.errors import InvalidPipelineError
from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset
    from forebay._src.service.service import Service

#: A name of a column, names, or names by the names of a model's inputs.
Part: TypeAlias = str | list[str] | dict[str, str]


def to_keras(
    dataset: Dataset,
    service: Service | str | None,
    x: str | Iterable[str] | Mapping[str, str],
    y: str | Iterable[str] | Mapping[str, str] | None,
    weight: str | None,
    options: dict[str, Any],
) -> KerasData:
    """Returns the result of `Dataset.to_keras`."""
    parts = [_part(x, "x")]
    if y is not None:
        parts.append(_part(y, "y"))
    if weight is not None:
        if y is None:
            hint = "give y=, too: Keras takes (x,), (x, y) or (x, y, weight)"
            raise InvalidPipelineError("to_keras: weight= belongs to targets, and there are none", {"hint": hint})
        parts.append(arguments.text(weight, "to_keras", "weight"))
    names = list(dict.fromkeys(name for part in parts for name in _names(part)))
    if list(dataset.schema) != names:
        dataset = dataset.select(*names)
    for_torch.check_numbers(dataset.schema, "to_keras")
    if dataset.schema.batch_size is None:
        hint = "put .batch(32) into the pipeline; batch_size= of fit() does nothing here"
        raise InvalidPipelineError("to_keras: Keras takes batches, and there are none", {"hint": hint})
    return KerasData(dataset, service, options, tuple(parts))


def _part(given: Any, name: str) -> Part:
    if isinstance(given, Mapping):
        arguments.mapping(given, "to_keras", name, f'{name}={{"input": "column"}}')
        return {key: arguments.text(column, "to_keras", name) for key, column in given.items()}
    return given if isinstance(given, str) else arguments.columns(given, "to_keras", name) or []


def _names(part: Part) -> list[str]:
    return [part] if isinstance(part, str) else list(part.values()) if isinstance(part, dict) else part


class KerasData(EpochDataset, DataAdapter):  # type: ignore[misc,unused-ignore]
    """Yields tuples of x, y and weights. Iterations are epochs, as `EpochDataset` describes."""

    _op = "to_keras"

    def __init__(
        self, dataset: Dataset, service: Service | str | None, options: dict[str, Any], parts: tuple[Part, ...]
    ) -> None:
        super().__init__(dataset, service, options)
        self._parts = parts
        #: Whether Keras takes batches of an epoch.
        self._is_open = False

    def __iter__(self) -> EpochIterator:
        """Returns an iterator over the epoch that comes next when its first batch is requested."""
        return _KerasIterator(self, self._structured, 0)

    def _structured(self, batch: Mapping[str, Any]) -> tuple[Any, ...]:
        def of(part: Part) -> Any:
            if isinstance(part, str):
                return batch[part]
            if isinstance(part, dict):
                return {key: batch[name] for key, name in part.items()}
            return tuple(batch[name] for name in part)

        return tuple(of(part) for part in self._parts)

    def get_numpy_iterator(self) -> Any:
        """Returns an iterator over an epoch."""
        return iter(self)

    def get_jax_iterator(self) -> Any:
        """Returns an iterator over an epoch; Keras moves its arrays to the devices."""
        return iter(self)

    def get_torch_dataloader(self) -> Any:
        """Returns a loader whose iterations are epochs."""
        return data_adapter_utils.get_torch_dataloader(self)

    def get_tf_dataset(self) -> Any:
        """Returns a `tf.data.Dataset` whose iterations are epochs."""
        from forebay._src.frameworks.tensorflow import generated, signature

        return generated(self.__iter__, self._structured(signature(self._source.schema)))

    @property
    def num_batches(self) -> int | None:
        """The number of batches of an epoch, if that is known."""
        try:
            return len(self)
        except TypeError:
            return None

    @property
    def batch_size(self) -> int | None:
        """The number of rows of a batch."""
        return self._source.schema.batch_size

    @property
    def has_partial_batch(self) -> bool | None:
        """Not known: the last batch may be short."""
        return None

    @property
    def partial_batch_size(self) -> int | None:
        """Not known."""
        return None

    def on_epoch_begin(self) -> None:
        """Notes that Keras begins to take batches."""
        self._is_open = True

    def on_epoch_end(self) -> None:
        """Returns to the beginning of an epoch of which Keras only looked at a batch: it is reset without an end."""
        if self._is_open and sys._getframe(1).f_code.co_name == "reset":
            self._begin_again()
        self._is_open = False

    def _begin_again(self) -> None:
        current: EpochIterator | None = self._current
        if current is not None:
            self._loaded, self.epoch, self._current = current._start, current._epoch, None

    def set_epoch(self, epoch: int) -> None:
        """As `EpochDataset.set_epoch`."""
        super().set_epoch(epoch)
        self._current = None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As `EpochDataset.load_state_dict`."""
        super().load_state_dict(state)
        self._current = None


class _KerasIterator(EpochIterator):
    """An epoch that has ended with its last batch, because Keras does not ask for the end if it knows the length."""

    _dataset: KerasData

    def _begin(self) -> None:
        current: _KerasIterator | None = self._dataset._current
        if current is not None and not current._is_complete():
            self._dataset._begin_again()
        super()._begin()

    def _is_complete(self) -> bool:
        return self._ended or (self._start is None and self._delivered == self._dataset.num_batches)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position behind the last batch."""
        self._ended = self._is_complete()
        return super().state_dict()
