"""What `save` writes and `load` reads: the rows of a dataset in a folder of Arrow files."""

from __future__ import annotations

import glob
import json
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from forebay import _native
from forebay._src import arguments
from forebay.errors import InvalidPipelineError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from forebay._src.iterator import DatasetIterator

#: What a file is at least as large as, but for the last. One that was being written when a process died is begun anew.
FILE_BYTES = 256 << 20


class Saved(NamedTuple):
    """What `Dataset.save` wrote."""

    path: str
    """The folder."""
    rows: int
    """Samples in it."""
    files: int
    """Files with samples."""


def folder(path: arguments.PathLike, op: str) -> str:
    """Checks a folder's path."""
    text = arguments.path(path, op)
    if not text:
        raise InvalidPipelineError(f"{op}: the folder has no name", {"hint": "'.' is this folder"})
    if "://" in text:
        hint = "save to a local or mounted folder, and copy it to the store"
        raise InvalidPipelineError(f"{op}: {text!r} is not a folder of this machine", {"hint": hint})
    return os.path.abspath(text)


def write(
    pipeline: _native.Pipeline,
    iterator: DatasetIterator,
    path: str,
    *,
    seed: int,
    epochs: int,
    file_bytes: int,
    overwrite: bool,
) -> Saved:
    """Writes everything that an iterator gives, from where a folder ends."""
    writer = _native.SavedWriter.begin(path, pipeline, seed, epochs, file_bytes, overwrite)
    try:
        if writer.state is not None:
            iterator.load_state_dict(json.loads(writer.state))
        with iterator, Bar(path, pipeline, epochs) as bar:
            while not writer.complete:
                full = iterator._write_to(writer)
                bar.show(writer.rows)
                if full is None:
                    break
                if full:
                    writer.end_part(json.dumps(iterator.state_dict()))
            files, rows = writer.finish(json.dumps(iterator.state_dict()))
    finally:
        writer.close()
    return Saved(path, rows, files)


class Bar:
    """Says on a terminal how far it is, once it takes longer than a second."""

    def __init__(self, path: str, pipeline: _native.Pipeline, epochs: int) -> None:
        self._bar = _native.Progress(f"saving to {path}", "samples")
        count = pipeline.cardinality() if sys.stderr.isatty() else None
        self._total = count * epochs if count and count > 0 else 0

    def show(self, rows: int) -> None:
        """Says how many rows are written."""
        self._bar.show(rows, self._total)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.end()


def files_in(path: str, partial: bool) -> str:
    """Returns the pattern of the files that are saved in a folder."""
    found = _native.saved(path)
    if found is None:
        raise NotFoundError(
            "load: nothing is saved here", {"folder": path, "hint": "Dataset.save() writes such folders"}
        )
    files, rows = found
    if rows is None and not (partial and files):
        hint = "wait for it, or load what is there with partial=True; if nobody saves there any more, save() goes on"
        message = f"load: this is being saved: {files} files are there so far"
        raise UnavailableError(message, {"folder": path, "hint": hint})
    return os.path.join(glob.escape(path), "part-*.arrow")
