"""The time and memory of a plan over very many shards, with a store that lists them and holds none.

    python bench/plan_at_size.py --shards 10000,100000,1000000

An S3 server in a separate process answers ListObjectsV2 as S3 does, 1,000 names a page, each page after 20 ms: tar
shards of 1 GB, 1,000 in each folder. It makes up a shard's content on request. A separate process each time:

    ds = from_tar("s3://lake/train/**/*.tar").shuffle().batch(64)   # lists the files, and looks at the first one
    ds.explain()                                                     # makes the plan of an epoch
    next(ds.iter())                                                  # reads the first window

"First GET" is the time from the start of the iteration to the first request for a shard's bytes: then the first split
is known. With `--service` the last line is `next(ds.distribute(...).iter())`, through a dispatcher and a worker. Cold
is with an empty `FOREBAY_CACHE`, warm is the same again in another process. "By pages" is the time of the pages one
after another.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from machine import about

PAGE, FOLDER = 1000, 1000
#: A shard is a thousand samples, each of a class and a picture, and the end of an archive.
SAMPLES, SAMPLE_BYTES = 1000, 1953 * 512
SHARD_BYTES = SAMPLES * SAMPLE_BYTES + 1024
#: The server's counts, and the time of the first request for a shard's bytes.
Counts = dict[str, float]


def content(start: int, end: int) -> bytes:
    """Returns bytes of a shard. All shards have the same bytes."""
    parts = []
    for sample in range(start // SAMPLE_BYTES, -(-end // SAMPLE_BYTES)):
        parts.append(one_sample(sample) if sample < SAMPLES else b"\0" * 1024)
    skipped = start // SAMPLE_BYTES * SAMPLE_BYTES
    return b"".join(parts)[start - skipped : end - skipped]


def one_sample(number: int) -> bytes:
    """Returns a sample in an archive's form."""
    members = []
    for suffix, size in (("cls", 1), ("jpg", SAMPLE_BYTES - 3 * 512)):
        info = tarfile.TarInfo(f"{number:08}.{suffix}")
        info.size = size
        members += [info.tobuf(tarfile.USTAR_FORMAT), b"1" * size, b"\0" * (-size % 512)]
    return b"".join(members)


class Lister:
    """Answers lists of this number of shards, and returns the content of shards."""

    def __init__(self, shards: int, latency: float) -> None:
        self._shards, self._latency = shards, latency
        # Made before a run, since a real store does not take the client's cores for it.
        self._pages: dict[str, bytes] = {}
        self._pages = {prefix: self._list({"prefix": prefix}) for prefix in self._prefixes()}
        self.reset()

    def reset(self) -> None:
        """Resets the counts."""
        self.counts: Counts = {"pages": 0, "bytes": 0, "at once": 0, "gets": 0, "first": 0.0}
        self._running = 0

    async def serve(self, told: Any) -> None:
        """Serves for ever; sends its port."""
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, target, _ = head.split("\r\n", 1)[0].split(" ")
                asked = re.search(r"(?im)^range: bytes=(\d+)-(\d*)", head)
                path, _, query = target.partition("?")
                parsed = dict(urllib.parse.parse_qsl(query))
                if path.startswith("/lake/") and "list-type" not in parsed:
                    await self._object(writer, method, path, asked)
                    continue
                body = await self._answer(path, parsed)
                writer.write(b"HTTP/1.1 200 Answer\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    async def _object(self, writer: asyncio.StreamWriter, method: str, path: str, asked: re.Match[str] | None) -> None:
        """Sends a shard, or a range of it, a part at a time."""
        self.counts["gets"] += 1
        self.counts["first"] = self.counts["first"] or time.monotonic()
        await asyncio.sleep(self._latency)
        start, end = (int(asked[1]), int(asked[2] or SHARD_BYTES - 1) + 1) if asked else (0, SHARD_BYTES)
        shard = int(path.rpartition("-")[2].removesuffix(".tar"))
        head = f'HTTP/1.1 {206 if asked else 200} Answer\r\ncontent-length: {end - start}\r\netag: "{shard:032x}"\r\n'
        head += "last-modified: Sun, 01 Nov 2026 00:00:00 GMT\r\n"
        head += f"content-range: bytes {start}-{end - 1}/{SHARD_BYTES}\r\n\r\n" if asked else "\r\n"
        writer.write(head.encode())
        while start < end and method != "HEAD":
            step = min(end, start + (1 << 20))
            writer.write(content(start, step))
            await writer.drain()
            start = step

    async def _answer(self, path: str, asked: dict[str, str]) -> bytes:
        if path == "/counts":
            return json.dumps(self.counts).encode()
        if path == "/mark":
            self.counts["first"] = 0.0
            return b""
        if path == "/reset":
            self.reset()
            return b""
        self._running += 1
        self.counts["at once"] = max(self.counts["at once"], self._running)
        await asyncio.sleep(self._latency)
        body = self._list(asked)
        self.counts["pages"] += 1
        self.counts["bytes"] += len(body)
        self._running -= 1
        return body

    def _name(self, shard: int) -> str:
        return f"train/{shard // FOLDER:05}/shard-{shard:08}.tar"

    def _prefixes(self) -> list[str]:
        """Returns the folders of the shards."""
        return [f"train/{folder:05}/" for folder in range(-(-self._shards // FOLDER))]

    def _at(self, name: str) -> int:
        """Returns the first shard whose name is not before this one, which may be the beginning of a name."""
        low, high = 0, self._shards
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._name(middle) < name else (low, middle)
        return low

    def _list(self, asked: dict[str, str]) -> bytes:
        prefix, after = asked.get("prefix", ""), asked.get("continuation-token") or asked.get("start-after", "")
        if not after and not asked.get("delimiter") and prefix in self._pages:
            return self._pages[prefix]
        end = self._at(prefix + "\U0010ffff")
        start = max(self._at(prefix), self._at(after + "\0") if after else 0)
        if asked.get("delimiter"):
            return self._folders(prefix, start, end)
        last = min(end, start + PAGE)
        listed = "".join(
            f"<Contents><Key>{self._name(shard)}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;{shard:032x}&quot;</ETag><Size>{SHARD_BYTES}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
            for shard in range(start, last)
        )
        more = last < end
        token = f"<NextContinuationToken>{self._name(last - 1)}</NextContinuationToken>" if more else ""
        return self._page(more, token + listed)

    def _folders(self, prefix: str, start: int, end: int) -> bytes:
        """Lists the folders directly below a prefix, for a reader that lists them in parallel."""
        depth = prefix.count("/") + 1
        found: dict[str, None] = {}
        while start < end and len(found) < PAGE:
            parts = self._name(start).split("/")
            if len(parts) <= depth:
                return self._list({"prefix": prefix})
            folder = "/".join(parts[:depth]) + "/"
            found[folder] = None
            start = self._at(folder + "\U0010ffff")
        more = start < end
        token = f"<NextContinuationToken>{self._name(start - 1)}</NextContinuationToken>" if more else ""
        listed = "".join(f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>" for folder in found)
        return self._page(more, token + listed)

    def _page(self, more: bool, listed: str) -> bytes:
        inside = f"<Name>lake</Name><MaxKeys>{PAGE}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>{listed}"
        return f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>{inside}</ListBucketResult>'.encode()


def serve(shards: int, latency: float, told: Any) -> None:
    """Runs the server."""
    asyncio.run(Lister(shards, latency).serve(told))


def ask(url: str, what: str) -> Counts:
    """Requests the server's counts, or resets them."""
    with urllib.request.urlopen(f"{url}/{what}", timeout=60) as answer:
        return json.loads(answer.read() or b"{}")


def memory(process: int | str) -> float:
    """Returns the peak memory of a process, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def plan(url: str, on_service: bool) -> dict[str, float]:
    """Makes a plan, and requests the first batch; returns seconds and memory."""
    import forebay as fb

    service = fb.up(workers=1, threads=1) if on_service else None
    before, began = memory("self"), time.monotonic()
    ds = fb.from_tar("s3://lake/train/**/*.tar").shuffle().batch(64)
    written = time.monotonic()
    if service is None:
        ds.explain()
    explained = time.monotonic()
    ask(url, "mark")
    it = ds.iter(seed=1) if service is None else ds.distribute(service, job="plan", seed=1).iter()
    next(it)
    read = time.monotonic()
    counts = ask(url, "counts")
    told = {
        "pipeline, s": written - began,
        "plan, s": explained - written,
        "first GET, s": counts["first"] - explained,
        "first batch, s": read - explained,
        "in all, s": read - began,
        "pages": counts["pages"],
        "pages at once": counts["at once"],
        "memory, MB": memory("self") - before,
    }
    if service is not None:
        it.close()
        told["dispatcher, MB"] = memory(service.dispatcher_pid)
        service.close()
    else:
        it.close()
    return told


def measure(shards: int, options: argparse.Namespace) -> None:
    """Serves this number of shards, and prints a line for each run."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(shards, options.latency, there), daemon=True
    )
    server.start()
    url = f"http://127.0.0.1:{here.recv()}"
    try:
        for on_service in (False, True) if options.service else (False,):
            with tempfile.TemporaryDirectory() as cache:
                for cold in (True, False):
                    ask(url, "reset")
                    environment = {
                        **os.environ,
                        "AWS_ENDPOINT_URL": url,
                        "AWS_ACCESS_KEY_ID": "key",
                        "AWS_SECRET_ACCESS_KEY": "secret",
                        "FOREBAY_CACHE": cache,
                        # Cached bytes of shards would hide the time of the first request.
                        "FOREBAY_CACHE_SOURCE": "off",
                    }
                    command = [sys.executable, __file__, "--child", url, *(["--service"] if on_service else [])]
                    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
                    told = json.loads(done.stdout.splitlines()[-1])
                    by_pages = -(-shards // PAGE) * options.latency
                    print(
                        f"| {shards:,} | {'service' if on_service else 'process'} | {'cold' if cold else 'warm'} |",
                        " | ".join(f"{told.get(name, float('nan')):.4g}" for name in COLUMNS),
                        f"| {by_pages:.4g} |",
                        flush=True,
                    )
    finally:
        server.kill()
        server.join()


COLUMNS = (
    "pipeline, s",
    "plan, s",
    "first GET, s",
    "first batch, s",
    "in all, s",
    "pages",
    "pages at once",
    "memory, MB",
    "dispatcher, MB",
)


def main() -> None:
    """Measures each size, cold and warm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", default="10000,100000,1000000", help="how many, with commas between")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds before each page")
    parser.add_argument("--service", action="store_true", help="also through a dispatcher and a worker")
    parser.add_argument("--child", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(plan(options.child, options.service)))
        return
    print(about())
    print("| shards | where | cache |", " | ".join(COLUMNS), "| by pages, s |")
    print("|---|---|---|" + "---|" * (len(COLUMNS) + 1))
    for shards in options.shards.split(","):
        measure(int(shards), options)


if __name__ == "__main__":
    main()
