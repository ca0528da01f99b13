"""`forebay demo`: train on a stream of batches that a killed worker does not change.

It starts a dispatcher and two workers as processes of their own, trains a small NumPy classifier on randomly augmented
digits, kills a worker with SIGKILL in the middle of an epoch, and compares the stream with that of an undisturbed run
in this process. The rows before the augmentation are cached: a second job, with another seed and another augmentation,
finds the rows that the first job computed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from forebay import examples
from forebay._src.dataset import Dataset
from forebay._src.demo.classifier import Batch, Classifier
from forebay._src.demo.pipelines import BATCH, Labels, first, held_out, prefix, second
from forebay._src.service.service import Service, up

SEED = 7
#: The second job begins with the same ops as the first one.
SECOND_SEED, SECOND_EPOCHS = 8, 3
#: The epoch, from 0, in the middle of which a worker is killed.
KILL_EPOCH = 1


def demo(options: str, folder: str) -> str:
    """Runs the demo and returns its table as JSON. The command calls this.

    Args:
        options: JSON with `epochs`, `workers` and `shards`: a folder of train-*.tar and test.tar, or null for digits
            that are drawn.
        folder: The folder for the demo's files.
    """
    chosen = json.loads(options)
    shards = Path(chosen["shards"]) if chosen["shards"] else examples.digits(Path(folder) / "shards")
    return json.dumps(_run(shards, Path(folder), chosen["epochs"], chosen["workers"]))


def _run(shards: Path, folder: Path, epochs: int, workers: int) -> list[dict[str, Any]]:
    labels = Labels(folder / "calls")
    plain = prefix(shards, labels)
    kept = plain.cache()
    ds, other = first(kept), second(kept)
    test = list(held_out(shards, labels))
    count = sum(1 for _ in plain.select("__key__"))
    print(
        f"{count} digits to train on, {sum(len(b['label']) for b in test)} held out\n\n{ds.explain()}", file=sys.stderr
    )
    with up(workers=workers, cache=folder / "kept", state_dir=folder / "state") as service:
        print(f"service at {service.address}, workers {service.worker_pids}", file=sys.stderr)
        result = _train(ds, test, service, epochs, -(-count // BATCH))
        again = _read_again(other, labels, service)
    # Without a cache, so that the undisturbed run keeps nothing.
    expected = _hashed(first(plain), SEED, epochs), _hashed(second(plain), SECOND_SEED, SECOND_EPOCHS)
    return _table(result, again, count, expected, epochs)


class StreamHash:
    """SHA-256 over every array of every batch, in order."""

    def __init__(self) -> None:
        """Starts with nothing."""
        self._hash = hashlib.sha256()

    def add(self, batch: Batch) -> None:
        """Adds a batch: names, dtypes, shapes and bytes."""
        for name in sorted(batch):
            array = batch[name]
            self._hash.update(f"{name}{array.dtype}{array.shape}".encode())
            self._hash.update("\0".join(map(repr, array)).encode() if array.dtype == object else array.tobytes())

    def __str__(self) -> str:
        """Returns the first 16 digits, which are enough to compare by eye."""
        return self._hash.hexdigest()[:16]


class Progress:
    """One line that is rewritten in a terminal, and one line for each epoch in other outputs."""

    def __init__(self, total: int) -> None:
        """Expects `total` batches in an epoch."""
        self.total, self.tty = total, sys.stderr.isatty()

    def show(self, epoch: int, step: int, rate: float, wait_ms: float, accuracy: float, *, last: bool) -> None:
        """Draws the state of an epoch."""
        if not (self.tty or last):
            return
        filled = 24 * step // self.total
        bar = f"[{'█' * filled}{'·' * (24 - filled)}]"
        text = (
            f"epoch {epoch + 1:2}  {bar}  {rate:7,.0f} samples/s  batch wait {wait_ms:5.1f} ms  accuracy {accuracy:.3f}"
        )
        print(("\r" if self.tty else "") + text, end="\n" if last else "", file=sys.stderr, flush=True)


def _hashed(ds: Dataset, seed: int, epochs: int) -> str:
    """Returns the hash of the undisturbed stream, computed in this process."""
    stream = StreamHash()
    for batch in ds.iter(seed=seed, epoch=0, epochs=epochs):
        stream.add(batch)
    return str(stream)


def _train(ds: Dataset, test: list[Batch], service: Service, epochs: int, steps: int) -> dict[str, Any]:
    """Trains on the service's stream and kills a worker half-way through the second epoch."""
    model, stream, progress = Classifier(), StreamHash(), Progress(steps)
    seen: list[Counter[str]] = [Counter() for _ in range(epochs)]
    waits: list[float] = []
    killed_at, accuracy, step, started = -1, 0.0, 0, time.perf_counter()
    iterator = ds.distribute(service, job="digits", epochs=epochs, seed=SEED).iter()
    while True:
        before = time.perf_counter()
        batch = next(iterator, None)
        waits.append(time.perf_counter() - before)
        if batch is None:
            break
        epoch, place = divmod(step, steps)
        if place == 0:
            started = before
        seen[epoch].update(batch["__key__"].tolist())
        stream.add(batch)
        model.train(batch, rate=0.06 * (1 - step / (epochs * steps)) + 0.004)
        step += 1
        if epoch == KILL_EPOCH and place == steps // 2:
            print(f"\nworker {service.kill_worker(0)} is killed with SIGKILL in the middle of epoch 2", file=sys.stderr)
            killed_at = step
        last = place + 1 == steps
        if last:
            accuracy = model.accuracy(test)
        rate = sum(seen[epoch].values()) / (time.perf_counter() - started)
        progress.show(epoch, place + 1, rate, 1e3 * waits[-1], accuracy, last=last)
    pause = max(waits[killed_at : killed_at + steps]) if killed_at >= 0 else 0.0
    return {"accuracy": accuracy, "seen": seen, "pause": pause, "hash": str(stream), "wait": float(np.median(waits))}


def _read_again(ds: Dataset, labels: Labels, service: Service) -> dict[str, Any]:
    """Reads the second job's stream, and counts the samples that were computed for it."""
    stream, samples, before, started = StreamHash(), 0, labels.count(), time.perf_counter()
    for batch in ds.distribute(service, job="digits, rotated", epochs=SECOND_EPOCHS, seed=SECOND_SEED):
        stream.add(batch)
        samples += len(batch["label"])
    computed, rate = labels.count() - before, samples / (time.perf_counter() - started)
    print(
        f"second job  {samples} samples, {rate:,.0f} samples/s; the first job computed {before}, this one {computed}",
        file=sys.stderr,
    )
    return {"hash": str(stream), "samples": samples, "computed": computed}


def _table(
    result: dict[str, Any], again: dict[str, Any], count: int, expected: tuple[str, str], epochs: int
) -> list[dict[str, Any]]:
    """Returns the promises and the results, a row for each promise."""
    each_once = all(len(s) == count and set(s.values()) == {1} for s in result["seen"])
    totals = ", ".join(map(str, sorted({sum(s.values()) for s in result["seen"]})))
    wait = f"under 3000 ms (median wait {1e3 * result['wait']:.1f} ms)"
    undisturbed = "undisturbed, in process, nothing kept"
    rows = [
        ("held-out accuracy", f"{result['accuracy']:.3f}", "at least 0.93", result["accuracy"] >= 0.93),
        ("samples per epoch", totals, f"{count}, each once, in {epochs} epochs", each_once),
        ("longest wait after the kill", f"{1e3 * result['pause']:.0f} ms", wait, result["pause"] < 3),
        ("SHA-256 of the stream", result["hash"], f"{expected[0]}, {undisturbed}", result["hash"] == expected[0]),
        (
            "computed for a second job",
            f"{again['computed']} of {again['samples']}",
            "at most a tenth: it finds what the first one computed",
            10 * again["computed"] <= again["samples"],
        ),
        ("SHA-256 of its stream", again["hash"], f"{expected[1]}, {undisturbed}", again["hash"] == expected[1]),
    ]
    return [{"name": name, "found": found, "promised": promised, "ok": ok} for name, found, promised, ok in rows]
