"""Checks of `to_torch`, `to_jax` and their like, which fail at once: a loss function would fail later, less clearly."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from forebay._src.schema import NUMBERS, Schema
from forebay.errors import InvalidPipelineError

#: Options of PyTorch's loader, with the way to express each here.
LOADERS = {
    "shuffle": "put .shuffle() into the pipeline",
    "batch_size": "put .batch(n) into the pipeline",
    "drop_last": "put .batch(n, drop_remainder=True) into the pipeline",
    "collate_fn": "put a function behind .batch(n), with .map(fn)",
    "num_workers": "threads=n is the number of threads here; a service has workers",
    "pin_memory": 'write device="cuda", which pins and copies in the background, or pin=True',
    "prefetch_factor": "prefetch=n batches are copied to a device ahead of the loop",
}


def check_options(of: Callable[..., Any], options: Mapping[str, Any], op: str, own: Iterable[str]) -> None:
    """Refuses options that neither the iteration behind `op` takes nor `op` itself, whose parameters are `own`."""
    known = [name for name in inspect.signature(of).parameters if name not in ("self", "service")]
    for name in options:
        if name not in known:
            usage = LOADERS.get(name, f"it takes {', '.join([*own, *known])}")
            raise TypeError(f"{op}() got an unexpected keyword argument {name!r}; {usage}")


def check_missing(schema: Schema, op: str) -> None:
    """Refuses columns of numbers that may be missing, because a tensor cannot hold them. A missing float is NaN."""
    for name in schema.nullable:
        dtype = schema[name].dtype
        if dtype in NUMBERS and not dtype.startswith("float"):
            ways = [
                f"fill it: .fill_null({name!r}, 0), or default= of lookup",
                f"leave such rows out: .filter(~fb.col({name!r}).is_null())",
                'where it never is missing, say so: nullable=[] of from_parquet, or a schema without "?"',
            ]
            message = f"{op}: column {name!r} is {dtype}, and may be missing, which no tensor holds"
            raise InvalidPipelineError(message, {"column": name, "hint": "; ".join(ways)})


def check_shapes(schema: Schema, op: str, *, takes_ragged: bool = True) -> None:
    """Refuses columns whose rows have different shapes in one batch, because no tensor holds them."""
    if schema.batch_size is None:
        return
    for name, column in schema.items():
        if name in schema.ragged:
            if not takes_ragged:
                raise _ragged(op, name, str(column))
        elif column.dtype in NUMBERS and None in column.shape and name not in schema.padded:
            raise differing(op, name, str(column))


def _ragged(op: str, name: str, kind: str) -> InvalidPipelineError:
    ways = [
        f"pad it: .batch(n, pad={{{name!r}: 0}}, multiple_of=64) has few lengths",
        f"or leave it out: .drop({name!r})",
    ]
    message = f"{op}: column {name!r} is {kind}, and ragged: its arrays have another length in each batch"
    return InvalidPipelineError(message, {"column": name, "hint": "; ".join(ways)})


def differing(op: str, name: str, kind: str) -> InvalidPipelineError:
    """Returns the error for a column whose rows have different shapes in one batch."""
    ways = [
        "compute it before .batch(n, pad=0), which then pads it too",
        f"or leave it out: .drop({name!r})",
    ]
    message = f"{op}: column {name!r} is {kind}, and its rows have different shapes in one batch, which no tensor holds"
    return InvalidPipelineError(message, {"column": name, "hint": "; ".join(ways)})


def check_numbers(schema: Schema, op: str) -> None:
    """Refuses columns that are no numbers, and columns whose numbers may be missing."""
    for name, column in schema.items():
        if column.dtype not in NUMBERS:
            rest = [other for other, one in schema.items() if one.dtype in NUMBERS]
            ways = [f".drop({name!r})" if len(rest) != 1 else f"columns=({rest[0]!r},)"]
            if len(rest) > 1:
                ways.append(f"columns={tuple(rest)!r}")
            hint = f"leave it out: {' or '.join(ways)}; or make numbers of it: tokenize, decode_image, or map"
            message = f"{op}: column {name!r} is {column.dtype}, and arrays of numbers are needed"
            raise InvalidPipelineError(message, {"column": name, "hint": hint})
    check_missing(schema, op)
    check_shapes(schema, op, takes_ragged=False)
