"""Users' Python functions in processes of their own, which may die, hang, print, or be killed."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

import forebay as fb
import numpy as np
import pytest


def run(ds: fb.Dataset, executor: str, **options) -> list:
    return list(ds.iter(executor=executor, **options))


def test_a_process_that_dies_is_an_error_and_the_next_run_works():
    def crash(row):
        if row["id"] == 40:
            ctypes.string_at(0)
        return row

    def leave(row):
        if row["id"] == 40:
            os._exit(3)
        return row

    def killed(row):
        if row["id"] == 40:
            os.kill(os.getpid(), signal.SIGKILL)
        return row

    for function, says in ((crash, "SIGSEGV"), (leave, "exited with code 3"), (killed, "SIGKILL")):
        ds = fb.range(100).map(function, schema={"id": "int64"})
        with pytest.raises(fb.errors.FunctionError, match=says) as caught:
            run(ds, "process")
        assert caught.value.context["sample"].endswith("40") or "40" in caught.value.context["sample"]
        assert len(run(ds.take(30), "process")) == 30


def test_a_function_that_never_returns_is_stopped():
    def hang(row):
        if row["id"] == 7:
            while True:
                time.sleep(1)
        return row

    ds = fb.range(10).map(hang, schema={"id": "int64"}, timeout=2.5)
    with pytest.raises(fb.errors.FunctionError, match=r"no answer within 2\.5 s") as caught:
        run(ds, "process")
    assert "7" in caught.value.context["sample"]


def test_the_time_limit_is_for_one_call():
    def slow(row):
        time.sleep(0.05)
        return row

    assert len(run(fb.range(64).map(slow, schema={"id": "int64"}, timeout=2.5), "process", threads=1)) == 64


def test_printing_in_a_process_does_not_reach_standard_output(capfd):
    def chatty(row):
        print("hello from a function")
        return row

    run(fb.range(3).map(chatty, schema={"id": "int64"}), "process")
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("hello from a function") == 3


def children() -> set[str]:
    mine = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as file:
                mine += file.read().split()
        except FileNotFoundError:
            pass
    return set(mine)


def test_no_process_stays_behind(until, monkeypatch):
    monkeypatch.setenv("FOREBAY_FUNCTION_IDLE", "0")
    before = children()
    it = fb.range(1000).map(lambda r: r, schema={"id": "int64"}).iter(executor="process", threads=2)
    next(it)
    assert children() - before
    it.close()
    until(lambda: not children() - before)


def test_processes_are_kept_for_iterators_of_the_same_functions(until, monkeypatch):
    monkeypatch.setenv("FOREBAY_FUNCTION_IDLE", "600")

    def pids(ds: fb.Dataset, rows: int | None = None) -> set[int]:
        it = ds.iter(executor="process", threads=1)
        found = {int(row["pid"]) for row, _ in zip(it, range(rows or 10**9), strict=False)}
        it.close()
        return found

    def who(row):
        return {"pid": os.getpid()}

    # Never called twice for one row, because a pid is the only result that must not be compared.
    ds = fb.range(10).map(who, schema={"pid": "int64"})
    other = ds.map(lambda row: row, schema={"pid": "int64"})
    first = pids(ds)
    assert len(first) == 1
    assert pids(ds) == first
    # Also when it is stopped in the middle; others have their own processes.
    assert pids(ds, rows=2) == first
    assert pids(other).isdisjoint(first)
    assert pids(ds) == first
    # Another environment or folder needs other processes.
    monkeypatch.setenv("SOME_SETTING_OF_A_FUNCTION", "1")
    assert pids(ds).isdisjoint(first)
    # With an idle time of zero, idle processes end at once.
    monkeypatch.setenv("FOREBAY_FUNCTION_IDLE", "0.01")
    last = pids(fb.range(11).map(who, schema={"pid": "int64"}))
    until(lambda: not {str(pid) for pid in last} & children())


@pytest.mark.parametrize("source", ["map", "filter", "batched", "items", "generator"])
def test_processes_that_are_killed_change_nothing(source, tmp_path):
    pids, over = tmp_path / "pids", tmp_path / "over"
    pids.mkdir()

    def at_work(row, seconds=0.001):
        # A process that is killed while it starts is restarted only a few times.
        (pids / str(os.getpid())).touch()
        time.sleep(seconds)
        while row == 599 and not over.exists():
            time.sleep(0.005)

    def slow(row):
        at_work(row["id"])
        return {"id": row["id"], "x": row["id"] * 2}

    def batched(batch):
        at_work(batch["id"][-1], 0.02)
        return {"id": batch["id"], "x": batch["id"] * 2}

    def keep(row):
        at_work(row["id"])
        return row["id"] % 2 == 0

    class Items:
        def __len__(self):
            return 600

        def __getitem__(self, i):
            at_work(i)
            return {"id": i, "x": 2 * i}

    def rows():
        for i in range(600):
            at_work(i)
            yield {"id": i, "x": 2 * i}

    number = {"id": "int64", "x": "int64"}
    sets = {
        "map": lambda: fb.range(600).map(slow, schema=number),
        "filter": lambda: fb.range(600).filter(keep),
        "batched": lambda: fb.range(600).map(batched, batched=True, schema=number),
        "items": lambda: fb.from_map_dataset(Items(), schema=number),
        "generator": lambda: fb.from_generator(rows, schema=number),
    }
    ds = sets[source]()
    ended, killed = threading.Event(), set()

    def kill():
        """Kills three processes; the last row waits for it."""
        random = np.random.default_rng(1)
        try:
            while len(killed) < 3 and not ended.wait(0.02 + random.random() * 0.1):
                working = {int(path.name) for path in pids.iterdir()} - killed
                for pid in list(working)[: 3 - len(killed)]:
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)
        finally:
            over.touch()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        it = ds.iter(executor="process", threads=2, on_error="skip")
        got = [repr(row) for row in it]
        assert it.skipped == []
    finally:
        ended.set()
        killer.join()
    assert len(killed) == 3
    assert got == [repr(row) for row in ds]


def test_processes_that_are_killed_while_they_wait_are_no_function_s_fault(until):
    def is_gone(pid: str) -> bool:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"

    def batched(batch):
        time.sleep(0.01)
        return batch

    before, ds = children(), fb.range(4000).map(batched, batched=True, schema={"id": "int64"})
    for it in [ds.iter(executor="process", threads=2) for _ in range(2)]:
        assert len(list(it)) == 4000
    its = [ds.iter(executor="process", threads=2) for _ in range(2)]
    assert all(int(next(it)["id"]) == 0 for it in its)
    for it in its:
        it.close()
    # The number of deaths after which one row would be blamed.
    waiting = children() - before
    assert len(waiting) >= 3
    for pid in waiting:
        os.kill(int(pid), signal.SIGKILL)
    until(lambda: all(is_gone(pid) for pid in waiting))
    assert len(list(ds.take(64).iter(executor="process", threads=1))) == 64
    assert len(list(ds.iter(executor="process", threads=1))) == 4000


def test_the_row_that_always_ends_its_process_is_the_only_one_left_out():
    def fragile(row):
        if row["id"] == 17:
            os._exit(3)
        if row["id"] == 40:
            ctypes.string_at(0)
        return row

    ds = fb.range(50).map(fragile, schema={"id": "int64"})
    it = ds.iter(executor="process", threads=2, on_error="skip", error_budget=2)
    assert [int(row["id"]) for row in it] == [i for i in range(50) if i not in (17, 40)]
    assert [s.sample for s in it.skipped] == ["row 17", "row 40"]
    assert "3 processes" in it.skipped[0].error.context["deaths"]
