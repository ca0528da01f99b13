"""The reported quality of a shuffle: for orders that are known to be perfect, bad or unshuffled."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

E = fb.errors


@pytest.fixture(scope="module")
def sorted_file(tmp_path_factory):
    """20,000 rows of 10 labels, which lie together."""
    path = tmp_path_factory.mktemp("quality") / "rows.parquet"
    rows = 20_000
    columns = {"id": np.arange(rows), "label": np.repeat(np.arange(10), rows // 10), "x": np.zeros(rows)}
    pq.write_table(pa.table({**columns, "text": [f"row {i}" for i in range(rows)]}), path, row_group_size=100)
    return path


def by_hand(ids: np.ndarray, size: int) -> tuple[float, float]:
    rows = len(ids)
    parts = ids * 100 // rows
    same = [
        (parts[at : at + size][:, None] == parts[at : at + size]).sum() - len(parts[at : at + size])
        for at in range(0, rows, size)
    ]
    pairs = sum(len(parts[at : at + size]) * (len(parts[at : at + size]) - 1) for at in range(0, rows, size))
    return np.abs(ids - np.arange(rows)).mean() / rows, sum(same) / pairs / ((rows / 100 - 1) / (rows - 1))


@pytest.mark.parametrize("window", ["40KiB", 700, None])
def test_it_is_what_the_batches_of_the_pipeline_have(sorted_file, window):
    """This holds even if the columns that are read decide the rows of a window."""
    ds = fb.from_parquet(sorted_file).shuffle(window=window).filter(fb.col("x") == 0).batch(50)
    ids = np.concatenate([batch["id"] for batch in ds.iter(seed=3, epoch=1)])
    distance, pairs = by_hand(ids, 50)
    for id in ("id", "text", None):
        found = ds.shuffle_quality(seed=3, epoch=1, id=id)
        assert (found.rows, found.seen, found.batch) == (20_000, 20_000, 50)
        assert found.distance == pytest.approx(distance)
        assert found.pairs == pytest.approx(pairs)
        assert found.distance_by_chance == pytest.approx(1 / 3, abs=1e-3)
    perfect = window is None
    assert (found.pairs < 1.05) == perfect


def test_runs_of_a_label(sorted_file):
    source = fb.from_parquet(sorted_file)
    plain = source.shuffle_quality(label="label", id="id")
    assert (plain.distance, plain.run, plain.run_longest) == (0, 2000, 2000)
    assert 80 < plain.pairs < 100
    assert plain.run_by_chance == pytest.approx(10 / 9, abs=0.02)
    whole = source.shuffle(window=None).shuffle_quality(label="label", id="id", seed=5)
    assert whole.run == pytest.approx(10 / 9, abs=0.02)
    assert 3 <= whole.run_longest <= 9
    assert plain.run_longest_by_chance <= 9
    assert "runs of one 'label'" in str(whole)
    assert "runs" not in str(source.shuffle_quality(id="id"))


def test_part_of_an_epoch_is_compared_with_its_part(sorted_file):
    ds = fb.from_parquet(sorted_file).shuffle(window=None).batch(100)
    found = ds.shuffle_quality(batches=5)
    assert (found.seen, found.rows) == (500, 20_000)
    assert found.distance_by_chance == pytest.approx(0.488, abs=0.01), "the first rows come from all over the input"
    assert found.distance == pytest.approx(found.distance_by_chance, abs=0.05)
    taken = fb.from_parquet(sorted_file).skip(1000).take(10_000).shuffle(window=None).repeat(2).take(11_000)
    assert (taken.shuffle_quality().rows, taken.shuffle_quality().seen) == (10_000, 10_000)


def test_shards_are_told_apart_by_their_keys_and_pictures_are_not_decoded(shards):
    ds = fb.from_tar(f"{shards}/*.tar").shuffle(window="2KiB")
    ds = ds.map(lambda row: 1 / 0, schema={"x": "float64"}).batch(8)
    found = ds.shuffle_quality(label="cls")
    assert (found.rows, found.seen, found.batch) == (60, 60, 8)
    assert found.run <= 3
    assert found.label == "cls"


def test_rows_that_are_alike_are_taken_in_turn_or_refused(tmp_path):
    ds = fb.from_dict({"x": [*range(995), 1, 2, 3, 4, 5]}).shuffle()
    assert ds.shuffle_quality().distance == pytest.approx(1 / 3, abs=0.05)
    with pytest.raises(E.InvalidPipelineError, match="like another one in x") as caught:
        fb.from_dict({"x": [1] * 10, "id": list(range(10))}).select(["x"]).shuffle().shuffle_quality(id="x")
    assert "--id" in caught.value.hint


def test_what_cannot_be_is_refused(sorted_file):
    ds = fb.from_parquet(sorted_file)
    for name in ("label", "id"):
        with pytest.raises(E.NotFoundError, match=f"{name}='none' is no column") as caught:
            ds.shuffle_quality(**{name: "none"})
        assert "id, label, x, text" in caught.value.hint
    for name in ("batch", "batches"):
        with pytest.raises(E.InvalidPipelineError, match=name):
            ds.shuffle_quality(**{name: 0})
    with pytest.raises(E.InvalidPipelineError, match="no rows"):
        fb.range(0).shuffle_quality()
    ragged = fb.from_generator(lambda: ({"x": np.arange(i)} for i in range(5)), schema={"x": ("int64", (None,))})
    with pytest.raises(E.InvalidPipelineError, match="no column tells rows apart"):
        ragged.shuffle_quality()


def test_the_command_measures_what_a_script_defines(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import forebay as fb\nds = fb.range(5000).shuffle().batch(100)\nplain = fb.range(300)\n")

    def quality(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "forebay", "quality", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, env=os.environ)

    done = quality(script, "--seed", 2)
    assert done.returncode == 0, done.stderr
    assert "ds: 5000 of 5000 rows, in batches of 100" in done.stdout
    found = json.loads(quality(script, "--json", "--batch", 10, "--batches", 3).stdout)
    assert (found["ds"]["seen"], found["plain"]["distance"]) == (30, 0)
    assert quality(script, "--label", "none").returncode == 4
    assert quality(tmp_path / "missing.py").returncode == 4
    assert quality(script, "--batches", "many").returncode == 2
    assert "Examples:" in quality("--help").stdout
    script.write_text("x = 1\n")
    assert "defines no dataset" in quality(script).stderr
