"""Runs a script on ranks, as torchrun starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def on_ranks(script: str, folder: Path, *arguments: str, ranks: int = 2) -> list[dict[str, Any]]:
    """Returns the JSON that each rank of a script wrote. If the script fails, the error has its output."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [*launcher, str(HERE / script), str(folder), *arguments]
    # Two ranks cannot share one GPU, so all are on the processor.
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]
