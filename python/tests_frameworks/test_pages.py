"""The code of the pages of frameworks runs on two ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import on_ranks

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["pytorch.md", "lightning.md", "accelerate.md"])
def test_the_code_of_a_page_runs_on_two_ranks(page, tmp_path):
    on_ranks("rank_of_page.py", tmp_path, str(DOCS / page))
