"""Data frames of pandas and polars, and data sets of Hugging Face."""

from __future__ import annotations

import doctest
import io

import forebay as fb
import numpy as np
import pytest
from forebay._src.sources import hf_source
from PIL import Image

datasets = pytest.importorskip("datasets")


datasets.disable_progress_bars()


def made(rows: int = 12) -> datasets.Dataset:
    columns = {
        "x": [None if i == 2 else i for i in range(rows)],
        "y": [i / 2 for i in range(rows)],
        "s": [f"s{i}" for i in range(rows)],
        "l": [[i] * (i % 3) for i in range(rows)],
    }
    return datasets.Dataset.from_dict(columns)


@pytest.fixture
def stored(tmp_path) -> datasets.Dataset:
    made().save_to_disk(tmp_path / "a[1]", num_shards=3)
    return datasets.load_from_disk(tmp_path / "a[1]")


def rows_of(ds: fb.Dataset) -> list:
    plain = lambda v: v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v  # noqa: E731
    return [{name: plain(value) for name, value in row.items()} for row in ds]


WAYS = {
    "stored": lambda d: d,
    "chosen": lambda d: d.select([7, 2, 2, 11]),
    "sliced": lambda d: d.select(range(3, 9)),
    "one shard": lambda d: d.shard(3, 1, contiguous=True),
    "every third": lambda d: d.shard(3, 1, contiguous=False),
    "shuffled": lambda d: d.shuffle(seed=3),
    "filtered": lambda d: d.filter(lambda row: row["y"] > 2),
    "split": lambda d: d.train_test_split(0.25, seed=1)["test"],
    "mapped": lambda d: d.map(lambda row: {"z": row["y"] + 1}),
    "renamed": lambda d: d.remove_columns("l").rename_column("x", "q").rename_column("s", "x"),
    "two": lambda d: datasets.concatenate_datasets([d, d.select([1, 0])]),
    "sliced and shuffled": lambda d: d.select(range(2, 10)).shuffle(seed=1).select(range(1, 4)),
    "cast": lambda d: d.cast_column("y", datasets.Value("float32")),
    "a column more": lambda d: d.add_column("z", list(range(12))),
    "flat": lambda d: d.shuffle(seed=3).flatten_indices(),
    "in memory": lambda _: made(),
    "in memory, chosen": lambda _: made().select([4, 3]),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_data_set_has_its_own_rows(way, stored):
    dataset = WAYS[way](stored)
    ds = fb.from_hf(dataset)
    assert list(ds.schema) == dataset.column_names
    assert rows_of(ds) == list(dataset)
    assert ds.schema.nullable <= {"x", "q"}
    assert len(ds) == len(dataset)
    assert sorted(str(row) for row in rows_of(ds.shuffle())) == sorted(map(str, dataset))


def test_files_are_read_where_they_are(stored):
    for way in ("stored", "sliced", "renamed", "shuffled", "mapped"):
        ds = fb.from_hf(WAYS[way](stored))
        assert len(ds._pipeline.files()) == (1 if way == "mapped" else 3)
        assert not ds._pipeline.blobs()
    assert list(fb.from_hf(stored.with_format("torch", columns=["y"])).schema) == ["y"]
    ds = fb.from_hf(stored, columns=["y", "x"])
    assert str(ds.schema) == "Schema(y: float64, x: int64?)"


def test_images_are_their_bytes_and_labels_are_numbers(tmp_path):
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    pictures = [Image.new("RGB", (4, 6), (40 * i, 0, 0)) for i in range(3)]
    dataset = datasets.Dataset.from_dict({"image": pictures, "label": [0, 1, 1]}, features=features)
    dataset.save_to_disk(tmp_path / "images")
    for one in (dataset, datasets.load_from_disk(tmp_path / "images")):
        ds = fb.from_hf(one)
        assert str(ds.schema) == "Schema(image: bytes, label: int64)"
        batch = next(iter(ds.decode_image("image").resize("image", (6, 4)).batch(3)))
        assert batch["image"][:, 0, 0, 0].tolist() == [0, 40, 80]
        assert batch["label"].tolist() == [0, 1, 1]
    (tmp_path / "0.png").write_bytes(_png(pictures[0]))
    beside = datasets.Dataset.from_dict({"image": [str(tmp_path / "0.png")]}).cast_column("image", datasets.Image())
    with pytest.raises(fb.errors.InvalidPipelineError, match="names files"):
        fb.from_hf(beside)
    beside.save_to_disk(tmp_path / "inside")
    assert len(list(fb.from_hf(datasets.load_from_disk(tmp_path / "inside")))) == 1


def _png(picture: Image.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


REFUSED = {
    "splits": (lambda: datasets.DatasetDict(train=made(), test=made()), r"splits \(train, test\)"),
    "a stream": (lambda: made().to_iterable_dataset(), "is a stream"),
    "a transform": (lambda: made().with_transform(lambda batch: batch), "has a transform"),
    "a list": (lambda: [1], "this is a list"),
    "a list that is missing": (lambda: datasets.Dataset.from_dict({"l": [[1], None]}), "a list.*is missing"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_data_set_is_refused_in_words(what):
    make, says = REFUSED[what]
    with pytest.raises(fb.errors.InvalidPipelineError, match=says):
        fb.from_hf(make())


def test_many_rows_in_an_order_of_their_own_are_refused(tmp_path):
    many = datasets.Dataset.from_dict({"x": np.zeros(2**20 + 1, np.int8)})
    many.save_to_disk(tmp_path)
    with pytest.raises(fb.errors.InvalidPipelineError, match="1048577 rows in an order of its own"):
        fb.from_hf(datasets.load_from_disk(tmp_path).shuffle(seed=1))


def test_a_data_set_trains_through_a_service(stored):
    ds = fb.from_hf(stored, columns=["y"]).shuffle().batch(4)
    with fb.up(workers=1) as service:
        there = [b["y"].tolist() for b in ds.to_torch(service, job="hf", seed=1)]
    assert there == [b["y"].tolist() for b in ds.iter(seed=1)]


def test_data_frames_are_tables():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"n": [1, 2, 3], "f": [0.5, None, 2.5], "s": ["a", "b", None], "l": [[1], [2, 3], []]}
    frame = pandas.DataFrame(columns)
    frame["c"] = pandas.Categorical(["u", "v", "u"])
    frame["i"] = pandas.array([1, None, 3], dtype="Int64")
    frame["t"] = pandas.to_datetime(["2020-01-01"] * 3).as_unit("s")
    ds = fb.from_table(frame)
    first = "n: int64, f: float64?, s: string?, l: int64[?], c: string"
    assert str(ds.schema) == f"Schema({first}, i: int64?, t: int64 (s))"
    assert [row["i"] for row in ds] == [1, None, 3]
    assert [row["t"] for row in ds] == [1577836800] * 3
    other = polars.DataFrame(columns).with_columns(c=polars.Series(["u", "v", "u"], dtype=polars.Categorical))
    ds = fb.from_table(other)
    assert str(ds.schema) == f"Schema({first})"
    assert [row["s"] for row in ds] == ["a", "b", None]
    assert [row["l"].tolist() for row in ds] == [[1], [2, 3], []]
    with pytest.raises(fb.errors.InvalidPipelineError, match="collect"):
        fb.from_table(other.lazy())
    with pytest.raises(fb.errors.InvalidPipelineError, match="write from_hf"):
        fb.from_table(made())
    with pytest.raises(fb.errors.InvalidPipelineError, match="no form in Arrow"):
        fb.from_table(pandas.DataFrame({"x": [1, "a"]}))


def test_the_example_of_the_source_runs():
    assert doctest.testmod(hf_source, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
