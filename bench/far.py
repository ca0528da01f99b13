"""An S3 server of a folder, with a delay and a limit of bytes a second for all answers; it counts the bytes.

    with Far(folder, latency=0.02, rate=50e6) as far:
        os.environ |= far.settings    # then s3://far/... has the files below the folder

It supports the requests of readers and caches (sizes, ranges, lists, put and removal of whole objects) and no others.
It is a separate process, so it takes from them at most some time of a core.
"""

from __future__ import annotations

import asyncio
import bisect
import json
import multiprocessing
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any
from xml.sax.saxutils import escape

#: Bytes that are sent at once: a sixth of a millisecond on a fast line.
CHUNK = 64 << 10
#: The most objects in one answer to a list.
LISTED = 1000


class Far:
    """The server's process."""

    def __init__(self, folder: Path, latency: float, rate: float) -> None:
        self._folder, self._latency, self._rate = folder, latency, rate

    def __enter__(self) -> Far:
        """Starts it."""
        here, there = multiprocessing.Pipe()
        arguments = (self._folder, self._latency, self._rate, there)
        # Not forked, because a forked child lacks the threads of this process.
        self._process = multiprocessing.get_context("spawn").Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        self.url = f"http://127.0.0.1:{here.recv()}"
        self.settings = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends it."""
        self._process.kill()
        self._process.join()

    def sent(self) -> int:
        """The bytes of objects that were sent so far."""
        with urllib.request.urlopen(f"{self.url}/sent", timeout=10) as answer:
            return int(json.load(answer))


def _run(folder: Path, latency: float, rate: float, there: Any) -> None:
    asyncio.run(_Server(folder, latency, rate).serve(there))


class _Server:
    def __init__(self, folder: Path, latency: float, rate: float) -> None:
        self._folder, self._latency, self._rate = folder, latency, rate
        self._free_at, self._sent = 0.0, 0
        self._keys = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())

    async def serve(self, there: Any) -> None:
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        there.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:])}
                method, target, _ = head[0].split(" ")
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(writer, method, target, headers, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> None:
        path, _, query = target.partition("?")
        key = urllib.parse.unquote(path.removeprefix("/").partition("/")[2])
        if path == "/sent":
            self._say(writer, 200, {}, str(self._sent).encode())
            return
        await asyncio.sleep(self._latency)
        if key and method in ("PUT", "DELETE"):
            await self._line_takes(len(body))
            self._change(writer, method, key, headers, body)
        elif key:
            await self._answer_object(writer, method, key, headers.get("range", ""))
        else:
            self._say(writer, 200, {"content-type": "application/xml"}, self._list(query))

    async def _answer_object(self, writer: asyncio.StreamWriter, method: str, key: str, asked: str) -> None:
        path = self._folder / key
        # A store has no folders.
        if not path.is_file() or key.endswith("/"):
            self._say(writer, 404, {}, b"")
            return
        stat = path.stat()
        first, last = 0, stat.st_size - 1
        if asked:
            first, last = (min(int(n), last) for n in asked.removeprefix("bytes=").split("-"))
        said = {
            "etag": f'"{stat.st_mtime_ns:x}"',
            "last-modified": "Sun, 01 Nov 2026 00:00:00 GMT",
            "content-range": f"bytes {first}-{last}/{stat.st_size}" if asked else "",
        }
        self._say(writer, 206 if asked else 200, said, b"", last + 1 - first)
        if method == "GET":
            await self._send(writer, self._folder / key, first, last + 1)

    def _change(
        self, writer: asyncio.StreamWriter, method: str, key: str, headers: dict[str, str], body: bytes
    ) -> None:
        """Puts a whole object, or removes it."""
        path, there = self._folder / key, key in self._keys
        if method == "DELETE":
            path.unlink(missing_ok=True)
            self._keys = [other for other in self._keys if other != key]
            return self._say(writer, 204, {}, b"")
        if there and headers.get("if-none-match") == "*":
            return self._say(writer, 412, {}, b"")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        if not there:
            bisect.insort(self._keys, key)
        return self._say(writer, 200, {"etag": f'"{path.stat().st_mtime_ns:x}"'}, b"")

    async def _line_takes(self, size: int) -> None:
        """Waits for the time of this number of bytes on the line, which all answers share."""
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + size / self._rate
        await asyncio.sleep(self._free_at - loop.time())

    async def _send(self, writer: asyncio.StreamWriter, path: Path, start: int, end: int) -> None:
        """Sends a range, as fast as the client takes it; nothing more once the client has closed the connection."""
        with open(path, "rb") as file:
            file.seek(start)
            while start < end and not writer.is_closing():
                chunk = file.read(min(CHUNK, end - start))
                start += len(chunk)
                await self._line_takes(len(chunk))
                writer.write(chunk)
                self._sent += len(chunk)
                await writer.drain()

    def _list(self, query: str) -> bytes:
        asked = dict(urllib.parse.parse_qsl(query))
        after = asked.get("continuation-token") or asked.get("start-after") or asked.get("marker", "")
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        at, listed = bisect.bisect_left(self._keys, prefix), []
        if after:
            # After a folder, the list goes on with the next name that does not begin with it.
            at = max(at, bisect.bisect_right(self._keys, after + "\uffff" if after.endswith("/") else after))
        while at < len(self._keys) and self._keys[at].startswith(prefix) and len(listed) <= LISTED:
            folder, found, _ = self._keys[at][len(prefix) :].partition(delimiter or "\0")
            if found:
                listed.append(prefix + folder + delimiter)
                at = bisect.bisect_left(self._keys, listed[-1] + "\uffff")
            else:
                listed.append(self._keys[at])
                at += 1
        more = len(listed) > LISTED
        objects = "".join(
            self._folder_of(name) if name.endswith("/") else self._object(name) for name in listed[:LISTED]
        )
        last = escape(listed[LISTED - 1]) if more else ""
        next_token = (
            f"<NextContinuationToken>{last}</NextContinuationToken><NextMarker>{last}</NextMarker>" if more else ""
        )
        body = f"<Prefix>{escape(prefix)}</Prefix><IsTruncated>{str(more).lower()}</IsTruncated>{next_token}{objects}"
        return f'<?xml version="1.0"?><ListBucketResult><Name>far</Name>{body}</ListBucketResult>'.encode()

    @staticmethod
    def _folder_of(name: str) -> str:
        return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"

    def _object(self, key: str) -> str:
        stat = (self._folder / key).stat()
        tag = f"<ETag>&quot;{stat.st_mtime_ns:x}&quot;</ETag><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
        return f"<Contents><Key>{escape(key)}</Key><Size>{stat.st_size}</Size>{tag}</Contents>"

    def _say(
        self, writer: asyncio.StreamWriter, status: int, headers: dict[str, str], body: bytes, size: int | None = None
    ) -> None:
        said = {**headers, "content-length": str(len(body) if size is None else size)}
        lines = [f"HTTP/1.1 {status} Answer", *(f"{k}: {v}" for k, v in said.items() if v), "", ""]
        writer.write("\r\n".join(lines).encode() + body)
