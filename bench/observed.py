"""The cost of being observed: 50 jobs with dashboards open, and traces.

    python bench/observed.py --jobs 50 --pages 5

A service on this machine computes `--jobs` jobs, which as many threads read in turns; a round is read without and one
with `--pages` connections to the live feed of the dashboard and to the pages of all jobs. Then a pipeline of small
samples runs in this process without a trace, with `fb.trace`, and without again. The order of rounds alternates; each
figure is a median, with the spread of the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator

import forebay as fb
from machine import about


@contextlib.contextmanager
def service(folder: str) -> Iterator[tuple[str, str]]:
    """Runs `forebay up`; yields the addresses of the service and of its dashboard."""
    command = [
        sys.executable,
        "-m",
        "forebay",
        "up",
        "--workers",
        "2",
        "--listen",
        "127.0.0.1:0",
        "--state-dir",
        folder,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said = ""
            assert process.stdout is not None
            while not (found := re.search(r"(forebay://\S+).*?(http://\S+)", said, re.DOTALL)):
                line = process.stdout.readline()
                if not line:
                    raise SystemExit(f"forebay up did not start:\n{said}")
                said += line
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield found[1], found[2].rstrip("/")
        finally:
            process.terminate()


def watch(dashboard: str, jobs: int, stop: threading.Event) -> None:
    """Is one open page: it reads the live feed, and asks for one job after the other."""
    names = [urllib.parse.quote(f"job {number}") for number in range(jobs)]
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{dashboard}/api/v1/live", timeout=10) as live:
        number = 0
        while not stop.is_set():
            while live.readline().strip():  # an empty line ends an event
                pass
            number += 1
            with urllib.request.urlopen(f"{dashboard}/api/v1/job?name={names[number % jobs]}", timeout=10) as page:
                page.read()


def batches_per_second(iterators: list[fb.DatasetIterator], seconds: float) -> float:
    """Reads all jobs for some seconds."""
    counts, end = [0] * len(iterators), time.perf_counter() + seconds

    def read(number: int) -> None:
        while time.perf_counter() < end:
            next(iterators[number])
            counts[number] += 1

    threads = [threading.Thread(target=read, args=(number,)) for number in range(len(iterators))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def with_pages(dashboard: str, jobs: int, pages: int, measure: list[fb.DatasetIterator], seconds: float) -> float:
    """Reads all jobs while pages are open."""
    stop = threading.Event()
    watchers = [threading.Thread(target=watch, args=(dashboard, jobs, stop), daemon=True) for _ in range(pages)]
    for watcher in watchers:
        watcher.start()
    try:
        return batches_per_second(measure, seconds)
    finally:
        stop.set()


def traced(folder: str, trace: bool) -> float:
    """Returns the seconds of an epoch of small samples in this process."""
    ds = fb.range(2_000_000).with_column("x", fb.col("id") * 2 + 1).batch(1000)
    recording = fb.trace(os.path.join(folder, "run.json")) if trace else contextlib.nullcontext()
    with recording:
        start = time.perf_counter()
        for _ in ds:
            pass
        return time.perf_counter() - start


def shown(name: str, figures: list[float]) -> str:
    """Returns a line with the median and the spread."""
    return f"{name:28} {statistics.median(figures):10.3f}   ({min(figures):.3f} to {max(figures):.3f})"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--pages", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a round of the service")
    chosen = parser.parse_args()
    print(about())
    alone, open_pages = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        service(folder) as (address, dashboard),
        contextlib.ExitStack() as stack,
    ):
        ds = fb.range(1_000_000).with_column("x", fb.col("id") * 2 + 1).batch(1000)
        jobs = [ds.distribute(address, job=f"job {n}", epochs=None, seed=n).iter() for n in range(chosen.jobs)]
        for job in jobs:
            stack.enter_context(job)
        batches_per_second(jobs, 2)
        for number in range(chosen.rounds):
            for pages in (False, True) if number % 2 == 0 else (True, False):
                if pages:
                    open_pages.append(with_pages(dashboard, chosen.jobs, chosen.pages, jobs, chosen.seconds))
                else:
                    alone.append(batches_per_second(jobs, chosen.seconds))
    print(shown("batches/s, no page open", alone))
    print(shown(f"batches/s, {chosen.pages} pages open", open_pages))
    with tempfile.TemporaryDirectory() as folder:
        traced(folder, False)
        without, recorded = [], []
        for _ in range(chosen.rounds):
            without.append(traced(folder, False))
            recorded.append(traced(folder, True))
            without.append(traced(folder, False))
    print(shown("s an epoch, no trace", without))
    print(shown("s an epoch, traced", recorded))


if __name__ == "__main__":
    main()
