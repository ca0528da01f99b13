"""Patterns over folders with links: each file comes once, and listing ends."""

from __future__ import annotations

import os

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


def test_a_name_that_is_not_utf8_is_of_concern_only_where_it_matches(tmp_path):
    folder = tmp_path / "c"
    folder.mkdir()
    bad = os.fsencode(folder) + b"/\xff.jpg"
    for name in (os.fsencode(folder / "a.jpg"), os.fsencode(folder / "a.txt"), bad):
        with open(name, "wb") as file:
            file.write(b"x")
    assert [row["path"] for row in fb.from_files(folder / "a*")] == [str(folder / "a.jpg"), str(folder / "a.txt")]
    assert [row["path"] for row in fb.from_files(f"{tmp_path}/**/*.txt")] == [str(folder / "a.txt")]
    matching = [
        lambda: fb.from_files(folder / "*.jpg"),
        lambda: fb.from_files(f"{tmp_path}/**"),
        lambda: fb.from_image_folder(tmp_path),
        lambda: fb.from_files(os.fsdecode(bad)),
    ]
    for make in matching:
        with pytest.raises(fb.errors.InvalidPipelineError, match="a file's name is not utf-8") as info:
            list(make())
        assert "xff.jpg" in info.value.context["file"].replace("udcff", "xff")
    os.rename(bad, os.fsencode(folder) + b"/\xff.md")
    assert len(list(fb.from_image_folder(tmp_path))) == 1


def test_a_tilde_is_the_home_folder_as_in_the_shell(tmp_path, monkeypatch):
    home = tmp_path / "h[o]me"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    (home / "a.txt").write_text("a")
    assert [row["path"] for row in fb.from_files("~/a.txt")] == [str(home / "a.txt")]
    assert [row["path"] for row in fb.from_files(["~/*.txt", "~/{a,a}.txt"])] == [str(home / "a.txt")] * 3
    with pytest.raises(fb.errors.InvalidPipelineError, match="this machine has no user 'no-such-user'") as info:
        fb.from_files("~no-such-user/a.txt")
    assert "./~no-such-user" in (info.value.hint or "")
    (tmp_path / "~x").write_text("b")
    assert [row["bytes"] for row in fb.from_files("~x")] == [b"b"]


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "p.txt")
    os.mkfifo(tmp_path / "p.tar")
    for make, what in {
        lambda: fb.from_text(tmp_path / "p.txt"): "a named pipe",
        lambda: fb.from_files(tmp_path / "*.txt"): "a named pipe",
        lambda: fb.from_tar(tmp_path / "p.tar"): "a named pipe",
        lambda: fb.from_text("/dev/zero"): "a character device",
        lambda: fb.from_files("/dev/null"): "a character device",
    }.items():
        with pytest.raises(fb.errors.InvalidPipelineError, match=f"this is {what}, not a regular file") as info:
            list(make())
        assert "write the data to a file" in (info.value.hint or "")


def test_a_folder_is_all_files_below_it(tmp_path):
    (tmp_path / "a [1]{x,y}" / "part=1").mkdir(parents=True)
    (tmp_path / "a [1]{x,y}" / ".hidden").mkdir()
    for name in ["b.txt", "part=1/a.txt", "_SUCCESS", ".b.txt.crc", ".hidden/c.txt"]:
        (tmp_path / "a [1]{x,y}" / name).write_text(name)
    for folder in [tmp_path / "a [1]{x,y}", tmp_path.as_posix() + "/a [1]{x,y}/"]:
        assert [row["text"] for row in fb.from_text(folder).iter()] == ["b.txt", "part=1/a.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(fb.errors.NotFoundError, match="no file matches"):
        fb.from_text(tmp_path / "empty")
