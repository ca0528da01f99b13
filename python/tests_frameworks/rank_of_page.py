"""Runs the code of a page of the documentation on this rank. The page is <folder>'s argument."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import torch.distributed as dist

folder, page = Path(sys.argv[1]), Path(sys.argv[2])
rank = os.environ["RANK"]
os.chdir(folder)
text = page.read_text()
names = {"__name__": f"rank{rank}", "train": lambda batch: None}
for match in re.finditer(r"^```python torchrun\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
    line = text[: match.start()].count("\n") + 1
    exec(compile("\n" * line + match[1], str(page), "exec"), names)
(folder / f"{rank}.json").write_text(json.dumps({}))
if dist.is_initialized():
    dist.barrier()
    dist.destroy_process_group()
