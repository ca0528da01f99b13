"""Reads rows of a version of a Lance data set by their numbers, with the package `pylance`."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from forebay._src.functions.user_errors import SourceError
from forebay._src.sources.array_records import one_line

#: The exceptions that Lance raises if it cannot open or read something.
FAILURES = (OSError, ValueError, RuntimeError)


def library() -> Any:
    """Returns the module `lance`."""
    try:
        import lance
    except ImportError as error:
        raise ImportError(f"the package lance cannot be imported: pip install pylance ({error})") from None
    return lance


def opened(uri: str, version: int | str | None, storage_options: dict[str, str] | None) -> Any:
    """Opens a version of a data set: a number, a tag, or the latest one."""
    return library().dataset(uri, version=version, storage_options=storage_options)


def content_of(dataset: Any) -> str:
    """Returns a name for the content of a version: Lance gives each file that it writes a unique name."""
    digest = hashlib.blake2b(str(dataset.schema).encode(), digest_size=16)
    for fragment in dataset.get_fragments():
        digest.update(json.dumps(fragment.metadata.to_json(), sort_keys=True, default=str).encode())
    return digest.hexdigest()


class LanceRows:
    """A function from numbers of rows to the columns of these rows.

    Its pickle has the version and the name of its content, and no open data set: each process opens its own.
    """

    def __init__(
        self, uri: str, version: int, content: str, schema: dict[str, Any], storage_options: dict[str, str] | None
    ) -> None:
        self._parts = uri, version, content, schema, storage_options
        self._opened: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves the open data set out."""
        return LanceRows, self._parts

    def __call__(self, batch: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
        """Reads rows with one call."""
        uri, _, _, schema, _ = self._parts
        dataset, rows = self._dataset(), batch["id"].tolist()
        try:
            table = dataset.take(rows, columns=list(schema))
        except FAILURES as error:
            raise ValueError(f"{uri}: {one_line(error)}") from None
        columns = {name: table.column(name).combine_chunks() for name in schema}
        for name, column in columns.items():
            may_miss = isinstance(schema[name], str) and schema[name].endswith("?")
            if not may_miss and _has_nulls(column):
                row = next(row for row, value in zip(rows, column.to_pylist(), strict=True) if _is_missing(value))
                raise ValueError(f"{uri}: column {name!r} of row {row} is missing, or a part of it is")
        return {name: values(column) for name, column in columns.items()}

    def _dataset(self) -> Any:
        # Two threads may both open it at first; it does not matter which result is kept.
        if self._opened is None:
            uri, version, content, _, storage_options = self._parts
            try:
                dataset = opened(uri, version, storage_options)
            except FAILURES as error:
                raise SourceError(f"{uri}: version {version} cannot be opened: {one_line(error)}") from None
            if content_of(dataset) != content:
                raise SourceError(f"{uri} was written anew since the pipeline was: version {version} is another one")
            self._opened = dataset
        return self._opened


def column_type(field: Any) -> Any:
    """Returns a column's dtype, or dtype and shape, for a field of Arrow; `None` where no column holds it."""
    from pyarrow import types

    kind = field.type
    # For a blob, Lance returns its place, not its bytes.
    if (field.metadata or {}).get(b"lance-encoding:blob") == b"true":
        return None
    shape: list[int | None] = []
    while types.is_fixed_size_list(kind):
        shape.append(kind.list_size)
        kind = kind.value_type
    if not shape and (types.is_list(kind) or types.is_large_list(kind)):
        shape, kind = [None], kind.value_type
    if is_number(kind):
        dtype = np.dtype(kind.to_pandas_dtype()).name
        return (dtype, tuple(shape)) if shape else dtype
    if not shape and (types.is_string(kind) or types.is_large_string(kind)):
        return "string"
    if not shape and (types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)):
        return "bytes"
    return None


def is_number(kind: Any) -> bool:
    """Returns whether an Arrow type is of numbers or truth values."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def values(array: Any) -> Any:
    """Returns an Arrow array in the engine's form: numbers as NumPy arrays, all other types as a list."""
    from pyarrow import types

    kind = array.type
    if is_number(kind) and array.null_count:
        filled = array.fill_null(False if types.is_boolean(kind) else 0)
        missing = array.is_null().to_numpy(zero_copy_only=False)
        return np.ma.masked_array(filled.to_numpy(zero_copy_only=False), missing)
    if types.is_list(kind) or types.is_large_list(kind):
        numbers = array.values.to_numpy(zero_copy_only=False)
        return [numbers[start:end] for start, end in itertools.pairwise(array.offsets.tolist())]
    shape, flat = [len(array)], array
    while types.is_fixed_size_list(flat.type):
        shape.append(flat.type.list_size)
        flat = flat.flatten()
    return flat.to_numpy(zero_copy_only=False).reshape(shape) if is_number(flat.type) else flat.to_pylist()


def _has_nulls(array: Any) -> bool:
    """Returns whether a value is missing, or a part of one."""
    from pyarrow import types

    while not array.null_count:
        kind = array.type
        if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
            return False
        array = array.flatten()
    return True


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, list) and any(map(_is_missing, value)))
