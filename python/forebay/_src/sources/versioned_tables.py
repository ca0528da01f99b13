"""Reads the data files of one version of a table, of which another library read the metadata (Delta Lake, Iceberg).

The files are read as Parquet files by name, all footers are merged, and each column is compared with the table's
schema. What would yield other rows than the table has is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from forebay._src import arguments
from forebay._src.dataset import Dataset
from forebay._src.expr.expr import Expr, _make, col, lit
from forebay._src.schema import Schema
from forebay._src.sources.file_sources import _tables
from forebay._src.sources.partition_paths import PathColumns, as_dtype, engine_path
from forebay._src.sources.partition_pruning import files_that_may_match
from forebay._src.sources.table_sources import from_table
from forebay.errors import DataError, InvalidPipelineError, MissingFileError

#: The most data files of a version. Each path is in the pipeline.
FILES_MAX = 2**20
#: Types of numbers, and the types from which they are exact.
_NARROWER = {
    "int16": ("int8",),
    "int32": ("int8", "int16"),
    "int64": ("int8", "int16", "int32"),
    "float64": ("float32", "int8", "int16", "int32"),
}
#: The engine's type of each type of a table, and the unit of a time.
_TYPES: dict[str, tuple[str, str | None]] = {
    "boolean": ("bool", None),
    "byte": ("int8", None),
    "short": ("int16", None),
    "int": ("int32", None),
    "integer": ("int32", None),
    "long": ("int64", None),
    "float": ("float32", None),
    "double": ("float64", None),
    "string": ("string", None),
    "binary": ("bytes", None),
    "uuid": ("bytes", None),
    "fixed": ("bytes", None),
    "decimal": ("string", None),
    "date": ("int64", "D"),
    "time": ("int64", "us"),
    "timestamp": ("int64", "us"),
    "timestamptz": ("int64", "us"),
    "timestamp_ntz": ("int64", "us"),
    "timestamp_ns": ("int64", "ns"),
    "timestamptz_ns": ("int64", "ns"),
}


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: of a struct, one of its fields, named `outer.inner`."""

    name: str
    #: Its name in the files.
    stored: str
    #: The engine's type. `None`: types of files are not compared with it.
    dtype: str | None
    #: The unit of a column of times.
    unit: str | None = None
    is_list: bool = False
    #: The value of each file, if it is one of a partition.
    values: Sequence[Any] | None = None
    #: Why it cannot be read exactly.
    refused: str | None = None


@dataclass(frozen=True)
class TableVersion:
    """The data files and columns of one version of a table."""

    op: str
    #: As in `version 3 of /data/train`.
    name: str
    paths: Sequence[str]
    columns: Sequence[TableColumn]
    #: What rewrites data files, for errors.
    compact: str
    #: Returns a table of pyarrow with the columns and no row.
    empty: Callable[[], Any]

    def refuse(self, what: str, **context: str) -> InvalidPipelineError:
        """Returns the error for what cannot be read exactly."""
        given = {"table": self.name, "hint": self.compact, **context}
        return InvalidPipelineError(f"{self.op}: {what}", given)


def type_of(name: str) -> tuple[str, str | None] | None:
    """Returns the engine's type and unit of a simple type of Delta Lake or Iceberg.

    >>> type_of("decimal(9, 2)"), type_of("date"), type_of("variant")
    (('string', None), ('int64', 'D'), None)
    """
    return _TYPES.get(name.partition("(")[0].partition("[")[0].strip())


def read(
    table: TableVersion,
    columns: str | Iterable[str] | None,
    nullable: str | Iterable[str] | None,
    filters: Expr | None,
) -> Dataset:
    """Makes a dataset of columns of a version, in the order of its schema, or of `columns`."""
    op, by_name = table.op, {column.name: column for column in table.columns}
    wanted = arguments.columns(columns, op, "columns")
    wanted = list(by_name) if wanted is None else wanted
    if filters is not None and not isinstance(filters, Expr):
        what = f"{op}: filters is {type(filters).__name__}, and must be an expression"
        raise InvalidPipelineError(what, {"hint": 'write fb.col("x") > 5, and join conditions with & and |'})
    if len(set(wanted)) < len(wanted) or not wanted:
        raise InvalidPipelineError(f"{op}: columns= names a column twice" if wanted else f"{op}: there are no columns")
    units = {column.name: column.unit for column in table.columns if column.unit}
    parts = [] if filters is None else filters.to_parts(units, op)
    missing = arguments.columns(nullable, op, "nullable")
    needed = list(dict.fromkeys([*wanted, *(part["name"] for part in parts if part["expr"] == "col")]))
    for name in (*needed, *(missing or ())):
        arguments.known_column(op, name, list(by_name))
    for name in needed:
        if reason := by_name[name].refused:
            raise table.refuse(f"column {name!r} {reason}", column=name)
        if sum(column.name == name for column in table.columns) > 1:
            raise table.refuse(f"two columns are named {name!r}", column=name, hint="leave it out by columns=")
    if len(table.paths) > FILES_MAX:
        raise table.refuse(f"{table.name} has {len(table.paths)} data files, and {FILES_MAX} may be read")
    if not table.paths:
        ds = from_table(table.empty()).select(needed)
        return (ds if filters is None else ds.filter(filters)).select(wanted)
    kept = files_that_may_match({c.name: c for c in table.columns if c.values is not None}, parts, len(table.paths))
    reading = _Reading(table, [by_name[name] for name in needed], kept)
    return reading.dataset(wanted, missing, parts, filters)


class _Reading:
    """The files and the columns to read."""

    def __init__(self, table: TableVersion, columns: list[TableColumn], kept: Sequence[int]) -> None:
        self.table, self.columns = table, columns
        paths = [table.paths[place] for place in kept]
        for path in paths:
            if "://" not in path and not os.path.isfile(path):
                raise _gone(table, path)
        said = [column for column in columns if column.values is not None]
        self.values = {c.stored: [c.values[place] for place in kept] for c in said if c.values is not None}
        stored = [column.stored for column in columns if column.values is None]
        self.in_paths = PathColumns(paths, list(self.values), stored, table.op) if said else None
        self.paths = [engine_path(path) for path in paths]
        self.found = self._schema(stored)
        self.absent = {c.stored for c in columns if c.values is None and c.stored not in self.found}
        self._check_names()

    def _schema(self, stored: list[str]) -> Schema:
        """Returns the columns of the files, or only the columns that are read if the types of another one conflict."""
        try:
            return self._files(self.paths, None, None).schema
        except MissingFileError as error:
            raise _gone(self.table, error.context.get("file", "")) from None
        except DataError:
            if not stored:
                raise
            return self._files(self.paths, stored, None).schema

    def _files(self, paths: list[str], columns: list[str] | None, nullable: list[str] | None, **more: Any) -> Dataset:
        hive = None if paths is self.paths else "hive"
        return _tables(self.table.op, "parquet", paths, columns, nullable, hive, True, **more)  # type: ignore[arg-type]

    def _check_names(self) -> None:
        """Refuses a column that differs from one of the table only by upper and lower case: it may have its values."""
        all_stored = {column.stored: column for column in self.table.columns}
        lower = {stored.casefold(): column for stored, column in all_stored.items()}
        for name in self.found:
            column = lower.get(name.casefold())
            if name not in all_stored and column in self.columns and column is not None:
                what = f"column {column.name!r} is named {name!r} in some of the files"
                raise self.table.refuse(what, column=column.name)

    def dataset(
        self, wanted: list[str], nullable: list[str] | None, parts: list[dict[str, Any]], filters: Expr | None
    ) -> Dataset:
        """Makes the dataset."""
        made = {column.stored: self._expression(column) for column in self.columns}
        stored = [column.stored for column in self.columns if column.stored not in self.absent]
        some = stored or [next(iter(self.found))]
        paths = self.paths if self.in_paths is None else self.in_paths.paths
        missing = self._missing(nullable)
        if filters is None:
            ds = self._files(paths, some, missing)
        else:
            by_name = {column.name: column.stored for column in self.columns}
            of_files = _make(tuple(_replaced(parts, by_name, made)), str(filters))
            ds = self._files(paths, some, missing, filter=of_files.to_parts()).filter(of_files)
        units = dict(ds._pipeline.times)
        for column in self.columns:
            expression = made[column.stored]
            if expression is not None and column.stored not in self.absent:
                ds = ds.with_column(column.stored, expression)
                units |= {column.stored: column.unit} if column.unit else {}
        renamed = {c.stored: c.name for c in self.columns if c.stored != c.name and c.stored in stored}
        ds = ds.rename(renamed) if renamed else ds
        units = {renamed.get(name, name): unit for name, unit in units.items()}
        for column in self.columns:
            expression = made[column.stored]
            if expression is not None and column.stored in self.absent:
                ds = ds.with_column(column.name, expression)
                units |= {column.name: column.unit} if column.unit else {}
        ds = ds if list(ds.schema) == wanted else ds.select(wanted)
        units = {name: unit for name, unit in units.items() if name in wanted}
        return ds if units == ds._pipeline.times else Dataset(ds._pipeline.with_times(units))

    def _missing(self, named: list[str] | None) -> list[str]:
        """Returns the columns that may lack values: the user's `nullable`, or the optional columns of the files."""
        texts = {} if self.in_paths is None else self.in_paths.texts
        may_be_missing = []
        for column in self.columns:
            name = column.stored
            is_named = column.name in named if named is not None else name in self.found.nullable and name not in texts
            if (is_named and name not in self.absent) or None in texts.get(name, ()):
                may_be_missing.append(name)
        return may_be_missing

    def _expression(self, column: TableColumn) -> Expr | None:
        """Returns what makes a column of the table of that of the files; `None` if they are the same."""
        name, dtype = column.name, column.dtype
        if column.values is not None and self.in_paths is not None and dtype is not None:
            return self.in_paths.expression(column.stored, self.values[column.stored], dtype)
        if column.stored in self.absent:
            if column.is_list or dtype is None:
                what = f"column {name!r} is in none of the files, and a list cannot be missing"
                raise self.table.refuse(what, column=name, hint="leave it out by columns=")
            return as_dtype(lit("any"), {}, dtype)
        if dtype is None:
            return None
        found, unit = self.found[column.stored], self.found.times.get(column.stored)
        if (unit, column.unit, found.dtype, column.is_list) == ("ns", "us", "int64", False):
            # Spark's INT96 counts nanoseconds, of which the table's type keeps microseconds.
            return col(column.stored) // 1000
        if unit != column.unit or bool(found.shape) != column.is_list:
            what = f"column {name!r} is {found}{_of(unit)} in the files, and {dtype}{_of(column.unit)} in the table"
            raise self.table.refuse(what, column=name)
        if found.dtype == dtype:
            return None
        if found.dtype in _NARROWER.get(dtype, ()) and not column.is_list:
            return col(column.stored).cast(dtype)
        raise self.table.refuse(f"column {name!r} is {found} in the files, and {dtype} in the table", column=name)


def _of(unit: str | None) -> str:
    return "" if unit is None else f" ({unit})"


def _gone(table: TableVersion, path: str) -> MissingFileError:
    what = f"{table.op}: a data file of {table.name} is not there"
    hint = "old files were removed, as by VACUUM or by expiring snapshots: name a later version, or restore the file"
    return MissingFileError(what, {"file": path, "hint": hint})


def _replaced(
    parts: Sequence[dict[str, Any]], stored: dict[str, str], made: dict[str, Expr | None]
) -> Iterable[dict[str, Any]]:
    """Yields a condition on columns of the table as one on columns of the files."""
    for part in parts:
        expression = made[stored[part["name"]]] if part["expr"] == "col" else None
        if expression is not None:
            yield from expression.to_parts()
        else:
            yield {**part, "name": stored[part["name"]]} if part["expr"] == "col" else part
