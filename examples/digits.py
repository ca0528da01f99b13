"""Writes scikit-learn's 1,797 scanned handwritten digits as PNGs into tar shards, and runs the demo on them.

    python examples/digits.py [options of `forebay demo`]

The demo trains a small classifier on a service of two workers, and kills one of them: see `forebay demo --help`.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

SHARDS, TEST_SHARE = 8, 5


def write_shards(folder: Path) -> None:
    """Writes every fifth digit to test.tar and the others to train-*.tar."""
    images, labels = load_digits(return_X_y=True)
    with contextlib.ExitStack() as stack:
        test = stack.enter_context(tarfile.open(folder / "test.tar", "w"))
        train = [stack.enter_context(tarfile.open(folder / f"train-{i:03}.tar", "w")) for i in range(SHARDS)]
        for i, (pixels, label) in enumerate(zip(images, labels, strict=True)):
            scan = Image.fromarray((pixels.reshape(8, 8) * 255 / 16).astype(np.uint8)).resize(
                (32, 32), Image.Resampling.BICUBIC
            )
            png = io.BytesIO()
            scan.save(png, "PNG")
            for extension, data in (("png", png.getvalue()), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{i:05}.{extension}")
                member.size = len(data)
                (test if i % TEST_SHARE == 0 else train[i % SHARDS]).addfile(member, io.BytesIO(data))


def main() -> int:
    """Writes the shards, runs the demo and returns its exit code: 1 when a promise was not kept."""
    with tempfile.TemporaryDirectory(prefix="forebay-digits-") as folder:
        write_shards(Path(folder))
        return subprocess.run([sys.executable, "-m", "forebay", "demo", "--shards", folder, *sys.argv[1:]]).returncode


if __name__ == "__main__":
    sys.exit(main())
