"""`forebay selftest faults` passes here, and its checks can fail."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from forebay._src.selftest import data, etcd, oracle, pipelines, scenarios, workload

SAMPLES, BATCH = 100, 16


def test_the_quick_sweep_is_green(tmp_path):
    """Real processes are killed; the rows, their order and the leftovers are checked, but no times."""
    command = [sys.executable, "-m", "forebay", "selftest", "faults", "--quick", "--no-timing", "--samples", "3001"]
    done = subprocess.run([*command, "--json", "--dir", str(tmp_path)], capture_output=True, text=True, timeout=600)
    report = json.loads(done.stdout)
    runs = report["runs"]
    assert [problem for run in runs for problem in run["problems"]] == []
    assert (done.returncode, done.stderr) == (0, "")
    left_out = set() if etcd.is_installed() else {"leader"}
    assert {run["scenario"] for run in runs} == set(scenarios.NAMES) - left_out
    run = [run for run in runs if run["verdict"] == "ok"]
    assert {r["data"] for r in run} == {"records", "kept", "pictures"}
    assert {r["samples"] for r in run if r["data"] != "pictures"} == {2 * 3001}
    assert all(r["each_once"] and r["bytes"] and r["order"] and r["left"] == [] for r in run)
    assert list(tmp_path.iterdir()) == []


def test_a_scenario_that_there_is_not_is_refused():
    command = [sys.executable, "-m", "forebay", "selftest", "faults", "--scenario", "earthquake"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 1
    assert "earthquake" in done.stderr
    assert "failover" in done.stderr


def stream() -> oracle.Stream:
    """Two epochs of a hundred rows, in an order of their own."""
    made = oracle.Stream()
    for epoch in range(2):
        ids = np.random.default_rng(epoch).permutation(SAMPLES)
        for start in range(0, SAMPLES, BATCH):
            batch = ids[start : start + BATCH]
            made.put(epoch, batch.copy(), (batch * 3 + epoch).astype(np.uint64))
    return made


def lose(s: oracle.Stream) -> None:
    s.ids[2], s.digests[2] = np.delete(s.ids[2], 5), np.delete(s.digests[2], 5)
    s.sizes[2] -= 1


def double(s: oracle.Stream) -> None:
    s.ids[2], s.digests[2] = np.append(s.ids[2], s.ids[2][0]), np.append(s.digests[2], s.digests[2][0])
    s.sizes[2] += 1


def swap(s: oracle.Stream) -> None:
    for rows in (s.ids[2], s.digests[2]):
        rows[[3, 4]] = rows[[4, 3]]


def change(s: oracle.Stream) -> None:
    s.digests[2][3] += 1


def replace(s: oracle.Stream) -> None:
    s.ids[2][3] = s.ids[0][0]
    s.digests[2][3] = s.digests[0][0]


def invent(s: oracle.Stream) -> None:
    s.ids[2][3] = SAMPLES


def regroup(s: oracle.Stream) -> None:
    for rows in (s.ids, s.digests):
        rows[2], rows[3] = rows[2][:-1], np.append(rows[2][-1:], rows[3])
    s.sizes[2:4] = [BATCH - 1, BATCH + 1]


def cut_short(s: oracle.Stream) -> None:
    for of_batches in (s.epochs, s.sizes, s.ids, s.digests):
        del of_batches[-1]


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lose, ["1 lost", "order differs", "batch 2 has another length"]),
        (double, ["1 more than once", "order differs", "batch 2 has another length"]),
        (swap, ["order differs"]),
        (change, ["1 changed"]),
        (replace, ["1 lost", "1 more than once", "order differs"]),
        (invent, ["1 lost", "1 never written", "order differs"]),
        (regroup, ["batch 2 has another length"]),
        (cut_short, ["4 lost", "order differs", "batch 13 has another length"]),
    ],
)
def test_one_row_that_is_wrong_is_reported(harm, says):
    expected = oracle.Expected(SAMPLES, stream())
    assert oracle.check(expected, stream()).problems() == []
    got = stream()
    harm(got)
    problems = oracle.check(expected, got).problems()
    assert len(problems) == len(says)
    for problem, said in zip(sorted(problems), sorted(says), strict=True):
        assert said in problem


def test_what_is_computed_again_is_counted_by_split():
    expected = oracle.Expected(SAMPLES, stream())
    lines = [f"{ids[0]} {ids[1]} {len(ids)}" for ids in expected.stream.ids]
    # The function is called twice for batch 4, to compare the results.
    calls = Counter([*lines, lines[4]])

    def computed(*more: str) -> int:
        return oracle.computed(expected, [*calls.elements(), *more], calls, 2)

    assert computed() == 0
    # Batches 2 and 3 are one split; batch 7 is the first of the second epoch.
    assert computed(lines[2], lines[3]) == 1
    assert computed(lines[2], lines[7], lines[7]) == 2
    assert computed(lines[4]) == 1
    with pytest.raises(AssertionError, match="no batch"):
        computed("0 0 16")


def test_an_engine_that_computes_something_else_is_no_oracle(tmp_path):
    written = data.records(tmp_path / "records", 1000, 3)
    ds = workload.dataset("records", tmp_path / "records", "", 0.0)
    written["x"][17] += 1
    with pytest.raises(AssertionError, match="column 'x'"):
        oracle.expect(
            ((0, b) for b in ds.iter(threads=1)), 1000, lambda b: pipelines.truth(written, b["id"], b["noise"])
        )


def test_a_record_that_was_damaged_does_not_pass():
    row = np.zeros(1, data.RECORD)
    with pytest.raises(ValueError, match="checksum"):
        pipelines.Parse("", 0.0)({"record": [row.tobytes()[:-4] + b"\x01\x00\x00\x00"]}, np.random.default_rng(0))


def test_the_records_are_what_tfrecord_readers_read(tmp_path):
    """Framed as in the format's description, in files of unequal sizes, one of them empty."""
    written = data.records(tmp_path / "records", 1000, 3)
    sizes = [file.stat().st_size for file in sorted((tmp_path / "records").iterdir())]
    assert (len(sizes), len(set(sizes)), min(sizes)) == (data.FILES, data.FILES, 0)
    import forebay as fb

    read = [row["record"] for row in fb.from_tfrecord(str(tmp_path / "records" / "*"))]
    assert b"".join(read) == written.tobytes()


def test_successive_faults_follow_from_the_seed():
    drawn = [list(scenarios.successive(random.Random(seed), 1000)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
