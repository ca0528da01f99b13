"""Sources of samples in memory, and of Python objects that give samples."""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from forebay import _native
from forebay._src import arguments, native_json
from forebay._src.dataset import Dataset
from forebay._src.functions import pickling
from forebay._src.functions.values_told import better
from forebay._src.schema import to_fields
from forebay._src.site import site
from forebay._src.sources import adapters
from forebay._src.usage import explained
from forebay.errors import ForebayError, InvalidPipelineError

_SCHEMA = 'write schema={"x": "int64", "image": ("uint8", (32, 32, 3))}'
_PARTIAL = "write functools.partial(function, ...)"
_PROBE_ROWS = 4
#: The hint for data from pandas.
_FRAME = "write from_table(frame), or for a series from_numpy({'name': series.to_numpy()})"


@explained("write from_numpy({'x': x, 'y': y}): a dictionary of arrays")
def from_numpy(data: Mapping[str, Any] | np.ndarray[Any, Any]) -> Dataset:
    """Arrays with the samples first; they travel with the pipeline.

    Args:
        data: A dictionary of arrays of the same length, or one array, whose column is `value`. Masked values of a
            masked array are missing.

    >>> from_numpy(np.zeros((3, 2), np.float32)).schema
    Schema(value: float32[2])
    """
    if isinstance(data, (tuple, list)):
        hint = 'name the columns, from_numpy({"x": x, "y": y}); or give one array, from_numpy(numpy.stack(arrays))'
        message = f"from_numpy: a {type(data).__name__} of {len(data)} is neither one array nor a dictionary of them"
        raise InvalidPipelineError(message, {"hint": hint})
    if isinstance(data, (str, os.PathLike)):
        hint = "open the file: from_numpy(numpy.load(path)); from_tokens reads flat files of whole numbers"
        raise InvalidPipelineError("from_numpy: the name of a file is no array", {"hint": hint})
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        raise InvalidPipelineError("from_numpy: a data frame is not an array", {"hint": _FRAME})
    if isinstance(data, Mapping):
        return _memory("from_numpy", data)
    try:
        array = np.asanyarray(data)
    except TypeError as error:
        raise better(InvalidPipelineError(f"from_numpy: NumPy makes no array of this: {error}")) from None
    return _memory("from_numpy", {"value": array})


@explained()
def from_dict(data: Mapping[str, Any]) -> Dataset:
    """Columns as lists (or arrays), of numbers, `str`, `bytes`, arrays; `None` where a value is missing.

    Dictionaries as values make nested columns with dotted names: `[{"x": 1}, {"x": 2}]` under `"a"` is the column
    `a.x`.

    >>> [row["name"] for row in from_dict({"name": ["a", None]})]
    ['a', None]
    """
    if not isinstance(data, Mapping):
        hint = _FRAME if hasattr(data, "iloc") else "give columns by name, as {'x': [1, 2], 'name': ['a', 'b']}"
        message = f"from_dict: this is a {type(data).__name__}, not a dictionary of columns"
        raise InvalidPipelineError(message, {"hint": hint})
    return _memory("from_dict", {name: part for key, values in data.items() for name, part in _parts(key, values)})


def _parts(name: Any, values: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the columns of a column of dictionaries, one for each key; any other column as it is."""
    is_nested = isinstance(values, (list, tuple)) and any(isinstance(value, Mapping) for value in values)
    if not is_nested or not all(value is None or isinstance(value, Mapping) for value in values):
        yield name, values
        return
    keys = dict.fromkeys(key for value in values if value is not None for key in value)
    if bad := [key for key in keys if not isinstance(key, str)]:
        raise InvalidPipelineError(
            f"from_dict: column {name!r} has a dictionary with the key {bad[0]!r}, which is no column name",
            {"hint": "column names are strings"},
        )
    for key in keys:
        yield from _parts(f"{name}.{key}", [None if value is None else value.get(key) for value in values])


@explained()
def from_map_dataset(
    dataset: adapters.MapDataset,
    *,
    columns: Sequence[str] | None = None,
    schema: Mapping[str, Any] | None = None,
    version: str | int | None = None,
) -> Dataset:
    """Any object with a length and items, such as `torch.utils.data.Dataset`. It is pickled into the pipeline.

    Args:
        dataset: The object. Its items are dictionaries, tuples or single values.
        columns: Names for the parts of a tuple. Default: `"0"`, `"1"`, …; a single value is `value`.
        schema: The columns of an item. Default: found by looking at the first four.
        version: A text or number to change when the items change and the object does not, because it reads files.

    >>> from_map_dataset([(1.0, "a"), (2.0, "b")], columns=["x", "name"]).schema
    Schema(x: float64, name: string)
    """
    op = "from_map_dataset"
    if isinstance(dataset, Mapping):
        names = [name for name in dataset if isinstance(name, str)]
        hint = "columns by name: write from_dict(data); items by key: write from_map_dataset(list(data.values()))"
        if names and all(hasattr(dataset[name], "column_names") for name in names):
            hint = f"this has datasets by name: take one, as from_hf(data[{names[0]!r}])"
        message = f"{op}: a {type(dataset).__name__} has items by key, and not by number"
        raise InvalidPipelineError(message, {"hint": hint})
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InvalidPipelineError(f"{op}: {type(dataset).__name__} has no length or no items")
    items = adapters.Items(dataset, columns)
    first = builtins.range(0 if schema is not None else min(_PROBE_ROWS, len(items)))
    samples = [_named(op, lambda i: _native.take_row(items[i]), i) for i in first]
    fields = _fields(op, schema, samples)
    pickled, code = pickling.dumps(items, f"{op}: the dataset", version)
    source = {"source": "map_dataset", "blob": "{blob}", "code": code, "rows": len(items), "fields": fields}
    return _from_source(op, source, pickled)


@explained(
    'from_generator(function, schema={"x": "int64"})',
    args=_PARTIAL,
    features=_SCHEMA,
    gen_kwargs=_PARTIAL,
    output_shapes=_SCHEMA,
    output_signature=_SCHEMA,
    output_types=_SCHEMA,
)
def from_generator(
    function: Callable[[], Iterable[Any]],
    *,
    columns: Sequence[str] | None = None,
    schema: Mapping[str, Any] | None = None,
    version: str | int | None = None,
) -> Dataset:
    """A function that returns an iterator. It is called once for each epoch, and its samples keep their order.

    Args:
        function: The function. It yields dictionaries, tuples or single values.
        columns: Names for the parts of a tuple. Default: `"0"`, `"1"`, …; a single value is `value`.
        schema: The columns that it yields. Default: found by looking at the first four samples.
        version: A text or number to change when its values change and its code does not, because it reads files.

    >>> def squares():
    ...     for i in (0, 1, 2):
    ...         yield {"square": i * i}
    >>> [int(row["square"]) for row in from_generator(squares)]
    [0, 1, 4]
    """
    op = "from_generator"
    if not callable(function):
        raise InvalidPipelineError(
            f"{op}: {type(function).__name__} cannot be called", {"hint": "give the function, not what it returns"}
        )
    generator = adapters.Generator(function, columns)
    samples: list[Any] = []
    if schema is None:
        first = builtins.range(_PROBE_ROWS)
        samples = _named(op, lambda: [_native.take_row(s) for s, _ in zip(generator(), first, strict=False)])
    fields = _fields(op, schema, samples)
    pickled, code = pickling.dumps(generator, f"{op}: the function {pickling.name_of(function)}", version)
    source = {"source": "generator", "blob": "{blob}", "code": code, "fields": fields}
    return _from_source(op, source, pickled)


@explained()
def range(start: int, stop: int | None = None, step: int = 1) -> Dataset:
    """The integers from `start` below `stop`, as Python's `range`: one int64 column, `id`.

    >>> [int(row["id"]) for row in range(2, 8, 3)]
    [2, 5]
    """
    if stop is None:
        start, stop = 0, start
    limit = 2**63
    names = {"start": start, "stop": stop, "step": step}
    numbers = {name: arguments.whole(value, "range", name, -limit, limit - 1) for name, value in names.items()}
    return _from_source("range", {"source": "range", **numbers}, None)


def _memory(op: str, data: Mapping[str, Any]) -> Dataset:
    file, line = site()
    try:
        return Dataset(_native.Pipeline.from_memory(dict(data), op, file, line))
    except ForebayError as error:
        raise better(error) from None


def _from_source(op: str, source: dict[str, Any], pickle: bytes | None) -> Dataset:
    file, line = site()
    return Dataset(_native.Pipeline.from_source(native_json.dumps(source, op), pickle, op, file, line))


def _named(op: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a user's code while the user writes the pipeline."""
    try:
        return function(*arguments)
    except Exception as error:
        from forebay._src.functions.user_errors import describe
        from forebay.errors import FunctionError

        message, traceback, _ = describe(error)
        file, line = site()
        context = {"traceback": traceback, "op": op, "line": f"{file}:{line}"}
        raise FunctionError(f"{op}: the user's code {message}", context) from None


def _fields(op: str, schema: Mapping[str, Any] | None, samples: list[Any]) -> list[dict[str, Any]]:
    if schema is not None:
        return to_fields(op, schema)
    file, line = site()
    if not samples:
        raise InvalidPipelineError(
            f"{op}: there is no sample to look at",
            {"line": f"{file}:{line}", "hint": 'give schema={"column": "dtype", ...}'},
        )
    try:
        found: list[dict[str, Any]] = json.loads(_native.fields_of_rows(samples))
    except ForebayError as raised:
        error = better(raised)
        context = {"op": op, "line": f"{file}:{line}", **error.context}
        raise type(error)(f"{op}: an item {error.message}", context) from None
    return found
