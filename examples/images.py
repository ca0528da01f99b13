"""Trains a classifier on a folder of photos, with random crops, flips and colours, in NumPy alone.

    python examples/images.py

The photos are drawn: three classes, a folder each, as `fb.from_image_folder` reads them. Put your own folder in their place.
"""

from __future__ import annotations

import tempfile

import forebay as fb
import numpy as np

SIZE, CLASSES, EPOCHS, BATCH, RATE = 24, 3, 5, 16, 0.001


def train_pipeline(folder: str) -> fb.Dataset:
    """Batches of augmented images, float32 in height, width and channels, in another order each epoch."""
    return (
        fb.from_image_folder(folder)
        .shuffle()
        .decode_image("image", mode="RGB")
        .random_resized_crop("image", SIZE, scale=(0.5, 1.0))
        .random_flip("image")
        .color_jitter("image", brightness=0.1, saturation=0.1)
        .normalize("image", mean=[0.5] * 3, std=[0.25] * 3)
        .batch(BATCH)
    )


def test_pipeline(folder: str) -> fb.Dataset:
    """The same images, whole and in their order."""
    ds = fb.from_image_folder(folder).decode_image("image", mode="RGB").resize("image", (SIZE, SIZE))
    return ds.normalize("image", mean=[0.5] * 3, std=[0.25] * 3).batch(BATCH)


def probabilities(images: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the class probabilities of each image by a linear classifier."""
    scores = images.reshape(len(images), -1) @ weights
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def main() -> None:
    """Trains, and prints the loss of each epoch and the accuracy on whole images."""
    with tempfile.TemporaryDirectory(prefix="forebay-images-") as folder:
        photos = str(fb.examples.photos(folder, count=120))
        weights = np.zeros((SIZE * SIZE * 3, CLASSES), np.float32)
        for epoch in range(EPOCHS):
            losses = []
            for batch in train_pipeline(photos).iter(seed=7, epoch=epoch):
                found = probabilities(batch["image"], weights)
                rows = np.arange(len(found))
                losses.append(-np.log(found[rows, batch["label"]] + 1e-9).mean())
                found[rows, batch["label"]] -= 1
                weights -= RATE / len(found) * batch["image"].reshape(len(found), -1).T @ found
            print(f"epoch {epoch}: loss {np.mean(losses):.3f}")
        right = [
            (probabilities(batch["image"], weights).argmax(axis=1) == batch["label"]).mean()
            for batch in test_pipeline(photos)
        ]
        print(f"accuracy {np.mean(right):.2f}")


if __name__ == "__main__":
    main()
