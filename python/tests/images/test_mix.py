"""Mixup and cutmix: the output is a mixture of the input, and the same mixture in any process."""

from __future__ import annotations

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest

N, CLASSES = 60, 70
IMAGES = np.random.default_rng(1).standard_normal((N, 6, 9, 3)).astype(np.float32)
LEVELS = np.random.default_rng(2).integers(0, 256, (N, 3, 16, 12)).astype(np.uint8)


def dataset() -> fb.Dataset:
    # Every sample has a class of its own, so that labels identify the partners.
    return fb.from_numpy({"image": IMAGES, "chw": LEVELS, "label": np.arange(N, dtype=np.int32)})


def batches(ds: fb.Dataset, **options: object) -> list[dict]:
    return list(ds.iter(**options))


def same(a: list[dict], b: list[dict]) -> bool:
    return len(a) == len(b) and all(
        set(x) == set(y) and all(np.array_equal(x[k], y[k]) for k in x) for x, y in zip(a, b, strict=True)
    )


def rows_of(batch: dict, first: int) -> list[tuple[int, int, np.float32, np.float32]]:
    """Returns each row's sample, partner, and shares. A row stays at its place; its partner has the other class."""
    found = []
    for i, label in enumerate(batch["label"]):
        own = first + i
        others = [int(c) for c in np.nonzero(label)[0] if c != own]
        assert len(others) <= 1
        partner = others[0] if others else own
        found.append((own, partner, label[own], label[partner]))
    return found


def test_mixup_is_torchvisions_sum():
    ds = dataset().batch(16).mixup("image", "label", classes=CLASSES, alpha=0.8)
    assert ds.schema["label"] == ("float32", (CLASSES,))
    shares = set()
    for number, batch in enumerate(batches(ds, seed=5)):
        found = rows_of(batch, 16 * number)
        assert sorted(p for _, p, _, _ in found) == [own for own, _, _, _ in found]
        for i, (own, partner, keep, give) in enumerate(found):
            if partner == own:
                np.testing.assert_allclose(batch["image"][i], IMAGES[own], rtol=1e-6)
                continue
            np.testing.assert_array_equal(batch["image"][i], IMAGES[partner] * give + IMAGES[own] * keep)
            shares.add((number, float(keep)))
    # One share for each batch, of four batches.
    assert len(shares) == 4


@pytest.mark.parametrize("column", ["image", "chw"])
def test_cutmix_puts_a_box_of_the_partner_into_each_image(column):
    pixels = IMAGES if column == "image" else LEVELS.transpose(0, 2, 3, 1)
    area = pixels.shape[1] * pixels.shape[2]
    boxes = 0
    for number, batch in enumerate(batches(dataset().batch(16).cutmix(column, "label", classes=CLASSES), seed=6)):
        assert batch[column].dtype == (np.float32 if column == "image" else np.uint8)
        got = batch[column] if column == "image" else batch[column].transpose(0, 2, 3, 1)
        for i, (own, partner, keep, give) in enumerate(rows_of(batch, 16 * number)):
            if partner == own:
                np.testing.assert_array_equal(got[i], pixels[own])
                continue
            y, x = np.nonzero((got[i] != pixels[own]).any(-1))
            box = (slice(y.min(), y.max() + 1), slice(x.min(), x.max() + 1))
            np.testing.assert_array_equal(got[i][box], pixels[partner][box])
            share = got[i][box][..., 0].size / area
            assert abs(share - give) < 1e-6
            assert abs(1 - share - keep) < 1e-6
            boxes += 1
    assert boxes > 30


@pytest.mark.parametrize("op", ["mixup", "cutmix"])
def test_the_same_mixture_wherever_it_is_computed(op):
    def mixed(ds):
        return getattr(ds.batch(7), op)("image", "label", classes=CLASSES, alpha=0.4)

    inside = mixed(dataset().shuffle())
    first = batches(inside, seed=8)
    assert all(same(first, batches(inside, seed=8, threads=threads)) for threads in (1, 2, 5))
    assert not same(first, batches(inside, seed=9))
    assert not same(first, batches(inside, seed=8, epoch=1))
    # A filter that keeps all rows gives the same batches, but they are cut and mixed after the merge.
    merged = mixed(dataset().shuffle().filter(fb.col("label") >= 0))
    assert "for each batch" in merged.explain().partition("after the merge")[2]
    assert same(first, batches(merged, seed=8))


def test_soft_labels_are_mixed_again_and_p_0_only_makes_them_soft():
    never = batches(dataset().batch(20).mixup("image", "label", classes=CLASSES, p=0))
    np.testing.assert_array_equal(np.concatenate([b["label"] for b in never]), np.eye(N, CLASSES, dtype=np.float32))
    np.testing.assert_array_equal(np.concatenate([b["image"] for b in never]), IMAGES)
    twice = dataset().batch(20).mixup("image", "label", classes=CLASSES).cutmix("image", "label", classes=CLASSES)
    for batch in batches(twice, seed=1):
        np.testing.assert_allclose(batch["label"].sum(1), 1, rtol=1e-6)
        assert (batch["label"] > 0).sum(1).max() > 2


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda ds: ds.mixup("image", "label", classes=9), "comes before batch"),
        (lambda ds: ds.batch(4).mixup("image", "label", classes=0), "classes=0"),
        (lambda ds: ds.batch(4).mixup("image", "label", classes=9, alpha=0), "alpha=0"),
        (lambda ds: ds.batch(4).mixup("image", "label", classes=9, p=1.5), "p=1.5"),
        (lambda ds: ds.batch(4).mixup("chw", "label", classes=9), "uint8"),
        (lambda ds: ds.batch(4).mixup("image", "image", classes=9), "label"),
        (lambda ds: ds.batch(4).cutmix("label", "label", classes=9), "int32"),
    ],
)
def test_a_wrong_argument_fails_when_written(make, says):
    with pytest.raises(E.InvalidPipelineError, match=says):
        make(dataset())


def test_a_label_that_is_no_class_names_its_sample():
    with pytest.raises(E.DataError, match='"label" is 9') as caught:
        batches(dataset().batch(20).mixup("image", "label", classes=9))
    assert caught.value.context["op"] == "mixup"
    assert caught.value.context["sample"]
