"""The interface behind an iterator, of this process or of a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from forebay import _native
from forebay._src.iteration.quarantine import DeadLetters
from forebay._src.iteration.waits import Waits


class Iteration(Protocol):
    """Starts a native iterator, and names the properties that a saved state must agree with."""

    def start(self, state: str | None) -> _native.NativeIterator:
        """Starts at a saved position, or at the beginning."""

    def identity(self) -> dict[str, Any]:
        """Returns the pipeline and seed that a state belongs to."""

    @property
    def pipeline(self) -> _native.Pipeline:
        """The pipeline."""

    def letters(self) -> DeadLetters | None:
        """Returns the file for samples that are left out, if there is one."""

    @property
    def service(self) -> str | None:
        """The address of the service that computes, if one does."""

    @property
    def consumers(self) -> tuple[int, int]:
        """This consumer's index, and the number of consumers."""

    def length(self) -> int:
        """Returns the number of batches (or samples) of all its epochs; a TypeError says why it is not known."""

    def why(self, waits: Waits, stats: Mapping[str, Any]) -> str:
        """Says in one sentence what holds training back, by its waits and the figures of this process."""

    def warn(self, from_start: bool) -> None:
        """Warns if ranks get the same batches, or unequal numbers of them, or if an epoch repeats."""
