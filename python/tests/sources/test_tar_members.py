"""The members of samples that `from_tar` reads: named ones, those of the first samples, and optional ones."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import forebay as fb
import pytest


def shard(path: Path, samples: dict[str, str]) -> Path:
    """Writes samples, named with the extensions that each has; a member holds its own name."""
    with tarfile.open(path, "w") as tar:
        for key, extensions in samples.items():
            for extension in extensions.split():
                member = tarfile.TarInfo(f"{key}.{extension}")
                member.size = len(member.name)
                tar.addfile(member, io.BytesIO(member.name.encode()))
    return path


def rows(ds: fb.Dataset, shuffled: bool = False) -> list[dict[str, Any]]:
    found = sorted(ds.shuffle() if shuffled else ds, key=lambda row: row["__key__"])
    for row in found:
        key = row["__key__"]
        assert all(value in (None, f"{key}.{name}".encode()) for name, value in row.items() if name != "__key__")
    return found


def lacking(ds: fb.Dataset, name: str, shuffled: bool = False) -> list[str]:
    return [row["__key__"] for row in rows(ds, shuffled) if row[name] is None]


@pytest.mark.parametrize("shuffled", [False, True])
def test_an_optional_member_is_missing_where_a_sample_has_none(tmp_path, shuffled):
    path = shard(tmp_path / "a.tar", {"0": "jpg txt", "1": "jpg", "2": "txt jpg", "3": "jpg json"})
    ds = fb.from_tar(path, extensions=["txt?", "jpg"])
    assert str(ds.schema) == "Schema(__key__: string, txt: bytes?, jpg: bytes)"
    assert lacking(ds, "txt", shuffled) == ["1", "3"]
    assert [list(row) for row in rows(fb.from_tar(path, extensions=["jpg"]), shuffled)] == [["__key__", "jpg"]] * 4


@pytest.mark.parametrize("shuffled", [False, True])
def test_without_extensions_the_first_samples_say_what_there_is(tmp_path, shuffled):
    path = shard(tmp_path / "a.tar", {"0": "a", "1": "a b", "2": "c b a", "3": "a b"})
    ds = fb.from_tar(path)
    assert str(ds.schema) == "Schema(__key__: string, a: bytes, b: bytes?, c: bytes?)"
    assert lacking(ds, "b", shuffled) == ["0"]
    assert lacking(ds, "c", shuffled) == ["0", "1", "3"]


def test_a_hundred_samples_are_looked_at(tmp_path):
    many = {f"{i:03}": "a" for i in range(99)}
    assert list(fb.from_tar(shard(tmp_path / "a.tar", {**many, "099": "a b"})).schema) == ["__key__", "a", "b"]
    assert list(fb.from_tar(shard(tmp_path / "b.tar", {**many, "099": "a", "100": "a b"})).schema) == ["__key__", "a"]


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_needed_member_that_a_sample_lacks_says_how_to_do_without(tmp_path, shuffled):
    path = shard(tmp_path / "a.tar", {f"{i:03}": "a b" if i < 100 else "a" for i in range(103)})
    with pytest.raises(fb.errors.DataError, match='a sample has no "b"') as info:
        rows(fb.from_tar(path), shuffled)
    assert 'extensions=["b?", ...]' in info.value.context["hint"]
    assert lacking(fb.from_tar(path, extensions=["a", "b?"]), "b", shuffled) == ["100", "101", "102"]


def test_extensions_that_cannot_be_are_refused(tmp_path):
    path = shard(tmp_path / "a.tar", {"0": "jpg txt", "1": "jpg txt"})
    with pytest.raises(fb.errors.NotFoundError, match='no sample at the beginning has "jpeg"') as info:
        fb.from_tar(path, extensions=["jpeg"])
    assert 'did you mean "jpg"?' in info.value.context["hint"]
    with pytest.raises(fb.errors.NotFoundError) as info:
        fb.from_tar(path, extensions=["segmentation"])
    assert '"segmentation?"' in info.value.context["hint"]
    for wrong in (["jpg", "jpg?"], ["__key__?"], [".jpg"]):
        with pytest.raises(fb.errors.InvalidPipelineError):
            fb.from_tar(path, extensions=wrong)
    assert len(lacking(fb.from_tar(path, extensions=["segmentation?"]), "segmentation")) == 2


def test_a_name_in_latin_1_is_said_with_its_place_unless_it_is_no_sample(tmp_path):
    path = tmp_path / "a.tar"
    for names, bad in ((["a.txt", "\xe9", ".\xe9.txt"], None), (["a.txt", "\xe91.txt", "b.txt"], "\\xe91.txt")):
        with tarfile.open(path, "w", encoding="latin-1", format=tarfile.GNU_FORMAT) as tar:
            for name in names:
                tar.addfile(tarfile.TarInfo(name))
        if bad is None:
            assert [row["__key__"] for row in fb.from_tar(path)] == ["a"]
            continue
        for read in (list, lambda ds: list(ds.shuffle())):
            with pytest.raises(fb.errors.DataError, match="a name that is not utf-8") as info:
                read(fb.from_tar(path))
            context = info.value.context
            assert (context["file"], context["offset"], context["member"]) == (str(path), "512", bad)
            assert "utf-8" in (info.value.hint or "")
