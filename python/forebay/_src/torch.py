"""Datasets for PyTorch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from forebay._src import arguments, torch_loaders
from forebay._src.arguments import Even
from forebay._src.ranks import RanksWarning
from forebay._src.site import warn
from forebay._src.torch_epochs import Epochs, Here, There
from forebay._src.torch_together import initialised, together
from forebay.errors import InvalidPipelineError
from torch.utils.data import IterableDataset, get_worker_info

if TYPE_CHECKING:
    from forebay import _native
    from forebay._src.dataset import Dataset
    from forebay._src.iterator import DatasetIterator
    from forebay._src.service import Service

#: Keys of a state of a dataset for PyTorch that do not belong to its iterator.
_OURS = ("first", "given", "ended")
#: The number of recent batches whose states are kept: a loader prefetches one, and ranks yield one again.
_BEHIND = 3


def to_torch(dataset: Dataset, service: Service | str | None, options: dict[str, Any]) -> TorchDataset:
    """Returns the result of `Dataset.to_torch`."""
    even = options.get("even")
    mode: Even | None = None
    if isinstance(even, str):
        mode = arguments.choice(even, "to_torch", "even", "drop", "pad", "error")  # type: ignore[assignment]
        if service is None:
            options = {**options, "even": arguments.dealt_and_ended(mode)[0]}
    epochs = Here(dataset, options) if service is None else There(dataset, service, options)
    return TorchDataset(epochs, mode)


class TorchDataset(IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]
    """Yields dictionaries of tensors; values that are no numbers stay as they are. Iteration n is epoch n.

    An iteration begins with its first batch: an iterator of which no batch was requested counts as no epoch. The state
    is that of the iteration that began last: after loading it, the next iteration is the rest of that one, and the
    following ones are the epochs after it. A copy in another process begins with the epoch that comes next.
    """

    #: Lightning reads both attributes of a loader, and calls `sampler.set_epoch` before each epoch.
    batch_sampler = None

    def __init__(self, epochs: Epochs, even: Even | None) -> None:
        self._epochs, self._even = epochs, even
        self._consumers = arguments.consumers(epochs.options.get("consumers") or (0, 1), "to_torch")
        self.epoch = arguments.whole(epochs.options.get("epoch", 0), "to_torch", "epoch", 0)
        self._current: TorchIterator | None = None
        self._loaded: dict[str, Any] | None = None
        #: Whether the next iteration is the epoch of the state that was loaded.
        self._set = False
        self._length: int | None = None

    @property
    def sampler(self) -> TorchDataset:
        """This dataset, which has `set_epoch` as a sampler has."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration this epoch, as `DistributedSampler.set_epoch` does.

        If a state of this very epoch was loaded, the next iteration is the rest of it.
        """
        epoch = arguments.whole(epoch, "set_epoch", "epoch", 0)
        if self._loaded is not None:
            first = self._loaded["first"]
            if first == epoch:
                self._set = True
                return
            if epoch != first + 1:
                message = f"the state that was loaded is in epoch {first}, and set_epoch({epoch}) begins another one"
                warn(f"{message}: the rest of epoch {first} does not come", RanksWarning)
        self.epoch, self._loaded = epoch, None

    def __iter__(self) -> TorchIterator:
        """Returns an iterator over the epoch that comes next when its first batch is requested."""
        if get_worker_info() is not None:
            raise InvalidPipelineError(
                "the DataLoader has worker processes: each would read everything, and begin with the same epoch anew",
                {"hint": "use num_workers=0: Forebay computes on threads of its own, or on the workers of a service"},
            )
        sharding = torch_loaders.sharding()
        if sharding is not None:
            self._check_dealt_once(*sharding)
        return TorchIterator(self, dealt=sharding is not None)

    def _check_dealt_once(self, library: str, processes: int) -> None:
        index, count = self._consumers
        if count == 1:
            return
        raise InvalidPipelineError(
            f"{library} divides this dataset among its {processes} processes, but consumers=({index}, {count}) "
            "has divided it already: each process would see only a part of its share",
            {
                "hint": "leave consumers= out; or keep it, and instead of prepare() make the loader with "
                "accelerate.data_loader.DataLoaderShard(dataset, device=accelerator.device, batch_size=None), which "
                "deals nothing"
            },
        )

    def __len__(self) -> int:
        """Returns the number of batches (or samples) of an epoch for this consumer.

        Raises:
            TypeError: It is not known before they are computed, or there is no end.
        """
        if self._length is None:
            options = self._epochs.options
            even, _ = arguments.dealt_and_ended(options.get("even"))
            coordinated = arguments.flag(options.get("coordinated", False), "to_torch", "coordinated")
            index, count = self._consumers
            share = self._epochs.dataset._pipeline.share
            found = share(index, count, even, coordinated)
            if self._even == "pad" and found is not None:
                # The first consumer has as many as any other.
                found = share(0, count, even, coordinated)
            if options.get("on_error", "raise") != "raise":
                raise TypeError("this dataset has no length: samples that fail are left out")
            if found is None:
                raise TypeError("this dataset has no length: how much there is shows when it is computed")
            if found < 0:
                raise TypeError("this dataset has no length: an epoch of it never ends")
            self._length = found
        return self._length

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the iteration: numbers and strings, a few hundred bytes.

        A state at the end of an iteration is the start of the next epoch.
        """
        if self._loaded is not None:
            return dict(self._loaded)
        if self._current is None:
            return {"first": self.epoch, "given": 0, "ended": 0, **self._epochs.state(self.epoch)}
        return self._current.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration continue from the call of `state_dict`."""
        loaded = dict(state) if isinstance(state, Mapping) else {}
        if not all(isinstance(loaded.get(key), int) for key in _OURS):
            raise InvalidPipelineError(
                "this is not a state of to_torch(): it has no first epoch",
                {"hint": "give what state_dict() of such a dataset returned; to begin at the start, load nothing"},
            )
        self._epochs.check(_inner(loaded))
        self.epoch, self._loaded, self._set = loaded["first"], loaded, False

    def _agreed(self) -> Even | None:
        """Returns how ranks agree to end together, or `None` if they need not agree."""
        count, options = self._consumers[1], self._epochs.options
        # On a service they end together without that.
        if self._even is None or isinstance(self._epochs, There) or count == 1 or options.get("coordinated"):
            return None
        pipeline = self._epochs.dataset._pipeline.tolerate(options.get("on_error", "raise"))
        known = pipeline.uneven(count) is None
        if known and (self._even == "drop" or self._is_even(pipeline)):
            return None
        if not initialised():
            message = f'to_torch(even="{self._even}"): how many batches the {count} consumers get differs, and they '
            message += "can ask each other over torch.distributed alone, which is not initialised"
            raise InvalidPipelineError(message, {"hint": "call torch.distributed.init_process_group() before"})
        return self._even

    def _is_even(self, pipeline: _native.Pipeline) -> bool:
        count = self._consumers[1]
        first, last = (pipeline.share(index, count, False, False) for index in (0, count - 1))
        return first == last

    def __getstate__(self) -> dict[str, Any]:
        """Returns the attributes without this process's readers."""
        return {**self.__dict__, "_current": None}


class TorchIterator(Iterator[dict[str, Any]]):
    """One epoch of a dataset for PyTorch, or the rest of one. It begins with its first batch."""

    def __init__(self, dataset: TorchDataset, *, dealt: bool) -> None:
        #: Whether a loader divides these batches among processes.
        self._dataset, self._dealt = dataset, dealt
        self._tensors: Iterator[dict[str, Any]] | None = None
        self._batches: DatasetIterator | None = None
        self._epoch = dataset.epoch
        self._ended = False
        #: The object that prefetches batches.
        self._fetcher: Any = None
        #: The states before the recent batches, if one of these will be requested.
        self._before: deque[dict[str, Any]] | None = None
        self._behind = False
        #: The batch that is yielded again, and how often it was.
        self._padding: dict[str, Any] | None = None
        self._padded = 0

    def __next__(self) -> dict[str, Any]:
        """Returns the next batch; the first one decides which epoch this is."""
        if self._tensors is None:
            self._begin()
        assert self._tensors is not None
        try:
            return next(self._tensors)
        except StopIteration:
            self._ended = True
            raise

    def _begin(self) -> None:
        dataset = self._dataset
        loaded, self._epoch = dataset._loaded, dataset.epoch
        if loaded is not None and loaded["ended"]:
            if dataset._set:
                self._enter(iter(()))
                return
            loaded, self._epoch = None, self._epoch + 1
        even = dataset._agreed()
        self._fetcher, self._behind = torch_loaders.prefetching(), even == "pad"
        if self._fetcher is not None or self._behind:
            self._before = deque(maxlen=_BEHIND)
        batches = dataset._epochs.begin(self._epoch, None if loaded is None else _inner(loaded))
        batches._quiet = self._dealt or even is not None
        self._batches = batches
        rows = self._noted(dataset._epochs.read(batches, self._epoch), batches)
        # The state is one batch behind: the batch was yielded before the state was saved.
        given = loaded is not None and bool(loaded["given"]) and next(rows, None) is not None
        if even is not None:
            rows = together(rows, even, given, self._again)
        self._enter({name: _tensor(value) for name, value in batch.items()} for batch in rows)

    def _enter(self, tensors: Iterator[dict[str, Any]]) -> None:
        dataset, self._tensors = self._dataset, tensors
        dataset._loaded, dataset._current, dataset.epoch = None, self, self._epoch + 1

    def _noted(self, rows: Iterator[dict[str, Any]], batches: DatasetIterator) -> Iterator[dict[str, Any]]:
        """Notes the state before each batch, if one will be requested."""
        while True:
            before = None if self._before is None else batches.state_dict()
            batch = next(rows, None)
            if batch is None:
                return
            if self._before is not None and before is not None:
                self._before.append(before)
            yield batch

    def _again(self) -> dict[str, Any]:
        """Returns the last batch once more, computed anew: the user may have written to it, and may do so again."""
        if self._padding is None:
            assert self._before is not None
            epochs = self._dataset._epochs
            assert isinstance(epochs, Here)
            self._padding = epochs.again(self._before[-1])
        self._padded += 1
        return {name: value.copy() if hasattr(value, "copy") else value for name, value in self._padding.items()}

    def close(self) -> None:
        """Stops the iterator behind it. It is not needed after the last batch."""
        if self._batches is not None:
            self._batches.close()

    def state_dict(self) -> dict[str, Any]:
        """Returns its position, without batches that were prefetched and not used yet."""
        if self._ended:
            return {"first": self._epoch, "given": 0, "ended": 1, **self._dataset._epochs.state(self._epoch + 1)}
        assert self._batches is not None
        before = self._before or ()
        ahead = 0 if self._fetcher is None else max(0, len(self._fetcher.batches) - self._padded)
        ahead = min(ahead, len(before))
        given = int(self._behind and len(before) > ahead)
        back = ahead + given
        inner = before[-back] if back else self._batches.state_dict()
        return {"first": self._epoch, "given": given, "ended": 0, **inner}


def _inner(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the iterator's state in a state of a dataset for PyTorch."""
    return {key: value for key, value in state.items() if key not in _OURS}


def _tensor(value: Any) -> Any:
    """Returns a tensor: over the same memory if the array is ours alone, else a copy of a read-only array."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return value
    return torch.from_numpy(value if value.flags.writeable else value.copy())
