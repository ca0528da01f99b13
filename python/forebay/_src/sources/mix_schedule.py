"""Weights of a mix that change while it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forebay._src import arguments
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

#: The weights of datasets: by name, or in the order of a list.
Weights: TypeAlias = Mapping[str, float] | Sequence[float]

_USAGE = 'schedule({0: {"web": 0.7, "code": 0.3}, 100_000: {"web": 0.5, "code": 0.5}})'


@dataclass(frozen=True)
class Schedule:
    """Weights of a mix that change with its rows; `fb.schedule` makes it."""

    points: tuple[tuple[int, Weights], ...]
    """The rows from which weights hold, rising from 0, and these weights."""
    between: str
    """What holds between two rows: `"steps"` or `"linear"`."""


@explained(_USAGE)
def schedule(
    points: Mapping[int, Weights],
    *,
    by: Literal["rows"] = "rows",
    between: Literal["steps", "linear"] = "steps",
) -> Schedule:
    """Weights of a mix that change during training: `fb.mix(datasets, weights=fb.schedule({...}))`.

    The weights of a row are a function of its place in the epoch alone, so a run resumes with the weights that it had,
    on any number of ranks. In each window of 1,024 samples, a dataset has its share, rounded up or down. (A window ends
    early where weights are set at a row that is no multiple of 1,024.) Each epoch begins the schedule again: give `mix`
    the length of the whole training as `rows=`.

    Args:
        points: Weights by the row from which they hold. The first row is 0; the last weights hold to the end. Each
            names all datasets, or is a list in their order. A weight of 0 gives no row.
        by: What the numbers count: samples of the mix in an epoch. A number of batches times the size of a batch is a
            number of samples.
        between: What holds between two rows: `"steps"`, the weights of the row before; `"linear"`, shares that change
            in a line from one row to the next. A line of more than 2^20 samples has 1,024 steps.

    Raises:
        InvalidPipelineError: The rows do not begin with 0, or `mix` finds weights that it cannot take.

    >>> import forebay as fb
    >>> easy, hard = fb.range(0, 1000).shuffle(), fb.range(1000, 2000).shuffle()
    >>> weights = fb.schedule({0: {"easy": 1, "hard": 0}, 100: {"easy": 1, "hard": 3}})
    >>> ds = fb.mix({"easy": easy, "hard": hard}, weights=weights, rows=300, source="source")
    >>> hards = [row["source"] == "hard" for row in ds]
    >>> sum(hards[:100]), sum(hards[100:])
    (0, 150)
    """
    if by != "rows":
        message = f"schedule: by={arguments.shown(by)}; rows are what a schedule counts"
        raise InvalidPipelineError(message, {"hint": "multiply numbers of batches by the size of a batch"})
    if not isinstance(points, Mapping) or not points:
        message = f"schedule: points is a dictionary of weights by row, not {arguments.shown(points)}"
        raise InvalidPipelineError(message, {"hint": f"write {_USAGE}"})
    rows = [(arguments.whole(row, "schedule", "row", 0), weights) for row, weights in points.items()]
    rising = sorted(rows, key=lambda point: point[0])
    if rising[0][0] != 0:
        message = f"schedule: the first weights are set at row {rising[0][0]}"
        raise InvalidPipelineError(message, {"hint": "say with row 0 what holds before"})
    return Schedule(tuple(rising), arguments.choice(between, "schedule", "between", "steps", "linear"))
