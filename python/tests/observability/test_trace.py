"""Traces of a window of time: what is in them, in this process and on a service, and that they change no row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import warnings

import forebay as fb
import numpy as np
import pytest
from pipelines import name


def pipeline():
    ds = fb.range(4000).map(lambda row: {"x": row["id"] * 2}, reads=["id"], writes=["x"])
    return ds.filter(fb.col("id") % 3 != 0).shuffle(window=500).batch(100)


def events(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def slices(path, kind):
    return [event for event in events(path) if event["ph"] in "Xb" and event["name"] == kind]


def places(found):
    keys = ("stream", "epoch", "split", "chunk")
    return [tuple(event["args"][key] for key in keys) for event in found]


def test_a_trace_has_each_chunk_from_its_reading_to_its_batch_and_changes_no_row(tmp_path):
    plain = [batch["x"].copy() for batch in pipeline().iter(seed=3)]
    with fb.trace(tmp_path / "run.json") as trace:
        traced = [batch["x"].copy() for batch in pipeline().iter(seed=3)]
    assert all(map(np.array_equal, plain, traced))
    assert len(plain) == len(traced)
    merged = places(slices(trace.path, "merge"))
    assert len(merged) == len(set(merged)) > 0
    assert set(places(slices(trace.path, "read"))) <= set(places(slices(trace.path, "morsel")))
    names = {event["name"] for event in events(trace.path)}
    assert {"map", "filter", "batch"} <= names
    waits = slices(trace.path, "wait")
    assert len(waits) >= len(plain)
    assert len(slices(trace.path, "train")) == len(waits) - 1
    assert trace.dropped == 0
    assert trace.spans > 0


def test_spans_of_one_track_lie_in_each_other_or_apart(tmp_path):
    with fb.trace(tmp_path / "run.json") as trace:
        for _ in pipeline().iter(epochs=3, threads=4):
            pass
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events(trace.path):
        if event["ph"] == "X":
            span = (event["ts"], event["ts"] + event["dur"])
            tracks.setdefault((event["pid"], event["tid"]), []).append(span)
    assert len(tracks) >= 2
    for spans in tracks.values():
        open_ends: list[float] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            # A thousandth of a microsecond is what the file rounds to.
            while open_ends and open_ends[-1] <= start + 0.001:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 0.001
            open_ends.append(end)


def test_a_bound_on_spans_drops_the_later_ones_and_says_so(tmp_path):
    with pytest.warns(UserWarning, match="later ones were dropped"), fb.trace(tmp_path / "a.json", spans=10) as trace:
        for _ in pipeline():
            pass
    assert trace.spans == 10
    assert trace.dropped > 0
    with open(trace.path, encoding="utf-8") as file:
        assert json.load(file)["otherData"]["dropped"] == trace.dropped


def test_wrong_places_are_refused_before_training_and_one_trace_is_recorded_at_a_time(tmp_path):
    with pytest.raises(fb.errors.InvalidPipelineError, match="cannot be written"), fb.trace(tmp_path / "no" / "a.json"):
        pytest.fail("there is no such folder")
    for path in ("s3://bucket/a.json", ""):
        with pytest.raises(fb.errors.InvalidPipelineError, match="no file on this machine"):
            fb.trace(path)
    with fb.trace(tmp_path / "a.json"):
        second = fb.trace(tmp_path / "b.json")
        with pytest.raises(fb.errors.InvalidPipelineError, match="records a trace already"), second:
            pytest.fail("one is open")
    # An error of the loop does not lose the trace, and nothing else is left behind.
    with pytest.raises(ZeroDivisionError), fb.trace(tmp_path / "c.json"):
        _ = 1 / 0
    assert sorted(os.listdir(tmp_path)) == ["a.json", "c.json"]


def test_a_trace_of_a_service_has_the_work_of_its_workers(tmp_path, until):
    ds = fb.range(40_000).map(lambda row: {"x": row["id"] + 1}).batch(100)
    plain = [int(batch["x"].sum()) for batch in ds.iter()]
    path = tmp_path / "run.json"

    def processes() -> set[str]:
        return {event["args"]["name"] for event in events(path) if event["name"] == "process_name"}

    def is_traced() -> bool:
        """On a busy machine, a worker may be told of the trace after it has computed its last split."""
        with fb.trace(path) as trace:
            assert [int(batch["x"].sum()) for batch in ds.distribute(service, job=name())] == plain
        assert str(trace.path) == str(path)
        return len(processes()) == 3 and bool(slices(path, "morsel"))

    with fb.up(workers=2, threads=1) as service:
        until(is_traced)
    found = events(path)
    assert sum(it.startswith("worker ") for it in processes()) == 2
    merged = set(places(slices(path, "merge")))
    # The splits that were computed before the workers were told of the trace have no spans there.
    there = set(places(slices(path, "morsel")))
    assert there <= merged
    assert set(places(slices(path, "transfer"))) == merged
    assert slices(path, "read")
    assert slices(path, "lease")
    assert slices(path, "wait for worker")
    arrows = [event["id"] for event in found if event["ph"] == "s"]
    assert set(arrows) == {event["id"] for event in found if event["ph"] == "f"}
    assert len(arrows) == len(there)


def test_the_command_traces_a_job_that_runs(tmp_path, until):
    file = tmp_path / "job.json"

    def forebay(*arguments):
        command = [sys.executable, "-m", "forebay", "jobs", "trace", *arguments, "--service", service.address]
        return subprocess.run(command, capture_output=True, text=True, timeout=180)

    with fb.up(workers=1, threads=1) as service:
        absent = forebay("nothing", "--out", str(file))
        assert absent.returncode != 0
        assert "no process reads job" in absent.stderr
        assert not file.exists()
        ended = threading.Event()

        def train():
            ds = fb.range(1000).map(lambda row: {"x": row["id"]}).batch(10)
            with ds.distribute(service, job="long", epochs=None).iter() as batches:
                for _ in batches:
                    if ended.is_set():
                        return
                    time.sleep(0.001)

        def is_traced() -> bool:
            """The job may not be open yet, or may do nothing for a second on a busy machine."""
            done = forebay("long", "--seconds", "1", "--out", str(file))
            assert (done.returncode == 0) == ("ui.perfetto.dev" in done.stdout), done.stderr
            return done.returncode == 0 and all(slices(file, kind) for kind in ("morsel", "wait", "transfer"))

        trainer = threading.Thread(target=train)
        trainer.start()
        try:
            until(is_traced)
            with fb.trace(tmp_path / "mine.json"):
                refused = forebay("long", "--seconds", "1", "--out", str(tmp_path / "other.json"))
            assert refused.returncode != 0
            assert "records a trace already" in refused.stderr
        finally:
            ended.set()
            trainer.join()
    assert not (tmp_path / "other.json").exists()


TRAINER = """
import sys, time
import forebay as fb
ds = fb.range(1_000_000).batch(10)
end = time.monotonic() + float(sys.argv[2])
for batch in ds.distribute(sys.argv[1], job=sys.argv[3], epochs=None):
    time.sleep(0.01)
    if time.monotonic() > end:
        break
"""


@pytest.mark.parametrize("ends", ["in order", "killed"])
def test_a_job_that_ends_ends_its_trace(tmp_path, until, ends):
    file = tmp_path / "job.json"
    with fb.up(workers=1, threads=1) as service:
        seconds = "15" if ends == "in order" else "1000"
        trainer = subprocess.Popen([sys.executable, "-c", TRAINER, service.address, seconds, ends])
        try:
            until(lambda: any(c.attached for job in service.jobs() for c in job.consumers))
            command = [sys.executable, "-m", "forebay", "jobs", "trace", ends, "--seconds", "290", "--out", str(file)]

            def begin() -> subprocess.Popen[str]:
                return subprocess.Popen(
                    [*command, "--service", service.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )

            traced = begin()
            if ends == "killed":
                # The recording has begun once the process refuses a second one.
                short = [*command[:-3], "1", "--out", str(tmp_path / "other.json"), "--service", service.address]

                def is_recording() -> bool:
                    nonlocal traced
                    if traced.poll() is not None:
                        # The second one was first.
                        traced.communicate()
                        traced = begin()
                    return "records a trace already" in subprocess.run(short, capture_output=True, text=True).stderr

                until(is_recording)
                trainer.kill()
            said, error = traced.communicate(timeout=120)
        finally:
            trainer.kill()
            trainer.wait()
        if ends == "killed":
            assert (traced.returncode, file.exists()) == (3, False), error
            assert "consumer 0 of job 'killed' sent no trace".replace("'", '"') in error
            return
        assert traced.returncode == 0, error
        assert 'consumer 0 of job "in order" ended after ' in said
        assert slices(file, "wait")
        service.cancel(ends)
        over = subprocess.run([*command, "--service", service.address], capture_output=True, text=True)
        assert (over.returncode, "is cancelled" in over.stderr) == (4, True), over.stderr


def test_progress_bars_know_their_total():
    counted, filtered = fb.range(10).batch(4), fb.range(10).filter(fb.col("id") > 3)
    assert len(counted.iter(epochs=2)) == 6
    assert len(counted.iter(consumers=(1, 2))) == 1
    assert len(counted.distribute("127.0.0.1:1", job="j", epochs=3)) == 9
    for unknown in (filtered.iter(), counted.iter(epochs=None), counted.iter(on_error="skip")):
        with pytest.raises(TypeError, match="no length"):
            len(unknown)
        assert unknown
    iterator = counted.iter()
    next(iterator)
    resumed = counted.iter()
    resumed.load_state_dict(iterator.state_dict())
    with pytest.raises(TypeError, match="saved state"):
        len(resumed)
    assert len(list(resumed)) == 2


def test_a_log_gets_lines_of_progress_only_on_request(tmp_path):
    script = (
        "import time, forebay as fb\nfb.range(4).map(lambda row: (time.sleep(0.4), {'x': row['id']})[1]).save('out')\n"
    )
    known = {key: value for key, value in os.environ.items() if key != "FOREBAY_PROGRESS"}
    running = {}
    for wanted in (None, "0", "1"):
        folder = tmp_path / f"run{wanted}"
        folder.mkdir()
        env = {**known, **({} if wanted is None else {"FOREBAY_PROGRESS": wanted})}
        running[wanted] = subprocess.Popen(
            [sys.executable, "-c", script], cwd=folder, env=env, stderr=subprocess.PIPE, text=True
        )
    said = {wanted: process.communicate(timeout=180)[1] for wanted, process in running.items()}
    assert [process.returncode for process in running.values()] == [0, 0, 0], said
    assert said[None] == said["0"] == ""
    assert "forebay: saving to" in said["1"]
    assert said["1"].endswith(" s\n")


def test_a_monitor_logs_the_figures_every_few_steps():
    seen: list[tuple[str, float | str, int]] = []
    ds = fb.range(1000).map(lambda row: {"x": row["id"]}, reads=["id"], writes=["x"]).batch(10)
    with ds.iter() as batches:
        monitor = fb.callbacks.Monitor(batches, lambda *figure: seen.append(figure), every=25)
        for step, _ in enumerate(batches):
            monitor(step)
    assert sorted({step for _, _, step in seen}) == [0, 25, 50, 75]
    last = {name: value for name, value, step in seen if step == 75}
    assert 0 <= last["forebay/waiting"] <= 1
    assert last["forebay/samples_per_second"] == pytest.approx(10 * last["forebay/batches_per_second"])
    shares = {name: value for name, value in last.items() if name.startswith("forebay/op_share/")}
    assert sum(shares.values()) == pytest.approx(1)
    assert len(shares) == 2
    assert isinstance(next(value for name, value, _ in seen if name == "forebay/why"), str)
    for wrong in ((ds, print), (batches, "print")):
        with pytest.raises(fb.errors.InvalidPipelineError, match="Monitor"):
            fb.callbacks.Monitor(*wrong)


def test_without_its_library_otel_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with (
        pytest.raises(fb.errors.InvalidPipelineError, match="opentelemetry is not installed") as error,
        fb.trace_otel(),
    ):
        pytest.fail("there is no library")
    assert "forebay[otel]" in str(error.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(fb.range(4).batch(2))) == 2
