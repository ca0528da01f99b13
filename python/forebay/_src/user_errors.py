"""What users' exceptions look like in our errors: their own frames, and nothing of ours; and whose fault they are."""

from __future__ import annotations

import os
import traceback
from types import TracebackType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class SourceError(Exception):
    """Raised by a reader of ours that cannot open its data, or finds that it is not what the pipeline has pinned."""


#: What no sample is to blame for: every other one would raise it too, or the code is not finished.
_PROGRAMMING = (NameError, AttributeError, TypeError, ImportError, SyntaxError, NotImplementedError, SourceError)


class SkipSample(Exception):
    """Raise it in a function to leave the sample out, on purpose.

    It takes `on_error="skip"` or `"quarantine"` where the pipeline is iterated. Such a sample is not counted against
    the budget and is not told of: it is as if a filter had left it out.

    >>> import forebay as fb
    >>> def half(row):
    ...     if row["id"] % 2:
    ...         raise fb.SkipSample
    ...     return {"half": row["id"] // 2}
    >>> [int(row["half"]) for row in fb.range(7).map(half).iter(on_error="skip")]
    [0, 1, 2, 3]
    """


class Stop(BaseException):
    """Thrown into users' code when its iterator is closed."""


def describe(error: BaseException, frames: TracebackType | None = None) -> tuple[str, str, str | None]:
    """Returns one line that says what was raised, the traceback without frames of this package, and whose fault it is.

    The fault is `"code"` (every sample would raise it), `"skip"` (nobody's), or `None`: the sample's.
    """
    frames = _first_user_frame(frames or error.__traceback__)
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1] or type(error).__name__
    shown = traceback.TracebackException(type(error), error, frames)
    fault = "skip" if isinstance(error, SkipSample) else "code" if isinstance(error, _PROGRAMMING) else None
    return f"raised {text}", "".join(shown.format()), fault


def _first_user_frame(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        frames = frames.tb_next
    return frames
