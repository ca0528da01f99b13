"""A rule on the script's text: an op whose result nothing keeps. A dataset never changes, so the op does nothing."""

from __future__ import annotations

import ast
import inspect
import os
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from forebay._src.lint.finding import Finding

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def discarded(file: str | os.PathLike[str], datasets: Mapping[str, Dataset]) -> Iterator[Finding]:
    """Yields a finding for each statement at the top level that only calls an op: `ds.shuffle()`."""
    with tokenize.open(file) as opened:
        tree = ast.parse(opened.read())
    for call in _statements(tree.body):
        name = _root(call)
        if name in datasets and isinstance(call.func, ast.Attribute) and _makes_dataset(datasets[name], call.func.attr):
            text = ast.unparse(call)
            message = f"{text} makes another dataset, which nothing keeps: {name} stays as it is"
            yield Finding("unused-result", "warning", os.fspath(file), call.lineno, name, message, f"{name} = {text}")


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Yields the calls that are statements of their own, outside of functions and classes."""
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node.value
        elif not isinstance(node, _SCOPES):
            yield from _statements(ast.iter_child_nodes(node))


def _root(call: ast.Call) -> str:
    """Returns the name at the beginning of a chain of calls: `ds` of `ds.shuffle().batch(8)`."""
    node: ast.AST = call
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _makes_dataset(dataset: Dataset, method: str) -> bool:
    function = getattr(type(dataset), method, None)
    return inspect.isfunction(function) and inspect.signature(function).return_annotation == "Dataset"
