"""What every group of ops stands on: an immutable pipeline, and a way to add to it."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any, cast

from forebay import _native
from forebay._src import arguments, native_json
from forebay._src.site import site

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
        self._pipeline = pipeline

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the pipeline with its arrays and functions; files are named, not copied."""
        return type(self), (self._pipeline,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Base:
        """Returns itself: nothing of it ever changes."""
        return self

    def _then(self, op: dict[str, Any], keep_position: bool, name: str | None, pickle: bytes | None = None) -> Dataset:
        """Returns a dataset with one more op."""
        file, line = site()
        arguments.flag(keep_position, str(op["op"]), "keep_position")
        json = native_json.dumps(op)
        pipeline = self._pipeline.then(json, pickle, name, keep_position, file, line)
        return cast("Dataset", type(self)(pipeline))
