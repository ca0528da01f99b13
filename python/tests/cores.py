"""The share of this machine's cores that other processes than those of the tests used meanwhile."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path

#: Above this share, a test that measures cores says nothing.
MOST = 0.5


def _busy_ticks() -> int:
    """Returns the time that the cores of this process have worked; idle and waiting for input are no work."""
    wanted = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    return sum(int(ticks) for row in rows if row[0] in wanted for ticks in [*row[1:4], *row[6:9]])


def _own_ticks() -> int:
    """Returns the time of this process and of its descendants, also of those that have ended and were waited for."""
    children, ticks = defaultdict(list), {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children[int(fields[1])].append(int(stat.parent.name))
        ticks[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    tree = [os.getpid()]
    for process in tree:
        tree += children[process]
    return sum(ticks.get(process, 0) for process in tree)


class Cores:
    """Counts from its construction on."""

    def __init__(self) -> None:
        self.begun, self.busy, self.own = time.monotonic(), _busy_ticks(), _own_ticks()

    def share_of_others(self) -> float:
        """Returns a number between 0 and 1."""
        took = max(time.monotonic() - self.begun, 0.1) * os.sysconf("SC_CLK_TCK") * len(os.sched_getaffinity(0))
        others = (_busy_ticks() - self.busy) - (_own_ticks() - self.own)
        return max(0.0, min(1.0, others / took))
