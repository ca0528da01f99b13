"""What every group of ops stands on: an immutable pipeline, and a way to add to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from forebay import _native
from forebay._src import native_json
from forebay._src.site import site

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class Base:
    """A pipeline in the native module."""

    __slots__ = ("_pipeline",)

    def __init__(self, pipeline: _native.Pipeline) -> None:
        self._pipeline = pipeline

    def _then(self, op: dict[str, Any], keep_position: bool, name: str | None, pickle: bytes | None = None) -> Dataset:
        """Returns a dataset with one more op."""
        file, line = site()
        json = native_json.dumps(op)
        pipeline = self._pipeline.then(json, pickle, name, keep_position, file, line)
        return cast("Dataset", type(self)(pipeline))
