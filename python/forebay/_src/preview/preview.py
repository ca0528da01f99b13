"""`forebay preview`, and the table of a dataset in a notebook."""

from __future__ import annotations

import html
import os
import pathlib
from typing import TYPE_CHECKING

from forebay._src.command_line.terminal import clean
from forebay._src.iteration.first_samples import ROWS_MAX, first
from forebay._src.preview import page, sheet
from forebay._src.preview.stages import stages
from forebay._src.written import Written
from forebay.errors import ForebayError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: The samples in a notebook, the seconds after which the samples are left out, and the most columns.
_SAMPLES, _SECONDS, _COLUMNS = 3, 2.0, 30
#: Ops that may drop all rows.
_DROP = frozenset(("filter_expr", "filter_function", "flat_map", "explode"))


def preview(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    png: str | os.PathLike[str] | None = None,
    samples: int = 8,
    seed: int = 0,
    epoch: int = 0,
) -> None:
    """Runs a script, and writes a page with the first samples after each op of its datasets.

    Args:
        file: The script, or `FILE:NAME` for a dataset, or for the datasets that a function returns.
        out: The page.
        png: A contact sheet of the first dataset.
        samples: How many samples.
        seed: As for `iter`.
        epoch: As for `iter`.

    Raises:
        NotFoundError: There is no such script or dataset.
    """
    from forebay._src.command_line.cli import datasets_of

    found = datasets_of(file, "preview")
    shown = {name: stages(of, samples, seed, epoch) for name, of in found.items()}
    note = f"seed {seed}, epoch {epoch}, the first {samples} samples behind each op"
    pathlib.Path(out).write_text(page.page(os.path.basename(os.fspath(file)), note, shown), encoding="utf-8")
    if png is not None:
        sheet.write(png, next(iter(shown.values())))


def notebook(dataset: Dataset) -> str:
    """Returns the columns of a dataset and its first samples as HTML; only the columns if it takes too long."""
    schema = dataset.schema
    note = ""
    try:
        drops = any(step.kind in _DROP for step in Written.of(dataset).steps)
        is_batch = schema.batch_size is not None
        rows = ROWS_MAX if drops else None
        samples = first(dataset, 1 if is_batch else _SAMPLES, rows=rows, seconds=_SECONDS)
        if not samples:
            note = f"no sample within {_SECONDS:g} s"
    except ForebayError as error:
        samples, note = [], clean(error.message, 300)
    lines = []
    for name, column in list(schema.items())[:_COLUMNS]:
        kind = f"{column}{'?' if name in schema.nullable else ''}"
        of = [sample[name] for sample in samples]
        of = list(of[0][:_SAMPLES]) if of and is_batch else of
        cells = "".join(f"<td>{page.value(one)}</td>" for one in of)
        lines.append(f"<tr><th>{html.escape(clean(name, 80))}</th><td>{html.escape(kind)}</td>{cells}</tr>")
    more = f"<p>and {len(schema) - _COLUMNS} more columns</p>" if len(schema) > _COLUMNS else ""
    head = "Dataset" + (f" in batches of {schema.batch_size}" if schema.batch_size else "")
    return f"<p><b>{head}</b> {html.escape(note)}</p><table>{''.join(lines)}</table>{more}"
