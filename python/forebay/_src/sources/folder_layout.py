"""Looks at a folder of images before it is read: folders of splits are no classes, and a table of captions is no image.

Only folders of this machine are looked at: two levels of names, and no file is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from forebay._src.site import site, warn
from forebay.errors import InvalidPipelineError, MissingFileError

#: Names of folders that hold a part of a dataset, in lower case. Those of Hugging Face's `imagefolder`, and two more.
_SPLITS = frozenset(("train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval", "evaluation"))
#: Files in which Hugging Face's `imagefolder` keeps columns for its images.
_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
#: Endings of images that `decode_image` reads.
_IMAGES = (".jpg", ".jpeg", ".png", ".webp")
#: The most folders of a split, and the most names in it, that are looked at.
_LOOK = 1000


def check(root: str) -> None:
    """Refuses a folder whose folders are splits, and warns of a table beside the images that is not read.

    Raises:
        InvalidPipelineError: Folders of splits hold the folders of classes.
        MissingFileError: Images lie in the folder itself, and it has no folders.
    """
    path = root.removeprefix("file://")
    if "://" in path or not os.path.isdir(path):
        return
    folders = sorted(entry.name for entry in _entries(path) if _is_dir(entry) and not entry.name.startswith("."))
    named = [name for name in folders if name.lower() in _SPLITS]
    splits = [name for name in named if any(_is_dir(entry) for entry in _entries(os.path.join(path, name)))]
    if splits and (len(splits) > 1 or len(folders) == 1):
        file, line = site()
        both = " and ".join(splits)
        raise InvalidPipelineError(
            f"from_image_folder: {both} hold folders of classes, so they are splits, and the label would be the split",
            {
                "file": os.path.abspath(path),
                "line": f"{file}:{line}",
                "hint": f'name the folder of one split: from_image_folder("{root.rstrip("/")}/{splits[0]}")',
            },
        )
    places = (os.path.join(folder, name) for folder in ("", *folders) for name in _METADATA)
    table = next((place for place in places if os.path.isfile(os.path.join(path, place))), None)
    joined = _joined(root.rstrip("/"), table) if table else ""
    image = next((e.name for e in _entries(path) if e.name.lower().endswith(_IMAGES)), None)
    if not folders and image:
        file, line = site()
        context = {"file": os.path.abspath(path), "line": f"{file}:{line}"}
        hint = f'without classes write fb.from_files("{root.rstrip("/")}/*.{image.rpartition(".")[2]}"){joined}'
        raise MissingFileError("from_image_folder: there are images, and no class folders", {**context, "hint": hint})
    if table:
        warn(f"from_image_folder: {table} is not read, and its columns are in no sample (write ds{joined})")


def _joined(root: str, table: str) -> str:
    """Returns the code that joins a table with images by the names of their files."""
    source = {"csv": "from_csv", "jsonl": "from_jsonl", "parquet": "from_parquet"}[table.rpartition(".")[2]]
    named = '.with_column("file_name", fb.col("path").str.split("/", -1))'
    return f'{named}.join(fb.{source}("{root}/{table}"), on="file_name")'


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            for _, entry in zip(range(_LOOK), found, strict=False):
                yield entry
    except OSError:
        # The reader says what is wrong with the folder.
        return


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
