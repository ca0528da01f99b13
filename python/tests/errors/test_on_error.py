"""Samples that fail: each process skips the same samples, counts and reports them, and never skips too many."""

from __future__ import annotations

import json
import os
import signal
import uuid

import forebay as fb
import numpy as np
import pytest
from pipelines import fingerprint


def job() -> str:
    return f"job-{uuid.uuid4().hex[:8]}"


def fails(sample: int, salt: int, share: int) -> bool:
    """Returns whether a sample fails, by a hash of its number, so that all processes agree."""
    return (sample * 2654435761 + salt * 40503) % 2**32 % 1000 < share


def fragile(salt: int, share: int):
    def step(row):
        if (row["id"] * 2654435761 + salt * 40503) % 2**32 % 1000 < share:
            raise ValueError(f"no good: {row['id']}")
        return {"id": row["id"], "y": row["id"] * 3}

    return step


def stream(it) -> list:
    return [fingerprint(b) for b in it]


def skipped(it) -> list:
    return [(s.epoch, s.split, s.sample, s.op, s.error.message) for s in it.skipped]


def make(seed: int, share: int) -> fb.Dataset:
    """Returns a pipeline some of whose samples fail, in one op or in two."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 500))
    ds = fb.range(rows)
    if seed % 3:
        ds = ds.shuffle()
    schema = {"id": "int64", "y": "int64"}
    ds = ds.map(fragile(seed, share), name="first", schema=schema)
    if seed % 4 == 1:
        ds = ds.filter(fb.col("y") % 2 == 0)
    if seed % 5 == 2:
        ds = ds.map(fragile(seed + 1, share), name="second", schema=schema)
    if seed % 7 == 3:
        ds = ds.take(rows // 2)
    ds = ds.batch(int(rng.integers(1, 90)), drop_remainder=bool(seed % 2))
    if seed % 4 == 2:
        counted = {**schema, "n": "int64"}
        ds = ds.map(lambda batch: {**batch, "n": np.full(len(batch["id"]), len(batch["id"]))}, schema=counted)
    return ds.with_column("z", fb.col("id") * 2) if seed % 3 == 1 else ds


@pytest.mark.parametrize("seed", range(24))
def test_the_same_samples_are_left_out_here_and_on_a_service(seed, service, tmp_path):
    share = [0, 15, 120, 1000][seed % 4]
    ds = make(seed, share)
    options = {"seed": seed, "epochs": 2, "on_error": ["skip", "quarantine"][seed % 2], "error_budget": 1.0}
    if seed % 2:
        options["quarantine"] = tmp_path / "bad.jsonl"
    here = ds.iter(**options)
    want = stream(here)
    for executor in ["thread", "process"][: 1 + (seed % 6 == 2)]:
        again = ds.iter(**options, threads=1 + seed % 4, executor=executor)
        assert stream(again) == want
        assert skipped(again) == skipped(here)
    there = ds.distribute(service, job=job(), **options).iter()
    assert stream(there) == want
    assert skipped(there) == skipped(here)
    assert share != 1000 or (want == [] and here.skipped)


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
@pytest.mark.parametrize("seed", range(12))
def test_with_clean_data_every_answer_gives_the_same_stream(seed):
    ds, consumers = make(seed, 0), 1 + seed % 3
    for index in range(consumers):
        streams = [
            stream(ds.iter(seed=seed, consumers=(index, consumers), on_error=answer, error_budget=0))
            for answer in ("raise", "skip")
        ]
        assert streams[0] == streams[1]


def test_exactly_the_failing_samples_are_missing_and_batches_are_full():
    ds = fb.range(1000).shuffle().map(fragile(1, 50)).batch(32)
    it = ds.iter(on_error="skip", error_budget=0.1)
    batches = list(it)
    bad = {i for i in range(1000) if fails(i, 1, 50)}
    assert len(bad) > 20
    assert sorted(int(i) for b in batches for i in b["id"]) == sorted(set(range(1000)) - bad)
    assert {len(b["id"]) for b in batches[:-1]} == {32}
    assert {s.sample for s in it.skipped} == {f"row {i}" for i in bad}
    assert all(isinstance(s.error, fb.errors.FunctionError) and s.error.traceback for s in it.skipped)


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_a_resumed_run_leaves_out_the_same_and_counts_on(executor):
    ds = fb.range(2000).shuffle().map(fragile(3, 40)).batch(50)
    options = {"seed": 2, "epochs": 2, "on_error": "skip", "error_budget": 0.06, "executor": executor}
    want = stream(ds.iter(**options))
    it = ds.iter(**options)
    for step in (1, 7, 19, 30):
        del step
        for _ in range(5):
            next(it)
        state = json.loads(json.dumps(it.state_dict()))
        it.close()
        it = ds.iter(**options)
        it.load_state_dict(state)
    assert stream(it) == want[20:]
    bad = sum(fails(i, 3, 40) for i in range(2000))
    at_end = ds.iter(**{**options, "epochs": 1})
    list(at_end)
    assert len(at_end.skipped) == bad


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("budget", [3, 0.004])
def test_over_the_budget_it_ends_at_the_same_sample_everywhere(budget, there, service):
    ds = fb.range(1000).shuffle().map(fragile(5, 60), name="step").batch(10)

    def run(**how) -> tuple:
        options = {"seed": 4, "on_error": "skip", "error_budget": budget}
        it = ds.distribute(service, job=job(), **options).iter() if there else ds.iter(**options, **how)
        seen = []
        with pytest.raises(fb.errors.DataError, match="samples of epoch 0 failed") as caught:
            seen.extend(b["id"].tolist() for b in it)
        assert caught.value.context["samples"].count("\n") == len(it.skipped) - 1
        assert caught.value.context["samples"].startswith("row ")
        assert "map (step)" in caught.value.context["samples"]
        assert "error_budget" in caught.value.hint
        return seen, skipped(it), str(caught.value)

    first = run()
    assert len(first[1]) == (4 if budget == 3 else 5)
    assert run(threads=1) == first
    assert run(threads=5) == first


def test_programming_errors_are_fatal_with_any_on_error():
    def wrong(row):
        return {"x": row["id"] if row["id"] != 50 else None.thing}

    def other(row):
        return {"x": row["id"]} if row["id"] != 50 else {"y": 1}

    def undefined(row):
        return {"x": row["id"] if row["id"] != 50 else undefined_name}  # noqa: F821

    for function, says in ((wrong, "AttributeError"), (other, "wrong structure"), (undefined, "NameError")):
        for executor in ("thread", "process"):
            with pytest.raises(fb.errors.FunctionError, match=says):
                list(fb.range(100).map(function).iter(on_error="skip", error_budget=1.0, executor=executor))


def test_a_function_of_a_whole_batch_has_no_sample_to_blame():
    def pick(batch):
        if 5 in batch["id"]:
            raise ValueError("five")
        return batch

    with pytest.raises(fb.errors.FunctionError, match="five"):
        list(fb.range(20).batch(4).map(pick, schema={"id": "int64"}).iter(on_error="skip", error_budget=1.0))


def test_skip_sample_is_a_filter_that_costs_nothing():
    def even(row):
        if row["id"] % 2:
            raise fb.SkipSample
        return row

    ds = fb.range(100).map(even).batch(8)
    it = ds.iter(on_error="skip", error_budget=0)
    assert [i for b in it for i in b["id"].tolist()] == list(range(0, 100, 2))
    assert it.skipped == []
    with pytest.raises(fb.errors.FunctionError, match="SkipSample") as caught:
        list(ds)
    assert "on_error" in caught.value.hint


def test_a_budget_that_is_none_is_refused():
    for budget in (-1, 1.5, "1%", True):
        with pytest.raises(fb.errors.InvalidPipelineError, match="error_budget"):
            fb.range(3).iter(on_error="skip", error_budget=budget)
    with pytest.raises(fb.errors.InvalidPipelineError, match="on_error"):
        fb.range(3).iter(on_error="ignore")


# Sources and the engine's own ops.


@pytest.mark.parametrize("counted", [False, True])
def test_damaged_records_are_left_out_by_name(tmp_path, counted, service):
    lines = [json.dumps({"n": i}) for i in range(300)]
    lines[107], lines[150], lines[299] = "{broken", '{"n": "text"}', '{"n": 1'
    path = tmp_path / "lines.jsonl"
    path.write_text("\n".join(lines) + "\n")
    ds = fb.from_jsonl(str(path))
    if counted:
        ds = ds.shuffle()
    ds = ds.batch(16)
    it = ds.iter(on_error="skip", error_budget=3)
    got = [int(n) for b in it for n in b["n"]]
    assert sorted(got) == [i for i in range(300) if i not in (107, 150, 299)]
    assert sorted(s.sample for s in it.skipped) == sorted(f"{path}#{i}" for i in (107, 150, 299))
    assert all(s.error.context["file"] == str(path) and s.error.context["offset"] for s in it.skipped)
    there = ds.distribute(service, job=job(), on_error="skip", error_budget=3).iter()
    assert [int(n) for b in there for n in b["n"]] == got
    assert skipped(there) == skipped(it)
    with pytest.raises(fb.errors.DataError):
        list(ds)


def test_damaged_images_are_left_out(images, tmp_path, service):
    import shutil

    root = tmp_path / "images"
    shutil.copytree(images, root)
    (root / "cat" / "0.jpg").write_bytes(b"no jpeg")
    whole = (root / "dog" / "1.png").read_bytes()
    (root / "dog" / "1.png").write_bytes(whole[: len(whole) // 2])
    ds = fb.from_image_folder(root).shuffle().decode_image("image").resize("image", 8).random_flip("image").batch(4)
    it = ds.iter(on_error="skip", error_budget=2, seed=3)
    got = stream(it)
    assert sorted(s.sample for s in it.skipped) == [str(root / "cat" / "0.jpg"), str(root / "dog" / "1.png")]
    assert {s.op for s in it.skipped} == {"decode_image"}
    there = ds.distribute(service, job=job(), on_error="skip", error_budget=2, seed=3).iter()
    assert stream(there) == got
    assert skipped(there) == skipped(it)


def test_a_file_that_changed_is_never_left_out(tmp_path):
    for i in range(40):
        (tmp_path / f"{i:02}.txt").write_bytes(b"x" * 100)
    it = fb.from_files(f"{tmp_path}/*.txt").batch(4).iter(on_error="skip", error_budget=1.0, threads=1)
    next(it)
    (tmp_path / "39.txt").write_bytes(b"other")
    with pytest.raises(fb.errors.DataError, match="changed"):
        list(it)


@pytest.mark.parametrize("where", ["here", "service"])
def test_a_row_that_was_given_out_and_fails_by_accident_on_resume_costs_no_other_row(where, tmp_path, service):
    """A position counts rows. Another row was skipped silently when a row before it was left out this time."""
    flag = tmp_path / "kills"

    def step(row):
        if row["id"] == 1 and flag.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return row

    ds = fb.range(20).map(step, schema={"id": "int64"})
    options = {"on_error": "skip", "error_budget": 5, "executor": "process", "threads": 1}
    if where == "service":
        ds, options = ds.distribute(service, job=job(), on_error="skip", error_budget=5), {}
    with ds.iter(**options) as it:
        assert [int(next(it)["id"]) for _ in range(6)] == [0, 1, 2, 3, 4, 5]
        state = it.state_dict()
    flag.touch()
    it = ds.iter(**options)
    it.load_state_dict(state)
    with pytest.raises(
        fb.errors.UnavailableError, match="row 1, which the saved run had, failed by accident"
    ) as caught:
        next(it)
    assert "load the state again" in caught.value.hint
    flag.unlink()
    it = ds.iter(**options)
    it.load_state_dict(state)
    assert [int(row["id"]) for row in it] == list(range(6, 20))
    assert not it.skipped
