"""Sources of samples in files.

Paths may be one path or a list, with globs (`*.tar`) and braces (`{000..127}`), here or in a store (`s3://`, `gs://`,
`az://`, `hf://datasets/`, `https://`).
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from forebay import _native
from forebay._src import arguments, native_json
from forebay._src.arguments import PathLike, Paths
from forebay._src.dataset import Dataset
from forebay._src.expr.expr import Expr
from forebay._src.iteration import saving
from forebay._src.schema import to_fields
from forebay._src.site import site
from forebay._src.sources import folder_layout, hf_files, hub
from forebay._src.usage import COMPRESSION, CREDENTIALS, READERS, THREADS, explained
from forebay.errors import InvalidPipelineError

#: The texts that mean a missing value in a CSV file, if the user gives none.
NULL = ("", "NA", "N/A", "n/a", "#N/A", "null", "NULL")
#: What to write for labels that do not depend on which folders are there.
_CLASSES = (
    'a label is the place of its folder among the sorted names; for other numbers put .with_column("label", '
    'fb.col("path").str.split("/", -2).lookup({"cat": 0, "dog": 1}, default=-1)) behind it'
)


@explained("from_files(paths) has the columns path and bytes", **READERS)
def from_files(paths: Paths) -> Dataset:
    """Whole files, one for each sample: columns `path` and `bytes`."""
    return _files("from_files", source="files", paths=arguments.paths(paths, "from_files"))


@explained(
    "from_image_folder(root) reads the files; decode_image, resize, shuffle and batch come behind it",
    batch_size="put .batch(n) behind it",
    class_names=_CLASSES,
    classes=_CLASSES,
    color_mode='put .decode_image("image", mode="L") behind it, of grayscale',
    crop_to_aspect_ratio='put .resize("image", shorter=n).center_crop("image", n) behind it',
    image_size='put .decode_image("image").resize("image", (height, width), antialias=False) behind it',
    label_mode='put .with_column("label", fb.col("label").one_hot(n)) behind it, of "categorical"',
    seed="leave it out: the seed is that of the iteration, as in iter(seed=1)",
    shuffle="put .shuffle() behind it",
    split="name the folder of the part: root + '/train'",
    subset="put train, test = .split(0.8, seed=123) behind it",
    transform="put .decode_image('image') and image ops behind it, or .map(fn)",
    validation_split="put train, test = .split(0.8, seed=123) behind it",
)
def from_image_folder(root: PathLike) -> Dataset:
    """A folder with one folder for each class, as torchvision's `ImageFolder`.

    Columns: `image` (the encoded bytes), `label` (the class's place among the sorted names) and `path`. Where
    the folder of a class is absent, labels of the classes behind it are smaller by one: have the same folders in all
    parts.

    Images are the files that end in jpg, jpeg, png, webp, bmp, gif, tif, tiff or ppm, in any case. `decode_image` reads
    all of them but ppm: use `map` with your own decoder for these, such as Pillow, or convert them once.

    Where the folders are splits (`train`, `val`, `test`, … with the folders of classes in them), name one of them. A
    `metadata.csv` beside the images, as Hugging Face's `imagefolder` reads it, is not read: a warning says how to join
    it.

    Raises:
        InvalidPipelineError: The folders of this folder are splits.
        MissingFileError: There is no such folder, or no image in a class folder.
    """
    folder = arguments.path(root, "from_image_folder")
    folder_layout.check(folder)
    return _files("from_image_folder", source="image_folder", root=folder)


@explained(
    'from_tar(paths, extensions=["jpg", "cls"]) reads these members alone',
    **READERS,
    handler="iter(on_error='skip') leaves samples out that fail",
    nodesplitter="iter(consumers=(rank, world)) gives each rank its part",
    resampled="iter(epochs=None) has no end",
    shardshuffle="put .shuffle() behind it",
)
def from_tar(paths: Paths, *, extensions: Iterable[str] | None = None) -> Dataset:
    """Tar shards, as WebDataset writes them: members with the same base name form one sample.

    Columns: `__key__`, and one of bytes for each extension. Shards may be compressed with gzip, zstd, bzip2 or xz.

    Args:
        paths: The files.
        extensions: The members to read, by the part of their names after the first dot: `["jpg", "seg.png", "txt?"]`. A
            member with `?` may be missing from a sample; a sample without one of the others is a `DataError`. Default:
            those of the first 100 samples of the first shard (of those within its first 64 MiB); a member that some of
            these lack may be missing.
    """
    named = arguments.columns(extensions, "from_tar", "extensions")
    return _files("from_tar", source="tar", paths=arguments.paths(paths, "from_tar"), extensions=named)


@explained(
    'from_tfrecord(paths, features={"x": "int64", "ids": ("int64?", [None])})',
    buffer_size=THREADS,
    compression_type=COMPRESSION,
    num_parallel_reads=THREADS,
)
def from_tfrecord(
    paths: Paths, *, features: Literal["infer"] | Mapping[str, Any] | None = None, verify: bool = True
) -> Dataset:
    """TFRecord files, which may be compressed with gzip, zlib, zstd, bzip2 or xz.

    Args:
        paths: The files.
        features: The features to parse of each `tf.train.Example` or `SequenceExample`: `{"name": dtype}` or `{"name":
            (dtype, shape)}`, or `"infer"` to look at the first records: a feature with one value in each of them is a
            single value, and any other is a list of any length. Default: none; the one column, `record`, has the bytes.
            `"int64?"` may be missing; `("int64?", [None])` is an empty list if a record has none. A list of texts is
            `("string", [None])`. A feature list is `("int64", [None])` if each step has one value, and `("int64",
            [None, 4])` if each has four.
        verify: Whether checksums are verified.
    """
    given: dict[str, Any] = {}
    if isinstance(features, str):
        if features != "infer":
            raise InvalidPipelineError(
                f"from_tfrecord: features={features!r}", {"hint": "use 'infer', or a dictionary"}
            )
        given = {"infer": True}
    elif features is not None:
        given = {"features": to_fields("from_tfrecord", features)}
    paths = arguments.paths(paths, "from_tfrecord")
    checked = arguments.flag(verify, "from_tfrecord", "verify")
    return _files("from_tfrecord", source="tfrecord", paths=paths, verify=checked, **given)


@explained(
    'from_parquet(paths, columns=["a", "b"], filters=fb.col("a") > 5) reads these columns and rows alone',
    **READERS,
    storage_options=CREDENTIALS,
)
def from_parquet(
    paths: Paths,
    *,
    columns: Iterable[str] | None = None,
    nullable: str | Iterable[str] | None = None,
    partitioning: Literal["hive"] | None = "hive",
    merge_schemas: bool = False,
    filters: Expr | None = None,
) -> Dataset:
    """Parquet files. A row in which a list is missing is a `DataError` of that row.

    Every type is read: times as int64, in the file's unit; decimals as text; types that no column can hold, such as
    lists of structs and maps, as JSON text (docs/reference.md has a table).

    Args:
        paths: The files.
        columns: The columns to read; others are not even fetched. Default: all.
        nullable: The columns that may have missing values; a row that lacks another one is a `DataError`. A list of
            numbers that is missing is an empty list in a column that is named here, because an array has no place for
            it. Default: the columns that the file's schema marks optional, except those without missing values by the
            footers of up to 16 files, spread over all, and no lists of numbers.
        partitioning: Whether folders `key=value` below a folder, or matched by a pattern, are columns: int64 if all
            values are whole numbers, else texts. With None, only the columns of the files are read.
        merge_schemas: Whether files may differ in their columns. Then the footers of all files are read, here and once:
            a column that is not in a file is missing there, and numbers get the widest type. Default: files have the
            columns of the first file, or raise a `DataError`.
        filters: Reads only the rows for which this expression is true, as `filter` behind it would, also over columns
            that are not in `columns`. Row groups and files are neither read nor counted if the statistics of a footer
            or `key=value` in a path show that the expression is true for none of their rows.

    >>> import pathlib, pyarrow, pyarrow.parquet, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for year in (2023, 2024):
    ...         pathlib.Path(folder, f"year={year}").mkdir()
    ...         pyarrow.parquet.write_table(pyarrow.table({"x": [1.5]}), f"{folder}/year={year}/part-0.parquet")
    ...     ds = from_parquet(folder)
    ...     ds.schema, [int(row["year"]) for row in ds]
    (Schema(x: float64, year: int64), [2023, 2024])

    A table to which a column was added, and of which a column got a wider type:

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     old = pyarrow.table({"x": pyarrow.array([1], pyarrow.int32())})
    ...     pyarrow.parquet.write_table(old, folder + "/0.parquet")
    ...     pyarrow.parquet.write_table(pyarrow.table({"x": [2**40], "name": ["new"]}), folder + "/1.parquet")
    ...     ds = from_parquet(folder, merge_schemas=True)
    ...     ds.schema, [row["name"] for row in ds]
    (Schema(x: int64, name: string?), [None, 'new'])

    A table that is sorted by a column, of which only the matching rows are read:

    >>> import forebay as fb, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pyarrow.table({"day": np.arange(1000), "x": np.arange(1000)})
    ...     pyarrow.parquet.write_table(table, folder + "/0.parquet", row_group_size=10)
    ...     ds = from_parquet(folder, columns=["x"], filters=fb.col("day") >= 998)
    ...     [int(row["x"]) for row in ds]
    [998, 999]
    """
    if filters is None:
        return _tables("from_parquet", "parquet", paths, columns, nullable, partitioning, merge_schemas)
    if not isinstance(filters, Expr):
        what = f"from_parquet: filters is {type(filters).__name__}, and must be an expression"
        hint = 'write fb.col("x") > 5, and join conditions with & and |; for a Python function use .filter(function)'
        raise InvalidPipelineError(what, {"hint": hint})
    named = arguments.columns(columns, "from_parquet", "columns")
    parts = filters.to_parts()
    needed = [part["name"] for part in parts if part["expr"] == "col"]
    read = None if named is None else list(dict.fromkeys([*named, *needed]))
    ds = _tables("from_parquet", "parquet", paths, read, nullable, partitioning, merge_schemas, filter=parts)
    ds = ds.filter(filters)
    return ds if named is None or read == named else ds.select(named)


@explained('from_arrow(paths, columns=["a", "b"]) reads these columns alone')
def from_arrow(
    paths: Paths,
    *,
    columns: Iterable[str] | None = None,
    nullable: str | Iterable[str] | None = None,
    partitioning: Literal["hive"] | None = "hive",
    merge_schemas: bool = False,
) -> Dataset:
    """Arrow IPC files, which are also Feather files (version 2), and streams, compressed or not.

    A record batch is decoded as a whole, so shuffled reading is faster with batches of a megabyte or less. Lists become
    tensors of one dimension; the extension types `arrow.fixed_shape_tensor`, `arrow.variable_shape_tensor` and
    `arrow.bool8` are supported; other types are converted as in `from_parquet`. A stream has no footer, so counting it
    reads the heads of its messages, one by one.

    Args:
        paths: The files.
        columns: The columns to decode. Default: all.
        nullable: The columns that may have missing values, as in `from_parquet`. Default: columns that the first file
            marks so (writers mark all columns by default), and no lists of numbers.
        partitioning: Whether folders `key=value` are columns, as in `from_parquet`.
        merge_schemas: Whether files may differ in their columns, as in `from_parquet`.

    Files of `pyarrow.ipc.new_stream`, and of `save_to_disk` of Hugging Face's datasets:

    >>> import pyarrow, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pyarrow.table({"text": ["a", "b"]})
    ...     with pyarrow.ipc.new_stream(folder + "/data-00000-of-00001.arrow", table.schema) as writer:
    ...         writer.write_table(table)
    ...     [row["text"] for row in from_arrow(folder + "/data-*.arrow")]
    ['a', 'b']
    """
    named = arguments.paths(paths, "from_arrow")
    hf_files.check_caches(named, "from_arrow")
    return _tables("from_arrow", "arrow", named, columns, nullable, partitioning, merge_schemas)


@explained()
def load(path: PathLike, *, partial: bool = False) -> Dataset:
    """Samples that `Dataset.save` wrote to a folder, in their order.

    The columns have the names and types that `save` wrote; tar archives yield the columns of `from_tar`. With several
    writers the samples of the first come first, then those of the second.

    Args:
        path: The folder, here or in a store.
        partial: Whether to read a folder that is still being written, or was not finished, as far as it is now.

    Raises:
        NotFoundError: Nothing is saved there.
        UnavailableError: The folder is incomplete, and `partial` is false.

    >>> import tempfile
    >>> import forebay as fb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = fb.range(100).shuffle().save(folder, seed=3)
    ...     [int(row["id"]) for row in load(folder)] == [int(row["id"]) for row in fb.range(100).shuffle().iter(seed=3)]
    True
    """
    found = saving.files_in(saving.folder(path, "load"), arguments.flag(partial, "load", "partial"))
    files: dict[str, Any] = {"source": found.format, "paths": found.patterns}
    if found.format == "tar":
        return _files("load", **files, extensions=None)
    if found.format in ("arrow", "parquet"):
        return _files("load", **files, columns=None, nullable=None)
    fields, types = saving.as_read(found.schema, found.format)
    if found.format == "tfrecord":
        ds = _files("load", **files, verify=True, features=fields)
    elif found.format == "csv":
        has_texts = any(field["kind"] == "utf8" for field in fields)
        how = {"header": True, "delimiter": ",", "quote": '"', "null": NULL, "multiline": has_texts, "columns": None}
        ds = _files("load", **files, **how, fields=fields)
    else:
        ds = _files("load", **files, fields=fields)
    return ds.cast(types) if types else ds


@explained("from_text(paths)", **READERS, buffer_size=THREADS, compression_type=COMPRESSION, num_parallel_reads=THREADS)
def from_text(paths: Paths) -> Dataset:
    r"""Lines of text files, without their line ends: column `text`. A byte order mark before the first is left out.

    Files may be compressed with gzip, zstd, bzip2 or xz.

    >>> import gzip, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "a.gz").write_bytes(gzip.compress(b"one line\nanother\n"))
    ...     [row["text"] for row in from_text(folder + "/*.gz")]
    ['one line', 'another']
    """
    return _files("from_text", source="text", paths=arguments.paths(paths, "from_text"))


def _files(op: str, **source: Any) -> Dataset:
    file, line = site()
    return Dataset(_native.Pipeline.from_files(native_json.dumps(hub.pinned(source, op), op), op, file, line))


def _check_tables(paths: list[str]) -> None:
    """Refuses a folder of this machine that is a table: its files have rows of older versions, too."""
    for path in paths:
        folder = path.removeprefix("file://").rstrip("/")
        if not os.path.isdir(folder):
            continue
        if os.path.isdir(f"{folder}/_delta_log"):
            hint = f"write from_delta({path!r}); or name files by a pattern"
            raise InvalidPipelineError("from_parquet: this folder is a Delta table", {"file": path, "hint": hint})
        if glob.glob(f"{glob.escape(folder)}/metadata/*.metadata.json"):
            hint = "write from_iceberg(table) of pyiceberg, or of its newest metadata file; or name files by a pattern"
            raise InvalidPipelineError("from_parquet: this folder is an Iceberg table", {"file": path, "hint": hint})


def _tables(
    op: str,
    source: str,
    paths: Paths,
    columns: Iterable[str] | None,
    nullable: str | Iterable[str] | None,
    partitioning: Literal["hive"] | None,
    merge_schemas: bool,
    **more: Any,
) -> Dataset:
    """Files with their own columns, and columns from their paths."""
    names = arguments.columns(columns, op, "columns")
    missing = arguments.columns(nullable, op, "nullable")
    merge = arguments.flag(merge_schemas, op, "merge_schemas")
    hive = partitioning is not None and arguments.choice(partitioning, op, "partitioning", "hive") == "hive"
    source_paths = arguments.paths(paths, op)
    if op == "from_parquet":
        _check_tables(source_paths)
    return _files(
        op, source=source, paths=source_paths, columns=names, nullable=missing, hive=hive, merge=merge, **more
    )
