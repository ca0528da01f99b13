"""One run: a fleet, a consumer, faults at their places; then the verdict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from forebay._src.selftest import oracle, remains, trainer
from forebay._src.selftest.fleet import Fleet
from forebay._src.selftest.reading import read
from forebay._src.selftest.scenarios import Bound, Scenario
from forebay._src.selftest.workload import EPOCHS, KEPT, Workload
from forebay.errors import ForebayError

#: A run that takes longer counts as hung.
LIMIT_SECONDS = 90.0
#: The file in which functions note their calls.
LOG = "computed.txt"


@dataclass(frozen=True)
class Case:
    """The settings of a run.

    Attributes:
        name: The name of the scenario.
        fault: The fault, for display.
        workload: The workload.
        workers: The number of workers.
        place: The place in the stream, for display.
        strikes: The faults, by the batch before which they strike.
        bound: The most that they may cost; `None` if that is not judged.
        kill_client: The batch after which the client is killed; `None` if it lives.
    """

    name: str
    fault: str
    workload: Workload
    workers: int
    place: str
    strikes: dict[int, Scenario]
    bound: Bound | None
    kill_client: int | None = None


@dataclass
class Row:
    """A line of the table: the results of a run. Milliseconds are `None` if there are none.

    Attributes:
        calm_ms: The longest wait of an undisturbed run.
        longest_ms: The longest wait from the fault on.
        resumed_ms: From the last restart to the end of that wait.
        again: Splits that were computed more than once.
        again_max: Splits in flight with the process that died, and those under speculative execution.
        left: The leftovers.
        problems: The broken promises; if there are none, the verdict is good.
    """

    scenario: str
    data: str = ""
    workers: int = 0
    fault: str = ""
    place: str = ""
    bound: str = ""
    samples: int = 0
    each_once: bool = False
    bytes: bool = False
    order: bool = False
    calm_ms: float | None = None
    longest_ms: float | None = None
    resumed_ms: float | None = None
    again: int = 0
    again_max: int = 0
    left: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    verdict: str = ""


@dataclass
class Outcome:
    """The results of a run.

    Attributes:
        stream: The rows that the consumer was given.
        longest: The longest wait from the fault on, in seconds; `None` if it is not known.
        resumed: Seconds from the last restart to its end; `None` if no process was restarted.
        allowed: Splits that may have been computed more than once.
    """

    stream: oracle.Stream
    longest: float | None
    resumed: float | None
    allowed: int


def run(case: Case, folder: Path, calm_ms: float | None, timing: bool) -> Row:
    """Runs a case in a folder of its own, and judges it."""
    bound = str(case.bound or "")
    row = Row(case.name, case.workload.name, case.workers, case.fault, case.place, bound, calm_ms=calm_ms)
    before = remains.Own.now()
    struck = case.strikes.values()
    dispatchers = max((scenario.dispatchers for scenario in struck), default=1)
    relayed = any(scenario.relayed for scenario in struck)
    fleet = Fleet(folder, case.workers, relayed, dispatchers, case.workload.name == KEPT)
    try:
        fleet.wait_for_workers()
        with _limit(LIMIT_SECONDS):
            outcome = _read(case, fleet) if case.kill_client is None else _train(case, fleet)
        row.left = remains.leases(fleet)
        _judge(row, case, outcome, (folder / LOG).read_text().splitlines(), timing)
    except (ForebayError, AssertionError, OSError, RuntimeError) as error:
        row.problems.append(f"{type(error).__name__}: {error}")
        row.problems += [f"stderr: {line}" for line in fleet.last_words().splitlines()]
    finally:
        fleet.close()
    row.left += remains.after(fleet, before)
    row.problems += [f"left behind: {what}" for what in row.left]
    row.verdict = "RED" if row.problems else "ok"
    return row


def _judge(row: Row, case: Case, outcome: Outcome, log: list[str], timing: bool) -> None:
    found = oracle.check(case.workload.expected, outcome.stream)
    row.samples, row.each_once = found.samples, found.each_once
    row.bytes, row.order = not found.changed, found.in_order
    row.problems += found.problems()
    row.again_max = outcome.allowed
    if case.workload.calls:
        row.again = oracle.computed(case.workload.expected, log, case.workload.calls, case.workload.units_per_split)
    # If the machine stands still for the time of a lease, splits are computed again, too.
    if timing and row.again > row.again_max:
        expected = f"{row.again_max} were in flight or raced"
        row.problems.append(f"{row.again} splits were computed more than once, and {expected}")
    row.longest_ms = None if outcome.longest is None else 1e3 * outcome.longest
    row.resumed_ms = None if outcome.resumed is None else 1e3 * outcome.resumed
    if timing and case.bound is not None:
        took = outcome.resumed if case.bound.since_restart else outcome.longest
        if took is not None and took >= case.bound.seconds:
            row.problems.append(f"{1e3 * took:.0f} ms, and the bound is: {case.bound}")


class _Races:
    """Counts the splits that got a second worker: on a busy machine some are late without a fault."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._seen, self._before = 0, 0
        self._dispatchers = list(fleet.dispatchers)

    def look(self) -> int:
        """Returns their number so far. Call it before a dispatcher is ended, because it forgets them."""
        if self._dispatchers != self._fleet.dispatchers:
            self._dispatchers = list(self._fleet.dispatchers)
            self._before, self._seen = self._before + self._seen, 0
        self._seen = sum(job.raced for job in self._fleet.service.jobs())
        return self._before + self._seen


def _read(case: Case, fleet: Fleet) -> Outcome:
    """Reads in this process, while faults strike."""
    log, workload = fleet.folder / LOG, case.workload
    job = workload.dataset(log).distribute(fleet.service, job="selftest", epochs=EPOCHS, seed=workload.seed)
    allowed, races = 0, _Races(fleet)
    mending: list[Future[float | None]] = []
    with ThreadPoolExecutor(1) as mender, job.iter() as batches:

        def strike(scenario: Scenario) -> Callable[[], None]:
            def now() -> None:
                nonlocal allowed
                if mending:
                    mending[-1].result()
                races.look()
                allowed += scenario.strike(fleet)
                mending.append(mender.submit(scenario.mend, fleet))

            return now

        reading = read(batches, {place: strike(scenario) for place, scenario in case.strikes.items()})
        restarts = [at for done in mending if (at := done.result()) is not None]
    longest, over = reading.longest(max(1, min(case.strikes, default=1)))
    resumed = max(0.0, over - restarts[-1]) if restarts else None
    return Outcome(reading.stream, longest, resumed, allowed + races.look())


def _train(case: Case, fleet: Fleet) -> Outcome:
    """Runs a trainer in a separate process, kills it, and runs it again to its end."""
    workload, log = case.workload, fleet.folder / LOG
    place = f"forebay://{fleet.address}"
    config = json.dumps({**workload.config(log), "service": place, "folder": str(fleet.folder)})
    command = [sys.executable, "-c", "from forebay._src.selftest.trainer import main; main()", config]
    environment = {**os.environ, "TMPDIR": str(fleet.temporary)}
    with fleet.errors.open("a") as errors:

        def start() -> subprocess.Popen[str]:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)

        with start() as first:
            assert first.stdout is not None
            for line in first.stdout:
                if int(line) == case.kill_client:
                    break
            held = sum(fleet.leases().values())
            first.kill()
        launched = time.perf_counter()
        with start() as second:
            assert second.stdout is not None
            began = second.stdout.readline()
            resumed = time.perf_counter() - launched
            second.stdout.read()
    if second.returncode != 0:
        raise RuntimeError(f"the trainer that was started again ended with code {second.returncode}")
    # The batches after the trainer's last save are requested again.
    lost = trainer.SAVE_EVERY // workload.units_per_split + 1
    # No batch comes if the last save was at the end.
    return Outcome(trainer.load(fleet.folder), None, resumed if began else None, held + lost + _Races(fleet).look())


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raises an error in a run that hangs, by a signal: code that waits for a batch checks for signals."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"it hangs: nothing came to an end within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
