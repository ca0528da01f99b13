"""How well a pipeline shuffles: how far rows move, which rows share a batch, and how long runs of a label are.

It reads the source twice, unshuffled and shuffled, and identifies a row by one column or by a hash of all columns. It
leaves out the ops that compute rows, so nothing is decoded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from forebay import _native
from forebay._src import arguments
from forebay.errors import InvalidPipelineError, NotFoundError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: The column that identifies a row, by kind of source.
_NAMES = {"tar": "__key__", "files": "path", "image_folder": "path", "range": "id"}
#: Ops with an unknown number of output rows; `take` and the like behind them are left out here.
_UNKNOWN = ("filter_expr", "filter_function", "flat_map", "explode", "pack")
_PLACES = ("take", "skip", "shard")
#: The rows of a read, and the number of parts into which the input is divided.
_ROWS, _PARTS = 4096, 100
#: The largest accepted share of rows with the same hash as another row.
_ALIKE = 0.02


@dataclass(frozen=True)
class ShuffleQuality:
    """The figures of a shuffled epoch, each beside that of a perfect shuffle.

    Attributes:
        rows: The rows of the input.
        seen: The rows that were read of the shuffled epoch.
        batch: Rows of a batch.
        distance: The mean distance of a row from its place in the input, as a share of the epoch.
        distance_by_chance: The same for a perfect shuffle: a third, if the whole epoch was read.
        pairs: How often two rows of a batch come from the same hundredth of the input, as a multiple of chance. It is 1
            for a perfect shuffle, and 100 if each batch is one piece of the input.
        label: The column of labels whose runs are counted.
        run: The mean length of a run of rows with the same label.
        run_by_chance: The same for a perfect shuffle.
        run_longest: The longest such run.
        run_longest_by_chance: The same for one perfect shuffle.
    """

    rows: int
    seen: int
    batch: int
    distance: float
    distance_by_chance: float
    pairs: float
    label: str | None = None
    run: float | None = None
    run_by_chance: float | None = None
    run_longest: int | None = None
    run_longest_by_chance: int | None = None

    def __str__(self) -> str:
        """A line for each figure."""
        lines = [
            f"{self.seen} of {self.rows} rows, in batches of {self.batch}",
            f"  rows move by {self.distance:.3f} of the epoch; a perfect shuffle: {self.distance_by_chance:.3f}",
            f"  pairs of a batch from the same hundredth of the input: {self.pairs:.2f} times as many as by chance",
        ]
        if self.label is not None:
            lines += [
                f"  runs of one {self.label!r}: {self.run:.2f} rows on average; by chance: {self.run_by_chance:.2f}",
                f"  the longest: {self.run_longest} rows; by chance: {self.run_longest_by_chance}",
            ]
        return "\n".join(lines)


def measure(
    dataset: Dataset, seed: int, epoch: int, batch: int | None, batches: int | None, label: str | None, id: str | None
) -> ShuffleQuality:
    """Reads the input in its own order and in the shuffled one, and compares."""
    graph = json.loads(dataset._pipeline.to_json())
    size = batch or dataset._pipeline.batch_size or 64
    as_it_lies, shuffled = _without_rows(graph, dataset.explain())
    blobs = [blob for _, blob in sorted(dataset._pipeline.blobs())]
    columns = _columns(type(dataset)(_pipeline({**graph, "nodes": []}, blobs)), graph, label, id)
    place, labels = _read(type(dataset)(_pipeline(as_it_lies, blobs)), columns, label, seed, epoch, None)
    most = None if batches is None else batches * size
    order, _ = _read(type(dataset)(_pipeline(shuffled, blobs)), columns, None, seed, epoch, most)
    rows, seen = len(place), len(order)
    if not seen:
        raise InvalidPipelineError("shuffle_quality: an epoch of this dataset has no rows")
    positions = _positions(place, order, columns)
    there = np.arange(seen) / rows
    found = ShuffleQuality(
        rows=rows,
        seen=seen,
        batch=size,
        distance=float(np.abs(positions / rows - there).mean()),
        distance_by_chance=float(((there**2 + (1 - there) ** 2) / 2).mean()),
        pairs=_pairs(positions, rows, size),
    )
    if labels is None:
        return found
    by_chance = np.random.default_rng(seed).permutation(labels)[:seen]
    (run, longest), (run_chance, longest_chance) = _runs(labels[positions]), _runs(by_chance)
    return ShuffleQuality(
        **{
            **asdict(found),
            "label": label,
            "run": run,
            "run_by_chance": run_chance,
            "run_longest": longest,
            "run_longest_by_chance": longest_chance,
        }
    )


def quality_file(file: str | os.PathLike[str], as_json: bool, **options: Any) -> str:
    """Measures all datasets at the top level of a script, and returns the text to print."""
    from forebay._src.command_line.cli import datasets_of

    found = datasets_of(file, "shuffle_quality")
    measured = {name: dataset.shuffle_quality(**options) for name, dataset in found.items()}
    if as_json:
        return json.dumps({name: asdict(quality) for name, quality in measured.items()}, indent=2)
    return "\n".join(f"{name}: {quality}" for name, quality in measured.items())


def _pipeline(graph: dict[str, Any], blobs: list[bytes]) -> _native.Pipeline:
    return _native.Pipeline.from_json(json.dumps(graph), blobs)


def _without_rows(graph: dict[str, Any], explained: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns two graphs with only the ops on order, without the shuffles and with them."""
    nodes, known = [], True
    for node in graph["nodes"]:
        op = node["op"]["op"]
        known = known and op not in _UNKNOWN
        if op == "shuffle" or (op in _PLACES and known):
            nodes.append(node)
    shuffles = [place for place, node in enumerate(nodes) if node["op"]["op"] == "shuffle"]
    # An op behind a shuffle selects shuffled rows; places count all rows of the input.
    before = [node for place, node in enumerate(nodes) if place < (shuffles or [len(nodes)])[0]]
    if shuffles:
        # The rows in a window of a size depend on the columns that are read, so use the window of the whole pipeline.
        nodes[shuffles[0]] = {**nodes[shuffles[0]], "op": {"op": "shuffle", "window": _window(explained)}}
    kept: dict[str, Any] = {name: graph[name] for name in ("version", "source") if name in graph}
    return {**kept, "nodes": before}, {**kept, "nodes": nodes}


def _window(explained: str) -> str | dict[str, int]:
    if rows := re.search(r"shuffled over windows of (\d+) rows", explained):
        return {"rows": int(rows[1])}
    if size := re.search(r"shuffled over windows of about (\d+) bytes", explained):
        return {"bytes": int(size[1])}
    return "global"


def _columns(source: Dataset, graph: dict[str, Any], label: str | None, id: str | None) -> list[str]:
    """Returns the columns of the source that identify its rows."""
    names = list(source.schema)
    for what, name in (("id", id), ("label", label)):
        if name is not None and name not in names:
            message = f"shuffle_quality: {what}={name!r} is no column of the source"
            raise NotFoundError(message, {"hint": f"it has {', '.join(names)}"})
    if id is not None:
        return [id]
    by_kind = _NAMES.get(graph["source"]["source"])
    if by_kind is not None:
        return [by_kind]
    whole = [name for name, column in source.schema.items() if None not in column.shape]
    if not whole:
        raise InvalidPipelineError(
            "shuffle_quality: no column tells rows apart", {"hint": "say which one does, with id= or --id"}
        )
    return whole


def _read(
    dataset: Dataset, columns: list[str], label: str | None, seed: int, epoch: int, most: int | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns a number for each row, the same for the same values, and labels as numbers."""
    wanted = list(dict.fromkeys([*columns, *([label] if label is not None else [])]))
    parts: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    rows = 0
    with dataset.select(wanted).batch(_ROWS).iter(seed=seed, epoch=epoch, consumers=(0, 1)) as batches:
        for batch in batches:
            parts.append(_hashes(batch[name] for name in columns))
            if label is not None:
                labels.append(_hashes([batch[label]]))
            rows += len(parts[-1])
            if most is not None and rows >= most:
                break
    found = np.concatenate([*parts, np.zeros(0, np.uint64)])[:most]
    return found, np.concatenate([*labels, np.zeros(0, np.uint64)]) if label is not None else None


def _hashes(columns: Iterator[Any] | list[Any]) -> np.ndarray:
    """Hashes rows, for this process alone, because Python hashes texts differently in each process."""
    total: np.ndarray | None = None
    for column in columns:
        words = _words(column)
        total = np.zeros(len(words), np.uint64) if total is None else total
        for word in words.T:
            total = (total ^ word) * np.uint64(0x9E3779B97F4A7C15)
            total ^= total >> np.uint64(29)
    assert total is not None
    return total


def _words(column: Any) -> np.ndarray:
    """Returns rows as rows of 64 bits."""
    if isinstance(column, np.ma.MaskedArray):
        there = np.ma.getmaskarray(column).reshape(len(column), -1)
        return np.hstack([_words(column.filled()), _words(there)])
    values = np.asarray(column)
    if values.dtype.kind in "OSU":
        return np.fromiter((hash(value) for value in values), np.int64, len(values)).view(np.uint64)[:, None]
    rows = np.ascontiguousarray(values).reshape(len(values), -1).view(np.uint8)
    padded = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(np.uint64)


def _positions(place: np.ndarray, order: np.ndarray, columns: list[str]) -> np.ndarray:
    """Returns the place in the input of each row of the shuffled epoch."""
    sort = np.argsort(place, kind="stable")
    known = place[sort]
    alike = 1 - len(np.unique(known)) / max(1, len(known))
    if alike > _ALIKE:
        told = ", ".join(columns[:5]) + (", …" if len(columns) > 5 else "")
        raise InvalidPipelineError(
            f"shuffle_quality: {alike:.0%} of the rows are like another one in {told}",
            {"hint": "say which column tells rows apart, with id= or --id"},
        )
    at = np.searchsorted(known, order)
    # Rows with the same hash are matched in turn.
    again = np.argsort(at, kind="stable")
    first = np.searchsorted(at[again], at[again])
    at[again] += np.arange(len(at)) - first
    at = np.minimum(at, len(known) - 1)
    if not (known[at] == order).all():
        raise InvalidPipelineError("shuffle_quality: the source gives other rows each time that it is read")
    positions: np.ndarray = sort[at]
    return positions


def _pairs(positions: np.ndarray, rows: int, size: int) -> float:
    """Returns how often two rows of a batch are from one part of the input, as a multiple of chance."""
    parts = positions * min(_PARTS, rows) // rows
    chance = (rows / min(_PARTS, rows) - 1) / max(1, rows - 1)
    same = pairs = 0
    for start in range(0, len(parts), size):
        counts = np.bincount(parts[start : start + size])
        same += int((counts * (counts - 1)).sum())
        pairs += int(counts.sum() * (counts.sum() - 1))
    return same / pairs / chance if pairs and chance else 1.0


def _runs(labels: np.ndarray) -> tuple[float, int]:
    """Returns the mean and the longest run of one label."""
    ends = np.flatnonzero(np.concatenate([labels[1:] != labels[:-1], [True]]))
    lengths = np.diff(np.concatenate([[-1], ends]))
    return float(lengths.mean()), int(lengths.max())


def options(seed: Any, epoch: Any, batch: Any, batches: Any, label: Any, id: Any) -> dict[str, Any]:
    """Checks the caller's options."""
    what = "shuffle_quality"
    return {
        "seed": arguments.seed(seed, what),
        "epoch": arguments.whole(epoch, what, "epoch", 0),
        "batch": None if batch is None else arguments.whole(batch, what, "batch", 1),
        "batches": None if batches is None else arguments.whole(batches, what, "batches", 1),
        "label": None if label is None else arguments.text(label, what, "label"),
        "id": None if id is None else arguments.text(id, what, "id"),
    }
