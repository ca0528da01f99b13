"""Puts the pages of the documentation site together: a copy of the tree's pages, the API pages, and the contents.

python .ci/site/stage.py FOLDER

Every page of docs/ and of the root is in it, in the order of docs/README.md, and every file that they link to. A page
of docs/ that docs/README.md does not have is an error.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)\s]+)?\)")
#: The public modules, and their pages.
API = {
    "forebay": "Pipelines and services",
    "forebay.cluster": "Services on clusters",
    "forebay.ray": "Workers on Ray",
    "forebay.errors": "Errors",
    "forebay.examples": "Example data",
}
#: Where the pages of a folder belong, whose index is a page of its own.
FOLDERS = {"docs/adr": "docs/adr/README.md"}


def main(folder: Path) -> None:
    """Fills the folder, which is emptied before."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    seen: set[Path] = set()
    while pages:
        page = pages.pop()
        if page in seen:
            continue
        seen.add(page)
        to = folder / page.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, to)
        if page.suffix == ".md":
            pages += [(page.parent / path).resolve() for path in LINK.findall(page.read_text())]
    for module, title in API.items():
        (folder / "api").mkdir(exist_ok=True)
        (folder / "api" / f"{module}.md").write_text(_api(module, title))
    staged = {str(it.relative_to(ROOT)) for it in seen if it.suffix == ".md"}
    _contents(folder, staged)


def _api(module: str, title: str) -> str:
    members = "   :members:\n   :imported-members:\n   :inherited-members: Exception\n"
    return f"# {title}: `{module}`\n\n```{{eval-rst}}\n.. automodule:: {module}\n{members}```\n"


def _contents(folder: Path, staged: set[str]) -> None:
    """Adds the tables of contents: the sections of docs/README.md, in its order, and the API."""
    index = (ROOT / "docs" / "README.md").read_text()
    sections: list[tuple[str, list[str]]] = []
    placed = {"README.md"}
    for line in index.splitlines():
        if line.startswith("## "):
            sections.append((line.removeprefix("## "), []))
        for path in LINK.findall(line) if sections else []:
            page = str((ROOT / "docs" / path).resolve().relative_to(ROOT))
            if page in staged and page not in placed:
                placed.add(page)
                sections[-1][1].append(page)
    sections[0][1].insert(0, "docs/README.md")
    placed.add("docs/README.md")
    sections.insert(-1, ("API", [f"api/{module}.md" for module in API]))
    for under, page in FOLDERS.items():
        inner = sorted(it for it in staged if it.startswith(f"{under}/") and it != page)
        _append(folder / page, [("Records", [f"/{it}" for it in inner])])
        placed.update(inner)
    others = sorted(staged - placed)
    if missing := [it for it in others if it.startswith("docs/")]:
        sys.exit(f"docs/README.md has no link to {', '.join(missing)}")
    sections[-1][1].extend(others)
    _append(folder / "README.md", sections)


def _append(page: Path, sections: list[tuple[str, list[str]]]) -> None:
    blocks = [
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])
        for caption, pages in sections
    ]
    page.write_text(page.read_text() + "".join(blocks))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
