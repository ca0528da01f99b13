"""Users' functions that harm their process: they are named, skipped if the user wants it, and disturb no others."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
import warnings

import forebay as fb
import numpy as np
import pyarrow as pa
import pytest


def job() -> str:
    return f"job-{uuid.uuid4().hex[:8]}"


SCHEMA = {"id": "int64"}
BAD = (40, 77)


def raises(row):
    if row["id"] in BAD:
        raise ValueError("no good")
    return row


def leaves(row):
    if row["id"] in BAD:
        sys.exit(3)
    return row


def leaves_at_once(row):
    if row["id"] in BAD:
        os._exit(3)
    return row


def crashes(row):
    if row["id"] in BAD:
        ctypes.string_at(0)
    return row


def is_killed(row):
    if row["id"] in BAD:
        os.kill(os.getpid(), signal.SIGKILL)
    return row


def hangs(row):
    while row["id"] in BAD:
        time.sleep(1)
    return row


def wants_everything(row):
    if row["id"] in BAD:
        return {"id": np.int64(len([bytes(1 << 28) for _ in range(1 << 20)]))}
    return row


def forks_and_dies(row):
    if row["id"] in BAD:
        if os.fork() == 0:
            time.sleep(60)
        os._exit(5)
    return row


FAULTS = {
    "raised ValueError: no good": raises,
    "raised SystemExit: 3": leaves,
    "exited with code 3": leaves_at_once,
    "SIGSEGV": crashes,
    "SIGKILL": is_killed,
    "no answer within 2": hangs,
    "MemoryError": wants_everything,
    "exited with code 5": forks_and_dies,
}


@pytest.mark.parametrize("says", FAULTS)
def test_a_function_that_harms_its_process_is_named_and_left_out(says, service):
    """On a service and in processes of this one; another job of the same workers is not affected."""
    ds = (
        fb.range(100)
        .map(FAULTS[says], schema=SCHEMA, name="step", timeout=2 if FAULTS[says] is hangs else 60)
        .batch(10)
    )
    other = fb.range(3000).shuffle().map(lambda row: row, schema=SCHEMA).batch(50)
    seen: list = []
    reader = threading.Thread(
        target=lambda: seen.extend(b["id"].tolist() for b in other.distribute(service, job=job(), seed=3))
    )
    reader.start()
    with pytest.raises(fb.errors.FunctionError) as caught:
        list(ds.distribute(service, job=job()))
    error = caught.value
    assert says in str(error)
    assert error.context["op"] == "map (step)"
    assert error.context["sample"] == "row 40"
    assert "test_faults.py" in error.context["line"]
    good = [i for i in range(100) if i not in BAD]
    for it in (
        ds.distribute(service, job=job(), on_error="skip", error_budget=2).iter(),
        ds.iter(executor="process", on_error="skip", error_budget=2),
    ):
        assert [i for b in it for i in b["id"].tolist()] == good
        assert [s.sample for s in it.skipped] == ["row 40", "row 77"]
        assert all(says in str(s.error) and s.op == "map (step)" for s in it.skipped)
    reader.join(120)
    assert seen == [b["id"].tolist() for b in other.iter(seed=3)]


def test_what_a_function_forks_never_answers_in_its_place():
    def forks(row):
        if row["id"] == 5 and os.fork() == 0:
            return {"id": np.int64(-1)}
        return row

    ds = fb.range(50).map(forks, schema=SCHEMA)
    assert [int(r["id"]) for r in ds.iter(executor="process", threads=1)] == list(range(50))


def test_prints_go_to_standard_error_of_the_worker(service):
    def chatty(row):
        print("hello", flush=True)
        os.write(1, b"hello\n")
        return row

    assert len(list(fb.range(30).map(chatty, schema=SCHEMA).distribute(service, job=job()))) == 30


def test_a_module_that_a_worker_lacks_is_named(service, tmp_path, monkeypatch):
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "only_here.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(site)
    import only_here

    ds = fb.range(10).map(lambda row: {"id": only_here.double(row["id"])}, schema=SCHEMA, name="twice")
    assert [int(r["id"]) for r in ds] == list(range(0, 20, 2))
    with pytest.raises(fb.errors.FunctionError, match="only_here") as caught:
        list(ds.distribute(service, job=job(), on_error="skip", error_budget=1.0))
    assert caught.value.context["op"] == "map (twice)"
    assert "worker" in caught.value.hint


# Samples that might not fail again.


def flaky(folder):
    """Two samples end their processes, until a file named `mended` exists."""

    def step(row):
        if row["id"] in BAD and not (folder / "mended").exists():
            os._exit(1)
        return row

    return step


def left_out(state: dict) -> list:
    return json.loads(state["position"]).get("left_out", [])


def test_a_sample_that_would_pass_another_time_stays_left_out(tmp_path):
    """After a resume in this process, according to the state."""
    ds = fb.range(100).map(flaky(tmp_path), schema=SCHEMA).batch(7)
    options = {"on_error": "skip", "error_budget": 2, "executor": "process", "threads": 1}
    it = ds.iter(**options)
    got = [next(it)["id"].tolist() for _ in range(6)]
    state = json.loads(json.dumps(it.state_dict()))
    assert [s["sample"] for s in left_out(state)][:1] == [40]
    it.close()
    (tmp_path / "mended").touch()
    again = ds.iter(**options)
    again.load_state_dict(state)
    got += [b["id"].tolist() for b in again]
    lost = {s["sample"] for s in left_out(state)}
    assert [i for b in got for i in b] == [i for i in range(100) if i not in lost]


def test_the_ledger_keeps_what_was_left_out(tmp_path, until):
    """A re-run from the start, a killed worker, a restarted dispatcher: the same samples are missing."""
    ds = fb.range(100).map(flaky(tmp_path), schema=SCHEMA).batch(7)
    good = [i for i in range(100) if i not in BAD]
    with fb.up(workers=1, threads=1) as service:
        options = {"job": "kept", "on_error": "skip", "error_budget": 2, "epochs": 1}
        it = ds.distribute(service, **options).iter()
        start = json.loads(json.dumps(it.state_dict()))
        assert [i for b in it for i in b["id"].tolist()] == good
        until(lambda: [job.consumers[0].skipped for job in service.jobs()] == [2])
        (tmp_path / "mended").touch()
        service.restart_dispatcher()
        service.add_worker()
        service.kill_worker(0)
        again = ds.distribute(service, **options).iter()
        again.load_state_dict(start)
        assert [i for b in again for i in b["id"].tolist()] == good
        assert [s.sample for s in again.skipped] == ["row 40", "row 77"]


def test_a_split_that_ends_workers_is_named_and_not_tried_for_ever(until):
    """The split kills its worker. At most three workers end, and the other job continues."""

    def poison(row):
        if row["id"] == 500:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return row

    ds = fb.range(1000).map(poison, schema=SCHEMA).batch(10)
    other = fb.range(4000).shuffle().map(lambda row: row, schema=SCHEMA).batch(20)
    with fb.up(workers=5, threads=1) as service:
        seen: list = []
        reader = threading.Thread(
            target=lambda: seen.extend(b["id"].tolist() for b in other.distribute(service, job="other", seed=1))
        )
        reader.start()
        with pytest.raises(fb.errors.DataError, match="ended 3 workers") as caught:
            list(ds.distribute(service, job="poison"))
        error = caught.value
        rows = [int(r) for r in error.context["rows"].split(" and ")[0].split(", ")]
        assert rows[0] <= 500 < rows[0] + 64
        assert error.context["workers"].count(" at 127.0.0.1:") >= 3
        assert service.worker_pids
        with pytest.raises(fb.errors.DataError, match="ended 3 workers"):
            list(ds.distribute(service, job="poison"))
        service.restart_dispatcher()
        with pytest.raises(fb.errors.DataError, match="ended 3 workers"):
            list(ds.distribute(service, job="poison"))
        assert service.worker_pids
        reader.join(120)
        assert seen == [b["id"].tolist() for b in other.iter(seed=1)]


# Dead letters.


def lines(file: str) -> list[dict]:
    with open(file) as text:
        return [json.loads(line) for line in text]


def test_dead_letters_are_read_shown_and_tried_again(tmp_path, service, images):
    import base64
    import shutil

    root = tmp_path / "images"
    shutil.copytree(images, root)
    bad = root / "cat" / "0.jpg"
    bad.write_bytes(b"no jpeg at all")

    def strict(row):
        if row["label"] == 2:
            raise ValueError("dogs are not welcome")
        return row

    ds = fb.from_image_folder(root).decode_image("image").resize("image", 8).map(strict, name="strict").batch(4)
    files = []
    for i, read in enumerate((ds.iter, lambda **o: ds.distribute(service, job=job(), **o).iter())):
        files.append(str(tmp_path / f"letters-{i}.jsonl"))
        for _ in range(2):
            it = read(on_error="quarantine", error_budget=10, quarantine=files[i])
            assert sum(len(b["label"]) for b in it) == 9
        head, *letters = lines(files[i])
        assert head["forebay_quarantine"] == 1
        assert sorted((e["op"], e["sample"]) for e in letters) == sorted(
            [("decode_image", str(bad))] + [("map (strict)", s.sample) for s in it.skipped if s.op != "decode_image"]
        )
        (letter,) = [e for e in letters if e["op"] == "decode_image"]
        table = pa.ipc.open_stream(base64.b64decode(letter["record"])).read_all()
        assert table["image"].to_pylist() == [b"no jpeg at all"]
    assert [e["sample"] for e in lines(files[0])[1:]] == [e["sample"] for e in lines(files[1])[1:]]

    def cli(*arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "forebay", "quarantine", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    listed = cli("ls", files[0], "--json")
    assert listed.returncode == 0, listed.stderr
    assert {e["sample"] for e in json.loads(listed.stdout)} >= {str(bad)}
    assert str(bad) in cli("ls", files[0]).stdout
    shown = cli("show", files[0], "--sample", str(bad)).stdout
    assert "no jpeg at all" in shown
    assert "decode_image" in shown
    tried = cli("retry", files[0], "--json")
    assert tried.returncode == 1
    assert {e["passes"] for e in json.loads(tried.stdout)} == {False}
    assert cli("show", files[0], "--sample", "nobody").returncode == 4


def test_a_letter_that_passes_now_says_so(tmp_path):
    folder = tmp_path / "once"
    folder.mkdir()
    file = tmp_path / "letters.jsonl"
    ds = fb.range(100).map(flaky(folder), schema=SCHEMA)
    it = ds.iter(on_error="quarantine", error_budget=2, quarantine=file, executor="process", threads=1)
    assert len(list(it)) == 98
    (folder / "mended").touch()
    done = subprocess.run(
        [sys.executable, "-m", "forebay", "quarantine", "retry", str(file)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 2 pass now" in done.stdout


# Arguments that are not functions.


def test_what_depends_on_more_than_the_sample_is_warned_of(service):
    calls = iter(range(10**9))

    def counts(row):
        return {"id": row["id"], "n": next(calls)}

    def clock(row):
        return {"id": row["id"], "t": time.perf_counter()}

    def coin(row):
        return bool(np.random.random() < 0.5)

    def draws(row, rng):
        return {"id": row["id"], "x": rng.random()}

    rows = fb.range(2000)
    clocks = rows.map(clock, name="clock")
    for read in (
        lambda: rows.map(counts, name="counter").iter(),
        lambda: clocks.iter(executor="process"),
        lambda: clocks.batch(50).distribute(service, job=job()).iter(),
        lambda: rows.filter(coin, name="coin").iter(),
    ):
        it = read()
        with pytest.warns(fb.NonDeterministicWarning, match=r"op: (map|filter) \((counter|clock|coin)\)") as caught:
            list(it)
        [warning] = [each for each in caught if issubclass(each.category, fb.NonDeterministicWarning)]
        assert "test_faults.py" in str(warning.message)
        assert "rng" in str(warning.message)
        assert it.skipped == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(rows.map(draws).batch(64))) == 32
