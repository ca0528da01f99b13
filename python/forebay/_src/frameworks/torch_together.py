"""Makes the ranks of `torch.distributed` end an epoch at the same step, with any number of batches each.

At each step every rank sends the others whether it has a batch. So the batches that are left out, or come again, follow
from the numbers of batches alone, which follow from the pipeline, the seed, the epoch and the number of consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from forebay._src.arguments import Even
from forebay.errors import InvalidPipelineError, UnavailableError

Sample: TypeAlias = dict[str, Any]

#: The default group of this process, and a gloo group over the same ranks for the votes.
_groups: tuple[Any, Any] = (None, None)


def initialised() -> bool:
    """Returns whether this process can vote with others."""
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def together(batches: Iterator[Sample], even: Even, given: bool, last: Callable[[], Sample]) -> Iterator[Sample]:
    """Yields this rank's batches for as many steps as all ranks take.

    Args:
        batches: This rank's batches.
        even: The action at the step at which some ranks have a batch and others have none.
        given: Whether a batch of this epoch was yielded before.
        last: Returns the batch that was yielded last once more.
    """
    steps = 0
    while True:
        batch, failure = None, None
        try:
            batch = next(batches, None)
        except Exception as error:
            failure = error
        has, world = batch is not None, torch.distributed.get_world_size()
        having, able, failed = _sum(has, has or given, failure is not None)
        if failure is not None:
            raise failure
        if failed:
            message = f"{failed} of {world} ranks could not read their next batch, so no rank goes on"
            raise UnavailableError(message, {"hint": "the output of these ranks has the reason"})
        if having == 0 or (having < world and even == "drop"):
            return
        if having < world and even == "error":
            raise InvalidPipelineError(
                f"to_torch: after {steps} batches {having} of {world} ranks have one more, and the others have none",
                {"hint": 'with even="drop" it is left out; with even="pad" the others give their last batch again'},
            )
        if able < world:
            message = f"to_torch: {world - able} of {world} ranks have no batch, so they have none to give again"
            raise InvalidPipelineError(message, {"hint": 'use smaller batches or fewer ranks, or even="drop"'})
        given, steps = True, steps + 1
        yield last() if batch is None else batch


def _sum(*flags: bool) -> list[int]:
    """Returns, for each flag, the number of ranks that set it."""
    global _groups
    world = torch.distributed.group.WORLD
    if _groups[0] is not world:
        _groups = (world, torch.distributed.new_group(backend="gloo"))
    votes = torch.tensor([int(flag) for flag in flags], dtype=torch.int64)
    torch.distributed.all_reduce(votes, group=_groups[1])
    return [int(vote) for vote in votes]
