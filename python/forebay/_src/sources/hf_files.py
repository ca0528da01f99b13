"""Finds the Arrow files of a data set of Hugging Face, and the rows and columns that it takes from them.

A `datasets.Dataset` is a table over memory-mapped files, a list of later changes to that table ("replays"), and a list
of row numbers. If the changes only choose and rename, the files are read as they are.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from forebay.errors import InvalidPipelineError

#: The most rows that `select_rows` takes.
_ROWS_MAX = 2**20
#: Changes of a table that leave all values as they are.
_NOTHING = ("combine_chunks", "replace_schema_metadata")
#: The features whose values are encoded bytes, and a path.
_MEDIA = ("Image", "Audio", "Video")


@dataclass
class Files:
    """Files, and the rows and columns that a data set takes from them."""

    paths: list[str]
    #: The columns in the files; fields of structs have dotted names.
    columns: list[str]
    #: The columns in which a value is missing.
    nullable: list[str]
    #: Other names in the data set.
    renamed: dict[str, str]
    #: The rows, or a slice of them; `None` if all rows come in their order.
    rows: np.ndarray[Any, Any] | slice | None


def is_dataset(given: Any) -> bool:
    """Returns whether an object is a data set of Hugging Face, or splits of one."""
    return _class(given) is not None


def _class(given: Any) -> str | None:
    library = sys.modules.get("datasets")
    names = ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict")
    return next((name for name in names if library is not None and isinstance(given, getattr(library, name, ()))), None)


def check_caches(paths: list[str], op: str) -> None:
    """Refuses a folder of `save_to_disk` where results of `map`, `shuffle` and others, `cache-….arrow`, would be read.

    Only folders of this machine are looked at. A file that is named by itself is meant.

    Raises:
        InvalidPipelineError: A path stands for such files.
    """
    for path in paths:
        local = path.removeprefix("file://")
        if os.path.isfile(local):
            continue
        folder, pattern = (local, "*") if os.path.isdir(local) else os.path.split(local)
        folder = folder or os.curdir
        is_saved = os.path.isfile(os.path.join(folder, "state.json"))
        if not is_saved or not os.path.isfile(os.path.join(folder, "dataset_info.json")):
            continue
        names = [name for name in fnmatch.filter(os.listdir(folder), "cache-*.arrow") if fnmatch.fnmatch(name, pattern)]
        if names:
            hint = (
                f"write {op}({os.path.join(folder, 'data-*.arrow')!r}), or from_hf(datasets.load_from_disk({folder!r}))"
            )
            raise InvalidPipelineError(
                f"{op}: {min(names)} is a result that `datasets` keeps beside a data set, and would be read as rows",
                {"file": os.path.abspath(folder), "hint": hint},
            )


def check(given: Any, op: str) -> None:
    """Refuses everything but a data set with rows that are stored.

    Raises:
        InvalidPipelineError: It is no such data set.
    """
    kind = _class(given)
    if kind is None:
        hint = "give a datasets.Dataset; files of a data set are read by from_parquet, from_arrow or from_jsonl"
        what = f"{op}: this is a {type(given).__name__}, and no data set of Hugging Face"
        raise InvalidPipelineError(what, {"hint": hint})
    if kind.endswith("Dict"):
        splits = ", ".join(map(str, given))
        hint = f"give one of its splits: from_hf(dataset[{next(iter(given), 'train')!r}])"
        raise InvalidPipelineError(f"{op}: this is a dictionary of splits ({splits})", {"hint": hint})
    if kind == "IterableDataset":
        hint = "load it without streaming=True; or name its files with from_parquet or from_jsonl; or from_generator"
        raise InvalidPipelineError(f"{op}: this data set is a stream, whose rows have no places", {"hint": hint})
    if given._format_type == "custom":
        hint = "put the function into the pipeline, from_hf(dataset.with_format(None)).map(fn)"
        raise InvalidPipelineError(f"{op}: this data set has a transform, which is not applied", {"hint": hint})


def media(dataset: Any, names: list[str]) -> list[str]:
    """Returns the columns of images, sounds and videos.

    Raises:
        InvalidPipelineError: Their bytes are in other files.
    """
    from pyarrow import types

    found = [
        name
        for name in names
        if type(dataset.features[name]).__name__ in _MEDIA and types.is_struct(dataset.data.schema.field(name).type)
    ]
    for name in found:
        for chunk in dataset.data.column(name).chunks:
            inside, path = chunk.field("bytes"), chunk.field("path")
            if inside.null_count > path.null_count or (
                inside.null_count and any(inside.is_null().to_numpy(False) & path.is_valid().to_numpy(False))
            ):
                hint = "dataset.save_to_disk(path) takes them into its files: from_hf(datasets.load_from_disk(path))"
                what = f"from_hf: column {name!r} names files, and has not their bytes"
                raise InvalidPipelineError(what, {"column": name, "hint": hint})
    return found


def found(dataset: Any, names: list[str]) -> Files | None:
    """Returns the files of these columns, or `None` if no files have the values of the table."""
    places = [_Place.of(block) for block in _blocks(dataset.data)]
    blocks = [place for place in places if place is not None]
    if not blocks or len(blocks) < len(places):
        return None
    olds = [dict(zip(block.names, block.olds, strict=True)) for block in blocks]
    inside = [olds[0][name] for name in names]
    if any([one.get(name) for name in names] != inside for one in olds):
        return None
    starts, total = {}, 0
    for block in blocks:
        if block.path not in starts:
            starts[block.path] = total
            total += block.rows
    ranges = [(starts[block.path] + block.start, block.count) for block in blocks]
    nullable: list[str] = []
    columns, renamed = [], {}
    for name, old in zip(names, inside, strict=True):
        nullable += _missing(old, dataset.data.column(name))
        for field in _fields("", dataset.data.schema.field(name).type):
            columns.append(old + field)
            if name != old:
                renamed[old + field] = name + field
    return Files(list(starts), columns, nullable, renamed, _rows(ranges, total, dataset._indices))


@dataclass
class _Place:
    """A file, and the rows and columns that a block of a table takes from it."""

    path: str
    #: Rows of the file.
    rows: int
    start: int
    count: int
    #: Names of the columns, and their names in the file.
    names: list[str]
    olds: list[str]

    @classmethod
    def of(cls, block: Any) -> _Place | None:
        """Follows the changes of a block; `None` if it is not in a file, or has other values than the file."""
        if type(block).__name__ != "MemoryMappedTable":
            return None
        file = type(block).from_file(block.path)
        names = list(file.column_names)
        place = cls(block.path, file.num_rows, 0, file.num_rows, names, list(names))
        return place if all(place._follow(*replay) for replay in block.replays) else None

    def _follow(self, change: str, values: tuple[Any, ...], options: dict[str, Any]) -> bool:
        if change in _NOTHING:
            return True
        if options:
            return False
        if change == "slice":
            start, count = values
            left = max(self.count - start, 0)
            self.start, self.count = self.start + start, left if count is None else min(count, left)
        elif change == "rename_columns" and isinstance(values[0], list):
            self.names = list(values[0])
        elif change in ("drop", "select"):
            chosen = set(values[0])
            keep = [name for name in self.names if name not in chosen] if change == "drop" else list(values[0])
            self.names, self.olds = keep, [self.olds[self.names.index(name)] for name in keep]
        elif change == "remove_column":
            del self.names[values[0]], self.olds[values[0]]
        else:
            return False
        return True


def _blocks(table: Any) -> Iterator[Any]:
    """Yields the tables one after the other; tables that lie side by side are yielded as one list."""
    for row in getattr(table, "blocks", [[table]]):
        yield row[0] if len(row) == 1 else row


def _rows(ranges: list[tuple[int, int]], total: int, indices: Any) -> np.ndarray[Any, Any] | slice | None:
    first = ranges[0][0]
    joined = all(a + n == b for (a, n), (b, _) in itertools.pairwise(ranges))
    end = ranges[-1][0] + ranges[-1][1]
    if indices is None and joined:
        return None if (first, end) == (0, total) else slice(first, end)
    count = indices.num_rows if indices is not None else sum(n for _, n in ranges)
    if count > _ROWS_MAX:
        hint = (
            "dataset.flatten_indices() writes these rows into a file; for a random order leave dataset.shuffle() out, "
            "and put .shuffle() into the pipeline"
        )
        what = f"from_hf: this data set has {count} rows in an order of its own, and {_ROWS_MAX} may travel"
        raise InvalidPipelineError(what, {"hint": hint})
    base = np.concatenate([np.arange(a, a + n, dtype=np.int64) for a, n in ranges])
    return base if indices is None else base[indices.column(0).to_numpy()]


def _fields(name: str, kind: Any) -> Iterator[str]:
    from pyarrow import types

    if not types.is_struct(kind):
        yield name
        return
    for field in kind:
        yield from _fields(f"{name}.{field.name}", field.type)


def _missing(name: str, column: Any) -> Iterator[str]:
    """Yields the columns in which a value is missing."""
    from pyarrow import types

    if not types.is_struct(column.type):
        if column.null_count:
            yield name
        return
    for field, part in zip(column.type, column.flatten(), strict=True):
        yield from _missing(f"{name}.{field.name}", part)
