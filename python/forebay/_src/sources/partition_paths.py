"""Partition values of data files: the engine reads texts in their paths, which become the values of the table.

The engine knows one value for each file only from its path. A table's metadata has the values, too, and they decide: a
path serves only to tell files apart, so each text in a path must stand for one value of the metadata.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

from forebay._src.expr.expr import Expr, col
from forebay.errors import InvalidPipelineError

#: The text that stands for a missing value, as in the engine.
_MISSING = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)
_REWRITE = "leave the column out by columns=, or write the table anew with folders key=value"


def engine_path(path: str) -> str:
    """Returns the path of a file as the engine reads it: a key of a store is encoded, so no letter is a pattern."""
    scheme, found, rest = path.partition("://")
    if not found:
        return path
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}/{quote(key, safe='/=')}"


class PathColumns:
    """The texts that the paths of files have for some keys.

    Raises:
        InvalidPipelineError: A path lacks a key, or has one that is a column of the files.
    """

    def __init__(self, paths: Sequence[str], keys: Sequence[str], stored: Sequence[str], op: str) -> None:
        self.op = op
        #: The paths in which the engine finds the columns.
        self.paths: list[str] = []
        self.texts: dict[str, list[str | None]] = {key: [] for key in keys}
        for path in paths:
            folders = path.split("/")[:-1]
            places = {}
            for place, folder in enumerate(folders):
                key, equals, text = folder.partition("=")
                if equals and key:
                    places[unquote(key)] = (place, unquote(text))
            missing = [key for key in keys if key not in places]
            if missing:
                what = f"{op}: the path of a file has no folder {missing[0]}=..., from which the engine takes its value"
                raise InvalidPipelineError(what, {"file": path, "column": missing[0], "hint": _REWRITE})
            start = min(places[key][0] for key in keys)
            other = next((key for key in stored if places.get(key, (-1, ""))[0] > start), None)
            if other is not None:
                what = f"{op}: column {other!r} is in the files, and in the path of a file, too"
                raise InvalidPipelineError(what, {"file": path, "column": other, "hint": _REWRITE})
            for key in keys:
                text = places[key][1]
                self.texts[key].append(None if text == _MISSING else text)
            self.paths.append(self._opened(path, start))

    def _opened(self, path: str, start: int) -> str:
        """Returns the pattern of one file whose folders from place `start` on are columns.

        The engine takes folders behind the first part that is a pattern. The range `{k..k}` stands for `k` alone, and
        lists nothing.
        """
        parts = engine_path(path).split("/")
        at = re.match(r"(?:%[0-9A-Fa-f]{2}|[^0-9A-Za-z])*([0-9A-Za-z])", parts[start])
        if at is None or any(letter in path for letter in "*?[]{}"):
            what = f"{self.op}: the path of a file has letters that the engine reads as a pattern, or only such"
            raise InvalidPipelineError(what, {"file": path, "hint": _REWRITE})
        letter, place = at[1], at.start(1)
        parts[start] = f"{parts[start][:place]}{{{letter}..{letter}}}{parts[start][place + 1 :]}"
        return "/".join(parts)

    def expression(self, key: str, values: Sequence[Any], dtype: str) -> Expr | None:
        """Returns what gives a column its values, of the texts of paths; `None` if these are the values.

        Args:
            key: The key in the paths, which is the engine's name of the column.
            values: The value of each file: texts, numbers, truth values, or `None`.
            dtype: The type of the column.
        """
        texts = [text for text in self.texts[key] if text is not None]
        are_whole = bool(texts) and all(_is_int64(text) for text in texts)
        table: dict[Any, Any] = {}
        for text, value in zip(self.texts[key], values, strict=True):
            place = text if text is None or not are_whole else int(text)
            if repr(table.setdefault(place, value)) != repr(value):
                what = f"{self.op}: files in folders {key}={text} have different values of this column"
                raise InvalidPipelineError(what, {"column": key, "hint": _REWRITE})
        if table.pop(None, None) is not None:
            what = f"{self.op}: files in folders {key}={_MISSING} have a value of this column"
            raise InvalidPipelineError(what, {"column": key, "hint": _REWRITE})
        of, is_text = col(key), dtype == "string"
        if is_text != are_whole and all(place == value for place, value in table.items()):
            if is_text or dtype == "int64":
                return None
            if dtype.startswith("int"):
                return of.cast(dtype)
        given = {place: value for place, value in table.items() if value is not None}
        default = next(iter(given.values())) if len(given) == len(table) and given else None
        return as_dtype(of, given, dtype, default)


def as_dtype(of: Expr, values: dict[Any, Any], dtype: str, default: Any = None) -> Expr:
    """Returns a look-up of values of a type; without values, the value is missing."""
    is_text, is_float = dtype in ("string", "bytes"), dtype.startswith("float")
    kind: Any = str if is_text else float if is_float else int
    found = {place: kind(value) for place, value in values.items()} or {"": kind()}
    made = of.lookup(found, None if default is None else kind(default))
    if dtype == "bool":
        return made == 1
    return made if dtype in ("string", "int64", "float64") else made.cast(dtype)


def _is_int64(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63
