"""A trainer in a separate process that saves its state and resumes from it, as a user's job does.

Its only argument is its configuration, as JSON. It writes the rows that it was given to a file; at each save it notes
the file's length with the iterator's state, and a trainer that starts cuts the file to that length, as a model goes
back to its checkpoint. It prints a line for each batch.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from forebay._src.selftest import workload
from forebay._src.selftest.oracle import Stream, digests
from forebay._src.selftest.reading import STEP_SECONDS

#: Batches between two saves.
SAVE_EVERY = 16
ROWS, STATE = "rows.bin", "state.json"


def train(config: dict[str, Any]) -> None:
    """Reads a job to its end, from the last save on."""
    folder = Path(config["folder"])
    ds = workload.dataset(config["data"], Path(config["source"]), config["log"])
    job = ds.distribute(config["service"], job="selftest", epochs=config["epochs"], seed=config["seed"])
    batches = job.iter()
    saved: dict[str, Any] = {"bytes": 0, "batches": 0}
    if (folder / STATE).exists():
        saved = json.loads((folder / STATE).read_text())
    if "state" in saved:
        batches.load_state_dict(saved["state"])
    with (folder / ROWS).open("ab") as rows:
        rows.truncate(saved["bytes"])
        for count, batch in enumerate(batches, saved["batches"] + 1):
            ids = np.array(batch["id"], np.int64)
            head = np.array([batches.epoch, len(ids)], np.int64)
            rows.write(head.tobytes() + ids.tobytes() + digests(batch).tobytes())
            rows.flush()
            if count % SAVE_EVERY == 0:
                save(folder, {"state": batches.state_dict(), "bytes": rows.tell(), "batches": count})
            print(count, flush=True)
            time.sleep(STEP_SECONDS)


def save(folder: Path, state: dict[str, Any]) -> None:
    """Replaces the saved state atomically."""
    new = folder / (STATE + ".new")
    new.write_text(json.dumps(state))
    os.replace(new, folder / STATE)


def load(folder: Path) -> Stream:
    """Returns the rows that a trainer was given."""
    data, stream, at = (folder / ROWS).read_bytes(), Stream(), 0
    while at < len(data):
        epoch, count = (int(n) for n in np.frombuffer(data, np.int64, 2, at))
        ids = np.frombuffer(data, np.int64, count, at + 16)
        stream.put(epoch, ids, np.frombuffer(data, np.uint64, count, at + 16 + 8 * count))
        at += 16 + 16 * count
    return stream


def main() -> None:
    """Runs with the configuration of the command line."""
    train(json.loads(sys.argv[1]))
