"""An iteration in this process: starts the threads behind a `DatasetIterator`, from a state or from the beginning."""

from __future__ import annotations

from typing import Any

from forebay import _native
from forebay._src.quarantine import DeadLetters
from forebay._src.ranks import warn_of_ranks
from forebay._src.tolerance import Tolerance


class LocalIteration:
    """An iteration in this process."""

    def __init__(
        self,
        pipeline: _native.Pipeline,
        *,
        seed: int,
        epoch: int,
        epochs: int | None,
        threads: int,
        consumers: tuple[int, int] | None,
        even: bool | None,
        coordinated: bool,
        ordered: bool,
        executor: str,
        tolerance: Tolerance,
        memory: str | None,
    ) -> None:
        pipeline = pipeline.tolerate(tolerance.on_error)
        self.budget, self.tolerance = tolerance.budget, tolerance
        self.pipeline, self.seed, self.epoch, self.epochs = pipeline, seed, epoch, epochs
        self.threads, self._given, self.even, self.executor = threads, consumers, even, executor
        self.coordinated, self.ordered, self.memory = coordinated, ordered, memory

    def start(self, state: str | None) -> _native.NativeIterator:
        """Starts threads."""
        index, count = self.consumers
        return self.pipeline.iterate(
            seed=self.seed,
            epoch=self.epoch,
            epochs=self.epochs,
            threads=self.threads,
            consumer=index,
            consumers=count,
            even=self.even,
            coordinated=self.coordinated,
            ordered=self.ordered,
            executor=self.executor,
            budget=self.budget,
            memory=self.memory,
            state=state,
        )

    #: None does.
    service: str | None = None

    def letters(self) -> DeadLetters | None:
        """Named after the dataset."""
        name = self.pipeline.dataset_id[:12]
        return self.tolerance.letters(self.pipeline, self.seed, name, self.consumers)

    def identity(self) -> dict[str, Any]:
        """The pipeline and the seed."""
        return {"dataset": self.pipeline.dataset_id, "seed": self.seed}

    @property
    def consumers(self) -> tuple[int, int]:
        """Which of how many consumers."""
        return self._given or (0, 1)

    def warn(self) -> None:
        """Of ranks that get the same, or unequal numbers."""
        warn_of_ranks(self.pipeline, self._given, self.even, self.coordinated, self.epochs)
