"""Finds the line of the user's code that added an op."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

_SOURCES = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(_SOURCES)) + os.sep
#: Programs that come with the package: each writes pipelines as a user does.
_PROGRAMS = tuple(_SOURCES + name + os.sep for name in ("bench", "demo", "selftest"))


def is_package(frame: FrameType) -> bool:
    """Returns whether a frame is of this package, and of none of its programs."""
    name = frame.f_code.co_filename
    return name.startswith(_PACKAGE) and not name.startswith(_PROGRAMS)


def site() -> tuple[str | None, int]:
    """Returns file and line of the first frame outside this package."""
    frame = sys._getframe(1)
    while is_package(frame):
        if frame.f_back is None:
            return None, 0
        frame = frame.f_back
    # A name that is not UTF-8 has surrogates in it.
    return frame.f_code.co_filename.encode(errors="replace").decode(), frame.f_lineno


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the current line of the user's code; the native module calls this, too."""
    frame, level = sys._getframe(0), 1
    while is_package(frame) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
