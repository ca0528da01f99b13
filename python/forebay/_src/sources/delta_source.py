"""Delta Lake tables: the package `deltalake` reads the log, and the engine reads the data files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from forebay._src import arguments
from forebay._src.arguments import PathLike
from forebay._src.dataset import Dataset
from forebay._src.expr.expr import Expr
from forebay._src.sources import store_settings, versioned_tables
from forebay._src.sources.array_records import one_line
from forebay._src.sources.versioned_tables import TableColumn, TableVersion
from forebay._src.usage import CREDENTIALS, READERS, explained
from forebay.errors import ForebayError, InvalidPipelineError, MissingFileError, UnavailableError

_COMPACT = "rewrite the data files (OPTIMIZE, or with deletion vectors REORG TABLE ... APPLY (PURGE)), or leave it out"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_NAME = "delta.columnMapping.physicalName"


@explained(
    "from_delta(table, version=3) reads a version; ops come behind it",
    **READERS,
    storage_options=CREDENTIALS,
    source="write from_delta(table)",
    table_uri="write from_delta(table)",
)
def from_delta(
    table: PathLike | Any,
    *,
    version: int | str | datetime | None = None,
    columns: Iterable[str] | None = None,
    nullable: str | Iterable[str] | None = None,
    filters: Expr | None = None,
) -> Dataset:
    """A version of a Delta Lake table, here or in a store. The version is chosen once, when the pipeline is written.

    The package `deltalake` reads the table's log, on this machine only: `pip install forebay[delta]`. The pipeline has
    the data files of the version, which are read as `from_parquet` reads them; types become what they become there.
    Columns come in the order of the table's schema. Files come in the order of their modification times in the log,
    then of their paths, so that rows that are appended come last. Values of partition columns come from the log.

    Deletion vectors, column mapping by id, and types that were widened in a way that the files do not show are refused.

    Args:
        table: The folder of the table, its url (`s3://bucket/table`), or a `deltalake.DeltaTable`. For urls, the log is
            read with the settings of `fb.storage_options` and of the environment, as the data files are.
        version: A number, or a time: a `datetime` or its text in ISO 8601, for the latest version at that time.
            Default: the latest version; of a `DeltaTable`, the version that it has loaded.
        columns: The columns to read. Default: all.
        nullable: The columns that may have missing values; a row that lacks another one is a `DataError`. Default: the
            columns that are optional in the files, except those without missing values by the files' footers.
        filters: Reads only the rows for which this expression is true, as in `from_parquet`. Files are left out by the
            partition values in the log, and row groups by their statistics.

    Raises:
        UnavailableError: `deltalake` or `pyarrow` is not installed, or the store does not answer.
        MissingFileError: There is no such table or version, or a data file of it was removed.
        InvalidPipelineError: The table cannot be read exactly; the error says why, and what to do.

    >>> import forebay as fb, deltalake, pyarrow, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     deltalake.write_deltalake(folder, pyarrow.table({"x": [1, 2], "day": ["mon", "tue"]}), partition_by=["day"])
    ...     deltalake.write_deltalake(folder, pyarrow.table({"x": [3], "day": ["wed"]}), mode="append")
    ...     old, new = fb.from_delta(folder, version=0), fb.from_delta(folder, filters=fb.col("day") == "wed")
    ...     old.schema, sorted(int(row["x"]) for row in old), [int(row["x"]) for row in new]
    (Schema(x: int64, day: string), [1, 2], [3])
    """
    op = "from_delta"
    return versioned_tables.read(_version_of(_opened(table, version, op), op), columns, nullable, filters)


def _library(op: str) -> Any:
    try:
        import deltalake
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        context = {"cause": str(error), "hint": "pip install forebay[delta]"}
        raise UnavailableError(f"{op}: the packages deltalake and pyarrow are needed", context) from None
    return deltalake


def _opened(table: Any, version: int | str | datetime | None, op: str) -> Any:
    """Opens the table at a version."""
    library = _library(op)
    if isinstance(table, library.DeltaTable):
        if version is None:
            return table
        uri, options = table.table_uri, getattr(table, "_storage_options", None)
    else:
        text = arguments.path(table, op)
        uri = text if "://" in text else os.path.abspath(text)
        options = store_settings.for_deltalake(uri)
    if version is not None and not isinstance(version, str | datetime):
        version = arguments.whole(version, op, "version", 0)
    context = {"file": uri, "op": op}
    try:
        found = library.DeltaTable(uri, version=version if isinstance(version, int) else None, storage_options=options)
        if isinstance(version, str | datetime):
            _at(found, version, op)
    except library.exceptions.TableNotFoundError as error:
        context |= {"cause": one_line(error), "hint": "check the path; a table has a folder _delta_log"}
        raise MissingFileError(f"{op}: there is no Delta table here", context) from None
    except BaseException as error:
        # Its native module panics for some paths, with an exception that is no `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if isinstance(error, ForebayError):
            raise
        cause = _ANSI.sub("", one_line(error))
        if "not supported" in cause.lower() or "unsupported" in cause.lower():
            hint = "drop the feature (ALTER TABLE ... DROP FEATURE), or copy the table without it"
            what = f"{op}: the table has a feature that deltalake does not read"
            raise InvalidPipelineError(what, {**context, "cause": cause, "hint": hint}) from None
        if version is not None or "not found" in cause.lower():
            what = f"{op}: there is no such table" + ("" if version is None else f", or no version {version} of it")
            raise MissingFileError(what, {**context, "cause": cause, "hint": "check both"}) from None
        kind = UnavailableError if isinstance(error, OSError) else InvalidPipelineError
        raise kind(f"{op}: the table cannot be opened", {**context, "cause": cause}) from None
    return found


def _at(table: Any, when: str | datetime, op: str) -> None:
    """Loads the latest version at a time. The library loads the first one if there was none, which is refused."""
    try:
        time = datetime.fromisoformat(when) if isinstance(when, str) else when
    except ValueError:
        hint = "write a number, or a time as 2026-01-31T12:00:00Z"
        raise InvalidPipelineError(f"{op}: version={when!r} is no version", {"hint": hint}) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    table.load_as_version(time)
    made = table.history(1)[0].get("timestamp") if table.version() == 0 else None
    if made is not None and time.timestamp() * 1000 < made:
        first = datetime.fromtimestamp(made / 1000, UTC).isoformat()
        what = f"{op}: the table has no version as old as {time.isoformat()}"
        raise MissingFileError(what, {"file": table.table_uri, "hint": f"its first version is of {first}"})


def _version_of(table: Any, op: str) -> TableVersion:
    import pyarrow as pa

    uri = table.table_uri
    root = unquote(urlsplit(uri).path) if uri.startswith("file://") else uri
    name = f"version {table.version()} of {root.rstrip('/')}"
    actions = pa.table(table.get_add_actions(flatten=True))
    actions = actions.sort_by([("modification_time", "ascending"), ("path", "ascending")])
    paths = [_path(root, path) for path in actions["path"].to_pylist()]
    found = TableVersion(op, name, paths, [], _COMPACT, lambda: pa.schema(table.schema().to_arrow()).empty_table())
    _check_features(table, found)
    fields = json.loads(table.schema().to_json())["fields"]
    partitions = table.metadata().partition_columns
    columns = [_column(one, field, actions, partitions) for one, field in _leaves("", "", fields)]
    return replace(found, columns=columns)


def _path(root: str, path: str) -> str:
    """Returns the path of a file, which the log has as a relative reference, or for other tables' files a whole one."""
    if path.startswith("file://"):
        return unquote(urlsplit(path).path)
    if "://" in path or path.startswith("/"):
        return unquote(path)
    if "://" not in root:
        return os.path.join(root, unquote(path))
    return unquote(root.rstrip("/") + "/" + path)


def _check_features(table: Any, found: TableVersion) -> None:
    mapping = table.metadata().configuration.get("delta.columnMapping.mode") or "none"
    if mapping not in ("none", "name"):
        raise found.refuse(f"columns of this table are mapped by {mapping}, and mapping by name is read")
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return
    try:
        files = sum(batch.num_rows for batch in table.deletion_vectors())
    except Exception as error:
        raise found.refuse("the deletion vectors of this table cannot be read", cause=one_line(error)) from None
    if files:
        hint = "write the rows anew: REORG TABLE ... APPLY (PURGE) of Spark, or read a version without them"
        raise found.refuse(f"{files} data files of {found.name} have deletion vectors", hint=hint)


def _leaves(outer: str, stored: str, fields: list[dict[str, Any]]) -> Iterator[tuple[TableColumn, dict[str, Any]]]:
    """Yields columns with their fields; of structs, the fields in them."""
    for field in fields:
        kind, facts = field["type"], field.get("metadata") or {}
        name, inside = outer + field["name"], stored + facts.get(_NAME, field["name"])
        if isinstance(kind, dict) and kind["type"] == "struct":
            yield from _leaves(name + ".", inside + ".", kind["fields"])
            continue
        is_simple = isinstance(kind, str)
        is_list = not is_simple and kind["type"] == "array"
        simple = kind if is_simple else kind["elementType"] if is_list else ""
        known = versioned_tables.type_of(simple) if isinstance(simple, str) else None
        refused = _refused(facts.get("delta.typeChanges") or ())
        if is_simple and known is None:
            refused = f"is {kind}, which is not read"
        # Lists of other things and maps are texts, of which the engine has no type to compare.
        is_known = known is not None and (is_simple or (simple not in ("binary", "date") and "decimal" not in simple))
        dtype, unit = known if known is not None and is_known else (None, None)
        yield TableColumn(name, inside, dtype, unit, is_list, refused=refused), field


def _refused(changes: Iterable[dict[str, Any]]) -> str | None:
    """Says whether values in older files may have another text or unit than the table's type."""
    for change in changes:
        if change.get("fieldPath") or change["toType"].startswith(("decimal", "timestamp")):
            return f"was widened from {change['fromType']} to {change['toType']}, and older files have the old type"
    return None


def _column(column: TableColumn, field: dict[str, Any], actions: Any, partitions: list[str]) -> TableColumn:
    """Adds the values that the log has of a partition column."""
    import pyarrow as pa

    if column.name not in partitions:
        return column
    values = actions[f"partition.{column.name}"]
    if column.dtype == "bytes":
        return replace(column, values=values.to_pylist(), refused="is a partition column of bytes, which is not read")
    if field["type"] == "date" or field["type"].startswith("timestamp"):
        values = values.cast(pa.int32() if field["type"] == "date" else pa.timestamp("us")).cast(pa.int64())
    found = values.to_pylist()
    if field["type"].startswith("decimal"):
        found = [None if value is None else str(value) for value in found]
    return replace(column, values=found)
