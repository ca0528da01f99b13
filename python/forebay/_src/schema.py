"""The columns of a dataset, for display: names, dtypes and shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from forebay._src.arguments import shown
from forebay._src.site import site
from forebay.errors import InvalidPipelineError

NUMBERS = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
#: The most numbers of a row, which the engine counts in 32 bits.
_NUMBERS_MAX = 2**31 - 1
_NAMES = {bytes: "bytes", str: "string", "str": "string", "utf8": "string", "binary": "bytes"}


class Column(NamedTuple):
    """The type of one row of a column.

    Attributes:
        dtype: NumPy's name, `"bytes"` or `"string"`.
        shape: The dimensions of a row, `()` for single values; `None` is a dimension that differs from row to row. A
            list of strings has the shape `(None,)`.
    """

    dtype: str
    shape: tuple[int | None, ...] = ()

    def __str__(self) -> str:
        """As in `float32[1, 28, 28]`."""
        dims = ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.dtype}[{dims}]" if self.shape else self.dtype


class Schema(Mapping[str, Column]):
    """The columns of a dataset: a mapping from names to `(dtype, shape)` of one row.

    Attributes:
        nullable: The columns in which a row may be missing.
        batch_size: The rows of a batch; `None` where samples come one by one.
        padded: The columns with a dimension that differs from batch to batch, and is the same for all rows of a batch.
            In a batch such a column is one array.
        times: The units of time columns: `"D"`, `"s"`, `"ms"`, `"us"` or `"ns"`, by column.

    >>> import forebay as fb
    >>> fb.from_numpy({"x": np.zeros((4, 2), np.float32), "y": [1, 2, 3, 4]}).schema
    Schema(x: float32[2], y: int64)
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        nullable: frozenset[str] = frozenset(),
        batch_size: int | None = None,
        padded: frozenset[str] = frozenset(),
        times: Mapping[str, str] | None = None,
    ) -> None:
        self._columns = dict(columns)
        self.nullable = nullable
        self.batch_size = batch_size
        self.padded = padded
        self.times = dict(times or {})

    @classmethod
    def _of(
        cls,
        fields: list[tuple[str, str, list[int | None] | None, bool, bool]],
        batch_size: int | None,
        times: Mapping[str, str],
    ) -> Schema:
        columns = {name: Column(dtype, tuple(shape or ())) for name, dtype, shape, *_ in fields}
        nullable = frozenset(name for name, *_, null, _ in fields if null)
        return cls(columns, nullable, batch_size, frozenset(name for name, *_, padded in fields if padded), times)

    @property
    def ragged(self) -> frozenset[str]:
        """The columns of lists that differ in length within a batch. In a batch such a column is a `Ragged`."""
        if self.batch_size is None:
            return frozenset()
        lists = {name: column for name, column in self.items() if column.shape[:1] == (None,)}
        of_one_shape = (name for name, (dtype, shape) in lists.items() if None not in shape[1:] and dtype in NUMBERS)
        return frozenset(of_one_shape) - self.padded

    def __getitem__(self, name: str) -> Column:
        """Returns a column by name."""
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        """Names in order."""
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of columns."""
        return len(self._columns)

    def __repr__(self) -> str:
        """One line."""
        unit = {name: f" ({unit})" for name, unit in self.times.items()}
        missing = dict.fromkeys(self.nullable, "?")
        unit |= dict.fromkeys(self.ragged, " (ragged)")
        parts = [f"{name}: {column}{missing.get(name, '')}{unit.get(name, '')}" for name, column in self.items()]
        return f"Schema({', '.join(parts)})" + (f" in batches of {self.batch_size}" if self.batch_size else "")


def to_fields(op: str, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Reads a schema in the form that users of `op` write.

    >>> to_fields("map", {"id": int, "tokens": ("int32", [None]), "text": str})[1]
    {'name': 'tokens', 'kind': 'tensor', 'dtype': 'int32', 'shape': [None]}
    """
    try:
        if not isinstance(schema, Mapping):
            what = f"{op}: a schema is a dictionary by column, not {type(schema).__name__}"
            raise InvalidPipelineError(what, {"hint": 'give schema={"x": "int64", "image": ("uint8", (32, 32, 3))}'})
        return [_field(name, spec) for name, spec in schema.items()]
    except InvalidPipelineError as error:
        file, line = site()
        raise InvalidPipelineError(error.message, {"op": op, "line": f"{file}:{line}", **error.context}) from None


def _field(name: str, spec: Any) -> dict[str, Any]:
    dtype: Any = spec
    shape: Sequence[Any] = ()
    if isinstance(spec, tuple) and len(spec) == 2:
        dtype, shape = spec
        if isinstance(shape, int) or shape is None:
            shape = (shape,)
    if not isinstance(name, str):
        raise InvalidPipelineError(f"a schema has the key {shown(name)}, which is no column name")
    nullable = isinstance(dtype, str) and dtype.endswith("?")
    known = _dtype(name, dtype.rstrip("?") if isinstance(dtype, str) else dtype)
    extra = {"nullable": True} if nullable else {}
    if known == "string" and list(shape) == [None]:
        return {"name": name, "kind": "texts", **extra}
    if known in ("bytes", "string"):
        if len(shape):
            hint = {"hint": f"a list of texts is ({known!r}, [None])"} if known == "string" else {}
            raise InvalidPipelineError(f"column {name!r}: {known} has no shape", hint)
        return {"name": name, "kind": "bytes" if known == "bytes" else "utf8", **extra}
    if not len(shape):
        return {"name": name, "kind": "scalar", "dtype": known, **extra}
    return {"name": name, "kind": "tensor", "dtype": known, "shape": _shape(name, shape), **extra}


def _shape(name: str, shape: Sequence[Any]) -> list[int | None]:
    if math.prod(max(int(size), 0) for size in shape if isinstance(size, (int, np.integer))) > _NUMBERS_MAX:
        raise InvalidPipelineError(
            f"column {name!r}: a row of shape {shown(shape)} has more than {_NUMBERS_MAX} numbers"
        )
    for size in shape:
        if size is not None and (not isinstance(size, (int, np.integer)) or size < 0):
            raise InvalidPipelineError(
                f"column {name!r}: {size!r} is no dimension", {"hint": "use whole numbers, and None where rows differ"}
            )
    return [None if size is None else int(size) for size in shape]


def _dtype(name: str, dtype: Any) -> str:
    known = _NAMES.get(dtype) if isinstance(dtype, (str, type)) else None
    if known or dtype in ("bytes", "string"):
        return known or str(dtype)
    found = dtype_name(dtype)
    if found not in NUMBERS:
        hint = no_bfloat16(found) or f"use bytes, string, {', '.join(NUMBERS)}"
        raise InvalidPipelineError(f"column {name!r}: unknown dtype {found!r}", {"hint": hint})
    return found


def no_bfloat16(dtype: str) -> str | None:
    """Returns what to write for a column of bfloat16, which NumPy has not; `None` for other dtypes.

    >>> no_bfloat16("torch.bfloat16"), no_bfloat16("float8")
    ("NumPy has no bfloat16: use float32, and make tensors smaller on the device, batch['x'].to(torch.bfloat16)", None)
    """
    if "bfloat16" not in dtype:
        return None
    return "NumPy has no bfloat16: use float32, and make tensors smaller on the device, batch['x'].to(torch.bfloat16)"


#: The types that `cast` can produce.
CAST_TYPES = (*NUMBERS, "string", "bytes")


def cast_type(dtype: Any) -> str:
    """Returns the name of a cast's type, in any form of it; the caller compares it with `CAST_TYPES`.

    >>> cast_type(str), cast_type("bytes"), cast_type(np.float32), cast_type(int)
    ('string', 'bytes', 'float32', 'int64')
    """
    named = _NAMES.get(dtype) if isinstance(dtype, (str, type)) else None
    return named or (dtype if isinstance(dtype, str) and dtype in CAST_TYPES else dtype_name(dtype))


def dtype_name(dtype: Any) -> str:
    """Returns NumPy's name of a dtype, in any form of it; the engine checks whether it knows the name."""
    try:
        return str(np.dtype(dtype).name)
    except Exception:  # NumPy raises nearly anything, where it is given nearly anything.
        return dtype if isinstance(dtype, str) else shown(dtype)
