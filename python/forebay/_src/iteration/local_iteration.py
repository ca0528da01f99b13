"""An iteration in this process: starts the threads behind a `DatasetIterator`, at a state or at the beginning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forebay import _native
from forebay._src.functions.tolerance import Tolerance
from forebay._src.iteration.lengths import length_of
from forebay._src.iteration.quarantine import DeadLetters
from forebay._src.iteration.ranks import warn_of_ranks
from forebay._src.iteration.repeats import HERE, note_start
from forebay._src.iteration.waits import Waits
from forebay._src.ops.fact_ops import uncounted


class LocalIteration:
    """An iteration in this process."""

    def __init__(
        self,
        pipeline: _native.Pipeline,
        *,
        seed: int,
        epoch: int | None,
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
        self.pipeline, self.seed, self.epoch, self.epochs = pipeline, seed, epoch or 0, epochs
        #: The epoch that the user gave.
        self._first = epoch
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

    #: There is none.
    service: str | None = None

    def letters(self) -> DeadLetters | None:
        """Returns the dead letters, named after the dataset."""
        name = self.pipeline.dataset_id[:12] if self.tolerance.on_error == "quarantine" else ""
        return self.tolerance.letters(self.pipeline, self.seed, name, self.consumers)

    def identity(self) -> dict[str, Any]:
        """Returns the pipeline and the seed."""
        return {"dataset": self.pipeline.dataset_id, "seed": self.seed}

    @property
    def consumers(self) -> tuple[int, int]:
        """This consumer's index, and the number of consumers."""
        return self._given or (0, 1)

    def length(self) -> int:
        """Returns the number of batches (or samples) of all its epochs."""
        if (source := uncounted(self.pipeline)) is not None:
            raise TypeError(f"this iterator has no length: the files of {source} are not counted")
        return length_of(
            self.pipeline,
            self.consumers,
            even=self.even,
            coordinated=self.coordinated,
            on_error=self.tolerance.on_error,
            epochs=self.epochs,
        )

    def why(self, waits: Waits, stats: Mapping[str, Any]) -> str:
        """Says in one sentence what holds training back."""
        ops = [(op["op"], op["seconds"]) for op in stats.get("ops", ())]
        return _native.why_in_process(*waits.last_minute(), ops)

    def warn(self, from_start: bool) -> None:
        """Warns of ranks that get the same batches, or unequal numbers of them, and of an epoch that repeats."""
        warn_of_ranks(self.pipeline, self._given, self.even, self.coordinated, self.epochs)
        if from_start and self._first is None and self.epochs in (1, None):
            options = (self.seed, self.epochs, self.threads, self._given, self.even, self.executor, self.memory)
            note_start(self.pipeline, (*options, self.coordinated, self.ordered, self.tolerance.on_error), HERE)
