"""Python's operators on expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from forebay._src.expr.expr import Expr, ExprLike


class ExprOperators:
    """The operators: each makes a larger expression."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _then(self, part: dict[str, Any], text: str) -> Expr: ...

        def _binary(self, op: str, other: ExprLike) -> Expr: ...

        def _reflected(self, op: str, other: ExprLike) -> Expr: ...

    def __add__(self, other: ExprLike) -> Expr:
        return self._binary("add", other)

    def __radd__(self, other: ExprLike) -> Expr:
        return self._reflected("add", other)

    def __sub__(self, other: ExprLike) -> Expr:
        return self._binary("sub", other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return self._reflected("sub", other)

    def __mul__(self, other: ExprLike) -> Expr:
        return self._binary("mul", other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return self._reflected("mul", other)

    def __truediv__(self, other: ExprLike) -> Expr:
        return self._binary("true_div", other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return self._reflected("true_div", other)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return self._binary("floor_div", other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return self._reflected("floor_div", other)

    def __mod__(self, other: ExprLike) -> Expr:
        return self._binary("mod", other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return self._reflected("mod", other)

    def __pow__(self, other: ExprLike) -> Expr:
        return self._binary("pow", other)

    def __rpow__(self, other: ExprLike) -> Expr:
        return self._reflected("pow", other)

    def __eq__(self, other: ExprLike) -> Expr:  # type: ignore[override]
        return self._binary("eq", other)

    def __ne__(self, other: ExprLike) -> Expr:  # type: ignore[override]
        return self._binary("ne", other)

    def __lt__(self, other: ExprLike) -> Expr:
        return self._binary("lt", other)

    def __le__(self, other: ExprLike) -> Expr:
        return self._binary("le", other)

    def __gt__(self, other: ExprLike) -> Expr:
        return self._binary("gt", other)

    def __ge__(self, other: ExprLike) -> Expr:
        return self._binary("ge", other)

    def __and__(self, other: ExprLike) -> Expr:
        return self._binary("and", other)

    def __rand__(self, other: ExprLike) -> Expr:
        return self._reflected("and", other)

    def __or__(self, other: ExprLike) -> Expr:
        return self._binary("or", other)

    def __ror__(self, other: ExprLike) -> Expr:
        return self._reflected("or", other)

    def __neg__(self) -> Expr:
        return self._then({"expr": "unary", "op": "neg"}, f"(-{self})")

    def __pos__(self) -> Expr:
        return cast("Expr", self)

    def __invert__(self) -> Expr:
        return self._then({"expr": "unary", "op": "not"}, f"(~{self})")

    def __abs__(self) -> Expr:
        return self._then({"expr": "unary", "op": "abs"}, f"abs({self})")

    def __round__(self, ndigits: None = None) -> Expr:
        if ndigits is not None:
            raise TypeError("round: only to whole numbers; use (x * 100).round() / 100 for two digits")
        return self._then({"expr": "unary", "op": "round"}, f"{in_parentheses(self)}.round()")


def in_parentheses(expr: object) -> str:
    """Returns the text of a method's object, in parentheses where Python needs them: for a bare number."""
    return str(expr) if str(expr)[0] in "(cwa" else f"lit({expr})"
