"""Arrow IPC streams: the rows that pyarrow reads, and errors if a stream is cut or damaged."""

from __future__ import annotations

import io
import struct
import uuid
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pytest
from buckets import credentials, put
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import fingerprint

E = fb.errors
OPTIONS = {
    "plain": pa.ipc.IpcWriteOptions(),
    "zstd": pa.ipc.IpcWriteOptions(compression="zstd"),
    "lz4": pa.ipc.IpcWriteOptions(compression="lz4"),
    "legacy": pa.ipc.IpcWriteOptions(use_legacy_format=True),
    "deltas": pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True),
}


def stream(batches: list[pa.RecordBatch], options: str = "plain") -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema, options=OPTIONS[options]) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def batch(first: int, rows: int, words: list[str] | None = None) -> pa.RecordBatch:
    """Rows by number; `word` and `pair` have dictionaries, which differ from batch to batch."""
    numbers = range(first, first + rows)
    words = words or ["a", "é"]
    places = pa.array([None if i % 5 == 3 else i % len(words) for i in numbers], pa.int8())
    deep = pa.DictionaryArray.from_arrays(
        pa.array([i % 2 for i in numbers], pa.int32()), pa.array([f"{words[0]}0", "1"])
    )
    return pa.record_batch(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": pa.array([f"text {i}" * (i % 3) for i in numbers], pa.string()),
            "vector": pa.array([[i, i + 1] for i in numbers], pa.list_(pa.float32(), 2)),
            "word": pa.DictionaryArray.from_arrays(places, pa.array(words)),
            "deep": pa.StructArray.from_arrays([deep], ["word"]),
        }
    )


def read(ds: fb.Dataset) -> list[dict[str, Any]]:
    plain = lambda v: v.tolist() if isinstance(v, (np.generic, np.ndarray)) else v  # noqa: E731
    return [{name: plain(value) for name, value in row.items()} for row in ds]


def by_pyarrow(data: bytes) -> list[dict[str, Any]]:
    rows = [row for batch in pa.ipc.open_stream(data) for row in batch.to_pylist()]
    return [{**{k: v for k, v in row.items() if k != "deep"}, "deep.word": row["deep"]["word"]} for row in rows]


WORDS = st.lists(st.sampled_from(["a", "b", "é", "zwölf", ""]), min_size=1, max_size=4, unique=True)
BATCHES = st.lists(st.tuples(st.integers(0, 9), WORDS), min_size=1, max_size=6)


@settings(max_examples=80, deadline=None)
@given(BATCHES, st.sampled_from(list(OPTIONS)), st.integers(0, 99))
def test_rows_are_those_of_pyarrow(tmp_path_factory, shape, options, seed):
    made, first, before = [], 0, []
    for rows, words in shape:
        # Deltas are written if a dictionary begins with the previous one.
        before = before + [w for w in words if w not in before] if options == "deltas" else words
        made.append(batch(first, rows, before))
        first += rows
    path = tmp_path_factory.mktemp("stream") / "data-00000-of-00001.arrow"
    path.write_bytes(stream(made, options))
    want = by_pyarrow(path.read_bytes())
    ds = fb.from_arrow(path)
    assert read(ds) == want
    assert ds.cardinality == len(want)
    # Batches in another order need dictionaries in another order.
    assert sorted(read(ds.shuffle(window=None).iter(seed=seed)), key=lambda row: row["id"]) == want
    assert [row["word"] for row in ds.select("word")] == [row["word"] for row in want]


@pytest.fixture
def folder(tmp_path):
    """The output of `Dataset.save_to_disk` (datasets): two streams in batches of 1,000 rows, and JSON beside."""
    for number in range(2):
        batches = [batch(number * 2500 + first, min(1000, 2500 - first)) for first in range(0, 2500, 1000)]
        (tmp_path / f"data-{number:05}-of-00002.arrow").write_bytes(stream(batches))
    (tmp_path / "state.json").write_text("{}")
    return tmp_path


def test_streams_and_files_together_everywhere(folder, moto, monkeypatch):
    table = pa.Table.from_batches([batch(5000, 700)])
    with pa.ipc.new_file(folder / "file.arrow", table.schema) as writer:
        writer.write_table(table)
    bucket = f"streams-{uuid.uuid4().hex[:8]}"
    put(moto, bucket)
    for path in folder.glob("*.arrow"):
        put(moto, f"{bucket}/{path.name}", path.read_bytes())
    for name, value in credentials(moto).items():
        monkeypatch.setenv(name, value)
    assert [row["id"] for row in fb.from_arrow(folder / "*.arrow").iter()] == list(range(5700))
    make = lambda at: fb.from_arrow(f"{at}/*.arrow").shuffle(window=1500).batch(100)  # noqa: E731
    want = [fingerprint(batch) for batch in make(folder).iter(seed=1)]
    assert [fingerprint(batch) for batch in make(f"s3://{bucket}").iter(seed=1)] == want
    with fb.up(workers=2, threads=1) as service:
        there = make(f"s3://{bucket}").distribute(service, job=f"job-{uuid.uuid4()}", seed=1)
        assert [fingerprint(batch) for batch in there] == want


def test_results_that_datasets_keeps_beside_a_data_set_are_no_rows_of_it(folder, monkeypatch):
    """`shuffle` of a data set that was loaded from a folder writes the numbers of its rows there."""
    (folder / "dataset_info.json").write_text("{}")
    indices = pa.record_batch({"indices": pa.array([2, 0, 1], pa.uint64())})
    (folder / "cache-0123abcd_indices.arrow").write_bytes(stream([indices]))
    monkeypatch.chdir(folder)
    for path in (folder, f"{folder}/*.arrow", f"file://{folder}/*", "*.arrow", "."):
        with pytest.raises(E.InvalidPipelineError, match=r"cache-0123abcd_indices\.arrow is a result") as told:
            fb.from_arrow(path)
        assert "data-*.arrow" in told.value.hint
    assert len(list(fb.from_arrow("data-*.arrow"))) == len(list(fb.from_arrow(f"{folder}/data-*.arrow"))) == 5000


def test_a_stream_that_is_cut_anywhere_is_an_error_that_names_where(tmp_path):
    path = tmp_path / "cut.arrow"
    whole = stream([batch(0, 20), batch(20, 20)])
    starts = message_starts(whole)
    for end in sorted({*range(0, len(whole), 37), *starts, *(start + 5 for start in starts[:-1]), len(whole) - 1}):
        path.write_bytes(whole[:end])
        with pytest.raises(E.DataError) as caught:
            list(fb.from_arrow(path))
        assert caught.value.context["file"] == str(path)
        if end >= starts[1]:
            at = max(start for start in starts if start <= end)
            assert int(caught.value.context["offset"]) == at, end
    assert "was not closed" in caught.value.hint
    path.write_bytes(whole + b"more")
    with pytest.raises(E.DataError, match="something behind its end") as caught:
        list(fb.from_arrow(path))
    assert int(caught.value.context["offset"]) == len(whole)


def message_starts(whole: bytes) -> list[int]:
    """Returns the starts of messages, including the end mark."""
    reader, starts = pa.BufferReader(whole), []
    while True:
        starts.append(reader.tell())
        if whole[starts[-1] + 4 : starts[-1] + 8] == bytes(4):
            return starts
        pa.ipc.read_message(reader)


def test_what_is_no_arrow_is_said_to_be_none(tmp_path):
    path = tmp_path / "x.arrow"
    for data in (
        b"",
        b"FEA1" + bytes(40),
        b"PAR1" + bytes(40),
        b'{"a": 1}\n' * 9,
        b"ARROW1\0\0" + bytes(40),
        bytes(64),
    ):
        path.write_bytes(data)
        with pytest.raises(E.DataError, match="not an arrow file") as caught:
            fb.from_arrow(path)
        assert caught.value.context["file"] == str(path)


def test_no_byte_of_a_stream_makes_a_bug_of_ours(tmp_path):
    path, rng = tmp_path / "x.arrow", np.random.default_rng(3)
    whole = stream([batch(0, 20), batch(20, 20, ["x", "y", "z"])], "zstd")
    refused = 0
    for _ in range(250):
        wrong = bytearray(whole)
        for at in rng.integers(0, len(wrong), rng.integers(1, 4)):
            wrong[at] = rng.integers(0, 256)
        if rng.random() < 0.3:
            at = int(rng.choice(message_starts(whole)))
            wrong[at : at + 8] = struct.pack("<Ii", 0xFFFFFFFF, int(rng.integers(-(2**31), 2**31)))
        path.write_bytes(wrong)
        try:
            assert len(list(fb.from_arrow(path))) <= 2**20
        except (E.DataError, E.InvalidPipelineError, E.ExhaustedError):
            refused += 1
    assert refused > 50
