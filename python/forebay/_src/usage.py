"""Adds the right call to Python's error about a wrong one, for calls that users know from other libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def explained(usage: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Adds a usage text to the `TypeError` of a call that does not fit the function.

    >>> import forebay as fb
    >>> try:
    ...     fb.range(9).batch(4, drop_last=True)
    ... except TypeError as error:
    ...     print(str(error).partition("; ")[2])
    batch(4, drop_remainder=True) leaves a short last batch out; batch(4, pad=0) pads lists
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
                raise TypeError(f"{error}; {usage}") from None

        return call

    return wrap
