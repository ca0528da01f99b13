"""Users' exceptions in our errors: with only the users' own frames, and with the cause (the code or the sample)."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from forebay.errors import ForebayError

_PACKAGE = str(Path(__file__).absolute().parents[2])


class SampleError(Exception):
    """An op whose code is a function of Forebay's cannot compute a sample: its text is the error's, for users."""


class SourceError(Exception):
    """A reader of Forebay cannot open its data, or the data differ from the data that the pipeline has pinned."""


#: Exceptions that are not caused by a sample: every other sample would raise them too, or the code is unfinished.
_PROGRAMMING = (NameError, AttributeError, TypeError, ImportError, SyntaxError, NotImplementedError, SourceError)


class SkipSample(Exception):
    """A function raises it to leave the sample out on purpose.

    The pipeline must be iterated with `on_error="skip"` or `"quarantine"`. Such a sample does not count against the
    budget and is not reported, as if a filter had left it out.

    >>> import forebay as fb
    >>> def half(row):
    ...     if row["id"] % 2:
    ...         raise fb.SkipSample
    ...     return {"half": row["id"] // 2}
    >>> [int(row["half"]) for row in fb.range(7).map(half).iter(on_error="skip")]
    [0, 1, 2, 3]
    """


class Stop(BaseException):
    """Raised in users' code when its iterator is closed."""


def describe(error: BaseException, frames: TracebackType | None = None) -> tuple[str, str, str | None]:
    """Returns one line about the exception, the traceback without frames of this package, and the cause.

    The cause is `"code"` (every sample would raise it), `"skip"` (nothing failed), `"data"` (an op of Forebay refuses
    the sample, and the traceback is empty), or `None`: the sample.
    """
    if isinstance(error, SampleError):
        # The engine puts the name of the op before it.
        return f"failed: {error}", "", "data"
    frames = _first_user_frame(frames or error.__traceback__)
    if isinstance(error, ForebayError):
        text = f"{type(error).__name__}: {error.message}"
    else:
        text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1] or type(error).__name__
    shown = traceback.TracebackException(type(error), error, frames)
    fault = "skip" if isinstance(error, SkipSample) else "code" if isinstance(error, _PROGRAMMING) else None
    return f"raised {text}", "".join(shown.format()), fault


def _first_user_frame(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        frames = frames.tb_next
    return frames
