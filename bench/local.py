"""The gain from idle cores of a trainer's machine, and the loss of a trainer that needs its cores.

    python bench/local.py [--images 3000] [--seconds 40]

A service of one worker with one thread, JPEGs of 500 by 375 pixels, W1's pipeline. First a trainer whose steps leave
its machine idle (they sleep, as if an accelerator worked) and that takes batches faster than one thread makes them:
images/s with `local=0`, a number, and "auto". Then a trainer that keeps every core busy itself: the time of its steps
with local threads, with "auto", and without any.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import forebay as fb
import numpy as np

#: The trainer's work on a batch.
Step = Callable[[], object]

BATCH = 32
#: Seconds at the start of each run that are not counted: processes start, and the policy measures.
WARM_UP = 15.0


def dataset(folder: Path) -> fb.Dataset:
    """W1, without end."""
    ds = fb.from_image_folder(folder).drop("path").shuffle().decode_image("image", mode="RGB")
    return ds.random_resized_crop("image", 224, antialias=False).random_flip("image").batch(BATCH)


def steps(service: fb.Service, ds: fb.Dataset, local: int | Literal["auto"], step: Step, seconds: float) -> tuple:
    """Returns images/s, the median of a step in ms, and the last number of local threads with its reason."""
    job = f"local-{local}-{time.monotonic_ns()}"
    took, taken = [], 0
    with ds.distribute(service, job=job, seed=1, epochs=None, local=local).iter() as batches:
        begun = time.perf_counter()
        while (passed := time.perf_counter() - begun) < WARM_UP + seconds:
            next(batches)
            before = time.perf_counter()
            step()
            if passed > WARM_UP:
                took.append(time.perf_counter() - before)
                taken += BATCH
        status = service.jobs(job)[0]
    why = status.decisions[-1].reason if status.decisions else ""
    return taken / seconds, 1000 * statistics.median(took), status.local_threads, why


def busy(cores: int) -> Step:
    """Returns a step that keeps this number of cores busy with products of matrices."""
    factors = [np.random.default_rng(n).random((700, 700), dtype=np.float32) for n in range(cores)]

    def step() -> None:
        threads = [threading.Thread(target=lambda a=a: [a @ a for _ in range(4)]) for a in factors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return step


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=40.0)
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from forebay._src.bench.data import photos  # type: ignore[import-not-found]

    cores = len(os.sched_getaffinity(0))
    seconds = arguments.seconds
    print(f"forebay {fb.__version__}, {cores} x {platform.machine()}, {arguments.images} images, {seconds:.0f} s each")
    with tempfile.TemporaryDirectory() as name, fb.up(workers=1, threads=1) as service:
        photos(Path(name) / "photos", arguments.images)
        ds = dataset(Path(name) / "photos")
        trainers = [("idle", lambda: time.sleep(0.01)), ("busy", busy(cores))]
        print("trainer  local  images/s  step, ms  threads")
        for trainer, step in trainers:
            for local in (0, cores, "auto"):
                rate, median, threads, why = steps(service, ds, local, step, seconds)
                print(f"{trainer:7}  {local!s:5}{rate:10.0f}{median:10.2f}{threads:9}  {why}")


if __name__ == "__main__":
    main()
