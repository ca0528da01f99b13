"""The base class of all groups of ops: an immutable pipeline, and a method that adds an op."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from forebay import _native
from forebay._src import arguments, native_json
from forebay._src.random_ops import is_random_op
from forebay._src.site import site
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


def _pipeline(json: str, blobs: list[bytes]) -> _native.Pipeline:
    return _native.Pipeline.from_json(json, blobs)


def _reduce(pipeline: _native.Pipeline) -> tuple[Any, ...]:
    return _pipeline, (pipeline.to_json(), [blob for _, blob in sorted(pipeline.blobs())])


copyreg.pickle(_native.Pipeline, _reduce)


class Base:
    """A pipeline in the native module."""

    __slots__ = ("_pipeline",)

    def __init__(self, pipeline: _native.Pipeline) -> None:
        if not isinstance(pipeline, _native.Pipeline):
            raise TypeError("sources make datasets: fb.from_parquet(paths), fb.from_dict({...}), fb.from_table(table)")
        self._pipeline = pipeline

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the pipeline with its arrays and functions; files are named, not copied."""
        return type(self), (self._pipeline,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Base:
        """Returns itself, because a pipeline never changes."""
        return self

    def _then(self, op: dict[str, Any], keep_position: bool, name: str | None, pickle: bytes | None = None) -> Dataset:
        """Returns a dataset with one more op."""
        file, line = site()
        arguments.flag(keep_position, _name(op), "keep_position")
        if name is not None:
            arguments.text(name, _name(op), "name")
        _check_columns(op)
        json = native_json.dumps(op, _name(op))
        pipeline = self._pipeline.then(json, pickle, name, keep_position, file, line)
        return cast("Dataset", type(self)(pipeline))

    def _then_rows(self, rows: np.ndarray[Any, Any], keep_position: bool, name: str | None) -> Dataset:
        """Returns a dataset of the samples at these places, which are whole numbers from 0."""
        file, line = site()
        arguments.flag(keep_position, "select_rows", "keep_position")
        if name is not None:
            arguments.text(name, "select_rows", "name")
        places = np.ascontiguousarray(rows, np.uint64)
        return cast("Dataset", type(self)(self._pipeline.select_rows(places, name, keep_position, file, line)))


#: Ops whose name in the engine differs from that of the method.
_NAMES = {"resize_shorter": "resize", "filter_expr": "filter", "filter_function": "filter"}


def _name(op: dict[str, Any]) -> str:
    return str(op["how"] if op["op"] == "mix" else _NAMES.get(op["op"], op["op"]))


def _check_columns(op: dict[str, Any]) -> None:
    """Refuses any value but one name where the op expects one column."""
    for argument in ("column", "label", "output"):
        value = op.get(argument, "")
        if isinstance(value, str) or (argument == "output" and op["op"] in ("map", "flat_map")):
            continue
        what = f"{_name(op)}: {argument} is the name of one column, not {type(value).__name__}"
        hint = "give its name as a string"
        if isinstance(value, (list, tuple, set, frozenset)):
            hint = "write the op once for each column"
            if _name(op) == "resize":
                hint += '; a mask of classes keeps its numbers if annotate("image", masks="mask") is before the op'
            if is_random_op(_name(op)):
                hint = (
                    "each column would be changed by a draw of its own, so an image and its mask would not agree: "
                    'declare what belongs to the image, annotate("image", masks="mask"), and write the op for the image'
                )
        raise InvalidPipelineError(what, {"hint": hint})
