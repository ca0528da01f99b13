"""What users' exceptions look like in our errors: their own frames, and nothing of ours."""

from __future__ import annotations

import os
import traceback
from types import TracebackType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Stop(BaseException):
    """Thrown into users' code when its iterator is closed."""


def describe(error: BaseException, frames: TracebackType | None = None) -> tuple[str, str]:
    """Returns one line that says what was raised, and the traceback without frames of this package."""
    frames = _first_user_frame(frames or error.__traceback__)
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1] or type(error).__name__
    shown = traceback.TracebackException(type(error), error, frames)
    return f"raised {text}", "".join(shown.format())


def _first_user_frame(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        frames = frames.tb_next
    return frames
