"""`forebay cache`: lists and removes the contents of a folder without a service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line.test_cli import forebay
from keeping import ROWS, blocks, calls, epochs, said


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder with the rows of one pipeline."""
    epochs(tmp_path / "log", FOREBAY_CACHE=str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_what_is_kept_is_listed_and_counted(kept):
    [prefix] = said("ls", kept)
    assert (prefix["rows"], prefix["filtered"], prefix["in_use"]) == (ROWS, 0, False)
    assert prefix["bytes"] == sum(block.stat().st_size for block in blocks(kept))
    assert prefix["what"].startswith("map(")
    assert "range" in prefix["what"]
    shown = forebay("cache", "ls", kept).stdout
    assert prefix["prefix"][:12] in shown
    assert prefix["what"] in shown
    stats = said("stats", kept)
    assert (stats["prefixes"], stats["rows"], stats["blocks"]) == (1, ROWS, len(blocks(kept)))
    assert f"{ROWS}" in forebay("cache", "stats", FOREBAY_CACHE=str(kept)).stdout, "the variable names the folder, too"


def test_what_is_evicted_is_gone_and_computed_again(kept, tmp_path):
    [prefix] = said("ls", kept)
    assert forebay("cache", "evict", kept).returncode == 2, "nothing is removed that was not named"
    assert forebay("cache", "evict", kept, "--prefix", "0" * 64).returncode == 4
    assert said("evict", kept, "--prefix", prefix["prefix"][:8])["bytes"] == prefix["bytes"]
    assert said("ls", kept) == []
    assert "nothing is kept" in forebay("cache", "ls", kept).stderr
    (tmp_path / "log").unlink()
    epochs(tmp_path / "log", FOREBAY_CACHE=str(kept))
    assert set(calls(tmp_path / "log")) == {*range(ROWS)}
    assert said("evict", kept, "--all")["prefixes"] == [prefix["prefix"]]
    assert blocks(kept) == []


def test_a_block_that_is_not_what_was_written_is_named(kept):
    right = said("verify", kept)
    assert (right["rows"], right["blocks"], right["bad"]) == (ROWS, len(blocks(kept)), [])
    block = blocks(kept)[0]
    data = bytearray(block.read_bytes())
    data[len(data) // 2] ^= 1
    block.write_bytes(data)
    done = forebay("cache", "verify", kept, "--json")
    [bad] = json.loads(done.stdout)["bad"]
    assert (done.returncode, bad["block"], bad["broken"]) == (5, str(block), True)
    assert "are corrupt" in done.stderr
    assert block.exists(), "it only looks"


def test_blocks_of_another_version_are_told_apart_and_left_alone(kept):
    # The format is the only text in a block that is "1".
    for block in blocks(kept):
        block.write_bytes(block.read_bytes().replace(b"\1\0\0\0" + b"1\0\0\0", b"\1\0\0\0" + b"9\0\0\0"))
    [prefix] = said("ls", kept)
    assert (prefix["rows"], prefix["other_version_blocks"], prefix["unreadable_blocks"]) == (0, len(blocks(kept)), 0)
    assert "of another version" in forebay("cache", "ls", kept).stdout
    bad = said("verify", kept)["bad"]
    assert [found["broken"] for found in bad] == [False] * len(blocks(kept))
    assert "it has format 9" in bad[0]["why"]


@pytest.mark.parametrize("command", ["ls", "stats", "verify", "evict"])
def test_a_folder_that_is_none_or_no_cache_is_said(command, tmp_path):
    which = ["--all"] if command == "evict" else []
    none = forebay("cache", command, tmp_path / "none", *which)
    assert (none.returncode, "--cache" in none.stderr) == (4, True)
    (tmp_path / "thesis.arrow").write_bytes(b"none of ours")
    other = forebay("cache", command, tmp_path, *which)
    assert (other.returncode, "no cache" in other.stderr) == (4, True)
    assert (tmp_path / "thesis.arrow").exists()


SCRIPT = """
from pathlib import Path
import forebay as fb

LOG = Path(__file__).with_name("log")

def cube(row):
    with open(LOG, "a") as file:
        file.write(f"{row['id']}\\n")
    if row["id"] == 7:
        raise fb.SkipSample
    return {"id": row["id"], "cube": row["id"] ** 3}

def made():
    return ds

ds = fb.range(300).shuffle().take(20).map(cube, schema={"id": "int64", "cube": "int64"}).cache().batch(4)
plain = fb.range(3)
if __name__ == "__main__":
    print(sum(len(batch["id"]) for batch in ds.iter(seed=3, on_error="skip")))
"""


def test_what_a_script_keeps_is_computed_before_it_runs(tmp_path):
    script, kept, log = tmp_path / "train.py", tmp_path / "kept", tmp_path / "log"
    script.write_text(SCRIPT)
    [warmed] = said("warm", script, "--cache", kept)
    assert (warmed["dataset"], warmed["rows"], warmed["computed"], warmed["on_disk"]) == ("ds", 300, 300, 299)
    assert set(calls(log)) == {*range(300)}, "every row of the source, also rows that the pipeline leaves out"
    log.unlink()
    [again] = said("warm", f"{script}:made", "--cache", kept)
    assert again["computed"] == 1, "only the sample that was left out"
    log.unlink()
    started = [sys.executable, str(script)]
    done = subprocess.run(
        started, capture_output=True, text=True, timeout=180, env={**os.environ, "FOREBAY_CACHE": str(kept)}
    )
    assert done.stdout in ("20\n", "19\n"), done.stderr
    assert set(calls(log)) <= {7}


def test_what_cannot_be_warmed_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("FOREBAY_CACHE", raising=False)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    nowhere = forebay("cache", "warm", script)
    (tmp_path / "file").touch()
    unusable = forebay("cache", "warm", script, "--cache", tmp_path / "file")
    assert unusable.returncode != 0
    assert str(tmp_path / "file") in unusable.stderr
    assert (nowhere.returncode, "--cache FOLDER" in nowhere.stderr) == (1, True)
    for name, code, hint in [("none", 4, "it has cube, made, ds, plain"), ("plain", 1, ".cache()")]:
        done = forebay("cache", "warm", f"{script}:{name}", "--cache", tmp_path / "kept")
        assert (done.returncode, hint in done.stderr) == (code, True), done.stderr
