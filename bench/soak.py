"""Random faults under load for a long time: is every batch right, and does anything grow?

    python bench/soak.py --minutes 120 [--seed 1] [--step 0.02] [--csv FILE]

A dispatcher and three workers are separate processes; two jobs (records with a Python function, pictures) are read
without end, and each batch is compared with the same pipeline's in this process. A fault occurs every few seconds: a
worker is killed and another starts at its address, is stopped for a while, leaves in order; the dispatcher is killed
and restarts; a consumer goes and resumes from its saved state. The first worker is never ended, only stopped, so that
growth in a long-lived process shows. Each half minute a line: memory (proportional set size), descriptors and threads
of the first worker and of this process, the size of the dispatcher's state. At the end: batches, faults, errors, and
the medians of the first and the last quarter. Exits with 1 when a batch was wrong. Linux.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import forebay as fb
import numpy as np
from forebay._src.selftest import data, pipelines
from forebay._src.selftest.fleet import Fleet

RECORDS, PICTURES, SEED = 20_011, 600, 5
WAIT = (1.0, 6.0)
LOOK_SECONDS = 30.0
WORKERS = 3
#: A worker that leaves waits half a minute for its data to be fetched.
LEAVE_SECONDS_MAX = 90.0


class Reader(threading.Thread):
    """Reads a job, and compares each batch with this process's; goes and resumes on command."""

    def __init__(self, fleet: Fleet, name: str, dataset: fb.Dataset, step: float) -> None:
        super().__init__(daemon=True)
        self.fleet, self.job, self.dataset, self.step = fleet, name, dataset, step
        self.batches = self.resumed = 0
        self.longest = 0.0
        self.wrong: list[str] = []
        self.leave, self.stop = threading.Event(), threading.Event()

    def run(self) -> None:
        """Runs until it is stopped, or finds an error."""
        expected = self.dataset.iter(seed=SEED, epochs=None, threads=1)
        state = None
        try:
            while not self.stop.is_set():
                options = {"job": self.job, "seed": SEED, "epochs": None}
                with self.dataset.distribute(self.fleet.service, **options).iter() as it:
                    if state is not None:
                        it.load_state_dict(state)
                        self.resumed += 1
                    self.leave.clear()
                    while not self.leave.is_set() and not self.stop.is_set():
                        self.compare(it, expected)
                        time.sleep(self.step)
                    state = it.state_dict()
        except Exception as error:  # the soak looks for every kind of error
            self.wrong.append(f"{type(error).__name__}: {error}")
        expected.close()

    def compare(self, it: fb.DatasetIterator, expected: fb.DatasetIterator) -> None:
        """Compares one batch of each."""
        start = time.perf_counter()
        got = next(it)
        self.longest = max(self.longest, time.perf_counter() - start)
        want = next(expected)
        for key in want.keys() | got.keys():
            if not np.array_equal(got.get(key), want.get(key)):
                raise AssertionError(
                    f"{key} of batch {self.batches} of {self.job} is not the expected one: {differ(got, want, key)}"
                )
        self.batches += 1


def differ(got: dict[str, np.ndarray], want: dict[str, np.ndarray], key: str) -> str:
    """Returns how a column differs from the expected one."""
    if key not in got or key not in want or got[key].shape != want[key].shape:
        return f"{got.get(key)!r:.200} and not {want.get(key)!r:.200}"
    rows = [i for i in range(len(want[key])) if not np.array_equal(got[key][i], want[key][i])]
    share = float(np.mean(got[key] != want[key]))
    same_ids = np.array_equal(got["id"], want["id"])
    return (
        f"rows {rows[:8]} of {len(want[key])}, {share:.1%} of the values; ids are {'' if same_ids else 'not '}the same"
    )


class Chaos:
    """The faults, by name. Each call returns after the fault, before the recovery."""

    def __init__(self, fleet: Fleet, readers: list[Reader], rng: random.Random) -> None:
        self.fleet, self.readers, self.rng = fleet, readers, rng
        self.happened: Counter[str] = Counter()
        self.all: list[Callable[[], None]] = [
            self.kill,
            self.kill,
            self.pause,
            self.leave,
            self.dispatcher,
            self.resume,
        ]

    def something(self) -> None:
        """Causes one of the faults."""
        what = self.rng.choice(self.all)
        what()
        self.happened[what.__name__] += 1

    def kill(self) -> None:
        """Kills a worker, and restarts it."""
        which = self.rng.randrange(1, WORKERS)
        self.fleet.workers[which].kill()
        self.fleet.workers[which].end()
        time.sleep(self.rng.uniform(0, 2))
        self.fleet.restart_workers([which])

    def pause(self) -> None:
        """Stops a worker, for longer than its lease or not."""
        worker = self.fleet.workers[self.rng.randrange(WORKERS)]
        worker.signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.1, 4))
        worker.signal(signal.SIGCONT)

    def leave(self) -> None:
        """Makes a worker leave in order, and starts another."""
        which = self.rng.randrange(1, WORKERS)
        self.fleet.workers[which].signal(signal.SIGTERM)
        self.fleet.workers[which].popen.wait(LEAVE_SECONDS_MAX)
        self.fleet.workers[which].end()
        self.fleet.restart_workers([which])

    def dispatcher(self) -> None:
        """Kills the dispatcher, and restarts it."""
        self.fleet.dispatcher.kill()
        self.fleet.dispatcher.end()
        time.sleep(self.rng.uniform(0, 1))
        self.fleet.restart_dispatcher()

    def resume(self) -> None:
        """Makes a consumer go, and resume."""
        self.rng.choice(self.readers).leave.set()


def memory_mb(pid: int | str) -> float:
    """Returns the proportional set size of a process."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def count(pid: int | str, what: str) -> int:
    """Returns the entries of a folder of a process: `fd` or `task`."""
    return sum(1 for _ in Path(f"/proc/{pid}/{what}").iterdir())


def look(fleet: Fleet) -> dict[str, float]:
    """Measures the resources that could grow."""
    worker = fleet.workers[0].pid
    state = sum(file.stat().st_size for file in (fleet.folder / "state").rglob("*") if file.is_file())
    seen = {f"{name} {key}": value(pid) for name, pid in (("worker", worker), ("reader", "self")) for key, value in {
        "MB": memory_mb, "descriptors": lambda p: count(p, "fd"), "threads": lambda p: count(p, "task"),
    }.items()}  # fmt: skip
    return {**seen, "dispatcher MB": memory_mb(fleet.dispatcher.pid), "state MB": state / 1e6}


def main() -> int:
    """Runs for the given time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step", type=float, default=0.0, help="seconds that a training step takes")
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data.records(folder / "records", RECORDS, SEED)
        data.pictures(folder / "pictures", PICTURES, SEED)
        fleet = Fleet(folder / "fleet", WORKERS)
        readers = [
            Reader(fleet, "records", pipelines.of_records(folder / "records", 192, "", 0.0), arguments.step),
            Reader(fleet, "pictures", pipelines.of_pictures(folder / "pictures", 32, "", 0.0), arguments.step),
        ]
        chaos = Chaos(fleet, readers, random.Random(arguments.seed))
        try:
            fleet.wait_for_workers()
            for reader in readers:
                reader.start()
            begun = looked = time.monotonic()
            while time.monotonic() < begun + arguments.minutes * 60 and all(r.is_alive() for r in readers):
                time.sleep(chaos.rng.uniform(*WAIT))
                chaos.something()
                if time.monotonic() > looked + LOOK_SECONDS:
                    looked = time.monotonic()
                    rows.append({"minute": (looked - begun) / 60, **look(fleet)})
                    print("  ".join(f"{key} {value:.1f}" for key, value in rows[-1].items()), flush=True)
            minutes = (time.monotonic() - begun) / 60
        finally:
            for reader in readers:
                reader.stop.set()
                if reader.ident is not None:
                    reader.join(60)
            fleet.close()
    for reader in readers:
        said = f"longest wait {reader.longest:.2f} s, {'; '.join(reader.wrong) or 'nothing wrong'}"
        print(f"{reader.job}: {reader.batches} batches, resumed {reader.resumed} times, {said}")
    print(f"{minutes:.1f} minutes, faults: {dict(chaos.happened)}")
    quarter = max(1, len(rows) // 4)
    for key in rows[0] if rows else ():
        first, last = (statistics.median(row[key] for row in part) for part in (rows[:quarter], rows[-quarter:]))
        print(f"{key:20} first quarter {first:8.1f}   last quarter {last:8.1f}")
    if arguments.csv and rows:
        lines = [",".join(rows[0]), *(",".join(f"{v:.2f}" for v in row.values()) for row in rows)]
        arguments.csv.write_text("\n".join(lines) + "\n")
    return int(any(reader.wrong or reader.is_alive() for reader in readers))


if __name__ == "__main__":
    sys.exit(main())
