"""Columns of an Arrow table in memory, in the form that sources in memory take.

Types become what they become in `from_arrow`: docs/reference.md has a table. Tables come from pyarrow, pandas, polars
or any library with the Arrow PyCapsule interface (`__arrow_c_stream__`).
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from forebay._src import arguments
from forebay.errors import InvalidPipelineError, UnavailableError


def table_of(given: Any, op: str) -> Any:
    """Returns an object as a `pyarrow.Table`.

    Raises:
        UnavailableError: pyarrow is not installed.
        InvalidPipelineError: It is no table.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        context = {"cause": str(error), "hint": "pip install pyarrow"}
        raise UnavailableError(f"{op}: the package pyarrow is not installed", context) from None
    try:
        if isinstance(given, pa.Table):
            return given
        if hasattr(given, "iloc") and hasattr(given, "columns"):
            return pa.Table.from_pandas(given, preserve_index=False)
        if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
            return pa.table(given)
    except (pa.ArrowException, TypeError, ValueError) as error:
        cause = " ".join(str(error).split())
        hint = "each column needs values of one type; convert the others, or leave them out"
        if hasattr(given, "to_frame"):
            hint = "this is a single column: write its to_frame()"
        elif "Duplicate column names" in cause:
            hint = "give each column a name of its own"
        raise InvalidPipelineError(f"{op}: this table has no form in Arrow", {"cause": cause, "hint": hint}) from None
    raise InvalidPipelineError(f"{op}: this is a {type(given).__name__}, and no table", {"hint": _hint(given)})


def _hint(given: Any) -> str:
    if hasattr(given, "collect"):
        return "call its collect() first"
    if isinstance(given, dict):
        return "write from_dict(columns)"
    if isinstance(given, (str, bytes)) or hasattr(given, "__fspath__"):
        return "name files with from_parquet, from_arrow or from_csv"
    return "give a table of pyarrow, a data frame of pandas or polars, or an object with __arrow_c_stream__"


def columns_of(table: Any, op: str) -> tuple[dict[str, Any], list[str]]:
    """Returns the columns of a table, and the names of columns of bytes in which no value shows that type.

    Columns of a struct are named `outer.inner`.
    """
    columns: dict[str, Any] = {}
    unsaid = []
    for name, values in zip(table.column_names, table.columns, strict=True):
        for inner, array in _flat(arguments.text(name, op, "a column's name"), values.combine_chunks()):
            if inner in columns:
                hint = "rename one of them, or leave it out by columns="
                raise InvalidPipelineError(f"{op}: two columns are named {inner!r}", {"hint": hint})
            columns[inner] = _Column(inner, op).values(array)
            if array.null_count == len(array) and _is_bytes(_plain_kind(array.type)):
                unsaid.append(inner)
    return columns, unsaid


def units_of(table: Any) -> dict[str, str]:
    """Returns the units of time columns."""
    units = {}
    for name, values in zip(table.column_names, table.columns, strict=True):
        for inner, array in _flat(name, values.combine_chunks()):
            unit = _unit(array.type)
            if unit is not None:
                units[inner] = unit
    return units


def _unit(kind: Any) -> str | None:
    from pyarrow import types

    if types.is_date(kind):
        return "D" if types.is_date32(kind) else "ms"
    return str(kind.unit) if types.is_temporal(kind) and hasattr(kind, "unit") else None


def _flat(name: str, array: Any) -> Iterator[tuple[str, Any]]:
    from pyarrow import types

    if not types.is_struct(array.type):
        yield name, array
        return
    for field, part in zip(array.type, array.flatten(), strict=True):
        yield from _flat(f"{name}.{field.name}", part)


class _Column:
    """Converts one column, and names it in errors."""

    def __init__(self, name: str, op: str) -> None:
        self.name, self.op = name, op

    def values(self, array: Any) -> Any:
        """Returns an array of NumPy, a masked one, or a list."""
        from pyarrow import types

        array = _plain_type(array)
        kind = array.type
        if _is_number(kind):
            return _numbers(array)
        if types.is_null(kind) or _is_text(kind) or _is_bytes(kind):
            return array.to_pylist()
        if types.is_decimal(kind):
            return [None if value is None else str(value) for value in array.to_pylist()]
        shape = getattr(kind, "shape", None)
        if shape is not None and hasattr(array, "to_numpy_ndarray"):
            self._check_there(array, array.storage.flatten())
            return array.to_numpy_ndarray()
        if types.is_fixed_size_list(kind) and _is_number(_fixed(kind)):
            return self._fixed_lists(array)
        if (types.is_list(kind) or types.is_large_list(kind)) and _is_number(_plain_kind(kind.value_type)):
            return self._lists(array)
        if (types.is_list(kind) or types.is_large_list(kind)) and _is_text(_plain_kind(kind.value_type)):
            return self._text_lists(array)
        return [None if value is None else _json(value) for value in self._plain(array)]

    def _lists(self, array: Any) -> Any:
        self._check_there(array, array.flatten())
        if not len(array):
            return np.zeros((0, 0), _numbers(_plain_type(array.flatten())).dtype)
        numbers = _numbers(_plain_type(array.values.fill_null(0) if array.values.null_count else array.values))
        return [numbers[start:end] for start, end in itertools.pairwise(array.offsets.to_pylist())]

    @staticmethod
    def _text_lists(array: Any) -> Any:
        if not len(array):
            return np.zeros((0, 0), str)
        # An empty array of texts has a type, which an empty list has not.
        return [np.array([], str) if texts == [] else texts for texts in array.to_pylist()]

    def _fixed_lists(self, array: Any) -> Any:
        shape, flat = [len(array)], array
        while hasattr(flat.type, "list_size"):
            shape.append(flat.type.list_size)
            below = flat.flatten()
            self._check_there(flat, below)
            flat = below
        return _numbers(_plain_type(flat)).reshape(shape)

    def _check_there(self, array: Any, parts: Any) -> None:
        if not array.null_count and not parts.null_count:
            return
        row = next((i for i, value in enumerate(array.to_pylist()) if value is None or None in value), None)
        where = "" if row is None else f" (row {row})"
        hint = "fill the list, or leave such rows or the column out: an array has no place for what is missing"
        message = f"{self.op}: in column {self.name!r} a list, or a number of one, is missing{where}"
        raise InvalidPipelineError(message, {"column": self.name, "hint": hint})

    def _plain(self, array: Any) -> list[Any]:
        """Returns values as `json` takes them."""
        from pyarrow import types

        array = _plain_type(array)
        kind = array.type
        if types.is_struct(kind):
            parts = {field.name: self._plain(part) for field, part in zip(kind, array.flatten(), strict=True)}
            there = array.is_valid().to_pylist()
            return [{name: part[i] for name, part in parts.items()} if there[i] else None for i in range(len(array))]
        if types.is_map(kind):
            keys, items = self._plain(array.keys), self._plain(array.items)
            pairs = list(zip(keys, items, strict=True))
            is_text = _is_text(_plain_kind(kind.key_type))
            maps = [pairs[a:b] for a, b in _ends(array)]
            return self._parts(array, [dict(one) if is_text else [list(pair) for pair in one] for one in maps])
        if types.is_list(kind) or types.is_large_list(kind):
            values = self._plain(array.values)
            return self._parts(array, [values[a:b] for a, b in _ends(array)])
        if types.is_fixed_size_list(kind):
            return self._plain(array.cast(_list_of(kind)))
        if _is_bytes(kind):
            return [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()]
        if types.is_decimal(kind):
            return [None if v is None else str(v) for v in array.to_pylist()]
        if _is_number(kind) or _is_text(kind) or types.is_null(kind):
            found: list[Any] = array.to_pylist()
            return found
        hint = "leave the column out by columns=, or convert it before"
        message = f"{self.op}: column {self.name!r} has values of type {kind}, which are not read"
        raise InvalidPipelineError(message, {"column": self.name, "hint": hint})

    def _parts(self, array: Any, values: list[Any]) -> list[Any]:
        return [value if there else None for value, there in zip(values, array.is_valid().to_pylist(), strict=True)]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _ends(array: Any) -> Iterator[tuple[int, int]]:
    return itertools.pairwise(array.offsets.to_pylist())


def _numbers(array: Any) -> Any:
    from pyarrow import types

    if not array.null_count:
        return array.to_numpy(zero_copy_only=False)
    filled = array.fill_null(False if types.is_boolean(array.type) else 0)
    return np.ma.masked_array(filled.to_numpy(zero_copy_only=False), array.is_null().to_numpy(zero_copy_only=False))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    plain = _plain_kind(kind)
    return bool(types.is_integer(plain) or types.is_floating(plain) or types.is_boolean(plain))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    from pyarrow import types

    is_view = types.is_binary_view(kind) or types.is_fixed_size_binary(kind)
    return bool(is_view or types.is_binary(kind) or types.is_large_binary(kind))


def _fixed(kind: Any) -> Any:
    while hasattr(kind, "list_size"):
        kind = kind.value_type
    return kind


def _list_of(kind: Any) -> Any:
    import pyarrow as pa

    return pa.list_(kind.value_field)


def _plain_kind(kind: Any) -> Any:
    """Returns the type that times and dates are counted in, and the type of the values of a dictionary."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(kind):
        return _plain_kind(kind.value_type)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return pa.int64()
    return kind


def _plain_type(array: Any) -> Any:
    """Returns the values of dictionaries, run-end encodings and extensions, and times as int64."""
    import pyarrow as pa
    from pyarrow import compute, types

    kind = array.type
    if types.is_dictionary(kind):
        values = array.dictionary
        if types.is_string_view(values.type) or types.is_binary_view(values.type):
            # pyarrow takes no rows of a view.
            values = values.cast(pa.large_string() if types.is_string_view(values.type) else pa.large_binary())
        return _plain_type(values.take(array.indices))
    if types.is_run_end_encoded(kind):
        return _plain_type(compute.run_end_decode(array))
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.bool8":
            return array.storage.cast(pa.bool_())
        return array if kind.extension_name == "arrow.fixed_shape_tensor" else _plain_type(array.storage)
    if types.is_temporal(kind) and not types.is_interval(kind):
        narrow = types.is_date32(kind) or types.is_time32(kind)
        return array.cast(pa.int32()).cast(pa.int64()) if narrow else array.cast(pa.int64())
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return _list_of_view(array)
    if types.is_fixed_size_list(kind) and _is_text(kind.value_type):
        is_null = array.is_null().to_numpy(zero_copy_only=False)
        return _list_array(np.where(is_null, 0, kind.list_size), array.flatten(), kind.value_field, is_null)
    return array


def _list_of_view(array: Any) -> Any:
    """Returns the lists of a view: pyarrow 26's cast reads other items where rows are out of order or missing."""
    import pyarrow as pa

    is_null = array.is_null().to_numpy(zero_copy_only=False)
    sizes = np.where(is_null, 0, array.sizes.to_numpy(zero_copy_only=False)).astype(np.int64)
    starts = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    places = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    return _list_array(sizes, array.values.take(pa.array(places)), array.type.value_field, is_null)


def _list_array(sizes: Any, items: Any, item: Any, is_null: Any) -> Any:
    """Returns lists of these sizes of items that stand one after the other."""
    import pyarrow as pa

    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    mask = pa.array(is_null) if is_null.any() else None
    return pa.LargeListArray.from_arrays(offsets, items, pa.large_list(item), mask=mask)
