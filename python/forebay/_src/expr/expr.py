"""Expressions over columns, for ``filter`` and ``with_column``: described here, computed in Rust, a column at a time.

An expression is plain data, so it travels to every worker, `explain()` shows it, and it never needs Python to run:

>>> import forebay as fb
>>> fb.where(fb.col("age") > 30, fb.col("height") / 100, 0.0)
where((col('age') > 30), (col('height') / 100), 0.0)

Dtypes and results are those of NumPy 2 on arrays: a Python number gets the dtype of the column beside it, integers
wrap, ``//`` and ``%`` have Python's sign rule, and an integer divided by zero is 0. If NumPy's result depends on the
processor, Forebay's is fixed: a float that is cast to an integer is truncated and limited to the integer's range, and
not-a-number becomes 0. A missing value stays missing; a filter drops the row. ``False & missing`` is false, ``True |
missing`` is true, and ``where`` returns ``no`` if its condition is missing.
"""

from __future__ import annotations

import builtins
import datetime as dt
import decimal
import math
import numbers
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, Union

import numpy as np
from forebay._src import habits, habits_expressions
from forebay._src.expr.expr_arguments import INT64_MAX, INT64_MIN, unicode_text
from forebay._src.expr.expr_calls import ListFunctions, TextFunctions
from forebay._src.expr.expr_functions import ExprFunctions
from forebay._src.expr.expr_numpy import NumpyFunctions
from forebay._src.expr.expr_operators import ExprOperators, in_parentheses
from forebay._src.expr.expr_times import Times, resolved
from forebay._src.usage import explained, name_methods

__all__ = ["Expr", "coalesce", "col", "concat_list", "lit", "stack", "where"]

ExprLike: TypeAlias = Union["Expr", bool, int, float, str]
"""The other operand of an operator: an expression, or a single value of Python or NumPy."""


_SYMBOLS: Final = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "true_div": "/",
    "floor_div": "//",
    "mod": "%",
    "pow": "**",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
}


#: Values that no expression takes, and what to write.
_OTHERS: Final = (
    (type(None), "use fb.col(name).is_null() to find missing values"),
    (dt.date, "times are compared by x.dt: x.dt >= datetime.date(2024, 1, 1)"),
    (dt.timedelta, "a time is a whole number of its unit: x - 86_400 of seconds is a day earlier"),
    (
        decimal.Decimal,
        "decimals of files are texts, which are compared letter by letter: write x.cast('float64') > 12.5",
    ),
    (bytes, "write a text, and x.cast(str) of a column of bytes"),
    ((builtins.list, tuple, set, frozenset, np.ndarray), "write x.isin(values) for one of some"),
)


class Expr(ExprOperators, ExprFunctions, NumpyFunctions):
    """An expression over the columns of a row. Made by :func:`col`, :func:`lit`, :func:`where`, and by operators.

    >>> import forebay as fb
    >>> price = fb.col("price")
    >>> (price * 2 + 1).clip(0, 100)
    ((col('price') * 2) + 1).clip(0.0, 100.0)
    >>> (price > 3) & ~fb.col("sold")
    ((col('price') > 3) & (~col('sold')))

    It has no value before the pipeline runs, so it has no truth value:

    >>> if price > 3: pass
    Traceback (most recent call last):
        ...
    TypeError: an expression has no truth value: it describes a column, and is computed when the pipeline runs. \
Use & | ~ instead of and, or, not (with parentheses around comparisons), and fb.where(cond, yes, no) instead of if
    """

    __slots__ = ("_parts", "_text")
    _parts: tuple[dict[builtins.str, Any], ...]
    _text: builtins.str

    def __init__(self, *_: object) -> None:
        raise TypeError("make an expression with fb.col(name), fb.lit(value) or fb.where(cond, yes, no)")

    def __setattr__(self, name: builtins.str, value: object) -> NoReturn:
        raise AttributeError("an expression cannot be changed: make another one")

    def __delattr__(self, name: builtins.str) -> NoReturn:
        raise AttributeError("an expression cannot be changed: make another one")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_make, (self._parts, self._text))

    def to_parts(
        self, units: Mapping[builtins.str, builtins.str] | None = None, op: builtins.str = "expression"
    ) -> builtins.list[dict[builtins.str, Any]]:
        """Returns the expression as the plain data that the engine reads: operands before the operator.

        Args:
            units: The units of time columns, by column.
            op: The op that errors name.

        >>> import forebay as fb
        >>> (fb.col("x") + 1).to_parts() == [
        ...     {"expr": "col", "name": "x"},
        ...     {"expr": "int", "value": 1},
        ...     {"expr": "binary", "op": "add"},
        ... ]
        True
        """
        return resolved(self._parts, units or {}, op)

    def __repr__(self) -> builtins.str:
        return self._text

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "an expression has no truth value: it describes a column, and is computed when the pipeline runs. "
            "Use & | ~ instead of and, or, not (with parentheses around comparisons), "
            "and fb.where(cond, yes, no) instead of if"
        )

    # `==` returns an expression, so a hash cannot find equal expressions.
    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> NoReturn:
        raise TypeError("an expression cannot be iterated: it describes a column of the pipeline, not its values")

    def __getitem__(self, key: builtins.str) -> Expr:
        """Returns the field of a struct: sources name it `struct.field`.

        >>> import forebay as fb
        >>> fb.col("meta")["lang"]
        col('meta.lang')
        """
        first = self._parts[0]
        if len(self._parts) == 1 and first["expr"] == "col" and isinstance(key, builtins.str):
            return col(f"{first['name']}.{key}")
        raise TypeError(
            'an expression has no [...], except col("struct")["field"]: write .list.get(0) or .list.slice(0, 8) of a '
            "list, .str.slice(0, 8) of a text"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: builtins.str) -> NoReturn:
            """Python calls this for a name that the class lacks. The error says what to write instead."""
            raise habits.missing("an expression", name, habits_expressions.EXPRESSIONS, habits.public_names(self, name))

    def fill_null(self, value: ExprLike) -> Expr:
        """Returns ``value`` where the row is missing; the dtype stays. A nan that is not missing stays nan.

        The value may be an expression, such as another column: if that is missing too, so is the result.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"x": [1, None]})
        >>> ds = ds.with_column("x", fb.col("x").fill_null(0))
        >>> ds.schema, [int(row["x"]) for row in ds]
        (Schema(x: int64), [1, 0])
        """
        filling = lit(value)
        return _join([self, filling], {"expr": "fill_null"}, f"{in_parentheses(self)}.fill_null({filling})")

    @property
    def str(self) -> TextFunctions:
        """Functions of strings.

        They are ``lower upper strip slice contains starts_with ends_with replace match search extract findall split
        to_int to_float to_time len``.

        >>> import forebay as fb
        >>> fb.col("name").str.strip().str.lower()
        col('name').str.strip().str.lower()
        """
        return TextFunctions(self)

    @property
    def list(self) -> ListFunctions:
        """Functions of lists and arrays: ``get slice lookup sum mean min max len``; of strings ``contains join``.

        >>> import forebay as fb
        >>> fb.col("ids").list.slice(0, 512).list.sum()
        col('ids').list.slice(0, 512).list.sum()
        """
        return ListFunctions(self)

    @property
    def dt(self) -> Times:
        """Functions of times, and comparisons with times of Python.

        They are ``year month day ordinal_day weekday hour minute second floor strftime``.

        A column of times of Arrow and Parquet files has its unit. For other numbers a call names it:
        ``.dt("ms")``, with ``D``, ``s``, ``ms``, ``us`` or ``ns``.

        >>> import forebay as fb
        >>> fb.col("when").dt.hour()
        col('when').dt.hour()
        >>> fb.col("clicks").dt("ms").hour()
        col('clicks').dt('ms').hour()
        """
        return Times(self)

    def _binary(self, op: builtins.str, other: ExprLike) -> Expr:
        return _operation(op, self, other)

    def _reflected(self, op: builtins.str, other: ExprLike) -> Expr:
        return _operation(op, other, self)

    def _then(self, part: dict[builtins.str, Any], text: builtins.str) -> Expr:
        return _make((*self._parts, part), text)


name_methods(Expr)


@explained()
def col(name: str) -> Expr:
    """Names a column; a field of a nested dictionary has a dotted name.

    >>> import forebay as fb
    >>> fb.col("meta.width") * 2
    (col('meta.width') * 2)
    """
    if not isinstance(name, str):
        raise TypeError(f"col: a column's name is a string, not {type(name).__name__}")
    return _leaf(f"col({unicode_text('col: a column name', name)!r})", expr="col", name=str.__str__(name))


@explained()
def lit(value: Any) -> Expr:
    """Makes an expression of a single value: a bool, an integer, a float or a string, Python's or NumPy's.

    Rarely needed, since operators take values as they are. A NumPy scalar counts as the Python value it holds; to fix
    its dtype, cast it: ``fb.lit(1).cast("float32")``.

    >>> import forebay as fb
    >>> fb.lit(1) - fb.col("x")
    (1 - col('x'))
    >>> fb.lit(2**64)
    Traceback (most recent call last):
        ...
    OverflowError: the integer 18446744073709551616 does not fit 64 bits; use a float, or cast the column
    """
    if isinstance(value, Expr):
        return value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        if getattr(value, "mask", False):
            raise TypeError("an expression takes no masked value; use fb.col(name).is_null() to find missing values")
        value = value.item()
    if isinstance(value, str):
        word = unicode_text("an expression", value)
        return _leaf(repr(word), expr="str", value=word)
    if isinstance(value, bool):
        return _leaf(repr(value), expr="bool", value=value)
    if isinstance(value, numbers.Integral):
        whole = int(value)
        if not INT64_MIN <= whole <= INT64_MAX:
            raise OverflowError(f"the integer {whole} does not fit 64 bits; use a float, or cast the column")
        return _leaf(repr(whole), expr="int", value=whole)
    if isinstance(value, numbers.Real):
        return _float(float(value))
    raise TypeError(
        f"an expression takes a bool, int, float, str or another expression, not {type(value).__name__}"
        + next((f"; {hint}" for kinds, hint in _OTHERS if isinstance(value, kinds)), "")
    )


@explained()
def where(cond: ExprLike, yes: ExprLike, no: ExprLike) -> Expr:
    """Returns ``yes`` where ``cond`` is true, else ``no``, as ``numpy.where``.

    >>> import forebay as fb
    >>> fb.where(fb.col("x").is_nan(), 0.0, fb.col("x"))
    where(col('x').is_nan(), 0.0, col('x'))
    """
    parts = [lit(cond), lit(yes), lit(no)]
    return _join(parts, {"expr": "where"}, f"where({', '.join(map(str, parts))})")


@explained()
def coalesce(first: ExprLike, *others: ExprLike) -> Expr:
    """Gives the first value of a row that is not missing; the dtype is that of the first: ``fill_null`` one by one.

    >>> import forebay as fb
    >>> ds = fb.from_dict({"a": [1, None, None], "b": [4, 5, None]})
    >>> [int(row["x"]) for row in ds.with_column("x", fb.coalesce(fb.col("a"), fb.col("b"), 0))]
    [1, 5, 0]
    """
    found = lit(first)
    for other in others:
        found = found.fill_null(other)
    return found


@explained('stack([fb.col("a"), fb.col("b")])')
def stack(parts: Sequence[ExprLike]) -> Expr:
    """Puts several numbers of a row side by side, as ``numpy.stack(parts, axis=1)`` of the columns.

    Args:
        parts: Expressions of one number for each row, or column names. They get one dtype, as in arithmetic.

    Returns:
        A tensor of shape ``[len(parts)]`` for each row. A number that is missing is NaN; among integers it is an error
        of that row.

    >>> import forebay as fb
    >>> ds = fb.from_dict({"a": [1, 2], "b": [3, 4]})
    >>> next(iter(ds.with_column("x", fb.stack(["a", fb.col("b") * 10])).batch(2)))["x"].tolist()
    [[1, 30], [2, 40]]
    """
    return _join_parts("stack", parts)


@explained('concat_list([fb.col("a"), fb.col("b")])')
def concat_list(parts: Sequence[ExprLike]) -> Expr:
    """Joins lists of a row, one after another, as polars' `concat_list`; a single value is a list of one.

    Args:
        parts: Expressions of lists or single values, or column names; a text is `fb.lit(text)`. Numbers get one dtype,
            as in arithmetic. Items of lists have one shape.

    Returns:
        A list for each row. A list that is missing makes it missing, and a number that is missing is an error of the
        row.

    >>> import forebay as fb
    >>> ds = fb.from_dict({"ids": [[5, 6], [7]]})
    >>> [row["ids"].tolist() for row in ds.with_column("ids", fb.concat_list([1, "ids", 2]))]
    [[1, 5, 6, 2], [1, 7, 2]]
    """
    return _join_parts("concat_list", parts)


def _join_parts(name: str, parts: Sequence[ExprLike]) -> Expr:
    """Returns a function of several parts; a string is the name of a column."""
    if isinstance(parts, str):
        raise TypeError(f"{name}: the parts are a list, as {name}([{parts!r}]), and not one name")
    args = [col(part) if isinstance(part, str) else lit(part) for part in parts]
    return _join(args, {"expr": name, "count": len(args)}, f"{name}([{', '.join(map(str, args))}])")


def arctan2(y: ExprLike, x: ExprLike) -> Expr:
    """Returns the angle of a point."""
    parts = [lit(y), lit(x)]
    return _join(parts, {"expr": "binary", "op": "arctan2"}, f"arctan2({parts[0]}, {parts[1]})")


def _make(parts: tuple[dict[str, Any], ...], text: str) -> Expr:
    expr = object.__new__(Expr)
    object.__setattr__(expr, "_parts", parts)
    object.__setattr__(expr, "_text", text)
    return expr


def _leaf(text: str, **part: Any) -> Expr:
    return _make((part,), text)


def _join(operands: Sequence[Expr], part: dict[str, Any], text: str) -> Expr:
    parts = tuple(chain.from_iterable(operand._parts for operand in operands))
    return _make((*parts, part), text)


def _operation(op: str, left: ExprLike, right: ExprLike) -> Expr:
    a, b = lit(left), lit(right)
    text = f"({in_parentheses(a) if op == 'pow' else a} {_SYMBOLS[op]} {b})"
    return _join([a, b], {"expr": "binary", "op": op}, text)


def _float(value: float) -> Expr:
    """A float; one that JSON cannot express is the division that yields it."""
    if math.isfinite(value):
        return _leaf(repr(value), expr="float", value=value)
    over = {"expr": "float", "value": 0.0 if math.isnan(value) else math.copysign(1.0, value)}
    parts = (over, {"expr": "float", "value": 0.0}, {"expr": "binary", "op": "true_div"})
    return _make(parts, repr(value))
