"""The random image ops, through the public API. Their pixels are compared with torchvision's in `crates/exec`."""

from __future__ import annotations

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest
from pictures import encoded, picture
from PIL import Image, ImageEnhance, ImageOps

PIXELS = np.stack([picture(i, 20, 26) for i in range(60)])
PNGS = [encoded(picture(i, 20 + i % 3, 26 - i % 5), "PNG") for i in range(40)]

OPS = {
    "color_jitter": lambda ds: ds.color_jitter(
        "image", brightness=0.4, contrast=0.4, saturation=(0.2, 1.8), hue=0.1, p=0.8
    ),
    "random_grayscale": lambda ds: ds.random_grayscale("image", p=0.5),
    "random_solarize": lambda ds: ds.random_solarize("image", 100.5),
    "gaussian_blur": lambda ds: ds.gaussian_blur("image", 7, sigma=(0.5, 2.0), p=0.5),
    "random_rotation": lambda ds: ds.random_rotation("image", 30, interpolation="bilinear", fill=(9, 0, 255)),
    "rand_augment": lambda ds: ds.rand_augment("image", num_ops=3, magnitude=20),
    "random_erasing": lambda ds: ds.random_erasing("image", p=0.5, value=(255, 0, 7)),
    "random_posterize": lambda ds: ds.random_posterize("image", 3),
    "random_invert": lambda ds: ds.random_invert("image"),
    "random_autocontrast": lambda ds: ds.random_autocontrast("image"),
    "random_equalize": lambda ds: ds.random_equalize("image"),
    "random_adjust_sharpness": lambda ds: ds.random_adjust_sharpness("image", 2),
    "random_channel_permutation": lambda ds: ds.random_channel_permutation("image"),
    "gaussian_noise": lambda ds: ds.gaussian_noise("image", sigma=(0.05, 0.2), p=0.5),
    "random_affine": lambda ds: ds.random_affine("image", 20, translate=(0.1, 0.2), scale=(0.8, 1.2), shear=5),
    "random_perspective": lambda ds: ds.random_perspective("image", 0.4, fill=(1, 2, 3)),
    "auto_augment": lambda ds: ds.auto_augment("image", "cifar10"),
    "aug_mix": lambda ds: ds.aug_mix("image", severity=5),
    "trivial_augment": lambda ds: ds.trivial_augment("image", interpolation="bilinear"),
}
"""Each op with arguments that change some images and leave others."""

NOTHING = {
    "color_jitter": lambda ds: ds.color_jitter("image", brightness=0.4, hue=0.5, p=0),
    "color_jitter by 0": lambda ds: ds.color_jitter("image"),
    "random_grayscale": lambda ds: ds.random_grayscale("image", p=0),
    "random_solarize": lambda ds: ds.random_solarize("image", p=0),
    "gaussian_blur": lambda ds: ds.gaussian_blur("image", 7, p=0),
    "random_erasing": lambda ds: ds.random_erasing("image", p=0),
    "random_erasing of nothing": lambda ds: ds.random_erasing("image", p=1, scale=(0, 0)),
    "random_rotation by 0": lambda ds: ds.random_rotation("image", 0),
    "random_rotation by 360": lambda ds: ds.random_rotation("image", (360, 360), interpolation="bilinear"),
    "rand_augment of none": lambda ds: ds.rand_augment("image", num_ops=0),
    "random_posterize to 8 bits": lambda ds: ds.random_posterize("image", 8, p=1),
    "random_invert": lambda ds: ds.random_invert("image", p=0),
    "random_adjust_sharpness by 1": lambda ds: ds.random_adjust_sharpness("image", 1, p=1),
    "gaussian_noise of nothing": lambda ds: ds.gaussian_noise("image", sigma=0),
    "random_affine by 0": lambda ds: ds.random_affine("image", 0),
    "random_perspective by 0": lambda ds: ds.random_perspective("image", 0, p=1),
    "gaussian_blur by 0": lambda ds: ds.gaussian_blur("image", 7, sigma=1e-9),
}
"""Each op with arguments that leave every image as it is."""


def arrays() -> fb.Dataset:
    return fb.from_numpy({"id": np.arange(len(PIXELS)), "image": PIXELS})


def images(ds: fb.Dataset, **options: object) -> list[np.ndarray]:
    return [row["image"] for row in ds.iter(**options)]


def equal(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("op", OPS)
def test_an_op_changes_some_images_the_same_way_each_time(op):
    ds = OPS[op](arrays())
    got = images(ds, seed=3)
    changed = [not np.array_equal(a, b) for a, b in zip(got, PIXELS, strict=True)]
    assert 5 < sum(changed) <= len(PIXELS)
    assert all(equal(got, images(ds, seed=3, threads=threads)) for threads in (1, 2, 5))
    assert equal(got, [row for batch in ds.batch(7).iter(seed=3) for row in batch["image"]])
    assert not equal(got, images(ds, seed=4))
    assert not equal(got, images(ds, seed=3, epoch=1))
    assert ds.schema == arrays().schema
    assert op in ds.explain()


@pytest.mark.parametrize("op", NOTHING)
def test_an_op_that_never_applies_is_the_identity(op):
    assert equal(images(NOTHING[op](arrays())), list(PIXELS))


def test_ops_that_are_fused_do_what_they_do_alone():
    def chain(between):
        ds = fb.from_dict({"image": PNGS}).decode_image("image")
        for add in OPS.values():
            ds = add(between(ds))
        return between(ds.random_flip("image")).random_resized_crop("image", 12)

    fused = chain(lambda ds: ds)
    apart = chain(lambda ds: ds.with_column("x", fb.lit(1)))
    assert "one pass" in fused.explain()
    assert equal(images(fused, seed=9), images(apart.drop("x"), seed=9))


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("value", [0.0, (1.5, -2.0, 0.25), "random"])
def test_erasing_a_normalised_image_overwrites_a_rectangle(layout, value):
    plain = arrays().normalize("image", mean=[0.4] * 3, std=[0.3] * 3, layout=layout)
    erased = plain.random_erasing("image", p=0.7, scale=(0.1, 0.3), value=value)
    alone = plain.with_column("x", fb.lit(1)).random_erasing("image", p=0.7, scale=(0.1, 0.3), value=value)
    assert equal(images(erased, seed=2), images(alone, seed=2))
    count, noise = 0, []
    for before, after in zip(images(plain), images(erased, seed=2), strict=True):
        if layout == "CHW":
            before, after = before.transpose(1, 2, 0), after.transpose(1, 2, 0)
        y, x = np.nonzero((before != after).any(-1))
        if y.size == 0:
            continue
        count += 1
        assert y.size > 0.95 * np.ptp(y) * np.ptp(x)
        assert 0.05 < y.size / (20 * 26) < 0.35
        if value == "random":
            noise.append(after[y, x].ravel())
        else:
            assert (after[y, x] == np.float32(value)).all()
    assert 30 < count < 54
    if value == "random":
        drawn = np.concatenate(noise)
        assert abs(drawn.mean()) < 0.05
        assert abs(drawn.std() - 1) < 0.05


def test_a_quarter_turn_is_to_the_left():
    square = PIXELS[:, :, :20].copy()
    turned = images(fb.from_numpy({"image": square}).random_rotation("image", (90, 90)))
    assert equal(turned, [np.rot90(image) for image in square])


def test_grey_is_grey_and_one_channel_has_no_colour():
    for image in images(arrays().random_grayscale("image", p=1)):
        assert (image == image[..., :1]).all()
    grey = fb.from_numpy({"image": PIXELS[..., :1].copy()})
    assert equal(images(grey.random_grayscale("image", p=1)), images(grey))
    assert equal(images(grey.color_jitter("image", saturation=0.9, hue=0.5)), images(grey))


@pytest.mark.parametrize("threshold", [0, 100.5, 128, 255])
def test_solarized_levels_are_those_of_torchvision(threshold):
    got = images(arrays().random_solarize("image", threshold, p=1))
    assert equal(got, np.where(threshold <= PIXELS, 255 - PIXELS, PIXELS))


def test_levels_are_those_of_pillow():
    pillow = [Image.fromarray(image) for image in PIXELS]
    for ours, theirs, apart in [
        (arrays().random_posterize("image", 3, p=1), lambda image: ImageOps.posterize(image, 3), 0),
        (arrays().random_solarize("image", 77, p=1), lambda image: ImageOps.solarize(image, 77), 0),
        (arrays().random_invert("image", p=1), ImageOps.invert, 0),
        (arrays().random_equalize("image", p=1), ImageOps.equalize, 0),
        # torchvision divides where Pillow multiplies by a rounded factor.
        (arrays().random_autocontrast("image", p=1), ImageOps.autocontrast, 1),
        (
            arrays().random_adjust_sharpness("image", 1.7, p=1),
            lambda image: ImageEnhance.Sharpness(image).enhance(1.7),
            1,
        ),
    ]:
        for got, image in zip(images(ours), pillow, strict=True):
            want = np.array(theirs(image)).astype(int)
            assert np.abs(got - want).max() <= apart


def test_channels_are_permuted_in_every_order():
    orders = {
        tuple(image[3, 4])
        for image in images(
            fb.from_numpy({"image": np.tile(np.uint8([1, 2, 3]), (90, 9, 9, 1))}).random_channel_permutation("image")
        )
    }
    assert len(orders) == 6
    assert {tuple(sorted(order)) for order in orders} == {(1, 2, 3)}


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 7, 3), (7, 1, 1), (2, 2, 1), (5, 3, 1)])
def test_small_and_grey_images_are_augmented(shape):
    pixels = np.random.default_rng(1).integers(0, 256, (40, *shape), dtype=np.uint8)
    grey = {**OPS, "random_rotation": lambda ds: ds.random_rotation("image", 30, fill=9)}
    grey |= {"random_erasing": lambda ds: ds.random_erasing("image", value=7)}
    grey |= {"random_perspective": lambda ds: ds.random_perspective("image", 1.0, p=1)}
    for op in grey.values():
        ds = op(fb.from_numpy({"image": pixels}))
        assert [image.shape for image in images(ds, seed=1)] == [shape] * 40


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda ds: ds.random_posterize("image", 0), "bits=0"),
        (lambda ds: ds.random_posterize("image", 4, p=1.5), "p=1.5"),
        (lambda ds: ds.random_adjust_sharpness("image", -1), "factor=-1"),
        (lambda ds: ds.gaussian_noise("image", sigma=-0.1), "sigma"),
        (lambda ds: ds.gaussian_noise("image", mean=2), "mean=2"),
        (lambda ds: ds.random_affine("image", 10, translate=(0.1, 1.2)), "translate"),
        (lambda ds: ds.random_affine("image", 10, scale=(0, 1)), "scale"),
        (lambda ds: ds.random_affine("image", 10, shear=90), "shear"),
        (lambda ds: ds.random_affine("image", 10, shear=(1, 2, 3)), "shear=.* is no shear"),
        (lambda ds: ds.random_perspective("image", 1.5), "distortion_scale=1.5"),
        (lambda ds: ds.auto_augment("image", "coco"), "policy 'coco'"),
        (lambda ds: ds.trivial_augment("image", num_magnitude_bins=1), "num_magnitude_bins=1"),
        (lambda ds: ds.aug_mix("image", severity=11), "severity=11"),
        (lambda ds: ds.aug_mix("image", alpha=0), "alpha=0"),
        (lambda ds: ds.random_zoom_out("image", side_range=(0.5, 2)), "side_range"),
        (lambda ds: ds.random_iou_crop("image"), "has no boxes"),
        (lambda ds: ds.color_jitter("image", brightness=-1), "brightness=-1"),
        (lambda ds: ds.color_jitter("image", contrast=(2, 1)), r"contrast=\(2, 1\)"),
        (lambda ds: ds.color_jitter("image", saturation=(1, 2, 3)), "saturation has 3 numbers"),
        (lambda ds: ds.color_jitter("image", hue=0.6), r"hue=\(-0.6, 0.6\)"),
        (lambda ds: ds.color_jitter("image", hue="red"), "hue"),
        (lambda ds: ds.color_jitter("image", p=2), "p=2"),
        (lambda ds: ds.random_grayscale("image", p=-0.1), "p=-0.1"),
        (lambda ds: ds.random_solarize("image", 256), "threshold=256"),
        (lambda ds: ds.random_solarize("image", "half"), "threshold"),
        (lambda ds: ds.random_solarize("image", p=1.1), "p=1.1"),
        (lambda ds: ds.random_erasing("image", scale=(0.5, 1.5)), "scale"),
        (lambda ds: ds.random_erasing("image", ratio=(0, 1)), "ratio"),
        (lambda ds: ds.random_erasing("image", value=300), "value=300"),
        (lambda ds: ds.random_erasing("image", value=(1, 2)), "value has 2 values"),
        (lambda ds: ds.random_erasing("image", value="random"), "float32"),
        (lambda ds: ds.random_erasing("image", value="noise"), "value"),
        (lambda ds: ds.random_rotation("image", -3), "degrees=-3"),
        (lambda ds: ds.random_rotation("image", (3, -3)), r"degrees=\(3, -3\)"),
        (lambda ds: ds.random_rotation("image", 3, interpolation="cubic"), "interpolation 'cubic'"),
        (lambda ds: ds.random_rotation("image", 3, fill=256), "fill=256"),
        (lambda ds: ds.random_rotation("image", 3, fill=(1, 2)), "fill has 2 values"),
        (lambda ds: ds.rand_augment("image", num_ops=-1), "num_ops=-1"),
        (lambda ds: ds.rand_augment("image", num_ops=101), "num_ops=101"),
        (lambda ds: ds.rand_augment("image", magnitude=31), "magnitude=31"),
        (lambda ds: ds.rand_augment("image", num_magnitude_bins=1), "num_magnitude_bins=1"),
        (lambda ds: ds.gaussian_blur("image", 4), "kernel_size=4"),
        (lambda ds: ds.gaussian_blur("image", 2001), "kernel_size=2001"),
        (lambda ds: ds.gaussian_blur("image", 3.5), "kernel_size"),
        (lambda ds: ds.gaussian_blur("image", 3, sigma=0), r"sigma=\(0, 0\)"),
        (lambda ds: ds.gaussian_blur("image", 3, p=1.1), "p=1.1"),
        (lambda ds: ds.random_grayscale("id"), "not an image"),
        (lambda ds: ds.normalize("image", mean=[0] * 3, std=[1] * 3).color_jitter("image", hue=0.1), "float32"),
    ],
)
def test_a_wrong_argument_fails_when_written(make, says):
    with pytest.raises(E.InvalidPipelineError, match=says):
        make(arrays())
