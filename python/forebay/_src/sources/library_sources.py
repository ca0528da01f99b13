"""Data sets that other libraries read: ArrayRecord files and Lance data sets.

The pipeline begins with row numbers, so its counts, shuffles and states are those of `range`. A function of whole
batches then reads the rows of a call with one call of the library. `from_map_dataset` would read them one by one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from forebay._src import arguments
from forebay._src.arguments import PathLike, Paths
from forebay._src.dataset import Dataset
from forebay._src.sources import array_records, lance_rows, local_files, memory_sources
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError, MissingFileError, UnavailableError

#: Seconds that the rows of a call may take, equal to the limit for an item of `from_map_dataset`.
_TIMEOUT = 300.0
#: The end of an ArrayRecord file's name; TensorFlow Datasets writes `mnist-train.array_record-00000-of-00001`.
_ARRAY_RECORD = re.compile(r"\.array_?record(-[0-9]+-of-[0-9]+)?$")


@explained()
def from_array_record(paths: Paths) -> Dataset:
    """ArrayRecord files, which Grain reads and TensorFlow Datasets writes: column `record`, of bytes.

    The package `array_record` reads them: `pip install array_record`, here and on the workers. It counts records by the
    files' ends, so `shuffle` is over all rows at once. Parse the records with `map`. Files that were written with
    `group_size:1` are fast in any order; in other files, each record is decoded with its group.

    If a file changes after the pipeline was written, a process that opens it raises an error; a pipeline that is
    written then is another dataset. Files in a store (`s3://`, `gs://`) are not read: mount the store as a folder.

    Args:
        paths: The files. In a folder, the files whose names end in `.array_record` or `.arrayrecord`, also with
            `-00000-of-00001` behind that.

    Raises:
        UnavailableError: `array_record` is not installed.
        MissingFileError: There is no such file.
        DataError: A file is no ArrayRecord file, or was cut off.

    >>> import forebay as fb, tempfile
    >>> from array_record.python.array_record_module import ArrayRecordWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = ArrayRecordWriter(folder + "/train.array_record", "group_size:1")
    ...     for record in (b"one", b"two"):
    ...         _ = writer.write(record)
    ...     writer.close()
    ...     [row["record"] for row in fb.from_array_record(folder)]
    [b'one', b'two']
    """
    op = "from_array_record"
    named = arguments.paths(paths, op)
    _installed(op, array_records.library, "array_record")
    reader = array_records.ArrayRecords.of(local_files.find(named, op, _ARRAY_RECORD))
    return _read(op, len(reader), reader, {"record": "bytes"})


@explained()
def from_lance(
    uri: PathLike,
    *,
    columns: Iterable[str] | None = None,
    nullable: str | Iterable[str] | None = None,
    version: int | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Dataset:
    """A Lance data set, here or in a store. The version is pinned when the pipeline is written.

    The package `pylance` reads it: `pip install pylance`, here and on the workers. Columns are numbers, truth values,
    texts, bytes, lists of numbers (`float32[?]`) and lists of fixed size (`float32[768]`, also nested).

    Not supported are other types (times, decimals, dictionaries, structs, maps, lists of texts, blobs and all extension
    types such as `bfloat16`), which `columns=` leaves out, and Lance's filters, searches and branches: `.filter()`
    drops rows after they were read. All of `columns` are read, even columns that no later op needs.

    Args:
        uri: The folder of the data set, or its url in Lance's form: `s3://bucket/train.lance`.
        columns: The columns to read. Default: all.
        nullable: The columns that may have missing values; a row that lacks another one is an error. Default: the
            columns that the data set marks so, which are nearly all. Lists are never missing.
        version: The number of a version, or a tag. Default: the latest version.
        storage_options: The options that Lance needs to reach the store, such as `region` and `endpoint`. They travel
            with the pipeline, and are part of the dataset's id: pass secrets in the environment of each process.

    Raises:
        UnavailableError: `pylance` is not installed, or the store does not answer.
        MissingFileError: There is no such data set or version.
        InvalidPipelineError: A column has a type that Forebay does not support.

    >>> import forebay as fb, lance, pyarrow, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = lance.write_dataset(pyarrow.table({"x": [1, 2], "name": ["a", "b"]}), folder + "/train.lance")
    ...     ds = fb.from_lance(folder + "/train.lance", nullable=[])
    ...     ds.schema, [row["name"] for row in ds]
    (Schema(x: int64, name: string), ['a', 'b'])
    """
    op = "from_lance"
    text = arguments.path(uri, op)
    text = text if "://" in text else os.path.join(os.getcwd(), text)
    names, missing = arguments.columns(columns, op, "columns"), arguments.columns(nullable, op, "nullable")
    which = _version(op, version)
    arguments.mapping(storage_options, op, "storage_options", 'storage_options={"region": "eu-central-1"}')
    _installed(op, lance_rows.library, "pylance")
    options = None if storage_options is None else dict(storage_options)
    dataset = _opened(op, text, which, options)
    schema = _schema(op, dataset.schema, names, missing)
    reader = lance_rows.LanceRows(text, dataset.version, lance_rows.content_of(dataset), schema, options)
    return _read(op, dataset.count_rows(), reader, schema)


def _read(op: str, count: int, reader: Callable[..., Any], schema: Mapping[str, Any]) -> Dataset:
    return memory_sources.range(count).map(reader, batched=True, schema=schema, timeout=_TIMEOUT, name=op)


def _installed(op: str, library: Callable[[], Any], package: str) -> None:
    try:
        library()
    except ImportError as error:
        context = {"cause": str(error), "hint": f"pip install {package}"}
        raise UnavailableError(f"{op}: the package {package} is not installed", context) from None


def _version(op: str, version: int | str | None) -> int | str | None:
    if version is None or isinstance(version, str):
        return version
    return arguments.whole(version, op, "version", 1)


def _opened(op: str, uri: str, version: int | str | None, options: dict[str, str] | None) -> Any:
    try:
        return lance_rows.opened(uri, version, options)
    except (*lance_rows.FAILURES, TypeError) as error:
        cause = array_records.one_line(error)
        context = {"file": uri, "cause": cause}
        if "not found" in cause.lower():
            what = "there is no such data set" + (f" or version {version!r}" if version is not None else "")
            raise MissingFileError(what, {**context, "op": op, "hint": "check the path and the version"}) from None
        kind = UnavailableError if isinstance(error, OSError) else InvalidPipelineError
        raise kind(f"{op}: the data set cannot be opened", context) from None


def _schema(op: str, found: Any, columns: list[str] | None, nullable: list[str] | None) -> dict[str, Any]:
    """Returns the columns to read, in the form of `map`'s `schema`."""
    names: list[str] = found.names if columns is None else columns
    for name in (*names, *(nullable or ())):
        arguments.known_column(op, name, found.names)
    if len(set(names)) < len(names) or not names:
        raise InvalidPipelineError(f"{op}: columns= names a column twice" if names else f"{op}: there are no columns")
    schema: dict[str, Any] = {}
    for name in names:
        field = found.field(name)
        kind = lance_rows.column_type(field)
        if kind is None:
            hint = "name the others by columns=[...]; numbers, truth values, texts, bytes and lists of numbers are read"
            what = f"{op}: column {name!r} is {field.type}, which is not read"
            raise InvalidPipelineError(what, {"column": name, "hint": hint})
        may_miss = field.nullable if nullable is None else name in nullable
        schema[name] = f"{kind}?" if may_miss and isinstance(kind, str) else kind
    return schema
