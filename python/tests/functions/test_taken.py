"""Results of users' code are taken before that code runs again, so it may change them afterwards."""

from __future__ import annotations

import array
import sys
import weakref
from collections.abc import Iterator, Mapping

import forebay as fb
import numpy as np
import pytest

EXECUTORS = ["thread", "process"]
ROWS = 100


class Likeness:
    """An object with the interface of another library's tensor."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.array


class Derived(np.ndarray):
    pass


class Lazy(Mapping):
    """Makes each value on access, in its only buffer."""

    def __init__(self, buffer: np.ndarray, i: int) -> None:
        self.buffer, self.i = buffer, i

    def __getitem__(self, key: str) -> np.ndarray:
        self.buffer[...] = self.i + (key == "mapped_b")
        return self.buffer

    def __iter__(self) -> Iterator[str]:
        return iter(["mapped_a", "mapped_b"])

    def __len__(self) -> int:
        return 2


class Buffers:
    """Fills the same memory for each row, in every form in which memory can be returned."""

    def __init__(self) -> None:
        self.array = np.zeros(4, np.int64)
        self.large = np.zeros((50, 50), np.int64)
        self.single = np.zeros((), np.int64)
        self.readonly = self.array.view()
        self.readonly.flags.writeable = False
        self.raw = bytearray(8)
        self.typed = array.array("q", [0, 0])
        self.over_raw = np.frombuffer(self.raw, np.uint8)
        self.masked = np.ma.array(np.zeros(2, np.int64), mask=False)
        self.derived = np.zeros(2, np.int64).view(Derived)
        self.numbers, self.nested, self.arrays = [0, 0], [[0], [0]], [np.zeros(2), np.zeros(2)]
        self.row: dict = {}
        self.again: weakref.ref | None = None

    def __reduce__(self):
        # A pickle would separate objects that share memory.
        return Buffers, ()

    def pooled(self) -> np.ndarray:
        """Returns an array that is used again if it still exists, without a reference to it."""
        found = None if self.again is None else self.again()
        if found is None:
            found = np.zeros(1000, np.int64)
            self.again = weakref.ref(found)
        return found

    def __call__(self, i: int) -> dict:
        for buffer in (self.array, self.large, self.single, self.masked, self.derived, *self.arrays):
            buffer[...] = i
        self.raw[:] = bytes([i % 256]) * 8
        self.typed[0] = i
        self.numbers[:], self.nested[1][0] = [i, i + 1], i
        pooled = self.pooled()
        pooled[...] = i
        self.row.update(
            array=self.array,
            large=self.large,
            view=self.large.T[::2],
            single=self.single,
            readonly=self.readonly,
            over_raw=self.over_raw,
            masked=self.masked,
            derived=self.derived,
            numbers=self.numbers,
            nested=self.nested,
            within=(self.nested,),
            arrays=self.arrays,
            raw=self.raw,
            typed=self.typed,
            memory=memoryview(self.raw)[::2],
            likeness=Likeness(self.array),
            pooled=pooled,
            plain=i,
        )
        return self.row


def expected(i: int) -> dict:
    # The result of the same code when it runs once.
    return {name: np.array(as_array(value)) for name, value in Buffers()(i).items()}


def as_array(value) -> np.ndarray:
    return np.asarray(bytes(value)) if isinstance(value, (bytes, bytearray, memoryview)) else np.asarray(value)


def check(rows: list[dict], first: int = 0) -> None:
    assert len(rows) == ROWS - first
    for i, row in enumerate(rows, first):
        for name, value in expected(i).items():
            np.testing.assert_array_equal(as_array(row[name]), value, f"{name} of row {i}")


class Items:
    def __init__(self) -> None:
        self.buffers = Buffers()

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, i: int) -> dict:
        return self.buffers(i)


def of_map() -> fb.Dataset:
    buffers = Buffers()
    return fb.range(ROWS).map(lambda row: buffers(int(row["id"])))


def of_batches() -> fb.Dataset:
    buffers = Buffers()
    return fb.range(ROWS).batch(1).map(lambda batch: {k: [v] for k, v in buffers(int(batch["id"][0])).items()})


def of_generator() -> fb.Dataset:
    def rows():
        buffers = Buffers()
        for i in range(ROWS):
            yield buffers(i)

    return fb.from_generator(rows)


SOURCES = {
    "map": of_map,
    "batches": of_batches,
    "items": lambda: fb.from_map_dataset(Items()),
    "generator": of_generator,
}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_buffer_that_is_filled_again_gives_the_rows_that_it_held(source, executor):
    # Functions in several threads would fill the memory at once.
    rows = list(SOURCES[source]().iter(threads=1, executor=executor))
    check([{k: v[0] for k, v in row.items()} for row in rows] if source == "batches" else rows)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_was_returned_may_be_changed_later(executor):
    kept: list[dict] = []

    def later(row):
        for old in kept:
            old["x"][...], old["id"], old["inner"]["y"] = -1, -1, -1
        kept.append({"id": row["id"], "x": row["x"] * 2, "inner": {"y": int(row["id"])}})
        return kept[-1]

    ds = fb.from_dict({"id": np.arange(100), "x": np.arange(300.0).reshape(100, 3)}).map(later)
    for i, row in enumerate(ds.iter(threads=1, executor=executor)):
        assert (row["id"], row["x"].tolist(), row["inner.y"]) == (i, [6.0 * i, 6.0 * i + 2, 6.0 * i + 4], i)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_filters_and_views_that_change(executor):
    single, several = np.zeros((), bool), []

    def keep(row):
        single[...] = row["id"] % 3 == 0
        return single

    def keep_list(row):
        several[:] = [1] * int(row["id"] % 2)
        return several

    ds = fb.range(ROWS).filter(keep).filter(keep_list)
    assert [int(r["id"]) for r in ds.iter(threads=1, executor=executor)] == list(range(3, ROWS, 6))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_mapping_that_makes_its_values_late(executor):
    buffer = np.zeros(3, np.int64)
    ds = fb.range(ROWS).map(lambda row: Lazy(buffer, int(row["id"])))
    rows = [(r["mapped_a"].tolist(), r["mapped_b"].tolist()) for r in ds.iter(threads=1, executor=executor)]
    assert rows == [([i] * 3, [i + 1] * 3) for i in range(ROWS)]


def test_what_a_list_is_when_the_schema_is_found():
    def growing():
        held: list[int] = []
        for i in range(6):
            held.append(i)
            yield {"t": held}

    ds = fb.from_generator(growing)
    assert ds.schema["t"] == ("int64", (None,))
    assert [r["t"].tolist() for r in ds] == [list(range(n)) for n in range(1, 7)]


def test_what_a_function_got_cannot_be_changed_and_passes_through():
    seen = []

    def tries(row):
        with pytest.raises(ValueError, match="read-only"):
            row["x"][...] = 0
        seen.append(row)
        return row

    x = np.arange(4000.0).reshape(4, 1000)
    ds = fb.from_dict({"x": x, "b": [b"0", b"1", b"2", b"3"]}).map(tries).cache()
    for _ in range(2):
        for i, row in enumerate(ds):
            assert row["b"] == b"%d" % i
            np.testing.assert_array_equal(row["x"], np.arange(1000.0 * i, 1000.0 * (i + 1)))


def test_a_list_that_holds_itself_is_an_error():
    held: list = []
    held.append(held)
    with pytest.raises(fb.errors.FunctionError, match="no column can hold"):
        fb.range(3).map(lambda row: {"x": held})
    assert sys.getrefcount(held) < 100
