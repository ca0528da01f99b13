"""Data sets of Hugging Face."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from forebay._src import arguments
from forebay._src.dataset import Dataset
from forebay._src.sources import file_sources, hf_files
from forebay._src.sources.table_sources import of_table
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

#: The most bytes of a data set in memory. They travel with the pipeline.
_MEMORY_MAX = 2**30


@explained()
def from_hf(dataset: Any, *, columns: Iterable[str] | None = None) -> Dataset:
    """A `datasets.Dataset` of Hugging Face, from `load_dataset(name, split="train")` or `load_from_disk`.

    Its Arrow files are read as `from_arrow` reads them, on all machines at the same paths, and nothing is copied. The
    rows that `select`, `shuffle`, `filter` or `train_test_split` chose come in their order. A data set in memory (from
    `from_dict`, `from_pandas`) travels with the pipeline instead, up to 1 GiB.

    Types are those of `from_arrow`. `Image` and `Audio` become their encoded bytes, for `decode_image` or `map`. Class
    labels are int64. Only columns in which a value is missing may have missing values.

    Args:
        dataset: The data set.
        columns: The columns to read. Default: those of its format (`with_format(columns=)`), or all.

    Raises:
        InvalidPipelineError: It is a dictionary of splits, a stream, or has a transform; or images are in files of
            their own; or columns were added or cast in memory to more than 1 GiB.
        NotFoundError: There is no such column.

    >>> import forebay as fb, datasets, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     datasets.Dataset.from_dict({"x": [1, 2, 3]}).save_to_disk(folder)
    ...     ds = fb.from_hf(datasets.load_from_disk(folder).select([2, 0]))
    ...     ds.schema, [int(row["x"]) for row in ds]
    (Schema(x: int64), [3, 1])
    """
    op = "from_hf"
    hf_files.check(dataset, op)
    names = arguments.columns(columns, op, "columns")
    if names is None:
        names = list(dataset._format_columns or dataset.column_names)
    for name in names:
        arguments.known_column(op, name, dataset.column_names)
    if not names:
        raise InvalidPipelineError(f"{op}: the data set has no columns")
    found = hf_files.found(dataset, names)
    if found is None:
        ds = _in_memory(dataset, op, names)
    else:
        ds = file_sources.from_arrow(found.paths, columns=found.columns, nullable=found.nullable, partitioning=None)
        if found.renamed:
            ds = ds.rename(found.renamed)
        if isinstance(found.rows, slice):
            ds = ds.skip(found.rows.start).take(found.rows.stop - found.rows.start)
        elif found.rows is not None:
            ds = ds.select_rows(found.rows)
    return _media(ds, hf_files.media(dataset, names))


def _in_memory(dataset: Any, op: str, names: list[str]) -> Dataset:
    # Of a table in memory, `nbytes` counts all rows, so the chosen rows are copied.
    if dataset.data.nbytes * len(dataset) > _MEMORY_MAX * max(dataset.data.num_rows, 1):
        hint = "dataset.save_to_disk(path), and from_hf(datasets.load_from_disk(path)), which reads the files"
        what = f"{op}: columns of this data set were made in memory, and have more than {_MEMORY_MAX >> 20} MiB"
        raise InvalidPipelineError(what, {"hint": hint})
    plain = dataset.with_format("arrow", columns=names)
    return of_table(plain[:], op, names)


def _media(ds: Dataset, names: list[str]) -> Dataset:
    """Keeps only the bytes of each image or sound."""
    for name in names:
        ds = ds.drop(f"{name}.path").rename({f"{name}.bytes": name})
    return ds
