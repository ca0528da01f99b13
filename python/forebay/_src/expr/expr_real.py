"""Functions of real numbers in expressions: logarithms, exponentials and functions of angles.

They have NumPy's names and dtypes: floats keep theirs, and whole numbers become floats. They are computed in float64 by
the same code on every machine, so the last bit may differ from NumPy's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forebay._src.expr.expr import Expr, ExprLike


class RealFunctions:
    """The functions that are methods of an expression.

    >>> import forebay as fb
    >>> ds = fb.from_dict({"hour": [0.0, 6.0]}).with_column("angle", fb.col("hour") * 15)
    >>> ds = ds.with_column("x", fb.col("angle").radians().cos().round())
    >>> [float(row["x"]) for row in ds]
    [1.0, 0.0]
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def _call(self, op: str) -> Expr: ...

        def _then(self, part: dict[str, Any], text: str) -> Expr: ...

    def log(self) -> Expr:
        """The natural logarithm; -inf of 0, nan of negative numbers."""
        return self._call("log")

    def log1p(self) -> Expr:
        """``log(1 + x)``, exact for small x.

        >>> import forebay as fb
        >>> fb.col("clicks").log1p()
        col('clicks').log1p()
        """
        return self._call("log1p")

    def exp(self) -> Expr:
        """Euler's number to the power of x."""
        return self._call("exp")

    def sqrt(self) -> Expr:
        """The square root; nan of negative numbers."""
        return self._call("sqrt")

    def log2(self) -> Expr:
        """The logarithm to base 2."""
        return self._call("log2")

    def log10(self) -> Expr:
        """The logarithm to base 10."""
        return self._call("log10")

    def exp2(self) -> Expr:
        """2 to the power of x."""
        return self._call("exp2")

    def expm1(self) -> Expr:
        """``exp(x) - 1``, exact for small x."""
        return self._call("expm1")

    def cbrt(self) -> Expr:
        """The cube root, of negative numbers, too."""
        return self._call("cbrt")

    def sin(self) -> Expr:
        """The sine of an angle in radians."""
        return self._call("sin")

    def cos(self) -> Expr:
        """The cosine of an angle in radians."""
        return self._call("cos")

    def tan(self) -> Expr:
        """The tangent of an angle in radians."""
        return self._call("tan")

    def arcsin(self) -> Expr:
        """The angle, in radians, whose sine it is; nan outside [-1, 1]."""
        return self._call("arcsin")

    def arccos(self) -> Expr:
        """The angle, in radians, whose cosine it is; nan outside [-1, 1]."""
        return self._call("arccos")

    def arctan(self) -> Expr:
        """The angle, in radians, whose tangent it is."""
        return self._call("arctan")

    def sinh(self) -> Expr:
        """The hyperbolic sine."""
        return self._call("sinh")

    def cosh(self) -> Expr:
        """The hyperbolic cosine."""
        return self._call("cosh")

    def tanh(self) -> Expr:
        """The hyperbolic tangent."""
        return self._call("tanh")

    def arcsinh(self) -> Expr:
        """The number whose hyperbolic sine it is."""
        return self._call("arcsinh")

    def arccosh(self) -> Expr:
        """The number whose hyperbolic cosine it is; nan below 1."""
        return self._call("arccosh")

    def arctanh(self) -> Expr:
        """The number whose hyperbolic tangent it is; nan outside [-1, 1]."""
        return self._call("arctanh")

    def degrees(self) -> Expr:
        """An angle in radians, in degrees."""
        return self._call("degrees")

    def radians(self) -> Expr:
        """An angle in degrees, in radians."""
        return self._call("radians")

    def arctan2(self, x: ExprLike) -> Expr:
        """The angle, in radians, of the point (`x`, it): NumPy's ``arctan2(y, x)``.

        >>> import forebay as fb
        >>> fb.col("y").arctan2(fb.col("x"))
        arctan2(col('y'), col('x'))
        """
        from forebay._src.expr.expr import arctan2

        return arctan2(self, x)  # type: ignore[arg-type]
