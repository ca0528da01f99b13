"""The saved states of iterators: the position, and the pipeline and seed that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from forebay import _native
from forebay._src.iteration import pipeline_ops
from forebay.errors import InvalidPipelineError

VERSION = 2
_HINTS = {
    "version": "it was saved by another version of Forebay: resume with that one, or begin the epoch again",
    "dataset": "the pipeline has changed since; resume with the pipeline that was saved, or start over",
    "seed": "pass the seed of the saved run",
}


def checked_position(state: Mapping[str, Any], identity: Mapping[str, Any], pipeline: _native.Pipeline) -> Any:
    """Returns the position in a state.

    Raises:
        InvalidPipelineError: It is no state, or one of another dataset, seed or version.
    """
    if not isinstance(state, Mapping):
        raise InvalidPipelineError(
            f"load_state_dict: a state is a dictionary, not {type(state).__name__}",
            {"hint": "give what state_dict() returned; to begin at the start, load nothing"},
        )
    for key, ours in {"version": VERSION, **identity}.items():
        theirs = state.get(key)
        if theirs != ours:
            differs = f"its {key} is {_short(theirs)}, and here it is {_short(ours)}"
            hint = _HINTS.get(key, "load the state into an iterator made as the one that was saved")
            line = None
            if key == "dataset":
                known = pipeline_ops.difference(state.get("position"), pipeline)
                differs, line = known or (differs, None)
            if key == "dataset" and '"mix":' in pipeline.to_json():
                hint += (
                    ". A resumed run has the weights that it began with: weights that change are written from the "
                    "start, as weights=fb.schedule({0: ..., row: ...})"
                )
            context = {"line": line, "hint": hint} if line else {"hint": hint}
            raise InvalidPipelineError(f"this state was saved by another iterator: {differs}", context)
    return state.get("position")


def position_of(epoch: int, consumers: tuple[int, int]) -> str:
    """Returns the position of a consumer at the beginning of an epoch."""
    start = {"epoch": epoch, "split": 0, "chunk": 0, "rows": 0}
    return json.dumps({"position": start, "consumer": consumers})


def epoch_of(position: Any) -> int:
    """Returns the epoch of a saved position, the only readable part of it."""
    try:
        return int(json.loads(position)["position"]["epoch"])
    except (TypeError, ValueError, KeyError):
        raise InvalidPipelineError("this is not a state of an iterator: it has no position") from None


def _short(value: Any) -> str:
    if isinstance(value, str) and len(value) > 22:
        return repr(f"{value[:15]}…")
    text = repr(value)
    return text if len(text) <= 24 else f"{text[:16]}…"
