"""Several processes that train together: finds whether this is one of them, and warns if their batches do not fit."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay._src.site import warn

if TYPE_CHECKING:
    from forebay import _native

#: The variables in which launchers put the number of a process, and the number of processes. Slurm's `SLURM_NTASKS`
#: does not mean several processes: a batch script that runs once has it, too.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


class RanksWarning(UserWarning):
    """Several processes train together, and their batches do not suit synchronous training.

    Each warning names the argument that confirms the intention. `warnings.simplefilter("error", fb.RanksWarning)` makes
    it an error.
    """


@dataclass(frozen=True)
class Ranks:
    """This process among the processes that train together."""

    #: The number of this process.
    index: int
    #: The number of processes.
    count: int
    #: The library or launcher that set these.
    source: str
    #: The code of the argument `consumers=` that deals each process its share.
    consumers: str


def found() -> Ranks | None:
    """Returns which of several processes this is, or `None` if it seems to be alone.

    `torch.distributed` and JAX precede the variables of launchers, which other programs inherit.
    """
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        write = "consumers=(torch.distributed.get_rank(), torch.distributed.get_world_size())"
        return _several(dist.get_rank(), dist.get_world_size(), "torch.distributed", write)
    # Before jax.distributed is initialised, process_count() would start JAX's devices.
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
    """Warns if ranks that train synchronously get the same batches, or if some get more batches than others."""
    if consumers is None:
        warn_of_equal_batches(pipeline)
    elif consumers[1] > 1 and even is None and epochs is not None and not coordinated:
        _warn_of_unequal_counts(pipeline, consumers[1])


def warn_of_equal_batches(pipeline: _native.Pipeline) -> None:
    """Warns if several processes read and the pipeline does not say which of them this is."""
    ranks = found()
    if ranks is None or is_sharded(pipeline):
        return
    warn(
        f"this is process {ranks.index} of {ranks.count} ({ranks.source}), and consumers= is not given: each of them "
        f'gets the same batches (write consumers="auto" in to_torch(), {ranks.consumers} in iter(); where each is to '
        "have all batches, consumers=(0, 1))",
        RanksWarning,
    )


def _warn_of_unequal_counts(pipeline: _native.Pipeline, count: int) -> None:
    """Warns if some consumers may have fewer batches than others and the user has not confirmed that."""
    op = pipeline.uneven(count)
    if op is None:
        return
    # On a service, the consumers of a mix whose rows are not counted end each by itself.
    service = "" if op == "mix" else "distribute(), where they end together; or "
    warn(
        f"{op}: how many batches each of {count} consumers gets is known only when it has run, and one that ends "
        "before the others leaves them waiting for it in their next collective operation (write "
        f'to_torch(even="drop") or even="pad"; or {service}coordinated=True, with '
        "which each computes everything; or take a number of steps over epochs=None; where the numbers may differ, "
        "even=False)",
        RanksWarning,
    )


def is_sharded(pipeline: _native.Pipeline) -> bool:
    """Returns whether the pipeline itself has a `shard`: then the user divides the samples."""
    return any(node["op"]["op"] == "shard" for node in json.loads(pipeline.to_json())["nodes"])
