"""Ops on rows: Python functions, expressions, and which columns there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from forebay._src import arguments
from forebay._src.expr.expr import Expr, col, lit
from forebay._src.functions import python_functions
from forebay._src.ops.base import Base
from forebay._src.schema import CAST_TYPES, cast_type, no_bfloat16, to_fields
from forebay._src.usage import THREADS, explained
from forebay.errors import ForebayError, InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


_NUMBERS = "put .enumerate() in front of it: the column index has the number of each sample"
_OBJECT = "give an object, map(Class(...)); of a class without arguments, each process makes its own object"
#: Arguments of functions on samples in other libraries.
_HABITS = {
    "deterministic": "leave it out: samples keep their order; iter(ordered=False) yields batches as they come",
    "concurrency": THREADS,
    "fn_args": "write functools.partial(fn, ...)",
    "fn_constructor_args": _OBJECT,
    "fn_constructor_kwargs": _OBJECT,
    "fn_kwargs": "write functools.partial(fn, ...)",
    "load_from_cache_file": "leave it out: only cache() caches samples",
    "num_parallel_calls": THREADS,
    "num_proc": THREADS,
    "num_workers": THREADS,
    "with_indices": _NUMBERS,
}


class RowOps(Base):
    """Ops that see one row (or one batch) at a time."""

    __slots__ = ()

    @explained(
        'map(fn, reads=["x"], writes=["y"]) keeps the other columns; map(fn) keeps only the columns that fn returns',
        **_HABITS,
        batch_size="leave it out: a batched function gets any number of rows; window(n) before it gives it n",
        input_columns='write reads=["x"]',
        remove_columns='leave it out: map(fn) keeps only the columns that fn returns; writes=["y"] keeps the others',
    )
    def map(
        self,
        fn: Callable[..., Any],
        *,
        reads: str | Iterable[str] | None = None,
        writes: str | Iterable[str] | None = None,
        batched: bool = False,
        schema: Mapping[str, Any] | None = None,
        timeout: float = 60.0,
        version: str | int | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Calls a Python function on each sample.

        The function gets a dictionary of the sample's columns (NumPy scalars, read-only arrays, `bytes`, `str`; `None`
        where one is missing) and returns one. With a second parameter named `rng` it also gets a
        `numpy.random.Generator` that depends on seed, epoch and sample alone. It runs where the pipeline runs: it is
        pickled, with the modules beside your script.
        After `batch`, it gets whole batches.

        Args:
            fn: The function, or a class whose objects are called so. Each process makes one object at the first call of
                an iteration or job: open files and load models in `__init__`, which takes no arguments.
            reads: The columns that the function gets. Default: all.
            writes: The columns that it returns, in addition to the others, which stay. Default: only the returned
                columns are left.
            batched: Whether it gets arrays with the rows first, of any number of rows; masked arrays if numbers may be
                missing (NaN among floats).
            schema: The returned columns, as `{"column": dtype}` or `{"column": (dtype, shape)}`, `None` for a dimension
                that differs from row to row (behind a padded batch, from batch to batch); `"int64?"` may be missing, as
                `None` or a masked number. Default: Forebay calls the function on the first four samples. If it fails
                behind `batch`, Forebay calls it on a batch of at most 1,024 samples. Behind a padded batch, Forebay
                also calls it on the four samples padded to twice their length.
            timeout: Seconds that one call may take, if it runs in a separate process.
            version: A text or number to change when the function's result changes but its code does not, because a
                file, a variable of the environment or a library that it uses has changed. `cache()` keeps the results
                of each version apart.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        Returns:
            The dataset with the returned columns.

        >>> import forebay as fb
        >>> ds = fb.range(3).map(lambda row: {"square": row["id"] ** 2}, writes=["square"])
        >>> [(int(row["id"]), int(row["square"])) for row in ds]
        [(0, 0), (1, 1), (2, 4)]
        """
        function, pickle = python_functions.described("map", fn, reads, batched, timeout, version)
        written = arguments.columns(writes, "map", "writes")
        fields = (
            python_functions.probed(self._pipeline, "map", function, pickle, name)
            if schema is None
            else self._declared(to_fields(f"map ({name})" if name else "map", schema))
        )
        if written is not None:
            fields = _only(fields, written)
        op = {"op": "map", "function": function, "output": fields, "keep_others": written is not None}
        return self._then(op, keep_position, name, pickle)

    def _declared(self, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the columns of a function: behind a batch without ragged columns, rows of a batch have one shape."""
        schema = cast("Dataset", self).schema
        if not schema.padded:
            return fields
        uniform = {field["name"] for field in fields if None in field.get("shape", ())}
        if schema.ragged:
            uniform &= schema.padded
        return [{**field, "uniform": True} if field["name"] in uniform else field for field in fields]

    @explained(
        "filter(fb.col('x') > 0), or filter(fn) with a function of a sample",
        **_HABITS,
        batch_size="leave it out: a batched function gets any number of rows",
        input_columns='write reads=["x"]',
    )
    def filter(
        self,
        predicate: Callable[..., Any] | Expr,
        *,
        reads: str | Iterable[str] | None = None,
        batched: bool = False,
        timeout: float = 60.0,
        version: str | int | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Keeps the samples for which an expression, or a Python function, is true.

        An expression is faster: the engine evaluates it on columns, without Python. The arguments are those of `map`;
        with an expression, `reads`, `batched`, `timeout` and `version` are not allowed.

        >>> import forebay as fb
        >>> [int(row["id"]) for row in fb.range(10).filter(fb.col("id") % 4 == 0)]
        [0, 4, 8]
        >>> [int(row["id"]) for row in fb.range(10).filter(lambda row: row["id"] > 7)]
        [8, 9]
        """
        if isinstance(predicate, Expr):
            return self._then(
                {"op": "filter_expr", "predicate": predicate.to_parts(self._pipeline.times, "filter")},
                keep_position,
                name,
            )
        if isinstance(predicate, str):
            hint = "write an expression, as filter(fb.col('x') > 0), or a function of a sample"
            raise InvalidPipelineError(f"filter: the text {arguments.shown(predicate)} is no condition", {"hint": hint})
        function, pickle = python_functions.described("filter", predicate, reads, batched, timeout, version)
        return self._then({"op": "filter_function", "function": function}, keep_position, name, pickle)

    @explained('with_column("y", fb.col("x") * 2); one column in each call')
    def with_column(self, column: str, value: Any, *, keep_position: bool = False, name: str | None = None) -> Dataset:
        """Adds (or replaces) a column computed from others.

        A number or a text is the same in each row. A text that is the name of a column is an error: `fb.col(text)` is
        the column, and `fb.lit(text)` the text.

        >>> import forebay as fb
        >>> ds = fb.range(3).with_column("double", fb.col("id") * 2)
        >>> [int(row["double"]) for row in ds]
        [0, 2, 4]
        """
        if callable(value) and not isinstance(value, Expr):
            hint = f"write map(fn, writes=[{column!r}]), where fn returns {{{column!r}: value}}"
            if str(getattr(value, "__module__", "")).startswith("forebay._src.expr"):
                hint = f"call it: {value.__name__}()"  # pandas' .dt.year is a property.
            raise InvalidPipelineError("with_column: a function is no expression", {"hint": hint})
        if isinstance(value, (list, tuple, np.ndarray)):
            hint = "put the values into the source, beside the other columns; fb.stack puts columns side by side"
            raise InvalidPipelineError(f"with_column: a {type(value).__name__} is no expression", {"hint": hint})
        if isinstance(value, str) and any(value == name for name, *_ in self._pipeline.schema):
            hint = f"write fb.col({value!r}) for the column, and fb.lit({value!r}) for this text in each row"
            raise InvalidPipelineError(f"with_column: {value!r} is a text, and the name of a column", {"hint": hint})
        value = value if isinstance(value, Expr) else lit(value)
        return self._then(
            {"op": "with_column", "column": column, "value": value.to_parts(self._pipeline.times, "with_column")},
            keep_position,
            name,
        )

    @explained('fill_null("x", 0), fill_null(["x", "y"], 0), or fill_null({"x": 0, "name": ""})')
    def fill_null(
        self,
        columns: str | Iterable[str] | Mapping[str, Any],
        value: Any = None,
        *,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Replaces missing values: in some columns by one value, or in each by its own: `fill_null({"x": 0, "y": ""})`.

        The columns keep their dtypes, and have no missing values after it, so batches of them are plain arrays.

        Args:
            columns: A name, several, or a value for each name.
            value: The value, if `columns` are names; it may be an expression, such as `fb.col("other")`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"x": [1, None], "name": [None, "b"]}).fill_null({"x": -1, "name": ""})
        >>> ds.schema
        Schema(x: int64, name: string)
        >>> [(int(row["x"]), row["name"]) for row in ds]
        [(1, ''), (-1, 'b')]
        """
        pairs = columns if isinstance(columns, Mapping) else dict.fromkeys(_names(columns, "fill_null"), value)
        if isinstance(columns, Mapping) and value is not None:
            raise InvalidPipelineError(
                "fill_null: a value for each column, and value= too", {"hint": "give one of them"}
            )
        made = cast("Dataset", self)
        for column, filling in pairs.items():
            if filling is None:
                hint = f"say what to put there: fill_null({column!r}, 0)"
                raise InvalidPipelineError(f"fill_null: there is no value for column {column!r}", {"hint": hint})
            try:
                made = made.with_column(
                    column, col(column).fill_null(filling), keep_position=keep_position, name=name or "fill_null"
                )
            except ForebayError as error:
                raise type(error)(error.message, {**error.context, "op": "fill_null"}) from None
        return made

    def select(self, *columns: str | Iterable[str], keep_position: bool = False, name: str | None = None) -> Dataset:
        """Keeps these columns, in this order.

        >>> import forebay as fb
        >>> list(fb.from_dict({"a": [1], "b": [2], "c": [3]}).select("c", "a").schema)
        ['c', 'a']
        """
        if computed := [column for column in columns if isinstance(column, Expr)]:
            hint = {"hint": f'with_column("y", {computed[0]}) makes a column, and select("y") keeps it'}
            raise InvalidPipelineError("select: columns have names, and an expression has none", hint)
        names = _flat(columns)
        if any(hasattr(column, "__index__") for column in names):
            hint = {"hint": "select_rows([0, 5]) keeps samples by their places; ds[a:b] some in a row"}
            raise InvalidPipelineError("select: columns have names, and a number is none", hint)
        return self._then({"op": "select", "columns": names}, keep_position, name)

    @explained('drop("a", "b"), or drop(["a", "b"])', columns='drop("a", "b"), or drop(["a", "b"])')
    def drop(self, *columns: str | Iterable[str], keep_position: bool = False, name: str | None = None) -> Dataset:
        """Leaves these columns out.

        >>> import forebay as fb
        >>> list(fb.from_dict({"a": [1], "b": [2], "c": [3]}).drop("b").schema)
        ['a', 'c']
        """
        return self._then({"op": "drop", "columns": _flat(columns)}, keep_position, name)

    @explained('rename({"old": "new"}), or rename(old="new")')
    def rename(
        self,
        columns: Mapping[str, str] | None = None,
        *,
        keep_position: bool = False,
        name: str | None = None,
        **more: str,
    ) -> Dataset:
        """Renames columns: `rename({"old": "new"})`, or `rename(old="new")`.

        >>> import forebay as fb
        >>> list(fb.range(1).rename(id="row").schema)
        ['row']
        """
        arguments.mapping(columns, "rename", "columns", 'rename({"old": "new"}), or rename(old="new")')
        pairs = {**(columns or {}), **more}
        return self._then({"op": "rename", "columns": list(pairs.items())}, keep_position, name)

    @explained('cast({"x": "float32"}), or cast(x="float32")')
    def cast(
        self,
        columns: Mapping[str, Any] | None = None,
        *,
        keep_position: bool = False,
        name: str | None = None,
        **more: Any,
    ) -> Dataset:
        """Converts columns to other types, as NumPy's `astype`.

        Integers wrap, and a float becomes the nearest integer towards zero that fits. Strings and bytes are parsed as
        numbers, numbers are written as Python's `str` does, and strings and bytes are converted as UTF-8. A text that
        is no number, and bytes that are not UTF-8, are a `DataError` of their sample.

        Args:
            columns: Type by column: NumPy's name of a dtype, `"string"` or `"bytes"`, a NumPy dtype, or Python's
                `bool`, `int`, `float`, `str` or `bytes`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
            **more: More columns, if their names are Python names.

        >>> import forebay as fb
        >>> fb.range(1).cast(id="float32").schema["id"].dtype
        'float32'
        >>> next(iter(fb.from_dict({"label": [b"7"]}).cast(label=int).batch(1)))
        {'label': array([7])}
        """
        arguments.mapping(columns, "cast", "columns", 'cast({"x": "float32"}), or cast(x="float32")')
        pairs = [(column, cast_type(dtype)) for column, dtype in {**(columns or {}), **more}.items()]
        for column, dtype in pairs:
            if dtype not in CAST_TYPES:
                raise InvalidPipelineError(
                    f"cast: unknown dtype {dtype!r} for column {column!r}",
                    {"hint": no_bfloat16(dtype) or f"use one of {', '.join(CAST_TYPES)}"},
                )
        return self._then({"op": "cast", "columns": pairs}, keep_position, name)

    def check_finite(
        self,
        columns: str | Iterable[str] | None = None,
        *,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Raises `DataError` at the first number that is NaN, infinite or missing; the samples stay as they are.

        The error names the sample, the column and the place in it. A float that is missing is NaN in an array.

        Args:
            columns: The columns of floats to check. Default: all columns of floats.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"x": [[0.5, 1.5], [2.0, float("nan")]]}).check_finite()
        >>> try:
        ...     list(ds)
        ... except fb.errors.DataError as error:
        ...     print(error.message, error.context["sample"], error.context["index"])
        column "x" holds NaN, which is not finite row 1 [1]
        """
        names = arguments.columns(columns, "check_finite", "columns")
        if names is None:
            names = [column for column, dtype, *_ in self._pipeline.schema if dtype.startswith("float")]
        return self._then({"op": "check_finite", "columns": names}, keep_position, name)


def _only(fields: list[dict[str, Any]], written: list[str]) -> list[dict[str, Any]]:
    """Puts the fields in the order of `writes`, which must name them all."""
    by_name = {field["name"]: field for field in fields}
    if set(by_name) != set(written):
        returned = ", ".join(by_name) or "nothing"
        raise InvalidPipelineError(
            f"map: writes= names {', '.join(written)}, and the function returns {returned}",
            {"hint": "return exactly the columns that writes= names"},
        )
    return [by_name[name] for name in written]


def _names(columns: str | Iterable[str], op: str) -> list[str]:
    """Returns the given names, at least one."""
    found = arguments.columns(columns, op, "columns")
    if not found:
        raise InvalidPipelineError(f"{op}: no columns were given", {"hint": "name at least one"})
    return found


def _flat(columns: Iterable[str | Iterable[str]]) -> list[str]:
    return [name for c in columns for name in ([c] if isinstance(c, str) else c)]
