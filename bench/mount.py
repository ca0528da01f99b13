"""`forebay mount` beside `rclone mount` and `s3fs`, by an S3 server that is some milliseconds away.

    python bench/mount.py --rounds 2

Each system mounts the same bucket with an empty cache folder, in turns, and runs the same reads: one large file from
front to back, cold (beside the line's rate), again from the cache folder (the system's own pages of it are dropped
before), and again as it is; reads of 4 KiB and 128 KiB in any order, from the cache folder; `ls` of a folder of many
names; an epoch over small files by four threads, cold and warm. Rates are medians of the rounds. rclone and s3fs are
those of the system's packages, each with a cache on disk; one that is not installed is left out. It needs root, and
/dev/fuse.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from far import Far
from machine import about

#: The bytes of one read from front to back.
CHUNK = 1 << 20
READS = {"4 KiB": 4 << 10, "128 KiB": 128 << 10}
READY_SECONDS = 60
TIMES = 3


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=256, help="of the large file")
    parser.add_argument("--names", type=int, default=100_000, help="in the large folder")
    parser.add_argument("--images", type=int, default=2000, help="small files of 20 to 60 KB")
    parser.add_argument("--latency", type=float, default=0.005, help="seconds to each answer")
    parser.add_argument("--rate", type=float, default=100e6, help="bytes a second that the line carries")
    options = parser.parse_args()
    print(about(rclone=version("rclone"), s3fs=version("s3fs")))
    with tempfile.TemporaryDirectory(prefix="forebay-mount-") as scratch:
        compare(Path(scratch), options)


def version(program: str) -> str:
    """Returns the version of a program, or `not installed`."""
    if not shutil.which(program):
        return "not installed"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return next(word for word in said.replace("V", "v").split() if word.startswith("v")).removeprefix("v")


def compare(scratch: Path, options: argparse.Namespace) -> None:
    """Measures each system in turns, and prints a table."""
    files = scratch / "files"
    make(files, options)
    systems = ["forebay", *(name for name in ("rclone", "s3fs") if shutil.which(name))]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    with Far(files, options.latency, options.rate) as far:
        for turn in range(options.rounds):
            for name in systems[turn % len(systems) :] + systems[: turn % len(systems)]:
                with mounted(name, far, scratch) as at:
                    runs[name].append(measure(at, options, turn))
    medians = {name: {what: statistics.median(run[what] for run in of) for what in of[0]} for name, of in runs.items()}
    print(f"{'':34}" + "".join(f"{name:>12}" for name in systems) + "     ratio")
    for what in medians["forebay"]:
        row = [medians[name][what] for name in systems]
        is_time = what.startswith("ls")
        best = (min if is_time else max)(row[1:], default=row[0])
        ratio = best / row[0] if is_time else row[0] / best
        print(f"{what:34}" + "".join(f"{value:12,.2f}" for value in row) + f"  {ratio:6.2f} x")
    print(f"the line carries {options.rate / 1e6:.0f} MB/s, {options.latency * 1e3:.0f} ms away")


def make(files: Path, options: argparse.Namespace) -> None:
    """Writes the bucket's objects."""
    dice = random.Random(7)
    for folder in ("large", "many", "images"):
        (files / folder).mkdir(parents=True)
    (files / "large" / "file").write_bytes(dice.randbytes(options.megabytes * 1_000_000))
    for i in range(options.names):
        (files / "many" / f"{i:07}.jpg").touch()
    for i in range(options.images):
        (files / "images" / f"{i:06}.jpg").write_bytes(dice.randbytes(dice.randrange(20_000, 60_000)))


@contextlib.contextmanager
def mounted(name: str, far: Far, scratch: Path) -> Iterator[Path]:
    """Mounts the bucket with an empty cache."""
    at, cache = scratch / "mnt", scratch / "cache"
    for folder in (at, cache):
        folder.mkdir()
    environment = {**os.environ, **far.settings, "FOREBAY_CACHE": "", "FOREBAY_LOG": "warn"}
    environment.pop("AWS_CA_BUNDLE", None)
    command = {
        "forebay": f"{sys.executable} -m forebay mount s3://far {at} --cache {cache}",
        "rclone": f"rclone mount :s3:far {at} --s3-provider=Other --s3-endpoint={far.url} --s3-env-auth --read-only "
        f"--vfs-cache-mode=full --cache-dir={cache} --config=/dev/null --use-server-modtime --allow-other",
        "s3fs": f"s3fs far {at} -f -o url={far.url},use_path_request_style,ro,use_cache={cache},kernel_cache,"
        "max_stat_cache_size=1000000,listobjectsv2,multireq_max=20,parallel_count=16",
    }[name]
    if name == "s3fs":
        environment |= {"AWSACCESSKEYID": "key", "AWSSECRETACCESSKEY": "secret"}
    process = subprocess.Popen(command.split(), env=environment, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not os.path.ismount(at):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{name} did not mount")
            time.sleep(0.05)
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=False)
        process.terminate()
        process.wait()
        at.rmdir()
        shutil.rmtree(cache)


def measure(at: Path, options: argparse.Namespace, turn: int) -> dict[str, float]:
    """Runs the reads; returns the rate or the seconds of each."""
    found: dict[str, float] = {}
    large, images = at / "large" / "file", at / "images"
    found["cold, front to back, MB/s"] = options.megabytes / seconds(lambda: front_to_back(large))
    # The mount writes pages to the cache folder some time after the reader gets them.
    time.sleep(1)
    found["from the cache folder, MB/s"] = options.megabytes / best(lambda: front_to_back(large), lambda: drop(large))
    found["again, MB/s"] = options.megabytes / best(lambda: front_to_back(large))
    for name, size in READS.items():
        reads = 2000 if size < 1 << 16 else 500
        places = random.Random(turn).choices(range(options.megabytes * 1_000_000 // size), k=reads)
        found[f"any order, {name}, reads/s"] = reads / best(
            partial(any_order, large, size, places), lambda: drop(large)
        )
    names = [f"{i:06}.jpg" for i in range(options.images)]
    found["epoch over small files, cold, /s"] = len(names) / seconds(lambda: epoch(images, names))
    time.sleep(1)
    found["epoch over small files, warm, /s"] = len(names) / best(lambda: epoch(images, names))
    found["ls of many names, s"] = seconds(lambda: ls(at / "many", options.names))
    found["ls again, s"] = seconds(lambda: ls(at / "many", options.names))
    found["ls -l again, s"] = seconds(lambda: ls(at / "many", options.names, "-l"))
    return found


def seconds(work: Callable[[], None]) -> float:
    """Returns the seconds that a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def best(work: Callable[[], None], before: Callable[[], None] = lambda: None) -> float:
    """Returns the least seconds of a few calls, because other work on the machine can only add time."""
    times = []
    for _ in range(TIMES):
        before()
        times.append(seconds(work))
    return min(times)


def front_to_back(path: Path) -> None:
    """Reads a file."""
    buffer = bytearray(CHUNK)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def drop(path: Path) -> None:
    """Drops the system's pages of a file."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def any_order(path: Path, size: int, places: list[int]) -> None:
    """Reads parts of a file."""
    with path.open("rb", buffering=0) as file:
        for place in places:
            assert len(os.pread(file.fileno(), size, place * size)) == size


def epoch(folder: Path, names: list[str]) -> None:
    """Reads files in an order of its own by four threads, as a loader does."""
    order = random.Random(len(names)).sample(names, len(names))
    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(lambda name: len((folder / name).read_bytes()), order)) > 0


def ls(folder: Path, names: int, *options: str) -> None:
    """Lists a folder in a process of its own."""
    listed = subprocess.run(["ls", "-U", *options, str(folder)], capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) in (names, names + 1)


if __name__ == "__main__":
    main()
