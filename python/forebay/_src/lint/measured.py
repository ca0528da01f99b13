"""The cost of a dataset on this machine: its first batch, its rate, the size of a sample, and the time of each op."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forebay._src.command_line.terminal import clean, size, table
from forebay._src.iteration.first_samples import bytes_of, ended
from forebay._src.written import Written, beginning

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset
    from forebay._src.schema import Schema

#: The seconds for which the rate is measured.
SECONDS = 1.0
#: The seconds after which the measurement is given up.
FIRST_SECONDS = 30.0
#: Ops that may drop all rows, and the most rows of the source that are read if there is such an op.
_DROP, ROWS_MAX = frozenset(("filter_expr", "filter_function", "flat_map", "explode", "pack")), 1 << 20


@dataclass(frozen=True)
class Measured:
    """The cost of a dataset on this machine.

    Attributes:
        first_s: Seconds until the first batch (or sample).
        first_bytes: The bytes of its values.
        samples: The samples that were computed.
        samples_per_s: Samples per second; `None` if there were too few samples.
        sample_bytes: The bytes of a sample.
        ops: The ops that ran, in order: the name, the line, and the microseconds of a thread for each sample.
        complete: Whether the epoch ended during the measurement.
    """

    first_s: float
    first_bytes: int
    samples: int
    samples_per_s: float | None
    sample_bytes: float
    ops: list[tuple[str, str | None, float]]
    complete: bool

    def lines(self) -> list[str]:
        """Returns the text for a terminal."""
        rate = "" if self.samples_per_s is None else f"about {self.samples_per_s:,.0f} samples/s, "
        first = f"the first batch after {self.first_s:.2f} s"
        over = f"{'all' if self.complete else 'the first'} {self.samples} samples on {os.cpu_count() or 1} cores"
        said = f"  {rate}{first}, {size(self.sample_bytes)} a sample (over {over})"
        costs = [["", clean(op, 60), f"{us:,.1f} µs a sample"] for op, _, us in self.ops if us > 0]
        return [said, *table(["", "", ""], costs)[1:]]

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        ops = [{"op": op, "line": line, "us": us} for op, line, us in self.ops]
        names = ("first_s", "first_bytes", "samples", "samples_per_s", "sample_bytes", "complete")
        return {**{name: getattr(self, name) for name in names}, "ops": ops}


def measure(dataset: Dataset, written: Written) -> Measured | None:
    """Iterates for a second, and returns the cost; `None` if there are no samples."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = beginning(dataset, ROWS_MAX) if any(step.kind in _DROP for step in written.steps) else dataset
        batches = dataset.iter(epoch=0, consumers=(0, 1), on_error="skip", error_budget=1.0)
        with ended(batches, FIRST_SECONDS):
            first = next(batches, None)
            if first is None:
                return None
            began = time.perf_counter()
            samples = later = _rows(first, dataset)
            size = bytes_of(first)
            complete = False
            while time.perf_counter() - began < SECONDS:
                batch = next(batches, None)
                if batch is None:
                    complete = True
                    break
                samples += _rows(batch, dataset)
                size += bytes_of(batch)
            end = time.perf_counter()
            stats = batches.stats()
    later = samples - later
    rate = later / (end - began) if later and end - began > 0.01 else None
    ops = [
        (op["op"], op["line"], 1e6 * op["seconds"] / op["rows_in"]) for op in stats.get("ops", ()) if op["rows_in"] > 0
    ]
    return Measured(began - start, bytes_of(first), samples, rate, size / max(samples, 1), ops, complete)


def _rows(batch: dict[str, Any], dataset: Dataset) -> int:
    if dataset.schema.batch_size is None:
        return 1
    return len(next(iter(batch.values()))) if batch else 0


def columns(written: Written) -> list[str]:
    """Returns a table of the columns of each op."""

    def typed(schema: Schema, name: str) -> str:
        return f"{name}: {schema[name]}{'?' if name in schema.nullable else ''}"

    source = ", ".join(typed(written.source.schema, name) for name in written.source.schema)
    rows = [["", clean(written.kind, 60), clean(source, 80)]]
    for step in written.steps:
        added, changed, removed = step.changes()
        schema = step.after.schema
        said = [f"+{typed(schema, name)}" for name in added]
        said += [typed(schema, name) for name in changed] + [f"-{name}" for name in removed]
        rows.append([str(step.line or ""), clean(step.text, 60), clean(", ".join(said), 80)])
    return table(["line", "op", "columns"], rows)
