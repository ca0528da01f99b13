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


def check_same_rate(dataset: Base, column: str, other: str, op: str) -> None:
    """Refuses two columns of sound whose sampling rates are known and differ."""
    makers = [maker_of(dataset, name, "decode_audio", "resample_audio") for name in (column, other)]
    rate, other_rate = (maker and maker.get("sample_rate") for maker in makers)
    if None not in (rate, other_rate) and rate != other_rate:
        raise InvalidPipelineError(
            f"{op}: {column!r} has {rate} samples of a second, and {other!r} {other_rate}",
            {"hint": f"write resample_audio({other!r}, {rate}) before it, or decode both with sample_rate={rate}"},
        )


def maker_of(dataset: Base, column: str, *kinds: str) -> dict[str, Any] | None:
    """Returns the last op of some kinds that made a column."""
    return _maker(json.loads(dataset._pipeline.to_json()), column, kinds)


def _maker(graph: dict[str, Any], column: str, kinds: tuple[str, ...]) -> dict[str, Any] | None:
    ops = (node["op"] for node in reversed(graph["nodes"]))
    found = next((op for op in ops if op["op"] in kinds and op.get("output", op["column"]) == column), None)
    if found is not None or graph["source"]["source"] != "combined":
        return found
    makers = [_maker(part["graph"], column, kinds) for part in graph["source"]["parts"]]
    if "zip" in graph["source"]["how"]:
        # One of the datasets has the column; those of other combinations all have it.
        makers = [maker for maker in makers if maker is not None]
    return makers[0] if makers and all(maker == makers[0] for maker in makers) else None


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
