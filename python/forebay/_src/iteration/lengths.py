"""How many batches (or samples) an epoch has for one consumer, for `len()` and progress bars."""

from __future__ import annotations

from forebay import _native
from forebay._src import arguments
from forebay._src.arguments import Even
from forebay.errors import ForebayError


def length_of(
    pipeline: _native.Pipeline,
    consumers: tuple[int, int],
    *,
    even: bool | Even | None,
    coordinated: bool,
    on_error: str,
    epochs: int | None = 1,
) -> int:
    """Returns the number of batches of all epochs.

    Raises:
        TypeError: It is not known before they are computed, or there is no end.
    """
    index, count = consumers
    dealt, ended = arguments.dealt_and_ended(even)
    try:
        found = pipeline.share(index, count, dealt, coordinated)
    except ForebayError as error:
        raise TypeError(f"this dataset has no length: {error.message}") from error
    if ended == "pad" and found is not None:
        # The first consumer has as many as any other.
        found = pipeline.share(0, count, dealt, coordinated)
    if on_error != "raise":
        raise TypeError("this dataset has no length: samples that fail are left out")
    if found is None:
        raise TypeError("this dataset has no length: how much there is shows when it is computed")
    if found < 0 or epochs is None:
        raise TypeError("this dataset has no length: an epoch of it never ends")
    return found * epochs
