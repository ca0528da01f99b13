"""Checks users' arguments and returns each in one form."""

from __future__ import annotations

import difflib
import glob
import math
import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from forebay import _native
from forebay._src.habits_formats import of_store
from forebay.errors import InvalidPipelineError, NotFoundError

PathLike: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = PathLike | Iterable[PathLike]
Size: TypeAlias = int | tuple[int, int]
#: The window of a shuffle: rows, a size like `"256MiB"`, None for all rows, or `"auto"`.
Window: TypeAlias = int | str | None


#: The most characters of a path.
_PATH_MAX = 4096
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def shown(value: Any) -> str:
    """Returns the `repr` of a value, cut if it is long.

    >>> shown("x"), len(shown("x" * 1000))
    ("'x'", 80)
    """
    return _SHORT.repr(value)


def path(value: PathLike, op: str) -> str:
    """Returns one path as a string."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        hint = "os.fsdecode() makes a string of it" if isinstance(text, bytes) else "name files as strings"
        message = f"{op}: a path is a string or a PathLike, not {type(text).__name__}"
        raise InvalidPipelineError(message, {"hint": hint})
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        message = f"{op}: a file's name is not utf-8"
        raise InvalidPipelineError(message, {"file": ascii(text)[1:-1], "hint": "rename the file"})
    if "\0" in text:
        raise InvalidPipelineError(f"{op}: a path has a byte of zero in it", {"file": ascii(text)[1:-1]})
    if len(text) > _PATH_MAX:
        hint = {"hint": "name a file, a folder, a glob or a url"}
        raise InvalidPipelineError(f"{op}: {shown(text)} is no path", hint)
    if advice := of_store(text):
        raise InvalidPipelineError(f"{op}: no address that Forebay reads", {"file": text, "hint": advice})
    return of_home(text, op) if text.startswith("~") else text


def of_home(text: str, op: str) -> str:
    """Expands `~` and `~name` at the beginning of a path or pattern to the user's home folder, as the shell does.

    >>> of_home("~/shards/0.tar", "from_tar") == os.path.expanduser("~/shards/0.tar")
    True
    """
    if os.path.lexists(text):
        return text
    name, slash, rest = text.partition("/")
    home = os.path.expanduser(name)
    if home == name:
        hint = f"write {'./' + name!r} for a folder whose name begins with ~"
        raise InvalidPipelineError(f"{op}: this machine has no user {name[1:]!r}", {"file": text, "hint": hint})
    is_pattern = any(letter in rest for letter in "*?[{")
    return (glob.escape(home) if is_pattern else home).rstrip("/") + slash + rest


def paths(value: Paths, op: str) -> list[str]:
    """Returns one path, or many, as a list."""
    if isinstance(value, (str, bytes, os.PathLike)) or not isinstance(value, Iterable):
        return [path(value, op)]
    if hasattr(value, "read"):
        hint = "name the file: workers open it, too"
        raise InvalidPipelineError(
            f"{op}: a path is a string or a PathLike, not {type(value).__name__}", {"hint": hint}
        )
    if isinstance(value, Mapping):
        hint = f"name the files of one part: {op}(files[{next(iter(value), 'train')!r}])"
        raise InvalidPipelineError(f"{op}: paths is a dictionary, whose values are not read", {"hint": hint})
    if isinstance(value, (set, frozenset)):
        raise InvalidPipelineError(f"{op}: paths is a set, which has no order", {"hint": "write sorted(paths)"})
    found = [path(p, op) for p in value]
    if not found:
        raise InvalidPipelineError(f"{op}: no paths were given")
    return found


def size(value: Size, op: str) -> dict[str, int]:
    """Returns height and width of a square, or of `(height, width)`."""
    try:
        height, width = (value, value) if hasattr(value, "__index__") else value
    except (TypeError, ValueError):
        hint = {"hint": "use a number of pixels for a square, or (height, width)"}
        raise InvalidPipelineError(f"{op}: size={shown(value)} is no size", hint) from None
    return {"height": whole(height, op, "size", 1), "width": whole(width, op, "size", 1)}


def whole(value: Any, op: str, name: str, least: int, most: int = 2**63 - 1) -> int:
    """Checks a whole number."""
    try:
        number = value.__index__()
    except (AttributeError, TypeError):
        raise InvalidPipelineError(f"{op}: {name} is a whole number, not {shown(value)}") from None
    if not least <= number <= most:
        limit = f"{least} or more" if number < least and most == 2**63 - 1 else f"{least} to {most}"
        raise InvalidPipelineError(f"{op}: {name}={number} is out of range", {"hint": f"use {limit}"})
    return int(number)


def amount(value: int | str | None, op: str, name: str) -> str | None:
    """Returns a number of bytes, or a text like `"4GiB"`, as a text."""
    return value if value is None or isinstance(value, str) else str(whole(value, op, name, 0))


def window(value: Window, op: str) -> str | dict[str, int]:
    """Returns the window of a shuffle, in rows or bytes, in the form that the graph has.

    >>> window("auto", "shuffle"), window(None, "shuffle"), window(1000, "shuffle"), window("64KiB", "shuffle")
    ('auto', 'global', {'rows': 1000}, {'bytes': 65536})
    """
    if value is None:
        return "global"
    if not isinstance(value, str):
        return {"rows": whole(value, op, "window", 1)}
    if value == "auto":
        return value
    try:
        size = _native.bytes_of(value)
    except InvalidPipelineError as error:
        hint = "use a number of rows, a size like '256MiB', None for all rows, or 'auto'"
        raise InvalidPipelineError(f"{op}: window={shown(value)} is no size", {"hint": hint}) from error
    return {"bytes": whole(size, op, "window", 1)}


def prices(value: dict[str, float], op: str, name: str) -> str:
    """Returns prices, each with its key, as a text.

    >>> prices({"month": 0.023, "worker": 0.38}, "up", "cache_prices")
    'month=0.023,worker=0.38'
    """
    if not isinstance(value, dict):
        hint = "give prices by what they are for: {'month': 0.023, 'write': 0.005, 'worker': 0.38}"
        raise InvalidPipelineError(f"{op}: {name}={shown(value)} is no dict", {"hint": hint})
    return ",".join(f"{what}={number(price, op, f'{name}[{what!r}]')}" for what, price in value.items())


def columns(value: str | Iterable[str] | None, op: str, name: str) -> list[str] | None:
    """Returns one name, or many, as a list.

    >>> columns("label", "from_parquet", "columns"), columns(None, "map", "reads")
    (['label'], None)
    """
    if value is None or isinstance(value, str):
        return None if value is None else [value]
    found = list(value) if isinstance(value, Iterable) else [value]
    for column in found:
        text(column, op, name)
    return found


def text(value: Any, op: str, name: str) -> str:
    """Checks a text."""
    if not isinstance(value, str):
        raise InvalidPipelineError(
            f"{op}: {name}={shown(value)} is not a string", {"hint": "give its name as a string"}
        )
    return value


def mapping(value: Any, op: str, name: str, usage: str) -> None:
    """Checks a dictionary by column names, or `None`."""
    if value is None or (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        return
    is_keyed = isinstance(value, Mapping)
    wrong = "has a key that is not a string" if is_keyed else f"is a dictionary by column, not {type(value).__name__}"
    raise InvalidPipelineError(f"{op}: {name} {wrong}", {"hint": usage})


def seed(value: int, op: str) -> int:
    """Checks a seed."""
    return whole(value, op, "seed", 0, 2**64 - 1)


def consumers(value: tuple[int, int], op: str) -> tuple[int, int]:
    """Checks a consumer's index and the number of consumers.

    >>> consumers((1, 4), "iter")
    (1, 4)
    """
    try:
        index, count = value
    except (TypeError, ValueError):
        hint = "give which consumer this is of how many, as consumers=(rank, world); one alone is (0, 1)"
        raise InvalidPipelineError(f"{op}: consumers={shown(value)} is not (index, count)", {"hint": hint}) from None
    count = whole(count, op, "consumers[1]", 1, 2**20)
    return whole(index, op, "consumers[0]", 0, count - 1), count


def consumers_or_none(value: tuple[int, int] | None, op: str) -> tuple[int, int] | None:
    """As `consumers`, but returns `None` if the user gave nothing."""
    return None if value is None else consumers(value, op)


def local(value: int | str) -> int | None:
    """Returns the number of threads that compute beside a consumer, or `None` if Forebay measures it.

    >>> local("auto"), local(0)
    (None, 0)
    """
    if value == "auto":
        return None
    cores = _native.cores()
    hint = {"hint": f'use 0 to {cores}, the cores that this process may use, or "auto"'}
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidPipelineError(f"distribute: local={shown(value)} is no number of threads", hint)
    threads = value.__index__()
    if not 0 <= threads <= cores:
        raise InvalidPipelineError(f"distribute: local={threads} is out of range", hint)
    return threads


def flag(value: Any, op: str, name: str, hint: str = "use True or False") -> bool:
    """Accepts only `True` and `False` (Python's or NumPy's), no other value that is true, such as `"no"`.

    >>> flag(False, "up", "cache_source")
    False
    """
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidPipelineError(f"{op}: {name}={shown(value)} is not a bool", {"hint": hint})
    return bool(value)


def flag_or_none(value: Any, op: str, name: str) -> bool | None:
    """As `flag`, and accepts `None`, which leaves the decision to another place."""
    return None if value is None else flag(value, op, name, "use True, False or None")


#: The action of ranks at the first step of an epoch for which some of them have a batch and others have none.
Even: TypeAlias = Literal["drop", "pad", "error"]
_EVEN = ("drop", "pad", "error")


def even(value: Any, op: str) -> bool | Even | None:
    """Returns whether consumers get equal shares, or the action at the first step that not all of them have."""
    if isinstance(value, str) and value in _EVEN:
        return cast("Even", value)
    return None if value is None else flag(value, op, "even", "use True, False, 'drop', 'pad', 'error' or None")


def even_alone(value: Any, op: str) -> bool | None:
    """As `even`, for consumers that do not know of each other."""
    if isinstance(value, str) and value in _EVEN:
        message = f"{op}: even={shown(value)} is for consumers that ask each other how many batches they have"
        hint = f"use distribute(even={value!r}) on a service, or to_torch(even={value!r}) over torch.distributed"
        raise InvalidPipelineError(message, {"hint": hint})
    return flag_or_none(value, op, "even")


def seconds(value: Any, op: str, name: str) -> float:
    """Checks a span of time.

    >>> seconds(1, "distribute", "rank_timeout")
    1.0
    """
    found = number(value, op, name)
    if not 0 < found <= 1e9:
        raise InvalidPipelineError(f"{op}: {name}={found} is out of range", {"hint": "use more than 0 seconds"})
    return found


def dealt_and_ended(even: bool | Even | None) -> tuple[bool | None, Even | None]:
    """Returns how an epoch is dealt, and the action if consumers then have unequal numbers of batches.

    >>> dealt_and_ended("drop"), dealt_and_ended("pad"), dealt_and_ended(True)
    ((None, 'drop'), (False, 'pad'), (True, None))
    """
    if isinstance(even, str):
        return (None if even == "drop" else False), even
    return even, None


def choice(value: str, op: str, name: str, *known: str) -> str:
    """Checks that a word is one of a few."""
    if not isinstance(value, str) or value not in known:
        words = " or ".join(map(repr, known))
        raise InvalidPipelineError(f"{op}: unknown {name} {shown(value)}", {"hint": f"use {words}"})
    return value


def known_column(op: str, name: str, names: Sequence[str]) -> None:
    """Raises NotFoundError if `names` has no column `name`."""
    if name in names:
        return
    near = difflib.get_close_matches(name, names, 1)
    hint = {"hint": f'did you mean "{near[0]}"?'} if near else {}
    raise NotFoundError(f'there is no column "{name}"', {"columns": ", ".join(names), "op": op} | hint)


def wholes(value: Any, op: str, name: str, least: int) -> list[int]:
    """Checks a list of whole numbers."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        hint = {"hint": f"write {name}=[{shown(int(value))}]"} if is_number else {}
        raise InvalidPipelineError(f"{op}: {name} is a list of whole numbers, not {shown(value)}", hint)
    return [whole(one, op, name, least) for one in value]


def number(value: Any, op: str, name: str) -> float:
    """Checks a finite number."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise InvalidPipelineError(f"{op}: {name} is a number, not {shown(value)}") from None
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise InvalidPipelineError(f"{op}: {name}={found} is out of range", {"hint": "use a finite number"})
    return found


def numbers(value: Any, op: str, name: str) -> list[float]:
    """Returns one number, or many, as a list."""
    found = value if isinstance(value, Iterable) and getattr(value, "shape", None) != () else [value]
    return [number(v, op, name) for v in found]


def around(value: Any, op: str, name: str, centre: float) -> tuple[float, float]:
    """Returns a pair of numbers; one number `x` is `(centre - x, centre + x)`. A factor (around 1) is not negative."""
    if isinstance(value, Iterable) and getattr(value, "shape", None) != ():
        return interval(value, op, name)
    reach = number(value, op, name)
    if reach < 0:
        raise InvalidPipelineError(
            f"{op}: {name}={reach} is out of range", {"hint": "use a number that is not negative, or (least, greatest)"}
        )
    return max(centre - reach, 0.0) if centre else -reach, centre + reach


def interval(value: Any, op: str, name: str) -> tuple[float, float]:
    """Checks a pair of numbers."""
    found = numbers(value, op, name)
    if len(found) != 2:
        raise InvalidPipelineError(f"{op}: {name} has {len(found)} numbers", {"hint": "use (least, greatest)"})
    return found[0], found[1]
