"""Warns of an iteration that had nothing, because no batch, window or packed row was full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay._src.site import warn

if TYPE_CHECKING:
    from forebay import _native

#: The ops that may leave out what is not full, and what each makes.
_MAKES = {
    "batch": "batch",
    "batch_by_key": "batch",
    "bucket_by_length": "batch",
    "pack": "row",
    "padded_batch": "batch",
    "window": "window",
}


class NoBatchesWarning(UserWarning):
    """An iteration ended without a batch: `drop_remainder=True` leaves out what is not full, and nothing was full.

    `warnings.simplefilter("error", fb.NoBatchesWarning)` makes it an error.
    """


def note_empty(pipeline: _native.Pipeline) -> None:
    """Warns if a pipeline that delivered nothing leaves out batches, windows or packed rows that are not full."""
    for op, _, line in pipeline.outline():
        made = _MAKES.get(op.partition("(")[0])
        if made is not None and "drop_remainder=True" in op:
            place = f" ({line})" if line else ""
            message = (
                f"the iteration ended without a batch: {op}{place} leaves out each {made} that is not full, and none "
                "was (use a smaller size, or leave drop_remainder out)"
            )
            warn(message, NoBatchesWarning)
            return
