"""The description of a benchmark: its command, the machine, and the versions of the software."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shlex
import sys
from pathlib import Path


def about(*packages: str, **others: str) -> str:
    """Returns the command, and the machine with the versions of those packages that are installed."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = {"Python": platform.python_version()}
    for package in ("forebay", *packages):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    said = ", ".join(f"{name} {version}" for name, version in (versions | others).items())
    machine = f"{os.cpu_count()} x {cpu}, {memory:.0f} GiB, {platform.platform()}"
    return f"{shlex.join(['python', *sys.argv])}\n{machine}\n{said}\n"
