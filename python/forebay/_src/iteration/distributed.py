"""A pipeline on a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from forebay import _native
from forebay._src import arguments, habits
from forebay._src.arguments import Even
from forebay._src.functions.tolerance import Tolerance
from forebay._src.iteration.iterator import DatasetIterator
from forebay._src.iteration.lengths import length_of
from forebay._src.iteration.quarantine import DeadLetters
from forebay._src.iteration.ranks import warn_of_equal_batches
from forebay._src.iteration.repeats import SAME_JOB, THERE, note_start
from forebay._src.iteration.waits import Waits
from forebay._src.ops.fact_ops import uncounted
from forebay._src.service.service import Service, resolve
from forebay.errors import ForebayError, InvalidPipelineError


class Distributed:
    """The result of `Dataset.distribute`: an iterable over one consumer of a job.

    The job is created, or joined, when iteration starts. An iterator has the state:
    `it = ds.distribute(service, job="train").iter()`, then `it.state_dict()`.
    """

    def __init__(
        self,
        pipeline: _native.Pipeline,
        service: Service | str,
        *,
        job: str,
        epochs: int | None,
        seed: int,
        consumers: tuple[int, int] | None,
        even: bool | Even | None,
        rank_timeout: float,
        coordinated: bool,
        ordered: bool,
        weight: int,
        priority: int,
        local: int | None,
        tolerance: Tolerance,
        memory: str | None,
    ) -> None:
        if not arguments.text(job, "distribute", "job"):
            raise InvalidPipelineError("distribute: a job needs a name", {"hint": "job='resnet50'"})
        self._pipeline, self._service = pipeline.tolerate(tolerance.on_error), service
        self._tolerance = tolerance
        self.job, self.epochs, self.seed, self.even = job, epochs, seed, even
        self._given, self.consumers = consumers, consumers or (0, 1)
        self.rank_timeout = rank_timeout
        self.coordinated, self.ordered, self.memory = coordinated, ordered, memory
        self.weight, self.priority, self.local = weight, priority, local
        #: Whether it is intended that another job had the same batches.
        self._repeats = False

    def iter(self) -> DatasetIterator:
        """Starts reading. One process at a time reads as a consumer."""
        return DatasetIterator(ServiceIteration(self._pipeline, resolve(self._service, "distribute"), self))

    def __len__(self) -> int:
        """Returns the number of batches (or samples) of all epochs for this consumer.

        Raises:
            TypeError: It is not known before they are computed, or when all files are read; or there is no end.
        """
        if (source := uncounted(self._pipeline)) is not None:
            raise TypeError(f"this job has no length: the files of {source} are not counted")
        return length_of(
            self._pipeline,
            self.consumers,
            even=self.even,
            coordinated=self.coordinated,
            on_error=self._tolerance.on_error,
            epochs=self.epochs,
        )

    def __bool__(self) -> bool:
        """Is true, whether the length is known or not."""
        return True

    def __iter__(self) -> DatasetIterator:
        """As `iter`."""
        return self.iter()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Python calls this for a name that the class lacks. The error says what to write instead."""
            known = {}
            if not name.startswith("_") and hasattr(DatasetIterator, name):
                known[name] = f"its iterator has: it = iter(ds.distribute(...)); it.{name}"
            if name in ("to_torch", "to_jax", "to_tf"):
                known[name] = f"a data set has: ds.{name}(service=service, job=...) takes the arguments of distribute"
            raise habits.missing("a job", name, known, habits.public_names(self, name))

    def __repr__(self) -> str:
        """The job and the consumer."""
        index, count = self.consumers
        return f"Distributed(job={self.job!r}, epochs={self.epochs}, seed={self.seed}, consumer {index} of {count})"


class ServiceIteration:
    """An iteration on a service."""

    def __init__(self, pipeline: _native.Pipeline, service: Service, job: Distributed) -> None:
        self.pipeline, self._service, self.job = pipeline, service, job

    def start(self, state: str | None) -> _native.NativeIterator:
        """Opens the job and starts to read."""
        index, count = self.job.consumers
        even, ending = arguments.dealt_and_ended(self.job.even)
        return self._service._open.open(
            self.pipeline,
            job=self.job.job,
            seed=self.job.seed,
            epochs=self.job.epochs,
            consumer=index,
            consumers=count,
            even=even,
            ending=ending,
            absence_s=self.job.rank_timeout,
            coordinated=self.job.coordinated,
            ordered=self.job.ordered,
            weight=self.job.weight,
            priority=self.job.priority,
            budget=self.job._tolerance.budget,
            local=self.job.local,
            memory=self.job.memory,
            state=state,
        )

    def letters(self) -> DeadLetters | None:
        """Returns the dead letters, named after the job."""
        return self.job._tolerance.letters(self.pipeline, self.job.seed, self.job.job, self.job.consumers)

    def identity(self) -> dict[str, Any]:
        """Returns the pipeline and the seed; a state does not depend on the job that computed it."""
        return {"dataset": self.pipeline.dataset_id, "seed": self.job.seed}

    @property
    def service(self) -> str:
        """The dispatcher's address."""
        return self._service.address

    @property
    def consumers(self) -> tuple[int, int]:
        """This consumer's index, and the number of consumers."""
        return self.job.consumers

    def length(self) -> int:
        """Returns the number of batches (or samples) of all epochs."""
        return len(self.job)

    def why(self, waits: Waits, stats: Mapping[str, Any]) -> str:
        """Asks the dispatcher, which knows the waits of all consumers and the ops of all workers."""
        del waits, stats
        try:
            return self._service.why(self.job.job)
        except ForebayError as error:
            return f"Nothing is known: {error.message}."

    def warn(self, from_start: bool) -> None:
        """Warns of ranks that get the same batches, and of jobs that repeat an epoch.

        The numbers of batches of ranks differ only where the user wanted it.
        """
        if self.job._given is None:
            warn_of_equal_batches(self.pipeline)
        if from_start and not self.job._repeats:
            options = (self.job.seed, self.job._given, self.job.even, self.job.coordinated, self.job.ordered)
            # A job of one epoch may be one epoch of a loop, under any name; another job repeats one under its own name.
            one = self.job.epochs == 1
            name = () if one else (self.job.job,)
            note_start(self.pipeline, (self._service.address, *options, *name), THERE if one else SAME_JOB)
