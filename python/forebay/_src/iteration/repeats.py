"""Warns of loops that yield epoch 0 again and again, where the pipeline would have another order or other draws.

An iteration is a function of the pipeline, the seed and the epoch, so a loop over `ds` that never says which epoch it
wants gets the same batches each time. No iteration counts epochs behind the user's back: this module only tells.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Hashable
from functools import lru_cache
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from forebay._src.functions.pickling import is_installed
from forebay._src.site import is_package

if TYPE_CHECKING:
    from forebay import _native

#: The most iterations that are remembered; the oldest is forgotten first.
_KNOWN_MAX = 1024
#: The iterations that began: what was iterated, at which place of which code. The code is kept for its id.
_begun: dict[Hashable, CodeType] = {}
#: The places that were warned of; at most `_KNOWN_MAX`.
_warned: dict[Hashable, CodeType] = {}


class RepeatedEpochWarning(UserWarning):
    """A dataset that shuffles or draws random numbers begins the same epoch again, so it yields the same batches.

    `warnings.simplefilter("error", fb.RepeatedEpochWarning)` makes it an error.
    """


#: What to write where `iter` repeats an epoch, where datasets of `to_torch` and others do, where a job is read again,
#: and where jobs with other names repeat one.
HERE = (
    "iterations begin at epoch 0 unless epoch= is given (write iter(epoch=e) in a loop over epochs, or iter(epochs=n) "
    "for n of them at once; each iteration of ds.to_torch() and ds.to_jax() is the next epoch; where the same batches "
    "are intended, iter(epoch=0))"
)
ANEW = (
    "a new dataset for a framework begins at epoch 0 (make it once, before the loop over epochs, for each of its "
    "iterations is the next epoch; or call set_epoch(e), also with 0 where the same batches are intended)"
)
SAME_JOB = (
    "each iteration of a job begins with its first batch (keep one iterator, it = job.iter(), and take n batches of it "
    "with itertools.islice(it, n))"
)
THERE = "a job of any name begins at epoch 0 (write distribute(job=..., epochs=n) for one job of n epochs)"


def note_start(pipeline: _native.Pipeline, options: tuple[Hashable, ...], write: str) -> None:
    """Notes that a line of the user's begins epoch 0 and gave no epoch. Warns if it has begun it before.

    Only the same call or loop in the user's code counts: a look at the first batch elsewhere is no loop.
    """
    frame, level = _own_frame()
    place = _place(frame)
    if _is_new(_begun, (*place, pipeline.dataset_id, *options), frame.f_code) or not pipeline.is_random:
        return
    if _is_new(_warned, place, frame.f_code):
        message = f"this begins epoch 0 again and yields the same batches as before: {write}"
        warnings.warn(message, RepeatedEpochWarning, stacklevel=level)


def note_loader(pipeline: _native.Pipeline) -> None:
    """Warns if a `DataLoader` of PyTorch reads a dataset with random ops by index."""
    torch = sys.modules.get("torch.utils.data")
    if torch is None or not _is_called_by("torch.utils.data._utils.fetch") or not pipeline.is_random:
        return
    worker = torch.get_worker_info()
    if worker is not None and worker.id > 0:
        return
    frame, level = _own_frame()
    if _is_new(_warned, (*_place(frame), pipeline.dataset_id), frame.f_code):
        warnings.warn(
            "a DataLoader reads this dataset by index, and ds[i] is sample i of epoch 0: each epoch of the loader "
            "repeats the shuffle and the random draws of epoch 0 (write DataLoader(ds.batch(n).to_torch(), "
            "batch_size=None) with shuffle() in the dataset, whose iterations are epochs)",
            RepeatedEpochWarning,
            stacklevel=level,
        )


def _is_new(known: dict[Hashable, CodeType], key: Hashable, code: CodeType) -> bool:
    if key in known:
        return False
    if len(known) >= _KNOWN_MAX:
        known.pop(next(iter(known)), None)
    known[key] = code
    return True


def _place(frame: FrameType) -> tuple[int, Hashable]:
    """Returns the code and the place in its text that a frame is at. Two calls in one line are two places.

    The number of the instruction is no such place: Python may move a call to the instruction before it.
    """
    positions = frame.f_code.co_positions()
    return id(frame.f_code), next(itertools.islice(positions, frame.f_lasti // 2, None), None)


def _own_frame() -> tuple[FrameType, int]:
    """Returns the nearest frame of the user's own code, and its level for `warnings.warn` of the caller.

    Progress bars and loaders, which are installed, are passed over; without own code it is the nearest frame outside
    of this package.
    """
    frame: FrameType | None = sys._getframe(1)
    level, nearest = 1, None
    while frame is not None:
        if not is_package(frame):
            nearest = nearest or (frame, level)
            if not _is_installed_code(frame.f_code.co_filename):
                return frame, level
        frame, level = frame.f_back, level + 1
    return nearest or (sys._getframe(1), 1)


@lru_cache(maxsize=1024)
def _is_installed_code(file: str) -> bool:
    return file.startswith("<frozen ") or (not file.startswith("<") and is_installed(file))


def _is_called_by(module: str) -> bool:
    """Returns whether the nearest frame outside of this package is of this module."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_package(frame):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == module
