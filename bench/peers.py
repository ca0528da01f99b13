"""The rows that workers find at each other, on disks or in memory: computed rows, and images/s, epoch by epoch.

    python bench/peers.py [--images 2000] [--workers 4] [--epochs 3] [--memory 1GiB]

Each worker is a process with a thread and a folder of its own, as if on a machine of its own, or with so much memory
and no folder; JPEGs of 500 by 375 pixels, decoded and resized to 256 on the shorter side, cached, and cropped anew.
`alone` is the number of rows that the workers would compute without each other: of the rows that an epoch gives a
worker, it counts the rows that the worker had in no earlier epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import forebay as fb

#: How long workers may take to report their figures, which they do every two seconds.
TOLD_MAX = 20.0


def start(*arguments: object) -> tuple[subprocess.Popen[str], str]:
    """Starts a process of a service, which ends with this one, and returns its address."""
    command = [sys.executable, "-m", "forebay", *map(str, arguments), "--announce", "--exit-with-parent"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_CACHE")}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=own)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["address"]


def dataset(folder: Path) -> fb.Dataset:
    """Returns the pipeline; cached images have 256 by 341 pixels."""
    ds = fb.from_image_folder(folder).drop("path").shuffle().decode_image("image", mode="RGB")
    return ds.resize("image", shorter=256).cache().random_resized_crop("image", 224, antialias=False).batch(50)


def found(service: fb.Service, images: int) -> dict[str, int]:
    """Returns the results of requests for rows, as soon as workers have reported this number of them."""
    names = ["computed", "found_in_memory", "found_on_disk", "found_at_peers"]
    end = time.monotonic() + TOLD_MAX
    while True:
        rows = [cache["rows"] for cache in service.jobs("peers")[0].caching.values()]
        counts = {name: sum(row[name] for row in rows) for name in names}
        if sum(counts.values()) >= images or time.monotonic() > end:
            return counts
        time.sleep(0.1)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--memory", help="of each worker, for kept rows, which then have no folder")
    arguments = parser.parse_args()
    from forebay._src.bench.data import photos  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photos(folder / "photos", arguments.images)
        processes = [start("dispatcher", "--listen", "127.0.0.1:0", "--state-dir", folder / "state")]
        address = processes[0][1]
        for n in range(arguments.workers):
            on_disk = ["--cache", folder / f"kept-{n}", "--cache-memory", "0"]
            kept = ["--cache-memory", arguments.memory] if arguments.memory else on_disk
            processes.append(start("worker", "--dispatcher", address, "--threads", 1, *kept))
        service = fb.connect(address)
        it = dataset(folder / "photos").distribute(service, job="peers", seed=1, epochs=None).iter()
        cores = f"{os.cpu_count()} x {platform.machine()}"
        print(f"forebay {fb.__version__}, {cores}, {arguments.images} images, {arguments.workers} workers")
        print("epoch  images/s  computed  memory   disk  peers   alone")
        before: dict[str, int] = {}
        for epoch in range(arguments.epochs):
            began = time.perf_counter()
            for _ in range(arguments.images // 50):
                next(it)
            rate = arguments.images / (time.perf_counter() - began)
            # Consumers have some batches of the next epoch already.
            now = found(service, arguments.images * (epoch + 1))
            new = [now[key] - before.get(key, 0) for key in now]
            alone = arguments.images * (1 - 1 / arguments.workers) ** epoch
            print(f"{epoch + 1:5}{rate:10.0f}{new[0]:10}{new[1]:8}{new[2]:7}{new[3]:7}{alone:8.0f}")
            before = now
        for process, _ in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
