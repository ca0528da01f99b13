"""Functions of texts and lists in expressions: `fb.col("name").str.lower()`, `fb.col("ids").list.slice(0, 512)`.

They are grouped as in pandas and polars. Places in texts count characters, as in Python; a missing value stays missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

import numpy as np
from forebay._src import habits, habits_expressions
from forebay._src.expr.expr_times import unit_of
from forebay._src.site import warn
from forebay._src.usage import explained, name_methods

if TYPE_CHECKING:
    from forebay._src.expr.expr import Expr


#: Parts of patterns that are rare in other texts: classes of characters, repetitions, alternatives, a beginning.
_LIKE_A_PATTERN: Final = re.compile(r"\\[dDwWsSb]|\.[*+]|\w\|\w|^\^|\][*+]")
#: Stands for a default that is not given: `None` is one.
_NO_DEFAULT: Any = type("_NoDefault", (), {"__repr__": lambda _: "<an error>"})()


class _Functions:
    """Functions of one kind of column."""

    __slots__ = ("_of",)

    #: The owner of names, and names of other libraries with the code to write here.
    _ELSEWHERE: ClassVar[tuple[str, Mapping[str, str]]]

    def __init__(self, of: Expr) -> None:
        self._of = of

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Python calls this for a name that the class lacks. The error says what to write instead."""
            owner, known = self._ELSEWHERE
            raise habits.missing(owner, name, known, habits.public_names(self, name))

    def __getitem__(self, key: Any) -> NoReturn:
        """Says what to write: pandas has `.str[0:3]`, and Python's lists `[0]`."""
        owner, first = self._ELSEWHERE[0], "get(0)" if isinstance(self, ListFunctions) else "slice(0, 1)"
        raise TypeError(f"{owner} has no [...]: write {owner}.slice(start, stop), and {owner}.{first} for the first")

    def _call(self, space: str, name: str, args: tuple[Any, ...], call: dict[str, Any]) -> Expr:
        return self._called_with(space, name, ", ".join(map(repr, args)), call)

    def _called_with(self, space: str, name: str, written: str, call: dict[str, Any]) -> Expr:
        return self._of._called(f".{space}.{name}({written})", call)

    def len(self) -> Expr:
        """How many characters or items there are, as int64."""
        return self._of.len()


class TextFunctions(_Functions):
    """Functions of strings. Bytes need `.cast(str)` first.

    >>> import forebay as fb
    >>> ds = fb.from_dict({"name": [" Ada Lovelace ", "Alan Turing"]})
    >>> ds = ds.with_column("last", fb.col("name").str.strip().str.split(" ", -1).str.lower())
    >>> [row["last"] for row in ds]
    ['lovelace', 'turing']
    """

    __slots__ = ()
    _ELSEWHERE = (".str", habits_expressions.TEXTS)

    def lower(self) -> Expr:
        """In lower case, as Python's `str.lower`."""
        return self._text("lower", (), {})

    def upper(self) -> Expr:
        """In upper case, as Python's `str.upper`."""
        return self._text("upper", (), {})

    def strip(self, chars: str | None = None) -> Expr:
        """Without white space, or these characters, at both ends, as Python's `str.strip`."""
        return self._text("strip", () if chars is None else (chars,), {"chars": _word("strip", "chars", chars, True)})

    def slice(self, start: int | None = None, stop: int | None = None) -> Expr:
        """The characters from `start` to before `stop`, as Python's `text[start:stop]`.

        A `stop` that never lies behind `start` is a `ValueError`.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"file": ["cat.jpg", "dog.png"]})
        >>> [row["kind"] for row in ds.with_column("kind", fb.col("file").str.slice(-3))]
        ['jpg', 'png']
        """
        return self._call("str", "slice", (start, stop), {"fn": "substring", **_slice(start, stop)})

    @explained(
        regex="leave it out: text is one, letter by letter; search(pattern) takes patterns",
    )
    def contains(self, text: str) -> Expr:
        """Whether this text is in it, letter by letter; `search` takes patterns.

        A text that looks like a pattern is warned of, because pandas and polars take a pattern here.
        """
        if isinstance(text, str) and _LIKE_A_PATTERN.search(text):
            written = f"search({re.escape(text)!r}) looks for these letters, and has no warning"
            warn(f"contains({text!r}) looks for these letters, and search({text!r}) for the pattern; {written}")
        return self._text("contains", (text,), {"text": _word("contains", "text", text)})

    def starts_with(self, text: str) -> Expr:
        """Whether it begins with this text."""
        return self._text("starts_with", (text,), {"text": _word("starts_with", "text", text)})

    def ends_with(self, text: str) -> Expr:
        """Whether it ends with this text."""
        return self._text("ends_with", (text,), {"text": _word("ends_with", "text", text)})

    @explained('replace("old", "new"), or replace(r"(\\d+)", r"<\\1>", regex=True)')
    def replace(self, old: str, new: str, *, regex: bool = False) -> Expr:
        r"""With each `old` replaced by `new`, letter by letter, as Python's `str.replace`.

        With `regex`, `old` is a pattern, as for `match`, and `new` may have groups of a match in it, `\1` or
        `\g<name>`, as for Python's `re.sub`, and `\$` for a dollar sign before a digit. An empty match right behind
        another match is not replaced; `re.sub` replaces it.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"day": ["29.02.2024"]})
        >>> swapped = fb.col("day").str.replace(r"(\d+)\.(\d+)\.(\d+)", r"\3-\2-\1", regex=True)
        >>> [row["day"] for row in ds.with_column("day", swapped)]
        ['2024-02-29']
        """
        words = {"old": _word("replace", "old", old), "new": _word("replace", "new", new)}
        if not isinstance(regex, bool):
            raise TypeError(f"replace: regex is True or False, not {type(regex).__name__}")
        if not regex:
            return self._text("replace", (old, new), words)
        call = {"fn": "replace_pattern", "pattern": words["old"], "new": words["new"]}
        return self._called_with("str", "replace", f"{old!r}, {new!r}, regex=True", call)

    def extract(self, pattern: str, group: int | str = 1) -> Expr:
        r"""A group of the first match of a pattern, as pandas' and polars' `extract`; missing where there is none.

        Args:
            pattern: The pattern, as for `match`.
            group: The group in parentheses, by its number or name; 0 is the whole match.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"file": ["cat_017.jpg", "dog.png"]})
        >>> [row["n"] for row in ds.with_column("n", fb.col("file").str.extract(r"_(\d+)"))]
        ['017', None]
        """
        call = {"fn": "extract", "pattern": _word("extract", "pattern", pattern)}
        place = _word("extract", "group", group) if isinstance(group, str) else _place("extract", "group", group)
        return self._call("str", "extract", (pattern, group), {**call, "group": place})

    def findall(self, pattern: str) -> Expr:
        r"""All matches of a pattern, a list of strings, as Python's `re.findall`; of a pattern with a group, its parts.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"text": ["a #cat and a #dog"]})
        >>> [row["tags"] for row in ds.with_column("tags", fb.col("text").str.findall(r"#(\w+)"))]
        [['cat', 'dog']]
        """
        call = {"fn": "find_all", "pattern": _word("findall", "pattern", pattern)}
        return self._call("str", "findall", (pattern,), call)

    def match(self, pattern: str) -> Expr:
        r"""Whether the pattern matches at the beginning, as Python's `re.match`.

        Patterns are those of Rust's `regex` crate, which takes linear time on any text. They are written as in Python,
        but have no look-around and no back-references. `^` and `$` are the ends of the text, and
        Python's `\Z` is written `\z`. `(?i)` at the beginning ignores case.
        """
        return self._text("match", (pattern,), {"pattern": _word("match", "pattern", pattern), "from_start": True})

    def search(self, pattern: str) -> Expr:
        r"""Whether the pattern matches anywhere, as Python's `re.search`; patterns are those of `match`.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"text": ["call 555-0199", "no number"]})
        >>> [row["text"] for row in ds.filter(fb.col("text").str.search(r"\d{3}-\d{4}"))]
        ['call 555-0199']
        """
        return self._text("search", (pattern,), {"pattern": _word("search", "pattern", pattern), "from_start": False})

    @explained("split() at white space, split(','), or split(',', index) for one part")
    def split(self, separator: str | None = None, index: int | None = None) -> Expr:
        """Its parts between separators, a list of strings, as Python's `text.split(separator)`.

        Without a separator, its parts between white space of any length, none of which is empty. With `index`, only the
        part at this index, which counts from the end if negative. It is missing if the text has fewer parts.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"tags": ["cat,pet", "dog"]}).with_column("tags", fb.col("tags").str.split(","))
        >>> ds.schema, [row["tags"] for row in ds]
        (Schema(tags: string[?]), [['cat', 'pet'], ['dog']])
        """
        if separator is None:
            if index is None:
                return self._call("str", "split", (), {"fn": "words"})
            return self._call("str", "split", (None, index), {"fn": "words", "index": _place("split", "index", index)})
        part = {"separator": _word("split", "separator", separator)}
        if index is None:
            return self._call("str", "split", (separator,), {"fn": "split_all", **part})
        return self._text("split", (separator, index), {**part, "index": _place("split", "index", index)})

    def to_int(self, base: int = 10) -> Expr:
        """The whole number that the text spells in a base, as int64: Python's `int(text, base)`, without underscores.

        A text that spells no number is an error of its sample.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"id": ["ff", "0x10"]}).with_column("id", fb.col("id").str.to_int(16))
        >>> [int(row["id"]) for row in ds]
        [255, 16]
        """
        return self._text("to_int", (base,), {"base": _place("to_int", "base", base)})

    def to_time(self, unit: str, format: str | None = None) -> Expr:
        """The time of a text, as int64: the number of `unit` since 1970-01-01 00:00 UTC.

        It reads ISO 8601: `2024-02-29`, `2024-02-29 13:45` and `2024-02-29T13:45:10.25+01:00`. A time without a zone is
        one of UTC. A fraction of the unit is cut off. A text that writes no time is an error of its sample.

        Args:
            unit: `"D"` (days), `"s"`, `"ms"`, `"us"` or `"ns"`.
            format: Another form, as for Python's `datetime.strptime`: `"%d/%m/%Y %H:%M"`. It may have `%Y %y %m %b %B
                %d %j %a %A %H %I %p %M %S %f %z %Z %%`, with English names; `%f` has up to 9 digits. It has a year; a
                month and a day that it lacks are the first.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"day": ["2024-02-29"]}).with_column("day", fb.col("day").str.to_time("D"))
        >>> [int(row["day"]) for row in ds.with_column("day", fb.col("day").dt("D").ordinal_day())]
        [60]
        """
        call = {"unit": unit_of("to_time", unit).lower()}
        if format is None:
            return self._text("to_time", (unit,), call)
        return self._text("to_time", (unit, format), {**call, "format": _word("to_time", "format", format)})

    def to_float(self) -> Expr:
        """The number that the text spells, as float64: `cast("float64")`."""
        return self._of.cast("float64")

    def _text(self, name: str, args: tuple[Any, ...], call: dict[str, Any]) -> Expr:
        given = {key: value for key, value in call.items() if key != "chars" or value is not None}
        return self._call("str", name, args, {"fn": "match" if name == "search" else name, **given})


class ListFunctions(_Functions):
    """Functions of lists and arrays: columns like `int32[?]`, `float32[8]` or `string[?]`.

    Lists of strings have `get slice len lookup contains join`.

    >>> import forebay as fb, numpy as np
    >>> ds = fb.from_dict({"x": [np.array([1, 2, 3]), np.array([4])]})
    >>> ds = ds.with_column("mean", fb.col("x").list.mean()).with_column("last", fb.col("x").list.get(-1))
    >>> [(float(row["mean"]), int(row["last"])) for row in ds]
    [(2.0, 3), (4.0, 4)]
    """

    __slots__ = ()
    _ELSEWHERE = (".list", habits_expressions.LISTS)

    def get(self, index: int, *, default: Any = _NO_DEFAULT) -> Expr:
        """The item at `index` of the first dimension, from the end if negative.

        Args:
            index: The place of the item.
            default: What a list without such an item gives: a value of the items' type, or `None` for a missing value.
                By default such a list is an error of its sample.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_dict({"x": [np.array([1, 2]), np.array([], int)]})
        >>> [int(row["x"]) for row in ds.with_column("x", fb.col("x").list.get(0, default=-1))]
        [1, -1]
        """
        call = {"fn": "get", "index": _place("get", "index", index)}
        if default is _NO_DEFAULT:
            return self._call("list", "get", (index,), call)
        return self._called_with("list", "get", f"{index!r}, default={default!r}", {**call, "default": _item(default)})

    def slice(self, start: int | None = None, stop: int | None = None) -> Expr:
        """The items from `start` to before `stop` of the first dimension, as Python's `items[start:stop]`.

        Both are places. Where Polars writes `slice(offset, length)`, write `slice(offset, offset + length)`. A `stop`
        that never lies behind `start`, and one from the beginning with a `start` from the end, are a `ValueError`.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_dict({"x": [np.arange(5)]}).with_column("x", fb.col("x").list.slice(2, 2 + 3))
        >>> ds[0]["x"].tolist()
        [2, 3, 4]
        """
        return self._call("list", "slice", (start, stop), {"fn": "slice", **_slice(start, stop)})

    def lookup(self, table: Mapping[Any, Any], default: Any = None) -> Expr:
        """The value that a dictionary has for each item, as `lookup` gives for single values.

        Args:
            table: Values by key: at most 2**20. Keys are numbers or strings.
            default: The value for other keys. Lists of numbers need one; None: a string is missing.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"text": ["the cat", "a dog"]}).with_column("words", fb.col("text").str.split())
        >>> ds = ds.with_column("ids", fb.col("words").list.lookup({"cat": 1, "dog": 2}, default=0))
        >>> [row["ids"].tolist() for row in ds]
        [[0, 1], [0, 2]]
        """
        made = self._of.lookup(table, default)
        call = made._parts[-1]["call"]
        return self._of._called(f".list.lookup({{{len(table)} keys}})", {**call, "fn": "lookup_items"})

    def contains(self, text: str) -> Expr:
        """Whether this text is one of a list of strings.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"id": [1, 2], "tags": [["cat", "pet"], ["dog"]]})
        >>> [int(row["id"]) for row in ds.filter(fb.col("tags").list.contains("dog"))]
        [2]
        """
        return self._call("list", "contains", (text,), {"fn": "has_item", "text": _word("contains", "text", text)})

    def join(self, separator: str = "") -> Expr:
        """The strings of a list as one, as Python's `separator.join(list)`."""
        word = _word("join", "separator", separator)
        return self._call("list", "join", (separator,), {"fn": "join", "separator": word})

    def sum(self) -> Expr:
        """The sum of all numbers of a row: int64 or uint64 of whole numbers, else of the same dtype."""
        return self._call("list", "sum", (), {"fn": "sum"})

    def mean(self) -> Expr:
        """The mean of all numbers of a row, a float; missing where there are none."""
        return self._call("list", "mean", (), {"fn": "mean"})

    def min(self) -> Expr:
        """The least number of a row; missing where there are none."""
        return self._call("list", "min", (), {"fn": "min"})

    def max(self) -> Expr:
        """The greatest number of a row; missing where there are none."""
        return self._call("list", "max", (), {"fn": "max"})


name_methods(TextFunctions)
name_methods(ListFunctions)


def _item(default: Any) -> Any:
    """Returns the default of `get` as the engine knows it."""
    if isinstance(default, np.generic):
        default = default.item()
    if default is None:
        return "missing"
    if isinstance(default, (bool, float)):
        return {type(default).__name__: default}
    if isinstance(default, str):
        return {"text": _word("get", "default", default)}
    if not isinstance(default, int):
        raise TypeError(f"get: default is a number, a truth value, a string or None, not {type(default).__name__}")
    if not -(2**63) <= default < 2**63:
        raise ValueError(f"get: default={default} is out of range for a whole number of 64 bits")
    return {"int": default}


def _slice(start: Any, stop: Any) -> dict[str, Any]:
    ends = {"start": start, "stop": stop}
    places = {name: None if end is None else _place("slice", name, end) for name, end in ends.items()}
    first, end = places["start"] or 0, places["stop"]
    # What is meant by a length, as in Polars, would be empty or a part that depends on the length of the list.
    if end is not None and (first >= end if (first < 0) == (end < 0) else first < 0):
        mixed = "counts from the end, and stop from the beginning" if first < 0 <= end else f"is not before stop={end}"
        raise ValueError(
            f"slice: start={first} {mixed}: both are places, as in Python's items[start:stop]; "
            "for a number of items, write slice(start, start + number), or slice(-number) for the last ones"
        )
    return places


def _place(function: str, name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{function}: {name} is an integer, not {type(value).__name__}")
    place = int(value.__index__())
    least = 0 if name == "group" else -(2**63)
    if not least <= place < 2**63 or (name == "base" and not 2 <= place <= 36):
        raise ValueError(f"{function}: {name}={place} is out of range" + ("; use 2 to 36" if name == "base" else ""))
    return place


def _word(function: str, name: str, value: Any, may_be_none: bool = False) -> str | None:
    if value is None and may_be_none:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{function}: {name} is a string, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{function}: {name} {value!r} is not valid Unicode: it has a surrogate by itself") from None
    return str(value)
