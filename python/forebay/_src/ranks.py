"""Several processes that train together: how this one sees that it is one of them, and what it warns of."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay._src.site import warn

if TYPE_CHECKING:
    from forebay import _native

#: What launchers call the number of a process, and how many there are. Slurm's `SLURM_NTASKS` is no sign of several: a
#: batch script that runs once has it, too.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


class RanksWarning(UserWarning):
    """Several processes train together, and their batches are not what training in step needs.

    Each warning says which argument says that it is meant. `warnings.simplefilter("error", fb.RanksWarning)` makes it
    an error.
    """


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together."""

    #: Which one it is.
    index: int
    #: How many there are.
    count: int
    #: Who says so.
    source: str
    #: The argument that gives each its share.
    consumers: str


def found() -> Ranks | None:
    """Returns which of several processes this is; `None` where it seems to be alone.

    `torch.distributed` and JAX are believed before the variables of launchers, which other programs inherit.
    """
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        write = "consumers=(torch.distributed.get_rank(), torch.distributed.get_world_size())"
        return _several(dist.get_rank(), dist.get_world_size(), "torch.distributed", write)
    # Asked before jax.distributed is, process_count() would start JAX's devices.
    begun = getattr(getattr(sys.modules.get("jax"), "distributed", None), "is_initialized", None)
    if begun is not None and begun():
        jax = sys.modules["jax"]
        write = "consumers=(jax.process_index(), jax.process_count())"
        return _several(jax.process_index(), jax.process_count(), "jax.distributed", write)
    for rank, size in _LAUNCHERS:
        index, count = os.environ.get(rank, ""), os.environ.get(size, "")
        if index.isdecimal() and count.isdecimal():
            write = f'consumers=(int(os.environ["{rank}"]), int(os.environ["{size}"]))'
            return _several(int(index), int(count), f"{rank} and {size} in the environment", write)
    return None


def _several(index: int, count: int, source: str, write: str) -> Ranks | None:
    return Ranks(index, count, source, write) if count > 1 else None


def warn_of_ranks(
    pipeline: _native.Pipeline,
    consumers: tuple[int, int] | None,
    even: bool | None,
    coordinated: bool,
    epochs: int | None,
) -> None:
    """Warns of what ranks that train in step would not stand: the same batches for all, or more of them for some."""
    if consumers is None:
        warn_of_equal_batches(pipeline)
    elif consumers[1] > 1 and even is None and epochs is not None and not coordinated:
        _warn_of_unequal_counts(pipeline, consumers[1])


def warn_of_equal_batches(pipeline: _native.Pipeline) -> None:
    """Several processes read, and nothing says which of them this is."""
    ranks = found()
    if ranks is None or _is_sharded(pipeline):
        return
    warn(
        f"this is process {ranks.index} of {ranks.count} ({ranks.source}), and consumers= is not given: each of them "
        f"gets the same batches (write {ranks.consumers}; where each is to have all batches, consumers=(0, 1))",
        RanksWarning,
    )


def _warn_of_unequal_counts(pipeline: _native.Pipeline, count: int) -> None:
    """Some of several consumers may have fewer batches than others, and nothing says that it is meant."""
    op = pipeline.uneven(count)
    if op is None:
        return
    warn(
        f"{op}: how many batches each of {count} consumers gets is known only when it has run, and one that ends "
        "before the others leaves them waiting for it in their next collective operation (write "
        'to_torch(even="drop") or even="pad"; or distribute(), where they end together; or coordinated=True, with '
        "which each computes everything; or take a number of steps over epochs=None; where the numbers may differ, "
        "even=False)",
        RanksWarning,
    )


def _is_sharded(pipeline: _native.Pipeline) -> bool:
    """Whether the pipeline itself takes a part: then it is the user who deals."""
    return any(node["op"]["op"] == "shard" for node in json.loads(pipeline.to_json())["nodes"])
