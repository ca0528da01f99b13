"""Where in the user's code an op was written."""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def site() -> tuple[str | None, int]:
    """Returns file and line of the first frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE):
        if frame.f_back is None:
            return None, 0
        frame = frame.f_back
    # A name that is no UTF-8 has surrogates in it.
    return frame.f_code.co_filename.encode(errors="replace").decode(), frame.f_lineno


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the line of the user's code that is running; the native module calls this, too."""
    frame, level = sys._getframe(0), 1
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
