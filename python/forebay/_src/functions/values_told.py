"""Hints for values that no column can hold: what to write in their place."""

from __future__ import annotations

import re
from typing import TypeVar

from forebay.errors import ForebayError

_E = TypeVar("_E", bound=ForebayError)

_BFLOAT16 = "NumPy has no bfloat16: write tensor.float() for PyTorch, array.astype('float32') for JAX and others"
_BATCHED = (
    "return one dictionary of columns with all rows, as {name: [row[name] for row in rows] for name in rows[0]}; "
    "flat_map makes several samples of one"
)

#: The hint of the engine for any value that no column can hold.
_ANY = "use numbers, str, bytes"
_LISTS = (
    "of dictionaries, give a list for each key: {'boxes': [o['bbox'] for o in objects], ...}; of lists of several "
    "lengths, json.dumps(value) keeps them as a text"
)
#: An empty list beside lists of lists; the groups are the column and the size of the inner lists.
_EMPTY = r'column "(.+)" (?:was float64\[0\], and is \w+\[\d+, (\d+)\]|was \w+\[\d+, (\d+)\], and is float64\[0\])'
#: Patterns of messages, and the hints that fit them, in which `\1` is the first group.
_HINTS = (
    (re.compile(r"unsupported ScalarType BFloat16|is bfloat16\b|is ArrayImpl, which"), _BFLOAT16),
    (
        re.compile(r"is Tensor, which no column can hold"),
        "NumPy cannot read a tensor in bfloat16, with gradients, on a GPU or sparse: write "
        "tensor.detach().cpu().float(), and tensor.to_dense() of a sparse one",
    ),
    (
        re.compile(_EMPTY),
        r"an empty list has no inner size: give numpy.array(value, 'float32').reshape(-1, \2\3) in column '\1'",
    ),
    (
        re.compile(r"wrong structure: tuple instead of a dictionary of columns"),
        'name the parts of the tuple: return {"x": x, "y": y}',
    ),
    (
        re.compile(r"raised TypeError: string indices must be integers|could not convert string to float: '[\[{]"),
        "the value is a text: lists of structs and of lists are JSON here, which json.loads(row['x']) reads",
    ),
    (
        re.compile(r"is (datetime|date|Timestamp), which no column can hold"),
        "give a time as a whole number, int(time.timestamp()), or as a text, time.isoformat()",
    ),
    (
        re.compile(r"is (?:datetime|timedelta)64(\[\w+\])?, which no column can hold"),
        "give whole numbers, array.astype('int64'), and name their unit in expressions, fb.col('x').dt(unit)",
    ),
    (
        re.compile(r"is Decimal, which no column can hold"),
        "give float(value), or str(value), which keeps all digits",
    ),
)


def better(error: _E, batched: bool = False) -> _E:
    """Returns the error with a hint that says what to write, if its value is one that users try."""
    if batched and "wrong structure: list instead of a dictionary of columns" in error.message:
        return _with(error, _BATCHED)
    if (error.hint or "").startswith(_ANY) and re.search(r"is (list|tuple), which no", error.message):
        return _with(error, _LISTS)
    for pattern, hint in _HINTS:
        if found := pattern.search(error.message):
            return _with(error, found.expand(hint))
    return error


def _with(error: _E, hint: str) -> _E:
    return type(error)(error.message, {**error.context, "hint": hint})
