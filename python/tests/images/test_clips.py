"""Image ops over clips: the same to each frame, with one draw. `crates/exec/tests/it/clips.rs` compares every op."""

from __future__ import annotations

from typing import Any

import forebay as fb
import numpy as np
import pytest
from forebay import errors as E
from pictures import picture

FRAMES = 6
CLIPS = np.stack([[picture(i + 9 * frame, 40, 56) for frame in range(FRAMES)] for i in range(8)])
MEAN, STD = fb.IMAGENET_MEAN, fb.IMAGENET_STD


def recipe(pixels: Any, layout: str = "CHW") -> fb.Dataset:
    """Returns the training recipe of Kinetics over a column of images or of clips."""
    ds = fb.from_numpy({"video": pixels}).resize("video", shorter=32).random_resized_crop("video", 24)
    ds = ds.random_flip("video").color_jitter("video", brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1)
    return ds.random_erasing("video", p=0.5).normalize("video", mean=MEAN, std=STD, layout=layout)


def rows(ds: fb.Dataset) -> Any:
    return np.stack([row["video"] for row in ds.iter(seed=3, threads=3)])


def test_a_clip_gets_one_draw_and_its_frames_are_those_of_images():
    frames = np.stack([rows(recipe(CLIPS[:, frame])) for frame in range(FRAMES)], axis=1)
    made = rows(recipe(CLIPS))
    assert made.shape == (8, FRAMES, 3, 24, 24)
    assert np.array_equal(made, frames)
    assert np.array_equal(rows(recipe(CLIPS, "CTHW")), frames.swapaxes(1, 2))
    assert np.array_equal(rows(recipe(CLIPS, "HWC")), np.moveaxis(frames, 2, -1))


def test_clips_of_other_lengths_and_sizes_keep_them():
    given = [CLIPS[i, : 1 + i % 5, : 20 + i] for i in range(8)]
    ds = fb.from_map_dataset([{"video": clip} for clip in given]).random_flip("video", p=1.0)
    assert str(ds.schema["video"]) == "uint8[?, ?, 56, 3]"
    for row, clip in zip(ds, given, strict=True):
        assert np.array_equal(row["video"], clip[:, :, ::-1])
    (row,) = (
        ds.resize("video", 16)
        .normalize("video", mean=MEAN, std=STD, layout="CTHW")
        .filter(lambda row: row["video"].shape[1] == 5, reads="video")
    )
    assert row["video"].shape == (3, 5, 16, 16)


def test_several_clips_of_a_video_become_rows():
    ds = fb.from_numpy({"video": CLIPS.reshape(4, 2, *CLIPS.shape[1:]), "label": np.arange(4)})
    with pytest.raises(E.InvalidPipelineError, match="several clips in a row") as caught:
        ds.resize("video", 8)
    assert caught.value.hint == 'put .explode("video") before it: a row for each clip'
    made = list(ds.explode("video").resize("video", 8))
    assert [int(row["label"]) for row in made] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert made[3]["video"].shape == (FRAMES, 8, 8, 3)


@pytest.mark.parametrize("layout", [None, "CHW", "HWC", "CTHW"])
def test_batches_of_clips_are_mixed_as_their_frames_are(layout):
    def mixed(pixels: Any, how: str) -> Any:
        ds = fb.from_numpy({"video": pixels, "label": np.arange(8)})
        if layout is not None:
            own = layout if pixels.ndim == 5 or layout != "CTHW" else "CHW"
            ds = ds.normalize("video", mean=MEAN, std=STD, layout=own)
        return next(iter(getattr(ds.batch(8), how)("video", "label", classes=8, p=1.0).iter(seed=2)))

    axis = 2 if layout == "CTHW" else 1
    for how in ["cutmix"] if layout is None else ["mixup", "cutmix"]:
        batch = mixed(CLIPS, how)
        alone = [mixed(CLIPS[:, frame], how) for frame in range(FRAMES)]
        assert np.array_equal(batch["video"], np.stack([frame["video"] for frame in alone], axis=axis))
        assert np.array_equal(batch["label"], alone[0]["label"])


def test_what_has_no_meaning_for_clips_is_refused():
    ds = fb.from_numpy({"video": CLIPS, "image": CLIPS[:, 0], "boxes": np.zeros((8, 2, 4), np.float32)})
    refused = [
        (lambda: ds.annotate("video", boxes="boxes"), 'annotate: column "video" is uint8.6, 40, 56, 3., a clip'),
        (lambda: ds.encode_image("video"), 'encode_image: column "video" is uint8.6, 40, 56, 3., a clip'),
        (lambda: ds.normalize("image", mean=MEAN, std=STD, layout="CTHW"), "which has no frames"),
        (lambda: ds.cast(video="int32").resize("video", 8), "not an image"),
        (lambda: ds.normalize("video", mean=MEAN, std=STD).resize("video", 8), "put them before normalize"),
    ]
    for write, message in refused:
        with pytest.raises(E.InvalidPipelineError, match=message) as caught:
            write()
        assert caught.value.hint
    empty = fb.from_map_dataset(
        [{"video": np.zeros((0, 4, 4, 3), np.uint8)}], schema={"video": ("uint8", (None,) * 3 + (3,))}
    )
    with pytest.raises(E.DataError, match="a clip without frames") as failed:
        next(iter(empty.resize("video", 2)))
    assert failed.value.context["op"] == "resize"
