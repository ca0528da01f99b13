"""The sampling rate of a column of sound, and times in samples."""

from __future__ import annotations

import json
from typing import Any

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay.errors import InvalidPipelineError

_SECONDS_MAX = 86_400.0


def rate_of(dataset: Base, column: str, given: int | None, op: str, argument: str = "sample_rate") -> int:
    """Returns the sampling rate of a column: as given, or as the last op that set it."""
    if given is not None:
        return checked_rate(given, op, argument)
    maker = maker_of(dataset, column, "decode_audio", "resample_audio")
    if maker is not None and maker.get("sample_rate") is not None:
        return int(maker["sample_rate"])
    raise InvalidPipelineError(
        f"{op}: the sampling rate of column {column!r} is not known",
        {"hint": f"write decode_audio(sample_rate=16000) before it, or {argument}= here"},
    )


def maker_of(dataset: Base, column: str, *kinds: str) -> dict[str, Any] | None:
    """Returns the last op of some kinds that made a column."""
    nodes = json.loads(dataset._pipeline.to_json())["nodes"]
    ops = (node["op"] for node in reversed(nodes))
    return next((op for op in ops if op["op"] in kinds and op.get("output", op["column"]) == column), None)


def checked_rate(value: Any, op: str, name: str) -> int:
    """Checks a sampling rate, in Hz."""
    return arguments.whole(value, op, name, 100, 768_000)


def samples_of(value: Any, rate: int, op: str, name: str) -> int:
    """Returns a time in samples."""
    seconds = arguments.number(value, op, name)
    if not 0 <= seconds <= _SECONDS_MAX:
        raise InvalidPipelineError(
            f"{op}: {name}={seconds} is out of range", {"hint": f"use seconds, 0 to {_SECONDS_MAX:.0f}"}
        )
    return round(seconds * rate)
