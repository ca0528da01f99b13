"""Functions of times in expressions: `fb.col("when").dt.year()`.

The unit of a column is known where the expression becomes part of a dataset. Until then, a part of the
expression says what to do there: `counts` compares the unit that the user said with that of the column, and `dt` is
computed in the column's unit. The engine sees neither.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
from forebay._src import habits, habits_expressions
from forebay._src.expr.expr_arguments import unicode_text
from forebay._src.usage import name_methods
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.expr.expr import Expr

#: The length of a unit, in nanoseconds.
_UNITS: Final = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: The spans of `floor`, in nanoseconds.
_SPANS: Final = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
}
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
#: 1970-01-01 was a Thursday, and weeks begin with Monday: 1969-12-29.
_DAYS_TO_MONDAY: Final = 3
#: The operators whose operands count one unit.
_OF_ONE_UNIT: Final = ("add", "sub", "lt", "le", "gt", "ge", "eq", "ne")
_SYMBOLS: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def unit_of(function: str, unit: Any) -> str:
    """Checks a unit."""
    if not isinstance(unit, str) or unit not in _UNITS:
        raise ValueError(f"{function}: unit {unit!r}; use one of {', '.join(map(repr, _UNITS))}")
    return unit


def resolved(parts: Sequence[dict[str, Any]], units: Mapping[str, str], op: str) -> list[dict[str, Any]]:
    """Returns the parts of an expression for the engine, given the units of the columns.

    Raises:
        InvalidPipelineError: The user said another unit than the column has, or none, and the column has none; or an
            operator has two columns of different units.
    """
    made: list[dict[str, Any]] = []
    for part in parts:
        _check_units(made[-2:], part, units, op)
        if part["expr"] not in ("counts", "dt"):
            made.append(dict(part))
            continue
        unit, said = _unit_of(made[-1], units), part.get("unit")
        of = f"column {made[-1]['name']!r}" if made[-1]["expr"] == "col" else "the time"
        if said and unit and said != unit:
            hint = {"hint": "write .dt without a unit, which takes that of the column"}
            raise InvalidPipelineError(f"{op}: {of} counts {unit!r}, and .dt({said!r}) says otherwise", hint)
        if part["expr"] == "dt" and unit is None:
            function = part["function"] if part["function"] not in _SYMBOLS else "year"
            hint = {"hint": f"say it, as .dt('us').{function}(...): 'D', 's', 'ms', 'us' or 'ns'"}
            raise InvalidPipelineError(f"{op}: the unit of {of} is not known", hint)
        if part["expr"] == "dt":
            from forebay._src.expr.expr import col

            made += _computed(col("time"), part["function"], part["argument"], str(unit))._parts[1:]
    return made


def _check_units(last: Sequence[dict[str, Any]], part: dict[str, Any], units: Mapping[str, str], op: str) -> None:
    """Refuses an operator of two columns whose units differ: operands come before it, the right one last."""
    if part.get("op") not in _OF_ONE_UNIT or [operand["expr"] for operand in last] != ["col", "col"]:
        return
    a, b = (operand["name"] for operand in last)
    one, other = units.get(a), units.get(b)
    if one is None or other is None or one == other:
        return
    coarse, fine = sorted((a, b), key=lambda name: _UNITS[units[name]], reverse=True)
    factor = _UNITS[units[coarse]] // _UNITS[units[fine]]
    hint = {"hint": f"write fb.col({coarse!r}) * {factor}, which counts {units[fine]!r}, in place of it"}
    raise InvalidPipelineError(f"{op}: column {a!r} counts {one!r}, and column {b!r} counts {other!r}", hint)


def _unit_of(part: dict[str, Any], units: Mapping[str, str]) -> str | None:
    """Returns the unit of a value, by the last part of its expression: a column, or a text that was read as a time."""
    if part["expr"] == "col":
        return units.get(part["name"])
    call = part.get("call", {})
    return {"d": "D"}.get(call["unit"], call["unit"]) if call.get("fn") == "to_time" else None


def _computed(of: Expr, function: str, argument: Any, unit: str) -> Expr:
    """Returns the function of a time that counts `unit`; its first operand is the time."""
    if function == "floor":
        return _floor(of, argument, unit)
    if function in _SYMBOLS:
        compared: Expr = getattr(operator, function)(of, _ticks(argument, unit))
        return compared
    if function == "strftime":
        text, call = f".dt({unit!r}).strftime({argument!r})", {"fn": "format_time", "format": argument}
        return of._called(text, {**call, "unit": unit.lower()})
    return of._called(f".dt({unit!r}).{function}()", {"fn": "time", "part": function, "unit": unit.lower()})


def _span(every: Any) -> int:
    """Returns the nanoseconds of a span."""
    found = re.fullmatch(r"(\d+)(d|h|m|s|ms|us|ns|w)", every) if isinstance(every, str) else None
    if found is None or int(found[1]) < 1:
        raise ValueError(f"floor: every={every!r}; write a number and d, h, m, s, ms, us, ns or w, as '15m'")
    return int(found[1]) * (7 * _SPANS["d"] if found[2] == "w" else _SPANS[found[2]])


def _floor(of: Expr, every: str, unit: str) -> Expr:
    ticks, rest = divmod(_span(every), _UNITS[unit])
    if rest or not ticks:
        raise ValueError(f"floor: {every!r} is no number of {unit!r}, in which these times count")
    if ticks >= 2**63:
        raise ValueError(f"floor: {every!r} is too long")
    if every.endswith("w"):
        shift = _DAYS_TO_MONDAY * _SPANS["d"] // _UNITS[unit]
        return (of + shift) // ticks * ticks - shift
    return of // ticks * ticks


def _since(time: Any) -> dt.timedelta:
    """Returns the span from 1970 to a time."""
    if isinstance(time, dt.datetime):
        return (time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)) - _EPOCH
    if isinstance(time, dt.date):
        return dt.timedelta(days=time.toordinal() - _EPOCH.toordinal())
    hint = ""
    if isinstance(time, str):
        hint = f"; write datetime.datetime.fromisoformat({time!r})"
    elif isinstance(time, np.datetime64):
        hint = "; write its .astype('datetime64[us]').item()"
    raise TypeError(f"a time is compared with a datetime or a date of Python, not {type(time).__name__}{hint}")


def _ticks(time: Any, unit: str) -> int:
    """Returns a time as a number."""
    # A pandas.Timestamp has nanoseconds, too.
    nanos = _since(time) // dt.timedelta(microseconds=1) * 1000 + getattr(time, "nanosecond", 0)
    ticks, rest = divmod(nanos, _UNITS[unit])
    if rest:
        hint = "compare this column with a date" if unit == "D" else "round the time to that unit"
        raise ValueError(f"{time} is between two numbers: these times count {unit!r}; {hint}")
    if not -(2**63) <= ticks < 2**63:
        raise OverflowError(f"{time} is beyond what 64 bits count in {unit!r}")
    return ticks


class TimeFunctions:
    """Functions of times: whole numbers that count from 1970-01-01 00:00 UTC, as Arrow and Parquet files store them.

    Columns of times in Arrow and Parquet files and in tables know their unit, and so does `.str.to_time(unit)`.
    Comparisons with `datetime.datetime` and `datetime.date` give conditions. A time without a zone is one of UTC.

    >>> import datetime
    >>> import forebay as fb
    >>> ds = fb.from_dict({"day": ["2024-02-29", "2024-03-01"]})
    >>> ds = ds.with_column("day", fb.col("day").str.to_time("D"))
    >>> [int(row["day"]) for row in ds.filter(fb.col("day").dt >= datetime.date(2024, 3, 1))]
    [19783]
    """

    __slots__ = ("_of", "_unit")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, of: Expr, unit: str | None = None) -> None:
        self._of, self._unit = of, unit

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Python calls this for a name that the class lacks. The error says what to write instead."""
            raise habits.missing(".dt", name, habits_expressions.TIMES, habits.public_names(self, name))

    def year(self) -> Expr:
        """The year, as int64."""
        return self._part("year")

    def month(self) -> Expr:
        """The month, from 1, as int64."""
        return self._part("month")

    def day(self) -> Expr:
        """The day of the month, from 1, as int64."""
        return self._part("day")

    def ordinal_day(self) -> Expr:
        """The day of the year, from 1, as int64: pandas' `dayofyear`."""
        return self._part("ordinal_day")

    def weekday(self) -> Expr:
        """The day of the week, as int64: Monday is 0, as of Python's and pandas' `weekday` (polars' begins with 1)."""
        return self._part("weekday")

    def hour(self) -> Expr:
        """The hour, as int64."""
        return self._part("hour")

    def minute(self) -> Expr:
        """The minute, as int64."""
        return self._part("minute")

    def second(self) -> Expr:
        """The whole second, as int64."""
        return self._part("second")

    def strftime(self, format: str) -> Expr:
        """The time as a text, as Python's `datetime.strftime`; in UTC, with English names.

        Args:
            format: A text with `%Y %y %m %b %B %d %j %a %A %H %I %p %M %S %f %z %Z %%`.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"day": [19782]}).with_column("day", fb.col("day").dt("D").strftime("%a, %d %b %Y"))
        >>> [row["day"] for row in ds]
        ['Thu, 29 Feb 2024']
        """
        return self._made("strftime", unicode_text("strftime: format", format), f".strftime({format!r})")

    def floor(self, every: str) -> Expr:
        """The beginning of the span that a time is in, in the same unit: pandas' `dt.floor`, polars' `dt.truncate`.

        Args:
            every: A number and `d`, `h`, `m`, `s`, `ms`, `us` or `ns`, as `"15m"`; or `"1w"`, weeks from Monday. Spans
                are counted from 1970-01-01.

        >>> import forebay as fb
        >>> ds = fb.from_dict({"t": [3_599, 3_600, 7_201]})
        >>> [int(row["t"]) for row in ds.with_column("t", fb.col("t").dt("s").floor("1h"))]
        [0, 3600, 7200]
        """
        _span(every)
        return self._made("floor", every, f".floor({every!r})")

    def __lt__(self, other: dt.date) -> Expr:
        return self._compared("lt", other)

    def __le__(self, other: dt.date) -> Expr:
        return self._compared("le", other)

    def __gt__(self, other: dt.date) -> Expr:
        return self._compared("gt", other)

    def __ge__(self, other: dt.date) -> Expr:
        return self._compared("ge", other)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return self._compared("eq", other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self._compared("ne", other)

    def _compared(self, function: str, time: Any) -> Expr:
        _since(time)
        return self._made(function, time, f" {_SYMBOLS[function]} {time}")

    def _part(self, part: str) -> Expr:
        return self._made(part, None, f".{part}()")

    def _made(self, function: str, argument: Any, text: str) -> Expr:
        if self._unit is None:
            return self._of._then({"expr": "dt", "function": function, "argument": argument}, f"{self._of}.dt{text}")
        of = self._of._then({"expr": "counts", "unit": self._unit}, repr(self._of))
        return _computed(of, function, argument, self._unit)


class Times(TimeFunctions):
    """The functions of times; a call names the unit where the source of a column does not."""

    __slots__ = ()

    def __call__(self, unit: str) -> TimeFunctions:
        """Returns the functions of times that count days (`"D"`), `"s"`, `"ms"`, `"us"` or `"ns"` since 1970.

        >>> import forebay as fb
        >>> fb.col("when").dt("us").year()
        col('when').dt('us').year()
        """
        return TimeFunctions(self._of, unit_of("dt", unit))


name_methods(Times)
