"""A dataset as it was written: its ops one by one, each with its line, and the dataset up to each of them."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forebay import _native
from forebay._src.schema import Schema

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: A line of `explain()` that names an op; its place in the script follows the last `#`.
_STEP = re.compile(r"^  \.(.*?)(?:    # .*)?$")


@dataclass(frozen=True)
class Step:
    """One op as written.

    Attributes:
        number: Its place among the ops, from 0.
        op: The op as the engine knows it.
        text: The op in words, as `explain` has it.
        file: The file that added it; `None` if it is not known.
        line: The line in that file.
        before: The dataset before it.
        after: The dataset after it.
    """

    number: int
    op: dict[str, Any]
    text: str
    file: str | None
    line: int
    before: Dataset
    after: Dataset

    @property
    def kind(self) -> str:
        """The engine's name of the op."""
        return str(self.op["op"])

    @property
    def function(self) -> Callable[..., Any] | None:
        """The user's function; `None` if the op has none."""
        described = self.op.get("function")
        if described is None:
            return None
        blobs = dict(self.after._pipeline.op_blobs())
        found: Callable[..., Any] = pickle.loads(blobs[described["blob"]])
        return found

    def changes(self) -> tuple[list[str], list[str], list[str]]:
        """Returns the columns that the op adds, changes in type, and removes."""
        was, now = _columns(self.before.schema), _columns(self.after.schema)
        added = [name for name in now if name not in was]
        changed = [name for name in now if name in was and was[name] != now[name]]
        return added, changed, [name for name in was if name not in now]


def _columns(schema: Schema) -> dict[str, tuple[Any, bool]]:
    return {name: (column, name in schema.nullable) for name, column in schema.items()}


def beginning(dataset: Dataset, rows: int) -> Dataset:
    """Returns the same dataset over the first rows of its source, so that a filter that drops all of them ends.

    >>> import forebay as fb
    >>> len(list(beginning(fb.range(10**12).filter(fb.col("id") % 5 == 0), 100)))
    20
    """
    graph = json.loads(dataset._pipeline.to_json())
    blobs = [blob for _, blob in sorted(dataset._pipeline.blobs())]
    graph["nodes"].insert(0, {"op": {"op": "take", "count": rows}})
    return type(dataset)(_native.Pipeline.from_json(json.dumps(graph), blobs))


@dataclass(frozen=True)
class Written:
    """A dataset as it was written.

    Attributes:
        source: The dataset without ops.
        kind: The kind of the source.
        steps: The ops, in order.
        parts: The datasets that a combined source consists of, by their names; none for other sources.
    """

    source: Dataset
    kind: str
    steps: list[Step]
    parts: dict[str, Dataset]

    @classmethod
    def of(cls, dataset: Dataset) -> Written:
        """Takes a dataset apart.

        >>> import forebay as fb
        >>> [step.text for step in Written.of(fb.range(9).shuffle().batch(2)).steps]
        ['shuffle()', 'batch(2)']
        """
        graph = json.loads(dataset._pipeline.to_json())
        blobs = [blob for _, blob in sorted(dataset._pipeline.blobs())]

        def made(of: dict[str, Any]) -> Dataset:
            return type(dataset)(_native.Pipeline.from_json(json.dumps(of), blobs))

        nodes = graph["nodes"]
        kept = {name: graph[name] for name in ("version", "source", "site") if name in graph}
        stages = [made({**kept, "nodes": nodes[:count]}) for count in range(len(nodes) + 1)]
        said = [match[1] for line in dataset.explain(splits=False).splitlines() if (match := _STEP.match(line))]
        texts = said if len(said) == len(nodes) else [node["op"]["op"] for node in nodes]
        steps = []
        for number, node in enumerate(nodes):
            at = node.get("site") or {}
            place = (at.get("file"), at.get("line", 0))
            steps.append(Step(number, node["op"], texts[number], *place, stages[number], stages[number + 1]))
        parts = {
            str(part.get("name", number)): made(part["graph"])
            for number, part in enumerate(graph["source"].get("parts", []))
        }
        return cls(stages[0], str(graph["source"]["source"]), steps, parts)
