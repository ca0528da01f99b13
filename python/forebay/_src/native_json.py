"""JSON for the native module."""

from __future__ import annotations

import json
from typing import Any

from forebay.errors import InvalidPipelineError


def dumps(value: Any, op: str) -> str:
    """Writes the arguments of `op`: numbers exactly, and an error for values that JSON cannot express.

    >>> dumps({"count": 3}, "take")
    '{"count":3}'
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        hint = {"hint": f"see help() of {op} for its arguments"}
        raise InvalidPipelineError(f"{op}: an argument is of another type than it takes: {error}", hint) from None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = f"{op}: an argument is not valid Unicode: {value_at(error)!r} has a surrogate by itself"
        raise InvalidPipelineError(what, {"hint": "files whose names are no UTF-8 have to be renamed"}) from None
    return text


def value_at(error: UnicodeEncodeError) -> str:
    """Returns the text around the part that could not be encoded."""
    return error.object[max(error.start - 20, 0) : error.start + 20]
