"""The statistics of a dataset, as an object, a table for a terminal, or one for a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from forebay._src.command_line.terminal import cell, table
from forebay._src.schema import Column
from forebay.errors import InvalidPipelineError


@dataclass(frozen=True)
class ColumnStatistics:
    """The figures of a column over the rows that were read.

    Attributes:
        name: Its name.
        column: Its dtype and shape.
        nullable: Whether a value may be missing, by the schema.
        rows: The rows that were read.
        nulls: The rows whose value is missing; in a column of single floats also NaN, because a missing
            float is NaN in a batch.
        nans: The numbers of tensors that are NaN.
        mean: The mean of numbers, over all numbers of tensors; of booleans the share that is true. `None` for texts and
            bytes, and without numbers.
        std: Their standard deviation as of a sample (`n - 1`), as in pandas and polars.
        min: The least number.
        max: The greatest number.
        quantiles: The quantile at each share that was asked for.
        quantile_error: By how much the rank of a quantile may be off, as a share of the numbers: 0.0 up to 1,048,576
            numbers, and for 8-bit ones always; beyond that at most about 0.0002.
        distinct: The number of different texts, bytes, whole numbers or booleans; `None` if there are more than
            100,000, if one is longer than 200, and for floats and tensors.
        top: The most frequent of them with their counts.
        top_error: By how much such a count may be too low: 0 unless there are more than 100,000 different values.
        sizes: The least, mean and greatest number of characters of texts, of bytes, or of numbers in tensors whose
            shapes differ. `None` for other columns.
        channels: Of uint8 images, the mean and the deviation of each channel as shares of 255. `normalize` takes them.
        example: The first value that is not missing.
    """

    name: str
    column: Column
    nullable: bool
    rows: int
    nulls: int
    nans: int
    mean: float | None
    std: float | None
    min: Any
    max: Any
    quantiles: Mapping[float, float]
    quantile_error: float
    distinct: int | None
    top: tuple[tuple[Any, int], ...]
    top_error: int
    sizes: tuple[int, float, int] | None
    channels: tuple[list[float], list[float]] | None
    example: Any
    _values: tuple[Any, ...] | None = field(default=None, repr=False)

    @property
    def count(self) -> int:
        """The rows whose value is not missing."""
        return self.rows - self.nulls

    @property
    def values(self) -> list[Any]:
        """All different values, sorted: the vocabulary of a lookup.

        Raises:
            InvalidPipelineError: Not all values are known.

        >>> import forebay as fb
        >>> names = fb.from_dict({"kind": ["b", "a", "b", None]}).describe()["kind"].values
        >>> names
        ['a', 'b']
        >>> fb.from_dict({"kind": ["b"]}).map(lambda row: {"kind": names.index(row["kind"])}).schema
        Schema(kind: int64)
        """
        if self._values is None:
            hint = "columns of floats and tensors have none, nor those with too many or too long values: see `distinct`"
            raise InvalidPipelineError(f"describe: not all values of column {self.name!r} are known", {"hint": hint})
        return list(self._values)

    @property
    def pixels(self) -> dict[str, list[float]]:
        """The arguments of `normalize` for a column of uint8 images: `ds.normalize("image", **stats["image"].pixels)`.

        Raises:
            InvalidPipelineError: The column has no uint8 images with their channels last.
        """
        if self.channels is None:
            hint = "decode_image makes such images; describe the dataset behind it"
            raise InvalidPipelineError(f"describe: column {self.name!r} has no uint8 images", {"hint": hint})
        mean, std = self.channels
        return {"mean": mean, "std": std}

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as values that JSON can express: bytes, arrays and infinite numbers as text."""
        said = {
            name: _plain(getattr(self, name))
            for name in ("rows", "nulls", "nans", "mean", "std", "quantile_error", "distinct", "top_error")
        }
        channels = None if self.channels is None else {"mean": self.channels[0], "std": self.channels[1]}
        sizes = None if self.sizes is None else dict(zip(("min", "mean", "max"), self.sizes, strict=True))
        shape = list(self.column.shape)
        return {
            "dtype": self.column.dtype,
            "shape": shape,
            "nullable": self.nullable,
            **said,
            "min": _plain(self.min),
            "max": _plain(self.max),
            "quantiles": {f"{share:g}": _plain(value) for share, value in self.quantiles.items()},
            "top": [[_plain(value), count] for value, count in self.top],
            "sizes": sizes,
            "channels": channels,
            "example": _plain(self.example),
        }


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (bool, int, float, type(None))) else cell(value, 200)


class Statistics(Mapping[str, ColumnStatistics]):
    """The figures of each column, by its name; `print` shows a table.

    Attributes:
        rows: The rows that were read.
        complete: Whether these are all rows of the epoch.
        bytes: The bytes of their values in memory.
    """

    def __init__(self, columns: Mapping[str, ColumnStatistics], rows: int, complete: bool, size: int) -> None:
        self._columns = dict(columns)
        self.rows, self.complete, self.bytes = rows, complete, size

    def __getitem__(self, name: str) -> ColumnStatistics:
        """Returns the figures of a column."""
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the columns."""
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of columns."""
        return len(self._columns)

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures as values that JSON can express."""
        columns = {name: column.to_dict() for name, column in self.items()}
        return {"rows": self.rows, "complete": self.complete, "bytes": self.bytes, "columns": columns}

    def _lines(self) -> tuple[list[str], list[list[str]]]:
        shares = next((list(c.quantiles) for c in self.values() if c.quantiles), [])
        quantiles = [f"{100 * share:g} %" for share in shares]
        head = ["column", "type", "nulls", "mean", "std", "min", *quantiles, "max", "distinct", "values"]
        rows = []
        for name, of in self.items():
            at = [_number(of.quantiles.get(share)) for share in shares]
            figures = [_number(of.mean), _number(of.std), _number(of.min), *at, _number(of.max)]
            distinct = "" if of.distinct is None else str(of.distinct)
            kind = f"{of.column}{'?' if of.nullable else ''}"
            rows.append([cell(name, 40), kind, str(of.nulls), *figures, distinct, _values(of)])
        return head, rows

    def __str__(self) -> str:
        """A line for each column."""
        head, rows = self._lines()
        read = "all" if self.complete else "the first"
        return "\n".join([f"{read} {self.rows} rows", *table(head, rows)])

    def __repr__(self) -> str:
        """The same table."""
        return str(self)

    def _repr_html_(self) -> str:
        """The same as HTML, for notebooks."""
        head, rows = self._lines()
        top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        lines = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
        read = "All" if self.complete else "The first"
        return f"<p>{read} {self.rows} rows</p><table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"


def _number(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _values(of: ColumnStatistics) -> str:
    """Returns the frequent values, or sizes, or else an example."""
    parts = []
    if of.sizes is not None:
        least, mean, most = of.sizes
        unit = {"string": "characters", "bytes": "bytes"}.get(of.column.dtype, "numbers")
        alike = least == most
        parts.append(f"{least} {unit} each" if alike else f"{least} to {most} {unit}, {mean:.4g} on average")
    if of.top and of.top[0][1] > 1:
        parts.append(", ".join(f"{cell(value, 20)} ({count})" for value, count in of.top[:3]))
    elif of.example is not None:
        parts.append(f"such as {cell(of.example, 40)}")
    return "; ".join(parts)
