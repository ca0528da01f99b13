"""Iterators over a dataset: here and on a service, with the same face."""

from __future__ import annotations

import atexit
import json
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol, TypeAlias

from forebay import _native
from forebay._src.quarantine import DeadLetters
from forebay._src.tolerance import Skipped, SkippedSample, Tolerance
from forebay.errors import ClosedError, InvalidPipelineError

Sample: TypeAlias = dict[str, Any]
"""A batch, or a single sample: NumPy arrays (or scalars), `bytes` and `str` by column name."""


class Iteration(Protocol):
    """How to start a native iterator, and what a saved state must agree with."""

    def start(self, state: str | None) -> _native.NativeIterator:
        """Starts at a saved position, or at the beginning."""

    def identity(self) -> dict[str, Any]:
        """What a state belongs to."""

    def letters(self) -> DeadLetters | None:
        """Where samples that are left out are kept, if anywhere."""

    @property
    def consumers(self) -> tuple[int, int]:
        """Which of how many consumers."""


class DatasetIterator(Iterator[Sample]):
    """Yields batches (or samples) in order; can be saved and restored.

    It starts to work at the first `next()`, and stops when it is closed, exhausted or let go.

    >>> import forebay as fb
    >>> it = fb.range(6).batch(2).iter()
    >>> next(it)["id"].tolist()
    [0, 1]
    >>> state = it.state_dict()
    >>> again = fb.range(6).batch(2).iter()
    >>> again.load_state_dict(state)
    >>> [b["id"].tolist() for b in again]
    [[2, 3], [4, 5]]
    """

    def __init__(self, iteration: Iteration, first_epoch: int = 0) -> None:
        self._iteration = iteration
        self._native: _native.NativeIterator | None = None
        self._state: str | None = None
        self._samples: list[Sample] = []
        self._used = 0
        self._ended = False
        self._closed = False
        self._epoch = first_epoch
        self._skipped = Skipped(iteration.letters())

    def __iter__(self) -> DatasetIterator:
        """Returns itself."""
        return self

    def __next__(self) -> Sample:
        """Returns the next batch or sample.

        Raises:
            ForebayError: What went wrong on the way.
        """
        if self._used < len(self._samples):
            self._used += 1
            return self._samples[self._used - 1]
        if self._ended:
            raise StopIteration
        native = self._started()
        try:
            delivery = native.next()
        finally:
            self._take_losses(native)
        self._samples, self._used = [], 0
        if delivery is None:
            self._ended = True
            raise StopIteration
        self._epoch = self._started().epoch
        if isinstance(delivery, dict):
            return delivery
        self._samples, self._used = delivery, 1
        return delivery[0]

    def _take_losses(self, native: _native.NativeIterator) -> None:
        if losses := native.losses():
            self._skipped.add(losses)

    def _write_to(self, writer: _native.SavedWriter) -> bool | None:
        """Writes the next samples; says whether the file is full, and `None` at the end."""
        native = self._started()
        try:
            full = native.write(writer)
        finally:
            self._take_losses(native)
        self._ended = full is None
        return full

    @property
    def epoch(self) -> int:
        """The epoch of the last batch or sample."""
        return self._epoch

    @property
    def skipped(self) -> list[SkippedSample]:
        """The samples that were left out so far, in the order of the stream (the last 100,000).

        >>> import forebay as fb
        >>> def fragile(row):
        ...     if row["id"] == 2:
        ...         raise ValueError("two is too many")
        ...     return row
        >>> it = fb.range(4).map(fragile).iter(on_error="skip", error_budget=1)
        >>> [int(row["id"]) for row in it]
        [0, 1, 3]
        >>> [(s.sample, s.error.message) for s in it.skipped]
        [('row 2', 'fragile raised ValueError: two is too many')]
        """
        return list(self._skipped.samples)

    def stats(self) -> dict[str, Any]:
        """Returns figures of this process: what each op costs, what is kept of the pipeline and of its files, and why.

        Under `"ops"`, in the order in which they run, the ops that ran: `op` (fused ops are one; `read` reads the
        source), the `line` that it was written in, `seconds` of threads that it took, rows and bytes that went in and
        came out, and of `cache`, the `rows_found` that nothing had to compute. Rows are counted, the rest is measured
        on a few of them and scaled. Seconds pass on the clock while a thread is at it: waits for a storage or for the
        interpreter are in them.

        Under `"cache"`, `kept` says what is kept (`None`: nothing), `why` on which figures, and `rows` how many there
        are and what became of those that were asked for since the process began to keep them, for whatever iterator.
        Where there is a store that machines share, `rows["store"]` says whether it is read and written, or why not.
        It is missing where the pipeline has no `cache()` or `autocache()`.

        Under `"source"`, of remote files that are read through a cache folder: the bytes that were `asked` for, read
        `from_disk` and `fetched` from the store, and the pages that were `pages_corrupt` on disk, or were fetched and
        `pages_not_kept`. It is missing where files are here, or no folder is named.

        For a job on a service these are the ops that run where it is read; `Service.jobs` has those of its workers, who
        keep samples and bytes.

        >>> import forebay as fb
        >>> it = fb.range(40).cache().batch(4).iter(epochs=2)
        >>> sum(1 for _ in it)
        20
        >>> rows = it.stats()["cache"]["rows"]
        >>> rows["in_memory"], rows["found_in_memory"] >= 40
        (40, True)
        >>> [(op["op"], op["rows_in"], op["rows_found"]) for op in it.stats()["ops"]]
        [('read', 40, 0), ('cache', 80, 40)]
        """
        said = None if self._native is None else self._native.stats()
        stats: dict[str, Any] = {} if said is None else json.loads(said)
        return stats

    def state_dict(self) -> dict[str, Any]:
        """Returns where the iterator is: save it with the model.

        It is a dictionary of a few hundred bytes: numbers and strings under the same keys always, as JSON and
        `torch.distributed.checkpoint` want it. It belongs to the pipeline and its seed, and fits any iterator over
        them: in another process, on a service or not, under any name of the job. Several consumers step together, so
        each one's state says where all of them are: where their number has changed, all load the same.
        """
        if self._closed:
            raise ClosedError("the iterator was closed")
        if self._native is not None:
            part = 0 < self._used < len(self._samples)
            position = self._native.saved(self._used if part else None)
        elif self._state is not None:
            position = self._state
        else:
            start = {"epoch": self._epoch, "split": 0, "chunk": 0, "rows": 0}
            position = json.dumps({"position": start, "consumer": self._iteration.consumers})
        return {"version": _VERSION, **self._iteration.identity(), "position": position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where `state_dict` was called: the next batch is the one that came next there.

        Raises:
            InvalidPipelineError: It is no state, or one of another dataset or seed. Whether it fits the number of
                consumers, the epochs and the files (how many rows, blocks and bytes they have in all) shows when the
                iterator starts.
        """
        if not isinstance(state, Mapping):
            raise InvalidPipelineError(
                f"load_state_dict: a state is a dictionary, not {type(state).__name__}",
                {"hint": "give what state_dict() returned; to begin at the start, load nothing"},
            )
        for key, ours in {"version": _VERSION, **self._iteration.identity()}.items():
            theirs = state.get(key)
            if theirs != ours:
                differs = f"its {key} is {_short(theirs)}, and here it is {_short(ours)}"
                hint = _HINTS.get(key, "load the state into an iterator made as the one that was saved")
                raise InvalidPipelineError(f"this state was saved by another iterator: {differs}", {"hint": hint})
        position = state.get("position")
        epoch = _epoch(position)
        self.close()
        self._closed = self._ended = False
        self._samples, self._used = [], 0
        self._epoch, self._state = epoch, position

    def close(self) -> None:
        """Stops the threads behind the iterator. It is not needed after the last batch."""
        self._closed = True
        self._samples, self._used = [], 0
        if self._native is not None:
            self._native.close()
            self._native = None

    def __enter__(self) -> DatasetIterator:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    def _started(self) -> _native.NativeIterator:
        if self._closed:
            raise ClosedError("the iterator was closed")
        if self._native is None:
            self._native = self._iteration.start(self._state)
        return self._native


_VERSION = 2
_HINTS = {
    "version": "it was saved by another version of Forebay: resume with that one, or begin the epoch again",
    "dataset": "the pipeline has changed since; resume with the pipeline that was saved, or start over",
    "seed": "pass the seed of the saved run",
}


def _epoch(position: Any) -> int:
    """The epoch of a saved position, which is opaque but for that."""
    try:
        return int(json.loads(position)["position"]["epoch"])
    except (TypeError, ValueError, KeyError):
        raise InvalidPipelineError("this is not a state of an iterator: it has no position") from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 24 else f"{text[:16]}…"


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
        consumers: tuple[int, int],
        even: bool | None,
        coordinated: bool,
        executor: str,
        tolerance: Tolerance,
    ) -> None:
        pipeline = pipeline.tolerate(tolerance.on_error)
        self.budget, self.tolerance = tolerance.budget, tolerance
        self.pipeline, self.seed, self.epoch, self.epochs = pipeline, seed, epoch, epochs
        self.threads, self._consumers, self.even, self.executor = threads, consumers, even, executor
        self.coordinated = coordinated

    def start(self, state: str | None) -> _native.NativeIterator:
        """Starts threads."""
        index, count = self._consumers
        return self.pipeline.iterate(
            seed=self.seed,
            epoch=self.epoch,
            epochs=self.epochs,
            threads=self.threads,
            consumer=index,
            consumers=count,
            even=self.even,
            coordinated=self.coordinated,
            executor=self.executor,
            budget=self.budget,
            state=state,
        )

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
        return self._consumers


# Threads must be out of users' code before the interpreter goes.
atexit.register(_native.close_all)
