"""The cost of moving batches from a worker to a consumer: lent memory and TCP, beside iperf3 in the same minute.

    python bench/transfer.py [--rounds 5] [--seconds 3] [--json FILE]

A dispatcher and a worker with one thread for each core run as separate processes, one worker that lends its memory and
one that does not (`--no-lend`), so that all data goes through a TCP connection on loopback, with checksums. Two
streams: arrays of 9.6 MB (64 rows of 224 x 224 x 3 bytes that are only copied), and JPEGs of 66 KB to 224 x 224 float32
with a random crop, so that the difference between lent and sent is the cost of sending on both sides together. In
turns: iperf3, lent, sent, iperf3, ...; the output has the medians. Linux, with `iperf3` in the path.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
from forebay._src.selftest.relay import free_port

PICTURE = Path(__file__).parent / "data" / "picture.jpg"
PICTURES, ROWS, BATCH, SIDE = 2000, 2048, 64, 224
TICKS = os.sysconf("SC_CLK_TCK")
FOREBAY = str(Path(sys.executable).parent / "forebay")


def cpu_seconds(pids: list[int]) -> float:
    """Returns the CPU time of processes."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


@contextlib.contextmanager
def service(folder: Path, *options: str) -> Iterator[tuple[str, list[int]]]:
    """Runs a dispatcher and a worker; yields the address and their process ids."""
    address = f"127.0.0.1:{free_port()}"
    commands = [
        [FOREBAY, "dispatcher", "--listen", address, "--state-dir", str(folder)],
        [FOREBAY, "worker", "--dispatcher", address, "--listen", "127.0.0.1:0", *options],
    ]
    children = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in commands]
    try:
        yield f"forebay://{address}", [child.pid for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()


def arrays() -> fb.Dataset:
    """Returns rows whose only cost is a copy."""
    pixels = np.random.default_rng(0).integers(0, 255, (ROWS, SIDE * SIDE * 3), dtype=np.uint8)
    return fb.from_numpy({"x": pixels}).repeat().batch(BATCH)


def images(folder: Path) -> fb.Dataset:
    """Returns pictures of a real size, each decoded and cropped in another way."""
    root = folder / "images" / "all"
    if not root.exists():
        root.mkdir(parents=True)
        for i in range(PICTURES):
            shutil.copyfile(PICTURE, root / f"{i}.jpg")
    ds = fb.from_image_folder(root.parent).drop("path").shuffle().repeat().decode_image("image", mode="RGB")
    ds = ds.random_resized_crop("image", SIDE, antialias=False).random_flip("image")
    ds = ds.normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD, layout="HWC")
    return ds.batch(BATCH, drop_remainder=True)


def stream(ds: fb.Dataset, folder: Path, seconds: float, *options: str) -> dict[str, float]:
    """Reads for some time; returns rows and bytes a second, and the CPU time of all processes for a row."""
    with tempfile.TemporaryDirectory(dir=folder) as state, service(Path(state), *options) as (address, pids):
        pids.append(os.getpid())
        it = ds.distribute(address, job="transfer", seed=1).iter()
        with contextlib.closing(it):
            warm = time.perf_counter() + 1
            while time.perf_counter() < warm:
                next(it)
            rows, size, spent, start = 0, 0, cpu_seconds(pids), time.perf_counter()
            while time.perf_counter() < start + seconds:
                batch = next(it)
                rows += BATCH
                size += sum(column.nbytes for column in batch.values())
            took = time.perf_counter() - start
            spent = cpu_seconds(pids) - spent
    return {"rows_per_s": rows / took, "gb_per_s": size / took / 1e9, "cpu_ms_per_row": spent / rows * 1000}


def iperf3(seconds: float) -> float:
    """Returns the throughput of one TCP connection over loopback, in GB/s."""
    port = str(free_port())
    with subprocess.Popen(["iperf3", "-s", "-p", port], stdout=subprocess.DEVNULL) as server:
        try:
            command = ["iperf3", "-c", "127.0.0.1", "-p", port, "-t", str(round(seconds)), "-J"]
            for _ in range(50):
                said = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
                if received := said["end"].get("sum_received"):
                    return float(received["bits_per_second"]) / 8e9
                time.sleep(0.1)
            raise RuntimeError(f"iperf3: {said.get('error')}")
        finally:
            server.kill()


def main() -> None:
    """Measures in turns, and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(arguments.rounds):
            for key, ds in {"arrays": arrays(), "images": images(folder)}.items():
                if key == "arrays":
                    add("iperf3 GB/s", iperf3(arguments.seconds))
                for way, options in {"lent": [], "sent": ["--no-lend"]}.items():
                    result = stream(ds, folder, arguments.seconds, *options)
                    if key == "arrays":
                        add(f"arrays {way} GB/s", result["gb_per_s"])
                    else:
                        add(f"images {way} a second", result["rows_per_s"])
                        add(f"images {way} CPU-ms each", result["cpu_ms_per_row"])
    medians = {key: statistics.median(values) for key, values in found.items()}
    medians["arrays sent / iperf3"] = medians["arrays sent GB/s"] / medians["iperf3 GB/s"]
    medians["CPU-ms to send an image"] = medians["images sent CPU-ms each"] - medians["images lent CPU-ms each"]
    for key, value in medians.items():
        print(f"{key:28}{value:10.3f}  of {', '.join(f'{v:.3f}' for v in found.get(key, []))}")
    if arguments.json:
        machine = f"{os.cpu_count()} x {platform.machine()}, {platform.platform()}, Python {platform.python_version()}"
        command = f"bench/transfer.py --rounds {arguments.rounds} --seconds {arguments.seconds}"
        about = {"date": dt.date.today().isoformat(), "machine": machine, "command": command}
        arguments.json.write_text(json.dumps({**about, "forebay": fb.__version__, "medians": medians}, indent=1) + "\n")


if __name__ == "__main__":
    main()
