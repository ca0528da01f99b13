"""A finding: the rule, the line of the user's file, one sentence, and what to write."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from forebay._src.command_line.terminal import clean
from forebay._src.written import Step

Level = Literal["error", "warning", "hint"]

#: The most characters of a part of a finding.
_LONG = 400


@dataclass(frozen=True)
class Finding:
    """A finding.

    Attributes:
        rule: Its name.
        level: `"error"`: the pipeline fails; `"warning"`: it yields what the user does not expect, or computes for
            nothing; `"hint"`: it could be faster.
        file: The file of the op; `None` if it is not known.
        line: The line.
        dataset: The name of the dataset in the script.
        message: One sentence.
        write: What to write.
    """

    rule: str
    level: Level
    file: str | None
    line: int
    dataset: str
    message: str
    write: str

    @classmethod
    def at(cls, step: Step, dataset: str, rule: str, level: Level, message: str, write: str) -> Finding:
        """Returns a finding about an op."""
        return cls(rule, level, step.file, step.line, dataset, message, write)

    def __str__(self) -> str:
        """Two lines for a terminal."""
        head = f"{self.file or '?'}:{self.line}: {self.level} [{self.rule}] {self.message}"
        return f"{clean(head, _LONG)}\n    {clean(self.write, _LONG)}"

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return asdict(self)
