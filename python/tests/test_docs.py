"""Every Python snippet of README.md and docs/ runs, in order, page by page."""

from __future__ import annotations

import importlib.util
import io
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```python(?: (\w+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def picture(seed: int, format: str, mode: str) -> bytes:
    """An encoded image of noise, 40 by 36."""
    pixels = np.random.default_rng(seed).integers(0, 256, (36, 40, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, format)
    return out.getvalue()


#: Pages whose code makes the data that it reads: it runs in an empty folder, with nothing but the package.
COMPLETE = ("README.md", "quickstart.md")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data that the pages speak of."""
    (tmp_path / "shards").mkdir()
    for shard in range(2):
        with tarfile.open(tmp_path / "shards" / f"train-{shard}.tar", "w") as tar:
            for i in range(80):
                for extension, data in (("cls", b"1"), ("png", picture(i, "PNG", "L"))):
                    member = tarfile.TarInfo(f"{shard}-{i:03}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    for i in range(20):
        folder = tmp_path / "photos" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.jpg").write_bytes(picture(i, "JPEG", "RGB"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [p for p in PAGES if p.name in COMPLETE], ids=lambda p: p.name)
def test_a_complete_page_runs_in_an_empty_folder(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(page, {"__name__": "__main__"})


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in COMPLETE], ids=lambda p: p.name)
def test_snippets_run(page: Path, here: Path) -> None:
    run(page, {"__name__": "__main__", "train": lambda batch: None})


def run(page: Path, names: dict[str, Any]) -> None:
    for match in FENCE.finditer(page.read_text()):
        needs, code = match.groups()
        if needs and importlib.util.find_spec(needs) is None:
            continue
        line = page.read_text()[: match.start()].count("\n") + 1
        exec(compile("\n" * line + code, str(page), "exec"), names)
