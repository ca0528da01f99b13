"""Two real ranks: they get the rows that Accelerate deals, get the right warnings, and end together."""

from __future__ import annotations

from typing import Any

import forebay as fb
import pytest
from launch import on_ranks

ROWS = list(range(64))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict[str, Any]]:
    with fb.up(workers=1) as service:
        return on_ranks("rank_of_two.py", tmp_path_factory.mktemp("ranks"), service.address)


def flat(lists: list) -> list:
    return [i for part in lists for i in part]


@pytest.mark.parametrize(("dispatch", "kind"), [(None, "rows"), (None, "batches"), (False, "rows")])
def test_accelerate_deals_every_row_once_or_is_refused(ranks, dispatch, kind):
    got = [rank[f"accelerate {dispatch} not dealt {kind}"] for rank in ranks]
    for epoch in range(2):
        assert sorted(flat([i for g in got for i in g["epochs"][epoch]])) == ROWS
    assert [g["warned"] for g in got] == [[], []]
    dealt = [rank[f"accelerate {dispatch} dealt {kind}"] for rank in ranks]
    assert all("consumers=(" in d["refused"] and "leave consumers= out" in d["refused"] for d in dealt)


def test_a_loader_that_deals_nothing_gives_each_rank_its_share(ranks):
    for epoch in range(2):
        assert sorted(flat([b for rank in ranks for b in rank["shard"][epoch]])) == ROWS
    assert [rank["shard again"] for rank in ranks] == [rank["shard"][1] for rank in ranks]
    assert all(resumed == rank["shard"][0] for rank in ranks for resumed in rank["shard resumed"])


def test_ranks_are_warned_of_what_training_in_step_would_not_stand(ranks):
    for index, rank in enumerate(ranks):
        warned = rank["warned"]
        assert f"this is process {index} of 2 (torch.distributed)" in warned["iter"][0]
        assert 'write consumers="auto" in to_torch()' in warned["to_torch"][0]
        assert "consumers=(torch.distributed.get_rank(), torch.distributed.get_world_size())" in warned["to_torch"][0]
        assert "filter" in warned["uneven"][0]
        assert 'to_torch(even="drop")' in warned["uneven"][0]
        assert "on_error" in warned["tolerant"][0]
        assert all(warned[quiet] == [] for quiet in ("meant", "dealt", "sharded", "saved", "uneven meant"))
        assert warned["uneven dropped"] == warned["endless"] == []


@pytest.mark.parametrize("which", ["few", "uneven"])
def test_ranks_end_together(ranks, which):
    counts = [[len(epoch) for epoch in rank[f"{which} alone"]] for rank in ranks]
    assert counts[0] != counts[1], "else this shows nothing"
    for index, rank in enumerate(ranks):
        alone = rank[f"{which} alone"]
        for epoch in range(2):
            least, most = min(c[epoch] for c in counts), max(c[epoch] for c in counts)
            mine = alone[epoch]
            assert rank[f"{which} drop"][epoch] == mine[:least]
            assert rank[f"{which} service"][epoch] == mine[:least]
            assert rank[f"{which} pad"][epoch] == mine + mine[-1:] * (most - len(mine))
        for even in ("drop", "pad"):
            want = flat(rank[f"{which} {even}"])
            assert all(cut == want for cut in rank[f"{which} {even} resumed"]), (index, even)
        assert "have one more" in rank[f"{which} error"]
        assert rank[f"{which} service warned"] == []


def test_ranks_of_known_numbers_and_ranks_that_fail(ranks):
    assert [len(rank["known pad"]) for rank in ranks] == [5, 5]
    assert [len(rank["known drop"]) for rank in ranks] == [4, 4]
    assert ranks[1]["known pad"][4] == ranks[1]["known pad"][3] == ranks[1]["written to"][4]
    assert sorted(rank["failing"] for rank in ranks) == ["FunctionError", "UnavailableError"]
