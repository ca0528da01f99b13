"""Reads a pipeline from a service of two workers, kills one of them, and still gets the same batches.

    python examples/service.py

Elsewhere, `forebay dispatcher` and `forebay worker` run on separate machines, and `fb.connect(address)` takes the place
of `fb.up()`.
"""

from __future__ import annotations

import hashlib

import forebay as fb
import numpy as np

ROWS, BATCH, EPOCHS, SEED = 20_000, 50, 2, 3


def noise(row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A function of yours, which runs on the workers; they get it with the pipeline."""
    wave = np.sin(np.arange(256) * 0.01 * float(row["id"]))
    return {"id": row["id"], "wave": wave.astype(np.float32)}


def pipeline() -> fb.Dataset:
    """Rows in another order each epoch, through a Python function."""
    return fb.range(ROWS).shuffle().map(noise, schema={"id": "int64", "wave": ("float32", [256])}).batch(BATCH)


def digest(batch: dict[str, np.ndarray]) -> str:
    """Returns a hash of a batch's bytes."""
    return hashlib.sha256(batch["id"].tobytes() + batch["wave"].tobytes()).hexdigest()


def main() -> None:
    """Compares the stream of the service with that of this process."""
    ds = pipeline()
    with fb.up(workers=2) as service:
        found = []
        for batch in ds.distribute(service, job="waves", epochs=EPOCHS, seed=SEED):
            found.append(digest(batch))
            if len(found) == 100:
                print(f"batch 100: worker process {service.kill_worker()} is killed")
        (job,) = service.jobs("waves")
        print(f"the job is {job.state}; {len(found)} batches")
    here = [digest(batch) for epoch in range(EPOCHS) for batch in ds.iter(seed=SEED, epoch=epoch)]
    if found != here:
        raise SystemExit("the batches differ")
    print("they equal the batches that this process computes alone")


if __name__ == "__main__":
    main()
