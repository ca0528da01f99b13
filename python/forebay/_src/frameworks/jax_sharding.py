"""Shardings of JAX for the columns of a batch: which part of a batch this process has, and whether batches divide."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from forebay._src import arguments
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: Ops of batches that may make a short last one.
_BATCHES = ("batch", "padded_batch")


class Shardings:
    """The sharding of each column, checked against the dataset."""

    def __init__(self, given: Any, dataset: Dataset) -> None:
        schema = dataset.schema
        self._given = _by_column(given, list(schema))
        self._rows = schema.batch_size
        if self._rows is None:
            hint = "put .batch(n, drop_remainder=True) into the pipeline"
            raise InvalidPipelineError("to_jax: sharding= divides batches, and there are none", {"hint": hint})
        _check_full(dataset, self._rows)
        #: For each column, the places along its first dimension that the devices of each process have.
        parts = {name: _parts(name, one, 1 + len(schema[name].shape)) for name, one in self._given.items()}
        first = next(iter(parts))
        for name, found in parts.items():
            if found != parts[first]:
                what = (
                    f"to_jax: sharding= deals the rows of {name!r} to processes in another way than those of {first!r}"
                )
                raise InvalidPipelineError(what, {"hint": "shard the first dimension of all columns in the same way"})
        self._consumers, here = _share(parts[first])
        if self._rows % here:
            hint = f"batch(n) is what each process reads: a multiple of {here}"
            what = f"to_jax: batches of {self._rows} rows do not divide among {here} devices of this process"
            raise InvalidPipelineError(what, {"hint": hint})

    def consumers(self) -> tuple[int, int]:
        """Returns the place of this process's part among the parts of a batch, and their number."""
        return self._consumers

    def of(self, name: str, array: np.ndarray[Any, Any]) -> jax.sharding.Sharding:
        """Returns the sharding of a column.

        Raises:
            InvalidPipelineError: The batch is not full, so processes could have parts of different lengths.
        """
        if len(array) != self._rows:
            hint = 'put .batch(n, drop_remainder=True) last, or .batch(n, pad_last=True, valid="valid")'
            what = f"to_jax: a batch has {len(array)} rows and not {self._rows}, so devices would have unequal parts"
            raise InvalidPipelineError(what, {"column": name, "hint": hint})
        return self._given[name]


def _by_column(given: Any, columns: list[str]) -> dict[str, jax.sharding.Sharding]:
    by_name = given if isinstance(given, Mapping) else dict.fromkeys(columns, given)
    if missing := [name for name in columns if name not in by_name]:
        hint = "give one sharding for all, or one for each column by name; columns= leaves columns out"
        raise InvalidPipelineError(f"to_jax: sharding= has none for column {missing[0]!r}", {"hint": hint})
    for name in columns:
        if not isinstance(by_name[name], jax.sharding.Sharding):
            hint = 'jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data")), for example'
            what = f"to_jax: sharding={arguments.shown(by_name[name])} is no sharding"
            raise InvalidPipelineError(what, {"hint": hint})
    return {name: by_name[name] for name in columns}


def _check_full(dataset: Dataset, rows: int) -> None:
    """Refuses a pipeline whose last batch may be short."""
    nodes = [node["op"] for node in json.loads(dataset._pipeline.to_json())["nodes"]]
    op = next((op for op in reversed(nodes) if op["op"] in _BATCHES), None)
    if op is not None and not op.get("drop_remainder") and not op.get("valid"):
        hint = f'batch({rows}, drop_remainder=True), or batch({rows}, pad_last=True, valid="valid") with a mask'
        what = "to_jax: with sharding= all batches have the same length, and the last one of batch() may be shorter"
        raise InvalidPipelineError(what, {"hint": hint})


def _parts(name: str, sharding: jax.sharding.Sharding, dimensions: int) -> dict[int, tuple[int, ...]]:
    """Returns, for each process, where the parts of its devices begin along the first dimension.

    The shape for which the sharding is asked has a size that every number of parts divides.
    """
    size = len(sharding.device_set)
    try:
        places = sharding.devices_indices_map((size,) * dimensions)
    except (ValueError, TypeError, IndexError) as error:
        hint = "a PartitionSpec has at most as many entries as the batch has dimensions; sharding= takes one by column"
        context = {"column": name, "cause": str(error).splitlines()[0], "hint": hint}
        raise InvalidPipelineError(f"to_jax: sharding= does not fit column {name!r}", context) from None
    begins: dict[int, set[int]] = {}
    for device, index in places.items():
        begins.setdefault(device.process_index, set()).add((index or (slice(None),))[0].start or 0)
    return {process: tuple(sorted(found)) for process, found in begins.items()}


def _share(parts: dict[int, tuple[int, ...]]) -> tuple[tuple[int, int], int]:
    """Returns this process's place among the parts of processes and their number, and its number of parts."""
    mine = parts.get(jax.process_index())
    if mine is None:
        hint = "use a mesh over jax.devices(), or iterate only in the processes that have devices of it"
        raise InvalidPipelineError("to_jax: sharding= has no device of this process", {"hint": hint})
    shares = sorted(set(parts.values()))
    if sum(map(len, shares)) != len(set().union(*shares)):
        hint = "order the mesh so that two processes have the same rows or none in common"
        raise InvalidPipelineError("to_jax: sharding= gives processes parts that overlap", {"hint": hint})
    return (shares.index(mine), len(shares)), len(mine)
