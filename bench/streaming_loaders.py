"""The same samples in the format of each streaming loader, and an epoch of each, for `bench/streaming.py`.

A loader is used as its documentation recommends, with shuffling on and its own defaults:

| loader | format | shuffle |
|---|---|---|
| `plain` | tar shards of 100 MB | none (Forebay) |
| `auto`, or a window as `256MiB` | the same | `shuffle()`, `shuffle(window="256MiB")` (Forebay) |
| `webdataset` | the same | `shardshuffle=1000`, `.shuffle(1000)` |
| `mosaicml` | MDS shards of 64 MiB, the default | `shuffle=True` (`py1e`), `batch_size` given |
| `litdata` | chunks of 64 MB | `StreamingDataset(shuffle=True)` in a `StreamingDataLoader` |
| `hf` | Parquet files of 100 MB, row groups of 100 rows, as the Hub keeps pictures | `.shuffle(buffer_size=10_000)` |
| `hf-tar` | the tar shards | the same |

`mosaicml:2` reads with two processes of a `DataLoader` (`webdataset:2`: of a `WebLoader`), as training scripts do;
without a number all is read in one process.

MosaicML Streaming and LitData have no client for plain HTTP. They read `s3://` through their own S3 clients, whose
endpoint is the same nginx: a bucket is a folder, and it answers GET and HEAD of an object as a store does, without
checking signatures. Both keep a copy of the data on the local disk, which is empty when a run begins.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

# This folder has a module with the name of MosaicML's package.
sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

BATCH = 64
#: Samples of a tar shard.
SAMPLES = 900
Batches = Iterator[list[int]]


def samples(shard: int) -> Iterator[tuple[int, memoryview, int]]:
    """Yields key, bytes and class of each sample of a shard: random bytes of 60 to 170 kB."""
    rng = np.random.default_rng((1, shard))
    sizes, places = rng.integers(60_000, 170_000, SAMPLES), rng.integers(0, 60 << 20, SAMPLES)
    for i, (size, at) in enumerate(zip(sizes.tolist(), places.tolist(), strict=True)):
        yield shard * SAMPLES + i, _pool()[at : at + size], shard


def sizes(shard: int) -> int:
    """Returns the bytes of all samples of a shard."""
    return int(np.random.default_rng((1, shard)).integers(60_000, 170_000, SAMPLES).sum())


def _pool() -> memoryview:
    if not _POOL:
        _POOL.append(memoryview(np.random.default_rng(0).bytes(64 << 20)))
    return _POOL[0]


_POOL: list[memoryview] = []


def make_tar(folder: Path, shards: int) -> None:
    """Writes tar shards."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        path = folder / f"train-{shard:05}.tar"
        if path.exists():
            continue
        with path.with_suffix(".part").open("wb") as file:
            for key, picture, label in samples(shard):
                for suffix, data in (("cls", str(label).encode()), ("jpg", picture)):
                    info = tarfile.TarInfo(f"{key:08}.{suffix}")
                    info.size = len(data)
                    file.write(info.tobuf(tarfile.USTAR_FORMAT))
                    file.write(data)
                    file.write(b"\0" * (-len(data) % 512))
            file.write(b"\0" * 1024)
        path.with_suffix(".part").rename(path)


def make_mds(folder: Path, shards: int) -> None:
    """Writes MDS shards of the default size."""
    from streaming import MDSWriter

    if (folder / "index.json").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    with MDSWriter(out=str(folder), columns={"key": "int", "jpg": "bytes", "cls": "int"}) as writer:
        for shard in range(shards):
            for key, picture, label in samples(shard):
                writer.write({"key": key, "jpg": bytes(picture), "cls": label})


def make_litdata(folder: Path, shards: int) -> None:
    """Writes chunks of 64 MB."""
    from litdata.streaming.writer import BinaryWriter

    if (folder / "index.json").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    writer, place = BinaryWriter(str(folder), chunk_bytes="64MB"), 0
    for shard in range(shards):
        for key, picture, label in samples(shard):
            writer.add_item(place, {"key": key, "jpg": bytes(picture), "cls": label})
            place += 1
    writer.done()
    writer.merge()


def make_parquet(folder: Path, shards: int) -> None:
    """Writes Parquet files of 100 MB in row groups of 100 rows; pictures do not shrink, so they are not compressed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        path = folder / f"train-{shard:05}.parquet"
        if path.exists():
            continue
        rows = [(key, bytes(picture), label) for key, picture, label in samples(shard)]
        table = pa.table(dict(zip(("key", "jpg", "cls"), map(list, zip(*rows, strict=True)), strict=True)))
        pq.write_table(table, path.with_suffix(".part"), row_group_size=100, compression="none")
        path.with_suffix(".part").rename(path)


#: The folder below the server's, and its writer.
FORMATS: dict[str, Callable[[Path, int], None]] = {
    "tar": make_tar,
    "mds": make_mds,
    "litdata": make_litdata,
    "parquet": make_parquet,
}


def format_of(loader: str) -> str:
    """Returns the folder that a loader reads."""
    name = loader.partition(":")[0]
    return {"mosaicml": "mds", "litdata": "litdata", "hf": "parquet"}.get(name, "tar")


@dataclass(frozen=True)
class Run:
    """The run of a loader: its name, the server, the number of tar shards, an empty folder, and its processes."""

    name: str
    url: str
    shards: int
    cache: Path
    workers: int


def forebay(run: Run) -> Batches:
    """Returns batches of Forebay."""
    import forebay as fb

    ds = fb.from_tar(f"{run.url}/tar/train-{{00000..{run.shards - 1:05}}}.tar")
    ds = ds if run.name == "plain" else ds.shuffle() if run.name == "auto" else ds.shuffle(window=run.name)
    ds = ds.batch(BATCH)
    return ([int(key) for key in batch["__key__"]] for batch in ds.iter(seed=3))


def webdataset(run: Run) -> Batches:
    """Returns batches of WebDataset, with a shuffle of shards and a buffer of 1,000 samples."""
    import webdataset as wds

    urls = f"{run.url}/tar/train-{{00000..{run.shards - 1:05}}}.tar"
    rows = wds.WebDataset(urls, shardshuffle=1000, empty_check=False, seed=3).shuffle(1000)
    rows = rows.to_tuple("__key__", "jpg", "cls").batched(BATCH, collation_fn=_columns)
    batches = wds.WebLoader(rows, batch_size=None, num_workers=run.workers) if run.workers else rows
    return ([int(key) for key in keys] for keys, *_ in batches)


def _columns(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True))


def _keys(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Returns a batch of columns; bytes stay bytes, which torch's own function would refuse."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def mosaicml(run: Run) -> Batches:
    """Returns batches of MosaicML Streaming."""
    import torch
    from streaming import StreamingDataset

    os.environ["S3_ENDPOINT_URL"] = run.url
    rows = StreamingDataset(remote="s3://mds", local=str(run.cache), shuffle=True, shuffle_seed=3, batch_size=BATCH)
    for stream in rows.streams:
        # Its client has an open connection, which processes of the loader would share.
        stream._downloader.clean_up()
    batches = torch.utils.data.DataLoader(rows, batch_size=BATCH, num_workers=run.workers, collate_fn=_keys)
    return ([int(key) for key in batch["key"]] for batch in batches)


def litdata(run: Run) -> Batches:
    """Returns batches of LitData."""
    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.streaming import downloader

    # The client that reads its chunks refuses plain HTTP by default.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
    options = {"endpoint_url": run.url, "region_name": "us-east-1"}
    # The size of its copy is explicit, because the default depends on the free space of this disk.
    given: dict[str, Any] = {"max_cache_size": "50GB", "storage_options": options}
    rows = StreamingDataset("s3://litdata", cache_dir=str(run.cache), shuffle=True, seed=3, **given)
    batches = StreamingDataLoader(rows, batch_size=BATCH, num_workers=run.workers, collate_fn=_keys)
    return ([int(key) for key in batch["key"]] for batch in batches)


def huggingface(run: Run) -> Batches:
    """Returns batches of Hugging Face datasets, streamed."""
    import datasets
    import torch

    kind, folder, suffix = (
        ("webdataset", "tar", "tar") if run.name.startswith("hf-tar") else ("parquet", "parquet", "parquet")
    )
    files = [f"{run.url}/{folder}/train-{shard:05}.{suffix}" for shard in range(run.shards)]
    rows = datasets.load_dataset(
        kind, data_files={"train": files}, split="train", streaming=True, cache_dir=str(run.cache)
    )
    if kind == "webdataset":
        rows = rows.decode(False)
    rows = rows.shuffle(seed=3, buffer_size=10_000)
    batches = torch.utils.data.DataLoader(rows, batch_size=BATCH, num_workers=run.workers, collate_fn=_keys)
    name = "__key__" if kind == "webdataset" else "key"
    return ([int(key) for key in batch[name]] for batch in batches)


LOADERS: dict[str, tuple[Callable[[Run], Batches], tuple[str, ...]]] = {
    "webdataset": (webdataset, ("webdataset",)),
    "mosaicml": (mosaicml, ("torch", "streaming")),
    "litdata": (litdata, ("torch", "litdata")),
    "hf": (huggingface, ("torch", "datasets")),
    "hf-tar": (huggingface, ("torch", "datasets")),
}
#: The names of the packages, for their versions.
PACKAGES = ("webdataset", "mosaicml-streaming", "litdata", "datasets", "torch", "pyarrow", "numpy")


def loader(name: str) -> tuple[Callable[[str, int, Path], Batches], tuple[str, ...]]:
    """Returns a loader's reader of an epoch, and the modules that it imports."""
    base, _, workers = name.partition(":")
    read, modules = LOADERS.get(base, (forebay, ("forebay",)))
    return lambda url, shards, cache: read(Run(base, url, shards, cache, int(workers or 0))), modules


def quiet() -> TextIO:
    """Redirects the output of libraries to stderr, and returns the stream for figures."""
    out, sys.stdout = sys.stdout, sys.stderr
    return out
