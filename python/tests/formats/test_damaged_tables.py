"""A damaged Arrow or Parquet file is one typed error that names it, and loses no row in silence."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forebay import errors as E

ROWS = 300


def numbers() -> pa.Table:
    return pa.table({"a": np.random.default_rng(0).integers(0, 2**40, ROWS)})


def mixed() -> pa.Table:
    lists = [list(range(n % 4)) for n in range(ROWS)]
    return numbers().append_column("text", [[str(n) for n in range(ROWS)]]).append_column("l", [lists])


def write(path: Path, table: pa.Table) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=100)
        return
    new = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
    with new(str(path), table.schema) as writer:
        writer.write_table(table, 100)


def read(path: Path) -> int:
    return sum(1 for _ in (fb.from_parquet if path.suffix == ".parquet" else fb.from_arrow)(path))


@pytest.mark.parametrize("name", ["n.parquet", "n.arrow", "n.arrows", "m.parquet", "m.arrow", "m.arrows"])
def test_no_damage_loses_rows_in_silence(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, numbers() if name[0] == "n" else mixed())
    whole = path.read_bytes()
    assert read(path) == ROWS
    rng = random.Random(name)

    def cut(data: bytearray) -> None:
        del data[rng.randrange(len(data)) :]

    def zeros(data: bytearray) -> None:
        # Most structure of a file is at its beginning and at its end.
        at = rng.choice([rng.randrange(600), rng.randrange(len(data) - 8), len(data) - 9 - rng.randrange(600)])
        data[at : at + rng.choice([1, 4, 8])] = bytes(8)[: rng.choice([1, 4, 8])]

    def flips(data: bytearray) -> None:
        for _ in range(rng.choice([1, 3, 30])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)

    damages: list[Callable[[bytearray], None]] = [cut, zeros, zeros, flips]
    for _ in range(250):
        data = bytearray(whole)
        rng.choice(damages)(data)
        path.write_bytes(data)
        refused: E.ForebayError | None = None
        try:
            assert read(path) == ROWS, "rows are missing without an error"
        except (E.DataError, E.ExhaustedError) as error:
            refused = error
        assert refused is None or "file" in refused.context or "sample" in refused.context, refused


def test_a_damaged_file_prints_no_panic(tmp_path: Path) -> None:
    script = """
import random, sys, forebay as fb
path, rng = sys.argv[1], random.Random(1)
whole = open(path, "rb").read()
for _ in range(150):
    data = bytearray(whole)
    for _ in range(rng.choice([1, 30])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    open(path, "wb").write(data)
    try:
        sum(1 for _ in (fb.from_parquet if path.endswith("parquet") else fb.from_arrow)(path))
    except fb.errors.ForebayError:
        pass
"""
    for name in ("m.parquet", "m.arrow"):
        write(tmp_path / name, mixed())
        ran = subprocess.run([sys.executable, "-c", script, str(tmp_path / name)], capture_output=True, check=True)
        assert ran.stderr == b""


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_page_that_differs_from_its_checksum_is_an_error(tmp_path, version, compression):
    path, texts = tmp_path / "a.parquet", [f"t{number:05d}" for number in range(1000)]
    table = pa.table({"s": texts})
    options = {"use_dictionary": False, "write_statistics": False, "write_page_checksum": True}
    pq.write_table(table, path, compression=compression, data_page_version=version, **options)
    whole = path.read_bytes()
    kept = ["".join(row["s"]) for row in fb.from_parquet(path)]
    assert kept == texts
    for at in range(len(whole) // 4, len(whole) // 2, 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        ds = fb.from_parquet(path)
        for each in (ds, ds.shuffle(), ds.filter(fb.col("s") != "")):
            with pytest.raises(E.DataError) as caught:
                list(each.iter(seed=1))
            assert caught.value.context["file"].endswith("a.parquet")
