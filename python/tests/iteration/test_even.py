"""Consumers of a job on a service end epochs together if the numbers of their batches are not known beforehand."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import forebay as fb
import pytest
from pipelines import name

EPOCHS = 3
SEED = 2

#: A rank: prints its batches with the states after them, or its error.
RANK = """
import json, sys
import forebay as fb
from iteration import test_even
address, job, rank, even, timeout, state = json.loads(sys.argv[1])
options = {} if even is None else {"even": even}
ranks = test_even.pipeline().distribute(
    address, job=job, consumers=(rank, 2), epochs=test_even.EPOCHS, seed=test_even.SEED, rank_timeout=timeout, **options
)
batches = ranks.iter()
if state is not None:
    batches.load_state_dict(state)
try:
    for batch in batches:
        print(json.dumps([batch["id"].tolist(), batches.state_dict()]), flush=True)
except fb.errors.ForebayError as error:
    print(json.dumps([type(error).__name__, str(error)]), flush=True)
"""


def keep(row, rng):
    return row["id"] % 7 == 0 or rng.random() < 0.4


def pipeline() -> fb.Dataset:
    """Returns few batches for each consumer, and other numbers of them in each epoch."""
    return fb.range(150).shuffle().filter(keep).batch(6)


def alone() -> list[list[list[list[int]]]]:
    """Returns the batches of each of two consumers, epoch by epoch."""
    ds = pipeline()
    given = lambda rank, epoch: ds.iter(seed=SEED, epoch=epoch, consumers=(rank, 2), even=False)  # noqa: E731
    return [[[b["id"].tolist() for b in given(rank, epoch)] for epoch in range(EPOCHS)] for rank in range(2)]


def together(even: str) -> list[list[list[int]]]:
    """Returns the expected batches of each."""
    has = alone()
    counts = [[len(has[rank][epoch]) for rank in range(2)] for epoch in range(EPOCHS)]
    assert any(a != b for a, b in counts), "nothing is tested where all have as many"
    if even == "drop":
        return [[b for epoch, batches in enumerate(of) for b in batches[: min(counts[epoch])]] for of in has]
    padded = lambda batches, count: batches + [batches[-1]] * (count - len(batches))  # noqa: E731
    return [[b for epoch, batches in enumerate(of) for b in padded(batches, max(counts[epoch]))] for of in has]


def start(service, job, rank, even=None, timeout=60.0, state=None) -> subprocess.Popen:
    asked = json.dumps([service.address, job, rank, even, timeout, state])
    folder = __file__.rsplit("/", 2)[0]
    return subprocess.Popen([sys.executable, "-c", RANK, asked], stdout=subprocess.PIPE, text=True, cwd=folder)


def said(process: subprocess.Popen) -> list:
    out, _ = process.communicate(timeout=120)
    return [json.loads(line) for line in out.splitlines()]


def batches(said: list) -> list[list[int]]:
    return [batch for batch, _ in said]


@pytest.mark.parametrize("even", [None, "pad"])
def test_processes_end_epochs_at_the_same_step_also_one_that_is_killed(even, service):
    want, job = together(even or "drop"), name()
    ranks = [start(service, job, rank, even) for rank in range(2)]
    begun = [json.loads(ranks[1].stdout.readline()) for _ in range(3)]
    ranks[1].kill()
    # The output until then; the last line may be cut.
    for line in ranks[1].communicate()[0].splitlines():
        with suppress(json.JSONDecodeError):
            begun.append(json.loads(line))
    ranks[1] = start(service, job, 1, even, state=begun[-1][1])
    first, rest = (said(rank) for rank in ranks)
    assert batches(first) == want[0]
    assert batches(begun) + batches(rest) == want[1]


def test_all_processes_fail_at_the_same_step_with_the_same_words(service):
    has, job = alone(), name()
    told = [said(rank) for rank in [start(service, job, rank, "error") for rank in range(2)]]
    counts = [[len(of[epoch]) for of in has] for epoch in range(EPOCHS)]
    first = next(epoch for epoch, (a, b) in enumerate(counts) if a != b)
    steps = sum(counts[epoch][0] for epoch in range(first)) + min(counts[first])
    assert [len(of) for of in told] == [steps + 1] * 2
    assert told[0][-1] == told[1][-1]
    assert told[0][-1][0] == "InvalidPipelineError"
    assert f"after {min(counts[first])} batches 1 of 2 consumers have one more" in told[0][-1][1]


def test_a_rank_that_never_comes_is_named_after_the_bound(service):
    ds = pipeline()
    options = {"job": name(), "seed": SEED}
    reader = ds.distribute(service, consumers=(0, 2), rank_timeout=0.5, **options).iter()
    with pytest.raises(
        fb.errors.UnavailableError, match=r"consumers 1 of .* had no process that read them for 0.5 s"
    ) as failed:
        next(reader)
    assert failed.value.context["consumers"] == "1"
    assert "rank_timeout=" in failed.value.context["hint"]
    with pytest.raises(fb.errors.ConflictError, match='is "pad", and was "drop"'):
        next(ds.distribute(service, consumers=(1, 2), even="pad", **options).iter())
    with pytest.raises(fb.errors.InvalidPipelineError, match=r"rank_timeout=0\.0 is out of range"):
        ds.distribute(service, rank_timeout=0, **options)
    with pytest.raises(fb.errors.InvalidPipelineError, match="is for consumers that ask each other"):
        ds.iter(consumers=(0, 2), even="drop")


def read(service, job, even, states=(None, None)) -> list[list[tuple[list[int], dict]]]:
    """Reads both consumers, each in a thread."""

    def one(rank: int) -> list[tuple[list[int], dict]]:
        ranks = pipeline().distribute(service, job=job, seed=SEED, epochs=EPOCHS, consumers=(rank, 2), even=even)
        reader = ranks.iter()
        if states[rank] is not None:
            reader.load_state_dict(json.loads(json.dumps(states[rank])))
        taken = [(batch["id"].tolist(), reader.state_dict()) for batch in reader]
        return [*taken, ([], reader.state_dict())]

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, range(2)))


@pytest.mark.parametrize("even", ["drop", "pad"])
def test_states_of_any_step_go_on_in_another_job(even, service):
    want = together(even)
    whole = read(service, name(), even)
    assert [batches(of)[:-1] for of in whole] == want
    for step in range(len(want[0]) + 1):
        again = read(service, name(), even, [of[step][1] for of in whole])
        assert [batches(of)[:-1] for of in again] == [of[step + 1 :] for of in want], step
        # In this process each has the rest of its own batches.
        state = whole[0][step][1]
        here = pipeline().iter(seed=SEED, epochs=EPOCHS, consumers=(0, 2), even=False)
        here.load_state_dict(state)
        own = [batch for epoch in alone()[0] for batch in epoch]
        rest = [batch["id"].tolist() for batch in here]
        assert rest == own[len(own) - len(rest) :], step


def test_two_that_would_have_fewer_batches_than_ranks_are_told_so(service):
    few = fb.range(16).filter(fb.col("id") % 2 == 0).batch(4)
    for even, kind in (("drop", None), ("pad", fb.errors.InvalidPipelineError)):
        job = name()

        def one(rank: int, job: str = job, even: str = even) -> list:
            return list(few.distribute(service, job=job, consumers=(rank, 2), even=even))

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(one, rank) for rank in range(2)]
            for reader in readers:
                if kind is None:
                    assert reader.result() == []
                else:
                    with pytest.raises(kind, match="1 of 2 consumers have no batch, so they have none to give again"):
                        reader.result()
