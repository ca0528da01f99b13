"""Functions of numbers in expressions, casts, and functions of any column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from forebay._src.expr.expr_arguments import INT64_MAX, distinct_values, edge, integer, limit, one_type
from forebay._src.expr.expr_operators import in_parentheses
from forebay._src.expr.expr_real import RealFunctions
from forebay._src.schema import CAST_TYPES, cast_type

if TYPE_CHECKING:
    from forebay._src.expr.expr import Expr


class ExprFunctions(RealFunctions):
    """The functions that are methods of an expression."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _then(self, part: dict[str, Any], text: str) -> Expr: ...

    def floor(self) -> Expr:
        """The greatest whole number that is not greater; the dtype stays."""
        return self._call("floor")

    def ceil(self) -> Expr:
        """The least whole number that is not less; the dtype stays."""
        return self._call("ceil")

    def round(self) -> Expr:
        """The nearest whole number, half to even (2.5 gives 2); the dtype stays."""
        return self._call("round")

    def abs(self) -> Expr:
        """The absolute value, as ``abs(column)``."""
        return self._then({"expr": "unary", "op": "abs"}, f"abs({self})")

    def sign(self) -> Expr:
        """1, 0 or -1; the dtype stays, and so does nan."""
        return self._call("sign")

    def is_nan(self) -> Expr:
        """Whether it is not-a-number; missing values stay missing."""
        return self._call("is_nan")

    def is_null(self) -> Expr:
        """Whether the row is missing.

        >>> import forebay as fb
        >>> ~fb.col("label").is_null()
        (~col('label').is_null())
        """
        return self._call("is_null")

    def len(self) -> Expr:
        """The length of a string in characters, or of a byte string in bytes, as int64."""
        return self._call("len")

    def isin(self, values: Iterable[Any]) -> Expr:
        """Whether it is one of some values, numbers or strings, as pandas' ``isin``; a missing value stays missing.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"lang": ["en", "de", "fr"]})
        >>> [row["lang"] for row in ds.filter(fb.col("lang").isin({"en", "fr"}))]
        ['en', 'fr']
        """
        if isinstance(values, ExprFunctions):
            raise TypeError(f"isin: values is a list or a set, not {type(values).__name__}")
        kind, rising = distinct_values(values)
        shown = f"{{{len(rising)} values}}" if len(rising) > 4 else repr(rising)
        return self._called(f".isin({shown})", {"fn": "is_in", "values": {kind: rising}})

    def lookup(self, table: Mapping[Any, Any], default: Any = None) -> Expr:
        """The value that a dictionary has for the value: strings, whole numbers (int64) or floats (float64).

        Args:
            table: Values by key: at most 2**20. Keys are numbers or strings.
            default: The value for other keys. None: it is missing. A missing value stays missing.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"lang": ["en", "de", "xx"]})
        >>> ds = ds.with_column("id", fb.col("lang").lookup({"de": 1, "en": 2}, default=0))
        >>> [int(row["id"]) for row in ds]
        [2, 1, 0]
        """
        from forebay._src.ops.join_ops import lookup_of

        if not isinstance(table, Mapping):
            raise TypeError(f"lookup: table is a dictionary, not {type(table).__name__}")
        kind, keys = distinct_values(table, "lookup")
        given = [table[key] for key in keys] + ([] if default is None else [default])
        values = one_type(given, "lookup")
        return lookup_of(self, (kind, keys), values)  # type: ignore[arg-type]

    def bucketize(self, bounds: Iterable[float], *, right: bool = False) -> Expr:
        """The number of the bucket between rising bounds, from 0, as int64: NumPy's ``digitize``.

        Bucket ``i`` holds ``bounds[i - 1] <= x < bounds[i]``; with ``right``, ``bounds[i - 1] < x <= bounds[i]``. Nan
        is in the last one.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"age": [5, 18, 70]})
        >>> [int(row["age"]) for row in ds.with_column("age", fb.col("age").bucketize([18, 65]))]
        [0, 1, 2]
        """
        edges = [edge(bound) for bound in bounds]
        if any(low > high for low, high in pairwise(edges)):
            raise ValueError("bucketize: the bounds do not rise; give them in order")
        if not isinstance(right, bool):
            raise TypeError(f"bucketize: right is True or False, not {type(right).__name__}")
        return self._called(f".bucketize({edges})", {"fn": "bucketize", "bounds": edges, "right": right})

    def one_hot(self, n: int) -> Expr:
        """``float32[n]``: 1 at the place of a whole number, 0 elsewhere. A number outside ``range(n)`` is an error.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"label": [2, 0]}).with_column("label", fb.col("label").one_hot(3))
        >>> [row["label"].tolist() for row in ds]
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
        """
        classes = integer("one_hot: n", n)
        if not 1 <= classes <= 2**20:
            raise ValueError(f"one_hot: n is {classes}; use 1 to 2**20")
        return self._called(f".one_hot({classes})", {"fn": "one_hot", "classes": classes})

    def clip(self, low: float | None = None, high: float | None = None) -> Expr:
        """``low`` where it is smaller, ``high`` where it is larger; the dtype stays, and so does nan.

        >>> import forebay as fb
        >>> fb.col("x").clip(low=0)
        col('x').clip(0.0, None)
        """
        for what, value in (("low", low), ("high", high)):
            if isinstance(value, ExprFunctions):
                raise TypeError(f"clip: {what} is a number; use fb.where to limit a column by another one")
        bounds = {"low": limit("low", low, -math.inf), "high": limit("high", high, math.inf)}
        text = f"{in_parentheses(self)}.clip({bounds['low']}, {bounds['high']})"
        return self._then({"expr": "clip", **bounds}, text)

    def hash_mod(self, n: int) -> Expr:
        """A well-mixed hash of the value in ``range(n)``, as int64: always the same, on every machine.

        It depends on the value alone, so that a row stays in its part when the data grows:

        >>> import forebay as fb
        >>> is_test = fb.col("user").hash_mod(100) < 5
        """
        buckets = integer("hash_mod: n", n)
        if not 1 <= buckets <= INT64_MAX:
            raise ValueError(f"hash_mod: n is {buckets}; use a number of buckets from 1 to 2**63 - 1")
        return self._then({"expr": "hash_mod", "buckets": buckets}, f"{in_parentheses(self)}.hash_mod({buckets})")

    def cast(self, dtype: Any) -> Expr:
        """Another type, as NumPy's ``astype``; strings and bytes are parsed as numbers, and numbers written as text.

        ``dtype`` is a name, a NumPy dtype or scalar type, or Python's ``bool``, ``int``, ``float``, ``str`` or
        ``bytes``.

        >>> import forebay as fb
        >>> fb.col("x").cast("float32")
        col('x').cast('float32')
        >>> fb.col("x").cast(str)
        col('x').cast('string')
        >>> fb.col("x").cast("float8")
        Traceback (most recent call last):
            ...
        ValueError: cast: unknown dtype 'float8'; use one of bool, int8, int16, int32, int64, uint8, uint16, uint32, \
uint64, float16, float32, float64, string, bytes
        """
        name = cast_type(dtype)
        if name not in CAST_TYPES:
            raise ValueError(f"cast: unknown dtype {name!r}; use one of {', '.join(CAST_TYPES)}")
        return self._then({"expr": "cast", "dtype": name}, f"{in_parentheses(self)}.cast({name!r})")

    def _call(self, op: str) -> Expr:
        return self._then({"expr": "unary", "op": op}, f"{in_parentheses(self)}.{op}()")

    def _called(self, text: str, call: dict[str, Any]) -> Expr:
        return self._then({"expr": "call", "call": call}, f"{in_parentheses(self)}{text}")
