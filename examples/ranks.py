"""Two ranks read one data set, stop in the middle of an epoch, and resume from their states with the next batches.

    python examples/ranks.py

Each rank is a process, as under `torchrun`, and reads its own share: no sample goes to both. The state of a rank is a few
hundred bytes of JSON, which belongs into its checkpoint.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
from pathlib import Path

import forebay as fb

RANKS, ROWS, BATCH, STOP, SEED = 2, 4000, 32, 20, 11


def pipeline() -> fb.Dataset:
    """Ids and their squares, in another order each epoch."""
    return fb.range(ROWS).shuffle().with_column("square", fb.col("id") * fb.col("id")).batch(BATCH)


def train(rank: int, folder: str, steps: int | None) -> None:
    """Reads batches of one rank, from its checkpoint if there is one, and writes its ids and its new checkpoint."""
    checkpoint, log = Path(folder, f"checkpoint-{rank}.json"), Path(folder, f"seen-{rank}.txt")
    batches = pipeline().iter(seed=SEED, epochs=2, consumers=(rank, RANKS))
    if checkpoint.exists():
        batches.load_state_dict(json.loads(checkpoint.read_text()))
    with open(log, "a") as seen:
        for step, batch in enumerate(batches, start=1):
            seen.write(" ".join(map(str, batch["id"])) + "\n")
            if step == steps:
                break
    checkpoint.write_text(json.dumps(batches.state_dict()))


def run(folder: str, steps: int | None) -> None:
    """Runs all ranks, each in a separate process, for so many steps or to the end."""
    spawn = multiprocessing.get_context("spawn")
    ranks = [spawn.Process(target=train, args=(rank, folder, steps)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
        if process.exitcode:
            raise SystemExit(f"a rank ended with {process.exitcode}")


def main() -> None:
    """Compares runs that stopped and resumed with a run that did not stop."""
    with tempfile.TemporaryDirectory(prefix="forebay-ranks-") as folder:
        run(folder, STOP)
        run(folder, None)
        for rank in range(RANKS):
            seen = Path(folder, f"seen-{rank}.txt").read_text().splitlines()
            whole = pipeline().iter(seed=SEED, epochs=2, consumers=(rank, RANKS))
            same = seen == [" ".join(map(str, batch["id"])) for batch in whole]
            print(
                f"rank {rank}: {len(seen)} batches, stopped after {STOP}: {'the same' if same else 'DIFFERENT'} batches"
            )
            if not same:
                raise SystemExit(1)


if __name__ == "__main__":
    main()
