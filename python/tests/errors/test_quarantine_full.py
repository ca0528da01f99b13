"""A quarantine file that cannot be written: the reader gets an error, and loses neither a batch nor a sample."""

from __future__ import annotations

import json
import resource
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from forebay import errors

ROWS, BATCH = 60, 4


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Simulates a full disk: writes beyond `size` bytes of a file fail, the part before them succeeds."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fragile(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] % 5 == 2:
        raise ValueError("no good")
    return row


def drained(it: fb.DatasetIterator, on_error: Callable[[errors.ForebayError], None] | None = None) -> list[list[int]]:
    """Returns all that an iterator yields; reports an error, and tries the next call."""
    batches = []
    while True:
        try:
            batches.append([int(n) for n in next(it)["id"]])
        except StopIteration:
            return batches
        except errors.ForebayError as error:
            if on_error is None:
                raise
            on_error(error)


def letters(path: Path) -> list[int]:
    return [json.loads(line)["number"] for line in path.read_text().splitlines()[1:]]


@pytest.mark.parametrize("room", [0, 100, 600, 1000, 1100, 1500, 2500])
def test_a_full_disk_loses_nothing_once_there_is_room_again(tmp_path, room):
    ds = fb.range(ROWS).map(fragile).batch(BATCH)
    options = {"on_error": "quarantine", "error_budget": 1.0}
    want = drained(ds.iter(quarantine=tmp_path / "whole.jsonl", **options))
    head = len((tmp_path / "whole.jsonl").read_text().splitlines()[0]) + 1

    path, told, it = tmp_path / "full.jsonl", [], ds.iter(quarantine=tmp_path / "full.jsonl", **options)
    states = []

    def make_room(error: errors.ForebayError) -> None:
        told.append(error)
        states.append(it.state_dict())
        assert path.stat().st_size in (0, head) or path.read_bytes().endswith(b"\n"), "no half a line"
        if len(told) == 3:  # it fails until there is room
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    with files_of_at_most(room):
        got = drained(it, make_room)
    assert got == want
    assert letters(path) == letters(tmp_path / "whole.jsonl")
    assert len(told) == 3
    assert isinstance(told[0], errors.ExhaustedError)
    assert told[0].context["file"] == str(path)
    assert "make room" in told[0].context["hint"]
    again = ds.iter(quarantine=tmp_path / "resumed.jsonl", **options)
    again.load_state_dict(states[0])
    resumed = drained(again)
    assert resumed == want[len(want) - len(resumed) :], "the state is before the batch that was not returned"
    assert len(resumed) > 0


def test_a_line_without_an_end_is_taken_away_by_who_goes_on(tmp_path):
    ds = fb.range(ROWS).map(fragile).batch(BATCH)
    options = {"on_error": "quarantine", "error_budget": 1.0, "quarantine": tmp_path / "q.jsonl"}
    drained(ds.iter(**options))
    whole = (tmp_path / "q.jsonl").read_bytes()
    for cut in (1, 50, 400):
        (tmp_path / "q.jsonl").write_bytes(whole[:-cut])
        drained(ds.iter(**options))
        assert sorted(letters(tmp_path / "q.jsonl")) == [n for n in range(ROWS) if n % 5 == 2]


def test_a_folder_that_may_not_be_written_is_named(tmp_path):
    (tmp_path / "taken").write_text("a file, no folder")
    it = (
        fb.range(5)
        .map(fragile)
        .iter(on_error="quarantine", error_budget=1.0, quarantine=tmp_path / "taken" / "q.jsonl")
    )
    with pytest.raises(errors.ForebayError, match="cannot write the quarantine file") as caught:
        list(it)
    assert caught.value.context["file"].endswith("taken/q.jsonl")


def test_a_warning_that_is_an_error_loses_no_batch():
    drawn = iter(range(1000))
    ds = fb.range(ROWS).map(lambda row: {"id": row["id"], "x": next(drawn)}, schema={"id": int, "x": int}).batch(BATCH)
    want = [list(range(i, i + BATCH)) for i in range(0, ROWS, BATCH)]
    got, it = [], ds.iter(on_error="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("error", fb.NonDeterministicWarning)
        while len(got) < len(want):
            try:
                got.append(next(it)["id"].tolist())
            except fb.NonDeterministicWarning:
                continue
    assert got == want
