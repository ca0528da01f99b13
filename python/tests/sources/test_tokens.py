"""Flat files of token ids and Megatron's indexed datasets, beside NumPy's reading of the same files."""

from __future__ import annotations

import itertools
import os
import struct
import uuid
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest
from buckets import credentials, put
from pipelines import fingerprint

E = fb.errors
SKIP = {"on_error": "skip", "error_budget": 1.0}
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def ids(count: int, dtype: str = "uint16", seed: int = 0) -> np.ndarray[Any, Any]:
    most = min(int(np.iinfo(dtype).max), 2**40)
    return np.random.default_rng(seed).integers(0, most, count, endpoint=True).astype(dtype)


def rows(ds: fb.Dataset, **options: Any) -> list[list[int]]:
    return [row["tokens"].tolist() for row in ds.iter(**options)]


def cut(array: np.ndarray[Any, Any], length: int, stride: int) -> list[list[int]]:
    """Returns the rows as a user would cut them with a memory map."""
    return [array[at : at + length].tolist() for at in range(0, len(array) - length + 1, stride)]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("length", "stride"), [(8, None), (9, 8), (4, 7), (1, 1), (100, None)])
def test_rows_are_those_of_a_memory_map(tmp_path, dtype, length, stride):
    arrays = [ids(n, dtype, seed=n) for n in (100, 7, 0, 203)]
    arrays[0][:2] = np.iinfo(dtype).max if dtype != "uint64" else 2**63 - 1, np.iinfo(dtype).min
    for i, array in enumerate(arrays):
        array.tofile(tmp_path / f"{i}.bin")
    ds = fb.from_tokens(tmp_path / "{0..3}.bin", dtype=dtype, length=length, stride=stride)
    want = [row for array in arrays for row in cut(array, length, stride or length)]
    assert ds.schema["tokens"] == ("int64", (length,))
    assert ds.cardinality == len(want)
    assert rows(ds) == want
    shuffled = rows(ds.shuffle(), seed=1)
    assert sorted(shuffled) == sorted(want)
    assert shuffled != want or len(want) < 5


@pytest.mark.parametrize("dtype", ["uint16", "int64"])
def test_npy_is_read_behind_its_header_and_its_type_is_checked(tmp_path, dtype):
    array = ids(50, dtype)
    np.save(tmp_path / "a.npy", array)
    for version in ((2, 0), (3, 0)):
        with (tmp_path / f"{version[0]}.npy").open("wb") as file:
            np.lib.format.write_array(file, array, version)
    assert rows(fb.from_tokens(tmp_path / "*.npy", dtype=dtype, length=10)) == cut(array, 10, 10) * 3
    with pytest.raises(E.InvalidPipelineError, match=f"the file holds {dtype}, and dtype says int32") as caught:
        fb.from_tokens(tmp_path / "a.npy", dtype=np.int32)
    assert caught.value.hint == f'use dtype="{dtype}"'
    assert caught.value.context["file"].endswith("a.npy")


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.zeros((3, 4), np.uint16), "2 dimensions"),
        (np.zeros(8, ">u2"), "the other order"),
        (np.zeros(8, np.float32), "whole numbers"),
        (np.zeros(8, [("a", np.uint16)]), "whole numbers"),
    ],
)
def test_an_array_that_is_no_run_of_ids_is_refused(tmp_path, array, match):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(E.InvalidPipelineError, match=match):
        fb.from_tokens(tmp_path / "a.npy", length=2)


@pytest.mark.parametrize(("magic", "version", "dtype"), [(20240520, 1, "uint16"), (20240801, 7, "uint32")])
def test_the_header_of_llm_c_is_no_ids(tmp_path, magic, version, dtype):
    array = ids(60, dtype)
    header = np.zeros(256, np.int32)
    header[:3] = magic, version, len(array)
    whole = header.tobytes() + array.tobytes()
    path = tmp_path / "shard.bin"
    path.write_bytes(whole)
    assert rows(fb.from_tokens(path, dtype=dtype, length=8)) == cut(array, 8, 8)
    for wrong in (whole[:-2], whole + bytes(4), whole[:1024]):
        path.write_bytes(wrong)
        with pytest.raises(E.DataError, match="ids that its header counts") as caught:
            fb.from_tokens(path, dtype=dtype, length=8)
        assert caught.value.context["file"] == str(path)


def test_a_wrong_call_or_file_is_told_what_to_do(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(101))
    with pytest.raises(E.DataError, match="101 bytes are no whole number of uint16") as caught:
        fb.from_tokens(path, length=4)
    assert "dtype" in caught.value.hint
    with pytest.raises(E.DataError, match="no row of 1024 ids"):
        fb.from_tokens(path, dtype="uint8")
    path.write_bytes(b"")
    with pytest.raises(E.DataError, match="no row of 4 ids"):
        fb.from_tokens(path, length=4)
    for options, match in [
        ({"dtype": "float32"}, "whole numbers"),
        ({"dtype": "uint17"}, "unknown dtype"),
        ({"length": 0}, "length=0"),
        ({"stride": 0}, "stride=0"),
        ({"length": 2**40}, "out of range"),
        ({"column": 3}, "column=3"),
    ]:
        with pytest.raises(E.InvalidPipelineError, match=match):
            fb.from_tokens(path, **options)  # type: ignore[arg-type]
    with pytest.raises(E.NotFoundError):
        fb.from_tokens(tmp_path / "none.bin")
    (tmp_path / "a.bin.gz").write_bytes(b"\x1f\x8b\x08" + bytes(99))
    with pytest.raises(E.DataError, match="compressed with gzip"):
        fb.from_tokens(tmp_path / "a.bin.gz")
    np.array([1, 2**63], np.uint64).tofile(path)
    ds = fb.from_tokens(path, dtype="uint64", length=1)
    with pytest.raises(E.DataError, match="larger than int64") as caught:
        list(ds)
    assert caught.value.context["sample"] == f"{path}#1"
    assert rows(ds, **SKIP) == [[1]]


def test_a_file_that_is_written_over_is_refused_and_an_index_is_not_used_for_another_length(tmp_path):
    path = tmp_path / "a.bin"
    ids(64).tofile(path)
    assert [len(rows(fb.from_tokens(path, length=n).shuffle())) for n in (8, 16, 8)] == [8, 4, 8]
    assert len(rows(fb.from_tokens(path, length=8, stride=4).shuffle())) == 15
    iterator = iter(fb.from_tokens(path, length=8).batch(1).prefetch(1))
    next(iterator)
    ids(32).tofile(path)
    with pytest.raises(E.DataError, match="changed since it was indexed"):
        list(iterator)


class IndexedDatasetBuilder:
    """Writes `.bin` and `.idx` as Megatron's `IndexedDatasetBuilder` and `_IndexWriter` (indexed_dataset.py) do."""

    CODES = ("uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16")

    def __init__(self, prefix: Path, dtype: str) -> None:
        self.prefix, self.dtype = prefix, np.dtype(dtype)
        self.data, self.lengths, self.documents = b"", [], [0]

    def add_document(self, sequences: list[Any]) -> None:
        for sequence in sequences:
            self.data += np.array(sequence, self.dtype).tobytes()
            self.lengths.append(len(sequence))
        self.documents.append(len(self.lengths))

    def finalize(self, modes: bool = False) -> Path:
        pointers = [0, *itertools.accumulate(n * self.dtype.itemsize for n in self.lengths)][:-1]
        index = b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, 1 + self.CODES.index(self.dtype.name))
        index += struct.pack("<QQ", len(self.lengths), len(self.documents))
        index += np.array(self.lengths, np.int32).tobytes() + np.array(pointers, np.int64).tobytes()
        index += np.array(self.documents, np.int64).tobytes() + bytes(len(self.lengths) if modes else 0)
        Path(f"{self.prefix}.bin").write_bytes(self.data)
        Path(f"{self.prefix}.idx").write_bytes(index)
        return self.prefix


def documents(count: int, dtype: str, seed: int = 0) -> list[list[list[int]]]:
    """Documents of none to three sequences, some empty, some long."""
    rng = np.random.default_rng(seed)
    most = min(int(np.iinfo(dtype).max), 2**31 - 1)
    sequence = lambda: rng.integers(0, most, rng.integers(0, 40)).tolist()  # noqa: E731
    return [[sequence() for _ in range(rng.integers(0, 4))] for _ in range(count)]


def megatron(prefix: Path, dtype: str, seed: int = 0, modes: bool = False) -> list[list[int]]:
    builder = IndexedDatasetBuilder(prefix, dtype)
    written = documents(60, dtype, seed)
    for document in written:
        builder.add_document(document)
    builder.finalize(modes)
    return [[i for sequence in document for i in sequence] for document in written]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "uint16"])
def test_documents_are_those_of_megatron(tmp_path, dtype):
    want = megatron(tmp_path / "a_text_document", dtype)
    ds = fb.from_megatron(tmp_path / "a_text_document")
    assert ds.schema["tokens"] == ("int32", (None,))
    assert ds.cardinality == 60
    assert rows(ds) == want
    assert sorted(rows(ds.shuffle(), seed=2)) == sorted(want)
    more = megatron(tmp_path / "b_text_document", "int32", seed=1, modes=True)
    for given in ["a_text_document.bin", "a_text_document.idx"]:
        assert rows(fb.from_megatron(tmp_path / given)) == want
    for given in ["*_text_document", "{a,b}_text_document.bin"]:
        assert rows(fb.from_megatron(tmp_path / given)) == want + more
    packed = [row["tokens"].tolist() for row in ds.pack("tokens", 64)]
    assert [i for row in packed for i in row][: sum(map(len, want))] == [i for document in want for i in document]


def test_an_index_that_is_cut_or_does_not_fit_its_ids_is_refused(tmp_path):
    prefix = tmp_path / "a"
    megatron(prefix, "uint16")
    index, data = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    whole, stored = index.read_bytes(), data.read_bytes()
    sequences = struct.unpack_from("<Q", whole, 18)[0]

    def refused(match: str, kind: type[fb.errors.ForebayError] = E.DataError) -> fb.errors.ForebayError:
        with pytest.raises(kind, match=match) as caught:
            list(fb.from_megatron(prefix))
        assert caught.value.context["file"] in (str(index), str(data))
        return caught.value

    def at(offset: int, code: str, value: int) -> bytes:
        return whole[:offset] + struct.pack(code, value) + whole[offset + struct.calcsize(code) :]

    for end in range(0, len(whole), 7):
        index.write_bytes(whole[:end])
        refused("no index|ends")
    pointers = 34 + 4 * sequences
    for wrong, match in [
        (b"tensors" + whole[7:], "no magic"),
        (at(9, "<Q", 2), "version 2"),
        (at(17, "<B", 77), "type 77"),
        (at(18, "<Q", 2**63), "ends before"),
        (at(26, "<Q", 2**61), "ends before"),
        (whole + bytes(sequences + 1), "goes on"),
        (at(34, "<i", -5), "a negative number of ids"),
        (at(34, "<i", 2**31 - 1), "file of ids has"),
        (at(pointers + 8, "<q", 1), "begins at 1"),
        (at(pointers, "<q", -2), "begins at -2"),
        (at(len(whole) - 8, "<q", sequences - 1), "leaves out 1 sequences"),
        (at(len(whole) - 8, "<q", sequences + 1), "not in order"),
        (at(len(whole) - 16, "<q", -1), "before the first"),
        (at(pointers + 8 * sequences, "<q", 1), "does not begin"),
    ]:
        index.write_bytes(wrong)
        refused(match)
    index.write_bytes(at(17, "<B", 7))
    refused("real numbers", E.InvalidPipelineError)
    index.write_bytes(whole)
    data.write_bytes(stored[:-2])
    refused("the file of ids has")
    data.write_bytes(stored + b"\0\0")
    refused("2 bytes of the ids")
    data.unlink()
    refused("no such file", E.NotFoundError)
    index.unlink()
    refused("no such file", E.NotFoundError)


def test_no_byte_of_an_index_or_header_makes_a_bug_of_ours(tmp_path):
    megatron(tmp_path / "a", "uint16")
    np.save(tmp_path / "a.npy", ids(100))
    rng, refused = np.random.default_rng(7), 0
    reads = {
        "a.idx": lambda: fb.from_megatron(tmp_path / "a"),
        "a.npy": lambda: fb.from_tokens(tmp_path / "a.npy", length=4),
    }
    for name, read in reads.items():
        whole = (tmp_path / name).read_bytes()
        for _ in range(150):
            wrong = bytearray(whole)
            for at in rng.integers(0, len(whole) if name == "a.idx" else 80, rng.integers(1, 4)):
                wrong[at] = rng.integers(0, 256)
            (tmp_path / name).write_bytes(wrong)
            try:
                list(read())
            except (E.DataError, E.InvalidPipelineError, E.ExhaustedError):
                refused += 1
        (tmp_path / name).write_bytes(whole)
    assert refused > 100


def test_an_id_that_int32_does_not_hold_fails_its_document_alone(tmp_path):
    builder = IndexedDatasetBuilder(tmp_path / "a", "int64")
    for document in ([[1, 2]], [[2**31]], [[3]]):
        builder.add_document(document)
    ds = fb.from_megatron(builder.finalize())
    with pytest.raises(E.DataError, match="larger than int32") as caught:
        list(ds)
    assert caught.value.context["sample"] == f"{tmp_path}/a.bin#1"
    assert rows(ds, **SKIP) == [[1, 2], [3]]


def test_what_is_kept_of_documents_is_not_that_of_another_index(tmp_path):
    """The same ids in the same file, cut otherwise: only the index differs."""
    found = []
    for second, lengths in enumerate([(2, 2), (2, 2), (1, 3)]):
        builder = IndexedDatasetBuilder(tmp_path / "a", "uint16")
        builder.add_document([range(1, lengths[0] + 1)])
        builder.add_document([range(lengths[0] + 1, 5)])
        builder.finalize()
        os.utime(tmp_path / "a.bin", (1000, 1000))
        os.utime(tmp_path / "a.idx", (2000 + second // 2, 2000 + second // 2))
        it = iter(fb.from_megatron(tmp_path / "a").with_column("length", fb.col("tokens").len()).cache())
        found.append(([row["tokens"].tolist() for row in it], it.stats()["cache"]["rows"]["found_in_memory"]))
    # The hits are counted for the process: the other index had none.
    assert found == [([[1, 2], [3, 4]], 0), ([[1, 2], [3, 4]], 2), ([[1], [2, 3, 4]], 2)]


@pytest.fixture
def bucket(moto, tmp_path, monkeypatch):
    """Both kinds of files, here and in a bucket."""
    ids(500).tofile(tmp_path / "t.bin")
    megatron(tmp_path / "m", "uint16")
    put(moto, "tokens")
    for name in ("t.bin", "m.bin", "m.idx"):
        put(moto, f"tokens/{name}", (tmp_path / name).read_bytes())
    for name, value in credentials(moto).items():
        monkeypatch.setenv(name, value)
    return "s3://tokens"


def test_a_bucket_and_a_service_give_what_the_files_give_here(bucket, tmp_path):
    sources = [
        lambda at: fb.from_tokens(f"{at}/t.bin", length=17, stride=16).shuffle().batch(4),
        lambda at: fb.from_megatron(f"{at}/m*").shuffle().pack("tokens", 32).batch(4),
    ]
    with fb.up(workers=2, threads=1) as service:
        for source in sources:
            here = [fingerprint(batch) for batch in source(tmp_path).iter(seed=5)]
            assert [fingerprint(batch) for batch in source(bucket).iter(seed=5)] == here
            there = source(bucket).distribute(service, job=f"job-{uuid.uuid4()}", seed=5)
            assert [fingerprint(batch) for batch in there] == here
