"""Adds the right call to Python's error about a wrong one, for calls that users know from other libraries."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

#: Arguments that a usage text leaves out: `self`, and two that all ops have.
_NOT_SHOWN = ("self", "keep_position", "name")
#: What to write for arguments that functions of many libraries have.
THREADS = "leave it out: all threads are used, and iter(threads=n) limits them"
CREDENTIALS = (
    'write fb.storage_options("s3://bucket", {...}) before, or set AWS_PROFILE or AWS_ACCESS_KEY_ID: docs/stores.md'
)
COMPRESSION = "leave it out: the first bytes of a file say how it is compressed"
#: What to write for arguments that readers of other libraries have.
READERS = {
    "batch_size": "put .batch(n) behind it",
    "cache_dir": "leave it out: .cache() keeps rows",
    "encoding": "files are UTF-8: convert others once, with iconv",
    "engine": "leave it out: files are read here",
    "limit": "put .take(n) behind it",
    "n_rows": "put .take(n) behind it",
    "nrows": "put .take(n) behind it",
    "num_proc": THREADS,
    "num_workers": THREADS,
    "seed": "the seed is that of the iteration, as in iter(seed=1)",
    "shuffle": "put .shuffle() behind it",
    "split": "name the files of the part",
    "streaming": "leave it out: files are always streamed",
    "transform": "put ops, or .map(fn), behind it",
}

P = ParamSpec("P")
R = TypeVar("R")


def explained(usage: str | None = None, **keywords: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Adds a usage text to the `TypeError` of a call that does not fit the function.

    Args:
        usage: The text. Default: the nearest name for a wrong keyword, else the arguments that there are.
        **keywords: The texts for arguments that other libraries have, by their names.

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
                text = text or _usage(function, unknown[1] if unknown else "")
                raise TypeError(f"{error}; {text}") from None

        return call

    return wrap


def _usage(function: Callable[..., object], unknown: str) -> str:
    """Returns the nearest name for a keyword that a function has not, or its call."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in _NOT_SHOWN]
    if near := difflib.get_close_matches(unknown, [p.name for p in parameters], 1):
        return f"did you mean {near[0]}=?"
    return f"write {function.__name__}({', '.join(map(_shown, parameters))})"


def _shown(parameter: inspect.Parameter) -> str:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    needed = parameter.kind is not inspect.Parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    return parameter.name if needed else f"{parameter.name}=..."


def name_methods(owner: type) -> None:
    """Puts the class that users see into the names of inherited methods, and has errors of wrong calls explained.

    Python shows these names if a call does not fit.

    >>> import forebay as fb
    >>> fb.Dataset.batch.__qualname__
    'Dataset.batch'
    >>> fb.range(9).center_crop("image", 5, 5)
    Traceback (most recent call last):
    TypeError: Dataset.center_crop() takes 3 positional arguments but 4 were given; write center_crop(column, size)
    >>> fb.range(9).decode_audio("wav", sampling_rate=16000)
    Traceback (most recent call last):
    TypeError: Dataset.decode_audio() got an unexpected keyword argument 'sampling_rate'; did you mean sample_rate=?
    """
    for base in owner.__mro__:
        for name, member in list(vars(base).items()) if base.__module__.startswith("forebay._src.") else ():
            if inspect.isfunction(member) and not name.startswith("_") and not hasattr(member, "__wrapped__"):
                member = explained()(member)
                setattr(base, name, member)
            while inspect.isfunction(member):
                member.__qualname__ = f"{owner.__name__}.{name}"
                member = getattr(member, "__wrapped__", None)
