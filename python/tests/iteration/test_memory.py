"""`memory=`: a bound that holds, and that does not change any sample."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipelines import fingerprint

E = fb.errors
MIB = 1 << 20

# Reads everything, and prints the peak memory without the memory of the libraries.
READ = """
import json, sys
import forebay as fb

def peak(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) * 1024

path, memory = sys.argv[1:]
ds = fb.from_parquet(path).shuffle(window=None).batch(256)
next(fb.range(10).batch(2).iter())
before = peak("VmRSS:")
rows = 0
for batch in ds.iter(seed=1, threads=2, memory=memory or None):
    rows += len(batch["id"])
print(json.dumps({"rows": rows, "peak": peak("VmHWM:") - before}))
"""


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Path:
    """Twelve row groups of 24 MiB in memory: 288 MiB."""
    path = tmp_path_factory.mktemp("memory") / "wide.parquet"
    rng, rows = np.random.default_rng(0), 768
    ids = np.arange(12 * rows)
    lists = {f"x{i}": pa.FixedSizeListArray.from_arrays(rng.random(12 * rows * 256), 256) for i in range(16)}
    table = pa.table({"id": ids, **lists})
    pq.write_table(table, path, row_group_size=rows, compression=None, use_dictionary=False)
    return path


def read(path: Path, memory: str) -> dict[str, int]:
    done = subprocess.run([sys.executable, "-c", READ, str(path), memory], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_is_kept_decoded_keeps_to_the_bound(wide):
    little, much = read(wide, "128MiB"), read(wide, "4GiB")
    assert little["rows"] == much["rows"] == 12 * 768
    assert much["peak"] > 280 * MIB, "all row groups fit, and each is decoded once"
    # The memory to decode a row group, on two threads, is in addition to the bound.
    assert little["peak"] < 128 * MIB + 2 * 2 * 24 * MIB


def test_no_sample_depends_on_it(wide):
    ds = fb.from_parquet(wide, columns=["id", "x3"]).shuffle(window=None).batch(100)
    some = [fingerprint(batch) for batch in ds.iter(seed=3)]
    # A bound below one row group.
    assert [fingerprint(batch) for batch in ds.iter(seed=3, memory=1)] == some


def test_a_bound_that_windows_do_not_fit_into_is_refused(wide, monkeypatch):
    ds = fb.from_parquet(wide).shuffle(window="64MiB").batch(10)
    assert "MiB of memory for the windows that are read at once" in ds.explain()
    with pytest.raises(E.InvalidPipelineError, match=r"take about .* MiB, and 100 MiB of memory are allowed") as caught:
        next(ds.iter(memory="100MiB"))
    assert "window=" in caught.value.context["hint"]
    monkeypatch.setenv("FOREBAY_MEMORY", "100MiB")
    with pytest.raises(E.InvalidPipelineError, match="100 MiB of memory are allowed"):
        next(ds.iter())
    assert len(next(ds.iter(memory="300MiB"))["id"]) == 10, "what is said in the call counts"
    monkeypatch.setenv("FOREBAY_MEMORY", "plenty")
    with pytest.raises(E.InvalidPipelineError, match="is no size") as caught:
        next(ds.iter())
    assert caught.value.context["variable"] == "FOREBAY_MEMORY"


def test_on_a_service_the_reader_and_the_workers_have_each_their_own(wide, monkeypatch):
    ds = fb.from_parquet(wide, columns=["id"]).shuffle().batch(64)
    want = [fingerprint(batch) for batch in ds.iter(seed=2)]
    monkeypatch.setenv("FOREBAY_MEMORY", "1")
    with fb.up(workers=2, threads=1, cache_memory="1GiB") as service:
        got = ds.distribute(service, job="little", seed=2, memory=1)
        assert [fingerprint(batch) for batch in got] == want
