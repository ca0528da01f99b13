"""A dataset as training frameworks read it: an iterable of epochs, with a length, a state and `set_epoch`.

Batches may be converted a few ahead of the loop (`EpochIterator`). The state is that of the last batch that was
delivered, so a resumed run gets the batches that were ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from forebay._src import arguments
from forebay._src.arguments import Even
from forebay._src.frameworks.torch_epochs import Epochs, Here, There
from forebay._src.iteration import ranks
from forebay._src.iteration.lengths import length_of
from forebay._src.iteration.repeats import ANEW, note_start
from forebay._src.iteration.waits import Totals
from forebay._src.site import warn
from forebay.errors import ClosedError, InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset
    from forebay._src.iteration.iterator import DatasetIterator
    from forebay._src.service.service import Service

#: Keys of a state that do not belong to the iterator behind it.
_OURS = ("first", "given", "ended")
#: The most batches that are converted ahead of the loop.
AHEAD_MAX = 64


class EpochDataset:
    """Iteration n is epoch n, and begins with its first batch.

    The state is that of the iteration that began last: after loading it, the next iteration is the rest of that one,
    and the following ones are the epochs after it. A copy in another process begins with the epoch that comes next.
    """

    #: The method that makes it, for errors.
    _op: ClassVar[str] = "to_torch"

    def __init__(self, dataset: Dataset, service: Service | str | None, options: Mapping[str, Any]) -> None:
        self._source, self._service, self._options = dataset, service, dict(options)
        even = self._options.get("even")
        #: The action at the first step for which some consumers have a batch and others have none.
        self._even = cast("Even | None", even if isinstance(even, str) else None)
        given = self._options.get("consumers")
        self._auto = isinstance(given, str)
        if isinstance(given, str):
            arguments.choice(given, self._op, "consumers", "auto")
            # This finds other wrong options now; the real shares may be known later.
            self._make((0, 1))
            self._made: tuple[Epochs, tuple[int, int]] | None = None
        else:
            self._made = self._make(None if given is None else arguments.consumers(given, self._op))
        first = self._options.get("epoch")
        self.epoch = 0 if first is None else arguments.whole(first, self._op, "epoch", 0)
        self._current: Any = None
        self._loaded: dict[str, Any] | None = None
        #: Whether the next iteration is the epoch of the state that was loaded.
        self._set = False
        self._length: int | None = None
        #: Whether the user gave an epoch, or a repetition of epoch 0 has been noted.
        self._said = first is not None

    def _make(self, consumers: tuple[int, int] | None) -> tuple[Epochs, tuple[int, int]]:
        options = {**self._options, "consumers": consumers}
        service = self._service
        epochs = Here(self._source, options) if service is None else There(self._source, service, options)
        return epochs, consumers or (0, 1)

    def _ranks(self) -> tuple[int, int]:
        """Returns this process's index among the processes that train, and their number, for `consumers="auto"`."""
        found = ranks.found()
        return (0, 1) if found is None else (found.index, found.count)

    def _resolved(self) -> tuple[Epochs, tuple[int, int]]:
        if self._made is None:
            # Where the pipeline has a shard, the user has divided the samples.
            self._made = self._make((0, 1) if ranks.is_sharded(self._source._pipeline) else self._ranks())
        return self._made

    @property
    def _epochs(self) -> Epochs:
        return self._resolved()[0]

    @property
    def _consumers(self) -> tuple[int, int]:
        return self._resolved()[1]

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration this epoch, as `DistributedSampler.set_epoch` does.

        If a state of this very epoch was loaded, the next iteration is the rest of it.
        """
        epoch = arguments.whole(epoch, "set_epoch", "epoch", 0)
        self._said = True
        if self._loaded is not None:
            first = self._loaded["first"]
            if first == epoch:
                self._set = True
                return
            if epoch != first + 1:
                message = f"the state that was loaded is in epoch {first}, and set_epoch({epoch}) begins another one"
                warn(f"{message}: the rest of epoch {first} does not come", ranks.RanksWarning)
        self.epoch, self._loaded = epoch, None

    def __len__(self) -> int:
        """Returns the number of batches (or samples) of an epoch for this consumer.

        Raises:
            TypeError: It is not known before they are computed, or there is no end.
        """
        if self._length is None:
            options = self._options
            self._length = length_of(
                self._source._pipeline,
                self._consumers,
                even=options.get("even"),
                coordinated=arguments.flag(options.get("coordinated", False), self._op, "coordinated"),
                on_error=options.get("on_error", "raise"),
            )
        return self._length

    def stats(self) -> dict[str, Any]:
        """Returns the figures of the last iteration in this process, as `DatasetIterator.stats`; empty before it."""
        batches = None if self._current is None else self._current._batches
        stats: dict[str, Any] = {} if batches is None else batches.stats()
        return stats

    def _totals(self) -> Totals:
        """Returns the sums of the last iteration in this process, for callbacks."""
        batches = None if self._current is None else self._current._batches
        return Totals() if batches is None else batches._totals()

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the iteration: numbers and strings, a few hundred bytes.

        A state at the end of an iteration is the start of the next epoch.
        """
        if self._loaded is not None:
            return dict(self._loaded)
        if self._current is None:
            return {"first": self.epoch, "given": 0, "ended": 0, **self._epochs.state(self.epoch)}
        state: dict[str, Any] = self._current.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration continue from the call of `state_dict`."""
        loaded = dict(state) if isinstance(state, Mapping) else {}
        if not all(isinstance(loaded.get(key), int) for key in _OURS):
            raise InvalidPipelineError(
                f"this is not a state of {self._op}(): it has no first epoch",
                {"hint": "give what state_dict() of such a dataset returned; to begin at the start, load nothing"},
            )
        self._epochs.check(inner(loaded))
        self.epoch, self._loaded, self._set = loaded["first"], loaded, False

    def _next_epoch(self) -> tuple[int, dict[str, Any] | None] | None:
        """Returns the epoch that the next iteration is and the state it begins at; `None` is an empty iteration."""
        if self._loaded is None and self.epoch == 0 and not self._said:
            self._said = True
            note_start(self._source._pipeline, (self._op, repr(sorted(self._options.items(), key=str))), ANEW)
        if self._loaded is None or not self._loaded["ended"]:
            return self.epoch, self._loaded
        return None if self._set else (self.epoch + 1, None)

    def _entered(self, iteration: Any, epoch: int) -> None:
        """Notes that an iteration has begun."""
        self._loaded, self._current, self.epoch = None, iteration, epoch + 1

    def __getstate__(self) -> dict[str, Any]:
        """Returns the attributes without this process's readers, and without its place among ranks."""
        found = {"_made": None, "_length": None} if self._auto else {}
        return {**self.__dict__, **found, "_current": None}


class EpochIterator(Iterator[Any]):
    """One epoch of a dataset, or the rest of one. It begins with its first batch.

    Args:
        dataset: The dataset.
        convert: Makes the framework's form of a batch.
        ahead: The number of batches that are converted before they are requested.
    """

    def __init__(self, dataset: EpochDataset, convert: Callable[[dict[str, Any]], Any], ahead: int) -> None:
        self._dataset, self._convert, self._ahead = dataset, convert, ahead
        self._rows: Iterator[dict[str, Any]] | None = None
        self._batches: DatasetIterator | None = None
        self._epoch = dataset.epoch
        #: The converted batches, each with the state behind it.
        self._ready: deque[tuple[Any, dict[str, Any]]] = deque()
        #: The state behind the last batch that was delivered.
        self._state: dict[str, Any] | None = None
        #: The end of the rows, or their error, which comes when the batches before it were delivered.
        self._end: BaseException | None = None
        self._ended = False
        self._delivered = 0
        #: The state that it began at, if that was a loaded one.
        self._start: dict[str, Any] | None = None

    def __next__(self) -> Any:
        """Returns the next batch; the first one decides which epoch this is."""
        # The first batch comes as soon as possible. Then each call reads up to two, until `ahead` are ready.
        reads = 2
        if self._rows is None:
            self._begin()
            reads = 1
        for _ in range(reads):
            if self._end is None and len(self._ready) <= self._ahead:
                self._read()
        if self._ready:
            batch, self._state = self._ready.popleft()
            self._delivered += 1
            return batch
        assert self._end is not None
        self._ended = self._ended or isinstance(self._end, StopIteration)
        raise self._end

    def _read(self) -> None:
        assert self._rows is not None
        try:
            batch = next(self._rows)
            assert self._batches is not None
            state = self._batches.state_dict()
            self._ready.append((self._convert(batch), state))
        except Exception as error:
            self._end = error
        except BaseException:
            # The generator behind this has ended: without an error the next call would end the epoch.
            hint = "load_state_dict(state_dict()) and iterate again: that is the rest of the epoch"
            self._end = ClosedError("this iteration was interrupted while it read", {"hint": hint})
            raise

    def _begin(self) -> None:
        dataset, following = self._dataset, self._dataset._next_epoch()
        if following is None:
            self._rows, self._ended = iter(()), True
            dataset._entered(self, self._epoch)
            return
        self._epoch, self._start = following
        at = None if self._start is None else inner(self._start)
        self._batches = dataset._epochs.begin(self._epoch, at)
        self._rows = dataset._epochs.read(self._batches, self._epoch)
        if self._start is not None and self._start["given"]:
            # The state is one batch behind: the batch was yielded before the state was saved.
            next(self._rows, None)
        self._state = self._batches.state_dict()
        dataset._entered(self, self._epoch)

    def close(self) -> None:
        """Stops the iterator behind it. It is not needed after the last batch."""
        if self._batches is not None:
            self._batches.close()

    def state_dict(self) -> dict[str, Any]:
        """Returns the position behind the last batch that was delivered."""
        if self._ended:
            return {"first": self._epoch, "given": 0, "ended": 1, **self._dataset._epochs.state(self._epoch + 1)}
        assert self._state is not None
        return {"first": self._epoch, "given": 0, "ended": 0, **self._state}


def inner(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the iterator's state in a state of a dataset for a framework."""
    return {key: value for key, value in state.items() if key not in _OURS}


def chosen(dataset: Dataset, columns: str | Iterable[str] | None, op: str) -> tuple[Dataset, Callable[..., Any]]:
    """Returns the dataset of these columns alone, and a function from a batch to them.

    A name gives its value, several names give a tuple, and `None` gives the batch as a dictionary.
    """
    if columns is None:
        return dataset, _itself
    names = arguments.columns(columns, op, "columns") or []
    if not names or len(set(names)) < len(names):
        what = "names a column twice" if names else "names no column"
        raise InvalidPipelineError(f"{op}: columns= {what}", {"hint": 'write columns=("x", "y")'})
    if list(dataset.schema) != names:
        dataset = dataset.select(*names)
    return dataset, _Part(names[0]) if isinstance(columns, str) else _Parts(tuple(names))


def _itself(batch: Any) -> Any:
    return batch


class _Part:
    """One value of a batch."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        """Returns the value."""
        return batch[self.name]


class _Parts:
    """Values of a batch as a tuple."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __call__(self, batch: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the values."""
        return tuple(batch[name] for name in self.names)
