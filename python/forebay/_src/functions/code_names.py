"""Names for users' functions by their code: the same for the same code, in every process and every folder.

The hash of a pickle is no such name: cloudpickle puts a random number in classes, sets have the order of this process,
and code has the paths and lines of its source. So this module walks a function as a pickle does and hashes its parts:
bytecode, constants, the globals and closures that it uses, and their parts. Objects that travel by name (from installed
libraries) count by their name and their own bytecode.

Invariant: the same code may get two names (then something is computed again, or refused); the same name always means
    the same code, except for what an installed library uses in turn.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import marshal
import pickle
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forebay._src.functions.imports import Module

#: The type of the functions that `functools.lru_cache` and `functools.cache` return.
_CACHED = type(functools.lru_cache(len))

#: Lists of plain values of this length or more are hashed at once.
_LONG = 64

#: Attributes of classes that name the place of the source, or that Python derives from other attributes.
_MADE = frozenset(
    [
        "__annotate__",
        "__annotate_func__",
        "__annotations__",
        "__annotations_cache__",
        "__dict__",
        "__doc__",
        "__firstlineno__",
        "__module__",
        "__qualname__",
        "__static_attributes__",
        "__weakref__",
        "_abc_impl",
    ]
)


def name_of_code(
    value: Any,
    local: frozenset[str],
    pickled: Callable[[], bytes],
    modules: dict[str, Module],
    version: str | int | None = None,
) -> str:
    """Returns a name for the code of a function or an object.

    Args:
        value: The function or object.
        local: The modules that are pickled by value.
        pickled: Makes its pickle without names of files. The hash of it is the name where something cannot be walked.
        modules: The modules that its code imports when it runs.
        version: The version that the user gave.
    """
    digest = hashlib.blake2b(digest_size=32)
    try:
        _Walk(digest, local).dump(value)
    except Exception:
        digest = hashlib.blake2b(pickled(), digest_size=32)
    for name, module in modules.items():
        _Walk(digest, local).dump(("module", name, _code(module.code()), module.values))
    if version is not None:
        digest.update(f"version {version!r}".encode())
    return digest.hexdigest()


def part(*_: Any) -> None:
    """Stands in the walk for a call with its arguments. Never called."""


class _Hashed:
    """A file that is hashed, not kept."""

    def __init__(self, digest: Any) -> None:
        self.write = digest.update


class _Walk(pickle._Pickler):
    """Walks an object as a pickle does; nothing reads its output."""

    def __init__(self, digest: Any, local: frozenset[str]) -> None:
        super().__init__(_Hashed(digest), protocol=4)
        self._local = local

    def memoize(self, obj: Any) -> None:
        # Whether equal texts are one object depends on the code that made them.
        if not isinstance(obj, (str, bytes)):
            super().memoize(obj)  # type: ignore[misc]

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if obj is part:
            return NotImplemented
        if kind in (list, tuple, dict) and len(obj) >= _LONG:
            return _plain(obj)
        if kind in (set, frozenset):
            return part, (kind.__name__, sorted(self._digest(one) for one in obj))
        if kind is types.FunctionType:
            return self._function(obj)
        if kind is types.CodeType:
            return part, ("code", _code(obj))
        if kind is types.ModuleType:
            return self._module(obj)
        if kind is types.CellType:
            return part, ("cell",), _cell(obj)
        if kind in (staticmethod, classmethod):
            return part, (kind.__name__, obj.__func__)
        if kind is _CACHED:
            # A pickle contains its name alone.
            return part, ("cached", obj.__wrapped__)
        if kind is property:
            return part, ("property", obj.fget, obj.fset, obj.fdel)
        if kind is typing.TypeVar:
            return part, ("variable", obj.__name__)
        if kind is types.MappingProxyType:
            return part, ("mapping", dict(obj))
        if isinstance(obj, type):
            return self._class(obj)
        return NotImplemented

    def _function(self, function: types.FunctionType) -> Any:
        code = _code(function.__code__)
        if travels_by_name(function, self._local):
            own = code if _is_library(function.__module__) else None
            return part, ("function", function.__module__, function.__qualname__, own)
        names = sorted(set(_globals(function.__code__)) & function.__globals__.keys())
        state = {
            "code": code,
            "defaults": function.__defaults__,
            "keywords": function.__kwdefaults__,
            "closure": list(function.__closure__ or ()),
            "globals": [(name, function.__globals__[name]) for name in names],
            "attributes": {k: v for k, v in function.__dict__.items() if k != "__wrapped__"},
        }
        return part, ("function", function.__name__), state

    def _class(self, made: type) -> Any:
        if travels_by_name(made, self._local):
            library = _is_library(made.__module__)
            own = [f for f in vars(made).values() if isinstance(f, types.FunctionType)] if library else []
            return part, ("class", made.__module__, made.__qualname__, [_code(f.__code__) for f in own])
        descriptors = (types.GetSetDescriptorType, types.MemberDescriptorType)
        kept = {k: v for k, v in vars(made).items() if k not in _MADE and not isinstance(v, descriptors)}
        return part, ("class", made.__name__, type(made), made.__bases__), kept

    def _module(self, module: types.ModuleType) -> Any:
        if module.__name__ not in self._local:
            return part, ("module", module.__name__)
        kept = {k: v for k, v in sorted(vars(module).items()) if not k.startswith("__")}
        return part, ("module", module.__name__), kept

    def _digest(self, obj: Any) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        _Walk(digest, self._local).dump(obj)
        return digest.digest()


def travels_by_name(obj: Any, local: frozenset[str]) -> bool:
    """Returns whether a function or class travels by its name, which the reader of the pickle imports."""
    module = getattr(obj, "__module__", None)
    if not isinstance(module, str) or module == "__main__" or module in local:
        return False
    found: Any = sys.modules.get(module)
    for name in obj.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is obj


def _code(code: types.CodeType) -> list[Any]:
    """Returns the parts of code that decide its behaviour, in new lists, without its place in the source."""
    return [
        code.co_name,
        code.co_code,
        [_constant(one) for one in code.co_consts],
        list(code.co_names),
        list(code.co_varnames),
        list(code.co_freevars),
        list(code.co_cellvars),
        [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags],
        code.co_exceptiontable,
    ]


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return ["code", _code(value)]
    if isinstance(value, tuple):
        return ["tuple", [_constant(one) for one in value]]
    return frozenset(list(value)) if isinstance(value, frozenset) else value


def _globals(code: types.CodeType) -> Iterator[str]:
    """Yields the names of the globals that code uses, nested code included."""
    for instruction in dis.get_instructions(code):
        if instruction.opname.endswith(("_GLOBAL", "_NAME")):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


def _cell(cell: types.CellType) -> dict[str, Any]:
    try:
        return {"value": cell.cell_contents}
    except ValueError:
        return {"empty": True}


def _plain(value: Any) -> Any:
    """Reduces numbers, texts and lists of them to bytes; marshal's version 0 writes no references between objects."""
    try:
        return part, ("plain", marshal.dumps(value, 0))
    except ValueError:
        return NotImplemented


def _is_library(module: str) -> bool:
    return module.partition(".")[0] not in sys.stdlib_module_names | {"forebay", "cloudpickle"}
