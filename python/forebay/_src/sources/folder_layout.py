"""Looks at a folder of images before it is read: folders of splits are no classes, and a table of captions is no image.

Two levels of names are looked at, here or in a store, and no file is opened.
"""

from __future__ import annotations

import os

from forebay import _native
from forebay._src.site import site, warn
from forebay.errors import ExhaustedError, InvalidPipelineError, MissingFileError, NotFoundError

#: Names of folders that hold a part of a dataset, in lower case. Those of Hugging Face's `imagefolder`, and two more.
_SPLITS = frozenset(("train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval", "evaluation"))
#: Files in which Hugging Face's `imagefolder` keeps columns for its images.
_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
#: Endings of images that `decode_image` reads.
_IMAGES = (".jpg", ".jpeg", ".png", ".webp")
#: The most names of a folder that are looked at.
_LOOK = 10_000


def check(root: str) -> None:
    """Refuses a folder whose folders are splits, and warns of a table beside the images that is not read.

    Raises:
        InvalidPipelineError: Folders of splits hold the folders of classes.
        MissingFileError: Images lie in the folder itself, and it has no folders.
    """
    path = root.removeprefix("file://")
    is_remote = "://" in path
    if path.startswith(("http://", "https://", "hf://")) or not (is_remote or os.path.isdir(path)):
        # A server of plain HTTP cannot list, and the hub has no list of one folder.
        return
    here = _names(path)
    folders = sorted(name for name, is_dir in here.items() if is_dir and not name.startswith("."))
    named = [name for name in folders if name.lower() in _SPLITS]
    splits = [name for name in named if any(_names(_join(path, name)).values())]
    at = path if is_remote else os.path.abspath(path)
    if splits and (len(splits) > 1 or len(folders) == 1):
        file, line = site()
        both = " and ".join(splits)
        raise InvalidPipelineError(
            f"from_image_folder: {both} hold folders of classes, so they are splits, and the label would be the split",
            {
                "file": at,
                "line": f"{file}:{line}",
                "hint": f'name the folder of one split: from_image_folder("{root.rstrip("/")}/{splits[0]}")',
            },
        )
    # In a store, another folder would cost a request.
    beside = [""] if is_remote else ["", *folders]
    names = (_join(folder, name) for folder in beside for name in _METADATA)
    table = next((name for name in names if name in here or os.path.isfile(_join(path, name))), None)
    joined = _joined(root.rstrip("/"), table) if table else ""
    image = next((name for name in here if name.lower().endswith(_IMAGES)), None)
    if not folders and image:
        file, line = site()
        context = {"file": at, "line": f"{file}:{line}"}
        hint = f'without classes write fb.from_files("{root.rstrip("/")}/*.{image.rpartition(".")[2]}"){joined}'
        raise MissingFileError("from_image_folder: there are images, and no class folders", {**context, "hint": hint})
    if table:
        warn(f"from_image_folder: {table} is not read, and its columns are in no sample (write ds{joined})")


def _joined(root: str, table: str) -> str:
    """Returns the code that joins a table with images by the names of their files."""
    source = {"csv": "from_csv", "jsonl": "from_jsonl", "parquet": "from_parquet"}[table.rpartition(".")[2]]
    named = '.with_column("file_name", fb.col("path").str.split("/", -1))'
    return f'{named}.join(fb.{source}("{root}/{table}"), on="file_name")'


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else name


def _names(folder: str) -> dict[str, bool]:
    """Returns the first names in a folder, and whether each is a folder; none of a folder that cannot be looked at."""
    if "://" in folder:
        try:
            return dict(_native.names_in(folder, _LOOK))
        except (ExhaustedError, NotFoundError):
            return {}
    try:
        with os.scandir(folder) as found:
            return {entry.name: _is_dir(entry) for _, entry in zip(range(_LOOK), found, strict=False)}
    except OSError:
        # The reader says what is wrong with the folder.
        return {}


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
