"""`forebay lint`: runs a script, checks the datasets at its top level, and reports findings."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from forebay._src.functions.tolerance import SkippedSample
from forebay._src.iteration.first_samples import first
from forebay._src.lint import columns, functions, measured, parts, shapes
from forebay._src.lint.discarded import discarded
from forebay._src.lint.finding import Finding, Level
from forebay._src.written import Step, Written
from forebay.errors import ClosedError, DataError, ForebayError, FunctionError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: Errors that the data or a function cause, and not the machine.
_OF_SAMPLES = (DataError, FunctionError)


@dataclass
class Report:
    """The findings.

    Attributes:
        file: The script.
        findings: The findings, in the order of datasets and lines.
        datasets: The text for each dataset: its ops with their columns, and its cost.
        costs: The cost of each dataset; `None` where it was not measured.
    """

    file: str
    findings: list[Finding] = field(default_factory=list)
    datasets: dict[str, list[str]] = field(default_factory=dict)
    costs: dict[str, measured.Measured | None] = field(default_factory=dict)

    def __str__(self) -> str:
        """The text that the command prints."""
        parts = ["\n".join([f"{name}:", *lines]) for name, lines in self.datasets.items()]
        parts += [str(finding) for finding in self.findings]
        levels: tuple[Level, ...] = ("error", "warning", "hint")
        counts = [(sum(f.level == level for f in self.findings), level) for level in levels]
        said = ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for count, level in counts if count)
        return "\n\n".join([*parts, said or "no findings"])

    def to_json(self) -> str:
        """The same as JSON."""
        costs = {name: None if cost is None else cost.to_dict() for name, cost in self.costs.items()}
        findings = [finding.to_dict() for finding in self.findings]
        return json.dumps({"file": self.file, "datasets": costs, "findings": findings}, indent=2)

    def code(self, strict: bool) -> int:
        """Returns the exit code: 1 with an error; if `strict`, also with a warning."""
        levels = {finding.level for finding in self.findings}
        return int("error" in levels or (strict and "warning" in levels))


def lint(file: str | os.PathLike[str], run: bool = True) -> Report:
    """Runs a script and checks its datasets.

    Args:
        file: The script.
        run: Whether to compute samples: without them, functions are not called and nothing is measured.

    Raises:
        NotFoundError: There is no such script, or it defines no dataset.
    """
    from forebay._src.command_line.cli import datasets_of, script_and_name

    report = Report(os.fspath(file))
    try:
        found = datasets_of(file, "lint")
    except ForebayError as error:
        if "line" not in error.context:
            raise
        report.findings.append(_of_script(error))
        return report
    seen: dict[str, str] = {}
    for name, dataset in found.items():
        if (other := seen.setdefault(dataset.dataset_id, name)) != name:
            report.datasets[name] = [f"  the same as {other}"]
            continue
        _look(report, name, dataset, run)
    report.findings += discarded(script_and_name(os.fspath(file))[0], found)
    # A dataset that another dataset continues has the same findings. They are reported once.
    known = {_identity(f): f for f in reversed(report.findings)}
    report.findings = sorted(known.values(), key=lambda f: (f.file or "", f.line, f.rule))
    return report


def _identity(finding: Finding) -> tuple[str | int | None, ...]:
    """Returns what makes a finding one of its own. An op that fails fails for other samples in another order."""
    message = finding.message.partition(":")[0] if finding.rule == "sample-fails" else finding.message
    return finding.rule, finding.file, finding.line, message


def _look(report: Report, name: str, dataset: Dataset, run: bool) -> None:
    written = Written.of(dataset)
    for part, of in written.parts.items():
        _look(report, f"{name}[{part}]", of, run)
    report.datasets[name] = measured.columns(written)
    report.findings += findings(name, written, run)
    report.costs[name] = None
    if run and not any(f.level == "error" and f.dataset == name for f in report.findings):
        try:
            cost = measured.measure(dataset, written)
        except ClosedError:
            seconds = f"{measured.FIRST_SECONDS:g} s"
            report.datasets[name].append(f"  not measured: there was no batch for {seconds}")
            return
        except ForebayError as error:
            report.findings.append(_of_error(error, name, written.steps))
            return
        report.costs[name] = cost
        report.datasets[name] += cost.lines() if cost is not None else ["  not measured: there are no samples"]


def findings(name: str, written: Written, run: bool = True) -> list[Finding]:
    """Returns the findings on one dataset, except those on its cost.

    >>> import forebay as fb
    >>> ds = fb.range(9).with_column("x", fb.col("id") * 2).with_column("x", fb.col("id") + 1)
    >>> [(found.rule, found.write) for found in findings("ds", Written.of(ds))]
    [('unused-column', 'leave with_column(x, (id * 2)) out')]
    """
    found = [*columns.unused(written, name), *parts.by_place(written, name), *shapes.distorted(written, name)]
    return found + list(_of_functions(name, written)) if run else found


def _of_functions(name: str, written: Written) -> Iterator[Finding]:
    """Runs functions, and yields the findings up to the first op that fails."""
    for step in written.steps:
        if "function" not in step.op:
            continue
        failed: list[SkippedSample] = []
        try:
            samples = first(step.before)
            first(step.after, failed=failed)
        except ForebayError as error:
            yield _of_error(error, name, written.steps)
            return
        found = [_of_error(sample.error, name, written.steps) for sample in failed]
        yield from {_identity(finding): finding for finding in reversed(found)}.values()
        unsteady = list(functions.deterministic(step, samples, name))
        # The user has to rewrite the function anyway, so it needs no hint.
        faster = [] if unsteady or failed else list(functions.as_expressions(step, samples, name))
        hints = [] if unsteady or failed else faster or list(functions.reads_all(step, written, name))
        yield from [*unsteady, *hints]


def _of_error(error: ForebayError, name: str, steps: list[Step]) -> Finding:
    """Returns a finding about an error of a dataset that runs."""
    file, _, line = error.context.get("line", "").rpartition(":")
    at = (file or None, int(line) if line.isdigit() else 0)
    if at[0] is None and steps:
        at = (steps[0].file, steps[0].line)
    sample = f" ({error.context['sample']})" if "sample" in error.context else ""
    rule, level = "fails", "error"
    if "returned the wrong structure" in error.message:
        rule = "other-dtype"
    elif isinstance(error, _OF_SAMPLES):
        # The script may iterate with on_error="skip".
        rule, level = "sample-fails", "warning"
    hint = error.hint or "iter() raises this error; iter(on_error='skip') leaves such samples out"
    return Finding(rule, cast("Level", level), *at, name, f"{error.message}{sample}", hint)


def _of_script(error: ForebayError) -> Finding:
    """Returns a finding about an op that the script could not add."""
    file, _, line = error.context["line"].rpartition(":")
    rule = "shuffle-behind-batch" if error.message.startswith("shuffle comes after batch") else "invalid-pipeline"
    of_function = isinstance(error, FunctionError)
    hint = error.hint or (
        "run the script for the traceback" if of_function else "see help() of the op for its arguments"
    )
    return Finding(rule, "error", file or None, int(line) if line.isdigit() else 0, "", error.message, hint)


def command(file: str, strict: bool, as_json: bool, run: bool) -> int:
    """Prints a report, and returns the exit code."""
    # A sample that fails becomes a finding, and not a line of the log.
    logging.getLogger("forebay").setLevel(logging.ERROR)
    report = lint(file, run)
    print(report.to_json() if as_json else report)
    return report.code(strict)
