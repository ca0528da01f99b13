"""Fixtures: real files, written by the libraries that users use."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from buckets import credentials, put, s3_server
from pictures import encoded, picture


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory: pytest.TempPathFactory):
    """Keeps indexes in a folder of this run, not in the user's folder."""
    patch = pytest.MonkeyPatch()
    patch.setenv("FOREBAY_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def service() -> Iterator[fb.Service]:
    """Two workers of one thread, for all tests of a file."""
    with fb.up(workers=2, threads=1) as service:
        yield service


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Any]:
    """Starts dispatchers and workers as processes of their own."""
    from secured import Fleet

    with contextlib.closing(Fleet(tmp_path)) as fleet:
        yield fleet


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """The address of an S3 server."""
    with s3_server() as server:
        yield server.url


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of classes; JPEG, PNG and WebP of different sizes."""
    root = tmp_path_factory.mktemp("images")
    for label, name in enumerate(["bird", "cat", "dog"]):
        (root / name).mkdir()
        for i in range(5):
            pixels = picture(label * 5 + i, 20 + i, 30 + label)
            kind, suffix = [("JPEG", "jpg"), ("PNG", "png"), ("WEBP", "webp")][i % 3]
            (root / name / f"{i}.{suffix}").write_bytes(encoded(pixels, kind))
    return root


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """WebDataset shards written by tarfile: 60 samples in 3 shards, members png, cls and json."""
    root = tmp_path_factory.mktemp("shards")
    for shard in range(3):
        with tarfile.open(root / f"train-{shard:03}.tar", "w") as tar:
            for i in range(20):
                n = shard * 20 + i
                members = {
                    "png": encoded(picture(n, 16, 16), "PNG"),
                    "cls": str(n % 10).encode(),
                    "json": json.dumps({"n": n}).encode(),
                }
                for extension, data in members.items():
                    member = tarfile.TarInfo(f"{n:04}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return root


@pytest.fixture(scope="session")
def table() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "i": pa.array(np.arange(500), pa.int32()),
            "x": pa.array(rng.standard_normal(500), pa.float64()),
            "flag": pa.array(np.arange(500) % 3 == 0),
            "name": pa.array([f"row {i}" for i in range(500)]),
            "raw": pa.array([bytes([i % 256] * (i % 7)) for i in range(500)], pa.binary()),
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(1500), pa.float32()), 3),
        }
    )


@pytest.fixture(scope="session")
def parquet(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> Path:
    root = tmp_path_factory.mktemp("parquet")
    pq.write_table(table.slice(0, 300), root / "a.parquet", row_group_size=90)
    pq.write_table(table.slice(300), root / "b.parquet", row_group_size=64, compression="zstd")
    return root


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Waits for a condition, with a deadline; the pause only saves CPU time."""

    def wait(condition: Callable[[], bool], seconds: float = 90.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come about in time"
            time.sleep(0.01)

    return wait


@pytest.fixture(scope="session")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real Kubernetes control plane with the operator; `make kubernetes` finds or builds both."""
    program, programs = os.environ.get("FOREBAY_OPERATOR"), os.environ.get("FOREBAY_KUBE_APISERVER")
    if not program or not programs:
        pytest.skip("no kube-apiserver: `make kubernetes` finds or builds one, or says why not")
    from kubernetes_world import Operated

    found = Operated(Path(programs), program, tmp_path_factory.mktemp("cluster"))
    try:
        found.start()
        yield found
    finally:
        found.close()


@pytest.fixture
def world(operated: Any) -> Any:
    """A namespace of its own in the cluster of `operated`."""
    from kubernetes_world import World

    operated.fluid.percent, operated.fluid.holds = "100.0%", set()
    operated.namespaces += 1
    return World(operated.cluster, operated.fluid, operated.operator, f"ns-{operated.namespaces}")


@pytest.fixture(scope="session")
def mount_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the files that mounts show."""
    from mounts import FILES

    root = tmp_path_factory.mktemp("files")
    for name, body in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(body)
    return root


@pytest.fixture(scope="session")
def mount_bucket(moto: str) -> str:
    """A prefix of a bucket with these files."""
    from mounts import FILES

    put(moto, "mounted")
    for name, body in FILES.items():
        put(moto, f"mounted/train/{urllib.parse.quote(name)}", body)
    return "s3://mounted/train"


@pytest.fixture
def s3(moto: str) -> dict[str, str]:
    """Settings for the S3 server."""
    return credentials(moto)
