"""Users' functions as arguments of ops: the description that the engine gets, and the columns that they return."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from forebay import _native
from forebay._src import arguments
from forebay._src.expr.expr import Expr
from forebay._src.functions import pickling
from forebay._src.functions.set_up import is_class_of_functions, set_up
from forebay._src.functions.values_told import better
from forebay._src.site import site
from forebay.errors import ForebayError, InvalidPipelineError

#: Errors of functions that take the sample for the value of a column.
_OF_A_DICTIONARY = re.compile(r"raised (?:Type|Attribute)Error: .*\bdict\b")


def described(
    op: str,
    fn: Any,
    reads: str | Iterable[str] | None,
    batched: bool,
    timeout: float,
    version: str | int | None,
) -> tuple[dict[str, Any], bytes]:
    """Returns the description of a user's function for the engine, and the pickle of the function."""
    if is_class_of_functions(fn):
        fn = set_up(op, fn)
    if not callable(fn):
        raise InvalidPipelineError(f"{op}: {fn!r} cannot be called", {"hint": _instead_of_function(fn)})
    if not timeout > 0:
        raise InvalidPipelineError(
            f"{op}: timeout={timeout} is out of range", {"hint": "use a number of seconds above 0"}
        )
    name = pickling.name_of(fn)
    if second := pickling.second_parameter(fn):
        hint = "it gets one argument, a dictionary of columns, fn(row); and with random numbers two, fn(row, rng)"
        raise InvalidPipelineError(f"{op}: {name} has a second parameter, {second}", {"hint": hint})
    pickled, code = pickling.dumps(fn, f"{op}: the function {name}", version)
    function = {
        "blob": "{blob}",
        "code": code,
        "name": name,
        "batched": arguments.flag(batched, op, "batched"),
        "with_rng": pickling.wants_rng(fn),
        "reads": arguments.columns(reads, op, "reads"),
        "timeout_s": min(float(timeout), 1e9),
    }
    return function, pickled


def _instead_of_function(given: Any) -> str:
    """Says what to write for an argument that is no function."""
    named = given if isinstance(given, Mapping) else {}
    if name := next((name for name, value in named.items() if isinstance(value, Expr)), None):
        return f"give a function; an expression makes a column by with_column({name!r}, {named[name]})"
    if isinstance(given, Expr):
        return f'give a function; an expression makes a column by with_column("name", {given})'
    if isinstance(given, (list, tuple)) and any(isinstance(item, Expr) for item in given):
        return "join conditions by &: (fb.col('x') > 0) & (fb.col('y') > 0)"
    if getattr(given, "ndim", 0) == 1:
        return "give a function, or an expression; of a mask, write select_rows(numpy.flatnonzero(mask))"
    if isinstance(given, bool):
        hint = "give a function, or an expression: `is`, `and`, `or` and `not` see no values"
        return f"{hint}; write x.is_null(), &, | and ~"
    return "give a function"


def probed(
    pipeline: _native.Pipeline,
    op: str,
    function: dict[str, Any],
    pickle: bytes,
    name: str | None,
    makes_rows: bool = False,
) -> list[dict[str, Any]]:
    """Calls a function on samples, and returns the columns that it returns.

    Args:
        pipeline: The pipeline before the op.
        op: The op, for errors.
        function: The function.
        pickle: Its pickle.
        name: The user's name of the op.
        makes_rows: Whether it makes any number of rows of each.
    """
    try:
        fields = pipeline.probe(json.dumps(function), pickle, makes_rows)
    except ForebayError as raised:
        error = better(raised, function["batched"])
        file, line = site()
        context = {"op": f"{op} ({name})" if name else op, "line": f"{file}:{line}", **error.context}
        if error.hint is None and _OF_A_DICTIONARY.search(error.message):
            # The function took its argument for the value of a column.
            column = next((name for name, *_ in pipeline.schema), "x")
            context["hint"] = f"the function gets a sample as a dictionary: row[{column!r}] is the value of a column"
        raise type(error)(error.message, context) from None
    found: list[dict[str, Any]] = json.loads(fields)
    return found
