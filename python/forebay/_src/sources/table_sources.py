"""Tables of other libraries: data frames and Arrow tables in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from forebay._src import arguments
from forebay._src.dataset import Dataset
from forebay._src.sources import arrow_columns, hf_files, memory_sources
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError


@explained()
def from_table(table: Any, *, columns: Iterable[str] | None = None) -> Dataset:
    """A table in memory: of pyarrow, pandas, polars, or of any library with `__arrow_c_stream__` (DuckDB, cuDF, …).

    Columns become what they become in `from_arrow`: times are int64, decimals are texts, the fields of a struct are
    columns named `outer.inner`, and lists of structs are JSON text. Only columns in which a value is missing
    may have missing values (`int64?`). Lists that all have the same length are tensors of that length. The index of a
    data frame is not read: `frame.reset_index()` makes a column of it.

    The values travel with the pipeline, so a service gets a copy of them. Write large tables to Parquet files.

    Args:
        table: The table.
        columns: The columns to take. Default: all.

    Raises:
        InvalidPipelineError: It is no table; or a list, or a number of one, is missing.
        NotFoundError: There is no such column.
        UnavailableError: pyarrow is not installed.

    >>> import pyarrow
    >>> ds = from_table(pyarrow.table({"x": [1, None, 3], "name": ["a", "b", "c"]}))
    >>> ds.schema, [row["name"] for row in ds]
    (Schema(x: int64?, name: string), ['a', 'b', 'c'])
    """
    op = "from_table"
    if hf_files.is_dataset(table):
        raise InvalidPipelineError(f"{op}: this is a data set of Hugging Face", {"hint": "write from_hf(dataset)"})
    return of_table(arrow_columns.table_of(table, op), op, columns)


def of_table(found: Any, op: str, columns: Iterable[str] | None) -> Dataset:
    """Returns a dataset of these columns of a `pyarrow.Table`."""
    names = arguments.columns(columns, op, "columns")
    for name in names or ():
        arguments.known_column(op, name, found.column_names)
    if names is not None:
        found = found.select(names)
    if not found.num_columns:
        raise InvalidPipelineError(f"{op}: the table has no columns")
    values, unsaid = arrow_columns.columns_of(found, op)
    made = memory_sources._memory(op, values)
    ds = type(made)(made._pipeline.with_times(arrow_columns.units_of(found)))
    for name in unsaid:
        ds = ds.cast({name: "bytes"})
    return ds
