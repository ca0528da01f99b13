"""The main job: train on a stream of batches that a killed worker does not change.

Writes scikit-learn's 1,797 scanned handwritten digits as PNGs into tar shards, starts a dispatcher and two workers
as processes of their own, trains a small NumPy classifier on randomly augmented batches, kills a worker with SIGKILL
in the middle of an epoch, and compares the stream with that of an undisturbed run in this process. What comes before
the augmentation is kept: a second job, with another seed and another augmentation, finds what the first one computed.

    python examples/digits.py [--epochs 12] [--workers 2] [--dir FOLDER]

Exits with 1 when any line of the table at the end is not as promised.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tarfile
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import blake3
import forebay as fb
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

SEED, BATCH, SHARDS, TEST_SHARE = 7, 64, 8, 5
#: The second job, which begins as the first one does.
SECOND_SEED, SECOND_EPOCHS = 8, 3
Batch = dict[str, np.ndarray[Any, Any]]


def write_shards(folder: Path) -> tuple[int, int]:
    """Writes every fifth digit to test.tar and the others to train-*.tar; returns how many there are of each."""
    images, labels = load_digits(return_X_y=True)
    counts = [0, 0]
    with contextlib.ExitStack() as stack:
        test = stack.enter_context(tarfile.open(folder / "test.tar", "w"))
        train = [stack.enter_context(tarfile.open(folder / f"train-{i:03}.tar", "w")) for i in range(SHARDS)]
        for i, (pixels, label) in enumerate(zip(images, labels, strict=True)):
            scan = Image.fromarray((pixels.reshape(8, 8) * 255 / 16).astype(np.uint8)).resize(
                (32, 32), Image.Resampling.BICUBIC
            )
            png = io.BytesIO()
            scan.save(png, "PNG")
            held_out = i % TEST_SHARE == 0
            counts[held_out] += 1
            for extension, data in (("png", png.getvalue()), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{i:05}.{extension}")
                member.size = len(data)
                (test if held_out else train[i % SHARDS]).addfile(member, io.BytesIO(data))
    return counts[0], counts[1]


class Labels:
    """A user's own function: it runs on the workers, in Python processes beside them."""

    def __init__(self, calls: Path) -> None:
        """Leaves a byte in `calls` for each sample that it is called for."""
        self.calls = calls

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Reads the label."""
        with self.calls.open("ab") as calls:
            calls.write(b".")
        return {"label": np.int64(int(sample["cls"]))}

    def count(self) -> int:
        """Returns how often it was called so far, in whatever process."""
        return self.calls.stat().st_size if self.calls.exists() else 0


def prefix(folder: Path, labels: Labels) -> fb.Dataset:
    """What both jobs begin with: nothing in it is random, so it can be computed once."""
    shards = fb.from_tar(str(folder / "train-*.tar")).shuffle()
    return shards.map(labels, reads=["cls"], writes=["label"], name="labels").decode_image("png", mode="L")


def first(ds: fb.Dataset) -> fb.Dataset:
    """What the first job does with each digit, anew in each epoch: the same here and on the service."""
    ds = ds.random_resized_crop("png", 28, scale=(0.6, 1.0))
    return ds.normalize("png", mean=[0.13], std=[0.31], layout="CHW").batch(BATCH)


def second(ds: fb.Dataset) -> fb.Dataset:
    """What the second job does with them."""
    ds = ds.resize("png", 28).random_rotation("png", 15)
    return ds.normalize("png", mean=[0.5], std=[0.5], layout="CHW").batch(BATCH)


class Classifier:
    """A two-layer perceptron with momentum: enough to show that the batches are good to learn from."""

    def __init__(self, hidden: int = 160) -> None:
        """Starts from small random weights, the same every time."""
        rng = np.random.default_rng(0)
        self.weights = [
            rng.standard_normal((784, hidden)) * 0.05,
            np.zeros(hidden),
            rng.standard_normal((hidden, 10)) * 0.1,
            np.zeros(10),
        ]
        self.speed = [np.zeros_like(w) for w in self.weights]

    def forward(self, x: np.ndarray[Any, Any]) -> tuple[Any, Any]:
        """Returns the hidden layer and the logits."""
        hidden = np.maximum(x @ self.weights[0] + self.weights[1], 0)
        return hidden, hidden @ self.weights[2] + self.weights[3]

    def train(self, batch: Batch, rate: float) -> None:
        """One step of stochastic gradient descent."""
        x, y = batch["png"].reshape(len(batch["label"]), -1), batch["label"]
        hidden, logits = self.forward(x)
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        p /= len(y)
        back = (p @ self.weights[2].T) * (hidden > 0)
        for w, v, g in zip(self.weights, self.speed, [x.T @ back, back.sum(0), hidden.T @ p, p.sum(0)], strict=True):
            v *= 0.9
            v -= rate * g
            w += v

    def accuracy(self, batches: list[Batch]) -> float:
        """Returns the share of right answers."""
        right = [(self.forward(b["png"].reshape(len(b["label"]), -1))[1].argmax(1) == b["label"]) for b in batches]
        return float(np.concatenate(right).mean())


class StreamHash:
    """BLAKE3 over every array of every batch, in order."""

    def __init__(self) -> None:
        """Starts with nothing."""
        self.hash = blake3.blake3()

    def add(self, batch: Batch) -> None:
        """Adds a batch: names, dtypes, shapes and bytes."""
        for name in sorted(batch):
            array = batch[name]
            self.hash.update(f"{name}{array.dtype}{array.shape}".encode())
            self.hash.update("\0".join(map(repr, array)).encode() if array.dtype == object else array.tobytes())

    def __str__(self) -> str:
        """The first 16 digits are enough to look at."""
        return str(self.hash.hexdigest()[:16])


class Progress:
    """One line that is rewritten in a terminal, and one line for each epoch elsewhere."""

    def __init__(self, total: int) -> None:
        """Expects `total` batches in an epoch."""
        self.total, self.tty = total, sys.stderr.isatty()

    def show(self, epoch: int, step: int, rate: float, wait_ms: float, accuracy: float, *, last: bool) -> None:
        """Draws the state of an epoch."""
        if not (self.tty or last):
            return
        filled = 24 * step // self.total
        text = f"epoch {epoch + 1:2}  [{'█' * filled}{'·' * (24 - filled)}]  {rate:7,.0f} samples/s  batch wait {wait_ms:5.1f} ms  accuracy {accuracy:.3f}"
        print(("\r" if self.tty else "") + text, end="\n" if last else "", file=sys.stderr, flush=True)


def hashed(ds: fb.Dataset, seed: int, epochs: int) -> str:
    """The undisturbed stream, computed in this process."""
    stream = StreamHash()
    for batch in ds.iter(seed=seed, epochs=epochs):
        stream.add(batch)
    return str(stream)


def train(ds: fb.Dataset, test: list[Batch], service: fb.Service, epochs: int, steps: int) -> dict[str, Any]:
    """Trains on the service's stream and kills a worker half-way through the second epoch."""
    model, stream, progress = Classifier(), StreamHash(), Progress(steps)
    seen: list[Counter[str]] = [Counter() for _ in range(epochs)]
    waits: list[float] = []
    killed_at, accuracy, killed = -1, 0.0, 0
    iterator = ds.distribute(service, job="digits", epochs=epochs, seed=SEED).iter()
    step, started = 0, time.perf_counter()
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
        if epoch == 1 and place == steps // 2:
            killed = service.kill_worker(0)
            killed_at = step
        last = place + 1 == steps
        if last:
            accuracy = model.accuracy(test)
        samples = sum(seen[epoch].values())
        progress.show(epoch, place + 1, samples / (time.perf_counter() - started), 1e3 * waits[-1], accuracy, last=last)
        if last and epoch == 1:
            print(f"          worker {killed} was killed with SIGKILL in the middle of this epoch", file=sys.stderr)
    pause = max(waits[killed_at : killed_at + steps]) if killed_at >= 0 else 0.0
    return {"accuracy": accuracy, "seen": seen, "pause": pause, "hash": str(stream), "wait": float(np.median(waits))}


def read_again(ds: fb.Dataset, labels: Labels, service: fb.Service) -> dict[str, Any]:
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


def main() -> int:
    """Runs the demo and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dir", type=Path, help="where to write the shards (default: a temporary folder)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forebay-digits-") as scratch:
        folder = args.dir or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        count, held_out = write_shards(folder)
        labels = Labels(folder / "calls")
        plain = prefix(folder, labels)
        kept = plain.cache()
        ds, other = first(kept), second(kept)
        steps = -(-count // BATCH)
        print(
            f"{count} digits to train on in {SHARDS} tar shards, {held_out} held out\n\n{ds.explain()}", file=sys.stderr
        )
        evaluation = (
            fb.from_tar(str(folder / "test.tar"))
            .map(labels, reads=["cls"], writes=["label"])
            .decode_image("png", mode="L")
            .resize("png", 28)
            .normalize("png", mean=[0.13], std=[0.31], layout="CHW")
            .batch(128)
        )
        test = list(evaluation)
        with fb.up(workers=args.workers, cache=folder / "kept") as service:
            print(f"service at {service.address}, workers {service.worker_pids}", file=sys.stderr)
            result = train(ds, test, service, args.epochs, steps)
            again = read_again(other, labels, service)
        # Without a cache: what is compared with keeps nothing.
        expected = hashed(first(plain), SEED, args.epochs), hashed(second(plain), SECOND_SEED, SECOND_EPOCHS)
    return report(result, again, count, expected, args.epochs)


def report(result: dict[str, Any], again: dict[str, Any], count: int, expected: tuple[str, str], epochs: int) -> int:
    """Prints the table and returns 1 if any line of it is red."""
    each_once = all(len(s) == count and set(s.values()) == {1} for s in result["seen"])
    totals = sorted({sum(s.values()) for s in result["seen"]})
    rows = [
        ("held-out accuracy", f"{result['accuracy']:.3f}", "at least 0.93", result["accuracy"] >= 0.93),
        ("samples per epoch", ", ".join(map(str, totals)), f"{count}, each once, in {epochs} epochs", each_once),
        (
            "longest wait after the kill",
            f"{1e3 * result['pause']:.0f} ms",
            f"under 3000 ms (median wait {1e3 * result['wait']:.1f} ms)",
            result["pause"] < 3,
        ),
        (
            "BLAKE3 of the stream",
            result["hash"],
            f"{expected[0]}, undisturbed, in process, nothing kept",
            result["hash"] == expected[0],
        ),
        (
            "computed for a second job",
            f"{again['computed']} of {again['samples']}",
            "at most a tenth: it finds what the first one computed",
            10 * again["computed"] <= again["samples"],
        ),
        (
            "BLAKE3 of its stream",
            again["hash"],
            f"{expected[1]}, in process, nothing kept",
            again["hash"] == expected[1],
        ),
    ]
    print()
    for name, value, want, good in rows:
        print(f"  {'ok  ' if good else 'FAIL'}  {name:<28} {value:<18} {want}")
    print()
    return 0 if all(good for *_, good in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
