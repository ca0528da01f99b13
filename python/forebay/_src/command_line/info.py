"""`forebay info`: describes a source, and reads a bounded part of it."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forebay._src import arguments
from forebay._src.command_line import terminal
from forebay._src.describe.read import describe
from forebay._src.describe.result import Statistics
from forebay._src.ops.fact_ops import _uncounted
from forebay._src.sources.source_kind import kind_of, readers
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: The rows that are read by default, and the bytes of their values.
ROWS, BYTES_MAX = 10_000, 256 << 20
#: The largest source whose rows are counted by reading them.
COUNT_MAX = 64 << 20
#: The most files whose sizes are read.
_SIZED_MAX = 100_000


@dataclass(frozen=True)
class Info:
    """Facts of a source.

    Attributes:
        source: As given.
        kind: The kind of source.
        files: The number of files.
        bytes: The bytes of the files; `None` if they are not on this machine.
        rows: The number of rows; `None` if they were not counted.
        statistics: The figures of the rows that were read.
    """

    source: str
    kind: str
    files: int
    bytes: int | None
    rows: int | None
    statistics: Statistics

    def __str__(self) -> str:
        """The text that the command prints."""
        of = self.statistics
        files = "1 file" if self.files == 1 else f"{self.files} files"
        size = "" if self.bytes is None else f", {terminal.size(self.bytes)}"
        if self.rows is not None:
            rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        else:
            rows = "rows are not counted (--count reads all files to count them)"
        read = "all rows" if of.complete else f"the first {of.rows} rows"
        columns = "1 column" if len(of) == 1 else f"{len(of)} columns"
        head = f"{terminal.clean(self.source, 200)}: {self.kind}\n{files}{size}, {rows}, {columns}"
        return f"{head}\n\nread: {read}, {terminal.size(of.bytes)} of values\n" + "\n".join(str(of).splitlines()[1:])

    def to_json(self) -> str:
        """The same as JSON."""
        known = {name: getattr(self, name) for name in ("source", "kind", "files", "bytes", "rows")}
        return json.dumps({**known, "read": self.statistics.to_dict()}, indent=2)


def info(
    source: str,
    *,
    format: str | None = None,
    columns: list[str] | None = None,
    rows: int | None = ROWS,
    count: bool = False,
) -> Info:
    """Reads the first rows of a source, and describes its columns.

    Args:
        source: A path, a pattern, a folder or a URL.
        format: The kind of source. Default: found by names.
        columns: The columns to describe. Default: all.
        rows: The most rows to read; at about 256 MiB of values reading stops, too. `None` reads all.
        count: Whether to count the rows of files that have no index, by reading all of them.
    """
    kind = kind_of(source) if format is None else format
    known = readers()
    if kind not in known:
        raise InvalidPipelineError(f"there is no format {kind!r}", {"hint": f"use one of {', '.join(known)}"})
    dataset = known[kind](arguments.path(source, "info"))
    paths = dataset._pipeline.files()
    size = _size(paths)
    limits: dict[str, Any] = {"rows": rows, "bytes_max": None if rows is None else BYTES_MAX}
    options: dict[str, Any] = {"quantiles": (0.25, 0.5, 0.75), "top": 5, "seed": 0, "epoch": 0, "threads": 0}
    statistics = describe(dataset, columns, **limits, **options)
    if statistics.complete:
        total: int | None = statistics.rows
    else:
        total = _count(dataset, size, count)
    return Info(source, kind, len(paths), size, total, statistics)


def _count(dataset: Dataset, size: int | None, count: bool) -> int | None:
    """Returns the number of rows, or `None` if a count would read much."""
    graph = json.loads(dataset._pipeline.to_json())
    is_cheap = _uncounted(graph["source"]) is None or (size is not None and size <= COUNT_MAX)
    if not (is_cheap or count):
        return None
    found = dataset.cardinality
    return int(found) if found is not None and found != math.inf else None


def _size(paths: list[str]) -> int | None:
    """Returns the bytes of files on this machine; `None` if some are elsewhere, or there are too many files."""
    if not paths or len(paths) > _SIZED_MAX or any("://" in path for path in paths):
        return None
    try:
        return sum(os.stat(path).st_size for path in paths)
    except OSError:
        return None
