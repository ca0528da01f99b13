"""Warns of an iteration that had no batch, because no batch was full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay._src.site import warn

if TYPE_CHECKING:
    from forebay import _native

#: The ops whose batches may be left out, as they begin in an outline.
_BATCHES = ("batch(", "batch_by_key(", "bucket_by_length(", "padded_batch(")


class NoBatchesWarning(UserWarning):
    """An iteration ended without a batch: `drop_remainder=True` leaves out batches that are not full, and none was.

    `warnings.simplefilter("error", fb.NoBatchesWarning)` makes it an error.
    """


def note_empty(pipeline: _native.Pipeline) -> None:
    """Warns if a pipeline that delivered nothing leaves out batches that are not full."""
    for op, _, line in pipeline.outline():
        if op.startswith(_BATCHES) and "drop_remainder=True" in op:
            place = f" ({line})" if line else ""
            message = (
                f"the iteration ended without a batch: {op}{place} leaves out each batch that is not full, and none "
                "was (use a smaller size, or leave drop_remainder out)"
            )
            warn(message, NoBatchesWarning)
            return
