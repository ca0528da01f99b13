"""Checks of the arguments of expressions: each check returns the plain value that travels with a pipeline."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any, Final

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


def unicode_text(what: str, value: str) -> str:
    """Returns a text without lone surrogates, which no encoding can express."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a string, not {type(value).__name__}")
    word = str.__str__(value)
    try:
        word.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what}: {word!r} is not valid Unicode: it has a surrogate by itself") from None
    return word


#: The most values of ``isin``.
_VALUES_MAX: Final = 2**20


def distinct_values(values: Iterable[Any], what: str = "isin") -> tuple[str, list[Any]]:
    """Returns the type of values (``texts``, ``ints`` or ``floats``), and the values in rising order, each once."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{what}: values is a list or a set, not {type(values).__name__}")
    found = [value.item() if hasattr(value, "item") else value for value in values]
    if len(found) > _VALUES_MAX:
        raise ValueError(f"{what}: {len(found)} values; use at most 2**20, or filter(fn) with a set")
    if any(isinstance(value, str) for value in found):
        wrong = next((value for value in found if not isinstance(value, str)), None)
        if wrong is not None:
            raise TypeError(f"{what}: {wrong!r} is among strings; give values of one type")
        return "texts", sorted({unicode_text(what, value) for value in found}, key=str.encode)
    for value in found:
        if not isinstance(value, numbers.Real) or value != value:
            raise TypeError(f"{what}: {value!r} is no number or string; missing and nan have is_null() and is_nan()")
    if all(isinstance(value, numbers.Integral) for value in found):
        whole = sorted({int(value) for value in found})
        if any(not INT64_MIN <= value <= INT64_MAX for value in whole):
            raise OverflowError(f"{what}: an integer does not fit 64 bits")
        return "ints", whole
    real = sorted({float(value) for value in found})
    if not all(map(math.isfinite, real)):
        raise ValueError(f"{what}: infinity is not taken; compare with > or <")
    return "floats", real


def one_type(values: list[Any], what: str) -> tuple[str, list[Any]]:
    """Returns the type of values, and these as strings, integers or floats of Python."""
    found = [value.item() if hasattr(value, "item") else value for value in values]
    if any(isinstance(value, str) for value in found):
        wrong = next((value for value in found if not isinstance(value, str)), None)
        if wrong is not None:
            raise TypeError(f"{what}: {wrong!r} is among strings; give values of one type")
        return "texts", [unicode_text(what, value) for value in found]
    for value in found:
        if not isinstance(value, numbers.Real):
            raise TypeError(f"{what}: a value is a number or a string, not {type(value).__name__}")
    if all(isinstance(value, numbers.Integral) for value in found):
        if any(not INT64_MIN <= value <= INT64_MAX for value in found):
            raise OverflowError(f"{what}: an integer does not fit 64 bits")
        return "ints", [int(value) for value in found]
    return "floats", [float(value) for value in found]


def edge(bound: Any) -> float:
    """Returns a finite bound of ``bucketize``."""
    if not isinstance(bound, numbers.Real):
        raise TypeError(f"bucketize: a bound is a number, not {type(bound).__name__}")
    found = float(bound)
    if not math.isfinite(found):
        raise ValueError(f"bucketize: a bound is {found}; use finite numbers")
    return found


def integer(what: str, value: Any) -> int:
    """Returns a whole number; ``what`` names the argument in the error."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{what} is an integer, not {type(value).__name__}")
    return int(value)


def limit(what: str, value: Any, unlimited: float) -> float | None:
    """Returns a limit of ``clip`` as a float64, or None for ``unlimited``."""
    if value is None:
        return None
    if not isinstance(value, numbers.Real) and not hasattr(value, "__float__"):
        raise TypeError(f"clip: {what} is a number, not {type(value).__name__}")
    bound = float(value)
    if isinstance(value, numbers.Integral) and int(value) != bound:
        raise ValueError(f"clip: {what} is {value}, which no float64 is; use fb.where to limit so large integers")
    if math.isnan(bound) or bound == -unlimited:
        raise ValueError(f"clip: {what} is {bound}; use a number, or None for no limit")
    return None if bound == unlimited else bound
