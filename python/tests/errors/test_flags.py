"""Boolean options accept only `True` and `False`: `overwrite="no"` once removed the files that it should keep."""

from __future__ import annotations

import inspect
import re
from typing import Any

import forebay as fb
import forebay.errors as E
import forebay.ray
import numpy as np
import pytest

#: The required arguments of each callable with such options.
REQUIRED: dict[str, tuple[Any, ...]] = {
    "from_arrow": ("none.arrow",),
    "from_csv": ("none.csv",),
    "from_parquet": ("none.parquet",),
    "from_tfrecord": ("none.tfrecord",),
    "load": ("none",),
    "up": (),
    "Dataset.annotate": ("image",),
    "Dataset.aug_mix": ("image",),
    "Dataset.auto_augment": ("image",),
    "Dataset.batch": (2,),
    "Dataset.batch_by_key": ("id", 2),
    "Dataset.bucket_by_length": ("ids", [3], [2, 2]),
    "Dataset.center_crop": ("image", 8),
    "Dataset.chat": ("messages", "none.json"),
    "Dataset.color_jitter": ("image",),
    "Dataset.corrupt_spans": ("ids", [9]),
    "Dataset.crop": ("image", 8),
    "Dataset.crop_audio": ("audio", 1.0),
    "Dataset.cutmix": ("image", "label"),
    "Dataset.decode_audio": ("audio",),
    "Dataset.decode_image": ("image",),
    "Dataset.decode_video": ("video",),
    "Dataset.distribute": ("forebay://127.0.0.1:1",),
    "Dataset.encode_image": ("image",),
    "Dataset.explode": ("id",),
    "Dataset.fill_null": ("id", 0),
    "Dataset.fill_in_middle": ("ids", 1, 2, 3),
    "Dataset.filter": (lambda row: True,),
    "Dataset.flat_map": (lambda row: [row],),
    "Dataset.gaussian_blur": ("image", 3),
    "Dataset.gaussian_noise": ("image",),
    "Dataset.log_mel": ("audio",),
    "Dataset.map": (lambda row: row,),
    "Dataset.mel": ("audio",),
    "Dataset.mfcc": ("audio",),
    "Dataset.mask_tokens": ("ids", 3, 9),
    "Dataset.mixup": ("image", "label"),
    "Dataset.mosaic": ("image",),
    "Dataset.normalize": ("image",),
    "Dataset.normalize_audio": ("audio",),
    "Dataset.pack": ("ids", 4),
    "Dataset.pad": ("image", 2),
    "Dataset.prefetch": (2,),
    "Dataset.prefix_lm": ("ids",),
    "Dataset.rand_augment": ("image",),
    "Dataset.random_adjust_sharpness": ("image", 2),
    "Dataset.random_affine": ("image", 10),
    "Dataset.random_autocontrast": ("image",),
    "Dataset.random_channel_permutation": ("image",),
    "Dataset.random_crop": ("image", 8),
    "Dataset.random_equalize": ("image",),
    "Dataset.random_erasing": ("image",),
    "Dataset.random_flip": ("image",),
    "Dataset.random_gain": ("audio",),
    "Dataset.random_grayscale": ("image",),
    "Dataset.random_invert": ("image",),
    "Dataset.random_iou_crop": ("image",),
    "Dataset.random_perspective": ("image",),
    "Dataset.random_posterize": ("image", 4),
    "Dataset.random_noise": ("audio",),
    "Dataset.random_offset": ("audio", 1.0),
    "Dataset.random_resized_crop": ("image", 8),
    "Dataset.random_reverb": ("audio", "room"),
    "Dataset.random_rotation": ("image", 10),
    "Dataset.random_solarize": ("image",),
    "Dataset.random_zoom_out": ("image",),
    "Dataset.resample_audio": ("audio", 16000),
    "Dataset.resize": ("image", 8),
    "Dataset.save": ("none",),
    "Dataset.select_rows": ([0],),
    "Dataset.shard": (2, 0),
    "Dataset.skip": (1,),
    "Dataset.sort": ("id",),
    "Dataset.spec_augment": ("mel",),
    "Dataset.spectrogram": ("audio",),
    "Dataset.take": (1,),
    "Dataset.tokenize": ("text", "none.json"),
    "Dataset.trivial_augment": ("image",),
    "Dataset.window": (2,),
    "Dataset.with_column": ("x", 1),
    "workers": ("forebay://127.0.0.1:1",),
    "RayWorkers.close": (),
}
OPTIONS: dict[str, dict[str, Any]] = {
    **{
        f"Dataset.{name}": {"sample_rate": 16000}
        for name in ("crop_audio", "log_mel", "mel", "mfcc", "random_offset", "spectrogram")
    },
    "Dataset.resample_audio": {"from_rate": 8000},
    "Dataset.cutmix": {"classes": 2},
    "Dataset.distribute": {"job": "flags"},
    "Dataset.flat_map": {"schema": {"id": "int64"}},
    "Dataset.map": {"schema": {"id": "int64"}},
    "Dataset.mixup": {"classes": 2},
    "Dataset.normalize": {"mean": 0, "std": 1},
}


def flags() -> list[tuple[str, str]]:
    """Returns every boolean option of the public surface, according to its annotation."""
    found = []
    for owner in (fb, fb.Dataset, fb.Service, fb.DatasetIterator, forebay.ray, forebay.ray.RayWorkers):
        for name, callee in inspect.getmembers(owner, inspect.isfunction):
            called = f"{owner.__name__}.{name}" if inspect.isclass(owner) else name
            options = inspect.signature(callee).parameters.values() if name[0] != "_" else ()
            # A flag is a bool itself, and not a bool in a container.
            own = {option.name: re.sub(r"\[.*\]", "", str(option.annotation)) for option in options}
            found += [(called, option) for option, annotation in own.items() if "bool" in annotation]
    return found


def call(called: str, **options: Any) -> None:
    name = called.rpartition(".")[2]
    given = {**OPTIONS.get(called, {}), **options}
    required = REQUIRED.get(called, ())
    if called.startswith("RayWorkers."):
        getattr(forebay.ray.RayWorkers, name)(object.__new__(forebay.ray.RayWorkers), *required, **given)
    elif called.startswith("Dataset."):
        getattr(fb.range(4), name)(*required, **given)
    else:
        getattr(fb if hasattr(fb, name) else forebay.ray, name)(*required, **given)


def test_the_options_are_found():
    assert {("Dataset.save", "overwrite"), ("up", "cache_source"), ("Dataset.explain", "splits")} <= set(flags())
    assert len(flags()) > 50


@pytest.mark.parametrize(("called", "option"), flags())
@pytest.mark.parametrize("value", ["no", 1])
def test_only_true_and_false_are_taken(called: str, option: str, value: Any, tmp_path, monkeypatch):
    # Files that one of them would write by mistake do not stay in the folder of the tests.
    monkeypatch.chdir(tmp_path)
    if called == "Dataset.tokenize":
        (tmp_path / "none.json").write_text("{}")
    with pytest.raises(E.InvalidPipelineError, match=f"{option}={value!r} is not a bool") as caught:
        call(called, **{option: value})
    assert "True" in caught.value.hint


def test_a_folder_is_not_overwritten_by_a_word(tmp_path):
    fb.range(5).save(tmp_path / "rows")
    with pytest.raises(E.InvalidPipelineError, match=r"^save: overwrite='no'"):
        fb.range(9).save(tmp_path / "rows", overwrite="no")  # type: ignore[arg-type]
    assert [int(row["id"]) for row in fb.load(tmp_path / "rows")] == [0, 1, 2, 3, 4]


def test_numpy_s_true_and_false_are_true_and_false():
    assert fb.range(7).batch(4, drop_remainder=np.True_).cardinality == 1
    assert fb.range(7).batch(4, drop_remainder=np.False_).cardinality == 2
