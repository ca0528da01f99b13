"""Two real ranks with a model that FSDP shards: each gets its part of the batches, also after a resume."""

from __future__ import annotations

import math
from typing import Any

import pytest
from launch import on_ranks


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict[str, Any]]:
    return on_ranks("rank_of_fsdp.py", tmp_path_factory.mktemp("fsdp"))


def test_ranks_get_rows_once_and_end_together(ranks):
    kept = {row for row in range(400) if row % 7 < 2}
    for epoch in range(2):
        mine, other = (rank["epochs"][epoch] for rank in ranks)
        assert len(mine + other) == len({*mine, *other})
        assert {*mine, *other} <= kept
        assert math.ceil(len(mine) / 8) == math.ceil(len(other) / 8)
        assert len(mine + other) > 0.8 * len(kept)
    assert ranks[0]["epochs"][0] != ranks[0]["epochs"][1]


def test_a_resumed_run_ends_with_the_weights_of_one_that_was_not_stopped(ranks):
    for rank in ranks:
        first, second = rank["after"]
        assert [rank["before"] + first, second] == rank["epochs"]
        assert rank["weights again"] == rank["weights"]
    assert ranks[0]["weights"] == ranks[1]["weights"]
