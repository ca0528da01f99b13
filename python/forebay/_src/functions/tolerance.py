"""Samples that fail: the user's choice of action, and the reports about samples that were left out."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forebay import _native
from forebay._src import arguments
from forebay._src.iteration.quarantine import DeadLetters, Loss
from forebay._src.site import warn
from forebay.errors import ForebayError, InvalidPipelineError

OnError: TypeAlias = Literal["raise", "skip", "quarantine"]

#: The left-out samples that an iterator remembers; the oldest are dropped first.
SKIPPED_MAX = 100_000
#: The left-out samples that are logged, each with a line.
_LOGGED_MAX = 20

_log = logging.getLogger("forebay")


@dataclass(frozen=True)
class SkippedSample:
    """A sample that was left out.

    Attributes:
        epoch: The epoch.
        split: The split that it belongs to.
        sample: Its name: file and record, row, or key.
        error: Its error.
    """

    epoch: int
    split: int
    sample: str
    error: ForebayError

    @property
    def op(self) -> str | None:
        """The op that failed; `None` when it could not be read."""
        return self.error.context.get("op")


@dataclass(frozen=True)
class Tolerance:
    """The action on samples that fail, checked."""

    on_error: OnError
    budget: int | float
    quarantine: str | None

    @classmethod
    def of(cls, op: str, on_error: str, budget: int | float, quarantine: arguments.PathLike | None) -> Tolerance:
        """Checks the user's options of `op`."""
        arguments.choice(on_error, op, "on_error", "raise", "skip", "quarantine")
        if isinstance(budget, bool) or not isinstance(budget, (int, float)):
            raise InvalidPipelineError(
                f"{op}: error_budget={budget!r} is no number", {"hint": "give a count (int) or a share (float)"}
            )
        limit = 1 if isinstance(budget, float) else 2**63 - 1
        if not 0 <= budget <= limit:
            raise InvalidPipelineError(
                f"{op}: error_budget={budget!r} is out of range",
                {"hint": "give a count of 0 or more (int), or a share of 0.0 to 1.0 (float)"},
            )
        if quarantine is not None and on_error != "quarantine":
            raise InvalidPipelineError(
                f"{op}: quarantine= names a file, and on_error is {on_error!r}", {"hint": "use on_error='quarantine'"}
            )
        path = None if quarantine is None else arguments.path(quarantine, op)
        return cls(on_error, budget, path)  # type: ignore[arg-type]

    def letters(
        self, pipeline: _native.Pipeline, seed: int, name: str, consumers: tuple[int, int]
    ) -> DeadLetters | None:
        """Returns the file of dead letters, or `None` if samples are not kept."""
        if self.on_error != "quarantine":
            return None
        index, count = consumers
        reader = f"-{index}-of-{count}" if count > 1 else ""
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
        return DeadLetters(self.quarantine or f"quarantine-{safe}{reader}.jsonl", pipeline, seed)


class NonDeterministicWarning(UserWarning):
    """A function of a pipeline gave another result when it was called again for the same sample.

    The stream then depends on which worker computed a sample, and changes when a worker is lost.
    `warnings.simplefilter("error", fb.NonDeterministicWarning)` makes it an error.
    """


class Skipped:
    """The samples that an iterator has left out so far."""

    def __init__(self, letters: DeadLetters | None = None) -> None:
        self._letters = letters
        self._warned: set[tuple[str | None, str | None]] = set()
        self.samples: deque[SkippedSample] = deque(maxlen=SKIPPED_MAX)
        self._logged = 0
        # Losses of one call of the native iterator that could not be written: `add` tries again.
        self.unwritten: list[Loss] = []

    def add(self, losses: Iterable[Loss]) -> None:
        """Accepts losses of the native iterator, writes and logs them, and warns.

        Raises:
            ForebayError: The file cannot be written. The next call tries again with the same samples, and more.
            NonDeterministicWarning: If the user makes it an error; everything is written then.
        """
        told = [*self.unwritten, *losses]
        doubts = [loss for loss in told if loss[4].context.get("fault") == "nondeterministic"]
        self.unwritten = [loss for loss in told if loss[4].context.get("fault") != "nondeterministic"]
        if self.unwritten and self._letters is not None:
            self._letters.add(self.unwritten)
        lost, self.unwritten = self.unwritten, []
        for epoch, split, _, _, error, _ in lost:
            sample = SkippedSample(epoch, split, error.context.get("sample", "?"), error)
            self.samples.append(sample)
            self._log(sample)
        for doubt in doubts:
            self._warn(doubt[4])

    def _warn(self, error: ForebayError) -> None:
        key = (error.context.get("op"), error.context.get("line"))
        if key not in self._warned:
            self._warned.add(key)
            warn(str(error), NonDeterministicWarning)

    def _log(self, sample: SkippedSample) -> None:
        self._logged += 1
        if self._logged <= _LOGGED_MAX:
            op = f"{sample.op}: " if sample.op else ""
            _log.warning("left out %s of epoch %d: %s%s", sample.sample, sample.epoch, op, sample.error.message)
        if self._logged == _LOGGED_MAX:
            _log.warning("more samples that are left out are not logged: see the iterator's `skipped`")
