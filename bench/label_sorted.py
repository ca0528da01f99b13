"""Does a shuffle over windows train as well as one over all samples, where shards are sorted by label?

    python bench/label_sorted.py --seeds 10

Half of the digits that scikit-learn ships, each turned and moved in 32 ways, lie in tar shards sorted by label: 100
shards of 287 samples, ten for each digit. A perceptron with one hidden layer (NumPy, SGD with momentum, a rate that
falls to zero) reads them for a few epochs, in the order of each of these, and is tested on the other half of the digits
as they are:

- `none`: in the order of the shards;
- `buffer`: in that order, through a buffer of 1,000 samples, as WebDataset's `.shuffle(1000)` without `shardshuffle`;
- `webdataset`: shards in random order, and that buffer: `shardshuffle=1000`, `.shuffle(1000)`;
- `window`: Forebay, `shuffle(window="2MiB")`, which is about 1,000 samples as they are stored;
- `global`: Forebay, `shuffle(window=None)`.

A seed decides the first weights and the order; the same seeds train all of them. For each it prints the mean accuracy,
its standard error, the distance below `global` (the mean over the same seeds, and its standard error), and the quality
of the order: how far samples move (a third of the epoch is perfect), and how long runs of one label are (1.1 by
chance). It exits with 1 if `window` is more than half a point below `global`.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import webdataset as wds
from machine import about

BATCH, EPOCHS, HIDDEN, RATE, MOMENTUM = 32, 4, 128, 0.02, 0.9
COPIES, SHARDS, BUFFER, WINDOW = 32, 100, 1000, "2MiB"
#: Half a point of accuracy.
BOUND = 0.005
#: Keys, pixels and labels.
Batch = tuple[np.ndarray, np.ndarray, np.ndarray]


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns pixels and labels to train and to test on, of 0 to 255."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    pixels = np.minimum(images.reshape(-1, 8, 8) * 16, 255).astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    return pixels[train], labels[train], pixels[test], labels[test]


def changed(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Turns and moves a picture a little."""
    angle, (down, right) = rng.uniform(-0.3, 0.3), rng.uniform(-1, 1, 2)
    rows, columns = np.mgrid[:8, :8] - 3.5
    there = np.cos(angle) * rows - np.sin(angle) * columns + 3.5 + down
    across = np.sin(angle) * rows + np.cos(angle) * columns + 3.5 + right
    padded = np.pad(pixels.astype(np.float32), 2)
    y, x = np.clip(there + 2, 0, 10.999), np.clip(across + 2, 0, 10.999)
    top, left = y.astype(int), x.astype(int)
    dy, dx = y - top, x - left
    upper = padded[top, left] * (1 - dx) + padded[top, left + 1] * dx
    lower = padded[top + 1, left] * (1 - dx) + padded[top + 1, left + 1] * dx
    return (upper * (1 - dy) + lower * dy).astype(np.uint8)


def make(folder: Path) -> int:
    """Writes the shards, and returns the number of their samples."""
    pixels, labels, _, _ = digits()
    rng = np.random.default_rng(1)
    rows = [
        (int(label), changed(image, rng)) for image, label in zip(pixels, labels, strict=True) for _ in range(COPIES)
    ]
    # Copies of one digit do not lie together, but labels do.
    rng.shuffle(rows)
    rows.sort(key=lambda row: row[0])
    for shard, part in enumerate(np.array_split(np.arange(len(rows)), SHARDS)):
        with tarfile.open(folder / f"{shard:03}.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
            for key in part.tolist():
                label, image = rows[key]
                for suffix, data in (("bin", image.tobytes()), ("cls", str(label).encode())):
                    info = tarfile.TarInfo(f"{key:06}.{suffix}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
    return len(rows)


def arrays(keys: list[str], pixels: list[bytes], labels: list[bytes]) -> Batch:
    """Makes arrays of the shards' content."""
    images = np.frombuffer(b"".join(pixels), np.uint8).reshape(-1, 64).astype(np.float32) / 255
    return np.array([int(key) for key in keys]), images, np.array([int(label) for label in labels])


def forebay(shuffle: Callable[[fb.Dataset], fb.Dataset]) -> Callable[[Path, int], Iterator[list[Batch]]]:
    """Returns a reader of a seed's epochs with Forebay."""

    def epochs(folder: Path, seed: int) -> Iterator[list[Batch]]:
        ds = shuffle(fb.from_tar(str(folder / "*.tar"))).batch(BATCH)
        for epoch in range(EPOCHS):
            yield [arrays(batch["__key__"], batch["bin"], batch["cls"]) for batch in ds.iter(seed=seed, epoch=epoch)]

    return epochs


def webdataset(shards: bool) -> Callable[[Path, int], Iterator[list[Batch]]]:
    """Returns a reader of a seed's epochs with WebDataset, its shards in random order or not."""

    def epochs(folder: Path, seed: int) -> Iterator[list[Batch]]:
        urls = sorted(map(str, folder.glob("*.tar")))
        for epoch in range(EPOCHS):
            order_seed = seed * EPOCHS + epoch
            rows = wds.WebDataset(urls, shardshuffle=1000 if shards else False, empty_check=False, seed=order_seed)
            rows = rows.shuffle(BUFFER, seed=order_seed).to_tuple("__key__", "bin", "cls")
            yield [arrays(*zip(*batch, strict=True)) for batch in rows.batched(BATCH, collation_fn=list)]

    return epochs


ORDERS: dict[str, Callable[[Path, int], Iterator[list[Batch]]]] = {
    "none": forebay(lambda ds: ds),
    "buffer": webdataset(shards=False),
    "webdataset": webdataset(shards=True),
    "window": forebay(lambda ds: ds.shuffle(window=WINDOW)),
    "global": forebay(lambda ds: ds.shuffle(window=None)),
}


class Perceptron:
    """Pixels, a hidden layer, and ten outputs."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        shapes = [(64, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,)]
        self.weights = [rng.standard_normal(s).astype(np.float32) * (2 / s[0]) ** 0.5 * (len(s) > 1) for s in shapes]
        self.speed = [np.zeros_like(w) for w in self.weights]

    def outputs(self, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the hidden layer and the outputs."""
        hidden = np.maximum(pixels @ self.weights[0] + self.weights[1], 0)
        return hidden, hidden @ self.weights[2] + self.weights[3]

    def step(self, pixels: np.ndarray, labels: np.ndarray, rate: float) -> None:
        """Takes a step of SGD with momentum."""
        hidden, outputs = self.outputs(pixels)
        error = np.exp(outputs - outputs.max(1, keepdims=True))
        error /= error.sum(1, keepdims=True)
        error[np.arange(len(labels)), labels] -= 1
        error /= len(labels)
        back = error @ self.weights[2].T * (hidden > 0)
        slopes = [pixels.T @ back, back.sum(0), hidden.T @ error, error.sum(0)]
        for weight, speed, slope in zip(self.weights, self.speed, slopes, strict=True):
            speed *= MOMENTUM
            speed -= rate * slope
            weight += speed


def train(order: str, folder: Path, seed: int, test: tuple[np.ndarray, np.ndarray]) -> tuple[float, float, float]:
    """Returns the accuracy, and for the first epoch how far samples moved and the mean run of a label."""
    model = Perceptron(seed)
    moved = run = 0.0
    for number, batches in enumerate(ORDERS[order](folder, seed)):
        if number == 0:
            keys = np.concatenate([keys for keys, _, _ in batches])
            labels = np.concatenate([labels for _, _, labels in batches])
            assert len(set(keys.tolist())) == len(keys), f"{order}: a sample came twice"
            moved = float(np.abs(keys - np.arange(len(keys))).mean() / len(keys))
            run = len(labels) / (1 + int((labels[1:] != labels[:-1]).sum()))
        for place, (_, pixels, labels) in enumerate(batches):
            model.step(pixels, labels, RATE * (1 - (number + place / len(batches)) / EPOCHS))
    images, labels = test
    return float((model.outputs(images)[1].argmax(1) == labels).mean()), moved, run


def mean(figures: np.ndarray) -> str:
    """Returns a mean and its standard error."""
    error = figures.std(ddof=1) / len(figures) ** 0.5 if len(figures) > 1 else float("nan")
    return f"{figures.mean():.2f} ± {error:.2f}"


def main() -> int:
    """Trains with each order in turn, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--window", default=WINDOW, help="of `window`")
    parser.add_argument("--orders", default=",".join(ORDERS), help="which of them, with commas between")
    options = parser.parse_args()
    ORDERS["window"] = forebay(lambda ds: ds.shuffle(window=options.window))
    _, _, pixels, labels = digits()
    test = (pixels.reshape(-1, 64).astype(np.float32) / 255, labels)
    orders = options.orders.split(",")
    seen: dict[str, list[tuple[float, float, float]]] = {order: [] for order in orders}
    with tempfile.TemporaryDirectory() as name:
        samples = make(Path(name))
        for seed in range(options.seeds):
            for order in orders:
                seen[order].append(train(order, Path(name), seed, test))
    print(about("webdataset", "scikit-learn", "numpy"))
    print(f"{samples} samples in {SHARDS} shards, {EPOCHS} epochs, {options.seeds} seeds, tested on {len(labels)}\n")
    print("| order | accuracy, % | below global, points | samples move | mean run of a label |")
    print("|---|---|---|---|---|")
    accuracy = {order: np.array([one[0] for one in all_seen]) * 100 for order, all_seen in seen.items()}
    for order, of_seeds in accuracy.items():
        less = accuracy["global"] - of_seeds if "global" in accuracy else np.full(len(of_seeds), float("nan"))
        moved, run = (np.mean([one[i] for one in seen[order]]) for i in (1, 2))
        print(f"| {order} | {mean(of_seeds)} | {mean(less)} | {moved:.3f} | {run:.2f} |")
    if not {"window", "global"} <= accuracy.keys():
        return 0
    holds = bool((accuracy["global"] - accuracy["window"]).mean() <= BOUND * 100)
    print(f"\na window within {BOUND * 100} points of the global shuffle: {'yes' if holds else 'NO'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
