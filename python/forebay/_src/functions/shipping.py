"""A pickle with the modules that it needs when it runs, and a finder for processes that lack them.

The process that made the pickle uses its own modules. Every other process uses the modules of the pickle, before any of
the same name on its path, because the dataset's id depends on them. A process has one module of a name, so it refuses a
pickle with a different one, and another process is started for that pickle.
"""

from __future__ import annotations

import copy
import importlib.abc
import importlib.machinery
import pickle
import sys
import types
import uuid
from typing import Any

from forebay._src.functions.imports import Module, changed

#: The id of this process. A forked process has the same modules, and the same id.
_HERE = uuid.uuid4().hex


class OtherModulesError(ImportError):
    """This process has other modules with the names of a pickle's modules."""


class _Bundle:
    """Unpickles as the object of an inner pickle."""

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        """Loads modules first."""
        return load, self._parts


def bundle(pickled: bytes, modules: dict[str, Module]) -> bytes:
    """Puts modules beside a pickle.

    >>> import pickle
    >>> pickle.loads(bundle(pickle.dumps([1, 2]), {}))
    [1, 2]
    """
    parts = {name: (m.file, m.is_package, m.source, m.values) for name, m in modules.items()}
    return pickle.dumps(_Bundle(_HERE, parts, pickled))


def load(maker: str, parts: dict[str, tuple[str, bool, str, dict[str, Any]]], pickled: bytes) -> Any:
    """Unpickles an object in a process where its modules can be imported."""
    modules = {name: Module(*of) for name, of in parts.items()}
    if maker == _HERE:
        _check_unchanged(modules)
    else:
        _FINDER.add(modules)
    return pickle.loads(pickled)


def _check_unchanged(modules: dict[str, Module]) -> None:
    for name, module in modules.items():
        if changed(name, module):
            raise RuntimeError(
                f"the module {name}, which the function imports when it runs, was loaded again, or its file was "
                "changed, since the pipeline was written: make the pipeline again"
            )


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that came with pickles."""

    def __init__(self) -> None:
        self._modules: dict[str, Module] = {}

    def add(self, modules: dict[str, Module]) -> None:
        for name, module in modules.items():
            known = self._modules.get(name)
            other = known is not None and known != module
            # A module from another place is accepted if its code is the same.
            if other or (known is None and name in sys.modules and changed(name, module)):
                raise OtherModulesError(
                    f"the module {name} is loaded here as another version than the one that the function came with"
                )
        self._modules.update(modules)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """Finds a module by its name."""
        module = self._modules.get(fullname)
        if module is None:
            return None
        loader = _Loader(module)
        spec = importlib.machinery.ModuleSpec(fullname, loader, origin=module.file, is_package=module.is_package)
        spec.has_location = True
        return spec


class _Loader(importlib.abc.InspectLoader):
    def __init__(self, module: Module) -> None:
        self._module = module

    def get_source(self, _fullname: str) -> str:
        """Returns its source, for tracebacks."""
        return self._module.source

    def is_package(self, _fullname: str) -> bool:
        """Returns whether it is a package."""
        return self._module.is_package

    def get_code(self, _fullname: str) -> types.CodeType:
        """Compiles it."""
        return self._module.code()

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs it, and sets the values that it had in the process that made the pickle."""
        exec(self._module.code(), module.__dict__)
        module.__dict__.update(copy.deepcopy(self._module.values))


_FINDER = _Finder()
