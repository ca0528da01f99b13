"""Writes simple Python functions as expressions of the engine.

This module only translates. The caller compares the results of both on real samples before it reports the expression.
"""

from __future__ import annotations

import ast

from forebay._src.lint.code import Function, row_of

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_CASTS = {"float": "float64", "int": "int64", "bool": "bool", "str": "string"}
_DTYPES = frozenset(
    ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
)
_NUMERIC = {name: name for name in ("log", "log1p", "exp", "sqrt", "floor", "ceil", "abs", "sign")} | {
    "absolute": "abs",
    "isnan": "is_nan",
    "fabs": "abs",
}
_TEXT = {
    "lower": "lower",
    "upper": "upper",
    "strip": "strip",
    "startswith": "starts_with",
    "endswith": "ends_with",
    "replace": "replace",
}
#: The most characters of an expression that is worth showing.
_LONG = 300


class CannotError(Exception):
    """This module knows no expression for the function."""


def columns_of(tree: Function) -> tuple[list[tuple[str, str]], bool]:
    """Returns the columns that a `map` function computes, as expressions, and whether it keeps the columns of the row.

    Raises:
        CannotError: It has no such form.

    >>> columns_of(ast.parse("lambda row: {'y': row['a'] * 2 + 1}").body[0].value)
    ([('y', "fb.col('a') * 2 + 1")], False)
    """
    of = _Translation(tree)
    result = of.run()
    if isinstance(result, ast.Name) and result.id == of.row:
        return of.assigned, True
    if of.assigned or not isinstance(result, ast.Dict):
        raise CannotError
    columns = []
    for key, value in zip(result.keys, result.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            raise CannotError
        columns.append((key.value, of.expression(value)))
    return columns, False


def condition_of(tree: Function) -> str:
    """Returns the condition of a function of `filter`, as an expression.

    Raises:
        CannotError: It has no such form.
    """
    of = _Translation(tree)
    result = of.run()
    if of.assigned:
        raise CannotError
    return of.expression(result)


class _Translation:
    def __init__(self, tree: Function) -> None:
        self.row = row_of(tree)
        self.assigned: list[tuple[str, str]] = []
        self._names: dict[str, str] = {}
        self._tree = tree

    def run(self) -> ast.expr:
        """Follows the statements, and returns the expression of the `return` statement."""
        if isinstance(self._tree, ast.Lambda):
            return self._tree.body
        for statement in self._tree.body:
            match statement:
                case ast.Expr(ast.Constant(str())):
                    pass
                case ast.Return(value) if value is not None:
                    return value
                case ast.Assign([ast.Name(name)], value):
                    self._names[name] = f"({self.expression(value)})"
                case ast.Assign([ast.Subscript(ast.Name(row), ast.Constant(str(column)))], value) if row == self.row:
                    self.assigned.append((column, self.expression(value)))
                case _:
                    raise CannotError
        raise CannotError

    def expression(self, node: ast.expr) -> str:
        """Returns an expression of the engine."""
        text = self._of(node)
        if len(text) > _LONG or "fb.col" not in text:
            raise CannotError
        # Parsing and writing again removes needless parentheses.
        return ast.unparse(ast.parse(text, mode="eval"))

    def _of(self, node: ast.expr) -> str:
        match node:
            case ast.Subscript(ast.Name(row), ast.Constant(str(column))) if row == self.row:
                return f"fb.col({column!r})"
            case ast.Subscript(value, ast.Slice(lower, upper, None)):
                ends = ["None" if end is None else self._constant(end) for end in (lower, upper)]
                return f"{self._inner(value)}.str.slice({', '.join(ends)})"
            case ast.Constant(bool() | int() | float() | str()):
                return repr(node.value)
            case ast.Name(name) if name != self.row:
                return self._names.get(name, name)
            case ast.BinOp(left, op, right) if type(op) in _BINARY:
                return f"{self._inner(left)} {_BINARY[type(op)]} {self._inner(right)}"
            case ast.UnaryOp(ast.USub(), value):
                return f"-{self._inner(value)}"
            case ast.UnaryOp(ast.Not(), value):
                return f"~{self._inner(value)}"
            case ast.BoolOp(op, values):
                sign = " & " if isinstance(op, ast.And) else " | "
                return sign.join(self._inner(value) for value in values)
            case ast.Compare(left, ops, rights):
                return self._comparison(left, ops, rights)
            case ast.IfExp(test, yes, no):
                return f"fb.where({self._of(test)}, {self._of(yes)}, {self._of(no)})"
            case ast.Call(function, arguments, []):
                return self._call(function, arguments)
        raise CannotError

    def _inner(self, node: ast.expr) -> str:
        text = self._of(node)
        simple = isinstance(node, (ast.Subscript, ast.Constant, ast.Name, ast.Call, ast.IfExp))
        return text if simple else f"({text})"

    def _constant(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(int() | float() | str()):
                return repr(node.value)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return repr(-value)
        raise CannotError

    def _comparison(self, left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr]) -> str:
        parts = []
        for op, right in zip(ops, rights, strict=True):
            match op, right:
                case ast.In() | ast.NotIn(), ast.Tuple(items) | ast.List(items) | ast.Set(items):
                    found = f"{self._inner(left)}.isin([{', '.join(self._constant(item) for item in items)}])"
                    parts.append(found if isinstance(op, ast.In) else f"~{found}")
                case ast.In(), _ if isinstance(left, ast.Constant) and isinstance(left.value, str):
                    parts.append(f"{self._inner(right)}.str.contains({left.value!r})")
                case _ if type(op) in _COMPARE:
                    parts.append(f"{self._inner(left)} {_COMPARE[type(op)]} {self._inner(right)}")
                case _:
                    raise CannotError
            left = right
        return parts[0] if len(parts) == 1 else " & ".join(f"({part})" for part in parts)

    def _call(self, function: ast.expr, arguments: list[ast.expr]) -> str:
        match function, arguments:
            case ast.Name("abs"), [value]:
                return f"{self._inner(value)}.abs()"
            case ast.Name("len"), [value]:
                return f"{self._inner(value)}.str.len()"
            case ast.Name(name), [value] if name in _CASTS:
                return f"{self._inner(value)}.cast({_CASTS[name]!r})"
            case ast.Attribute(ast.Name("np" | "numpy" | "math"), name), [value] if name in _NUMERIC:
                return f"{self._inner(value)}.{_NUMERIC[name]}()"
            case ast.Attribute(ast.Name("np" | "numpy"), name), [value] if name in _DTYPES:
                return f"{self._inner(value)}.cast({name!r})"
            case ast.Attribute(ast.Name("np" | "numpy"), "where"), [test, yes, no]:
                return f"fb.where({self._of(test)}, {self._of(yes)}, {self._of(no)})"
            case ast.Attribute(ast.Name("np" | "numpy"), "clip"), [value, low, high]:
                return f"{self._inner(value)}.clip({self._constant(low)}, {self._constant(high)})"
            case ast.Attribute(value, "astype"), [dtype]:
                return f"{self._inner(value)}.cast({self._dtype(dtype)!r})"
            case ast.Attribute(value, name), _ if name in _TEXT:
                return f"{self._inner(value)}.str.{_TEXT[name]}({', '.join(self._constant(a) for a in arguments)})"
        raise CannotError

    def _dtype(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(str(name)) | ast.Attribute(ast.Name("np" | "numpy"), name) if name in _DTYPES:
                return name
        raise CannotError
