"""`save` writes and `load` reads the rows of a dataset in files, in a folder here or in a store."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from forebay import _native
from forebay._src import arguments
from forebay.errors import InvalidPipelineError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from forebay._src.iteration.iterator import DatasetIterator

#: The least bytes of rows in a file, except the last. A file that was not finished when a process died is rewritten.
FILE_BYTES = dict.fromkeys(("arrow", "parquet", "tar", "mds", "jsonl", "csv", "tfrecord"), 256 << 20)
FILE_BYTES["mds"] = 64 << 20

Format: TypeAlias = Literal["arrow", "parquet", "tar", "mds", "jsonl", "csv", "tfrecord"]
"""The formats of saved files."""

Compression: TypeAlias = Literal["zstd", "snappy"]
"""The compressions of Parquet files."""


class Saved(NamedTuple):
    """The result of `Dataset.save`."""

    path: str
    """The folder."""
    rows: int
    """The samples in it; with several writers, those of this one."""
    files: int
    """The files with samples; with several writers, those of this one."""


class Options(NamedTuple):
    """The user's options of `save` for the files."""

    seed: int
    epochs: int
    consumer: tuple[int, int] | None
    format: Format
    compression: Compression | None
    file_bytes: int
    overwrite: bool


#: The formats that the ends of names say.
_ENDS = {
    **{f".{format}": format for format in FILE_BYTES},
    ".feather": "arrow",
    ".json": "jsonl",
    ".ndjson": "jsonl",
    ".tfrecords": "tfrecord",
}


def check_name(folder: str, format: str) -> None:
    """Refuses a folder whose name says another format than its files have: readers go by the name."""
    said = _ENDS.get(os.path.splitext(folder)[1], format)
    if said != format:
        name = os.path.basename(folder)
        hint = f'write format="{said}"; {os.path.splitext(name)[0]!r} may be a folder of files of any format'
        raise InvalidPipelineError(f"save: {name!r} would be a folder of {format} files", {"hint": hint})


def folder(path: arguments.PathLike, op: str) -> str:
    """Checks a folder's path."""
    text = arguments.path(path, op)
    if not text:
        raise InvalidPipelineError(f"{op}: the folder has no name", {"hint": "'.' is this folder"})
    if found := re.match(r"(s3a?|gs|az|abfss?|https?|file):/(?!/)", text):
        message = f"{op}: {text!r} is neither a path nor a url"
        raise InvalidPipelineError(message, {"hint": f"a url begins with {found[1]}://"})
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    if "://" not in text:
        return os.path.abspath(text)
    if wrong := sorted(set("*?[]{}#%") & set(text)):
        hint = "use letters, digits, '/', '-', '_' and '.'"
        raise InvalidPipelineError(
            f"{op}: {text!r} has {wrong[0]!r}, which means something else in urls", {"hint": hint}
        )
    return text.rstrip("/")


def options(
    format: str,
    compression: str | None,
    file_bytes: int | None,
    consumers: tuple[int, int] | None,
    seed: int,
    epochs: int,
    overwrite: bool,
) -> Options:
    """Checks the user's options of `save` for the files."""
    kind = arguments.choice(format, "save", "format", *FILE_BYTES)
    if compression is not None:
        arguments.choice(compression, "save", "compression", "zstd", "snappy")
        if kind != "parquet":
            hint = 'format="parquet" compresses; of other files compress the columns yourself, as JPEG does'
            raise InvalidPipelineError(f"save: {kind} files are not compressed", {"hint": hint})
    consumer = arguments.consumers_or_none(consumers, "save")
    size = FILE_BYTES[kind] if file_bytes is None else arguments.whole(file_bytes, "save", "file_bytes", 1)
    return Options(
        arguments.seed(seed, "save"),
        arguments.whole(epochs, "save", "epochs", 1),
        None if consumer == (0, 1) else consumer,
        kind,  # type: ignore[arg-type]
        ("zstd" if kind == "parquet" else None) if compression is None else compression,  # type: ignore[arg-type]
        size,
        arguments.flag(overwrite, "save", "overwrite"),
    )


def write(pipeline: _native.Pipeline, iterator: DatasetIterator, path: str, options: Options) -> Saved:
    """Writes all samples of an iterator, beginning after the samples that the folder already holds."""
    writer = _native.SavedWriter.begin(path, pipeline, *options)
    try:
        if writer.state is not None:
            iterator.load_state_dict(json.loads(writer.state))
        with iterator, Bar(path, pipeline, options.epochs) as bar:
            while not writer.complete:
                written = iterator._write_to(writer)
                bar.show(writer.rows)
                if written is False:
                    break
                if written is not True:
                    writer.end_part(json.dumps(written))
            files, rows = writer.finish(json.dumps(iterator.state_dict()))
    finally:
        writer.close()
    return Saved(path, rows, files)


class Bar:
    """Shows the progress on a terminal, if it takes longer than a second."""

    def __init__(self, path: str, pipeline: _native.Pipeline, epochs: int) -> None:
        self._bar = _native.Progress(f"saving to {path}", "samples")
        count = pipeline.cardinality() if self._bar.shown else None
        self._total = count * epochs if count and count > 0 else 0

    def show(self, rows: int) -> None:
        """Shows the number of rows written."""
        self._bar.show(rows, self._total)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.end()


def files_in(path: str, partial: bool) -> _native.SavedFolder:
    """Returns what is saved in a folder."""
    found = _native.saved(path)
    if found is None:
        raise NotFoundError(
            "load: nothing is saved here", {"folder": path, "hint": "Dataset.save() writes such folders"}
        )
    if found.format == "mds":
        hint = "from_mds(folder) reads them, as streaming.StreamingDataset does"
        raise InvalidPipelineError(
            "load: these are MDS files, which load() does not read", {"folder": path, "hint": hint}
        )
    if not found.complete and not (partial and found.patterns):
        hint = (
            "wait for it, or load its finished part with partial=True; if no other process saves there, save() goes on"
        )
        message = f"load: this is being saved: {found.files} files are there so far"
        raise UnavailableError(message, {"folder": path, "hint": hint})
    return found


def as_read(schema: str, format: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Returns the columns of lines or records as their source reads them, and the saved types that differ from these.

    JSON lines and CSV files have no float16, and features are int64 or float32.
    """
    fields, types = json.loads(schema), {}
    for field in fields:
        saved = field.get("dtype")
        read = {"float16": "float32"}.get(saved, saved)
        if format == "tfrecord" and read not in (None, "float32"):
            read = "int64"
        if read != saved:
            field["dtype"], types[field["name"]] = read, saved
    return fields, types
