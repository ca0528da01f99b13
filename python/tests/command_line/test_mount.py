"""`forebay mount`: programs read below a folder the files of the sources."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from buckets import credentials, put
from faulty import Answer, FaultProxy, none, reset_at_once
from mounts import FILES, can_mount, fails, is_mount, mounted, read_anyhow, refused, same, until

pytestmark = can_mount

NAMES = 20_000
#: More than a store says in one answer.
FAR_NAMES = 1001


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)


@pytest.mark.parametrize("cached", [False, True], ids=["no cache", "cache"])
def test_a_bucket_is_read_as_its_files(cached, mount_bucket, mount_folder, s3, tmp_path):
    cache = tmp_path / "cache" if cached else ""
    for again in range(2 if cached else 1):
        with mounted(tmp_path / "mnt", mount_bucket, FOREBAY_CACHE=cache, **s3) as mount:
            large = [name for name in FILES if name.startswith("large")]
            with ThreadPoolExecutor(4) as threads:
                reads = [
                    threads.submit(read_anyhow, mount.folder / name, FILES[name], seed)
                    for name in large
                    for seed in (again, 9)
                ]
                assert [read.result(90) for read in reads] == [None] * 4
            same(mount.folder, mount_folder)
            stat = (mount.folder / large[1]).stat()
            assert (stat.st_size, stat.st_mode & 0o777) == (len(FILES[large[1]]), 0o444)
            assert abs(stat.st_mtime - time.time()) < 3600
            assert (mount.folder / "large").stat().st_mode & 0o777 == 0o555
            with pytest.raises(FileNotFoundError):
                (mount.folder / "none").stat()
            assert mount.end() == 0
            assert not is_mount(mount.folder)


def test_a_local_folder_shows_links_permissions_and_any_name(mount_folder, tmp_path):
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True)
    (source / "below" / "file").write_bytes(b"here")
    (source / "link").symlink_to("below/file")
    (source / "away").symlink_to("/none")
    os.mkfifo(source / "pipe")
    (source / "secret").write_text("mine")
    (source / "secret").chmod(0o600)
    raw = os.fsencode(source) + b"/\xff\xfe"
    with open(raw, "wb") as file:
        file.write(b"no text")
    os.utime(source / "secret", ns=(0, 1_234_567_890_123_456_789))
    # Where another user gets to.
    reachable = Path(tempfile.mkdtemp())
    reachable.chmod(0o755)
    with mounted(reachable, source) as mount:
        at = mount.folder
        assert sorted(os.listdir(os.fsencode(at))) == [b"away", b"below", b"link", b"secret", b"\xff\xfe"]
        assert (os.readlink(at / "link"), (at / "link").read_bytes()) == ("below/file", b"here")
        assert os.readlink(at / "away") == "/none"
        with open(os.fsencode(at) + b"/\xff\xfe", "rb") as file:
            assert file.read() == b"no text"
        stat = (at / "secret").stat()
        assert (stat.st_mode & 0o777, stat.st_mtime_ns) == (0o600, 1_234_567_890_123_456_789)
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        denied = subprocess.run([*drop, "cat", str(at / "secret")], capture_output=True, text=True, timeout=90)
        assert "Permission denied" in denied.stderr
        may = subprocess.run([*drop, "cat", str(at / "below" / "file")], capture_output=True, text=True, timeout=90)
        assert may.stdout == "here", may.stderr
        space = os.statvfs(at)
        assert space.f_blocks > 0
        assert space.f_bavail == 0
        for change in (
            lambda: (at / "new").write_text("x"),
            lambda: (at / "link").unlink(),
            lambda: (at / "folder").mkdir(),
            lambda: (at / "secret").rename(at / "other"),
            lambda: (at / "secret").chmod(0o644),
            lambda: os.truncate(at / "secret", 1),
            lambda: os.setxattr(at / "secret", "user.x", b"y"),
        ):
            with fails(errno.EROFS):
                change()
        # What is written to the source shows.
        (source / "new").write_text("new")
        until(lambda: "new" in os.listdir(at), "a new file shows")
        assert (at / "new").read_text() == "new"
    reachable.rmdir()


def test_several_sources_and_files_of_a_web_server(mount_bucket, mount_folder, s3, tmp_path):
    class Ranges(SimpleHTTPRequestHandler):
        """Serves ranges, which Python's server does not."""

        def do_GET(self) -> None:
            body = Path(self.translate_path(self.path)).read_bytes()
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            part = body[int(first) : int(last) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(part)))
            self.send_header(
                "Last-Modified", self.date_time_string(int(os.stat(self.translate_path(self.path)).st_mtime))
            )
            self.end_headers()
            self.wfile.write(part)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=str(mount_folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    web = f"http://127.0.0.1:{server.server_port}"
    with mounted(
        tmp_path / "mnt", f"far={mount_bucket}", f"near={mount_folder}", f"web={web}/large/{{0,1}}.bin", **s3
    ) as mount:
        at = mount.folder
        assert sorted(os.listdir(at)) == ["far", "near", "web"]
        same(at / "far", mount_folder)
        same(at / "near", mount_folder)
        same(at / "web", mount_folder / "large")
        read_anyhow(at / "web" / "1.bin", FILES["large/1.bin"], 3)
    server.shutdown()
    server.server_close()


def test_a_mount_and_a_pipeline_share_pages_and_inodes_stay(moto, mount_bucket, tmp_path):
    with FaultProxy(moto, none, every=1 << 60) as proxy:
        settings = {**credentials(proxy.url), "FOREBAY_CACHE": str(tmp_path / "cache")}
        # A process has one cache, and this one may have opened another.
        pipeline = f"import forebay as fb; print(len(list(fb.from_files('{mount_bucket}/small/*.bin'))))"
        env = {**os.environ, **settings}
        rows = subprocess.run([sys.executable, "-c", pipeline], env=env, check=True, capture_output=True, text=True)
        assert int(rows.stdout) == 60
        assert proxy.bytes >= sum(len(body) for name, body in FILES.items() if name.startswith("small/"))
        numbers = []
        fetched = 0
        for _ in range(2):
            with mounted(tmp_path / "mnt", mount_bucket, **settings) as mount:
                for name, body in FILES.items():
                    assert (mount.folder / name).read_bytes() == body
                numbers.append([(mount.folder / name).stat().st_ino for name in FILES])
                assert mount.end() == 0
            if fetched:
                assert proxy.bytes == fetched, "all pages are there"
            fetched = proxy.bytes
        assert fetched <= sum(map(len, FILES.values())), "a page is fetched once"
        assert numbers[0] == numbers[1]
        assert len(set(numbers[0])) == len(FILES)


def test_a_folder_of_many_names_is_listed_whole_by_two_processes(moto, s3, tmp_path):
    source = tmp_path / "many"
    source.mkdir()
    names = [f"{i:06}" for i in range(NAMES)]
    for name in names:
        os.close(os.open(source / name, os.O_CREAT, 0o644))
    put(moto, "pages")
    for i in range(FAR_NAMES):
        put(moto, f"pages/deep/{i:05}", b"%d" % i)
    with mounted(tmp_path / "mnt", f"near={source}", "far=s3://pages/deep", **s3) as mount:
        script = "import os, sys; print(len({e.inode() for e in os.scandir(sys.argv[1]) if e.is_file()}))"
        for below, count in (("near", NAMES), ("far", FAR_NAMES)):
            run = [sys.executable, "-c", script, str(mount.folder / below)]
            both = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(2)]
            assert [process.communicate(timeout=180)[0] for process in both] == [f"{count}\n"] * 2
        assert sorted(os.listdir(mount.folder / "near")) == names
        assert [(mount.folder / "far" / f"{i:05}").read_bytes() for i in (0, 999, 1000)] == [b"0", b"999", b"1000"]


def test_one_name_of_a_large_folder_is_found_without_its_list(moto, s3, tmp_path):
    put(moto, "names")
    for i in range(FAR_NAMES):
        put(moto, f"names/deep/{i:05}", b"%d" % i)
    put(moto, "names/deep/below/00777/x", b"")
    with (
        FaultProxy(moto, none, every=1 << 60) as proxy,
        mounted(tmp_path / "mnt", "s3://names", **credentials(proxy.url)) as mount,
    ):
        deep = mount.folder / "deep"
        assert deep.is_dir()

        def asked(look: Callable[[], object]) -> tuple[int, object]:
            before = proxy.requests
            found = look()
            return proxy.requests - before, found

        # The first name shows by one answer of the list that there are many.
        found = asked(lambda: (deep / "00777").stat())
        assert (found[0], found[1].st_size) == (3, 3)
        assert asked((deep / "00778").exists) == (2, True)
        assert asked((deep / "none").exists) == (2, False)
        assert asked((deep / "below").is_dir) == (2, True)
        assert asked((deep / "00042").read_bytes) == (3, b"42")
        # Looked up or listed, a name is one inode with the same time.
        with os.scandir(deep) as entries:
            listed = {entry.name: entry for entry in entries}
        assert len(listed) == FAR_NAMES + 1
        assert listed["00777"].inode() == found[1].st_ino
        assert listed["00777"].stat().st_mtime == found[1].st_mtime
        assert asked(lambda: [(deep / f"{i:05}").stat() for i in range(900, 1000)])[0] == 0, "the list serves them"


def test_a_prefetch_fills_the_cache_and_tells_its_progress(moto, mount_bucket, mount_folder, tmp_path):
    lost, size = "small/007.bin", sum(map(len, FILES.values()))
    is_lost = threading.Event()
    is_lost.set()

    def only(method: str, answer: Answer) -> bool:
        return is_lost.is_set() and method == "GET" and answer.body == FILES[lost]

    def status(at: Path) -> str:
        return run("mount", "--status", at).stdout.strip()

    settings = {"FOREBAY_STORE_TIMEOUT": 30, "FOREBAY_STORE_PATIENCE": 1}
    options = (mount_bucket, "--prefetch", "--cache", tmp_path / "cache")
    with FaultProxy(moto, reset_at_once, every=1, only=only) as proxy:
        settings |= credentials(proxy.url)
        with mounted(tmp_path / "mnt", *options, **settings) as mount:
            until(lambda: status(mount.folder).startswith("prefetch done"), f"{status(mount.folder)} {mount.said}")
            assert f" {len(FILES) - 1} of {len(FILES)} files, " in status(mount.folder)
            assert status(mount.folder).endswith(", 1 failed: see the log")
            mount.log(lost)
        # The next process reads what is missing, and no more.
        is_lost.clear()
        before = proxy.bytes
        with mounted(tmp_path / "mnt", *options, **settings) as mount:
            until(lambda: status(mount.folder).startswith("prefetch done"), f"{status(mount.folder)} {mount.said}")
            assert proxy.bytes - before == len(FILES[lost])
            assert f": {len(FILES)} of {len(FILES)} files, " in status(mount.folder)
            same(mount.folder, mount_folder)
            assert proxy.bytes - before == len(FILES[lost]), "reads find all of it in the cache"
        # The cache folder has room for a part of it: the prefetch reads no more than that.
        small = (mount_bucket, "--prefetch", "--cache", tmp_path / "small", "--cache-disk", size // 2)
        with mounted(tmp_path / "mnt", *small, **settings) as mount:
            until(lambda: status(mount.folder).startswith("prefetch full"), f"{status(mount.folder)} {mount.said}")
            same(mount.folder, mount_folder)
        with mounted(tmp_path / "mnt", mount_bucket, **settings) as mount:
            assert status(mount.folder).startswith("no prefetch")
    assert "is in no mount of Forebay" in run("mount", "--status", tmp_path).stderr
    code, said = refused(tmp_path / "mnt", mount_bucket, "--prefetch", **credentials(moto))
    assert code == 1, said
    assert "--cache FOLDER" in said


def test_in_the_background_it_returns_when_it_is_ready(mount_folder, tmp_path):
    at = tmp_path / "mnt"
    at.mkdir()
    command = [sys.executable, "-m", "forebay", "mount", str(mount_folder), str(at), "--background"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=90)
    assert done.stdout.startswith(f"mounted at {at}, by process ")
    process = int(done.stdout.split()[-1])
    with (at / "large/0.bin").open("rb") as file:
        assert len(file.read(10)) == 10
        os.kill(process, signal.SIGTERM)
        until(lambda: not is_mount(at), "it is unmounted at once")
        assert len(file.read(100_000)) == 100_000, "an open file is read on"
    until(
        lambda: not Path(f"/proc/{process}").exists() or "zombie" in Path(f"/proc/{process}/status").read_text(),
        "it ends",
    )
    failed = subprocess.run(
        [*command[:4], str(tmp_path / "none"), *command[5:]], capture_output=True, text=True, timeout=90
    )
    assert failed.returncode == 4
    assert "there is no such file" in failed.stderr
