"""Shards in a store that is 20 ms away: how soon the first batch comes, how fast the others, how well shuffled.

    python bench/streaming.py --gigabytes 2.8 --rounds 3

Makes tar shards of pictures' sizes (once), serves them with nginx, which answers after 20 ms (Debian: nginx-light and
libnginx-mod-http-echo), and reads an epoch of them in processes of their own, in turns: Forebay as it lies and
shuffled, and WebDataset as its documentation recommends. Samples are read and batched, not decoded. The
server's log counts the requests and the bytes.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

BATCH = 64
SAMPLES = 900
CONFIG = """
load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;
worker_processes 1;
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  log_format bytes '$request_method $status $body_bytes_sent';
  access_log {folder}/access.log bytes;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 100000;
  server {{
    listen 127.0.0.1:{port};
    location / {{ echo_sleep {latency}; echo_exec @file; }}
    location @file {{ root {folder}/data; }}
  }}
}}
"""


def make(folder: Path, gigabytes: float) -> int:
    """Writes shards of about 100 MB; their members are random bytes of 60 to 170 kB."""
    shards = max(1, round(gigabytes * 10))
    folder.mkdir(parents=True, exist_ok=True)
    pool, rng, key = np.random.default_rng(0).bytes(64 << 20), np.random.default_rng(1), 0
    for shard in range(shards):
        sizes, places = rng.integers(60_000, 170_000, SAMPLES), rng.integers(0, 60 << 20, SAMPLES)
        path = folder / f"train-{shard:05}.tar"
        if not path.exists():
            with path.with_suffix(".part").open("wb") as file:
                for i, (size, at) in enumerate(zip(sizes.tolist(), places.tolist(), strict=True)):
                    for suffix, data in (("cls", str(shard).encode()), ("jpg", memoryview(pool)[at : at + size])):
                        info = tarfile.TarInfo(f"{key + i:08}.{suffix}")
                        info.size = len(data)
                        file.write(info.tobuf(tarfile.USTAR_FORMAT))
                        file.write(data)
                        file.write(b"\0" * (-len(data) % 512))
                file.write(b"\0" * 1024)
            path.with_suffix(".part").rename(path)
        key += SAMPLES
    return shards


def forebay(url: str, shards: int, window: str) -> Iterator[list[int]]:
    """Batches of Forebay."""
    import forebay as fb

    ds = fb.from_tar(f"{url}/train-{{00000..{shards - 1:05}}}.tar")
    ds = ds if window == "plain" else ds.shuffle() if window == "auto" else ds.shuffle(window=window)
    for batch in ds.batch(BATCH).iter(seed=3):
        yield [int(key) for key in batch["__key__"]]


def webdataset(url: str, shards: int) -> Iterator[list[int]]:
    """Batches of WebDataset, with a shuffle of shards and a buffer of 1,000 samples."""
    import webdataset as wds

    urls = f"{url}/train-{{00000..{shards - 1:05}}}.tar"
    samples = wds.WebDataset(urls, shardshuffle=1000, empty_check=False).shuffle(1000).to_tuple("__key__", "jpg", "cls")
    for keys, *_ in samples.batched(BATCH, collation_fn=lambda rows: list(zip(*rows, strict=True))):
        yield [int(key) for key in keys]


def child(loader: str, url: str, shards: int, log: Path) -> None:
    """Reads an epoch and prints what it saw."""
    began, before = time.perf_counter(), log.stat().st_size
    batches = webdataset(url, shards) if loader == "webdataset" else forebay(url, shards, loader)
    keys = [next(batches)]
    first = time.perf_counter()
    keys += batches
    seconds = time.perf_counter() - first
    cpu = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    order = np.array([key for batch in keys for key in batch])
    assert sorted(order.tolist()) == list(range(shards * SAMPLES)), "each sample once"
    parts = [np.bincount(np.array(batch) * 100 // len(order)) for batch in keys if len(batch) == BATCH]
    pairs = statistics.mean(sum(n * (n - 1) for n in part.tolist()) / (BATCH * (BATCH - 1)) for part in parts)
    with log.open() as file:
        file.seek(before)
        sent = [int(line.split()[-1]) for line in file]
    told = {
        "first batch, s": first - began,
        "samples/s": (len(order) - BATCH) / seconds,
        "CPU-s for a GB": cpu / (shards * 0.1035),
        "RSS, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
        "requests": len(sent),
        "sent / data": sum(sent) / (shards * SAMPLES * 116_100),
        "mean move": float(np.abs(order - np.arange(len(order))).mean() / len(order)),
        "pairs": pairs * 100,
    }
    print(json.dumps(told))


def main() -> None:
    """Serves the shards, and lets each loader read them in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/forebay-streaming"), help="where the shards are made")
    parser.add_argument("--gigabytes", type=float, default=2.8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.02, help="seconds before each answer")
    parser.add_argument("--port", type=int, default=9411)
    parser.add_argument("--loaders", default="plain,auto,webdataset", help="plain, auto, a window, webdataset")
    parser.add_argument("--child", nargs=3, metavar=("LOADER", "SHARDS", "URL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    folder = args.folder.absolute()
    if args.child:
        loader, shards, url = args.child
        return child(loader, url, int(shards), folder / "access.log")
    shards = make(folder / "data" / "shards", args.gigabytes)
    (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, port=args.port, latency=args.latency))
    server = subprocess.Popen(["nginx", "-c", str(folder / "nginx.conf")])
    try:
        seen: dict[str, list[dict[str, float]]] = {}
        while not (folder / "access.log").exists():
            time.sleep(0.05)
        for _ in range(args.rounds):
            for loader in args.loaders.split(","):
                url = f"http://127.0.0.1:{args.port}/shards"
                command = [sys.executable, __file__, "--folder", str(folder), "--child", loader, str(shards), url]
                said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                seen.setdefault(loader, []).append(json.loads(said.splitlines()[-1]))
                print(loader, said.splitlines()[-1], file=sys.stderr)
        names = list(seen[args.loaders.split(",")[0]][0])
        print("| loader |", " | ".join(names), "|")
        print("|---|" + "---|" * len(names))
        for loader, rounds in seen.items():
            figures = (statistics.median(told[name] for told in rounds) for name in names)
            print(f"| {loader} |", " | ".join(f"{figure:.4g}" for figure in figures), "|")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
