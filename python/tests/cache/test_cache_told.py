"""A process's warnings about its cache: once, at the user's own line, with the cause; the stream is the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keeping import run

#: Some MiB of rows, which are read twice; then the warnings are printed.
SCRIPT = """
    import json, os, resource, sys, warnings
    import forebay as fb, numpy as np, forebay._native
    {before}
    rows = fb.range(200).map(lambda row: {{"x": np.full(20_000, row["id"] % 251, np.uint8)}}).cache().shuffle().batch(8)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        it = rows.iter(seed=1, epochs=2)
        total = sum(int(batch["x"][:, 0].sum()) for batch in it)
        forebay._native.flush_cache()
        {after}
    stats = it.stats()["cache"]["rows"]
    print(json.dumps([total, [[str(w.message), w.filename] for w in told], stats["disk"], stats["store"]]))
"""
TOTAL = 2 * sum(i % 251 for i in range(200))


def told(before: str = "", after: str = "", **variables: str) -> tuple[list[Any], Any, Any]:
    variables = {"FOREBAY_CACHE_MEMORY": "0", **variables}
    total, warned, disk, store = json.loads(
        run(SCRIPT.format(before=before, after=after), **variables).splitlines()[-1]
    )
    assert total == TOTAL
    assert {file for _, file in warned} <= {"<string>"}, "the script's own lines"
    return [message for message, _ in warned], disk, store


def test_nothing_is_told_of_a_cache_that_works(tmp_path):
    warned, disk, store = told(FOREBAY_CACHE=str(tmp_path / "kept"))
    assert warned == []
    assert store is None
    assert (disk["not_written"], disk["quota"]) == (None, 32 << 30)
    assert disk["bytes"] > 200 * 20_000


def test_a_disk_that_takes_no_more_is_told_of_once(tmp_path):
    # No file may grow beyond this size, as on a full disk.
    before = "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    warned, disk, _ = told(before, FOREBAY_CACHE=str(tmp_path / "kept"))
    assert len(warned) == 1
    assert "not kept in the cache's folder" in warned[0]
    assert "File too large" in warned[0]
    assert "File too large" in disk["not_written"]


def test_a_store_that_takes_nothing_is_told_of_once(tmp_path):
    (tmp_path / "file").write_text("in the way")
    url = f"file://{tmp_path}/file/kept"
    warned, _, store = told(FOREBAY_CACHE=url)
    assert len(warned) == 1
    assert f"not kept in the cache's store {url}" in warned[0]
    assert store["not_written"]


def test_settings_that_come_too_late_are_told_of_once(tmp_path):
    late = str(tmp_path / "late")
    after = f"os.environ['FOREBAY_CACHE'] = {late!r}; [list(rows.iter(seed=1, epoch=0)) for _ in range(2)]"
    warned, _, _ = told(after=after, FOREBAY_CACHE="")
    assert len(warned) == 1
    assert "too late" in warned[0]
    assert "kept in: memory alone" in warned[0]
    assert f"set to: {late}" in warned[0]
    assert not Path(late).exists()


def test_a_quota_far_below_what_is_there_is_told_of(tmp_path):
    kept = str(tmp_path / "kept")
    told(FOREBAY_CACHE=kept)
    warned, _, _ = told(FOREBAY_CACHE=kept, FOREBAY_CACHE_DISK="1MiB")
    assert len(warned) == 1
    assert "bytes were removed from the cache's folder, which may hold 1048576" in warned[0]
