"""The modules of the user's that a function imports when it runs, and how they travel.

Pickling finds the modules that a user's module imports at its top in memory, and pickles them by value. A module that a
function imports inside itself may not be loaded yet. So this module searches the code that travels for imports, and
then the code of the imported modules. A module of the user's travels as its source, with the plain values (numbers,
texts, lists of them) that it has in memory and that its source does not set: `config.SIZE = 32`.

Imports whose name is computed at run time (`importlib.import_module(name)`) are not found, nor is data that a module
reads.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

#: Modules with more source than this are named, and not sent.
SOURCE_BYTES_MAX = 32 << 20

#: Functions whose text arguments may be names of modules.
_IMPORTERS = frozenset(["import_module", "__import__"])


@dataclass(frozen=True)
class Module:
    """A module of the user's, in the form in which it travels."""

    file: str
    is_package: bool
    source: str
    #: Plain values that are in memory and do not follow from the source.
    values: dict[str, Any] = field(default_factory=dict)

    def code(self) -> types.CodeType:
        """Compiles the source, which an import runs."""
        return _compiled(self.source, self.file)


def imported(roots: list[tuple[types.CodeType, str]], is_users: Callable[[str], bool]) -> dict[str, Module]:
    """Returns the user's modules that code imports, directly or through other modules, by name.

    Args:
        roots: Code, and the package that its relative imports start from (may be empty).
        is_users: Returns whether a file is the user's.
    """
    found: dict[str, Module] = {}
    seen: set[str] = set()
    wanted = [name for code, package in roots for name in _names(code, package)]
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        module = _find(name, is_users)
        if module is not None:
            found[name] = module
            wanted += _names(module.code(), name if module.is_package else name.rpartition(".")[0])
    return dict(sorted({**_namespaces(found, is_users), **found}.items()))


def _namespaces(found: dict[str, Module], is_users: Callable[[str], bool]) -> dict[str, Module]:
    """Returns the packages without an `__init__.py` around modules, if all their folders are the user's."""
    parents = {name[:at] for name in found for at, letter in enumerate(name) if letter == "."} - set(found)
    packages = {}
    for parent in parents:
        loaded = sys.modules.get(parent)
        spec = getattr(loaded, "__spec__", None) if loaded is not None else _spec(parent)
        folders = list(getattr(spec, "submodule_search_locations", None) or ())
        if folders and getattr(spec, "origin", None) is None and all(is_users(f"{f}/__init__.py") for f in folders):
            packages[parent] = Module("", True, "")
    return packages


def package_of(names: dict[str, Any]) -> str:
    """Returns the package that relative imports start from in code with these globals."""
    package = names.get("__package__")
    if isinstance(package, str):
        return package
    name = str(names.get("__name__", ""))
    return name if "__path__" in names else name.rpartition(".")[0]


def changed(name: str, module: Module) -> bool:
    """Returns whether a loaded module has functions that its source has not."""
    loaded = sys.modules.get(name)
    if loaded is None:
        return False
    known = {_bare(code) for code in _all(module.code())}
    own = [f.__code__ for f in vars(loaded).values() if isinstance(f, types.FunctionType) and f.__module__ == name]
    file = getattr(loaded, "__file__", None)
    return any(code.co_filename == file and _bare(code) not in known for code in own)


def _find(name: str, is_users: Callable[[str], bool]) -> Module | None:
    if name.partition(".")[0] == "forebay":
        return None
    loaded = sys.modules.get(name)
    spec = getattr(loaded, "__spec__", None) if loaded is not None else _spec(name)
    file = getattr(spec, "origin", None)
    if not isinstance(file, str) or not file.endswith(".py") or not os.path.isfile(file) or not is_users(file):
        return None
    status = os.stat(file)
    source, literals = _read(file, status.st_mtime_ns, status.st_size)
    if source is None:
        return None
    values = {} if loaded is None else dict(_values(loaded, literals))
    return Module(file, spec.submodule_search_locations is not None, source, values)  # type: ignore[union-attr]


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """Finds a module without importing anything."""
    parent = name.rpartition(".")[0]
    path: Any = None
    if parent:
        above = sys.modules.get(parent)
        spec = getattr(above, "__spec__", None) if above is not None else _spec(parent)
        path = getattr(above, "__path__", None) or getattr(spec, "submodule_search_locations", None)
        if path is None:
            return None
    for finder in sys.meta_path:
        look = getattr(finder, "find_spec", None)
        with contextlib.suppress(Exception):
            spec = look(name, path, None) if look is not None else None
            if isinstance(spec, importlib.machinery.ModuleSpec):
                return spec
    return None


@functools.lru_cache(maxsize=4096)
def _read(file: str, _mtime: int, _size: int) -> tuple[str | None, dict[str, str]]:
    """Returns the source of a file and the literals that it binds to names; `None` if it is no Python."""
    try:
        with open(file, "rb") as opened:
            source = importlib.util.decode_source(opened.read())
        _compiled(source, file)
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return None, {}
    literals: dict[str, str] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                # A name that gets several values has none that follows from the source.
                again = target.id in literals
                literals[target.id] = "" if again else _literal(getattr(node, "value", None))
    return source, literals


def _literal(node: ast.expr | None) -> str:
    try:
        return "" if node is None else repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ""


def _values(module: types.ModuleType, literals: dict[str, str]) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(module).items()):
        if not name.startswith("__") and _is_plain(value) and literals.get(name) != repr(value):
            yield name, value


def _is_plain(value: Any, depth: int = 0) -> bool:
    kind = type(value)
    if kind in (type(None), bool, int, float, complex, str, bytes):
        return True
    if depth > 16:
        return False
    if kind is dict:
        return all(_is_plain(k, depth + 1) and _is_plain(v, depth + 1) for k, v in value.items())
    return kind in (list, tuple, set, frozenset) and all(_is_plain(one, depth + 1) for one in value)


@functools.lru_cache(maxsize=4096)
def _compiled(source: str, file: str) -> types.CodeType:
    return compile(source, file, "exec", dont_inherit=True)


def _all(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all(constant)


def _bare(code: types.CodeType) -> tuple[Any, ...]:
    """Returns the parts of code that decide its behaviour, without its place in the source."""
    constants = [repr(c) for c in code.co_consts if not isinstance(c, (types.CodeType, frozenset))]
    return code.co_name, code.co_code, code.co_names, tuple(constants)


def _names(code: types.CodeType, package: str) -> Iterator[str]:
    """Yields the modules that code may import, with their packages."""
    for one in _all(code):
        for name in _asked(one, package):
            parts = name.split(".")
            yield from (".".join(parts[:n]) for n in range(1, len(parts) + 1))


def _asked(code: types.CodeType, package: str) -> Iterator[str]:
    before: list[Any] = [None, None]
    for instruction in dis.get_instructions(code):
        if instruction.opname == "EXTENDED_ARG":
            continue
        if instruction.opname == "IMPORT_NAME":
            level, wanted = before
            name = _absolute("." * (level if isinstance(level, int) else 0) + instruction.argval, package)
            if name:
                yield name
                yield from (f"{name}.{part}" for part in (wanted or ()) if part != "*")
        before = [before[1], instruction.argval]
    if _IMPORTERS & set(code.co_names):
        texts = (
            c for c in code.co_consts if isinstance(c, str) and all(p.isidentifier() for p in c.strip(".").split("."))
        )
        yield from filter(None, (_absolute(text, package) for text in texts))


def _absolute(name: str, package: str) -> str | None:
    if not name.startswith("."):
        return name
    try:
        return importlib.util.resolve_name(name, package).rstrip(".") if package else None
    except ImportError:
        return None
