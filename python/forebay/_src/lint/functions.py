"""Rules on Python functions: they are called twice on the same samples, and compared with an expression."""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from forebay._src.functions.user_errors import SkipSample
from forebay._src.iteration.first_samples import first, same
from forebay._src.lint import as_expression, code
from forebay._src.lint.columns import used
from forebay._src.lint.finding import Finding
from forebay._src.ragged import Ragged
from forebay._src.written import Step, Written
from forebay.errors import ForebayError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: The seconds after which a function is no longer called.
_SECONDS_MAX = 1.0
#: Sources in which a column that is not read costs nothing.
_COLUMNAR = frozenset(("parquet", "arrow", "mds", "litdata", "lance", "csv", "jsonl", "json", "tar", "tfrecord"))


def deterministic(step: Step, samples: list[dict[str, Any]], dataset: str) -> Iterator[Finding]:
    """Yields a finding if a function returns something else when it is called again, in the reverse order."""
    function = step.function
    if function is None or not samples:
        return
    described = step.op["function"]
    end = time.monotonic() + _SECONDS_MAX
    results: list[Any] = []
    for sample in samples:
        results.append(_called(function, sample, described))
        if time.monotonic() > end:
            break
    for place in reversed(range(len(results))):
        if not same(results[place], _called(function, samples[place], described)):
            hint = "draw from the generator that a second parameter named rng gets; keep clocks, counters and files out"
            yield Finding.at(
                step,
                dataset,
                "not-deterministic",
                "warning",
                f"{step.text} returned another result when it was called again for the same sample",
                hint,
            )
            return


def _called(function: Callable[..., Any], sample: dict[str, Any], described: dict[str, Any]) -> Any:
    """Returns a function's result, or the type of its exception."""
    reads = described["reads"]
    given = dict(sample) if reads is None else {name: sample[name] for name in reads}
    if described["batched"] and not _is_batch(sample):
        given = {name: _alone(value) for name, value in given.items()}
    # Each call gets an equal generator, so a difference does not come from the generator.
    more = (np.random.Generator(np.random.Philox(key=1)),) if described["with_rng"] else ()
    try:
        result = function(given, *more)
        return list(result) if isinstance(result, types.GeneratorType) else result
    except SkipSample:
        return "skipped"
    except Exception as error:  # The engine says it with its own words, where it runs the function.
        return type(error).__name__


def _alone(value: Any) -> Any:
    """Returns a value as a batch of one."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)[None]
    made = np.empty(1, object)
    made[0] = value
    return made


def _is_batch(sample: dict[str, Any]) -> bool:
    def length(value: Any) -> int | None:
        has_rows = isinstance(value, Ragged) or (isinstance(value, np.ndarray) and value.ndim)
        return len(value) if has_rows else None

    lengths = {length(value) for value in sample.values()}
    return len(lengths) == 1 and None not in lengths


def reads_all(step: Step, written: Written, dataset: str) -> Iterator[Finding]:
    """Yields a finding if columns of files are read only because a function does not say which ones it uses."""
    function = step.function
    is_whole = step.kind == "map" and not step.op["keep_others"]
    if function is None or not is_whole or step.op["function"]["reads"] is not None or written.kind not in _COLUMNAR:
        return
    tree = code.tree_of(function, step.file)
    keys = None if tree is None else code.keys_of(tree)
    if not keys:
        return
    there = list(step.before.schema)
    needed = [used(earlier.op) for earlier in written.steps[: step.number]]
    if None in needed:
        return
    read = keys.union(*(names for names in needed if names is not None))
    idle = [name for name in written.source.schema if name in there and name not in read]
    if not idle or not keys <= set(there):
        return
    named = ", ".join(idle[:5]) + (", …" if len(idle) > 5 else "")
    yield Finding.at(
        step,
        dataset,
        "reads-all-columns",
        "hint",
        f"{step.text} uses {len(keys)} of {len(there)} columns, so {named} would not have to be read",
        f"reads={sorted(keys)!r}",
    )


def as_expressions(step: Step, samples: list[dict[str, Any]], dataset: str) -> Iterator[Finding]:
    """Yields a finding if an expression computes the same as a function on the samples."""
    function = step.function
    if function is None or not samples or step.kind not in ("map", "filter_function"):
        return
    tree = code.tree_of(function, step.file)
    if tree is None or step.op["function"]["with_rng"]:
        return
    try:
        text = _filter(tree) if step.kind == "filter_function" else _columns(tree, step)
        made = _evaluated(text, step.before, function)
        expected = first(step.after, len(samples))
        if _schema(made) != _schema(step.after) or not expected or not same(first(made, len(samples)), expected):
            return
    except (as_expression.CannotError, ForebayError):
        return
    except Exception:  # The text is a guess: with any exception, it is no expression.
        return
    message = f"{step.text} computes what an expression computes without Python"
    yield Finding.at(step, dataset, "python-function", "hint", f"{message} (the same on {len(expected)} samples)", text)


def _filter(tree: code.Function) -> str:
    return f".filter({as_expression.condition_of(tree)})"


def _columns(tree: code.Function, step: Step) -> str:
    columns, keeps = as_expression.columns_of(tree)
    types_ = {field["name"]: field for field in step.op["output"]}
    text, at = "", step.before
    for name, value in columns:
        if value == f"fb.col({name!r})":
            continue
        field = types_.get(name, {})
        call = f".with_column({name!r}, {value})"
        made = _evaluated(call, at, step.function)
        if field.get("kind") == "scalar" and made.schema[name].dtype != field["dtype"]:
            call = f".with_column({name!r}, ({value}).cast({field['dtype']!r}))"
            made = _evaluated(call, at, step.function)
        text, at = text + call, made
    if not text:
        raise as_expression.CannotError
    wanted = list(step.after.schema)
    if list(at.schema) != wanted and not (keeps and set(at.schema) == set(wanted)):
        text += f".select({', '.join(map(repr, wanted))})"
    return text


def _evaluated(text: str, before: Dataset, function: Callable[..., Any] | None) -> Dataset:
    """Runs the text behind a dataset, with the names that the function sees."""
    import forebay

    names: dict[str, Any] = dict(getattr(function, "__globals__", {}))
    free = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    names |= {name: cell.cell_contents for name, cell in zip(free, cells, strict=False)}
    made: Dataset = eval(f"_before{text}", {**names, "fb": forebay, "_before": before})
    return made


def _schema(dataset: Dataset) -> dict[str, Any]:
    schema = dataset.schema
    return {name: (column, name in schema.nullable) for name, column in schema.items()}
