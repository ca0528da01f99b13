"""Forebay's pipelines, in this process and on a service with one worker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
from forebay._src.bench import data

IMAGES_BATCH = 64
RECORDS_BATCH = 256


def images(folder: Path) -> fb.Dataset:
    """Decode, random resized crop to 224, flip, normalise to float32. No antialiasing, as in TensorFlow's pipelines."""
    return (
        fb.from_image_folder(folder)
        .drop("path")
        .shuffle()
        .repeat()
        .decode_image("image")
        .random_resized_crop("image", 224, antialias=False)
        .random_flip("image")
        .normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD, layout="HWC")
        .batch(IMAGES_BATCH)
    )


def records(count: int) -> fb.Dataset:
    """Small records: scale, shuffle, batch."""
    scaled = fb.from_numpy(data.records(count)).shuffle().repeat().with_column("x", fb.col("x") * 2.0 + 1.0)
    return scaled.batch(RECORDS_BATCH)


def sizes(ds: fb.Dataset, label: str) -> Iterator[int]:
    """Yields the number of rows of each batch, in this process."""
    with ds.iter(epoch=0, epochs=None) as batches:
        for batch in batches:
            yield len(batch[label])


class Remote:
    """Streams of one service."""

    def __init__(self, service: fb.Service) -> None:
        self._service = service
        self._names = (f"bench-{n}" for n in itertools.count())

    def sizes(self, ds: fb.Dataset, label: str) -> Iterator[int]:
        """As `sizes`, on the service."""
        job = next(self._names)
        with ds.distribute(self._service, job=job).iter() as batches:
            try:
                for batch in batches:
                    yield len(batch[label])
            finally:
                self._service.cancel(job)

    def epoch(self, ds: fb.Dataset) -> fb.Distributed:
        """Returns one epoch on the service."""
        return ds.distribute(self._service, job=next(self._names))
