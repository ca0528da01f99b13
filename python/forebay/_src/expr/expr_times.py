"""Functions of times in expressions: `fb.col("when").dt("us").year()`."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from forebay._src.expr.expr import Expr

#: What one number counts, in nanoseconds.
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


def unit_of(function: str, unit: Any) -> str:
    """Checks what a number counts."""
    if not isinstance(unit, str) or unit not in _UNITS:
        raise ValueError(f"{function}: unit {unit!r}; use one of {', '.join(map(repr, _UNITS))}")
    return unit


class Times:
    """Asks what the numbers of a column count: `fb.col("when").dt("us")`."""

    __slots__ = ("_of",)

    def __init__(self, of: Expr) -> None:
        self._of = of

    def __call__(self, unit: str) -> TimeFunctions:
        """Returns the functions of times that count days (`"D"`), `"s"`, `"ms"`, `"us"` or `"ns"` since 1970.

        >>> import forebay as fb
        >>> fb.col("when").dt("us").year()
        col('when').dt('us').year()
        """
        return TimeFunctions(self._of, unit_of("dt", unit))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Called for `.dt.year`, which says no unit."""
            raise AttributeError(f"dt has no {name}: say what the numbers count, as .dt('us').{name}()")


class TimeFunctions:
    """Functions of times: whole numbers that count from 1970-01-01 00:00 UTC, as Arrow and Parquet files store them.

    Comparisons with `datetime.datetime` and `datetime.date` give conditions. A time without a zone is one of UTC.

    >>> import datetime
    >>> import forebay as fb
    >>> ds = fb.from_dict({"day": ["2024-02-29", "2024-03-01"]})
    >>> ds = ds.with_column("day", fb.col("day").str.to_time("D"))
    >>> [int(row["day"]) for row in ds.filter(fb.col("day").dt("D") >= datetime.date(2024, 3, 1))]
    [19783]
    """

    __slots__ = ("_of", "_unit")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, of: Expr, unit: str) -> None:
        self._of, self._unit = of, unit

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
        found = re.fullmatch(r"(\d+)(d|h|m|s|ms|us|ns|w)", every) if isinstance(every, str) else None
        if found is None or int(found[1]) < 1:
            raise ValueError(f"floor: every={every!r}; write a number and d, h, m, s, ms, us, ns or w, as '15m'")
        is_week = found[2] == "w"
        span = int(found[1]) * (7 * _SPANS["d"] if is_week else _SPANS[found[2]])
        ticks, rest = divmod(span, _UNITS[self._unit])
        if rest or not ticks:
            raise ValueError(f"floor: {every!r} is no number of {self._unit!r}, in which these times count")
        if ticks >= 2**63:
            raise ValueError(f"floor: {every!r} is too long")
        if is_week:
            shift = _DAYS_TO_MONDAY * _SPANS["d"] // _UNITS[self._unit]
            return (self._of + shift) // ticks * ticks - shift
        return self._of // ticks * ticks

    def __lt__(self, other: dt.date) -> Expr:
        return self._of < self._ticks(other)

    def __le__(self, other: dt.date) -> Expr:
        return self._of <= self._ticks(other)

    def __gt__(self, other: dt.date) -> Expr:
        return self._of > self._ticks(other)

    def __ge__(self, other: dt.date) -> Expr:
        return self._of >= self._ticks(other)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return self._of == self._ticks(other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self._of != self._ticks(other)

    def _ticks(self, time: Any) -> int:
        """Returns a time as a number."""
        if isinstance(time, dt.datetime):
            moment = time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)
            since = moment - _EPOCH
        elif isinstance(time, dt.date):
            since = dt.timedelta(days=time.toordinal() - _EPOCH.toordinal())
        else:
            raise TypeError(f"a time is compared with a datetime or a date of Python, not {type(time).__name__}")
        nanos = since // dt.timedelta(microseconds=1) * 1000
        ticks, rest = divmod(nanos, _UNITS[self._unit])
        if rest:
            raise ValueError(f"{time} is between two numbers: these times count {self._unit!r}")
        if not -(2**63) <= ticks < 2**63:
            raise OverflowError(f"{time} is beyond what 64 bits count in {self._unit!r}")
        return ticks

    def _part(self, part: str) -> Expr:
        unit = self._unit
        call = {"fn": "time", "part": part, "unit": unit.lower()}
        return self._of._called(f".dt({unit!r}).{part}()", call)
