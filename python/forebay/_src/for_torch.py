"""Checks of `to_torch`, which fail at once: a loader or a loss function would fail later, with less clear errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
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
    "pin_memory": "pin the tensors of a batch with their own pin_memory()",
}


def check_options(of: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuses options that the iteration behind `to_torch` does not take."""
    known = [name for name in inspect.signature(of).parameters if name not in ("self", "service")]
    for name in options:
        if name not in known:
            usage = LOADERS.get(name, f"it takes {', '.join(known)}")
            raise TypeError(f"to_torch() got an unexpected keyword argument {name!r}; {usage}")


def check_missing(schema: Schema) -> None:
    """Refuses columns of numbers that may be missing, because a tensor cannot hold them. A missing float is NaN."""
    for name in schema.nullable:
        dtype = schema[name].dtype
        if dtype in NUMBERS and not dtype.startswith("float"):
            ways = [
                f"fill it: .fill_null({name!r}, 0)",
                f"leave such rows out: .filter(~fb.col({name!r}).is_null())",
                'where it never is missing, say so: nullable=[] of from_parquet, or a schema without "?"',
            ]
            message = f"to_torch: column {name!r} is {dtype}, and may be missing, which no tensor holds"
            raise InvalidPipelineError(message, {"column": name, "hint": "; ".join(ways)})
