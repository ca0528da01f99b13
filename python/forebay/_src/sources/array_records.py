"""Reads records of ArrayRecord files by their numbers, with the package `array_record`."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from forebay._src.functions.user_errors import SourceError
from forebay.errors import DataError

#: The files that a process has open at most, because systems allow a process 1,024.
_READERS_MAX = 256
#: The threads that look at files while the user writes the pipeline.
_THREADS = 32


def library() -> Any:
    """Returns the module with the readers of `array_record`."""
    try:
        from array_record.python import array_record_module
    except ImportError as error:
        raise ImportError(f"the package array_record cannot be imported: pip install array_record ({error})") from None
    return array_record_module


class ArrayRecords:
    """A function from numbers of rows to their records.

    Its pickle has the files with their sizes, times and numbers of records, and no reader: each process opens its own.
    """

    def __init__(self, paths: list[str], stats: list[tuple[int, int]], counts: list[int]) -> None:
        self._paths, self._stats, self._counts = paths, stats, counts
        self._starts = np.cumsum([0, *counts])
        self._reader = functools.lru_cache(_READERS_MAX)(self._open)

    @classmethod
    def of(cls, paths: Sequence[str]) -> ArrayRecords:
        """Counts the records of files.

        Raises:
            DataError: A file is no ArrayRecord file, or was cut off.
        """
        library()
        with ThreadPoolExecutor(min(_THREADS, len(paths))) as pool:
            looked = list(pool.map(_look, paths))
        return cls(list(paths), [stat for stat, _ in looked], [count for _, count in looked])

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves the readers out."""
        return ArrayRecords, (self._paths, self._stats, self._counts)

    def __len__(self) -> int:
        """Returns the number of records."""
        return int(self._starts[-1])

    def __call__(self, batch: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, list[bytes]]:
        """Reads rows, with one call for each file that has some of them."""
        rows = batch["id"]
        files = np.searchsorted(self._starts, rows, side="right") - 1
        records = [b""] * len(rows)
        order = np.argsort(files, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(files[order])) + 1):
            if len(places):
                file = int(files[places[0]])
                read = self._read(file, rows[places] - self._starts[file])
                for place, record in zip(places.tolist(), read, strict=True):
                    records[place] = record
        return {"record": records}

    def _read(self, file: int, places: np.ndarray[Any, Any]) -> list[bytes]:
        reader = self._reader(file)
        try:
            found: list[bytes] = reader.read(places.tolist())
        except RuntimeError as error:
            raise ValueError(f"{self._paths[file]}: {one_line(error)}") from None
        return found

    def _open(self, file: int) -> Any:
        path, was = self._paths[file], self._stats[file]
        try:
            reader, stat = _opened(path), _stat(path)
        except OSError as error:
            raise SourceError(f"{path} cannot be opened: {one_line(error)}") from None
        if stat != was:
            raise SourceError(f"{path} changed since the pipeline was written (size, time: {was} became {stat})")
        return reader


def _opened(path: str) -> Any:
    # Without reading ahead: it makes random access slower by more than it makes sequential reads faster.
    reader = library().ArrayRecordReader(path, options="readahead_buffer_size:0", file_reader_buffer_size=32768)
    if not reader.ok():
        # The reader reports an error only when it reads; of a bad file it reports that there are no records.
        try:
            reader.read([0])
        except RuntimeError as error:
            raise OSError(one_line(error)) from None
        raise OSError("it is no ArrayRecord file")
    return reader


def _look(path: str) -> tuple[tuple[int, int], int]:
    """Returns the size, the time and the number of records of a file."""
    try:
        stat = _stat(path)
        reader = _opened(path)
    except OSError as error:
        hint = "the file is no ArrayRecord file, or was cut off: write or fetch it again"
        context = {"file": path, "cause": one_line(error), "hint": hint}
        raise DataError("from_array_record: a file cannot be read", context) from None
    count = int(reader.num_records())
    reader.close()
    return stat, count


def _stat(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def one_line(error: BaseException) -> str:
    """Returns the text of an exception in one line."""
    return " ".join(str(error).split()) or type(error).__name__
