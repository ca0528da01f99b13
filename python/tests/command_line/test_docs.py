"""Every Python snippet of README.md and docs/ runs, in order, page by page; links have targets."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest
from forebay._src.lint.finding import Finding
from forebay._src.lint.lint import findings
from forebay._src.written import Written
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
#: Folders of pages that each stand alone.
FOLDERS = ("migrate", "recipes")
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(page for folder in FOLDERS for page in (ROOT / "docs" / folder).glob("*.md")),
]
#: All pages, also the pages for contributors, whose paths are relative to the repository.
WRITTEN = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
NAMED_FILE = re.compile(r"`((?:bench|crates|docs|examples|fuzz|python)/[\w./-]+)`")
FENCE = re.compile(r"^```python(?: (\w+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def picture(seed: int, format: str, mode: str) -> bytes:
    """An encoded image of noise, 40 by 36."""
    pixels = np.random.default_rng(seed).integers(0, 256, (36, 40, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, format)
    return out.getvalue()


#: Pages whose code makes the data that it reads: it runs in an empty folder, with nothing but the package.
COMPLETE = [page for page in PAGES if page.name in ("README.md", "quickstart.md") or page.parent.name in FOLDERS]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data of the pages."""
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


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, by GitHub's rule."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in LINK.findall(page.read_text()):
        to = page.parent / path if path else page
        assert to.exists(), path
        assert not anchor or anchor in anchors(to), f"{path}#{anchor}"


def test_indexes_have_every_page() -> None:
    folders = [("docs", {"README.md"}), ("docs/contributing", set()), ("docs/adr", {"README.md"})]
    for folder, besides in [*folders, *((f"docs/{name}", set()) for name in FOLDERS)]:
        index = ROOT / ("docs/adr/README.md" if folder == "docs/adr" else "docs/README.md")
        linked = {(index.parent / path).resolve() for path, _ in LINK.findall(index.read_text())}
        pages = {page.resolve() for page in (ROOT / folder).glob("*.md") if page.name not in besides}
        assert pages <= linked


@pytest.mark.parametrize(
    "page", [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "contributing").glob("*.md"))], ids=lambda p: p.name
)
def test_files_that_contributors_are_sent_to_are_there(page: Path) -> None:
    assert [name for name in NAMED_FILE.findall(page.read_text()) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", COMPLETE, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_complete_page_runs_in_an_empty_folder(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(page, {"__name__": "__main__"})


@pytest.mark.parametrize("page", [p for p in PAGES if p not in COMPLETE], ids=lambda p: p.name)
def test_snippets_run(page: Path, here: Path) -> None:
    run(page, {"__name__": "__main__", "train": lambda batch: None})


def run(page: Path, names: dict[str, Any]) -> None:
    for match in FENCE.finditer(page.read_text()):
        needs, code = match.groups()
        if needs and importlib.util.find_spec(needs) is None:
            continue
        line = page.read_text()[: match.start()].count("\n") + 1
        exec(compile("\n" * line + code, str(page), "exec"), names)
    datasets = {name: value for name, value in names.items() if isinstance(value, fb.Dataset)}
    assert [str(found) for found in alarms(datasets)] == []


def alarms(datasets: dict[str, fb.Dataset]) -> Iterator[Finding]:
    """Returns the findings of `forebay lint` on the datasets of a page.

    Some read files that are gone by now, and samples fail where the page says how to skip them.
    """
    for name, dataset in datasets.items():
        with contextlib.suppress(fb.errors.ForebayError):
            found = findings(name, Written.of(dataset))
            yield from (one for one in found if one.level != "hint" and one.rule not in ("fails", "sample-fails"))
