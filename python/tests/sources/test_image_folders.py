"""Folders of splits are refused, as classes they would be wrong labels; a table beside the images is warned of."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import forebay as fb
import pytest
from buckets import credentials, put


def images(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"an image")


@pytest.mark.parametrize("splits", [("train", "val"), ("Training", "test", "notes"), ("train",)])
def test_folders_of_splits_are_no_classes(tmp_path: Path, splits: tuple[str, ...]) -> None:
    for split in splits:
        images(tmp_path / split / "cat" / "1.jpg", tmp_path / split / "dog" / "2.jpg")
    named = [split for split in sorted(splits) if split != "notes"]
    with pytest.raises(fb.errors.InvalidPipelineError, match=" and ".join(named)) as caught:
        fb.from_image_folder(tmp_path)
    # The hint is the line to write.
    code = str(caught.value.hint).partition(": ")[2]
    ds = eval(code, {"from_image_folder": fb.from_image_folder})
    assert [int(row["label"]) for row in ds] == [0, 1]


@pytest.mark.parametrize("classes", [("train", "car"), ("train", "test")])
def test_classes_with_such_names_are_classes(tmp_path: Path, classes: tuple[str, ...]) -> None:
    images(*(tmp_path / name / "1.jpg" for name in classes))
    assert sorted(int(row["label"]) for row in fb.from_image_folder(tmp_path)) == [0, 1]


@pytest.mark.parametrize("place", ["", "cat"])
def test_a_table_beside_the_images_is_warned_of_with_code_that_joins_it(tmp_path: Path, place: str) -> None:
    images(tmp_path / "cat" / "1.jpg", tmp_path / "dog" / "2.jpg")
    (tmp_path / place / "metadata.csv").write_text("file_name,text\n1.jpg,one\n2.jpg,two\n")
    with pytest.warns(UserWarning, match=r"metadata\.csv is not read") as warned:
        ds = fb.from_image_folder(tmp_path)
    assert warned[0].filename == __file__
    code = re.search(r"write (.*)\)$", str(warned[0].message))
    assert code is not None
    assert [row["text"] for row in eval(code[1], {"ds": ds, "fb": fb})] == ["one", "two"]


def test_images_without_classes_are_read_as_the_hint_says(tmp_path: Path) -> None:
    images(tmp_path / "1.jpg", tmp_path / "2.jpg")
    (tmp_path / "metadata.jsonl").write_text(
        '{"file_name": "2.jpg", "text": "two"}\n{"file_name": "1.jpg", "text": "1"}'
    )
    with pytest.raises(fb.errors.MissingFileError, match="no class folders") as caught:
        fb.from_image_folder(tmp_path)
    ds = eval(str(caught.value.hint).partition("write ")[2], {"fb": fb})
    assert [row["text"] for row in ds] == ["1", "two"]


def test_a_folder_of_classes_alone_is_not_warned_of(tmp_path: Path) -> None:
    images(tmp_path / "cat" / "train" / "1.jpg", tmp_path / ".cache" / "train" / "2.jpg")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fb.from_image_folder(tmp_path)


def test_folders_of_a_store_are_looked_at_too(moto, monkeypatch) -> None:
    for name, value in credentials(moto).items():
        monkeypatch.setenv(name, value)
    put(moto, "pictures")
    for key in ("split/train/cat/1.jpg", "split/val/cat/2.jpg", "flat/1.jpg", "classes/train/1.jpg", "classes/b/2.jpg"):
        put(moto, f"pictures/{key}", b"an image")
    put(moto, "pictures/classes/metadata.csv", b"file_name,text\n1.jpg,one\n2.jpg,two\n")
    with pytest.raises(fb.errors.InvalidPipelineError, match="train and val hold folders of classes") as caught:
        fb.from_image_folder("s3://pictures/split")
    assert 'from_image_folder("s3://pictures/split/train")' in str(caught.value.hint)
    assert [int(row["label"]) for row in fb.from_image_folder("s3://pictures/split/train")] == [0]
    with pytest.raises(fb.errors.MissingFileError, match="no class folders") as caught:
        fb.from_image_folder("s3://pictures/flat")
    assert 'fb.from_files("s3://pictures/flat/*.jpg")' in str(caught.value.hint)
    with pytest.warns(UserWarning, match=r"metadata\.csv is not read") as warned:
        ds = fb.from_image_folder("s3://pictures/classes/")
    code = re.search(r"write (.*)\)$", str(warned[0].message))
    assert code is not None
    assert sorted(row["text"] for row in eval(code[1], {"ds": ds, "fb": fb})) == ["one", "two"]
