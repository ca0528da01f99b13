"""Ops that read a table or a column when they are written: joins, samples in the order of a column, unique samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from forebay._src import arguments
from forebay._src.expr.expr import Expr, col
from forebay._src.sources.combining import CombineOps
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset
    from forebay._src.iteration.iterator import DatasetIterator

#: The most rows of a table that is joined, or of a dataset that is sorted.
ROWS_MAX = 2**20
#: The most bytes of the values of a table that is joined: they travel with the pipeline.
JOIN_BYTES_MAX = 64 << 20
_BATCH = 4096


class JoinOps(CombineOps):
    """Ops that read a whole table when they are written."""

    __slots__ = ()

    @explained(
        "ds.join(users, on='user_id')",
        left_on="rename one of the keys, so that both have one name, and write on=",
        right_on="rename one of the keys, so that both have one name, and write on=",
        suffix="rename a column that both have",
        validate="leave it out: keys of the table are always checked",
    )
    def join(
        self,
        table: Dataset | Mapping[str, Any] | Any,
        on: str,
        *,
        how: Literal["left", "inner"] = "left",
        name: str | None = None,
    ) -> Dataset:
        """Adds the columns of a table, found by a key, as polars' `join` with `maintain_order="left"`.

        The table is read when this is written, and travels with the pipeline: at most 2**20 rows and 64 MiB. Keys and
        values are numbers or strings. A key comes once in the table. Rows of the table whose key is missing match
        nothing.

        Args:
            table: A dataset (its epoch 0), a dictionary of columns, or a table of pyarrow, pandas or polars.
            on: The column of the key, in both.
            how: What happens to a sample whose key the table has not, or is missing: `"left"`, the columns of the
                table are missing (`int64?`); `"inner"`, the sample is left out, as by a filter.
            name: The name of the op in errors and explanations.

        Raises:
            InvalidPipelineError: A key comes twice, both have a column of one name, a column of the table holds
                neither numbers nor strings, or the table is too large.

        >>> import forebay as fb
        >>> clicks = fb.from_dict({"user": [7, 8, 9, 7], "item": ["a", "b", "c", "d"]})
        >>> users = {"user": [7, 9], "age": [31, 54]}
        >>> for row in clicks.join(users, on="user", how="inner"):
        ...     print(row["item"], int(row["age"]))
        a 31
        c 54
        d 31
        >>> clicks.join(users, on="user").schema
        Schema(user: int64, item: string, age: int64?)
        """
        kept = arguments.choice(how, "join", "how", "left", "inner")
        if isinstance(on, (list, tuple)):
            hint = "join on one column, made on both sides by fb.concat_str(fb.col('a'), '/', fb.col('b'))"
            if len(on) == 1:
                hint = f"write on={arguments.shown(on[0])}"
            raise InvalidPipelineError(f"join: on={arguments.shown(on)} is not one column", {"hint": hint})
        on = arguments.text(on, "join", "on")
        columns, types = _columns_of(table, on)
        kind, keys, order = _keys(columns.pop(on), _kind(types[on]), on)
        own = [column for column, *_ in self._pipeline.schema]
        for column in columns:
            if column in own:
                hint = "rename or drop it in one of them"
                raise InvalidPipelineError(f"join: both have a column {column!r}", {"hint": hint})
        ds = cast("Dataset", self)
        if kept == "inner":
            # A missing key is none of these.
            ds = ds.filter(_called(on, f".isin({{{len(keys)} values}})", _is_in(kind, keys)), name=name)
        for column, values in columns.items():
            given = [values[row] for row in order]
            found = _lookup(on, (kind, keys), (_kind(types[column]), given), kept == "inner")
            is_text = types[column] == "string"
            ds = ds.with_column(column, found if is_text else found.cast(types[column]), name=name)
        return ds

    @explained("ds.sort('score', descending=True)", by="write sort('column')", reverse="write descending=True")
    def sort(self, column: str, *, descending: bool = False, name: str | None = None) -> Dataset:
        """Puts the samples into the order of a column, as Python's `sorted`: equal ones keep their order.

        The column is read when this is written, of at most 2**20 samples, whose number is known (as `select_rows`, it
        cannot stand behind a filter). The order travels with the pipeline.

        Args:
            column: A column of numbers or strings, of which none is missing or nan.
            descending: Whether the greatest comes first.
            name: The name of the op in errors and explanations.

        Raises:
            InvalidPipelineError: There are more samples, or their number is not known; or the column, or the order of
                samples, depends on the seed (behind a shuffle, a mix, or a random op).

        >>> import forebay as fb
        >>> ds = fb.from_dict({"x": [3, 1, 2], "y": ["c", "a", "b"]})
        >>> [row["y"] for row in ds.sort("x", descending=True)]
        ['c', 'b', 'a']
        """
        descending = arguments.flag(descending, "sort", "descending")
        with self._steady("sort", [arguments.text(column, "sort", "column")]) as batches:
            rows = batches._sorted_rows(column, descending)
        return self._then_rows(rows, False, name or "sort")

    @explained(
        "ds.unique('user_id')",
        keep="leave it out: the first sample of each key stays; for the last, sort in descending order before",
        maintain_order="leave it out: samples keep their order",
        subset="name the columns: unique('a', 'b')",
    )
    def unique(self, *columns: str, name: str | None = None) -> Dataset:
        """Keeps the first sample of each key, in order: pandas' `drop_duplicates`, exact.

        The columns are read when this is written, of at most 2**20 samples and 64 MiB of keys. The number of samples is
        known, so it cannot stand behind a filter, as `select_rows`. Which samples stay travels with the pipeline, so
        they are the same on all ranks and workers. To find documents that are almost equal, or among more
        samples, use a program for tables beforehand.

        Args:
            *columns: The columns of the key: numbers, strings or bytes. A key that is missing, or nan, is one key.
            name: The name of the op in errors and explanations.

        Raises:
            InvalidPipelineError: There are more samples, or their number is not known; or the key, or the order of
                samples, depends on the seed (behind a shuffle, a mix, or a random op).

        >>> import forebay as fb
        >>> ds = fb.from_dict({"user": [7, 8, 7], "item": ["a", "b", "c"]})
        >>> [row["item"] for row in ds.unique("user")]
        ['a', 'b']
        """
        names = [arguments.text(column, "unique", "a column") for column in columns]
        if not names:
            raise InvalidPipelineError("unique: no column", {"hint": "name the columns of the key: unique('id')"})
        values = _read(self._steady("unique", names), "unique")
        first: dict[tuple[Any, ...], int] = {}
        for row, key in enumerate(zip(*(values[column] for column in names), strict=True)):
            first.setdefault(tuple(None if part != part else part for part in key), row)
        return self._then_rows(np.fromiter(first.values(), np.uint64), False, name or "unique")

    def _steady(self, op: str, columns: list[str]) -> DatasetIterator:
        """Returns the batches of columns that are the same with every seed, of samples whose order is."""
        count = self._count(op)
        if count > ROWS_MAX:
            hint = (
                f"{op} the files once, with a program for tables" if op == "sort" else "use a program for tables once"
            )
            raise InvalidPipelineError(f"{op}: {count} samples are more than {ROWS_MAX}", {"hint": hint})
        for column in columns:
            drawn = self._pipeline.drawn_by(column)
            if drawn is not None:
                hint = f"put {op} before it: which samples come where is decided once, for every seed and epoch"
                raise InvalidPipelineError(
                    f"{op}: {column!r}, or its order, depends on the seed by {drawn}", {"hint": hint}
                )
        return _batches(cast("Dataset", self).select(columns))


def _columns_of(table: Any, on: str) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Returns the values of each column of a table, and their types."""
    import forebay as fb

    if isinstance(table, JoinOps):
        dataset: Any = table
    elif isinstance(table, Mapping):
        dataset = fb.from_dict(dict(table))
    else:
        dataset = fb.from_table(table)
    types = {}
    missing = []
    for column, dtype, shape, nullable, *_ in dataset._pipeline.schema:
        if shape is not None or dtype == "bytes":
            hint = "drop it from the table: numbers and strings are joined"
            raise InvalidPipelineError(f"join: column {column!r} of the table is no number or string", {"hint": hint})
        types[column] = dtype
        if nullable and dtype.startswith("float"):
            # A batch has nan for a missing float, so that a column of its own tells it.
            missing.append((column, f"{column} is missing"))
    if on not in types:
        hint = f"its columns are {', '.join(map(repr, list(types)[:8]))}"
        raise InvalidPipelineError(f"join: the table has no column {on!r}", {"hint": hint})
    for column, told in missing:
        dataset = dataset.with_column(told, col(column).is_null())
    columns = _read(_batches(dataset), "join")
    for column, told in missing:
        told_of = columns.pop(told)
        pairs = zip(columns[column], told_of, strict=True)
        columns[column] = [None if is_missing else value for value, is_missing in pairs]
    return columns, types


def _kind(dtype: str) -> str:
    """Returns the type of values in a look-up."""
    return "texts" if dtype == "string" else "floats" if dtype.startswith("float") else "ints"


def _batches(dataset: Dataset) -> DatasetIterator:
    """Returns epoch 0 in batches."""
    batched = dataset if dataset._pipeline.batch_size is not None else dataset.batch(_BATCH)
    return batched.iter(seed=0, epoch=0, consumers=(0, 1))


def _read(batches: DatasetIterator, op: str) -> dict[str, list[Any]]:
    """Returns the values of all columns; None is missing."""
    columns: dict[str, list[Any]] = {column: [] for column, *_ in batches._iteration.pipeline.schema}
    rows = size = 0
    with batches:
        for batch in batches:
            for column, values in batch.items():
                found = values.tolist()
                size += values.nbytes if isinstance(values, np.ndarray) and values.dtype.kind != "O" else 0
                size += sum(len(value) for value in found if isinstance(value, (str, bytes)))
                columns[column] += found
            rows += len(found)
            if rows > ROWS_MAX or size > JOIN_BYTES_MAX:
                hint = f"{op} large tables beforehand, with a program for tables, and save what comes out"
                message = f"{op}: the table has more than {ROWS_MAX} rows or {JOIN_BYTES_MAX >> 20} MiB"
                raise InvalidPipelineError(message, {"hint": hint})
    return columns


def _keys(values: list[Any], kind: str, on: str) -> tuple[str, list[Any], list[int]]:
    """Returns the type of keys, the keys in rising order, and the row of each."""
    rows: dict[Any, int] = {}
    for row, key in enumerate(values):
        if key is None:
            continue
        if key != key:
            raise InvalidPipelineError(f"join: a key of the table is nan (row {row})", {"hint": "leave it out"})
        if key in rows:
            hint = "keep one row of each key; samples for several rows come of lists, with explode"
            message = f"join: two rows of the table have the key {arguments.shown(key)} in {on!r}"
            raise InvalidPipelineError(message, {"hint": hint})
        rows[key] = row
    rising = sorted(rows, key=str.encode) if kind == "texts" else sorted(rows)
    if kind == "ints" and any(not -(2**63) <= key < 2**63 for key in rising):
        raise InvalidPipelineError("join: a key does not fit int64", {"hint": "cast the keys of both to strings"})
    plain = [int(key) for key in rising] if kind == "ints" else rising
    return kind, plain, [rows[key] for key in rising]


def _lookup(on: str, keys: tuple[str, list[Any]], values: tuple[str, list[Any]], all_there: bool) -> Expr:
    """Returns a look-up of values by key. Keys whose value is missing have no entry."""
    (kind, names), (of, given) = keys, values
    if any(value is None for value in given):
        there = [place for place, value in enumerate(given) if value is not None]
        names, given, all_there = [names[place] for place in there], [given[place] for place in there], False
    # Where every key is there, what other keys have is of no account.
    return lookup_of(col(on), (kind, names), (of, given + given[:1] if all_there else given))


def lookup_of(of: Expr, keys: tuple[str, list[Any]], values: tuple[str, list[Any]]) -> Expr:
    """Returns the look-up of values by keys, which rise; one value more is that of all other keys."""
    (key_kind, names), (kind, given) = keys, values
    if kind == "floats":
        plain = np.array(given, np.float64).view(np.uint64).tolist()
    else:
        plain = given if kind == "texts" else [int(value) for value in given]
    call = {"fn": "lookup", "table": {"keys": {key_kind: names}, "values": {kind: plain}}}
    return of._called(f".lookup({{{len(names)} keys}})", call)


def _is_in(kind: str, keys: list[Any]) -> dict[str, Any]:
    return {"fn": "is_in", "values": {kind: keys}}


def _called(column: str, text: str, call: dict[str, Any]) -> Expr:
    return col(column)._called(text, call)
