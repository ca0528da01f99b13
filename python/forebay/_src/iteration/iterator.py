"""Iterators over a dataset, with one interface in this process and on a service."""

from __future__ import annotations

import atexit
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from forebay import _native
from forebay._src import habits
from forebay._src.functions.tolerance import Skipped, SkippedSample
from forebay._src.iteration import pipeline_ops
from forebay._src.iteration.iteration import Iteration
from forebay._src.iteration.no_batches import note_empty
from forebay._src.iteration.state import VERSION, checked_position, epoch_of, position_of
from forebay._src.iteration.waits import Totals, Waits
from forebay.errors import ClosedError, InvalidPipelineError, UnavailableError

if TYPE_CHECKING:
    import numpy as np

Sample: TypeAlias = dict[str, Any]
"""A batch, or a single sample: NumPy arrays (or scalars), `bytes` and `str` by column name."""


class DatasetIterator(Iterator[Sample]):
    """Yields batches (or samples) in order; can be saved and restored.

    It starts to work at the first `next()`, and stops when it is closed, exhausted or let go. Several threads may read
    one iterator: each batch (or sample) goes to one of them. After a fork, only the parent can go on reading.

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
        self._ops: str | None = None
        self._ended = False
        self._closed = False
        self._epoch = first_epoch
        self._skipped = Skipped(iteration.letters())
        # One thread at a time reads. The lock is reentrant, because signal handlers call `state_dict`.
        self._turn = threading.RLock()
        #: The process that began to read.
        self._process: int | None = None
        #: Why the iterator has ended, if the user did not close it.
        self._lost: ClosedError | None = None
        #: Whether the user has been warned, or wants no warnings.
        self._quiet = False
        self._waits = Waits()
        #: Whether it has delivered no batch or sample, and began at no saved state.
        self._is_empty = True

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Says what to write for methods that have another name here."""
            raise habits.missing("DatasetIterator", name, habits.ITERATORS, habits.public_names(self, name))

    def __iter__(self) -> DatasetIterator:
        """Returns itself."""
        return self

    def __next__(self) -> Sample:
        """Returns the next batch or sample.

        Raises:
            ForebayError: The error of the stream.
        """
        if self._process != _process:
            self._check_process()
        with self._turn:
            if self._skipped.unwritten:
                self._skipped.add([])
            if self._used < len(self._samples):
                self._used += 1
                return self._samples[self._used - 1]
            if self._ended:
                raise StopIteration
            native = self._started()
            self._waits.asked()
            try:
                delivery = native.next()
            except BaseException as error:
                self._take_losses(native)
                if isinstance(error, ClosedError) and self._lost is not None:
                    raise self._lost from None
                raise
            if losses := native.losses():
                # If the skipped samples cannot be written, the next call returns the delivered ones.
                self._ended = delivery is None
                self._samples = delivery if isinstance(delivery, list) else [] if delivery is None else [delivery]
                self._used = 0
                self._skipped.add(losses)
            self._samples, self._used = [], 0
            if delivery is None:
                self._ended = True
                self._waits.ended()
                if self._is_empty and self._state is None:
                    note_empty(self._iteration.pipeline)
                raise StopIteration
            self._is_empty = False
            self._waits.got()
            self._waits.count(_samples_of(delivery))
            self._epoch = native.epoch
            if _observer is not None:
                _observer(native)
            if isinstance(delivery, dict):
                return delivery
            # Another thread may have closed it meanwhile: then this batch is the last.
            self._samples, self._used = [] if self._closed else delivery, 1
            return delivery[0]

    def _put_back(self, sample: Sample) -> None:
        """Takes back the last sample, so that the next call returns it again and a state excludes it."""
        with self._turn:
            if self._samples:
                self._used -= 1
            else:
                self._samples, self._used = [sample], 0

    def _take_losses(self, native: _native.NativeIterator) -> None:
        if losses := native.losses():
            self._skipped.add(losses)

    def _write_to(self, writer: _native.SavedWriter) -> dict[str, Any] | bool:
        """Writes the next samples; returns whether there were any, or, if the file is full, the state at its end."""
        self._check_process()
        with self._turn:
            native = self._started()
            try:
                more, used = native.write(writer)
            finally:
                self._take_losses(native)
            self._ended = not more
            return more if used is None else self._dated(native.saved(used))

    def _sorted_rows(self, column: str, descending: bool) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Reads all batches, and returns the places of their samples in the order of a column."""
        with self._turn:
            rows = self._started().sorted_rows(column, descending)
            self._ended = True
            return rows

    def __len__(self) -> int:
        """Returns the number of batches (or samples) from its start, of all its epochs, as progress bars request it.

        Raises:
            TypeError: It is not known before they are computed, or when all files are read; or there is no end; or it
                continues from a saved state.

        >>> import forebay as fb
        >>> len(fb.range(10).batch(4).iter(epochs=2))
        6
        """
        if self._state is not None:
            raise TypeError("this iterator has no length: it continues from a saved state")
        return self._iteration.length()

    def __bool__(self) -> bool:
        """Is true, whether the length is known or not."""
        return True

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
        """Returns figures of this process: the costs of ops, the rows and file pages that it keeps, and the reasons.

        Under `"why"`, one sentence that says what held training back in the last minute, data or training: the time
        between two calls of `next` is training. For a job on a service it is the sentence of `Service.why`, for which
        the dispatcher is asked.

        Under `"ops"`, in the order in which they run, the ops that ran: `op` (fused ops are one; `read` reads the
        source), the `line` of code that added it, `seconds` of threads in it, rows and bytes that went in and came out,
        and for `cache`, `rows_found`, the rows that were not computed. Rows are counted; the other figures are measured
        on some of them and scaled. Seconds are wall-clock time of the threads: waits for a storage or for the
        interpreter are included.

        Under `"cache"`, `kept` names the op whose rows are kept (`None`: nothing is kept), `why` gives the figures
        behind that, and `rows` counts the kept rows, and the hits and misses since the process began to keep them, for
        all iterators. If there is a store that machines share, `rows["store"]` says whether it is read and written, or
        why not. It is missing if the pipeline has no `cache()` or `autocache()`.

        Under `"source"`, for remote files that are read through a cache folder: the bytes that were `asked` for, read
        `from_disk` and `fetched` from the store, and the pages that were `pages_corrupt` on disk, or were fetched and
        `pages_not_kept`. It is missing if files are here, or no folder is named.

        For a job on a service these are the ops that run in the consumer's process; `Service.jobs` has those of its
        workers, which keep the samples and pages.

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
        native = self._native
        said = None if native is None or self._is_elsewhere() else native.stats()
        stats: dict[str, Any] = {} if said is None else json.loads(said)
        if said is not None:
            stats["why"] = self._iteration.why(self._waits, stats)
        return stats

    def _totals(self) -> Totals:
        """Returns the sums of this process since the start, for callbacks."""
        return self._waits.totals

    def state_dict(self) -> dict[str, Any]:
        """Returns the iterator's position: save it with the model.

        It is a dictionary of at most a few KiB, and behind `batch_by_key` of its keys as well: numbers and strings,
        always under the same keys, as JSON and `torch.distributed.checkpoint` need. It belongs to the pipeline and
        its seed, and fits any iterator over them: in another process, on a service or not, under any name of the job.
        Several consumers step together, so each one's state has the position of all: if their number has changed, all
        load the same state. The position has the ops in words, so that a changed pipeline can say what differs.
        """
        if self._closed:
            raise ClosedError("the iterator was closed")
        if self._is_elsewhere():
            position = self._position()
        else:
            # A batch on its way to another thread counts either as taken or as not taken.
            with self._turn:
                position = self._position()
        return self._dated(position)

    def _dated(self, position: str) -> dict[str, Any]:
        if self._ops is None:
            self._ops = pipeline_ops.saved(self._iteration.pipeline)
        position = pipeline_ops.added(position, self._ops)
        return {"version": VERSION, **self._iteration.identity(), "position": position}

    def _position(self) -> str:
        if self._native is not None:
            part = self._used < len(self._samples)
            return self._native.saved(self._used if part else None)
        return position_of(self._epoch, self._iteration.consumers) if self._state is None else self._state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from the call of `state_dict`: the next batch is the one that came next there.

        Raises:
            InvalidPipelineError: It is no state, or one of another dataset or seed. Whether it fits the number of
                consumers, the epochs and the files (the total rows, blocks and bytes) is checked when the iterator
                starts.
        """
        position = checked_position(state, self._iteration.identity(), self._iteration.pipeline)
        epoch = epoch_of(position)
        self.close()
        if self._is_elsewhere():
            self._turn = threading.RLock()
        with self._turn:
            self._closed = self._ended = False
            self._lost = self._process = None
            self._samples, self._used = [], 0
            self._epoch, self._state = epoch, position

    def close(self) -> None:
        """Stops the threads behind the iterator. It is not needed after the last batch."""
        # Without the lock: a thread that waits for a batch holds it, and stops waiting.
        self._closed = True
        self._samples, self._used = [], 0
        native, self._native = self._native, None
        if native is not None:
            native.close()

    def _lose(self, why: ClosedError) -> None:
        """Ends the iterator for a reason outside of it; `state_dict` still works."""
        if self._ended or self._is_elsewhere():
            return
        self._lost = why
        native = self._native
        if native is not None:
            native.close()

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
        if self._lost is not None:
            raise self._lost
        if self._native is None:
            if not self._quiet:
                self._iteration.warn(self._state is None)
            self._process = _process
            if self._iteration.service is not None:
                _readers.add(weakref.ref(self, _readers.discard))
            try:
                self._native = self._iteration.start(self._state)
            except UnavailableError:
                if self._lost is None:
                    raise
            if self._lost is not None:
                self._lose(self._lost)
                raise self._lost
        return self._native

    def _is_elsewhere(self) -> bool:
        """Returns whether this is a forked copy of an iterator whose threads and connections are in the parent."""
        return self._process is not None and self._process != _process

    def _check_process(self) -> None:
        if self._is_elsewhere():
            hint = "make the iterator in the child, or start children with the spawn or forkserver method"
            message = f"this iterator was begun in process {self._process}, which forked: it cannot go on in its child"
            raise InvalidPipelineError(message, {"hint": hint})


#: Gets the native iterator behind each delivery, while spans are sent.
_observer: Callable[[_native.NativeIterator], None] | None = None


def observe(observer: Callable[[_native.NativeIterator], None] | None) -> None:
    """Sets the function that is called behind each delivery; `None` is no function."""
    global _observer
    _observer = observer


def _samples_of(delivery: Any) -> int:
    """Returns the number of samples of a batch, or of a list of samples."""
    return len(delivery if isinstance(delivery, list) else next(iter(delivery.values()), ()))


#: This process's id, updated after a fork: a system call for each sample would take longer than the sample.
_process = os.getpid()
#: The iterators that read from services and have begun.
_readers: set[weakref.ref[DatasetIterator]] = set()


def lose_readers(address: str, why: ClosedError) -> None:
    """Ends the iterators of this process over a service that is about to end, so that no thread waits for it."""
    for reader in (found for known in _readers.copy() if (found := known()) is not None):
        if reader._iteration.service == address:
            reader._lose(why)


def _note_process() -> None:
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_note_process)
# Threads must leave users' code before the interpreter ends.
atexit.register(_native.close_all)
