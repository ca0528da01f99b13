"""CSV files as a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forebay._src import arguments
from forebay._src.arguments import Paths
from forebay._src.dataset import Dataset
from forebay._src.schema import to_fields
from forebay._src.site import warn
from forebay._src.sources.file_sources import NULL, _files
from forebay._src.usage import COMPRESSION, CREDENTIALS, READERS, explained
from forebay.errors import InvalidPipelineError

_COLUMNS = 'write columns=["a", "b"]'
_BEFORE = "take such lines out of the file once: the first line has the names; .skip(n) behind it leaves out n samples"
_DELIMITER = 'write delimiter=";"'
_NUMBERS = 'such numbers are texts: put .with_column("x", fb.col("x").str.replace(",", "").cast(float)) behind it'
_SCHEMA = 'write schema={"a": "int64", "b": "string"}: it names all columns that are read'


@explained(
    'from_csv(paths, columns=["a", "b"]) reads these columns; schema={"a": "int64?"} says their types',
    **READERS,
    chunksize="put .batch(n) behind it",
    column_defaults='put .fill_null({"a": 0}) behind it',
    column_names='write header=["a", "b"]',
    column_types=_SCHEMA,
    comment=_BEFORE,
    compression=COMPRESSION,
    compression_type=COMPRESSION,
    decimal=_NUMBERS,
    dtype=_SCHEMA,
    dtypes=_SCHEMA,
    field_delim=_DELIMITER,
    has_header='write header=False, or header=["a", "b"]',
    infer_schema_length='write schema={"a": "float64"} where the first 1,000 rows do not show the type',
    label_name="name the label where you iterate: batch.pop('label')",
    na_value='write null=["NA"]',
    na_values='write null=["NA"]',
    names='write header=["a", "b"]',
    index_col="leave it out: each column is read as it is",
    num_epochs="write iter(epochs=n)",
    parse_dates='put .with_column("when", fb.col("when").str.to_time("s")) behind it',
    quotechar="write quote='\"'",
    quoting="write quote=None for files in which quotes are letters",
    record_defaults='put .fill_null({"a": 0}) behind it',
    select_cols=_COLUMNS,
    select_columns=_COLUMNS,
    schema_overrides=_SCHEMA,
    sep=_DELIMITER,
    separator=_DELIMITER,
    skip_rows=_BEFORE,
    skiprows=_BEFORE,
    storage_options=CREDENTIALS,
    thousands=_NUMBERS,
    usecols=_COLUMNS,
)
def from_csv(
    paths: Paths,
    *,
    schema: Mapping[str, Any] | None = None,
    columns: str | Sequence[str] | None = None,
    header: bool | Sequence[str] = True,
    delimiter: str | None = None,
    quote: str | None = '"',
    null: Sequence[str] = NULL,
    newlines_in_values: bool | None = None,
) -> Dataset:
    r"""Rows of CSV files (RFC 4180), or of files with another delimiter.

    Files may be compressed with gzip, zstd, bzip2 or xz. Empty lines at the end are no rows. A row with more or fewer
    fields than there are columns is an error of that row.

    Args:
        paths: The files.
        schema: The columns to read and their types: `{"name": dtype}`; a column of `"int64?"` may have missing values.
            Default: all columns, with the types of the first 1,000 rows: `bool`, `int64`, `float64`, or `string` (also
            for whole numbers that `int64` does not hold). A number that is missing in one of these rows may be missing
            in all.
        columns: The columns to read, with types as without `schema`.
        header: Whether each file begins with the names of its columns; all must have the same. A list names the
            columns of files that begin with a row; `False` names these columns `column_1`, `column_2`, ….
        delimiter: One letter. Default: a tab if the name of the first file has `.tsv`, else a comma.
        quote: One letter, which is doubled within a quoted field; `None` if quotes are letters.
        null: The texts that mean a missing value if they are not in quotes. In a column of texts they do so only if it
            is read as `"string?"`.
        newlines_in_values: Whether quoted fields may have line breaks. Such files are read from their start; without
            it, a shuffled read begins anywhere. Default: yes if a quoted field in the first MiB of the first file has a
            line break.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.csv").write_text('n,name\n1,"Smith, J."\n,Ada\n')
    ...     [dict(row) for row in from_csv(folder + "/*.csv")]
    [{'n': np.int64(1), 'name': 'Smith, J.'}, {'n': None, 'name': 'Ada'}]
    """
    op = "from_csv"
    if schema is not None and columns is not None:
        raise InvalidPipelineError(
            f"{op}: schema and columns both say what to read", {"hint": "leave columns out: schema names the columns"}
        )
    hint = "use True, False, or a list of the names of all columns"
    names: bool | list[str] | None = (
        arguments.columns(header, op, "header")
        if isinstance(header, (list, tuple))
        else arguments.flag(header, op, "header", hint)
    )
    dataset = _files(
        op,
        source="csv",
        paths=arguments.paths(paths, op),
        header=names,
        delimiter=_letter(delimiter, op, "delimiter"),
        quote=_letter(quote, op, "quote"),
        null=arguments.columns(null, op, "null") or [],
        multiline=arguments.flag_or_none(newlines_in_values, op, "newlines_in_values"),
        fields=None if schema is None else to_fields(op, schema),
        columns=arguments.columns(columns, op, "columns"),
    )
    if delimiter is None and header is True:
        _warn_of_another_delimiter(list(dataset.schema))
    return dataset


def _warn_of_another_delimiter(names: list[str]) -> None:
    """Warns where the only column's name has a usual delimiter in it: then each row would be one text."""
    if len(names) == 1 and (found := next((letter for letter in ";\t|" if letter in names[0]), None)):
        warn(
            f"from_csv: the only column is named {names[0]!r}; if the files are delimited by {found!r}, write "
            f"delimiter={found!r}",
            UserWarning,
        )


def _letter(value: str | None, op: str, name: str) -> str | None:
    if value is not None and len(arguments.text(value, op, name)) != 1:
        hint = 'use one letter, for example "," or ";" or "\\t"'
        raise InvalidPipelineError(f"{op}: {name}={arguments.shown(value)} is not one letter", {"hint": hint})
    return value
