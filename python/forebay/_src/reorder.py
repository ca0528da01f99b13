"""How much the order in which ops run may differ from the order in which they were written."""

from __future__ import annotations

from typing import Literal, TypeAlias

from forebay import _native
from forebay._src import arguments

#: The values of `order=`.
Order: TypeAlias = Literal["exact", "relaxed", "off"]


def reordered(pipeline: _native.Pipeline, order: Order, op: str) -> _native.Pipeline:
    """Returns the pipeline with the order that the user gave to `op`."""
    return pipeline.reorder(arguments.choice(order, op, "order", "exact", "relaxed", "off"))
