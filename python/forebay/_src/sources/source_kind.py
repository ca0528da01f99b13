"""Finds the reader for a path, a pattern or a folder: by the ending of files, and by the index that a folder has."""

from __future__ import annotations

import glob
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from forebay._src import arguments
from forebay._src.iteration import saving
from forebay.errors import ForebayError, InvalidPipelineError, NotFoundError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: Endings of compressed files, which stand for the file inside.
_COMPRESSED = re.compile(r"\.(gz|zst|zstd|bz2|xz|zlib)$")
#: The kind of a file by its ending.
_ENDINGS = {
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "tar": "tar",
    "tgz": "tar",
    "tfrecord": "tfrecord",
    "tfrecords": "tfrecord",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "csv": "csv",
    "tsv": "csv",
    "txt": "text",
    "array_record": "array_record",
    "arrayrecord": "array_record",
    "lance": "lance",
    "idx": "megatron",
}
_IMAGES = frozenset(("jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm"))
#: The most files of a folder whose names are read.
_FILES_MAX = 10_000
#: The most bytes of an index that are read.
_INDEX_MAX = 64 << 20


def readers() -> dict[str, Callable[[str], Dataset]]:
    """Returns the readers by the name of a kind."""
    import forebay as fb

    return {
        "parquet": fb.from_parquet,
        "arrow": fb.from_arrow,
        "tar": fb.from_tar,
        "tfrecord": lambda path: fb.from_tfrecord(path, features="infer"),
        "jsonl": fb.from_jsonl,
        "json": fb.from_json,
        "csv": fb.from_csv,
        "text": fb.from_text,
        "files": fb.from_files,
        "image_folder": fb.from_image_folder,
        "mds": fb.from_mds,
        "litdata": fb.from_litdata,
        "megatron": fb.from_megatron,
        "array_record": fb.from_array_record,
        "lance": fb.from_lance,
        "delta": fb.from_delta,
        "saved": lambda path: fb.load(path, partial=True),
    }


def kind_of(source: str) -> str:
    """Returns the kind of a source.

    >>> kind_of("s3://bucket/{000..127}.tar"), kind_of("rows.jsonl.zst"), kind_of("*.parquet")
    ('tar', 'jsonl', 'parquet')

    Raises:
        InvalidPipelineError: Neither the name nor an index says which reader the source needs.
        NotFoundError: There is no such file or folder.
    """
    path = arguments.path(source, "info")
    if "://" not in path and os.path.isdir(path):
        return _of_folder(path)
    if found := _ENDINGS.get(_ending(path)):
        return found
    if _ending(path) in _IMAGES:
        return "files"
    here = "://" not in path
    if here and not os.path.exists(path) and not glob.has_magic(path) and "{" not in path:
        raise NotFoundError(f"there is no file or folder {path!r}", {"hint": "give a path, a pattern or a URL"})
    hint = f"name its kind with --format: {', '.join(readers())}"
    raise InvalidPipelineError(f"the name {path!r} does not say what kind of data it is", {"hint": hint})


def _ending(path: str) -> str:
    name = _COMPRESSED.sub("", path.rstrip("/").rpartition("/")[2].lower())
    return name.rpartition(".")[2]


def _of_folder(folder: str) -> str:
    try:
        saving.files_in(folder, True)
        return "saved"
    except ForebayError:
        pass
    if folder.rstrip("/").endswith(".lance"):
        return "lance"
    if os.path.isdir(os.path.join(folder, "_delta_log")):
        return "delta"
    if index := _index(os.path.join(folder, "index.json")):
        return "mds" if "shards" in index else "litdata" if "chunks" in index else "files"
    endings, inside = _endings(folder)
    known = {ending: count for ending, count in endings.items() if ending in _ENDINGS}
    images = sum(count for ending, count in endings.items() if ending in _IMAGES)
    if images > sum(known.values()):
        return "image_folder" if inside else "files"
    # A few other files next to the data, such as a README.txt, do not change the kind.
    if known:
        return _ENDINGS[max(sorted(known), key=lambda ending: known[ending])]
    if not endings:
        raise NotFoundError(f"the folder {folder!r} has no files", {"hint": "give a folder with data"})
    return "files"


def _index(path: str) -> dict[str, object]:
    try:
        if os.path.getsize(path) > _INDEX_MAX:
            return {}
        with open(path, "rb") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _endings(folder: str) -> tuple[Counter[str], bool]:
    """Counts the endings of files below a folder, and returns whether some of them are in folders of their own."""
    endings: Counter[str] = Counter()
    inside = False
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        shown = [name for name in names if not name.startswith((".", "_"))]
        endings.update(_ending(name) for name in shown)
        inside = inside or (bool(shown) and at != folder)
        if endings.total() >= _FILES_MAX:
            break
    return endings, inside
