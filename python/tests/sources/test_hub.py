"""Data sets of the Hugging Face hub are read at one commit. The hub here is an imitation: tests have no network."""

from __future__ import annotations

import json

import forebay as fb
import pytest
from hubs import Hub, hub

E = fb.errors


def lines(numbers: range) -> bytes:
    return "".join(json.dumps({"n": n, "text": "é" * (n % 40)}) + "\n" for n in numbers).encode()


def files(first: int) -> dict[str, bytes]:
    parts = {f"data/train-{i}.jsonl": lines(range(first + 100 * i, first + 100 * i + 100)) for i in range(3)}
    return {
        **parts,
        "data/a b%?.jsonl": lines(range(9)),
        "README.md": b"# A data set",
        "other/x.jsonl": lines(range(5)),
    }


@pytest.fixture
def server(monkeypatch, tmp_path):
    with hub() as state:
        monkeypatch.setenv("HF_ENDPOINT", state.url)
        monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path))
        monkeypatch.setenv("FOREBAY_CACHE_SOURCE", "off")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield state


def numbers(ds: fb.Dataset, **options) -> list[int]:
    return [int(row["n"]) for row in ds.iter(seed=3, **options)]


def test_a_branch_that_moves_is_read_at_the_commit_of_the_beginning(server: Hub):
    old = server.commit(files(0))
    ds = fb.from_jsonl("hf://datasets/org/name/data/train-*.jsonl")
    assert sorted(numbers(ds)) == list(range(300))
    server.commit(files(5000))
    it = ds.shuffle().iter(seed=1, epochs=2)
    assert sorted(int(row["n"]) for row in it) == sorted([*range(300)] * 2)
    assert sorted(numbers(fb.from_jsonl("hf://datasets/org/name/data/train-*.jsonl"))) == list(range(5000, 5300))
    assert sorted(numbers(fb.from_jsonl(f"hf://datasets/org/name@{old}/data/train-*.jsonl"))) == list(range(300))
    assert server.asked["revision"] == 2, "a commit needs no question"


def test_branches_references_braces_and_odd_names(server: Hub):
    server.commit(files(0))
    server.commit(files(1000), branch="refs/convert/parquet")
    read = lambda path: sorted(numbers(fb.from_jsonl(f"hf://datasets/org/name{path}")))  # noqa: E731
    assert read("@main/data/train-{0..1}.jsonl") == list(range(200))
    assert read("@refs/convert/parquet/data/train-2.jsonl") == list(range(1200, 1300))
    assert read("@refs%2Fconvert%2Fparquet/data/train-2.jsonl") == list(range(1200, 1300))
    assert read("/data/a%20b%25%3F.jsonl") == list(range(9))
    assert read("/**/[xa]*.jsonl") == sorted([*range(9), *range(5)])


def test_workers_and_resumed_runs_read_the_same(server: Hub):
    server.commit(files(0))
    ds = fb.from_jsonl("hf://datasets/org/name/data/train-*.jsonl").shuffle().batch(7)
    batches = [batch["n"].tolist() for batch in ds.iter(seed=3)]
    it = ds.iter(seed=3)
    assert next(it)["n"].tolist() == batches[0]
    state = it.state_dict()
    server.commit(files(5000))
    it = ds.iter(seed=3)
    it.load_state_dict(state)
    assert [batch["n"].tolist() for batch in it] == batches[1:]
    with fb.up(workers=1, threads=1) as service:
        assert [batch["n"].tolist() for batch in ds.distribute(service, job="hub", seed=3)] == batches


def test_the_token_is_for_the_hub_alone(server: Hub, monkeypatch):
    server.commit(files(0))
    server.token = "hf_secret"
    with pytest.raises(E.MissingFileError) as caught:
        fb.from_jsonl("hf://datasets/org/name/data/*.jsonl")
    assert "HF_TOKEN" in caught.value.context["hint"]
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert len(numbers(fb.from_jsonl("hf://datasets/org/name/data/train-*.jsonl"))) == 300
    assert server.asked["resolve"] > 0
    assert server.leaked == []


def test_what_is_wrong_is_said(server: Hub):
    commit = server.commit(files(0))
    for path, hint in [
        ("hf://datasets/org", "ORG/NAME"),
        ("hf://models/org/name/x", "ORG/NAME"),
        ("hf://datasets/org/name@nowhere/data/*.jsonl", "check the names"),
        ("hf://datasets/org/other/data/*.jsonl", "check the names"),
        (f"hf://datasets/org/name@{commit}/data/nothing*.jsonl", "check the pattern"),
    ]:
        with pytest.raises(E.ForebayError) as caught:
            fb.from_jsonl(path)
        assert hint in caught.value.context["hint"], path
    with pytest.raises(E.MissingFileError):
        fb.from_jsonl(f"hf://datasets/org/name@{commit}/data/nothing.jsonl")
