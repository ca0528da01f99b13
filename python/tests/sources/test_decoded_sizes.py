"""Small files that expand to gigabytes: refused before memory is allocated, with the size and the way to allow it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import forebay as fb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

#: Twice the limit of a column (a step of decoding, and its target), and the memory of a process.
MEMORY = 2500 << 20


def one_value(path: Path, value: pa.Scalar, rows: int, **options: object) -> Path:
    """Writes one value many times, as an array that names it once."""
    one = min(1000, (100 << 20) // len(value.as_py()))
    column = pa.DictionaryArray.from_arrays(pa.array([0] * one, pa.int32()), pa.array([value.as_py()], value.type))
    table = pa.table({"a": pa.chunked_array([column] * (rows // one))})
    pq.write_table(table, path, row_group_size=rows, compression="zstd", store_schema=False, **options)
    assert path.stat().st_size < 200_000
    return path


READ = """
import re, sys
import forebay as fb
ds = fb.from_parquet(sys.argv[1])
order = ds.shuffle() if sys.argv[2] == "shuffled" else ds
try:
    print(sum(1 for _ in order.batch(1000).iter(threads=1)))
except fb.errors.ExhaustedError as e:
    print(e.message, e.context["file"], e.context["row group"], e.hint)
# ru_maxrss would count what the process that started this one takes, too.
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024)
"""


@pytest.fixture(scope="module", params=["of one length", "texts", "prefixes"])
def expands(request, tmp_path_factory) -> Path:
    """A small file of two gigabytes of values."""
    kind = request.param
    value, rows = (pa.scalar("x" * 100_000), 20_000)
    options = {}
    if kind == "of one length":
        value, rows = (pa.scalar(b"x" * 4000, pa.binary(4000)), 400_000)
    if kind == "prefixes":
        value, rows = (pa.scalar("x" * 5_000_000), 1000)
        options = {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}
    return one_value(tmp_path_factory.mktemp("expands") / "a.parquet", value, rows, **options)


@pytest.mark.parametrize("shuffled", ["shuffled", "in order"])
def test_a_small_parquet_file_does_not_take_gigabytes(expands, shuffled):
    said = subprocess.run([sys.executable, "-c", READ, expands, shuffled], capture_output=True, text=True, check=True)
    *told, memory = said.stdout.splitlines()
    for part in ("more than the limit of 1073741824", f"{expands} 0", "FOREBAY_GROUP_BYTES_MAX"):
        assert part in told[0], told
    assert int(memory) < MEMORY, f"{int(memory) >> 20} MiB"


def test_texts_that_are_much_longer_than_the_others_are_read_in_steps(tmp_path):
    rows = ["y" * 3_000_000] + ["x"] * 30_000
    pq.write_table(pa.table({"a": rows}), tmp_path / "a.parquet", dictionary_pagesize_limit=1 << 23)
    got = [row["a"] for row in fb.from_parquet(tmp_path / "a.parquet")]
    assert got == rows
