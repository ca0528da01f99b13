"""Data-parallel consumers: equal shares, another number of them, and the death of one."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import textwrap
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import forebay as fb
import numpy as np
import pytest
from pipelines import fingerprint, name


def draw(row, rng):
    return {"id": row["id"], "noise": rng.random()}


def double(columns):
    return {"twice": columns["id"] * 2}


DEALT = {
    "batches": lambda: fb.range(1003).shuffle().map(draw, schema={"id": "int64", "noise": "float64"}).batch(8),
    "whole batches": lambda: fb.range(500).shuffle().batch(7, drop_remainder=True).map(double, writes="twice"),
    "ordered": lambda: fb.range(997).skip(5).shard(2, 1).batch(4),
    "repeated": lambda: fb.range(90).shuffle().repeat(4).take(350).batch(3),
    "samples": lambda: fb.range(200).shuffle(),
    "many samples": lambda: fb.range(10_000).map(draw, schema={"id": "int64", "noise": "float64"}).shuffle(),
}


class Ranks:
    """Consumers that step together, in process or on a service."""

    def __init__(self, ds, world, *, service=None, state=None, **options):
        job = name()
        self.readers = []
        for rank in range(world):
            who = (rank, world)
            made = ds.distribute(service, job=job, consumers=who, **options).iter() if service else None
            made = made or ds.iter(consumers=who, threads=1, **options)
            if state is not None:
                made.load_state_dict(json.loads(json.dumps(state)))
            self.readers.append(made)

    def step(self) -> list:
        """Returns each rank's batch, in rank order; ranks that have ended return nothing."""
        return [fingerprint(batch) for reader in self.readers for batch in itertools.islice(reader, 1)]

    def steps(self, n: int) -> list[list]:
        return [self.step() for _ in range(n)]

    def rest(self) -> list[list]:
        return list(iter(self.step, []))

    def states(self) -> list[dict]:
        return [reader.state_dict() for reader in self.readers]

    def close(self) -> None:
        for reader in self.readers:
            reader.close()


def flat(steps: list[list]) -> list[str]:
    return sorted(repr(batch) for step in steps for batch in step)


@pytest.mark.parametrize("where", ["here", "service", "both"])
@pytest.mark.parametrize("kind", DEALT)
def test_a_stream_is_dealt_anew_to_any_number_of_ranks(kind, where, request):
    rng = random.Random(f"{kind} {where}")
    service = None if where == "here" else request.getfixturevalue("service")
    ds = DEALT[kind]()
    everything = [fingerprint(batch) for batch in ds.iter(seed=5)]
    for _ in range(6):
        worlds = [rng.randint(1, 5) for _ in range(3)]
        unit = 2 if kind == "many samples" else 1
        steps = [unit * rng.randint(0, max(1, len(everything) // world // 4 // unit)) for world in worlds[:2]]
        taken, state = [], None
        for world, count in zip(worlds[:2], steps, strict=True):
            # Here samples are dealt in pairs, so the sequence is checked as a set.
            ranks = Ranks(ds, world, service=service, state=state, seed=5, even=False)
            taken += ranks.steps(count)
            state = rng.choice(ranks.states())
            ranks.close()
        last = Ranks(ds, worlds[2], service=None if where == "both" else service, state=state, seed=5, even=False)
        rest = last.rest()
        case = (worlds, steps)
        gone = sum(a * b for a, b in zip(worlds[:2], steps, strict=True))
        assert flat(taken) == sorted(map(repr, everything[:gone])), case
        assert flat(rest) == sorted(map(repr, everything[gone:])), case


@pytest.mark.parametrize("kind", DEALT)
def test_every_rank_gets_as_much_in_every_epoch(kind, service):
    ds = DEALT[kind]()
    everything = [[fingerprint(b) for b in ds.iter(seed=2, epoch=e)] for e in range(2)]
    for world, cut in [(2, 0), (3, 5), (4, 7), (7, 2)]:
        first = Ranks(ds, 3, seed=2, epochs=2)
        before = first.steps(cut * 2)
        state = first.states()[1]
        here = Ranks(ds, world, state=state, seed=2, epochs=2)
        there = Ranks(ds, world, service=service, state=state, seed=2, epochs=2)
        steps = here.rest()
        assert steps == there.rest(), world
        assert {len(step) for step in steps} == {world}
        # An epoch leaves out fewer samples than one step has (or one unit of samples for each rank).
        unit = 2 if kind == "many samples" else 1
        left = [len(epoch) % (world * unit) for epoch in everything]
        got = Counter(flat(before + steps))
        want = Counter(repr(batch) for epoch in everything for batch in epoch)
        assert got <= want
        assert (want - got).total() <= sum(left) + world * unit


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
def test_shares_that_cannot_be_even_are_refused(service):
    few = fb.range(10).batch(5)
    counted = fb.range(100).filter(fb.col("id") % 5 == 0).batch(4)
    for iterate in (
        lambda ds, **o: ds.iter(consumers=(0, 3), **o),
        lambda ds, **o: ds.distribute(service, job=name(), consumers=(0, 3), **o).iter(),
    ):
        with pytest.raises(fb.errors.InvalidPipelineError, match="2 batches for 3 consumers"):
            next(iterate(few))
        assert len(list(iterate(few, even=False))) == 1
        with pytest.raises(fb.errors.InvalidPipelineError, match="known only after it has run") as caught:
            next(iterate(counted, even=True))
        assert caught.value.context["op"] == "filter"
        assert sum(len(b["id"]) for b in iterate(counted, even=False)) == 7
    job = name()
    it = fb.range(100).batch(5).distribute(service, job=job, consumers=(0, 3)).iter()
    next(it)
    with pytest.raises(fb.errors.ConflictError, match="even is false, and was true"):
        next(fb.range(100).batch(5).distribute(service, job=job, consumers=(1, 3), even=False).iter())
    with pytest.raises(fb.errors.ConflictError, match="consumers is 2, and was 3") as caught:
        next(fb.range(100).batch(5).distribute(service, job=job, consumers=(1, 2)).iter())
    assert "a saved state fits a job of any name" in str(caught.value)
    assert "6 to each; of 20, 2 are left out" in fb.range(100).batch(5).explain(consumers=3)


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
def test_a_state_that_cannot_be_dealt_anew_says_so():
    def resumed(ds, state, **options):
        it = ds.iter(**options)
        it.load_state_dict(state)
        return next(it)

    filtered = fb.range(100).filter(fb.col("id") % 5 == 0).batch(4)
    it = filtered.iter()
    start = it.state_dict()
    next(it)
    with pytest.raises(fb.errors.InvalidPipelineError, match="cannot be divided again"):
        resumed(filtered, it.state_dict(), consumers=(0, 2))
    assert (
        resumed(filtered, start, consumers=(0, 2))["id"].tolist()
        == next(filtered.iter(consumers=(0, 2)))["id"].tolist()
    )
    samples = fb.range(10**6)
    it = samples.iter()
    next(it)
    with pytest.raises(fb.errors.InvalidPipelineError, match="within a run of 64 samples"):
        resumed(samples, it.state_dict(), consumers=(0, 2))
    assert resumed(samples, it.state_dict())["id"] == 1


def test_a_source_that_changed_since_is_named(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("a\n" * 40)
    ds = fb.from_text(path).shuffle().batch(4)
    it = ds.iter()
    next(it)
    state = it.state_dict()
    path.write_text("a\n" * 50)
    again = ds.iter()
    again.load_state_dict(state)
    with pytest.raises(fb.errors.InvalidPipelineError, match=r"it had 40 rows.* and now has 50 rows"):
        next(again)


def test_a_state_goes_to_a_service_and_back(service):
    ds = fb.from_map_dataset([{"x": i} for i in range(300)]).shuffle().filter(fb.col("x") % 3 != 0).batch(8)
    want = [b["x"].tolist() for b in ds.iter(seed=3, epochs=2)]
    state, got = None, []
    for turn in range(6):
        it = ds.distribute(service, job=name(), seed=3, epochs=2).iter() if turn % 2 else ds.iter(seed=3, epochs=2)
        if state:
            it.load_state_dict(state)
        got += [b["x"].tolist() for b in itertools.islice(it, 7)]
        state = it.state_dict()
        it.close()
    assert got == want[:42]


def test_a_state_beyond_the_last_epoch_is_refused(service):
    ds = fb.range(40).batch(4)
    it = ds.iter(epochs=5, epoch=4)
    next(it)
    state = it.state_dict()
    there = ds.distribute(service, job=name(), epochs=3).iter()
    there.load_state_dict(state)
    with pytest.raises(fb.errors.InvalidPipelineError, match=r"is in epoch 4, and job .* has 3"):
        next(there)
    for options in ({"epochs": 2}, {"epoch": 5}):
        here = ds.iter(**options)
        here.load_state_dict(state)
        with pytest.raises(fb.errors.InvalidPipelineError, match="is in epoch 4, and this iterator has epochs"):
            next(here)


def test_a_state_of_ten_billion_rows_is_small_and_resumes_at_once():
    ds = fb.range(10**10).shuffle().batch(1000)
    it = ds.iter(seed=1)
    state = it.state_dict()
    next(it)
    saved = it.state_dict()
    assert len(json.dumps(saved)) < 600
    at = json.loads(saved["position"])
    units = 10**7 - 2
    split, inside = divmod(units, at["sizing"]["split_units"])
    chunk, unit = divmod(inside, at["sizing"]["morsel_units"])
    at["position"].update(split=split, chunk=chunk, rows=unit * 1000)
    state["position"] = json.dumps(at)
    for world in (1, 2):
        again = ds.iter(seed=1, consumers=(0, world))
        again.load_state_dict(state)
        assert len(list(again)) == 2 // world


RANK = textwrap.dedent(
    """
    import json, sys
    import forebay as fb
    address, rank, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    ds = fb.range(6000).shuffle().batch(10)
    it = ds.distribute(address, job="ranks", consumers=(rank, 3), seed=8, epochs=2).iter()
    if path:
        it.load_state_dict(json.load(open(path)))
    for batch in it:
        print(json.dumps([batch["id"].tolist(), it.state_dict()]), flush=True)
        if sys.stdin.readline() != "go\\n":
            break
    """
)


class Rank:
    """A process that reads one rank's batches, one for each command."""

    def __init__(self, service, rank: int, path: str = "") -> None:
        command = [sys.executable, "-c", RANK, service.address, str(rank), path]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ids: list[list[int]] = []
        self.state: dict = {}

    def read(self, n: int) -> None:
        for _ in range(n):
            self.ids.append([])
            self.ids[-1], self.state = json.loads(self.process.stdout.readline())
            self.process.stdin.write("go\n")
            self.process.stdin.flush()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(90)
        self.process.stdin.close()
        self.process.stdout.close()

    def finish(self) -> None:
        self.read(400 - len(self.ids))
        assert self.process.stdout.readline() == ""
        assert self.process.wait(90) == 0


def test_a_rank_that_dies_harms_no_other_and_rejoins(service, tmp_path):
    want = [[b["id"].tolist() for b in fb.range(6000).shuffle().batch(10).iter(seed=8, epochs=2, consumers=(i, 3))]
            for i in range(3)]  # fmt: skip
    ranks = [Rank(service, i) for i in range(3)]
    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda r: r.read(50), ranks))
            dead = ranks[1]
            dead.close()
            list(pool.map(Rank.finish, [ranks[0], ranks[2]]))
        assert [ranks[i].ids for i in (0, 2)] == [want[0], want[2]]
        path = tmp_path / "state.json"
        path.write_text(json.dumps(dead.state))
        ranks[1] = Rank(service, 1, str(path))
        ranks[1].ids = dead.ids
        ranks[1].finish()
        assert ranks[1].ids == want[1]
    finally:
        for rank in ranks:
            rank.close()


def lines(folder, counts):
    """Text files with these numbers of lines. Each line has a different number."""
    number = itertools.count()
    for i, count in enumerate(counts):
        text = "".join(f"{next(number)}\n" for _ in range(count))
        (folder / f"{i}.txt").write_text(text)
    return fb.from_text(str(folder / "*.txt"))


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("on_service", [False, True])
def test_files_that_one_reader_would_not_count_are_dealt_as_batches(world, on_service, tmp_path, service):
    ds = lines(tmp_path, [100, 200, 300])
    for made in (ds.batch(10), ds.skip(10).batch(10), ds.take(300).batch(10), ds.shard(2, 1).batch(7)):
        whole = [b["text"].tolist() for b in made.iter()]
        readers = (
            [made.distribute(service, job=job, consumers=(i, world)) for job in [name()] for i in range(world)]
            if on_service
            else [made.iter(consumers=(i, world)) for i in range(world)]
        )
        got = [[b["text"].tolist() for b in reader] for reader in readers]
        assert {len(g) for g in got} == {len(whole) // world}, "every rank gets as many"
        assert [got[i % world][i // world] for i in range(len(whole) // world * world)] == whole[
            : len(whole) // world * world
        ]


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
def test_what_ranks_cannot_do_each_for_itself_is_refused(service):
    rows = fb.range(1000).filter(fb.col("id") % 3 != 0)
    options = {"consumers": (1, 2), "seed": 3}
    assert len(list(rows.batch(8).iter(**options))) > 0
    for made, op in ((rows.take(10), "take"), (rows.skip(10), "skip"), (rows.shard(2, 1), "shard")):
        for read in (made.iter, lambda made=made, **kw: made.distribute(service, job=name(), **kw)):
            with pytest.raises(fb.errors.InvalidPipelineError, match=f"{op} comes after filter, and several consumers"):
                next(iter(read(**options)))
        assert len(list(made.iter())) > 0, "one reader may"
    with pytest.raises(fb.errors.InvalidPipelineError, match="generator is read from its start by one consumer"):
        next(iter(fb.from_generator(lambda: iter([{"x": 1}])).iter(consumers=(0, 2))))


def documents() -> fb.Dataset:
    tokens = lambda row: {"ids": np.full(row["id"] % 7, row["id"], np.int32)}  # noqa: E731
    return fb.range(300).shuffle().map(tokens, schema={"ids": ("int32", (None,))})


UNEVEN = {
    "filter": lambda: fb.range(500).shuffle().filter(fb.col("id") % 3 != 0).batch(8),
    "filter, whole batches": lambda: fb.range(500).filter(fb.col("id") % 7 < 4).batch(8, drop_remainder=True),
    "pack": lambda: documents().pack("ids", 32).batch(3),
    "take": lambda: fb.range(900).shuffle().filter(fb.col("id") % 2 == 0).take(101).batch(5),
    "known": lambda: fb.range(203).shuffle().batch(4),
    "generator": lambda: fb.from_generator(lambda: ({"id": np.int64(i)} for i in range(100))).batch(3),
}


@pytest.mark.parametrize("on_service", [False, True])
@pytest.mark.parametrize("kind", UNEVEN)
def test_coordinated_ranks_end_together_with_any_numbers_of_own_batches(kind, on_service, request):
    """Each step of n ranks is the next n batches of one consumer, and a state of any rank fits any number of them."""
    ds, rng = UNEVEN[kind](), random.Random(kind)
    service = request.getfixturevalue("service") if on_service else None
    whole = [[fingerprint(batch) for batch in ds.iter(seed=3, epoch=epoch)] for epoch in range(2)]
    for world in (1, 2, 3):
        options = {"seed": 3, "epochs": 2, "coordinated": True, "service": service}
        ranks = Ranks(ds, world, **options)
        cut = rng.randint(0, len(whole[0]) // world)
        steps = ranks.steps(cut)
        state = rng.choice(ranks.states())
        rest = ranks.rest()
        assert {len(step) for step in steps + rest} <= {world}, "all ranks end at the same step"
        full = [len(epoch) // world * world - world for epoch in whole]
        got = [batch for step in steps + rest for batch in step]
        assert got[: full[0]] == whole[0][: full[0]]
        again = Ranks(ds, world, state=state, **options)
        assert again.rest() == rest
        other = Ranks(ds, world + 1, state=state, **options)
        first = other.step()
        assert first == whole[0][cut * world :][: world + 1] or cut * world + world + 1 >= len(whole[0])
        assert {len(step) for step in [first, *other.rest()]} <= {0, world + 1}
        for readers in (ranks, again, other):
            readers.close()
