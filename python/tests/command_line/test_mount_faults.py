"""`forebay mount`: sources that fail or change, and mounts that die or cannot be."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from buckets import credentials, put
from faulty import FAULTS, FaultProxy, reset_at_once
from mounts import FILES, PAGE, can_mount, fails, is_mount, mounted, read_anyhow, refused, same

pytestmark = can_mount


def test_a_killed_mount_is_mounted_again(mount_bucket, mount_folder, s3, tmp_path):
    at = tmp_path / "mnt"
    with mounted(at, mount_bucket, FOREBAY_CACHE=tmp_path / "cache", **s3) as mount:
        body = FILES["large/1.bin"]
        with (at / "large/1.bin").open("rb", buffering=0) as file:
            assert file.read(5000) == body[:5000]
            mount.end(signal.SIGKILL)
            with fails(errno.ENOTCONN):
                os.listdir(at)
            with mounted(at, mount_bucket, FOREBAY_CACHE=tmp_path / "cache", **s3) as again:
                again.log("a mount whose process ended is taken away")
                same(at, mount_folder)
                code, said = refused(at, mount_bucket, **s3)
                assert code == 1
                assert f"this folder is a mount already, of {mount_bucket}" in said
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
    moto, mount_bucket, mount_folder, tmp_path
):
    faults = {name: FAULTS[name] for name in ("503 with retry-after", "reset_in_the_body", "cut", "other_range")}
    turn = iter(range(1 << 30))

    def any_of_them(client, answer):
        list(faults.values())[next(turn) % len(faults)](client, answer)

    with (
        FaultProxy(moto, any_of_them, every=4) as proxy,
        mounted(tmp_path / "mnt", mount_bucket, **credentials(proxy.url)) as mount,
    ):
        same(mount.folder, mount_folder)
        read_anyhow(mount.folder / "large/0.bin", FILES["large/0.bin"], 5)
        assert proxy.faults >= 8
    gone = threading.Event()
    settings = {"FOREBAY_STORE_TIMEOUT": 30, "FOREBAY_STORE_PATIENCE": 1}
    with (
        FaultProxy(moto, reset_at_once, every=1, only=lambda *_: gone.is_set()) as proxy,
        mounted(tmp_path / "mnt", mount_bucket, **settings, **credentials(proxy.url)) as mount,
        (mount.folder / "large/1.bin").open("rb", buffering=0) as file,
    ):
        body = FILES["large/1.bin"]
        # Far enough from the start that it is no part of a run: nothing else is read ahead.
        assert os.pread(file.fileno(), 100, 3 * PAGE) == body[3 * PAGE : 3 * PAGE + 100]
        gone.set()
        with fails(errno.EIO):
            os.pread(file.fileno(), 100, 0)
        mount.log("large/1.bin")
        gone.clear()
        assert file.read() == body, "it is back"


def test_a_mount_that_cannot_be_says_why(mount_bucket, s3, tmp_path):
    at = tmp_path / "mnt"
    assert refused(at, mount_bucket, **s3)[1].startswith("error: the folder for the mount does not exist")
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
    assert "is not empty" in refused(at, mount_bucket, **s3)[1]
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
        code, said = refused(at, mount_bucket, **s3)
        assert code == 1
        assert "no mount of Forebay (fuse.other)" in said
        assert is_mount(at)
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)
