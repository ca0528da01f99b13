"""Iterators in several threads, in forked children, and over a service that was closed."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from forebay.errors import ClosedError, InvalidPipelineError
from pipelines import name

ROWS = 4000


def ids(sample: dict) -> list[int]:
    return np.atleast_1d(sample["id"]).tolist()


def rows(batches: Iterable[dict]) -> list[int]:
    return [row for sample in batches for row in ids(sample)]


def together(work: Callable[[int], None], count: int = 6) -> None:
    """Runs work in several threads, which begin at the same time."""
    begin, errors = threading.Barrier(count), []

    def run(number: int) -> None:
        begin.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []


@pytest.mark.parametrize("where", ["here", "service"])
@pytest.mark.parametrize("batch", [None, 16])
def test_threads_that_share_an_iterator_get_every_sample_once(where, batch, service):
    ds = fb.range(ROWS).shuffle()
    ds = ds if batch is None else ds.batch(batch)
    for trial in range(3):
        it = ds.iter(seed=trial) if where == "here" else ds.distribute(service, job=name(), seed=trial).iter()
        got: list[list[int]] = [[] for _ in range(6)]

        def read(number: int, it: fb.DatasetIterator = it, got: list[list[int]] = got) -> None:
            for sample in it:
                got[number] += ids(sample)

        together(read)
        assert sorted(itertools.chain(*got)) == list(range(ROWS))
        # Each of them saw the order of the stream.
        place = {row: at for at, sample in enumerate(ds.iter(seed=trial)) for row in ids(sample)}
        assert all(sorted(part, key=place.__getitem__) == part for part in got if batch is None)


def test_a_state_counts_no_sample_that_no_thread_got():
    """One thread takes samples while another thread saves. A state continues with the samples that were not taken."""
    it = fb.range(ROWS).iter()
    got: list[int] = []
    states: list[tuple[int, dict, int]] = []

    def work(number: int) -> None:
        if number == 0:
            for sample in it:
                got.append(int(sample["id"]))
        while number == 1 and len(got) < ROWS:
            before = len(got)
            states.append((before, it.state_dict(), len(got)))

    together(work, 2)
    for before, state, after in states[:: max(1, len(states) // 50)]:
        rest = fb.range(ROWS).iter()
        rest.load_state_dict(state)
        first = next(rest, {"id": ROWS})["id"]
        # The sample that was just taken may not be in the list yet.
        assert before <= first <= after + 1


class Held:
    """A pipeline whose first batch waits for a file, because functions run in other processes."""

    def __init__(self, folder: Path) -> None:
        self.inside, self.gone = str(folder / "inside"), str(folder / "go")

    def __call__(self, row: dict) -> dict:
        Path(self.inside).touch()
        while not Path(self.gone).exists():
            time.sleep(0.005)
        return row

    def go(self) -> None:
        Path(self.gone).touch()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    held = Held(tmp_path)
    yield held
    held.go()


def over(held: Held) -> fb.DatasetIterator:
    return fb.range(64).map(held, schema={"id": "int64"}).batch(8).iter(threads=1)


def is_inside(held: Held) -> None:
    deadline = time.monotonic() + 60
    while not Path(held.inside).exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def waits_in_a_thread(it: fb.DatasetIterator, held: Held) -> tuple[threading.Thread, list]:
    """Returns a thread that waits for the first batch, and its result."""
    outcome: list = []

    def read() -> None:
        try:
            outcome.append(ids(next(it)))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    is_inside(held)
    return thread, outcome


CLOSED = """
import sys, threading, time, warnings
from pathlib import Path
import forebay as fb

inside, gone = Path("inside"), Path("go")

def held(row):
    inside.touch()
    while not gone.exists():
        time.sleep(0.005)
    return row

outcome = []

def read():
    try:
        next(it)
    except fb.errors.ClosedError as error:
        outcome.append(error)

it = fb.range(64).map(held, schema={"id": "int64"}).batch(8).iter(threads=1)
thread = threading.Thread(target=read, daemon=True)
thread.start()
while not inside.exists():
    time.sleep(0.005)
try:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        it.close()
    thread.join(60)
    next(it)
except fb.errors.ClosedError:
    print(len(outcome), *(one.message for one in told))
finally:
    gone.touch()
"""


def test_close_does_not_wait_for_the_thread_that_waits_for_a_batch(tmp_path):
    """In a process of its own, because a process is told once."""
    command = [sys.executable, "-c", CLOSED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90)
    assert done.stdout.startswith("1 "), done.stderr
    assert "a function of it has not returned yet" in done.stdout


def test_ctrl_c_ends_the_wait_for_another_threads_batch_and_loses_nothing(held):
    it = over(held)
    thread, outcome = waits_in_a_thread(it, held)
    before, main = signal.signal(signal.SIGINT, signal.default_int_handler), threading.get_ident()

    def press() -> None:
        while sys._current_frames()[main].f_code.co_name != "__next__":
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    try:
        threading.Thread(target=press, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            next(it)
    finally:
        signal.signal(signal.SIGINT, before)
    held.go()
    thread.join(90)
    assert outcome == [list(range(8))]
    assert rows(it) == list(range(8, 64))


def test_a_signal_handler_may_save_while_its_thread_waits(held):
    it, saved = over(held), []

    def save(*_: object) -> None:
        saved.append(it.state_dict())
        held.go()

    before = signal.signal(signal.SIGUSR1, save)
    try:

        def tell() -> None:
            is_inside(held)
            os.kill(os.getpid(), signal.SIGUSR1)

        threading.Thread(target=tell).start()
        assert ids(next(it)) == list(range(8))
    finally:
        signal.signal(signal.SIGUSR1, before)
    again = fb.range(64).map(held, schema={"id": "int64"}).batch(8).iter()
    again.load_state_dict(saved[0])
    assert ids(next(again)) == list(range(8))


def in_a_child(work: Callable[[], None]) -> None:
    """Runs work in a forked child, which must succeed and end."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("where", ["thread", "process", "service"])
@pytest.mark.parametrize("batch", [None, 16])
def test_an_iterator_does_not_go_on_in_a_forked_child(where, batch, service):
    ds = fb.range(ROWS).map(lambda row: row, schema={"id": "int64"})
    ds = ds if batch is None else ds.batch(batch)
    it = ds.distribute(service, job=name()).iter() if where == "service" else ds.iter(executor=where)
    first = ids(next(it))
    state = it.state_dict()

    def child() -> None:
        nonlocal it
        for _ in range(2):
            with pytest.raises(InvalidPipelineError, match="forked") as error:
                next(it)
            assert "in the child" in error.value.context["hint"]
        assert it.state_dict() == state
        assert it.stats() == {}
        it.close()
        # It is rewound like any iterator, and so begins in the child. Its position still belongs to the parent.
        if where != "service":
            it.load_state_dict(state)
            assert first + rows(it) == list(range(ROWS))
        del it
        gc.collect()
        assert rows(ds) == list(range(ROWS))

    in_a_child(child)
    assert first + rows(it) == list(range(ROWS))


def test_a_forked_child_leaves_its_parents_service_alone():
    with fb.up(workers=1, threads=1) as service:
        ds = fb.range(ROWS).batch(16)
        it = ds.distribute(service, job="parent").iter()
        got = ids(next(it))

        def child() -> None:
            assert [job.name for job in service.jobs()] == ["parent"]
            assert rows(ds.distribute(service, job="child")) == list(range(ROWS))
            service.close()
            with pytest.raises(ClosedError):
                service.jobs()

        in_a_child(child)
        assert len(service.worker_pids) == 1
        assert got + rows(it) == list(range(ROWS))


def test_readers_of_a_service_that_is_closed_say_so_at_once(until):
    ds = fb.range(10**6).batch(2)
    service = fb.up(workers=1, threads=1)
    ended = fb.range(4).distribute(service, job="ended").iter()
    assert len(list(ended)) == 4
    its = [ds.distribute(s, job=f"job {i}").iter() for i, s in enumerate([service, service.address])]
    got = [ids(next(it)) + ids(next(it)) for it in its]
    assert got == [[0, 1, 2, 3]] * 2
    waits = fb.range(4).map(forever, schema={"id": "int64"}).distribute(service, job="waits").iter()
    outcome: list[BaseException] = []

    def wait() -> None:
        with suppress(StopIteration):
            try:
                next(waits)
            except ClosedError as error:
                outcome.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    until(lambda: any(job.name == "waits" and job.consumers[0].attached for job in service.jobs()))
    service.close()
    thread.join(90)
    for it in its:
        with pytest.raises(ClosedError, match=r"the service at .* was closed"):
            next(it)
        # Its position is still known, and another iterator continues from it.
        again = ds.iter()
        again.load_state_dict(it.state_dict())
        assert ids(next(again)) == [4, 5]
        assert "ops" in it.stats()
    assert "the service at" in str(outcome[0])
    with pytest.raises(StopIteration):
        next(ended)


def forever(row: dict) -> dict:
    while True:
        threading.Event().wait(1)
