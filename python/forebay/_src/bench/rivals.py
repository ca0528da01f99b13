"""The rivals' pipelines, each as its users write it, with a process of its own for each run.

A run is `python -m forebay._src.bench.rivals NAME WORKLOAD FOLDER RECORDS SECONDS`, which prints its figures as JSON:
so its threads, memory and forked workers disturb no other run. It uses only the clock of Forebay.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from forebay._src.bench import clock, data
from forebay._src.bench.ours import IMAGES_BATCH, RECORDS_BATCH
from forebay._src.images.image_ops import IMAGENET_MEAN, IMAGENET_STD

NAMES = ("tensorflow", "torch")
SHUFFLE_BUFFER = 10_000
LIMIT_SECONDS = 120.0

Rows = Iterator[int]


def version(name: str) -> str | None:
    """Returns the version of a package; `None` when it is not installed."""
    if importlib.util.find_spec(name) is None:
        return None
    # Packages of other names, such as tensorflow_cpu, also contain tensorflow.
    found = importlib.metadata.packages_distributions().get(name, [])
    return importlib.metadata.version(found[0]) if found else "of unknown version"


def run(name: str, workload: str, folder: Path, records: int, seconds: float) -> dict[str, float] | str:
    """Runs a workload of a rival, and returns its figures or an error text."""
    command = [sys.executable, "-m", __name__, name, workload, str(folder), str(records), str(seconds)]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    environment = {**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    limit = LIMIT_SECONDS + 2 * seconds
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return f"nothing within {limit:.0f} s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def files(folder: Path) -> tuple[list[str], list[int]]:
    """Returns the paths of the images and their labels."""
    paths = sorted(folder.glob("*/*.jpg"))
    return [str(p) for p in paths], [int(p.parent.name) for p in paths]


class TensorFlow:
    """tf.data: parallel map, AUTOTUNE, without a fixed order."""

    def __init__(self) -> None:
        import tensorflow as tf

        self.tf = tf

    def images(self, folder: Path, _: int) -> Rows:
        """The reference ResNet input pipeline: cropped while decoding, bilinear, no antialiasing."""
        tf = self.tf
        paths, labels = files(folder)
        mean, std = (tf.constant([255 * v for v in values], tf.float32) for values in (IMAGENET_MEAN, IMAGENET_STD))

        def load(path: Any, label: Any) -> Any:
            encoded = tf.io.read_file(path)
            begin, size, _ = tf.image.sample_distorted_bounding_box(
                tf.image.extract_jpeg_shape(encoded),
                tf.zeros([1, 0, 4]),
                min_object_covered=0.0,
                aspect_ratio_range=(3 / 4, 4 / 3),
                area_range=(0.08, 1.0),
                use_image_if_no_bounding_boxes=True,
            )
            window = tf.concat([begin[:2], size[:2]], 0)
            image = tf.image.resize(tf.image.decode_and_crop_jpeg(encoded, window, channels=3), [224, 224])
            return (tf.image.random_flip_left_right(image) - mean) / std, label

        ds = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths)).repeat()
        return self._rows(ds.map(load, tf.data.AUTOTUNE, deterministic=False).batch(IMAGES_BATCH))

    def records(self, _: Path, count: int) -> Rows:
        """Vectorised: the expression is computed for a batch at a time."""
        tf = self.tf
        made = data.records(count)
        ds = tf.data.Dataset.from_tensor_slices((made["x"], made["y"])).shuffle(SHUFFLE_BUFFER).repeat()
        return self._rows(ds.batch(RECORDS_BATCH).map(lambda x, y: (x * 2.0 + 1.0, y), tf.data.AUTOTUNE))

    def one(self) -> Iterator[Any]:
        """An epoch of one element."""
        elements: Iterator[Any] = self.tf.data.Dataset.range(1).as_numpy_iterator()
        return elements

    def _rows(self, ds: Any) -> Rows:
        for _, label in ds.prefetch(self.tf.data.AUTOTUNE).as_numpy_iterator():
            yield len(label)


class Torch:
    """PyTorch's DataLoader with a worker process for each core; images by torchvision."""

    def __init__(self) -> None:
        import torch.utils.data

        self.torch = torch

    def images(self, folder: Path, _: int) -> Rows:
        """Decoded by libjpeg-turbo, bilinear, no antialiasing."""
        from torchvision.io import ImageReadMode, decode_image
        from torchvision.transforms import v2

        transform = v2.Compose(
            [
                v2.RandomResizedCrop(224, antialias=False),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(self.torch.float32, scale=True),
                v2.Normalize(IMAGENET_MEAN, IMAGENET_STD),
            ]
        )
        paths, labels = files(folder)

        def load(i: int) -> Any:
            return transform(decode_image(paths[i], mode=ImageReadMode.RGB)), labels[i]

        return self._rows(Items(len(paths), load), batch_size=IMAGES_BATCH, shuffle=True)

    def records(self, _: Path, count: int) -> Rows:
        """Vectorised: a batch is fetched, and computed, at once."""
        made = data.records(count)

        def load(indices: list[int]) -> Any:
            x, y = made["x"][indices], made["y"][indices]
            return self.torch.from_numpy(x * np.float32(2) + np.float32(1)), self.torch.from_numpy(y)

        utils = self.torch.utils.data
        items = Items(count, load)
        batches = utils.BatchSampler(utils.RandomSampler(items), RECORDS_BATCH, drop_last=False)
        return self._rows(items, batch_size=None, sampler=batches)

    def one(self) -> Iterator[Any]:
        """An epoch of one element, without worker processes."""
        return iter(self.torch.utils.data.DataLoader(Items(1, lambda i: i)))

    def _rows(self, items: Items, **options: Any) -> Rows:
        workers = os.cpu_count() or 1
        loader = self.torch.utils.data.DataLoader(items, num_workers=workers, persistent_workers=True, **options)
        while True:
            for _, label in loader:
                yield len(label)


class Items:
    """A map-style dataset, in PyTorch's terms."""

    def __init__(self, count: int, load: Callable[[Any], Any]) -> None:
        self.count, self.load = count, load

    def __len__(self) -> int:
        """Returns the number of items."""
        return self.count

    def __getitem__(self, index: Any) -> Any:
        """Loads one, or a list of them."""
        return self.load(index)


def main(name: str, workload: str, folder: str, records: str, seconds: str) -> dict[str, float]:
    """Measures one workload of one rival in this process."""
    rival = TensorFlow() if name == "tensorflow" else Torch()
    if workload == "one":
        return {"epoch_ms": clock.epoch_ms(rival.one)}
    start = {"images": rival.images, "records": rival.records}[workload]
    found = clock.speed(lambda: start(Path(folder), int(records)), float(seconds))
    return {"rate": found.rate, "first_ms": found.first_ms}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])), flush=True)
