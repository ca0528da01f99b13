"""Names for what users' functions compute: the same for the same code, in every process and wherever it lies.

A pickle is no such name: classes get a random number in it, sets have the order that this process gave them, and code
has the paths and lines of its source. So a function is walked as a pickle walks it, and what it is made of is hashed:
bytecode, constants, the globals and closures that it uses, and what those are made of. What travels by name (installed
libraries) counts by its name and its own bytecode.

Invariant: names that differ may be of the same code (then something is computed again, or refused); the same name is of
the same code, up to what an installed library uses in turn.
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
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forebay._src.imports import Module

#: What `functools.lru_cache` and `functools.cache` make of a function.
_CACHED = type(functools.lru_cache(len))

#: Lists of plain values this long are hashed at once.
_LONG = 64

#: Attributes of classes that say where they were written, or that Python makes of the others.
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
    pickled: bytes,
    modules: dict[str, Module],
    version: str | int | None = None,
) -> str:
    """Returns the name of what a function or an object computes.

    Args:
        value: The function or object.
        local: The modules that travel by value.
        pickled: Its pickle, whose hash is the name where something in it cannot be walked.
        modules: The modules that its code imports when it runs.
        version: What the user says that it is a version of.
    """
    digest = hashlib.blake2b(digest_size=32)
    try:
        _Walk(digest, local).dump(value)
    except Exception:
        digest = hashlib.blake2b(pickled, digest_size=32)
    for name, module in modules.items():
        _Walk(digest, local).dump(("module", name, _code(module.code()), module.values))
    if version is not None:
        digest.update(f"version {version!r}".encode())
    return digest.hexdigest()


def part(*_: Any) -> None:
    """Stands in the walk for whatever is made of its arguments. Never called."""


class _Hashed:
    """A file that is hashed, not kept."""

    def __init__(self, digest: Any) -> None:
        self.write = digest.update


class _Walk(pickle._Pickler):
    """Walks an object as a pickle does; nobody reads what it writes."""

    def __init__(self, digest: Any, local: frozenset[str]) -> None:
        super().__init__(_Hashed(digest), protocol=4)
        self._local = local

    def memoize(self, obj: Any) -> None:
        # Whether equal texts are one object depends on who made them.
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
            # A pickle has its name alone.
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
    """Says whether a function or class is found by its name where its pickle is read."""
    module = getattr(obj, "__module__", None)
    if not isinstance(module, str) or module == "__main__" or module in local:
        return False
    found: Any = sys.modules.get(module)
    for name in obj.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is obj


def _code(code: types.CodeType) -> list[Any]:
    """What code does: not where it was written, and of objects that nothing else has."""
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
    """The names of the globals that code uses, and the code inside it."""
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
    """Numbers, texts and lists of them at once; version 0 says of nothing whether it is the same object."""
    try:
        return part, ("plain", marshal.dumps(value, 0))
    except ValueError:
        return NotImplemented


def _is_library(module: str) -> bool:
    return module.partition(".")[0] not in sys.stdlib_module_names | {"forebay", "cloudpickle"}
