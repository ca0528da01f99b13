"""ArrayRecord files that `array_record` wrote, compared with the rows of its own reader."""

from __future__ import annotations

import doctest
import itertools
import os
import pickle
import re
import shutil
import sys
import uuid
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordWriter
from forebay import errors as E
from forebay._src.sources import array_records, library_sources

#: Records of each file: one has none, and the names are not in the order of the sizes.
COUNTS = {"b-train.array_record-00000-of-00002": 211, "b-train.array_record-00001-of-00002": 0, "a.arrayrecord": 37,
          "c.array_record": 402}  # fmt: skip
ROWS = sum(COUNTS.values())


def write(path: Path, count: int, options: str = "group_size:1", first: int = 0) -> None:
    writer = ArrayRecordWriter(str(path), options)
    for row in range(first, first + count):
        writer.write(f"{path.name} {row}".encode() + bytes(row % 50))
    writer.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four files with groups of one record and of many, and others beside them."""
    made = tmp_path / "shards"
    made.mkdir()
    for place, (name, count) in enumerate(COUNTS.items()):
        write(made / name, count, f"group_size:{[1, 1, 8, 64][place]}")
    for name in ("_SUCCESS", ".a.array_record", "_b.array_record", "dataset_info.json", "a.array_record.tmp"):
        (made / name).write_text("no records")
    return made


def theirs(folder: Path) -> list[bytes]:
    return list(ArrayRecordDataSource([str(folder / name) for name in sorted(COUNTS)]))


def records(batches) -> list[bytes]:
    return [record for batch in batches for record in batch["record"]]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("executor", ["thread", "process"])
def test_every_record_comes_as_the_library_reads_it(folder, threads, executor):
    ds = fb.from_array_record(folder)
    how = {"threads": threads, "executor": executor}
    want = theirs(folder)
    assert str(ds.schema) == "Schema(record: bytes)"
    assert len(want) == ROWS == ds.cardinality
    assert [row["record"] for row in ds.iter(**how)] == want
    shuffled = ds.shuffle().batch(16)
    got = records(shuffled.iter(seed=3, **how))
    assert got != want
    assert sorted(got) == sorted(want)
    order = [int(row["id"]) for row in fb.range(ROWS).shuffle().iter(seed=3)]
    assert got == [want[row] for row in order], "the order is that of all rows"


def test_a_run_goes_on_from_the_middle(folder):
    ds = fb.from_array_record(folder).shuffle().batch(16)
    it = ds.iter(seed=5, epochs=2)
    list(itertools.islice(it, 50))
    state = it.state_dict()
    rest = records(it)
    again = fb.from_array_record(folder).shuffle().batch(16).iter(seed=5, epochs=2, threads=3)
    again.load_state_dict(state)
    assert records(again) == rest
    assert len(rest) == 2 * ROWS - 41 * 16 + 6 - 9 * 16, "41 batches are an epoch, the last of 10"


def test_a_service_gives_the_same(folder):
    ds = fb.from_array_record(folder).shuffle().batch(16)
    want = records(ds.iter(seed=7))
    with fb.up(workers=2, threads=1) as service:
        assert records(ds.distribute(service, job=uuid.uuid4().hex, seed=7)) == want


def test_paths_are_those_of_other_sources(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    names = sorted(COUNTS)
    whole = {name: list(ArrayRecordDataSource(str(folder / name))) for name in names}

    def files(paths) -> list[str]:
        got = [row["record"] for row in fb.from_array_record(paths)]
        left, found = list(got), []
        while left:
            found += [name for name in names if whole[name] and left[: len(whole[name])] == whole[name]]
            left = left[len(whole[found[-1]]) :]
        return found

    a, b, _, c = names
    assert files("shards") == files(folder) == files(folder.as_uri()) == [a, b, c]
    assert files("shards/[a-c]*[2d]") == [a, b, c], "a pattern takes what it matches"
    assert files(["shards/c.array_record", folder / "a.arrayrecord"]) == [c, a], "the order of the list"
    assert files("shards/{c.array_record,a.arrayrecord}") == [c, a]
    assert files("shards/b-train.array_record-{00000..00001}-of-00002") == [b]
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "up").symlink_to(folder)
    shutil.move(folder / c, folder / "deep" / "er" / c)
    assert files("shards") == files("shards/**/[a-c]*[2d]") == [a, b, c], "each once, though a link goes round"


def test_what_is_not_there_is_an_error(folder, monkeypatch):
    for nothing in (folder / "none-*.array_record", folder / "none.array_record", folder.parent / "none"):
        with pytest.raises(E.MissingFileError) as caught:
            fb.from_array_record(nothing)
        with pytest.raises(E.MissingFileError) as usual:
            fb.from_tfrecord(nothing)
        assert caught.value.message == usual.value.message
        assert caught.value.context["file"] == usual.value.context["file"] == str(nothing)
        assert "test_array_record.py" in caught.value.context["line"]
    empty = folder.parent / "empty"
    empty.mkdir()
    with pytest.raises(E.MissingFileError):
        fb.from_array_record(empty)
    with pytest.raises(E.InvalidPipelineError, match="store"):
        fb.from_array_record("gs://bucket/a.array_record")
    ds = fb.from_array_record(folder)
    monkeypatch.setitem(sys.modules, "array_record.python", None)
    with pytest.raises(E.FunctionError, match="pip install array_record"):
        list(ds.iter(on_error="skip", error_budget=1.0))
    with pytest.raises(E.UnavailableError, match=r"pip install array_record") as caught:
        fb.from_array_record(folder)
    assert caught.value.hint == "pip install array_record"


def test_a_file_that_is_none_or_is_cut_off_is_an_error(folder):
    """The library counts no records in such a file, and reports no error."""
    whole = (folder / "c.array_record").read_bytes()
    for damaged in (b"", b"no records", whole[:-1], whole[: len(whole) // 2]):
        (folder / "c.array_record").write_bytes(damaged)
        with pytest.raises(E.DataError) as caught:
            fb.from_array_record(folder)
        assert caught.value.context["file"] == str(folder / "c.array_record")


def test_a_damaged_record_is_left_out_alone(folder):
    name = "b-train.array_record-00000-of-00002"
    data = bytearray((folder / name).read_bytes())
    data[4000] ^= 0xFF
    (folder / name).write_bytes(data)
    own = ArrayRecordDataSource(str(folder / name))
    good = []
    for row in range(COUNTS[name]):
        try:
            good.append(own[row])
        except RuntimeError:
            continue
    assert 0 < COUNTS[name] - len(good) < 5, "else this shows nothing"
    ds = fb.from_array_record(folder / name)
    with pytest.raises(E.FunctionError, match=name):
        list(ds)
    it = ds.iter(on_error="skip", error_budget=5)
    assert [row["record"] for row in it] == good
    assert len(it.skipped) == COUNTS[name] - len(good)


def test_the_files_are_pinned(folder, tmp_path):
    path = folder / "c.array_record"
    ds = fb.from_array_record(path)
    assert fb.from_array_record(str(path)).dataset_id == ds.dataset_id
    assert pickle.loads(pickle.dumps(ds)).dataset_id == ds.dataset_id
    before = path.stat()
    write(path, 402, "group_size:64", first=1000)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(E.FunctionError, match="changed since the pipeline was written"):
        list(ds.iter(on_error="skip", error_budget=1.0))
    changed = fb.from_array_record(path)
    assert changed.dataset_id != ds.dataset_id
    assert next(iter(changed))["record"].startswith(b"c.array_record 1000")
    path.unlink()
    with pytest.raises(E.FunctionError, match="cannot be opened"):
        list(changed)


def test_many_files_are_read_with_few_open(folder, monkeypatch):
    monkeypatch.setattr(array_records, "_READERS_MAX", 2)
    for number in range(12):
        write(folder / f"d{number:02}.array_record", 5)
    paths = [str(folder / f"d{number:02}.array_record") for number in range(12)]
    reader = array_records.ArrayRecords.of(paths)
    before = len(os.listdir("/proc/self/fd"))
    rows = np.random.default_rng(1).permutation(60)
    want = list(ArrayRecordDataSource(paths))
    assert reader({"id": rows})["record"] == [want[row] for row in rows]
    assert len(os.listdir("/proc/self/fd")) <= before + 2


@pytest.mark.parametrize("package", ["array_record", "lance", "deltalake"])
def test_the_code_of_the_reference_runs(package, tmp_path, monkeypatch):
    """The tests of the pages leave it out where the package is not installed."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference.md").read_text()
    found = re.findall(rf"^```python {package}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found
    for code in found:
        exec(code, {"__name__": "__main__"})


def test_the_examples_of_the_docstrings_run():
    done = doctest.testmod(library_sources, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert done.failed == 0
    assert done.attempted >= 4
