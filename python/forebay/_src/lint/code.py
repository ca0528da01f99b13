"""The source of a user's function, as a syntax tree."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, cast

#: Files with more bytes are not parsed.
_SOURCE_MAX = 4 << 20

Function = ast.FunctionDef | ast.Lambda


def tree_of(function: Callable[..., Any], file: str | None) -> Function | None:
    """Returns the syntax tree of a function; `None` if its source is not found, or has changed since.

    Args:
        function: The function. Its code does not name its file if it has been pickled by value.
        file: The file that added its op. The function is searched there, too.
    """
    if not isinstance(function, types.FunctionType):
        return None
    code = function.__code__
    module = getattr(sys.modules.get(function.__module__), "__file__", None)
    for name in dict.fromkeys([code.co_filename, file, module]):
        tree = None if name is None else _parsed(name)
        for node in () if tree is None else ast.walk(tree):
            is_here = isinstance(node, Function) and _first_line(node) == code.co_firstlineno
            # Two lambdas of one line with the same shape count as the same function.
            if is_here and _compiled(cast("Function", node)) == _shape(code):
                return cast("Function", node)
    return None


def row_of(tree: Function) -> str | None:
    """Returns the name of a function's first parameter."""
    names = [*tree.args.posonlyargs, *tree.args.args]
    return names[0].arg if names else None


def keys_of(tree: Function) -> set[str] | None:
    """Returns the columns that a function reads of its row; `None` if the row is used in another way.

    >>> sorted(keys_of(ast.parse("lambda r: {'y': r['a'] + r['b']}").body[0].value))
    ['a', 'b']
    >>> keys_of(ast.parse("lambda r: {**r}").body[0].value) is None
    True
    """
    row = row_of(tree)
    keys: set[str] = set()
    subscripts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == row:
            key = node.slice
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(node.ctx, ast.Load)):
                return None
            keys.add(key.value)
            subscripts.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == row and id(node) not in subscripts:
            return None
    return keys


@functools.lru_cache(8)
def _parsed(file: str) -> ast.Module | None:
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read(_SOURCE_MAX + 1)
        return ast.parse(text) if len(text) <= _SOURCE_MAX else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _first_line(node: Function) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return decorators[0].lineno if decorators else node.lineno


def _compiled(node: Function) -> tuple[Any, ...] | None:
    """Returns the shape of the code of a tree, without its line numbers."""
    body: Any = ast.Expression(node) if isinstance(node, ast.Lambda) else ast.Module([node], [])
    code = compile(body, "<lint>", "eval" if isinstance(node, ast.Lambda) else "exec", dont_inherit=True)
    inner = [const for const in code.co_consts if inspect.iscode(const)]
    return _shape(inner[-1]) if inner else None


def _shape(code: types.CodeType) -> tuple[Any, ...]:
    """Returns the parts of code that differ between two functions of one line.

    A variable of the outer function is a closure in one code and a global in the other, so bytecode is not compared.
    """
    constants = [const for const in code.co_consts if not inspect.iscode(const)]
    return code.co_name, code.co_varnames, repr(constants), sorted({*code.co_names, *code.co_freevars})
