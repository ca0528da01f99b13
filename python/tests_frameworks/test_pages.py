"""The code of the pages of frameworks runs, on two ranks where there are ranks."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from launch import on_ranks

DOCS = Path(__file__).resolve().parents[2] / "docs"
FENCE = re.compile(r"^```python (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["pytorch.md", "lightning.md", "accelerate.md", "frameworks.md"])
def test_the_code_of_a_page_runs_on_two_ranks(page, tmp_path):
    on_ranks("rank_of_page.py", tmp_path, str(DOCS / page))


@pytest.mark.parametrize("page", ["jax.md", "keras.md", "reference.md"])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, names = (DOCS / page).read_text(), {"__name__": "__main__"}
    for needs, code in FENCE.findall(text):
        if importlib.util.find_spec(needs) is not None:
            exec(compile(code, page, "exec"), names)
