"""What functions of NumPy and of Python's `math` get when they are called with an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

if TYPE_CHECKING:
    from forebay._src.expr.expr import Expr, ExprLike

#: Functions that are methods of the same name.
_ROOTS_AND_LOGARITHMS: Final = ("log", "log1p", "log2", "log10", "exp", "exp2", "expm1", "sqrt", "cbrt")
_ANGLES: Final = ("degrees", "radians", "sin", "cos", "tan", "arcsin", "arccos", "arctan")
_HYPERBOLIC: Final = ("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh")
#: By the name of NumPy's function: the method that computes the same, with the same dtypes.
_UNARY: Final = {
    "absolute": "abs",
    "ceil": "ceil",
    "deg2rad": "radians",
    "floor": "floor",
    "invert": "__invert__",
    "isnan": "is_nan",
    "negative": "__neg__",
    "positive": "__pos__",
    "rad2deg": "degrees",
    "sign": "sign",
    **{name: name for name in (*_ROOTS_AND_LOGARITHMS, *_ANGLES, *_HYPERBOLIC)},
}
#: By the name of NumPy's function: the operator.
_BINARY: Final = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "true_div",
    "floor_divide": "floor_div",
    "remainder": "mod",
    "power": "pow",
    "arctan2": "arctan2",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "bitwise_and": "and",
    "bitwise_or": "or",
}
#: The comparison with its sides exchanged, as Python calls it for a number on the left.
_EXCHANGED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

_LIST: Final = "of a list in each row, write x.list.{0}(); of all rows, compute it in a loop"
#: By the name of NumPy's function: what to write instead.
_ADVICE: Final[Mapping[str, str]] = {
    "around": "write x.round()",
    "clip": "write x.clip(low, high)",
    "concatenate": "of texts, write fb.concat_str; of lists, fb.concat_list; of datasets, fb.concatenate",
    "digitize": "write x.bucketize(bounds)",
    "fabs": "write x.abs()",
    "isin": "write x.isin(values)",
    "logical_and": "write x & y",
    "logical_not": "write ~x",
    "logical_or": "write x | y",
    "maximum": "write fb.where(x > y, x, y)",
    "minimum": "write fb.where(x < y, x, y)",
    "rint": "write x.round()",
    "round": "write x.round()",
    "square": "write x * x",
    "stack": "write fb.stack([x, y])",
    "where": "write fb.where(cond, yes, no)",
    **{name: _LIST.format(name) for name in ("max", "mean", "min", "sum")},
}
_MAP: Final = "write map(fn, reads=['x'], writes=['y']), whose function gets values"


class NumpyFunctions:
    """The protocols by which NumPy and Python call for an expression."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _binary(self, op: str, other: ExprLike) -> Expr: ...

        def _reflected(self, op: str, other: ExprLike) -> Expr: ...

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Expr:
        """Makes a larger expression of NumPy's functions that have a method or an operator here.

        >>> import forebay as fb
        >>> import numpy as np
        >>> np.sqrt(fb.col("x")), np.float32(2) * fb.col("x")
        (col('x').sqrt(), (2.0 * col('x')))
        """
        name = ufunc.__name__
        if method != "__call__" or options or (name not in _UNARY and name not in _BINARY):
            _refuse(name)
        if name in _UNARY:
            return cast("Expr", getattr(self, _UNARY[name])())
        op, (left, right) = _BINARY[name], inputs
        if op == "arctan2":
            from forebay._src.expr.expr import arctan2

            return arctan2(left, right)
        if isinstance(left, NumpyFunctions):
            return left._binary(op, right)
        made: Expr = right._binary(_EXCHANGED[op], left) if op in _EXCHANGED else right._reflected(op, left)
        return made

    def __array_function__(self, function: Callable[..., Any], *_: Any) -> NoReturn:
        """Refuses NumPy's functions of arrays."""
        _refuse(function.__name__)

    def __float__(self) -> NoReturn:
        """Python calls this for `float(x)`, and for the functions of `math`."""
        raise TypeError(
            "an expression is no number: it describes a column, and is computed when the pipeline runs. Write "
            "x.sqrt(), x.log(), x.exp(), x.floor() for functions of math, and x.cast(float) for float(x)"
        )

    def __int__(self) -> NoReturn:
        """Python calls this for `int(x)`."""
        raise TypeError("an expression is no number: write x.cast(int), or x.str.to_int() of a text, for int(x)")

    def __len__(self) -> NoReturn:
        """Python calls this for `len(x)`."""
        raise TypeError("an expression has no len(): write x.len() of texts and lists; a dataset has len(ds)")

    def __contains__(self, value: object) -> NoReturn:
        """Python calls this for `value in x`."""
        raise TypeError(
            "`in` has no meaning for an expression: write x.isin([...]) for a value among some, x.str.contains(text) "
            "of texts, x.list.contains(text) of lists"
        )


def _refuse(name: str) -> NoReturn:
    raise TypeError(f"numpy.{name} takes no expression: {_ADVICE.get(name, _MAP)}")
