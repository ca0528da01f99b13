"""Runs every scenario at every place, and judges each."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import forebay as fb
import numpy as np
from forebay import _native
from forebay._src.selftest import etcd, scenarios, workload
from forebay._src.selftest.run import Case, run
from forebay._src.selftest.scenarios import ALONE, CLIENT, NAMES, NOFAIL, SCENARIOS, SILENT, SUCCESSIVE, Scenario
from forebay._src.selftest.workload import EPOCHS, KEPT, Workload
from forebay.errors import ClosedError, InvalidPipelineError, UnavailableError

WORKERS = (1, 2, 3, 8)
#: The number of workers with which every place is tried.
SWEPT = 2
PLACES = ("first batch", "quarter", "middle", "end of an epoch", "second epoch", "last batch", "end of sequence")
PLACES_FEW = ("first batch", "middle", "end of sequence")
SUCCESSIONS = 3
SAMPLES, SAMPLES_QUICK = {"records": 100_003, "pictures": 2_003}, {"records": 20_011, "pictures": 601}
#: The places for faults of a cache: while rows are written to it, and after that.
CACHE_PLACES = {"putfail": "middle", "getfail": "second epoch"}


@dataclass(frozen=True)
class Options:
    """The options of the command line.

    Attributes:
        quick: About a minute: fewer samples, workers and places.
        scenarios: Only these; all where empty.
        workers: The numbers of workers; a choice if empty.
        samples: The number of records; a choice if 0.
        seed: The seed of the data, of the order, and of the places of successive faults.
        timing: Whether pauses, and repeated computation, are judged.
    """

    quick: bool
    scenarios: list[str]
    workers: list[int]
    samples: int
    seed: int
    timing: bool


def faults(options: str, folder: os.PathLike[str]) -> str:
    """Runs the sweep, and returns its rows, versions and notes as JSON. The command calls this."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with _cache(Path(folder)):
            return json.dumps(Sweep(Options(**json.loads(options)), Path(folder)).run())
    except KeyboardInterrupt:
        raise ClosedError("interrupted", {}) from None
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _cache(folder: Path) -> Iterator[None]:
    """Keeps indexes in a folder of this run, not in the user's."""
    before = os.environ.get("FOREBAY_CACHE")
    os.environ["FOREBAY_CACHE"] = str(folder / "cache")
    try:
        yield
    finally:
        del os.environ["FOREBAY_CACHE"]
        if before is not None:
            os.environ["FOREBAY_CACHE"] = before


class Sweep:
    """One run of the command."""

    def __init__(self, options: Options, folder: Path) -> None:
        unknown = sorted(set(options.scenarios) - set(NAMES))
        if unknown:
            raise InvalidPipelineError(f"there is no scenario {unknown[0]!r}", {"hint": f"one of {', '.join(NAMES)}"})
        self.options, self.folder = options, folder
        self.wanted = set(options.scenarios or NAMES)
        self.notes: list[str] = []
        if not etcd.is_installed():
            without = sorted(name for name in self.wanted & set(SCENARIOS) if SCENARIOS[name].dispatchers > 1)
            self.wanted -= set(without)
            self.notes += [f"{name} is left out: it needs etcd: apt-get install etcd-server" for name in without]

    def run(self) -> dict[str, object]:
        """Runs everything."""
        # Resources that the client keeps for the life of the process exist before the first count of leftovers.
        with contextlib.suppress(UnavailableError):
            fb.connect("forebay://127.0.0.1:1", timeout=0.01)
        cases = [case for work in self._workloads() for case in self._cases(work)]
        calm: dict[tuple[str, int], float | None] = {}
        rows = []
        progress = _native.Progress("injecting faults")
        try:
            for done, case in enumerate(cases):
                progress.show(done, len(cases))
                which = (case.workload.name, case.workers)
                # The folder for one run's processes, state and temporary files, in which leftovers are counted before
                # it is removed.
                with tempfile.TemporaryDirectory(dir=self.folder) as here:
                    rows.append(run(case, Path(here), calm.get(which), self.options.timing))
                calm.setdefault(which, rows[-1].longest_ms)
        finally:
            progress.end()
        versions = {"python": platform.python_version(), "numpy": np.__version__}
        return {"versions": versions, "rows": [asdict(row) for row in rows], "notes": self.notes}

    def _workloads(self) -> Iterator[Workload]:
        samples = SAMPLES_QUICK if self.options.quick else SAMPLES
        seed = self.options.seed
        yield workload.of_records(self.folder / "records", self.options.samples or samples["records"], seed)
        if self.wanted & set(CACHE_PLACES):
            yield workload.of_kept(self.folder / "kept", self.options.samples or samples["records"], seed)
        yield workload.of_pictures(self.folder / "pictures", samples["pictures"], seed)

    def _cases(self, work: Workload) -> Iterator[Case]:
        """Yields the runs of a workload; for each number of workers, the undisturbed run first."""
        few = self.options.quick or work.name != "records"
        for workers in self.options.workers or ((SWEPT,) if few else WORKERS):
            yield Case(NOFAIL, "none", work, workers, "", {}, None)
            of_cache = work.name == KEPT
            for name, scenario in SCENARIOS.items():
                fits = workers >= scenario.workers_min and scenario.of_cache == of_cache
                if name in self.wanted and fits:
                    bound = scenario.bound_for(workers)
                    for place, batch in self._places(work, workers, scenario):
                        yield Case(name, scenario.fault, work, workers, place, {batch: scenario}, bound)
            if of_cache:
                continue
            if CLIENT in self.wanted:
                for place, batch in self._places(work, workers):
                    fault = "SIGKILL the trainer; it goes on from its state_dict"
                    yield Case(CLIENT, fault, work, workers, place, {}, ALONE, kill_client=batch)
            if SUCCESSIVE in self.wanted and workers > 1:
                yield from self._successions(work, workers)

    def _places(self, work: Workload, workers: int, scenario: Scenario | None = None) -> Iterator[tuple[str, int]]:
        """Yields the places of faults: a name, and the number of batches before it."""
        epoch, last = work.batches // EPOCHS, work.batches
        of = {
            "first batch": 1,
            "quarter": epoch // 4,
            "middle": epoch // 2,
            "end of an epoch": epoch,
            "second epoch": epoch + epoch // 2,
            "last batch": last - 1,
            "end of sequence": last,
        }
        every = workers == SWEPT or bool(self.options.workers)
        names: tuple[str, ...] = PLACES if every and not self.options.quick else PLACES_FEW
        lasting = scenario is not None and scenario.lasting
        if work.name == "pictures" or (lasting and self.options.quick):
            names = ("middle",)
        if scenario is not None and scenario.of_cache:
            names = (CACHE_PLACES[scenario.name],)
        for name in names:
            yield name, of[name]

    def _successions(self, work: Workload, workers: int) -> Iterator[Case]:
        for n in range(1 if self.options.quick or work.name == "pictures" else SUCCESSIONS):
            strikes = scenarios.successive(random.Random(self.options.seed + n), work.batches)
            fault = ", ".join(scenario.name for scenario in strikes.values())
            yield Case(SUCCESSIVE, fault, work, workers, "at random", strikes, SILENT)
