"""Functions of Forebay's own that call code which bad data may crash: they run in processes of their own by default."""

from __future__ import annotations

from typing import Literal

from forebay import _native

#: The names of these functions in a pipeline, each with its module, which its pickle names.
_FUNCTIONS = {"decode_video": b"forebay._src.video.decoder"}


def executor_of(pipeline: _native.Pipeline) -> Literal["thread", "process"]:
    """Returns where the functions of a pipeline run if the user does not say.

    >>> import forebay as fb
    >>> def decode_video(row):
    ...     return row
    >>> executor_of(fb.range(3).map(decode_video)._pipeline)
    'thread'
    """
    # Most pipelines have no such pickle, and the text of one may be long.
    blobs = [blob for _, blob in pipeline.op_blobs()]
    names = [name for name, module in _FUNCTIONS.items() if any(module in blob for blob in blobs)]
    text = pipeline.to_json() if names else ""
    return "process" if any(f'"{name}"' in text for name in names) else "thread"
