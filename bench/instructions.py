"""Counts the instructions of the kernels under callgrind, and compares them with those on record.

    python bench/instructions.py            compare; exit code 1 when one grew by more than 2 %
    python bench/instructions.py --record   write bench/results/instructions.json

A count does not depend on other load of the machine, so it shows regressions that a clock does not. It ignores caches,
and depends on the compiler: both are on record. Needs valgrind.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "bench" / "results" / "instructions.json"
KERNELS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples" / "kernels"
#: The rounds of a kernel in each of two runs. The difference of the two runs excludes the start.
ROUNDS = (2, 6)
GROWTH_MAX = 0.02


def run(*command: str | Path) -> str:
    """Runs a command and returns its output."""
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, cwd=ROOT)
    return done.stdout + done.stderr


def instructions(kernel: str, rounds: int) -> int:
    """Counts a whole run."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"--callgrind-out-file={folder}/out"
        said = run("valgrind", "--tool=callgrind", out, KERNELS, kernel, str(rounds))
    found = re.search(r"Collected : (\d+)", said)
    if found is None:
        raise SystemExit(f"callgrind said no count:\n{said}")
    return int(found[1])


def count(kernel: str) -> int:
    """Counts one round."""
    few, many = ROUNDS
    return (instructions(kernel, many) - instructions(kernel, few)) // (many - few)


def main() -> int:
    """Counts all kernels and prints them beside the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the counts instead of comparing them")
    record = parser.parse_args().record
    if shutil.which("valgrind") is None:
        raise SystemExit("this needs valgrind: apt-get install valgrind")
    run("cargo", "build", "--release", "--locked", "--workspace", "--examples", "--quiet")
    counts = {name: count(name) for name in run(KERNELS).splitlines()}
    versions = {"rustc": run("rustc", "--version").strip(), "valgrind": run("valgrind", "--version").strip()}
    if record:
        RECORD.write_text(json.dumps({"versions": versions, "instructions": counts}, indent=2) + "\n")
    known = json.loads(RECORD.read_text())
    if known["versions"] != versions:
        print(f"on record for {known['versions']}; this is {versions}")
    worse = 0
    for name, now in counts.items():
        before = known["instructions"].get(name, now)
        growth = now / before - 1
        worse += growth > GROWTH_MAX
        print(f"{name:40} {now:>14,}  {growth:+.1%}")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
