"""Sphinx builds the documentation site of the pages that `stage.py` has put together."""

from __future__ import annotations

import os
from typing import Any

import forebay

project = "Forebay"
author = copyright = "the Forebay contributors"
version = release = forebay.__version__
root_doc = "README"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]

# The pages are written for GitHub: anchors of headings are by its rule, and each link to one is checked.
myst_heading_anchors = 6
myst_links_external_new_tab = True
# Consoles are no language of their own, and GitHub allows headings to skip a level.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]

html_theme = "furo"
html_extra_path = ["extra"]  # index.html, which leads to the README
html_title = f"Forebay {release}"
html_copy_source = html_show_sourcelink = False

autodoc_typehints = "signature"
autodoc_member_order = "groupwise"
napoleon_use_rtype, napoleon_use_ivar = False, True


def _text(*given: Any) -> None:
    """Docstrings name code in single backticks, as Markdown does; Sphinx has two."""
    lines: list[str] = given[-1]
    lines[:] = [it if it.lstrip().startswith(">>>") else it.replace("``", "`").replace("`", "``") for it in lines]


def setup(app: Any) -> None:
    """Connects the hook above, before napoleon's."""
    app.connect("autodoc-process-docstring", _text, priority=100)


if os.environ.get("FOREBAY_SITE_URL"):
    html_baseurl = os.environ["FOREBAY_SITE_URL"]
