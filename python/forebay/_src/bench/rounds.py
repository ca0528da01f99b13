"""Runs the pipelines in turns, round after round, so that other load of the machine affects all of them alike."""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
from forebay import _native
from forebay._src.bench import clock, data, ours, rivals
from forebay.errors import ClosedError

OURS = "forebay"
FASTER_IS_MORE = {"images/s": True, "records/s": True, "ms": False}


@dataclass(frozen=True)
class Sizes:
    """How much to measure, from the command line."""

    seconds: float
    rounds: int
    images: int
    records: int


def bench(sizes: str, folder: os.PathLike[str]) -> str:
    """Measures everything, and returns versions, figures and notes as JSON. The command calls this."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return json.dumps(Bench(Sizes(**json.loads(sizes)), Path(folder)).run())
    except KeyboardInterrupt:
        raise ClosedError("interrupted", {}) from None
    finally:
        signal.signal(signal.SIGINT, before)


class Bench:
    """One run of the command."""

    def __init__(self, sizes: Sizes, folder: Path) -> None:
        self.sizes, self.folder = sizes, folder
        self.rivals = {name: rivals.version(name) for name in rivals.NAMES}
        #: The measurements of each round, by name and unit of the figure, and then by pipeline.
        self.found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.notes: list[str] = []

    def run(self) -> dict[str, Any]:
        """Measures."""
        photos = self.folder / "photos"
        data.photos(photos, self.sizes.images)
        with fb.up(workers=1) as service:
            turns = self._turns(photos, ours.Remote(service))
            progress = _native.Progress("measuring")
            try:
                for turn in range(self.sizes.rounds * len(turns)):
                    progress.show(turn, self.sizes.rounds * len(turns))
                    turns[turn % len(turns)]()
            finally:
                progress.end()
        versions = {"python": platform.python_version(), "numpy": np.__version__, **self.rivals}
        return {"versions": versions, "figures": self._figures(), "notes": self.notes}

    def _turns(self, photos: Path, remote: ours.Remote) -> list[Callable[[], None]]:
        """Returns the measurements of a round, in their order."""
        turns: list[Callable[[], None]] = []
        workloads = [("records", ours.records(self.sizes.records), "y")]
        if photos.exists():
            workloads.insert(0, ("images", ours.images(photos), "label"))
        for what, ds, label in workloads:
            turns.append(partial(self._speed, what, "in process", partial(ours.sizes, ds, label)))
            turns += self._rivals(what)
            turns.append(partial(self._speed, what, "one worker", partial(remote.sizes, ds, label)))
        one = fb.range(1)
        turns.append(partial(self._epoch, "in process", one.iter))
        turns += self._rivals("one")
        turns.append(partial(self._epoch, "one worker", partial(remote.epoch, one)))
        return turns

    def _rivals(self, what: str) -> list[Callable[[], None]]:
        return [partial(self._rival, name, what) for name, version in self.rivals.items() if version is not None]

    def _speed(self, what: str, where: str, start: Callable[[], Any]) -> None:
        found = clock.speed(start, self.sizes.seconds)
        self._add(what, where, OURS, asdict(found))

    def _epoch(self, where: str, start: Callable[[], Any]) -> None:
        self._add("one", where, OURS, {"epoch_ms": clock.epoch_ms(start)})

    def _rival(self, name: str, what: str) -> None:
        found = rivals.run(name, what, self.folder / "photos", self.sizes.records, self.sizes.seconds)
        if isinstance(found, str):
            self._note(f"{name} did not run {what}: {found}")
        else:
            self._add(what, "in process", name, found)

    def _add(self, what: str, where: str, who: str, found: dict[str, float]) -> None:
        names = {
            "rate": (f"{what}, {where}", f"{what}/s"),
            "first_ms": (f"first batch of {what}, {where}", "ms"),
            "epoch_ms": (f"epoch of one element, {where}", "ms"),
        }
        for kind, value in found.items():
            self.found[names[kind]][who].append(value)

    def _figures(self) -> list[dict[str, Any]]:
        figures = []
        for (name, unit), rounds in self.found.items():
            medians = {who: statistics.median(values) for who, values in rounds.items()}
            value = medians.pop(OURS)
            beside = {
                who: {"value": theirs, "ratio": value / theirs if FASTER_IS_MORE[unit] else theirs / value}
                for who, theirs in medians.items()
            }
            figures.append({"name": name, "unit": unit, "value": value, "beside": beside})
        return figures

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
