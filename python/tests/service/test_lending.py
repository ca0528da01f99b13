"""Chunks of a worker on this machine: their memory is lent, not copied, and returned when it is no longer needed."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import forebay as fb
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is lent on Linux alone")

#: One batch of `numbers` is 1 MiB.
ROWS = 16


@pytest.fixture(scope="module")
def service():
    with fb.up(workers=1, threads=2) as service:
        yield service


def numbers(rows: int) -> fb.Dataset:
    """Returns rows of 64 KiB: too large for a copy to be cheaper."""
    return (
        fb.range(rows)
        .shuffle()
        .map(wide, writes=["x"], schema={"x": ("float32", (16384,))})
        .with_column("x", fb.col("x") + 1)
        .batch(ROWS)
    )


def wide(row):
    return {"x": np.full(16384, row["id"], np.float32)}


def pictures(folder: Path, repeat: int) -> fb.Dataset:
    return (
        fb.from_image_folder(folder)
        .shuffle()
        .repeat(repeat)
        .decode_image("image")
        .random_resized_crop("image", 128)
        .normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD)
        .batch(ROWS)
    )


def read(ds: fb.Dataset, service: fb.Service, **options) -> fb.DatasetIterator:
    return ds.distribute(service, job=f"lend-{uuid.uuid4().hex[:8]}", seed=3, **options).iter()


def lent_bytes() -> int:
    """Returns the memory of the workers' arenas."""
    total = 0
    for worker in worker_pids():
        # A process of a function of an earlier test may end meanwhile.
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{worker}/fd"):
                total += lent_by(Path(f"/proc/{worker}/fd/{fd}"))
    return total


def lent_by(fd: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        if os.readlink(fd).startswith("/memfd:forebay "):
            return os.stat(fd).st_blocks * 512
    return 0


def worker_pids() -> list[int]:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in children]


def test_batches_that_are_kept_stay_as_they_were(service, images):
    """They are more than one stream may borrow, so some are lent and some are copied. None is overwritten."""
    for ds in (numbers(320), pictures(images, 24)):
        there = list(read(ds, service, epochs=2))
        here = list(ds.iter(seed=3, epochs=2))
        assert len(there) == len(here) > 20
        for a, b in zip(there, here, strict=True):
            assert a.keys() == b.keys()
            for name in a:
                np.testing.assert_array_equal(a[name], b[name])
        del there
        gc.collect()


def test_what_is_lent_may_be_written_and_changes_nothing_that_comes_again(service, images):
    ds = pictures(images, 4)
    want = [batch["image"].copy() for batch in ds.iter(seed=3)]
    it = read(ds, service)
    start = it.state_dict()
    for _ in range(3):
        batch = next(it)
        assert batch["image"].flags.writeable
        batch["image"][:] = -1
    it.load_state_dict(start)
    for got, expected in zip(it, want, strict=True):
        np.testing.assert_array_equal(got["image"], expected)


def test_memory_comes_back_and_is_used_again(service):
    ds = numbers(2048)
    gc.collect()
    largest = 0
    for i, batch in enumerate(read(ds, service, epochs=8)):
        assert batch["x"].flags.writeable
        if i % 16 == 0:
            largest = max(largest, lent_bytes())
    assert 0 < largest < 700 << 20, "1 GiB went through, and little of it is in use at any time"


READER = """
    import sys
    import forebay as fb
    sys.path.insert(0, {tests!r})
    from service.test_lending import numbers
    service = fb.connect({address!r})
    kept = []
    for batch in numbers(640).distribute(service, job={job!r}, seed=3).iter():
        kept.append(batch)
        print(len(kept), flush=True)
    input()
"""


def test_a_reader_that_is_killed_gives_back_everything(service):
    """The killed reader held batches. Other readers go on, and get the expected batches."""
    program = READER.format(
        tests=str(Path(__file__).parents[1]), address=service.address, job=f"lend-{uuid.uuid4().hex[:8]}"
    )
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        for line in reader.stdout:
            if int(line) == 20:
                break
        reader.kill()
    ds = numbers(320)
    for a, b in zip(read(ds, service), ds.iter(seed=3), strict=True):
        np.testing.assert_array_equal(a["x"], b["x"])
