"""JSON for the native module."""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any) -> str:
    """Writes numbers exactly and refuses what JSON has no word for."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
