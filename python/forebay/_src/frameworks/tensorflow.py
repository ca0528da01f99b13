"""Datasets for `tf.data`: a generator of epochs with the signature of the schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from forebay._src.frameworks import for_torch
from forebay._src.frameworks.epoch_dataset import EpochDataset, EpochIterator, chosen
from forebay._src.ragged import Ragged
from forebay._src.schema import NUMBERS, Column, Schema
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset
    from forebay._src.service.service import Service


class _TfEpochs(EpochDataset):
    """The epochs behind a `tf.data.Dataset`."""

    _op = "to_tf"


def to_tf(
    dataset: Dataset, service: Service | str | None, columns: str | Iterable[str] | None, options: dict[str, Any]
) -> Any:
    """Returns the result of `Dataset.to_tf`."""
    dataset, parts = chosen(dataset, columns, "to_tf")
    _check_texts(dataset.schema)
    for_torch.check_missing(dataset.schema, "to_tf")
    for_torch.check_shapes(dataset.schema, "to_tf")
    epochs = _TfEpochs(dataset, service, options)
    found = generated(lambda: EpochIterator(epochs, _RaggedConverter(parts), 0), parts(signature(dataset.schema)))
    try:
        return found.apply(tf.data.experimental.assert_cardinality(len(epochs)))
    except TypeError:
        return found


class _RaggedConverter:
    """Makes the parts of a batch, with ragged columns as ragged tensors."""

    def __init__(self, parts: Callable[[dict[str, Any]], Any]) -> None:
        self._parts = parts

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        """Returns the parts."""
        return self._parts({name: _ragged(value) for name, value in batch.items()})


def _ragged(value: Any) -> Any:
    if not isinstance(value, Ragged):
        return value
    return tf.RaggedTensor.from_row_splits(value.values, value.offsets.astype(np.int64), validate=False)


def generated(iterate: Callable[[], Iterator[Any]], spec: Any) -> Any:
    """Returns a dataset over an iterator that each iteration makes."""
    found = tf.data.Dataset.from_generator(iterate, output_signature=spec)
    options = tf.data.Options()
    # It would share out the elements of each process once more.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return found.with_options(options)


def signature(schema: Schema) -> dict[str, Any]:
    """Returns the `tf.TensorSpec` of each column of a batch (or sample)."""
    rows = () if schema.batch_size is None else (None,)
    return {name: _spec(column, rows, name in schema.ragged) for name, column in schema.items()}


def _spec(column: Column, rows: tuple[None, ...], ragged: bool) -> Any:
    dtype = tf.dtypes.as_dtype(np.dtype(column.dtype)) if column.dtype in NUMBERS else tf.string
    shape = (*rows, *column.shape)
    return tf.RaggedTensorSpec(shape, dtype, ragged_rank=1) if ragged else tf.TensorSpec(shape, dtype)


def _check_texts(schema: Mapping[str, Column] | Schema) -> None:
    for name, column in schema.items():
        if column.dtype not in NUMBERS and column.shape:
            message = f"to_tf: column {name!r} is {column}, and lists of texts differ in length"
            hint = (
                f'join them: .with_column({name!r}, fb.col({name!r}).list.join(" ")); or leave it out: .drop({name!r})'
            )
            raise InvalidPipelineError(message, {"column": name, "hint": hint})
    for name in getattr(schema, "nullable", ()):
        if schema[name].dtype not in NUMBERS:
            message = f"to_tf: column {name!r} is {schema[name].dtype}, and may be missing, which no tensor holds"
            hint = f'fill it: .fill_null({name!r}, ""); or leave it out: .drop({name!r})'
            raise InvalidPipelineError(message, {"column": name, "hint": hint})
