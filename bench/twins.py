"""The shared cost of jobs with the same samples: CPU-seconds of a service for one job, and for two or four at once.

    python bench/twins.py [--images 2000] [--epochs 2] [--jobs 1 2 4] [--rounds 3]

W1 through a service of one worker on this machine, JPEGs of 500 by 375 pixels, some epochs. The consumers are separate
processes and begin together; CPU-seconds are those of the worker, and of all consumers from then on.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import forebay as fb


def dataset(folder: Path) -> fb.Dataset:
    """W1."""
    ds = fb.from_image_folder(folder).drop("path").shuffle().decode_image("image", mode="RGB")
    ds = ds.random_resized_crop("image", 224, antialias=False).random_flip("image")
    return ds.normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD).batch(64)


def cpu_seconds(pids: list[int]) -> float:
    """Returns the CPU time of processes so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def read(address: str, job: str, folder: Path, epochs: int) -> None:
    """Runs as a consumer: begins on command, and prints its CPU time."""
    ds = dataset(folder).distribute(fb.connect(address), job=job, seed=1, epochs=epochs)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.process_time()
    images = sum(len(batch["label"]) for batch in ds)
    print(images, time.process_time() - began, flush=True)


def measure(folder: Path, jobs: int, epochs: int) -> tuple[float, float, float]:
    """Returns seconds, CPU-seconds of the service, and CPU-seconds of the consumers."""
    with fb.up(workers=1) as service:
        own = ["--folder", folder, "--address", service.address, "--epochs", epochs, "--job"]
        command = [sys.executable, __file__, *map(str, own)]
        pipe = subprocess.PIPE
        readers = [subprocess.Popen([*command, str(i)], stdin=pipe, stdout=pipe, text=True) for i in range(jobs)]
        for reader in readers:
            reader.stdout.readline()  # type: ignore[union-attr]
        pids = service.worker_pids
        began, used = time.perf_counter(), cpu_seconds(pids)
        for reader in readers:
            reader.stdin.write("\n")  # type: ignore[union-attr]
            reader.stdin.flush()  # type: ignore[union-attr]
        told = [reader.communicate()[0].split() for reader in readers]
        seconds, used = time.perf_counter() - began, cpu_seconds(pids) - used
    if any(reader.returncode for reader in readers):
        sys.exit("a reader failed")
    return seconds, used, sum(float(cpu) for _, cpu in told)


def main() -> None:
    """Measures and prints, or runs as a consumer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        read(arguments.address, arguments.job, arguments.folder, arguments.epochs)
        return
    from forebay._src.bench.data import photos  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as folder:
        photos(Path(folder), arguments.images)
        runs: dict[int, list[tuple[float, float, float]]] = {jobs: [] for jobs in arguments.jobs}
        for _ in range(arguments.rounds):
            for jobs, found in runs.items():
                found.append(measure(Path(folder), jobs, arguments.epochs))
    machine, what = f"{os.cpu_count()} x {platform.machine()}", f"{arguments.images} images, {arguments.epochs} epochs"
    print(f"forebay {fb.__version__}, {machine}, {what}")
    print("jobs  seconds  CPU-s of the worker   of the readers   in all, against one job")
    one = None
    for jobs, found in runs.items():
        seconds, worker, readers = (statistics.median(figures) for figures in zip(*found, strict=True))
        one = one or worker + readers
        print(f"{jobs:4}{seconds:9.1f}{worker:21.2f}{readers:17.2f}{(worker + readers) / one:26.2f}")


if __name__ == "__main__":
    main()
