"""Parts of times, times in texts and comparisons, against Python's datetime and pyarrow."""

from __future__ import annotations

import datetime as dt
import random

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

E = fb.errors
UTC = dt.UTC
RNG = random.Random(2)
FIRST, LAST = dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1)
TIMES = [FIRST + RNG.random() * (LAST - FIRST) for _ in range(400)]
TIMES += [dt.datetime(2000, 2, 29, 23, 59, 59, 999_999), dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1970, 1, 1)]
PARTS = {
    "year": lambda t: t.year,
    "month": lambda t: t.month,
    "day": lambda t: t.day,
    "ordinal_day": lambda t: t.timetuple().tm_yday,
    "weekday": lambda t: t.weekday(),
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
}
WHEN = fb.col("when")


@pytest.fixture(scope="module", params=["s", "ms", "us", "ns"])
def stored(request, tmp_path_factory) -> tuple[str, fb.Dataset, list[dt.datetime]]:
    """Times in a file of one unit, and as Python has them. Parquet has no seconds: writers store milliseconds."""
    unit = request.param
    whole = [
        t.replace(microsecond={"s": 0, "ms": t.microsecond // 1000 * 1000}.get(unit, t.microsecond)) for t in TIMES
    ]
    path = tmp_path_factory.mktemp("times") / f"{unit}.arrow"
    feather.write_feather(pa.table({"when": pa.array([*whole, None], pa.timestamp(unit))}), path)
    return unit, fb.from_arrow(path), whole


def computed(ds: fb.Dataset, expr: fb.Expr) -> list:
    found = [value for batch in ds.with_column("y", expr).batch(64) for value in batch["y"].tolist()]
    assert found[-1] is None
    return found[:-1]


def test_parts_are_those_of_datetime_and_pyarrow(stored):
    unit, ds, times = stored
    for part, of in PARTS.items():
        found = computed(ds, getattr(WHEN.dt(unit), part)())
        assert found == [of(time) for time in times], part
    array = pa.array(times, pa.timestamp(unit))
    assert computed(ds, WHEN.dt(unit).year()) == pc.year(array).to_pylist()
    assert computed(ds, WHEN.dt(unit).weekday()) == pc.day_of_week(array).to_pylist()


@pytest.mark.parametrize(
    ("every", "arrow"), [("1d", "day"), ("6h", "hour"), ("15m", "minute"), ("30s", "second"), ("1w", "week")]
)
def test_floors_are_those_of_pyarrow(stored, every, arrow):
    unit, ds, times = stored
    array = pa.array(times, pa.timestamp(unit))
    want = pc.floor_temporal(array, multiple=int(every[:-1]), unit=arrow).cast(pa.int64()).to_pylist()
    assert computed(ds, WHEN.dt(unit).floor(every)) == want


def test_times_are_compared_with_those_of_python(stored):
    unit, ds, times = stored
    when = WHEN.dt(unit)
    moment = dt.datetime(1987, 6, 5, 4, 3, 2)
    zoned = dt.datetime(1987, 6, 5, 6, 3, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    for bound in (moment, zoned):
        assert computed(ds, when < bound) == [time < moment for time in times]
        assert computed(ds, when >= bound) == [time >= moment for time in times]
    day = dt.date(2000, 2, 29)
    assert computed(ds, (when > day) & (when <= dt.datetime(2001, 1, 1))) == [
        dt.datetime(2000, 2, 29) < time <= dt.datetime(2001, 1, 1) for time in times
    ]
    kept = list(ds.filter(when == dt.date(1970, 1, 1)))
    assert len(kept) == 1
    assert computed(ds, when != dt.date(1970, 1, 1)).count(False) == 1


def test_dates_count_days(tmp_path):
    days = [time.date() for time in TIMES]
    pq.write_table(pa.table({"when": pa.array([*days, None], pa.date32())}), tmp_path / "d.parquet")
    ds = fb.from_parquet(tmp_path / "d.parquet")
    for part in ("year", "month", "day", "ordinal_day", "weekday"):
        found = computed(ds, getattr(WHEN.dt("D"), part)())
        assert found == [PARTS[part](dt.datetime.combine(day, dt.time())) for day in days]
    assert set(computed(ds, WHEN.dt("D").hour())) == {0}
    assert computed(ds, WHEN.dt("D") >= dt.date(2000, 1, 1)) == [day >= dt.date(2000, 1, 1) for day in days]


def test_texts_are_read_as_python_reads_them(tmp_path):
    zones = [UTC, dt.timezone(dt.timedelta(hours=5, minutes=30)), dt.timezone(-dt.timedelta(hours=8))]
    written = [time.replace(tzinfo=RNG.choice(zones)) for time in TIMES]
    texts = [time.isoformat(sep=RNG.choice("T ")) for time in written]
    texts += [time.date().isoformat() for time in TIMES]
    (tmp_path / "t.csv").write_text("when\n" + "".join(f"{text}\n" for text in texts))
    ds = fb.from_csv(tmp_path / "t.csv", schema={"when": "string"})
    moments = written + [dt.datetime.combine(time.date(), dt.time(), UTC) for time in TIMES]
    for unit, tick in [
        ("us", dt.timedelta(microseconds=1)),
        ("s", dt.timedelta(seconds=1)),
        ("D", dt.timedelta(days=1)),
    ]:
        found = [int(row["when"]) for row in ds.with_column("when", WHEN.str.to_time(unit))]
        assert found == [(moment - dt.datetime(1970, 1, 1, tzinfo=UTC)) // tick for moment in moments]
    with pytest.raises(E.DataError, match=r"to_time: .tomorrow. is no time in s") as raised:
        list(fb.from_dict({"when": ["2024-01-01", "tomorrow"]}).with_column("when", WHEN.str.to_time("s")))
    assert "1" in raised.value.context["sample"]
    assert "ISO 8601" in raised.value.context["hint"]


def test_wrong_units_spans_and_types_are_errors_when_they_are_written():
    for make in (lambda: WHEN.dt("h"), lambda: WHEN.dt(None), lambda: WHEN.str.to_time("sec")):
        with pytest.raises(ValueError, match="use one of 'D', 's', 'ms', 'us', 'ns'"):
            make()
    with pytest.raises(E.InvalidPipelineError, match=r"call it: year\(\)"):
        fb.from_dict({"when": [1]}).with_column("y", WHEN.dt.year)
    for every in ("1", "h", "0h", "1y", 5, "1h30m"):
        with pytest.raises(ValueError, match="every="):
            WHEN.dt("us").floor(every)
    with pytest.raises(ValueError, match="no number of 'D'"):
        WHEN.dt("D").floor("6h")
    with pytest.raises(ValueError, match="between two numbers"):
        _ = WHEN.dt("s") > dt.datetime(2024, 1, 1, 0, 0, 0, 5)
    with pytest.raises(OverflowError, match="beyond"):
        _ = WHEN.dt("ns") > dt.datetime(2400, 1, 1)
    for other in (5, "2024-01-01", np.datetime64("2024-01-01")):
        with pytest.raises(TypeError, match="datetime or a date"):
            _ = WHEN.dt("s") > other
    with pytest.raises(E.InvalidPipelineError, match="counts no time"):
        fb.from_dict({"when": [1.5]}).with_column("y", WHEN.dt("s").year())
    with pytest.raises(E.InvalidPipelineError, match="is no string"):
        fb.from_dict({"when": [1]}).with_column("y", WHEN.str.to_time("s"))
