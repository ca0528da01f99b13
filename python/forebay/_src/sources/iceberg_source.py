"""Apache Iceberg tables: the package `pyiceberg` reads the metadata, and the engine reads the data files.

The engine finds columns of Parquet files by name, and Iceberg by number (field id). So the footers of all data files
are read here, and a column must have one name in all files that have its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from forebay._src import arguments
from forebay._src.dataset import Dataset
from forebay._src.expr.expr import Expr
from forebay._src.sources import store_settings, versioned_tables
from forebay._src.sources.array_records import one_line
from forebay._src.sources.versioned_tables import TableColumn, TableVersion
from forebay._src.usage import CREDENTIALS, READERS, explained
from forebay.errors import InvalidPipelineError, MissingFileError, NotFoundError, UnavailableError

#: The threads that read footers while the user writes the pipeline.
_THREADS = 32
_COMPACT = "rewrite the data files (CALL system.rewrite_data_files of Spark), or leave the column out by columns="


@explained(
    "from_iceberg(catalog.load_table('lake.train')) reads the current snapshot; ops come behind it",
    **READERS,
    storage_options=CREDENTIALS,
    snapshot="write snapshot_id=",
    source="write from_iceberg(table)",
    row_filter='write filters=fb.col("x") > 5',
    selected_fields="write columns=",
    table_identifier="write from_iceberg(pyiceberg.catalog.load_catalog(...).load_table(table_identifier))",
)
def from_iceberg(
    table: Any,
    *,
    snapshot_id: int | str | None = None,
    columns: Iterable[str] | None = None,
    nullable: str | Iterable[str] | None = None,
    filters: Expr | None = None,
) -> Dataset:
    """A snapshot of an Apache Iceberg table. The snapshot is chosen once, when the pipeline is written.

    The package `pyiceberg` reads the table's metadata and the footers of all data files, on this machine only: `pip
    install forebay[iceberg]`. The pipeline has the data files of the snapshot, which are read as `from_parquet` reads
    them; types become what they become there. Columns come in the order of the table's schema: of the current one, or
    of that of the snapshot that is named. Files come in the order of their sequence numbers, then of their paths, so
    that rows that are appended come last.

    Columns are found by their field ids. Refused are delete files, files in ORC and Avro, a column that was renamed and
    has its old name in some files, and columns with default values that older files lack.

    Args:
        table: A table of `pyiceberg`, from `catalog.load_table(...)`; or the path or url of a metadata file
            (`.../metadata/00003-....metadata.json`). For the path, `pyiceberg` gets the settings of
            `fb.storage_options`; a table has those of its catalog. The engine reads data files with the former, and
            those of the environment.
        snapshot_id: The number of a snapshot, or the name of a branch or a tag. Default: the current one.
        columns: The columns to read. Default: all.
        nullable: The columns that may have missing values; a row that lacks another one is a `DataError`. Default: the
            columns that are optional in the files, except those without missing values by the files' footers.
        filters: Reads only the rows for which this expression is true, as in `from_parquet`. Row groups are left out by
            their statistics.

    Raises:
        UnavailableError: `pyiceberg` or `pyarrow` is not installed, or the store does not answer.
        MissingFileError: There is no such table or snapshot, or a data file of it was removed.
        InvalidPipelineError: The table cannot be read exactly; the error says why, and what to do.

    >>> import forebay as fb, pyarrow, tempfile
    >>> from pyiceberg.catalog.sql import SqlCatalog
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)
    ...     catalog.create_namespace("lake")
    ...     table = catalog.create_table("lake.train", pyarrow.schema([("x", pyarrow.int64())]))
    ...     table.append(pyarrow.table({"x": [1, 2]}))
    ...     ds = fb.from_iceberg(table)
    ...     table.append(pyarrow.table({"x": [3]}))
    ...     ds.schema, [int(row["x"]) for row in ds], len(list(fb.from_iceberg(table)))
    (Schema(x: int64), [1, 2], 3)
    """
    op = "from_iceberg"
    return versioned_tables.read(_version_of(_opened(table, op), snapshot_id, op), columns, nullable, filters)


def _opened(table: Any, op: str) -> Any:
    try:
        import pyarrow as pa  # noqa: F401
        from pyiceberg.table import StaticTable, Table
    except ImportError as error:
        context = {"cause": str(error), "hint": "pip install forebay[iceberg]"}
        raise UnavailableError(f"{op}: the packages pyiceberg and pyarrow are needed", context) from None
    if isinstance(table, Table):
        return table
    path = arguments.path(table, op)
    if not path.endswith(".json"):
        hint = "give catalog.load_table(name) of pyiceberg, or the path of a file metadata/....metadata.json"
        raise InvalidPipelineError(f"{op}: {path!r} is no table and no metadata file", {"hint": hint})
    try:
        return StaticTable.from_metadata(path, store_settings.for_pyiceberg(path))
    except FileNotFoundError as error:
        raise MissingFileError(f"{op}: there is no such metadata file", {"file": path, "cause": str(error)}) from None
    except (OSError, ValueError) as error:
        context = {"file": path, "cause": one_line(error)}
        raise UnavailableError(f"{op}: the metadata cannot be read", context) from None


def _version_of(table: Any, wanted: int | str | None, op: str) -> TableVersion:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    snapshot = _snapshot(table, wanted, op)
    location = table.metadata.location
    scan = table.scan(snapshot_id=None if snapshot is None or wanted is None else snapshot.snapshot_id)
    schema = scan.projection()
    name = f"snapshot {'none' if snapshot is None else snapshot.snapshot_id} of {location}"
    found = TableVersion(op, name, [], [], _COMPACT, lambda: schema_to_pyarrow(schema).empty_table())
    leaves = list(_leaves("", schema.fields))
    if snapshot is None:
        return replace(found, columns=[leaf.column(leaf.name) for leaf in leaves])
    files = _data_files(table, snapshot, scan, found)
    footers = _footers(table, [file.file_path for file in files], found)
    columns = [_column(leaf, files, footers, table.specs()) for leaf in leaves]
    return replace(found, paths=[_path(file.file_path) for file in files], columns=columns)


def _snapshot(table: Any, wanted: int | str | None, op: str) -> Any:
    if wanted is None:
        return table.current_snapshot()
    if isinstance(wanted, str):
        found = table.snapshot_by_name(wanted)
    else:
        found = table.snapshot_by_id(arguments.whole(wanted, op, "snapshot_id", 0))
    if found is None:
        known = [str(each.snapshot_id) for each in table.snapshots()[-8:]]
        context = {"table": table.metadata.location, "op": op, "hint": f"the last ones are {', '.join(known)}"}
        raise NotFoundError(f"{op}: there is no snapshot {wanted!r}", context)
    return found


def _data_files(table: Any, snapshot: Any, scan: Any, found: TableVersion) -> list[Any]:
    """Returns the data files, in order.

    Raises:
        InvalidPipelineError: Rows of them were deleted without writing them anew, or they are no Parquet files.
    """
    hint = (
        "rewrite the data files (CALL system.rewrite_data_files of Spark), or write the rows of scan().to_arrow() anew"
    )
    try:
        tasks = list(scan.plan_files())
    except (ValueError, NotImplementedError) as error:
        raise found.refuse("pyiceberg cannot plan this snapshot", cause=one_line(error), hint=hint) from None
    except FileNotFoundError as error:
        context = {"table": found.name, "cause": one_line(error)}
        raise MissingFileError(f"{found.op}: metadata of this snapshot are not there", context) from None
    deleted = [task.file.file_path for task in tasks if task.delete_files]
    if deleted:
        what = f"{len(deleted)} data files of {found.name} have delete files, which are not applied"
        raise found.refuse(what, file=deleted[0], hint=hint)
    other = [task.file for task in tasks if task.file.file_format.name != "PARQUET"]
    if other:
        what = f"{len(other)} data files are {other[0].file_format.name}, and Parquet is read"
        raise found.refuse(what, file=other[0].file_path, hint=hint)
    manifests = [manifest for manifest in snapshot.manifests(table.io) if manifest.content.name == "DATA"]
    entries = (entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io))
    numbers = {entry.data_file.file_path: entry.sequence_number or 0 for entry in entries}
    files = [task.file for task in tasks]
    return sorted(files, key=lambda file: (numbers.get(file.file_path, 0), file.file_path))


def _path(path: str) -> str:
    return path.removeprefix("file://") if path.startswith("file:///") else path.removeprefix("file:")


def _footers(table: Any, paths: list[str], found: TableVersion) -> list[dict[int, _Leaf]]:
    """Reads the columns of each file, by field id."""
    from pyarrow import parquet
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    mapping = table.name_mapping()

    def look(path: str) -> dict[int, _Leaf]:
        try:
            with table.io.new_input(path).open() as file:
                stored = parquet.ParquetFile(file).schema_arrow
        except FileNotFoundError:
            raise versioned_tables._gone(found, path) from None
        except OSError as error:
            context = {"file": path, "cause": one_line(error)}
            raise UnavailableError(f"{found.op}: the footer of a data file cannot be read", context) from None
        try:
            schema = pyarrow_to_schema(
                stored,
                mapping,
                downcast_ns_timestamp_to_us=table.format_version < 3,
                format_version=table.format_version,
            )
        except Exception as error:
            # The library has several errors for files without field ids, and for types that it does not know.
            raise found.refuse(
                "the columns of a data file have no field ids", file=path, cause=one_line(error)
            ) from None
        return {leaf.number: leaf for leaf in _leaves("", schema.fields)}

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(look, paths))


@dataclass(frozen=True)
class _Leaf:
    """A column of a schema: of a struct, one of its fields."""

    name: str
    number: int
    kind: Any
    default: Any

    def column(self, stored: str, refused: str | None = None) -> TableColumn:
        """Returns it as a column whose name in files is `stored`."""
        is_list = type(self.kind).__name__ == "ListType"
        inside = self.kind.element_type if is_list else self.kind
        found = versioned_tables.type_of(str(inside))
        if found is None and self.kind.is_primitive:
            refused = f"is {self.kind}, which is not read"
        if is_list and found is not None and (found[0] == "bytes" or found[1] == "D" or "decimal" in str(inside)):
            found = None
        dtype, unit = found or (None, None)
        return TableColumn(self.name, stored, dtype, unit, is_list, refused=refused)


def _leaves(outer: str, fields: Iterable[Any]) -> Iterator[_Leaf]:
    for field in fields:
        if field.field_type.is_struct:
            yield from _leaves(f"{outer}{field.name}.", field.field_type.fields)
        else:
            default = getattr(field, "initial_default", None)
            yield _Leaf(outer + field.name, field.field_id, field.field_type, default)


def _column(leaf: _Leaf, files: list[Any], footers: list[dict[int, _Leaf]], specs: Any) -> TableColumn:
    """Finds the name of a column in the files, and whether all of it can be read by that name."""
    there = [footer[leaf.number] for footer in footers if leaf.number in footer]
    stored = sorted({found.name for found in there})
    name = stored[0] if stored else leaf.name
    without = [(file, footer) for file, footer in zip(files, footers, strict=True) if leaf.number not in footer]
    kinds = {_shape(found.kind): found.kind for found in there}
    other = next((kind for shape, kind in kinds.items() if not _fits(shape, _shape(leaf.kind))), None)
    refused = None
    if len(stored) > 1:
        refused = f"was renamed: files have it as {' and '.join(map(repr, stored))}"
    elif any(found.name == name for _, footer in without for found in footer.values()):
        refused = f"is named {name!r} in the files, and other files have another column of that name"
    elif without and leaf.default is not None:
        refused = "has a default value, and is not in all files"
    elif any(leaf.number in _partitioned(specs[file.spec_id]) for file, _ in without):
        refused = "is a partition column, and is not in all files"
    elif other is not None:
        refused = f"is {other} in some files, and {leaf.kind} in the table"
    return leaf.column(name, refused)


def _partitioned(spec: Any) -> set[int]:
    """Returns the columns whose values a file may lack, because its partition has them."""
    return {field.source_id for field in spec.fields if str(field.transform) == "identity"}


def _shape(kind: Any) -> Any:
    """Returns a type with the names and numbers of the fields in it, without what is required."""
    if kind.is_struct:
        return tuple((field.field_id, field.name, _shape(field.field_type)) for field in kind.fields)
    if kind.is_primitive:
        return str(kind)
    if hasattr(kind, "element_id"):
        return "list", kind.element_id, _shape(kind.element_type)
    return "map", kind.key_id, _shape(kind.key_type), kind.value_id, _shape(kind.value_type)


def _fits(found: Any, wanted: Any) -> bool:
    """Says whether values of a type of files are those of a type of the table, or become them exactly."""
    if found == wanted or (found, wanted) in (("int", "long"), ("float", "double")):
        return True
    both = (found, wanted)
    # A wider decimal has the same text, because it keeps its scale.
    return all(str(kind).startswith("decimal") for kind in both) and len({kind.split(",")[1] for kind in both}) == 1
