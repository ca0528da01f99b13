"""Patterns over folders that links lead into: each file comes once, and listing ends."""

from __future__ import annotations

import forebay as fb
import pytest


@pytest.fixture
def tree(tmp_path):
    """`data/{a,b/c}/x.txt`, a hidden folder, and files beside the tree."""
    for folder in ("data/a", "data/b/c", "data/.hidden", "data", "beside"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "x.txt").write_text(folder + "\n")
    return tmp_path


def lines(pattern) -> list[str]:
    return [row["text"] for row in fb.from_text(pattern)]


WITHOUT_LINKS = ["data/a", "data/b/c", "data"]


@pytest.mark.parametrize("pattern", ["data/**/*.txt", "data/**/x.txt", "data/**", "**/data/**/x.txt", "data/**/**/*"])
def test_two_stars_are_any_number_of_folders(tree, pattern):
    assert lines(tree / pattern) == WITHOUT_LINKS


def test_a_link_to_a_folder_that_it_lies_in_is_not_followed(tree):
    for i, place in enumerate(["data", "data/a", "data/b", "data/b/c"]):
        for name, target in {"up": "..", "here": ".", "round": str(tree / "data")}.items():
            (tree / place / f"{name}{i}").symlink_to(target)
    assert lines(tree / "data/**/*.txt") == WITHOUT_LINKS
    assert lines(tree / "data/**") == WITHOUT_LINKS
    for folder in ("data/a", "data/b/c"):
        (tree / folder / "1.png").write_bytes(b"")
    rows = [row["path"].removeprefix(f"{tree}/") for row in fb.from_image_folder(tree / "data")]
    assert rows == ["data/a/1.png", "data/b/c/1.png"]


def test_links_to_other_folders_are_followed(tree):
    (tree / "data/a/other").symlink_to("../../beside")
    (tree / "beside/back").symlink_to("../data")
    assert lines(tree / "data/**/*.txt") == ["beside", "data/a", "data/b/c", "data"]
    assert lines(tree / "data/a/**/*.txt") == ["beside", "data/a"]
