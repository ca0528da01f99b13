"""Adds the right call to Python's error about a wrong one, for calls that users know from other libraries."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

#: What to write for arguments that functions of many libraries have.
THREADS = "leave it out: all threads are used, and iter(threads=n) limits them"
CREDENTIALS = "credentials come from the environment, such as AWS_ACCESS_KEY_ID: docs/stores.md"
COMPRESSION = "leave it out: the first bytes of a file say how it is compressed"

P = ParamSpec("P")
R = TypeVar("R")


def explained(usage: str, **keywords: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Adds a usage text to the `TypeError` of a call that does not fit the function.

    `keywords` has the texts for arguments that other libraries have, by their names.

    >>> import forebay as fb
    >>> try:
    ...     fb.range(9).batch(4, drop_last=True)
    ... except TypeError as error:
    ...     print(str(error).partition("; ")[2])
    write drop_remainder=True
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                # An error from inside the function has a frame of its own.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
                unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
                text = keywords.get(unknown[1], usage) if unknown else usage
                raise TypeError(f"{error}; {text}") from None

        return call

    return wrap


def name_methods(owner: type) -> None:
    """Puts the class that users see into the names of inherited methods.

    Python shows these names if a call does not fit.

    >>> import forebay as fb
    >>> fb.Dataset.batch.__qualname__
    'Dataset.batch'
    """
    for base in owner.__mro__:
        for name, member in vars(base).items() if base.__module__.startswith("forebay._src.") else ():
            while inspect.isfunction(member):
                member.__qualname__ = f"{owner.__name__}.{name}"
                member = getattr(member, "__wrapped__", None)
