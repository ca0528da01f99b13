"""One of the workers computes ten times slower: the duration of an epoch, beside one without a slow worker.

    python bench/stragglers.py [--workers 4] [--batches 1500] [--rounds 3] [--json FILE]

The work of a batch is a wait of 20 ms, so that cores do not decide: four workers of one thread make at most 200 batches
a second. With one of them slowed, all the others and a tenth are left: `ideal` is the healthy time for that.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import forebay as fb

SLOW = "FOREBAY_BENCH_SLOW"
ROWS, WAIT_SECONDS, FACTOR = 8, 0.02, 10


def work(batch):  # noqa: ANN001, ANN201
    """Sleeps, ten times as long if the process is slow."""
    time.sleep(WAIT_SECONDS * float(os.environ.get(SLOW, "1")))
    return {"double": batch["id"] * 2}


def epoch(workers: int, slow: int, batches: int) -> tuple[float, int]:
    """Returns the seconds of an epoch from its first batch on, and the splits under speculative execution."""
    ds = fb.range(batches * ROWS).shuffle().batch(ROWS).map(work, schema={"double": "int64"}, writes=["double"])
    with fb.up(workers=workers - slow, threads=1) as service:
        os.environ[SLOW] = str(FACTOR)
        for _ in range(slow):
            service.add_worker()
        del os.environ[SLOW]
        while sum(w.state == "idle" for w in service.workers()) < workers:
            time.sleep(0.05)
        it = ds.distribute(service, job="epoch", seed=1).iter()
        next(it)
        start = time.perf_counter()
        assert sum(1 for _ in it) == batches - 1
        took = time.perf_counter() - start
        return took, service.jobs()[0].raced


def main() -> None:
    """Runs the rounds and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batches", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    n, batches = arguments.workers, arguments.batches
    rounds = [(epoch(n, 0, batches), epoch(n, 1, batches)) for _ in range(arguments.rounds)]
    middle = arguments.rounds // 2
    healthy, slowed = (sorted(r[i][0] for r in rounds)[middle] for i in (0, 1))
    ideal = healthy * n / (n - 1 + 1 / FACTOR)
    raced = max(r[1][1] for r in rounds)
    print(f"healthy {healthy:.2f} s; one of {n} workers {FACTOR} x slower {slowed:.2f} s, {slowed / healthy:.2f} x")
    print(f"ideal for the rest {ideal:.2f} s, so {slowed / ideal:.2f} x; {raced} splits were raced")
    if arguments.json:
        figures = {
            "workers": n,
            "batches": batches,
            "healthy_s": healthy,
            "slowed_s": slowed,
            "ideal_s": ideal,
            "raced": raced,
        }
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
