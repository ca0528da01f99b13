"""The ops of a pipeline in a saved state: a changed pipeline is told by its first op that differs."""

from __future__ import annotations

import json
from typing import Any

from forebay import _native

#: The ops that a state has in words; its dataset id tells of changes behind them.
_OPS_MAX = 40
_KEY = '"ops":'


def saved(pipeline: _native.Pipeline) -> str:
    """Returns the source and the ops of a pipeline for a state, a line each: six digits, and the op as it is written.

    At most 41 lines of at most 70 characters.

    >>> import forebay as fb
    >>> [line[7:] for line in saved(fb.range(9).batch(2)._pipeline).splitlines()]
    ['range(0..9)', 'batch(2)']
    """
    return "\n".join(f"{digest} {_line(text)}" for text, digest, _ in pipeline.outline()[: _OPS_MAX + 1])


def added(position: str, ops: str) -> str:
    """Returns a position with ops: keys of a state are always the same, and a position is read as JSON.

    >>> added('{"position": {}}', "3f9a01 range(0..9)")
    '{"position": {},"ops":"3f9a01 range(0..9)"}'
    """
    return position if _KEY in position else f"{position[:-1]},{_KEY}{json.dumps(ops)}}}"


def difference(position: Any, pipeline: _native.Pipeline) -> tuple[str, str | None] | None:
    """Returns what differs first between the ops of a saved position and a pipeline, and the line of that op.

    `None`: the position has no ops, or all that it has are those of the pipeline.
    """
    try:
        ops = json.loads(position)["ops"]
        theirs = [(text, digest) for digest, _, text in (line.partition(" ") for line in ops.splitlines())]
    except (TypeError, ValueError, KeyError, AttributeError):
        return None
    outline = pipeline.outline()[: _OPS_MAX + 1]
    for place in range(max(len(theirs), len(outline))):
        was = theirs[place] if place < len(theirs) else None
        now = (_line(outline[place][0]), outline[place][1]) if place < len(outline) else None
        if was == now or (was and now and was[1] == now[1]):
            continue
        name = f"op {place}" if place else "source"
        if was and now and was[0] == now[0]:
            return f"its {name} is {was[0]} with other code or other arguments", outline[place][2]
        said = f"its {name} is {was[0]}" if was else f"it has no {name}"
        here = f"and here it is {now[0]}" if was and now else f"and here there is {now[0] if now else 'none'}"
        return f"{said}, {here}", outline[place][2] if now else None
    return None


def _line(text: str) -> str:
    return " ".join(text.split())
