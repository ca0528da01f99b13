"""The resources that one tenant, or one function, can hold in a service: each has a bound, with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from secured import new_token

E = fb.errors
MIB = 1 << 20


def talkative(row):
    if row["id"] % 2:
        raise ValueError(f"{row['id']} is odd " + "ß" * MIB)
    return row


def sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_what_a_function_says_of_each_sample_is_bounded_wherever_it_is_kept(tmp_path):
    ds = fb.range(200).map(talkative, schema={"id": "int64"}).batch(10)
    options = {"on_error": "quarantine", "error_budget": 1000}
    here = ds.iter(quarantine=tmp_path / "here.jsonl", **options)
    assert sum(len(batch["id"]) for batch in here) == 100
    state = tmp_path / "state"
    with fb.up(workers=1, threads=1, state_dir=state) as service:
        there = iter(ds.distribute(service, job="long", quarantine=tmp_path / "there.jsonl", **options))
        assert sum(len(batch["id"]) for batch in there) == 100
        assert sizes(state) < 8 * MIB
    for it in (here, there):
        assert len(it.skipped) == 100
        for sample in it.skipped:
            error = sample.error
            assert error.message.count("ß") <= 2048
            assert "bytes in all" in error.message
            assert all(len(text.encode()) <= 4096 for _, text in error.context.items())
    assert [(s.sample, s.error.message) for s in here.skipped] == [(s.sample, s.error.message) for s in there.skipped]
    for name in ("here", "there"):
        assert (tmp_path / f"{name}.jsonl").stat().st_size < 100 * 64 * 1024


def test_blobs_have_a_quota_for_each_tenant_that_a_restart_keeps(fleet, tmp_path):
    tokens, state = tmp_path / "tokens.json", tmp_path / "state"
    names = {tenant: new_token(tokens, "client", tenant) for tenant in ("a", "b")}
    worker = new_token(tokens, "worker")
    content = json.loads(tokens.read_text())
    content["tenants"] = {"a": {"blob_bytes": 3 * MIB}}
    tokens.write_text(json.dumps(content))

    def start() -> str:
        flags = ["--listen", "127.0.0.1:0", "--state-dir", state, "--tokens", tokens, "--blob-bytes", "6MiB"]
        return fleet.start("dispatcher", *flags)

    def opens(address: str, tenant: str, seed: int, mebibytes: int = 2) -> None:
        service = fb.connect(address, token=names[tenant])
        data = np.random.default_rng(seed).integers(0, 255, (mebibytes * 16, 1 << 16)).astype(np.uint8)
        ds = fb.from_numpy({"x": data}).batch(16)
        assert len(list(ds.distribute(service, job=f"job {uuid.uuid4().hex[:8]}"))) == mebibytes

    address = start()
    fleet.worker(address, token=worker)
    opens(address, "a", 1)
    opens(address, "a", 1)
    for _ in range(2):
        with pytest.raises(E.ExhaustedError, match=r"tenant 'a'|tenant \"a\"") as caught:
            opens(address, "a", 2)
        assert "blob_bytes" in caught.value.hint
    opens(address, "b", 3)
    fleet.processes[0].kill()
    fleet.processes[0].wait(90)
    again = start()
    with pytest.raises(E.ExhaustedError, match="quota is 3145728"):
        opens(again, "a", 2)
    fleet.worker(again, token=worker)
    # A tenant without a quota has half of the room, and all together at most the whole.
    with pytest.raises(E.ExhaustedError):
        opens(again, "b", 4)
    # A refusal blocks no other call.
    service = fb.connect(again, token=names["a"])
    assert len(list(fb.range(64).batch(8).distribute(service, job="small"))) == 8


def test_a_request_that_is_too_long_says_so_and_others_go_on(fleet, tmp_path):
    address = fleet.dispatcher("--request-bytes", "1MiB")
    service = fb.connect(address)
    path = tmp_path / ("x" * 200)
    path.write_text("a line")
    many = fb.from_files([path] * 6000)
    with pytest.raises(E.ExhaustedError, match="a request has") as caught:
        next(iter(many.distribute(service, job="long")))
    assert "--request-bytes" in caught.value.hint
    fleet.worker(address)
    assert len(list(fb.range(64).batch(8).distribute(service, job="short"))) == 8


PRIVATE = """
    import os, sys
    os.umask(0)
    import forebay as fb
    folder = sys.argv[1]
    open(folder + "/lines.txt", "w").write("".join(f"{i}\\n" for i in range(1000)))
    def odd(row):
        if int(row["text"]) % 2:
            raise ValueError("odd")
        return {"n": int(row["text"])}
    ds = fb.from_text(folder + "/lines.txt").cache().map(odd, schema={"n": "int64"}).shuffle()
    for _ in ds.batch(8).iter(on_error="quarantine", error_budget=9999, quarantine=folder + "/made/letters.jsonl"):
        pass
    with fb.up(workers=1, threads=1, state_dir=folder + "/state", cache=folder + "/cache") as service:
        for _ in ds.batch(8).distribute(service, job="j", on_error="skip", error_budget=9999):
            pass
"""


def test_nothing_that_is_kept_is_for_other_users_of_the_machine(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    for cache, others in ((tmp_path / "own" / "cache", 0o077), (shared, 0o007)):
        home = tmp_path / f"home-{others}"
        home.mkdir()
        env = {**os.environ, "FOREBAY_CACHE": str(cache), "HOME": str(home)}
        code = textwrap.dedent(PRIVATE)
        subprocess.run([sys.executable, "-c", code, str(home)], check=True, env=env, timeout=120)
        made = [path for folder in (home / "state", home / "cache", home / "made") for path in folder.rglob("*")]
        made += [home / "state", home / "cache", home / "made" / "letters.jsonl"]
        open_to_others = [path for path in made if path.stat().st_mode & 0o077]
        assert not [path for path in open_to_others if path != home / "made"], open_to_others
        kept = [cache, *cache.rglob("*")]
        assert len(kept) > 3
        assert not [path for path in kept if path.stat().st_mode & others]
        if cache == shared:
            assert all(path.stat().st_mode & 0o060 == 0o060 for path in kept)
