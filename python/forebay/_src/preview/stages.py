"""The samples before and after each op, side by side."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forebay._src.functions.tolerance import SkippedSample
from forebay._src.iteration.first_samples import first, same
from forebay._src.written import Step, Written
from forebay.errors import ForebayError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: Ops that yield other samples, or the samples in another order.
_OTHER = frozenset(
    ("batch", "explode", "flat_map", "mix", "pack", "repeat", "select_rows", "shard", "shuffle", "skip", "take")
)
_FILTERS = frozenset(("filter_expr", "filter_function"))
#: The seconds for the samples of one stage.
_SECONDS_MAX = 30.0


@dataclass
class Stage:
    """The first samples after an op (or of the source).

    Attributes:
        text: The op in words.
        line: Its line; 0 for the source.
        types: The type of each column.
        samples: The first samples, or the one first batch.
        before: The same samples before the op; empty if the op yields other samples.
        kept: For a filter, whether it keeps each sample of `before`.
        is_batch: Whether `samples` has one batch.
        errors: The errors of the op.
    """

    text: str
    line: int
    types: dict[str, str]
    samples: list[dict[str, Any]] = field(default_factory=list)
    before: list[dict[str, Any]] = field(default_factory=list)
    kept: list[bool] = field(default_factory=list)
    is_batch: bool = False
    errors: list[str] = field(default_factory=list)

    def changed(self) -> list[str]:
        """Returns the columns that the op changes; all columns if it yields other samples."""
        if not self.before:
            return list(self.types)
        pairs = list(zip(self.before, self.samples, strict=True))
        return [name for name in self.types if any(name not in b or not same(b[name], a[name]) for b, a in pairs)]


def stages(dataset: Dataset, samples: int, seed: int, epoch: int) -> list[Stage]:
    """Returns the source and each op with their first samples, up to the first op that fails."""
    written = Written.of(dataset)
    found = [_read(Stage(written.kind, 0, _types(written.source)), written.source, samples, seed, epoch)]
    for step in written.steps:
        stage = _read(Stage(step.text, step.line, _types(step.after)), step.after, samples, seed, epoch)
        last = found[-1]
        if step.kind in _FILTERS and not last.is_batch:
            stage.kept = _kept(last.samples, stage.samples)
        elif _is_one_to_one(step) and len(stage.samples) == len(last.samples) and not stage.errors:
            stage.before = last.samples
        found.append(stage)
        if stage.errors and not stage.samples:
            break
    return found


def _read(stage: Stage, dataset: Dataset, samples: int, seed: int, epoch: int) -> Stage:
    failed: list[SkippedSample] = []
    stage.is_batch = dataset.schema.batch_size is not None
    count = 1 if stage.is_batch else samples
    try:
        stage.samples = first(dataset, count, rows=None, seed=seed, epoch=epoch, seconds=_SECONDS_MAX, failed=failed)
    except ForebayError as error:
        stage.errors.append(str(error))
    stage.errors += [f"{lost.sample}: {lost.error.message}" for lost in failed[:5]]
    return stage


def _types(dataset: Dataset) -> dict[str, str]:
    schema = dataset.schema
    return {name: f"{column}{'?' if name in schema.nullable else ''}" for name, column in schema.items()}


def _is_one_to_one(step: Step) -> bool:
    if step.kind in _OTHER or step.kind in _FILTERS:
        return False
    function = step.function
    # A function that skips samples on purpose moves the others up.
    return function is None or not _names(function, "SkipSample")


def _names(function: Callable[..., Any], name: str) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return isinstance(code, types.CodeType) and _in_code(code, name)


def _in_code(code: types.CodeType, name: str) -> bool:
    return name in code.co_names or any(_in_code(c, name) for c in code.co_consts if isinstance(c, types.CodeType))


def _kept(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[bool]:
    """Returns which samples a filter has kept. It changes no sample, so a kept sample equals one of `before`."""
    kept, place = [], 0
    for sample in before:
        is_kept = place < len(after) and same(sample, after[place])
        place += is_kept
        kept.append(is_kept)
    return kept
