"""Users' functions as bytes that workers can read."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import site as site_packages
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from forebay._src.functions import imports, shipping
from forebay._src.functions.code_names import name_of_code, travels_by_name
from forebay._src.site import site
from forebay.errors import InvalidPipelineError

#: Packages that every worker has, so their code travels by name from any folder.
_BY_NAME = frozenset(["forebay", "cloudpickle", "numpy"])


def dumps(value: Any, what: str, version: str | int | None = None) -> tuple[bytes, str]:
    """Pickles a function or an object, and returns a name of its code.

    Objects from the folder of the user's script travel whole; libraries travel by name. Modules of the user's that the
    code imports when it runs travel as their sources. `version` is part of the name.

    Raises:
        InvalidPipelineError: It cannot be pickled; the message names the part that cannot.
    """
    if isinstance(version, bool) or not isinstance(version, (str, int, type(None))):
        hint = "give a text or a whole number, and another one whenever what the code reads changes"
        raise InvalidPipelineError(f"{what}: version={version!r} is {type(version).__name__}", {"hint": hint})
    try:
        with _by_value() as local:
            pickled, functions = _dumps(value, local, with_files=True)
        modules = imports.imported(
            [(f.__code__, imports.package_of(f.__globals__)) for f in functions],
            lambda file: not is_installed(os.path.abspath(file)),
        )
        name = name_of_code(value, local, lambda: _without_files(value), modules, version)
        if modules and sum(len(m.source) for m in modules.values()) <= imports.SOURCE_BYTES_MAX:
            pickled = shipping.bundle(pickled, modules)
        return pickled, name
    except Exception as error:
        part = _culprit(value)
        held = f": it holds {part}" if part else ""
        file, line = site()
        context = {
            "cause": f"{type(error).__name__}: {error}",
            "line": f"{file}:{line}",
            "hint": "make what cannot travel (locks, files, connections) inside the function, at its first call",
        }
        raise InvalidPipelineError(f"{what} cannot be pickled{held}", context) from error


def _dumps(value: Any, local: frozenset[str], with_files: bool) -> tuple[bytes, list[types.FunctionType]]:
    """Pickles a value, its code with or without the names of its files, and returns the functions that travel whole."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if type(obj) is types.FunctionType and not travels_by_name(obj, local):
                functions.append(obj)
            if with_files and type(obj) is types.CodeType:
                return _with_file(obj.co_filename, self.dispatch_table[types.CodeType](obj))
            return super().reducer_override(obj)

    functions: list[types.FunctionType] = []
    file = io.BytesIO()
    Pickler(file).dump(value)
    return file.getvalue(), functions


#: The name that cloudpickle gives the file of all code.
_NO_FILE = "<dynamic-code>"


def _with_file(file: str, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Puts the name of its file back into pickled code, for tracebacks, warnings and debuggers."""
    make, arguments = reduced
    return make, tuple(file if part == _NO_FILE and type(part) is str else part for part in arguments)


def _without_files(value: Any) -> bytes:
    """Pickles a value as `dumps` does, but the same in every folder."""
    with _by_value() as local:
        return _dumps(value, local, with_files=False)[0]


def name_of(function: Callable[..., Any]) -> str:
    """Returns a function's name for messages."""
    inner = inspect.unwrap(function)
    inner = getattr(inner, "func", inner)
    return str(getattr(inner, "__qualname__", type(inner).__qualname__)).rpartition("<locals>.")[2]


def wants_rng(function: Callable[..., Any]) -> bool:
    """Returns whether a function has a second positional parameter named `rng`."""
    parameters = _positional(function)
    return len(parameters) >= 2 and parameters[1].name == "rng"


def second_parameter(function: Callable[..., Any]) -> str | None:
    """Returns the name of a second parameter that the function needs and that is not `rng`.

    >>> second_parameter(lambda x, y: x), second_parameter(lambda row, rng: row), second_parameter(lambda row, n=2: row)
    ('y', None, None)
    """
    parameters = _positional(function)
    needed = [p.name for p in parameters[1:2] if p.name != "rng" and p.default is inspect.Parameter.empty]
    return needed[0] if needed else None


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Returns the parameters that may be given by position; none if the function does not tell."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter for parameter in parameters if parameter.kind in kinds]


@contextlib.contextmanager
def _by_value() -> Iterator[frozenset[str]]:
    """Pickles modules that only this machine has by value while the context lasts. Yields their names."""
    local = _local_modules()
    registered = [module for module in local if _register(module)]
    try:
        yield frozenset(module.__name__ for module in local)
    finally:
        for module in registered:
            _unregister(module)


#: By the name of a module in cloudpickle's registry: how many contexts need it there. All threads share the registry.
_uses: dict[str, int] = {}
_uses_lock = threading.Lock()


def _register(module: types.ModuleType) -> bool:
    """Registers a module with cloudpickle; returns false if the user's own code has registered it."""
    import cloudpickle

    with _uses_lock:
        uses = _uses.get(module.__name__, 0)
        if uses == 0:
            if module.__name__ in cloudpickle.list_registry_pickle_by_value():
                return False
            cloudpickle.register_pickle_by_value(module)
        _uses[module.__name__] = uses + 1
        return True


def _unregister(module: types.ModuleType) -> None:
    import cloudpickle

    with _uses_lock:
        _uses[module.__name__] -= 1
        if _uses[module.__name__] == 0:
            del _uses[module.__name__]
            cloudpickle.unregister_pickle_by_value(module)


def _local_modules() -> list[types.ModuleType]:
    """Returns the modules in memory that lie in no folder of installed packages. `__main__` always travels.

    The file must exist, because some libraries make modules without a file under names like `_ops.py`.
    """
    return [
        module
        for name, module in list(sys.modules.items())
        if name != "__main__"
        and name.partition(".")[0] not in _BY_NAME
        and isinstance(module, types.ModuleType)
        and module.__name__ == name
        and (file := getattr(module, "__file__", None))
        and file.endswith(".py")
        and os.path.isfile(file)
        and not is_installed(os.path.abspath(file))
    ]


@lru_cache(maxsize=1)
def _installed_folders() -> tuple[str, ...]:
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    with contextlib.suppress(AttributeError):
        folders |= {*site_packages.getsitepackages(), site_packages.getusersitepackages()}
    return tuple(os.path.realpath(f) + os.sep for f in folders if f)


@lru_cache(maxsize=8192)
def is_installed(file: str) -> bool:
    """Returns whether a file lies in a folder of installed packages."""
    return os.path.realpath(file).startswith(_installed_folders()) or "site-packages" in file or "dist-packages" in file


def _culprit(value: Any) -> str | None:
    """Looks for the variable, attribute or global of a function that cannot be pickled."""
    import cloudpickle

    def fails(part: Any) -> bool:
        try:
            cloudpickle.dumps(part)
        except Exception:
            return True
        return False

    function = getattr(value, "func", value)
    function = getattr(function, "__func__", function)
    parts: list[tuple[str, Any]] = []
    if isinstance(function, types.FunctionType):
        closure = inspect.getclosurevars(function)
        parts += [(f"the variable {n!r}", v) for n, v in closure.nonlocals.items()]
        parts += [(f"the global {n!r}", v) for n, v in closure.globals.items()]
        defaults = inspect.signature(function).parameters.items()
        parts += [(f"the default of {n!r}", p.default) for n, p in defaults if p.default is not p.empty]
    owner = getattr(value, "__self__", None if isinstance(function, types.FunctionType) else value)
    if owner is not None and not isinstance(owner, types.ModuleType):
        parts += [(f"the attribute {n!r}", v) for n, v in getattr(owner, "__dict__", {}).items()]
    for name, part in parts:
        if fails(part):
            return f"{name} ({type(part).__name__})"
    return None
