"""`describe` and `forebay info`: the figures are those of NumPy, and never depend on threads."""

from __future__ import annotations

import json
import subprocess
import sys

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forebay._src.describe import counts, quantiles, read
from forebay.errors import InvalidPipelineError, NotFoundError
from hypothesis import given, settings
from hypothesis import strategies as st

ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**40), 2**40),
        st.none() | st.floats(-1e6, 1e6),
        st.none() | st.sampled_from(["a", "b", "ü", ""]),
        st.booleans(),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=40,
)
DTYPES = {"whole": np.int64, "real": np.float64, "text": str, "flag": bool, "small": np.uint8}
SHARES = [0.0, 0.1, 0.25, 0.5, 0.9, 1.0]


def columns(rows) -> dict[str, list]:
    found = {name: list(values) for name, values in zip(DTYPES, zip(*rows, strict=True), strict=True)}
    found["small"] = list(np.array(found["small"], np.uint8))
    return found


def dataset(data: dict[str, list]) -> fb.Dataset:
    """Makes a dataset, without the columns that have no value: they have no type."""
    return fb.from_dict({name: values for name, values in data.items() if any(v is not None for v in values)})


@settings(max_examples=40, deadline=None)
@given(ROWS, st.sampled_from([3, 7, 8192]))
def test_figures_are_those_of_numpy(rows, batch):
    data = columns(rows)
    # Figures of several batches are merged.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "_BATCH_ROWS", batch)
        found = dataset(data).describe(quantiles=SHARES)
    for name, of in found.items():
        known = [value for value in data[name] if value is not None]
        assert (of.rows, of.nulls, of.count) == (len(rows), len(rows) - len(known), len(known))
        assert of.nullable == (name in dataset(data).schema.nullable)
        assert f"{of.column}{'?' if of.nullable else ''} " in str(found)
        if name != "real":
            assert of.distinct == len(set(known))
            assert of.values == sorted(set(known))
            best = sorted({v: known.count(v) for v in set(known)}.items(), key=lambda pair: (-pair[1], pair[0]))
            assert list(of.top) == best[:10]
        if name == "text":
            continue
        values = np.array(known, np.float64)
        assert (of.min, of.max) == (min(known), max(known))
        assert of.mean == pytest.approx(values.mean(), rel=1e-9, abs=1e-9)
        assert of.std is None if len(known) < 2 else of.std == pytest.approx(values.std(ddof=1), rel=1e-6, abs=1e-9)
        assert list(of.quantiles.values()) == pytest.approx(list(np.quantile(values, SHARES)), rel=1e-9, abs=1e-9)
        assert of.quantile_error == 0


def table(seed: int, rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(seed)
    lost = rng.random(rows) < 0.1
    return pa.table(
        {
            "whole": pa.array(rng.integers(-50, 50, rows), mask=lost),
            "real": pa.array(rng.normal(3, 100, rows), mask=lost),
            "single": pa.array(rng.normal(0, 1, rows).astype(np.float32)),
            "text": pa.array(rng.choice(["x", "y", "long one"], rows), mask=~lost),
        }
    )


def test_threads_files_and_batches_change_no_figure(tmp_path):
    for part in range(5):
        pq.write_table(table(part, 700), tmp_path / f"{part}.parquet", row_group_size=100)
    ds = fb.from_parquet(str(tmp_path)).shuffle()
    ds = ds.map(lambda row, rng: {"drawn": rng.normal()}, reads=["single"], writes=["drawn"])
    first = ds.describe(seed=3, threads=1).to_dict()
    assert ds.describe(seed=3, threads=4).to_dict() == first
    assert ds.describe(seed=4).to_dict() != first
    batched = ds.batch(64).describe(seed=3)
    assert batched["drawn"].quantiles[0.5] == first["columns"]["drawn"]["quantiles"]["0.5"]
    part = ds.describe("whole", rows=100, seed=3)
    assert (list(part), part.rows, part.complete) == (["whole"], 100, False)


def test_images_say_what_normalize_needs():
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (4 + i, 5, 3), np.uint8) for i in range(6)]
    whole = np.concatenate([image.reshape(-1, 3) for image in images]) / 255
    ragged, alike = fb.from_dict({"image": images}), fb.from_numpy({"image": np.stack([i[:4] for i in images])})
    of = ragged.describe()["image"]
    assert of.pixels["mean"] == pytest.approx(list(whole.mean(axis=0)))
    assert of.pixels["std"] == pytest.approx(list(whole.std(axis=0, ddof=1)))
    assert of.sizes == (60, 97.5, 135)
    assert list(of.quantiles.values()) == pytest.approx(list(np.quantile(255 * whole, [0.25, 0.5, 0.75])))
    pixels = alike.describe()["image"].pixels
    scaled = alike.normalize("image", **pixels).describe()["image"]
    assert (scaled.mean, scaled.std) == pytest.approx((0, 1), abs=1e-2)
    with pytest.raises(InvalidPipelineError, match="no uint8 images"):
        _ = scaled.pixels
    with pytest.raises(InvalidPipelineError, match="not all values"):
        _ = scaled.values


@pytest.mark.parametrize("kind", ["sorted", "reversed", "random", "equal"])
def test_a_long_stream_has_quantiles_within_the_bound_that_they_name(kind, monkeypatch):
    monkeypatch.setattr(quantiles, "EXACT_MAX", 1000)
    monkeypatch.setattr(quantiles, "BUFFER", 256)
    count = 50_000
    values = np.arange(count, dtype=np.float64)
    values = {
        "sorted": values,
        "reversed": values[::-1],
        "random": np.random.default_rng(1).permutation(values),
        "equal": np.zeros(count),
    }[kind]
    of = quantiles.Quantiles()
    for part in np.array_split(values, 77):
        of.add(part)
    assert 0 < of.error < 0.03
    kept = sum(one is not None for one in of._levels) * 256 + sum(map(len, of._waiting))
    assert kept < 4000
    ranks = np.linspace(0, 1, 101)
    for share, found in zip(ranks, of.at(list(ranks)), strict=True):
        if kind != "equal":
            assert abs(found - share * (count - 1)) <= of.error * count + 1


def test_the_error_of_quantiles_is_counted_by_the_weight_of_what_is_merged(monkeypatch):
    monkeypatch.setattr(quantiles, "EXACT_MAX", 0)
    monkeypatch.setattr(quantiles, "BUFFER", 4)
    of = quantiles.Quantiles()
    of.add(np.arange(32.0))
    # Four pairs of weight 1, two of weight 2, one of weight 4.
    assert of._rank_error == 4 * 1 + 2 * 2 + 1 * 4
    assert [None if one is None else one.tolist() for one in of._levels] == [None, None, None, [0.0, 9.0, 18.0, 27.0]]


def test_counts_of_many_values_are_bounded_and_name_their_error(monkeypatch):
    monkeypatch.setattr(counts, "VALUES_MAX", 50)
    rng = np.random.default_rng(2)
    stream = np.concatenate([np.full(4000, 7), rng.integers(1000, 100_000, 6000)])
    rng.shuffle(stream)
    of = counts.ValueCounts()
    for part in np.array_split(stream, 100):
        of.add(part.tolist())
        assert len(of._counts) <= 100
    ((value, count),) = of.top(1)
    assert value == 7
    assert 4000 - of.error <= count <= 4000
    assert of.distinct is None
    of = counts.ValueCounts()
    of.add_sized(["x" * 300, "y"])
    assert (of.top(2), of.distinct, of.long) == ([("y", 1)], None, 1)


def test_strange_data_have_figures():
    ds = fb.from_dict({"x": [float("inf"), 1.0, float("nan")], "t": [[1.0, float("nan")], [2.0, 3.0], [4.0, 5.0]]})
    stats = ds.describe()
    assert (stats["x"].nulls, stats["x"].max, stats["t"].nulls, stats["t"].nans) == (1, float("inf"), 0, 1)
    empty = fb.range(0).describe()
    assert (empty.rows, empty.complete, empty["id"].mean, dict(empty["id"].quantiles)) == (0, True, None, {})
    assert fb.from_dict({"x": [1.0, 2.0, float("inf")]}).describe()["x"].quantiles[0.5] == 2.0
    tags = fb.from_dict({"tags": [["x"], ["y", "x"], []]}).describe()["tags"]
    assert (tags.top, tags.sizes, tags.nulls) == ((("x", 2), ("y", 1)), (0, 1.0, 2), 0)
    hostile = fb.from_dict({"<b>\x1b[31m": ["\x1b[0m<script>", "\u202eabc"]}).describe()
    assert "\x1b" not in str(hostile)
    assert "\u202e" not in str(hostile)
    assert "<script>" not in hostile._repr_html_()
    assert "<b>" not in hostile._repr_html_()


def test_wrong_arguments_are_refused():
    ds = fb.range(10)
    with pytest.raises(NotFoundError, match='no column "x"'):
        ds.describe("x")
    for wrong in ({"columns": []}, {"quantiles": [2]}, {"rows": 0}, {"top": -1}, {"quantiles": ["x"]}):
        with pytest.raises(InvalidPipelineError, match="describe"):
            ds.describe(**wrong)
    with pytest.raises(InvalidPipelineError, match="never ends"):
        ds.repeat().describe()
    assert ds.repeat().describe(rows=25)["id"].top[0] == (0, 3)


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "forebay", "info", *map(str, arguments)]
    return subprocess.run(run, capture_output=True, text=True, timeout=180)


def test_info_says_what_it_read(tmp_path):
    (tmp_path / "year=2024").mkdir()
    pq.write_table(table(0), tmp_path / "year=2024" / "a.parquet")
    found = json.loads(command(tmp_path, "--rows", 50, "--columns", "whole,year", "--json").stdout)
    assert (found["kind"], found["files"], found["rows"], found["read"]["rows"]) == ("parquet", 1, 3000, 50)
    assert found["read"]["columns"]["year"]["top"] == [[2024, 50]]
    shown = command(tmp_path, "--rows", 50)
    assert "the first 50 rows" in shown.stdout, shown.stderr
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(f'{{"n": {i}}}\n' for i in range(300)))
    every = json.loads(command(lines, "--json", "--all").stdout)
    assert (every["kind"], every["rows"], every["read"]["columns"]["n"]["max"]) == ("jsonl", 300, 299)


def test_info_knows_sources_and_says_why_not(tmp_path):
    fb.examples.photos(tmp_path / "photos", 6)
    fb.range(9).save(tmp_path / "mds", format="mds")
    fb.range(9).save(tmp_path / "arrow")
    from forebay._src.sources.source_kind import kind_of

    (tmp_path / "photos" / "README.txt").write_text("x")
    kinds = {name: kind_of(str(tmp_path / name)) for name in ("photos", "mds", "arrow")}
    assert kinds == {"photos": "image_folder", "mds": "mds", "arrow": "saved"}
    (tmp_path / "empty").mkdir()
    for wrong, code, text in (
        (tmp_path / "none", 4, "there is no file or folder"),
        (tmp_path / "none.csv", 4, "no such file"),
        ("s3://bucket/data", 1, "--format"),
        (tmp_path / "empty", 4, "has no files"),
    ):
        done = command(wrong)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert text in done.stderr
    assert command(tmp_path / "photos", "--format", "none").returncode == 1
    assert command(tmp_path / "photos", "--rows", 0).returncode == 2
