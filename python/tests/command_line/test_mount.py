"""`forebay mount`: what programs read below a folder is what the sources hold, or an error."""

from __future__ import annotations

import errno
import mmap
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from buckets import credentials, put
from faulty import FAULTS, Answer, FaultProxy, none, reset_at_once

PAGE = 1 << 20
NAMES = 20_000
#: More than a store says in one answer.
FAR_NAMES = 1001


def cannot_mount() -> str | None:
    """Why a mount cannot be made here."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse cannot be opened: {error}"
    # Root of a container may lack the capability to mount (CAP_SYS_ADMIN, number 21).
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if capabilities is None or not int(capabilities[1], 16) >> 21 & 1:
        return "this process may not mount"
    return None


pytestmark = pytest.mark.skipif(cannot_mount() is not None, reason=str(cannot_mount()))


def until(is_so: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Polls until something is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


@contextmanager
def fails(*numbers: int) -> Iterator[None]:
    """Expects one of the system's errors."""
    with pytest.raises(OSError, match=rf"^\[Errno ({'|'.join(map(str, numbers))})\] "):
        yield


class Mount:
    """A mount, and the process that serves it."""

    def __init__(self, folder: Path, *arguments: object, **env: object) -> None:
        self.folder = folder
        self.said: list[str] = []
        command = [sys.executable, "-m", "forebay", "mount", *map(str, arguments), str(folder)]
        settings = {**os.environ, "FOREBAY_CACHE": "", "NO_COLOR": "1", **{k: str(v) for k, v in env.items()}}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=settings)
        self._reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True)
        self._reader.start()
        self.ready = self.process.stdout.readline().strip()

    def log(self, text: str) -> None:
        """Waits for a line of the log."""
        until(lambda: any(text in line for line in self.said), f"{text!r} is not in {self.said}")

    def end(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.ended()

    def ended(self) -> int:
        """Waits for its end; returns the exit code."""
        code = self.process.wait(20)
        self._reader.join(20)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@contextmanager
def mounted(folder: Path, *arguments: object, **env: object) -> Iterator[Mount]:
    folder.mkdir(exist_ok=True)
    mount = Mount(folder, *arguments, **env)
    try:
        assert mount.ready == f"mounted at {folder}", mount.said
        yield mount
    finally:
        if mount.process.poll() is None:
            mount.end()
        mount.ended()
        subprocess.run(["umount", "-l", str(folder)], stderr=subprocess.DEVNULL, check=False)


def refused(folder: Path, *arguments: object, **env: object) -> tuple[int, str]:
    """The exit code of a mount that does not come about, and what is said."""
    mount = Mount(folder, *arguments, **env)
    assert mount.ready == ""
    return mount.ended(), "".join(mount.said)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)


def is_mount(folder: Path) -> bool:
    return f" {folder} " in Path("/proc/self/mountinfo").read_text()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """What the sources hold: small files, files of several pages, an empty one, and odd names."""
    rng = np.random.default_rng(7)
    small = {f"small/{i:03}.bin": rng.bytes(1000 + 997 * i) for i in range(60)}
    large = {f"large/{i}.bin": rng.bytes(3 * PAGE + 12_345 * i) for i in range(2)}
    return {**small, **large, "empty": b"", "a b/é%20?#.txt": b"odd", "deep/er/and/deeper": b"x" * 17}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, files) -> Path:
    root = tmp_path_factory.mktemp("files")
    for name, body in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(body)
    return root


@pytest.fixture(scope="module")
def bucket(moto, files) -> str:
    put(moto, "mounted")
    for name, body in files.items():
        put(
            moto,
            "mounted/train/"
            + name.replace("%", "%25")
            .replace("?", "%3F")
            .replace("#", "%23")
            .replace(" ", "%20")
            .replace("é", "%C3%A9"),
            body,
        )
    return "s3://mounted/train"


@pytest.fixture
def s3(moto) -> dict[str, str]:
    return credentials(moto)


def same(mount: Path, folder: Path) -> None:
    done = subprocess.run(["diff", "-r", str(folder), str(mount)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def read_anyhow(path: Path, body: bytes, seed: int) -> None:
    """Ranges in any order, a mapping, and from front to back."""
    dice = random.Random(seed)
    with path.open("rb", buffering=0) as file:
        for _ in range(40):
            at = dice.randrange(len(body) + 1)
            length = dice.choice([1, 4096, 128 << 10, PAGE + 1])
            assert os.pread(file.fileno(), length, at) == body[at : at + length], (at, length)
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            for _ in range(40):
                at = dice.randrange(len(body))
                assert mapped[at : at + 5000] == body[at : at + 5000], at
        assert file.read() == body


@pytest.mark.parametrize("cached", [False, True], ids=["no cache", "cache"])
def test_a_bucket_is_read_as_its_files(cached, bucket, folder, files, s3, tmp_path):
    cache = tmp_path / "cache" if cached else ""
    for again in range(2 if cached else 1):
        with mounted(tmp_path / "mnt", bucket, FOREBAY_CACHE=cache, **s3) as mount:
            large = [name for name in files if name.startswith("large")]
            with ThreadPoolExecutor(4) as threads:
                reads = [
                    threads.submit(read_anyhow, mount.folder / name, files[name], seed)
                    for name in large
                    for seed in (again, 9)
                ]
                assert [read.result(60) for read in reads] == [None] * 4
            same(mount.folder, folder)
            stat = (mount.folder / large[1]).stat()
            assert (stat.st_size, stat.st_mode & 0o777) == (len(files[large[1]]), 0o444)
            assert abs(stat.st_mtime - time.time()) < 3600
            assert (mount.folder / "large").stat().st_mode & 0o777 == 0o555
            with pytest.raises(FileNotFoundError):
                (mount.folder / "none").stat()
            assert mount.end() == 0
            assert not is_mount(mount.folder)


def test_a_local_folder_shows_links_permissions_and_any_name(folder, tmp_path):
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
        denied = subprocess.run([*drop, "cat", str(at / "secret")], capture_output=True, text=True, timeout=20)
        assert "Permission denied" in denied.stderr
        may = subprocess.run([*drop, "cat", str(at / "below" / "file")], capture_output=True, text=True, timeout=20)
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


def test_several_sources_and_files_of_a_web_server(bucket, folder, files, s3, tmp_path):
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

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    web = f"http://127.0.0.1:{server.server_port}"
    with mounted(tmp_path / "mnt", f"far={bucket}", f"near={folder}", f"web={web}/large/{{0,1}}.bin", **s3) as mount:
        at = mount.folder
        assert sorted(os.listdir(at)) == ["far", "near", "web"]
        same(at / "far", folder)
        same(at / "near", folder)
        same(at / "web", folder / "large")
        read_anyhow(at / "web" / "1.bin", files["large/1.bin"], 3)
    server.shutdown()
    server.server_close()


def test_a_mount_and_a_pipeline_share_pages_and_inodes_stay(moto, bucket, files, tmp_path):
    with FaultProxy(moto, none, every=1 << 60) as proxy:
        settings = {**credentials(proxy.url), "FOREBAY_CACHE": str(tmp_path / "cache")}
        # A process has one cache, and this one may have opened another.
        pipeline = f"import forebay as fb; print(len(list(fb.from_files('{bucket}/small/*.bin'))))"
        env = {**os.environ, **settings}
        rows = subprocess.run([sys.executable, "-c", pipeline], env=env, check=True, capture_output=True, text=True)
        assert int(rows.stdout) == 60
        assert proxy.bytes >= sum(len(body) for name, body in files.items() if name.startswith("small/"))
        numbers = []
        fetched = 0
        for _ in range(2):
            with mounted(tmp_path / "mnt", bucket, **settings) as mount:
                for name, body in files.items():
                    assert (mount.folder / name).read_bytes() == body
                numbers.append([(mount.folder / name).stat().st_ino for name in files])
                assert mount.end() == 0
            if fetched:
                assert proxy.bytes == fetched, "all pages are there"
            fetched = proxy.bytes
        assert fetched <= sum(map(len, files.values())), "a page is fetched once"
        assert numbers[0] == numbers[1]
        assert len(set(numbers[0])) == len(files)


def test_a_killed_mount_is_mounted_again(bucket, folder, files, s3, tmp_path):
    at = tmp_path / "mnt"
    with mounted(at, bucket, FOREBAY_CACHE=tmp_path / "cache", **s3) as mount:
        body = files["large/1.bin"]
        with (at / "large/1.bin").open("rb", buffering=0) as file:
            assert file.read(5000) == body[:5000]
            mount.end(signal.SIGKILL)
            with fails(errno.ENOTCONN):
                os.listdir(at)
            with mounted(at, bucket, FOREBAY_CACHE=tmp_path / "cache", **s3) as again:
                again.log("a mount whose process ended is taken away")
                same(at, folder)
                code, said = refused(at, bucket, **s3)
                assert code == 1
                assert f"this folder is a mount already, of {bucket}" in said
                # An end from outside ends the process.
                subprocess.run(["umount", str(at)], check=True)
                assert again.ended() == 0
            with fails(errno.ENOTCONN, errno.EIO):
                os.pread(file.fileno(), 5000, 5 * PAGE // 2)
    assert not is_mount(at)


def test_an_object_that_changes_is_never_mixed(moto, s3, tmp_path):
    put(moto, "changing")
    old, new = b"1" * (4 * PAGE), b"2" * (4 * PAGE)
    put(moto, "changing/x", old)
    with mounted(tmp_path / "mnt", "s3://changing", "--refresh", 3600, **s3) as mount:
        path = mount.folder / "x"
        with path.open("rb", buffering=0) as file:
            assert os.pread(file.fileno(), 4096, 3 * PAGE) == old[:4096]
            number = path.stat().st_ino
            put(moto, "changing/x", new)
            with fails(errno.EIO):
                os.pread(file.fileno(), 4096, PAGE)
            mount.log("s3://changing/x, was 4194304 bytes")
            # Who opens it now gets the new one, though the list is not too old.
            with path.open("rb", buffering=0) as fresh:
                assert fresh.read() == new
                assert os.fstat(fresh.fileno()).st_ino != number
            with fails(errno.EIO):
                os.pread(file.fileno(), 4096, 0)
            assert os.pread(file.fileno(), 4096, 3 * PAGE) == old[:4096], "what the system had read"
        local = tmp_path / "source"
        local.mkdir()
    (local / "x").write_bytes(old)
    with mounted(tmp_path / "mnt", local) as mount, (mount.folder / "x").open("rb", buffering=0) as file:
        assert os.pread(file.fileno(), 4096, 3 * PAGE) == old[:4096]
        (local / "x").write_bytes(new)
        with fails(errno.EIO):
            os.pread(file.fileno(), 4096, PAGE)
        mount.log("this file changed since it was opened")
        assert (mount.folder / "x").read_bytes() == new


def test_a_store_that_fails_is_read_all_the_same_and_one_that_is_gone_is_an_error(
    moto, bucket, folder, files, tmp_path
):
    faults = {name: FAULTS[name] for name in ("503 with retry-after", "reset_in_the_body", "cut", "other_range")}
    turn = iter(range(1 << 30))

    def any_of_them(client, answer):
        list(faults.values())[next(turn) % len(faults)](client, answer)

    with (
        FaultProxy(moto, any_of_them, every=4) as proxy,
        mounted(tmp_path / "mnt", bucket, **credentials(proxy.url)) as mount,
    ):
        same(mount.folder, folder)
        read_anyhow(mount.folder / "large/0.bin", files["large/0.bin"], 5)
        assert proxy.faults >= 8
    gone = threading.Event()
    settings = {"FOREBAY_STORE_TIMEOUT": 1, "FOREBAY_STORE_PATIENCE": 1}
    with (
        FaultProxy(moto, reset_at_once, every=1, only=lambda *_: gone.is_set()) as proxy,
        mounted(tmp_path / "mnt", bucket, **settings, **credentials(proxy.url)) as mount,
        (mount.folder / "large/1.bin").open("rb", buffering=0) as file,
    ):
        body = files["large/1.bin"]
        # Far enough from the start that it is no part of a run: nothing else is read ahead.
        assert os.pread(file.fileno(), 100, 3 * PAGE) == body[3 * PAGE : 3 * PAGE + 100]
        gone.set()
        with fails(errno.EIO):
            os.pread(file.fileno(), 100, 0)
        mount.log("large/1.bin")
        gone.clear()
        assert file.read() == body, "it is back"


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
            assert [process.communicate(timeout=60)[0] for process in both] == [f"{count}\n"] * 2
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


def test_a_prefetch_fills_the_cache_and_tells_its_progress(moto, bucket, folder, files, tmp_path):
    lost, size = "small/007.bin", sum(map(len, files.values()))
    is_lost = threading.Event()
    is_lost.set()

    def only(method: str, answer: Answer) -> bool:
        return is_lost.is_set() and method == "GET" and answer.body == files[lost]

    def status(at: Path) -> str:
        return run("mount", "--status", at).stdout.strip()

    settings = {"FOREBAY_STORE_TIMEOUT": 1, "FOREBAY_STORE_PATIENCE": 1}
    options = (bucket, "--prefetch", "--cache", tmp_path / "cache")
    with FaultProxy(moto, reset_at_once, every=1, only=only) as proxy:
        settings |= credentials(proxy.url)
        with mounted(tmp_path / "mnt", *options, **settings) as mount:
            until(lambda: status(mount.folder).startswith("prefetch done"), f"{status(mount.folder)} {mount.said}")
            assert f" {len(files) - 1} of {len(files)} files, " in status(mount.folder)
            assert status(mount.folder).endswith(", 1 failed: see the log")
            mount.log(lost)
        # The next process reads what is missing, and no more.
        is_lost.clear()
        before = proxy.bytes
        with mounted(tmp_path / "mnt", *options, **settings) as mount:
            until(lambda: status(mount.folder).startswith("prefetch done"), f"{status(mount.folder)} {mount.said}")
            assert proxy.bytes - before == len(files[lost])
            assert f": {len(files)} of {len(files)} files, " in status(mount.folder)
            same(mount.folder, folder)
            assert proxy.bytes - before == len(files[lost]), "reads find all of it in the cache"
        # The cache folder has room for a part of it: the prefetch reads no more than that.
        small = (bucket, "--prefetch", "--cache", tmp_path / "small", "--cache-disk", size // 2)
        with mounted(tmp_path / "mnt", *small, **settings) as mount:
            until(lambda: status(mount.folder).startswith("prefetch full"), f"{status(mount.folder)} {mount.said}")
            same(mount.folder, folder)
        with mounted(tmp_path / "mnt", bucket, **settings) as mount:
            assert status(mount.folder).startswith("no prefetch")
    assert "is in no mount of Forebay" in run("mount", "--status", tmp_path).stderr
    code, said = refused(tmp_path / "mnt", bucket, "--prefetch", **credentials(moto))
    assert code == 1, said
    assert "--cache FOLDER" in said


def test_a_mount_that_cannot_be_says_why(bucket, s3, tmp_path):
    at = tmp_path / "mnt"
    assert refused(at, bucket, **s3)[1].startswith("error: the folder for the mount does not exist")
    at.mkdir()
    reasons = (
        ("s3://mounted/none", 4, "there is nothing here"),
        ("s3://none", 4, "s3://none"),
        (str(tmp_path / "none"), 4, "there is no such file"),
        ("http://127.0.0.1:1/", 1, "an http server cannot list files"),
        ("ftp://host/x", 1, "not an address that can be read"),
        (str(tmp_path), 1, "the mount would lie in its own source"),
    )

    def check(number: int) -> None:
        own = tmp_path / f"mnt-{number}"
        own.mkdir()
        source, code, why = reasons[number]
        found, said = refused(own, source, **s3)
        assert found == code, said
        assert why in said, said
        assert not is_mount(own)

    with ThreadPoolExecutor(len(reasons)) as threads:
        list(threads.map(check, range(len(reasons))))
    assert refused(at, "s3://a", "/b")[0] == 2
    (at / "file").touch()
    assert "is not empty" in refused(at, bucket, **s3)[1]
    (at / "file").unlink()
    # A dead mount of another file system is left alone.
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,subtype=other"
    script = (
        "import ctypes, sys; mount = ctypes.CDLL(None).mount; "
        "sys.exit(mount(b'x', sys.argv[1].encode(), b'fuse', 0, sys.argv[2].encode()))"
    )
    subprocess.run([sys.executable, "-c", script, str(at), options], check=True, pass_fds=[device])
    os.close(device)
    try:
        code, said = refused(at, bucket, **s3)
        assert code == 1
        assert "no mount of Forebay (fuse.other)" in said
        assert is_mount(at)
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def test_in_the_background_it_returns_when_it_is_ready(folder, tmp_path):
    at = tmp_path / "mnt"
    at.mkdir()
    command = [sys.executable, "-m", "forebay", "mount", str(folder), str(at), "--background"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=30)
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
        [*command[:4], str(tmp_path / "none"), *command[5:]], capture_output=True, text=True, timeout=30
    )
    assert failed.returncode == 4
    assert "there is no such file" in failed.stderr
