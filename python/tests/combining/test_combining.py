"""Datasets that are read as one: mix, concatenate, zip."""

from __future__ import annotations

import json
import math
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forebay import errors as E
from forebay._src.iteration import quarantine
from pipelines import fingerprint, name

WEIGHTS = {"web": 0.7, "code": 0.2, "math": 0.1}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fb.Dataset]:
    """Three corpora of different formats, each with its own ops: 400, 150 and 60 rows of `text` and `n`."""
    folder = tmp_path_factory.mktemp("corpora")
    for part in range(2):
        rows = [{"text": f"web {n}", "n": n} for n in range(part * 200, part * 200 + 200)]
        (folder / f"web-{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = pa.table({"n": np.arange(150), "content": [f"code {n}" for n in range(150)], "size": np.zeros(150)})
    pq.write_table(table, folder / "code.parquet", row_group_size=40)
    web = fb.from_jsonl(folder / "web-*.jsonl").select("text", "n").shuffle()
    code = fb.from_parquet(folder / "code.parquet").rename(content="text").drop("size").shuffle()
    maths = fb.from_numpy({"n": np.arange(60)}).map(described, reads=["n"], writes=["text"])
    return {"web": web, "code": code, "math": maths}


def described(row):
    return {"text": f"math {row['n']}"}


def rows(ds: fb.Dataset, **options) -> list[tuple[str, int]]:
    """Returns each row's source by its text, and its number."""
    found = [(str(row["text"]).split(), int(row["n"])) for row in ds.iter(**options)]
    assert all(int(number) == n for (_, number), n in found)
    return [(kind, n) for (kind, _), n in found]


def of(found: list[tuple[str, int]], kind: str) -> list[int]:
    return [n for source, n in found if source == kind]


def test_a_mix_has_its_shares_and_each_dataset_its_order(corpora):
    ds = fb.mix(corpora, weights=WEIGHTS, rows=5000, source="source")
    assert len(ds.schema) == 3
    assert ds.cardinality == 5000
    found = rows(ds, seed=4)
    assert [row["source"] for row in ds.iter(seed=4)] == [kind for kind, _ in found]
    for start in range(0, 5000, 1024):
        window = found[start : start + 1024]
        for kind, weight in WEIGHTS.items():
            assert abs(len(of(window, kind)) - weight * len(window)) < 1.001
    # A dataset that begins again is shuffled anew. A dataset without a shuffle comes in the same order each time.
    assert of(found, "math") == [n % 60 for n in range(500)]
    for kind, count in [("web", 400), ("code", 150)]:
        times = [of(found, kind)[start : start + count] for start in range(0, len(of(found, kind)) - count, count)]
        assert all(sorted(time) == list(range(count)) for time in times)
        assert len({tuple(time) for time in times}) == len(times) > 1
    assert rows(ds, seed=5) != found
    assert rows(ds, seed=4, epoch=1) != found
    assert rows(ds, seed=4, threads=1) == rows(ds, seed=4, threads=3) == found


@pytest.mark.parametrize("counted", [True, False])
def test_shares_hold_in_each_batch(corpora, counted):
    parts = corpora if counted else {name: ds.filter(fb.col("n") >= 0) for name, ds in corpora.items()}
    ds = fb.mix(parts, weights=WEIGHTS, rows=5000, per_batch=64)
    plain = rows(fb.mix(parts, weights=WEIGHTS, rows=5000), seed=4)
    found = rows(ds, seed=4)
    for kind, weight in WEIGHTS.items():
        counts = [len(of(found[start : start + 64], kind)) for start in range(0, 4096, 64)]
        assert set(counts) == {math.floor(64 * weight), math.ceil(64 * weight)}
        assert of(found, kind) == of(plain, kind)
    assert found != plain
    for rank in range(2):
        batches = list(ds.batch(64).iter(seed=4, consumers=(rank, 2), even=False))[:31]
        for kind, weight in WEIGHTS.items():
            counts = {sum(str(text).startswith(kind) for text in batch["text"]) for batch in batches}
            assert counts == {math.floor(64 * weight), math.ceil(64 * weight)}


def test_a_mix_ends_as_it_is_told(corpora):
    def counts(**options):
        ds = fb.mix(corpora, weights=WEIGHTS, **options)
        found = rows(ds, seed=1)
        assert len(found) == ds.cardinality
        return [len(of(found, kind)) for kind in corpora]

    assert counts() == [400, 114, 57]
    web, code, maths = counts(stop="all")
    assert code == 150
    assert web == 525
    assert maths == 75
    assert counts(stop="once") == [400, 150, 60]
    assert counts(rows=10) == [7, 2, 1]
    endless = fb.mix(corpora, weights=WEIGHTS, stop=None)
    assert endless.cardinality == math.inf
    assert len(rows(endless.take(3000))) == 3000
    equal = fb.mix(list(corpora.values()), stop="once", source="which")
    assert sorted({row["which"] for row in equal}) == ["0", "1", "2"]


def test_datasets_follow_each_other_and_are_shuffled_together(corpora):
    parts = list(corpora.values())
    found = rows(parts[2].concatenate(*parts[:2]), seed=2)
    assert found[:60] == [("math", n) for n in range(60)]
    assert sorted(of(found[60:460], "web")) == list(range(400))
    assert of(found[60:460], "web") != list(range(400))
    assert sorted(of(found[460:], "code")) == list(range(150))
    shuffled = fb.concatenate(corpora).shuffle()
    assert sorted(rows(shuffled.skip(10), seed=2) + rows(shuffled.take(10), seed=2)) == sorted(found)
    windows = rows(fb.concatenate(corpora).shuffle(window=200), seed=2)
    assert sorted(windows) == sorted(found)
    inner = fb.concatenate([corpora["code"].take(50), corpora["math"]])
    nested = fb.mix({"web": corpora["web"], "rest": inner}, stop="once", source="source")
    found = rows(nested, seed=3)
    assert len(found) == 510
    assert of(found, "math") == list(range(60))


def test_rows_are_zipped_by_their_number(corpora, tmp_path):
    left = fb.from_numpy({"a": np.arange(100)}).skip(10)
    (tmp_path / "b.txt").write_text("".join(f"{n}\n" for n in range(200)))
    right = fb.from_text(tmp_path / "b.txt").take(150)
    ds = fb.zip(left, right, strict=False)
    pairs = [(int(row["a"]), int(row["text"])) for row in ds]
    assert pairs == [(n + 10, n) for n in range(90)]
    assert ds.cardinality == 90
    shuffled = [(int(row["a"]), int(row["text"])) for row in ds.shuffle().iter(seed=1)]
    assert sorted(shuffled) == pairs != shuffled
    assert [int(row["text"]) for row in ds.select("text")] == [b for _, b in pairs]
    with pytest.raises(E.InvalidPipelineError, match='"0" has 90 rows, and "1" has 150'):
        list(fb.zip(left, right))
    for make, says in [
        (lambda: fb.zip(left, left), "rename or drop"),
        (lambda: fb.zip(left.shuffle(), right), "behind zip"),
        (lambda: fb.zip(left, fb.mix([right, right])), "its order differs"),
    ]:
        with pytest.raises(E.InvalidPipelineError, match=says):
            make()
    kept = ds.cache().batch(9)
    assert all([fingerprint(b) for b in kept] == [fingerprint(b) for b in ds.batch(9)] for _ in range(2))
    both = fb.concatenate([ds, fb.zip(fb.from_numpy({"a": np.arange(3)}), right.take(3))])
    assert len(list(both)) == 93


def pipeline(corpora) -> fb.Dataset:
    return fb.mix(corpora, weights=WEIGHTS, stop="all", source="source").shuffle().batch(32)


def test_ranks_share_a_mix_and_resume_at_any_batch(corpora):
    ds = pipeline(corpora)
    want = [fingerprint(batch) for batch in ds.iter(seed=3, epochs=2)]
    for consumers in (2, 3):
        parts = [
            [fingerprint(b) for b in ds.iter(seed=3, epochs=2, consumers=(i, consumers), even=False)]
            for i in range(consumers)
        ]
        half = len(want) // 2
        epochs = [[part[: -(-(half - i) // consumers)] for i, part in enumerate(parts)]]
        merged = [epochs[0][n % consumers][n // consumers] for n in range(half)]
        assert merged == want[:half]
    for stop in range(0, len(want), 5):
        it = ds.iter(seed=3, epochs=2)
        for _ in range(stop):
            next(it)
        state = it.state_dict()
        again = ds.iter(seed=3, epochs=2)
        again.load_state_dict(json.loads(json.dumps(state)))
        assert [fingerprint(batch) for batch in again] == want[stop:]


def test_all_ops_work_behind_a_mix(corpora):
    ds = fb.mix(corpora, weights=WEIGHTS, stop="once", source="source")
    kept = ds.filter(fb.col("n") < 50).batch(16)
    found = [
        (source, int(n)) for batch in kept.iter(seed=1) for source, n in zip(batch["source"], batch["n"], strict=True)
    ]
    assert sorted(found) == sorted((kind, n) for kind in corpora for n in range(50))
    with pytest.raises(E.InvalidPipelineError, match="split each dataset before mix"):
        ds.split(0.8, seed=1)
    first, second = fb.concatenate([corpora["math"], corpora["math"]]).split(0.8, seed=1)
    assert sorted(rows(first.shuffle()) + rows(second)) == sorted(rows(corpora["math"]) * 2)
    halves = [corpora["web"].split(0.5, seed=part)[0] for part in (0, 1)]
    assert len(rows(fb.mix(halves))) == 400
    assert rows(ds[100:120], seed=6) == rows(ds, seed=6)[100:120]
    cached = ds.map(length, writes=["length"]).cache().batch(8)
    assert [fingerprint(b) for b in cached.iter(seed=2)] == [
        fingerprint(b) for b in ds.map(length, writes=["length"]).batch(8).iter(seed=2)
    ]


def length(row):
    return {"length": np.int64(len(row["text"]))}


def test_rows_that_are_kept_are_those_of_their_dataset():
    """Two datasets over the same rows, with other ops."""
    plain = fb.from_numpy({"x": np.arange(50)})
    negative = plain.with_column("x", fb.col("x") * -1)
    ds = fb.concatenate([plain, negative]).with_column("y", fb.col("x") * 2).cache()
    for _ in range(2):
        assert [int(row["y"]) for row in ds] == [2 * n for n in range(50)] + [-2 * n for n in range(50)]


def test_random_ops_of_datasets_draw_apart_and_are_not_kept():
    noisy = fb.range(64).map(noise, writes=["noise"])
    ds = fb.concatenate([noisy, noisy])
    drawn = [float(row["noise"]) for row in ds.iter(seed=1)]
    assert len(set(drawn)) == 128
    assert drawn == [float(row["noise"]) for row in ds.iter(seed=1, threads=3)]
    with pytest.raises(E.InvalidPipelineError, match="freeze=True"):
        ds.cache()
    frozen = ds.cache(freeze=True)
    epochs = [[float(row["noise"]) for row in frozen.iter(seed=1, epoch=epoch)] for epoch in (0, 1)]
    assert epochs[0] == epochs[1]


def noise(row, rng):
    return {"noise": rng.random()}


def broken(row):
    if row["n"] % 10 == 3:
        raise ValueError("no")
    return {"twice": np.int64(row["n"] * 2)}


def test_a_sample_that_fails_in_one_dataset_is_named_and_skipped_alone(tmp_path):
    good = fb.from_numpy({"n": np.arange(40)}).map(twice, writes=["twice"])
    (tmp_path / "bad.jsonl").write_text("".join(f'{{"n": {n}}}\n' if n != 7 else "{no\n" for n in range(40)))
    bad = fb.from_jsonl(tmp_path / "bad.jsonl", schema={"n": "int64"}).map(broken, writes=["twice"])
    ds = fb.mix({"good": good, "bad": bad}, stop="once", source="source")
    with pytest.raises(E.ForebayError) as info:
        list(ds)
    assert info.value.context["part"] == "bad"
    assert "bad.jsonl#" in info.value.context["sample"]
    with ds.iter(seed=1, on_error="skip", error_budget=10) as it:
        found = [(row["source"], int(row["n"])) for row in it]
        skipped = it.skipped
    lost = {3, 7, 13, 23, 33}
    want = [("good", n) for n in range(40)] + [("bad", n) for n in range(40) if n not in lost]
    assert sorted(found) == sorted(want)
    assert len(skipped) == 5
    assert all("bad.jsonl#" in sample.sample for sample in skipped)
    threads = [(row["source"], int(row["n"])) for row in ds.iter(seed=1, on_error="skip", error_budget=10, threads=3)]
    assert threads == found
    # A sample that could be read has a record of its dataset, before its ops. A user can show it, and try it again.
    both = fb.zip(fb.range(32), bad.skip(8))
    for combined, failed in [(ds, [3, 13, 23, 33]), (both, [13, 23, 33])]:
        path = tmp_path / f"{len(failed)}.jsonl"
        list(combined.iter(seed=1, on_error="quarantine", quarantine=path, error_budget=10))
        letters = json.loads(quarantine.command("show", [str(path)], None, True)[0])
        kept = sorted(int(letter["record"]["n"]) for letter in letters if letter["record"])
        assert kept == failed
        tried, status = quarantine.command("retry", [str(path)], None, True)
        again = [letter["now"] for letter in json.loads(tried) if letter["passes"] is False]
        assert status == 1
        assert len(again) == len(failed)
        assert all("ValueError: no" in now for now in again)


def twice(row):
    return {"twice": np.int64(row["n"] * 2)}


def test_a_service_gives_the_same_mix_when_a_worker_is_killed(corpora):
    ds = pipeline(corpora).map(slow, batched=True)
    want = [fingerprint(batch) for batch in ds.iter(seed=5, epochs=3)]
    with fb.up(workers=2, threads=1) as service:
        got = []
        for batch in ds.distribute(service, job=name(), seed=5, epochs=3):
            got.append(fingerprint(batch))
            if len(got) == 10:
                service.kill_worker(0)
    assert got == want


def slow(batch):
    import time

    time.sleep(0.002)
    return batch


def test_a_mix_knows_what_it_is_made_of(corpora):
    ds = fb.mix(corpora, weights=WEIGHTS)
    again = fb.mix(dict(corpora), weights={name: weight * 10 for name, weight in WEIGHTS.items()})
    assert ds.dataset_id != again.dataset_id, "other numbers, although the same shares"
    assert ds.dataset_id == fb.mix(corpora, weights=WEIGHTS).dataset_id
    text = ds.explain()
    assert "web (70.0000 %): from_jsonl" in text
    assert "code has 150 rows: 114 in an epoch" in text
    assert len(ds._pipeline.files()) == 3
    with pytest.raises(TypeError, match="no length: the files of jsonl"):
        len(ds)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda a, b: fb.mix({"a": a}), "at least two"),
        (lambda a, b: fb.mix({"a": a, "b": b}, weights={"a": 1}), "has none for 'b'"),
        (lambda a, b: fb.mix({"a": a, "b": b}, weights={"a": 1, "b": 1, "c": 1}), "'c', which is no dataset"),
        (lambda a, b: fb.mix({"a": a, "b": b}, weights={"a": 0, "b": 1}), "positive number"),
        (lambda a, b: fb.mix({"a": a, "b": b}, weights={"a": -1, "b": 1}), "positive number"),
        (lambda a, b: fb.mix({"a": a, "b": b}, weights={"a": math.nan, "b": 1}), "finite"),
        (lambda a, b: fb.mix({"a": a, "b": b}, weights={"a": "x", "b": 1}), "is a number"),
        (lambda a, b: fb.mix([a, b], weights=[1]), "one weight for each"),
        (lambda a, b: fb.mix({"a": a, "b": b}, weights=[1, 2]), "write mix"),
        (lambda a, b: fb.mix({"a": a, "b": b}, stop="last"), "unknown stop"),
        (lambda a, b: fb.mix({"a": a, "b": b}, per_batch=48), "no power of two"),
        (lambda a, b: fb.mix({"a": a, "b": b}, per_batch=2048), "from 2 to 1024"),
        (lambda a, b: fb.mix({"a": a, "b": b}, per_batch=1), "per_batch"),
        (lambda a, b: fb.mix({"a": a, "b": b}, stop="all", rows=3), "leave one of them out"),
        (lambda a, b: fb.mix({"a": a, "b": b}, rows=0), "rows"),
        (lambda a, b: fb.mix({"a": a, "b": b.rename(id="x")}), 'has a column "id"'),
        (lambda a, b: fb.mix({"a": a, "b": b.cast(id="float32")}), "cast it in one"),
        (lambda a, b: fb.mix({"a": a, "b": b}, source="id"), "use another name"),
        (lambda a, b: fb.zip(a, b.rename(id="n").filter(fb.col("n") > 1)), "zip has to know the number of rows"),
        (lambda a, b: fb.mix({"a": a, "b": b.batch(2)}), "put batch behind mix"),
        (lambda a, b: fb.mix({"a": a, "b": b.cache()}), "put cache behind mix"),
        (lambda a, b: fb.mix({"a": a, "b": b.repeat()}), "give repeat a count"),
        (lambda a, b: fb.mix({"a": a, "b": [1]}), "not a dataset"),
        (lambda a, b: fb.mix(a), "write mix"),
        (lambda a, b: fb.mix({1: a, "b": b}), "use strings"),
        (lambda a, b: fb.concatenate([a, fb.mix([a, b], stop=None)]), "never be read whole"),
        (lambda a, b: fb.concatenate([a, fb.from_generator(forever, schema={"id": "int64"})]), "cannot be counted"),
        (lambda a, b: fb.mix({"a": a, "b": b}, stop=None).shuffle().explain(), "stop= or rows="),
        (lambda a, b: list(fb.mix({"a": a, "b": b.take(0)})), 'mix: "b" has no rows'),
    ],
)
def test_what_cannot_be_combined_is_refused_with_what_to_write(make, says):
    with pytest.raises(E.InvalidPipelineError, match=says):
        make(fb.range(5), fb.range(7))


def forever():
    yield {"id": 1}


def test_hundreds_of_datasets_are_one(tmp_path: Path):
    for part in range(300):
        (tmp_path / f"{part}.txt").write_text("".join(f"{part} {n}\n" for n in range(20)))
    ds = fb.mix({str(part): fb.from_text(tmp_path / f"{part}.txt").shuffle() for part in range(300)}, stop="once")
    found = [str(row["text"]) for row in ds.iter(seed=1)]
    assert sorted(found) == sorted(f"{part} {n}" for part in range(300) for n in range(20))
    assert len({text.split()[0] for text in found[:1024]}) == 300


def test_exact_fan_out_and_numbers_behind_a_mix():
    parts = {"a": fb.range(100).shuffle(), "b": fb.range(1000, 1040).shuffle()}
    mix = fb.mix(parts, weights={"a": 3, "b": 1})
    base = [int(row["id"]) for row in mix.iter(seed=4)]
    numbered = [(int(row["n"]), int(row["id"])) for row in mix.enumerate("n").shuffle().iter(seed=4)]
    assert sorted(numbered) == list(enumerate(base))
    assert numbered != sorted(numbered)
    schema = {"id": "int64", "k": "int64"}
    two = mix.flat_map(lambda row: [{"id": row["id"], "k": k} for k in range(2)], schema=schema, count=2)
    rows = [(int(row["id"]), int(row["k"])) for row in two.iter(seed=4)]
    assert rows == [(id, k) for id in base for k in range(2)]
    batches = two.shuffle().batch(5)
    shares = [list(batches.iter(seed=4, consumers=(i, 3), even=False)) for i in range(3)]
    shared = [(int(i), int(k)) for share in shares for b in share for i, k in zip(b["id"], b["k"], strict=True)]
    assert sorted(shared) == sorted(rows)
    it = batches.iter(seed=4)
    for _ in range(4):
        next(it)
    state, rest = it.state_dict(), [b["id"].tolist() for b in it]
    it = batches.iter(seed=4)
    it.load_state_dict(state)
    assert [b["id"].tolist() for b in it] == rest
