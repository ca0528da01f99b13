"""The rows of cache() on disk: another process finds them, and the stream is the same after any damage."""

from __future__ import annotations

from pathlib import Path

import forebay as fb
import pyarrow as pa
import pytest
from keeping import LITTLE, ROWS, blocks, calls, epochs, heavy, plain, run, stream
from pipelines import fingerprint, name


def test_another_process_with_the_folder_computes_nothing_again(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "kept"
    want = plain(tmp_path / "plain", 2)
    assert epochs(log, 2, FOREBAY_CACHE=str(folder)) == want
    assert set(calls(log)) == {*range(ROWS)}
    log.unlink()
    assert epochs(log, 2, FOREBAY_CACHE=str(folder), **LITTLE) == want
    assert not log.exists()
    table = pa.ipc.open_file(blocks(folder)[0]).read_all()
    assert {"id", "x"} <= set(table.column_names), "any Arrow library reads a block"


def test_a_flipped_bit_costs_time_and_no_truth(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "kept"
    want = plain(tmp_path / "plain")
    epochs(log, FOREBAY_CACHE=str(folder))
    for place in (0.2, 0.5, 0.8):
        for block in blocks(folder):
            with open(block, "r+b") as file:
                at = int(block.stat().st_size * place)
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 16]))
        log.unlink(missing_ok=True)
        assert epochs(log, FOREBAY_CACHE=str(folder), **LITTLE) == want
        assert calls(log), "what was damaged is computed again"


def test_blocks_that_are_deleted_while_they_are_read(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "kept"
    epochs(log, FOREBAY_CACHE=str(folder))
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from pathlib import Path
        from keeping import blocks, digest, heavy

        def deleting(batches):
            for i, batch in enumerate(batches):
                if i == 9:
                    [block.unlink() for block in blocks(Path({str(folder)!r}))]
                yield batch

        print(digest(deleting(heavy(Path({str(log)!r})).iter(seed=1, epochs=2))))
    """
    assert run(script, FOREBAY_CACHE=str(folder), **LITTLE).split()[-1] == plain(tmp_path / "plain", 2)


def test_a_worker_that_is_killed_while_it_keeps_rows(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "kept"
    ds = heavy(log)
    want = stream(ds.iter(seed=1, epochs=3))
    for _ in range(2):
        with fb.up(workers=2, threads=1, cache=folder, cache_memory="64KiB", cache_disk="1GiB") as pair:
            got = []
            for i, batch in enumerate(ds.distribute(pair, job=name(), seed=1, epochs=3)):
                got.append(fingerprint(batch))
                if i % 25 == 12:
                    pair.kill_worker(0)
                    pair.add_worker()
            assert got == want
    with fb.up(workers=1, cache=folder, cache_memory="64KiB") as one:
        assert stream(ds.distribute(one, job=name(), seed=1, epochs=3)) == want
    assert not list(folder.rglob("*.tmp")), "no process left half a block behind"


def test_a_cache_smaller_than_the_data_finds_what_fits(tmp_path):
    want = plain(tmp_path / "plain", 3)
    log = tmp_path / "log"
    all_calls = sum(calls(tmp_path / "plain").values())
    half = ROWS * 4096 // 2
    assert epochs(log, 3, FOREBAY_CACHE="", FOREBAY_CACHE_MEMORY=str(half)) == want
    share = sum(calls(log).values()) / all_calls
    assert 1 / 3 < share < 0.8, f"one epoch in full, and of each other one about half: {share:.2f} of all calls"


@pytest.mark.parametrize(
    "settings",
    [{"FOREBAY_CACHE_DISK": "100"}, {"FOREBAY_CACHE_DISK": "0"}, {"FOREBAY_CACHE_MEMORY": "1"}],
    ids=lambda settings: "-".join(*settings.items()),
)
def test_a_quota_below_one_block_keeps_little_and_fails_nothing(settings, tmp_path):
    folder = tmp_path / "kept"
    assert epochs(tmp_path / "log", 2, FOREBAY_CACHE=str(folder), **settings) == plain(tmp_path / "plain", 2)


def test_a_folder_that_cannot_be_used_is_a_warning(tmp_path, capfd):
    (tmp_path / "file").write_text("in the way")
    folder = str(tmp_path / "file" / "kept")
    script = """
        import warnings
        import forebay as fb
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            ids = [sorted(int(row["id"]) for row in fb.range(5).cache().shuffle().iter(seed=s)) for s in range(2)]
        print(ids, len(told), told[0].message)
    """
    said = run(script, FOREBAY_CACHE=folder)
    assert said.startswith("[[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]] 1 ")
    assert "nothing is kept on disk" in said
    with fb.up(workers=1, cache=folder) as one:
        assert len(list(fb.range(5).cache().distribute(one, job=name()))) == 5
    assert "nothing is kept on disk" in capfd.readouterr().err
