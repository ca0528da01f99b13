"""One of two ranks of PyTorch and Accelerate. Writes its rows and warnings to <folder>/<rank>.json."""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from pathlib import Path

import forebay as fb
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.data_loader import DataLoaderShard
from torch.utils.data import DataLoader

ROWS = 64
out: dict[str, object] = {}
folder, address = Path(sys.argv[1]), sys.argv[2]
accelerator = Accelerator(cpu=True)
rank, world = accelerator.process_index, accelerator.num_processes
mine = {"consumers": (rank, world)}


def ids(batches) -> list:
    return [batch["id"].reshape(-1).tolist() for batch in batches]


def said(read) -> list[str]:
    """Returns the warnings that Forebay gives during a read."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read()
    return [str(w.message) for w in caught if issubclass(w.category, fb.RanksWarning)]


def accelerate_deals() -> None:
    """Prepares a loader in each way, and notes the rows of this rank, its warnings, or its error."""
    for dispatch in (None, False):
        accelerator.dataloader_config.dispatch_batches = dispatch
        for dealt, options in (("not dealt", {}), ("dealt", mine)):
            for kind, ds, size in (("rows", fb.range(ROWS), 4), ("batches", fb.range(ROWS).batch(4), None)):
                if kind == "batches" and dispatch is False:
                    continue  # Accelerate raises a TypeError: it wants a batch_size
                got: dict[str, object] = {}

                def read(ds=ds, size=size, options=options, got=got) -> None:
                    loader = accelerator.prepare(DataLoader(ds.to_torch(seed=1, **options), batch_size=size))
                    try:
                        got["epochs"] = [ids(loader) for _ in range(2)]
                    except fb.errors.InvalidPipelineError as error:
                        got["refused"] = str(error)

                got["warned"] = said(read)
                out[f"accelerate {dispatch} {dealt} {kind}"] = got
                accelerator.wait_for_everyone()
    loader = DataLoaderShard(
        fb.range(ROWS).shuffle().batch(4).to_torch(seed=1, **mine), device=accelerator.device, batch_size=None
    )
    out["shard"] = [ids(loader) for _ in range(2)]
    loader.set_epoch(1)
    out["shard again"] = ids(loader)
    out["shard resumed"] = []
    for step in range(1, 8):
        made = lambda: DataLoaderShard(  # noqa: E731
            fb.range(ROWS).shuffle().batch(4).to_torch(seed=1, **mine), batch_size=None, use_stateful_dataloader=True
        )
        first, again = made(), made()
        seen = ids(itertools.islice(first, step))
        again.load_state_dict(first.state_dict())
        out["shard resumed"].append(seen + ids(again))


def warnings_of_ranks() -> None:
    """Notes the warnings of each call."""
    ds, uneven = fb.range(40).batch(4), fb.range(40).filter(fb.col("id") % 4 != 0).batch(3)
    out["warned"] = {
        "iter": said(lambda: [list(ds.iter()), list(ds.iter())][:0]),
        "to_torch": said(lambda: list(ds.to_torch())),
        "meant": said(lambda: list(ds.iter(consumers=(0, 1)))),
        "dealt": said(lambda: list(ds.iter(**mine))),
        "sharded": said(lambda: list(fb.range(40).shard(world, rank).batch(4).iter())),
        "saved": said(lambda: fb.range(40).save(folder / f"saved-{rank}")),
        "uneven": said(lambda: list(uneven.iter(**mine))),
        "uneven meant": said(lambda: list(uneven.iter(**mine, even=False))),
        "uneven dropped": said(lambda: list(uneven.to_torch(**mine, even="drop"))),
        "endless": said(lambda: list(itertools.islice(uneven.iter(**mine, epochs=None), 3))),
        "tolerant": said(lambda: list(ds.iter(**mine, on_error="skip"))),
    }


def ends_together() -> None:
    """Notes the batches of this rank if a filter leaves one rank more batches than the other."""
    few = fb.range(64).filter((fb.col("id") % 2 == 1) | (fb.col("id") < 12)).batch(8)
    uneven = fb.range(400).filter((fb.col("id") % 2 == 0) | (fb.col("id") < 100)).batch(8)
    for which, ds in (("few", few), ("uneven", uneven)):
        alone = [ids(ds.iter(epoch=epoch, even=False, **mine)) for epoch in range(2)]
        out[f"{which} alone"] = alone
        for even in ("drop", "pad"):
            make = lambda ds=ds, even=even: ds.to_torch(seed=0, even=even, **mine)  # noqa: E731
            whole = make()
            out[f"{which} {even}"] = [ids(whole) for _ in range(2)]
            cuts = []
            for cut in range(len(out[f"{which} {even}"][0]) + 1):
                dataset = make()
                before = ids(itertools.islice(dataset, cut)) if cut else []
                state = json.loads(json.dumps(dataset.state_dict()))
                again = make()
                again.load_state_dict(state)
                cuts.append(before + ids(again) + ids(again))
            out[f"{which} {even} resumed"] = cuts
        try:
            list(ds.to_torch(even="error", **mine))
            out[f"{which} error"] = None
        except fb.errors.InvalidPipelineError as error:
            out[f"{which} error"] = str(error)
        dataset = ds.to_torch(address, job=f"together-{which}", epochs=2, **mine)
        told: list = []
        out[f"{which} service warned"] = said(lambda dataset=dataset, told=told: told.extend(ids(dataset)))
        out[f"{which} service"] = [told, ids(dataset)]
    known = fb.range(36).batch(4)
    out["known pad"] = ids(known.to_torch(even="pad", **mine))
    out["known drop"] = ids(known.to_torch(even="drop", **mine))
    out["written to"] = []
    for batch in known.to_torch(even="pad", **mine):
        out["written to"].append(batch["id"].tolist())
        batch["id"].zero_()
    failing = fb.range(400).filter(lambda row: row["id"] != 301 or {}["301"]).batch(8)
    try:
        ids(failing.to_torch(even="drop", **mine))
    except fb.errors.ForebayError as error:
        out["failing"] = type(error).__name__


accelerate_deals()
warnings_of_ranks()
ends_together()
(folder / f"{rank}.json").write_text(json.dumps(out))
dist.barrier()
dist.destroy_process_group()
