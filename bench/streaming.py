"""Shards in a store that is 20 ms away: the time to the first batch, the rate of the others, and the shuffle quality.

    python bench/streaming.py --gigabytes 2.8 --rounds 3

Makes the same samples of pictures' sizes in the format of each loader (once), serves them with nginx, which answers
after 20 ms (Debian: nginx-light and libnginx-mod-http-echo), and reads an epoch of them in separate processes, in
turns: Forebay unshuffled and shuffled, WebDataset, MosaicML Streaming, LitData and Hugging Face datasets, with
shuffling on. `streaming_loaders.py` describes the input and the settings of each. Samples are read and batched, not
decoded. Needs `webdataset`, `mosaicml-streaming`, `litdata`, `datasets` and `torch` for those of `--loaders`.

The clock starts after the imports, so the first batch includes all requests that a loader makes before it. "Sent by the
first batch" adds up two counts: for an open connection, the bytes that the reader's kernel has acknowledged, with
headers; for a closed connection, the bytes in the server's log. Bytes in the reader's socket buffers count as sent.
Memory is the sum of the highest RSS of the process and of each of its children; a page that two processes share counts
twice. The RSS after the imports has a column of its own. Before a run its files are read
once, so that they come from the page cache as far as they fit there.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import resource
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from machine import about
from streaming_loaders import BATCH, FORMATS, PACKAGES, SAMPLES, format_of, loader, quiet, sizes

CONFIG = """
load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;
worker_processes 1;
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  log_format bytes '$remote_port $request_method $status $bytes_sent $body_bytes_sent';
  access_log {folder}/access.log bytes;
  client_body_temp_path {folder}/temp;
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
#: Linux's netlink protocol and message for sockets, and the place of the acknowledged bytes in `tcp_info`.
SOCK_DIAG, BY_FAMILY, REQUEST_DUMP, INFO, BYTES_ACKED = 4, 20, 0x301, 2, 120


def acknowledged(port: int) -> dict[int, int]:
    """Returns the bytes that each open connection of a server on this machine has sent, by the reader's port."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as asked:
        # The request asks for IPv4 connections that are established or closing, with the `tcp_info` of each.
        identity = struct.pack(">HH16s16s", port, 0, b"", b"") + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
        body = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 1 << (INFO - 1), 0b0111_0011_1110) + identity
        asked.send(struct.pack("=IHHII", 16 + len(body), BY_FAMILY, REQUEST_DUMP, 1, 0) + body)
        found: dict[int, int] = {}
        while True:
            part = asked.recv(1 << 20)
            while part:
                length, kind = struct.unpack_from("=IH", part)
                if kind != BY_FAMILY:
                    return found
                _connection(part[16:length], port, found)
                part = part[(length + 3) & ~3 :]


def _connection(message: bytes, port: int, found: dict[int, int]) -> None:
    here, there = struct.unpack_from(">HH", message, 4)
    at = 72
    while here == port and at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == INFO and length >= 4 + BYTES_ACKED + 8:
            found[there] = struct.unpack_from("=Q", message, at + 4 + BYTES_ACKED)[0]
        at += (length + 3) & ~3


class Log:
    """The server's log of its answers since this was made."""

    def __init__(self, path: Path) -> None:
        self._path, self._from = path, path.stat().st_size

    def lines(self) -> list[list[str]]:
        """Returns the port of the reader, method, status, bytes sent, and body bytes, of each finished answer."""
        with self._path.open() as file:
            file.seek(self._from)
            return [line.split() for line in file]

    def sent(self, port: int) -> int:
        """Returns the bytes that were sent until now, including those of unfinished answers."""
        open_ = acknowledged(port)
        return sum(open_.values()) + sum(int(line[3]) for line in self.lines() if int(line[0]) not in open_)


class Children:
    """The peak memory of each child of this process, read four times a second."""

    def __init__(self) -> None:
        self._most: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.25):
            for task in Path("/proc/self/task").iterdir():
                for child in _read(task / "children").split():
                    self._most[child] = max(_kilobytes(child, "VmHWM"), self._most.get(child, 0))

    def end(self) -> float:
        """Returns the sum in megabytes."""
        self._over.set()
        self._thread.join()
        return sum(self._most.values()) / 1000


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _kilobytes(process: str, what: str) -> int:
    lines = _read(Path(f"/proc/{process}/status")).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(what)), 0)


def cpu_seconds() -> float:
    """Returns the CPU time of this process and of children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def child(name: str, url: str, shards: int, folder: Path) -> None:
    """Reads an epoch and prints its figures."""
    out = quiet()
    read, modules = loader(name)
    for module in modules:
        importlib.import_module(module)
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    log, port, children = Log(folder / "access.log"), int(url.rpartition(":")[2]), Children()
    imports = _kilobytes("self", "VmRSS") / 1000
    began, spent = time.perf_counter(), cpu_seconds()
    batches = iter(read(url, shards, cache))
    keys = [next(batches)]
    first = time.perf_counter()
    sent_first = log.sent(port)
    keys += batches
    seconds = time.perf_counter() - first
    kept = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    # `ru_maxrss` of a new process begins at the value of its parent; `VmHWM` does not.
    memory = _kilobytes("self", "VmHWM") / 1000 + children.end()
    del batches
    gc.collect()
    spent = cpu_seconds() - spent
    order = np.array([key for batch in keys for key in batch])
    assert set(order.tolist()) == set(range(shards * SAMPLES)), f"{name}: each sample at least once"
    if len(order) > shards * SAMPLES:
        print(f"{name} gave {len(order) - shards * SAMPLES} samples twice", file=sys.stderr)
    parts = [np.bincount(np.array(batch) * 100 // (shards * SAMPLES)) for batch in keys if len(batch) == BATCH]
    pairs = statistics.mean(sum(n * (n - 1) for n in part.tolist()) / (BATCH * (BATCH - 1)) for part in parts)
    data = sum(map(sizes, range(shards)))
    answers = log.lines()
    told = {
        "first batch, s": first - began,
        "sent by the first batch, MB": sent_first / 1e6,
        "samples/s": (len(order) - len(keys[0])) / seconds,
        "epoch, s": first - began + seconds,
        "CPU-s for a GB": spent / (data / 1e9),
        "RSS, MB": memory,
        "of it imports, MB": imports,
        "disk, MB": kept / 1e6,
        "requests": len(answers),
        "sent / data": sum(int(line[4]) for line in answers) / data,
        "mean move": float(np.abs(order - np.arange(len(order))).mean() / len(order)),
        "pairs": pairs * 100,
    }
    shutil.rmtree(cache, ignore_errors=True)
    print(json.dumps(told), file=out)


def warm(folder: Path) -> None:
    """Reads files, so that the server finds them in the page cache."""
    for path in sorted(folder.iterdir()):
        with path.open("rb", buffering=0) as file:
            while file.read(8 << 20):
                pass


def nginx() -> str:
    """Returns the server's version."""
    said = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr
    return said.strip().rpartition("/")[2]


def main() -> None:
    """Serves the shards, and lets each loader read them in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/forebay-streaming"), help="where the shards are made")
    parser.add_argument("--gigabytes", type=float, default=2.8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.02, help="seconds before each answer")
    parser.add_argument("--port", type=int, default=9411)
    parser.add_argument(
        "--loaders",
        default="plain,auto,webdataset,mosaicml,litdata,hf,hf-tar",
        help="names of loaders in streaming_loaders.py, with commas between; NAME:2 runs NAME with two processes",
    )
    parser.add_argument("--child", nargs=3, metavar=("LOADER", "SHARDS", "URL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    folder = args.folder.absolute()
    if args.child:
        name, shards, url = args.child
        return child(name, url, int(shards), folder)
    # Each size has a folder of its own: files of another size would be read as if they were of this one.
    folder /= f"{args.gigabytes:g}GB"
    shards, loaders = max(1, round(args.gigabytes * 10)), args.loaders.split(",")
    for kind in dict.fromkeys(map(format_of, loaders)):
        FORMATS[kind](folder / "data" / kind, shards)
    (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, port=args.port, latency=args.latency))
    # LitData and MosaicML sign their requests and need credentials for it. The server does not check them.
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    environment |= {"HF_HOME": str(folder / "hf"), "TOKENIZERS_PARALLELISM": "false"}
    server = subprocess.Popen(["nginx", "-c", str(folder / "nginx.conf")])
    try:
        seen: dict[str, list[dict[str, float]]] = {}
        deadline = time.monotonic() + 30
        while not (folder / "access.log").exists() or not _listens(args.port):
            assert server.poll() is None, "nginx did not start"
            assert time.monotonic() < deadline, "nginx does not answer"
            time.sleep(0.05)
        for _ in range(args.rounds):
            for name in loaders:
                warm(folder / "data" / format_of(name))
                url = f"http://127.0.0.1:{args.port}"
                command = [sys.executable, __file__, "--folder", str(folder), "--child", name, str(shards), url]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
                said = done.stdout.splitlines()[-1]
                seen.setdefault(name, []).append(json.loads(said))
                print(name, said, file=sys.stderr)
        names = list(seen[loaders[0]][0])
        print(about(*PACKAGES, nginx=nginx()))
        print("| loader |", " | ".join(names), "|")
        print("|---|" + "---|" * len(names))
        for name, rounds in seen.items():
            figures = (statistics.median(told[name] for told in rounds) for name in names)
            print(f"| {name} |", " | ".join(f"{figure:.4g}" for figure in figures), "|")
    finally:
        server.terminate()
        server.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
