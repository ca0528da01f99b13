"""Finds files of this machine that another library opens, by the rules of the sources that the engine reads."""

from __future__ import annotations

import os
import re

from forebay import _native
from forebay._src import arguments, native_json
from forebay._src.site import site
from forebay.errors import InvalidPipelineError, MissingFileError


def find(paths: arguments.Paths, op: str, names: re.Pattern[str]) -> list[str]:
    """Returns the files of paths, in the order of the paths. The files of one path are sorted.

    Args:
        paths: Files, patterns and folders.
        op: The source that the user called.
        names: The pattern of the end of a file's name in a folder.

    Raises:
        InvalidPipelineError: A file is in a store.
        MissingFileError: A path or a pattern matches no file.
    """
    return [file for path in arguments.paths(paths, op) for file in _of_path(path, op, names)]


def _of_path(path: str, op: str, names: re.Pattern[str]) -> list[str]:
    text = path.removeprefix("file://")
    if "://" in text:
        hint = "mount the store as a folder, or copy the files with their times (cp -p, rsync -t) to each machine"
        raise InvalidPipelineError(f"{op}: files in a store are not read", {"file": path, "hint": hint})
    file, line = site()
    source = native_json.dumps({"source": "files", "paths": [text]}, op)
    found = _native.Pipeline.from_files(source, op, file, line).files()
    if not os.path.isdir(text):
        return found
    named = [one for one in found if names.search(one)]
    if not named:
        context = {"file": os.path.abspath(text), "op": op, "line": f"{file}:{line}"}
        raise MissingFileError("no file of this folder has such a name", context | {"hint": "name a pattern"})
    return named
