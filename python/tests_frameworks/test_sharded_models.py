"""Two real ranks with a model that FSDP shards: each gets its part of the batches, also after a resume."""

from __future__ import annotations

from typing import Any

import pytest
from launch import on_ranks


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict[str, Any]]:
    return on_ranks("rank_of_fsdp.py", tmp_path_factory.mktemp("fsdp"))


def test_ranks_get_all_rows_once(ranks):
    for epoch in range(2):
        assert sorted(row for rank in ranks for row in rank["epochs"][epoch]) == list(range(96))
    assert ranks[0]["epochs"][0] != ranks[0]["epochs"][1]


def test_a_resumed_run_ends_with_the_weights_of_one_that_was_not_stopped(ranks):
    for rank in ranks:
        first, second = rank["after"]
        assert [rank["before"] + first, second] == rank["epochs"]
        assert rank["weights again"] == rank["weights"]
    assert ranks[0]["weights"] == ranks[1]["weights"]
