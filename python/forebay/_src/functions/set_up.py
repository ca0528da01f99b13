"""Classes in place of functions: each process makes an object of the class, when an iteration or job first calls it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping
from typing import Any

from forebay.errors import InvalidPipelineError


def is_class_of_functions(given: Any) -> bool:
    """Returns whether a class has objects that are called with a sample. A class of dictionaries is itself a function.

    >>> is_class_of_functions(dict), is_class_of_functions(lambda row: row)
    (False, False)
    """
    if not isinstance(given, type) or issubclass(given, Mapping):
        return False
    # A class has `type.__call__`, which makes an object, unless it or a base defines the call of its objects.
    return any("__call__" in vars(base) for base in given.__mro__)


class SetUp:
    """A function that makes an object of a class when it is first called, and then calls that object.

    Its pickle has the class and no object, so that models and open files need not travel.
    """

    def __init__(self, made: type) -> None:
        self._class, self._lock = made, threading.Lock()
        self._object: Any = None
        #: The parameters of a call, for callers that ask whether it takes `rng`.
        self.__signature__ = _signature_of_objects(made)
        self.__name__, self.__qualname__ = made.__name__, made.__qualname__

    def __call__(self, *arguments: Any) -> Any:
        """Calls the object."""
        if self._object is None:
            # Threads of a process share the object.
            with self._lock:
                if self._object is None:
                    self._object = self._class()
        return self._object(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves the object out."""
        return SetUp, (self._class,)


def set_up(op: str, made: type) -> SetUp:
    """Returns the function for a class.

    Raises:
        InvalidPipelineError: The class cannot be made without arguments.
    """
    try:
        parameters = inspect.signature(made).parameters.values()
        needed = [p for p in parameters if p.default is p.empty and p.kind not in _MANY]
    except (TypeError, ValueError):
        needed = []
    if needed:
        names = ", ".join(p.name for p in needed)
        hint = (
            f"give an object, {op}({made.__name__}(...)), which is pickled into the pipeline; or give the arguments "
            "defaults, so that each process makes its own object"
        )
        raise InvalidPipelineError(f"{op}: the class {made.__qualname__} needs arguments: {names}", {"hint": hint})
    return SetUp(made)


_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _signature_of_objects(made: type) -> inspect.Signature:
    """Returns the signature with which objects of a class are called; one argument if the class does not tell."""
    try:
        signature = inspect.signature(made.__call__)
    except (TypeError, ValueError):
        return inspect.Signature([inspect.Parameter("row", inspect.Parameter.POSITIONAL_ONLY)])
    is_bound = not inspect.isfunction(inspect.getattr_static(made, "__call__"))
    return signature.replace(parameters=list(signature.parameters.values())[0 if is_bound else 1 :])
