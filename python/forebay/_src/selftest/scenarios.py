"""The faults: the process that each strikes, the repair, and the most that it may cost.

A fault strikes between two batches, on the consumer's thread, so its place in the epoch is exact; the repair runs on
another thread while the consumer reads on. Scenarios of the published suite keep their names here.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from forebay._src.selftest.fleet import Fleet

#: The default lease and one heartbeat, and a little more: a worker that is stopped for so long has lost its leases.
STOPPED_SECONDS = 2.6
CUT_SECONDS = 6.0
#: The most splits that a consumer has in flight.
WINDOW = 16
#: Seconds without any worker, if the last one is killed.
NOTHING_SECONDS = 1.5
#: For a worker that dies while others live: its connections break, and others take over.
WAIT_KILLED = 0.5
#: For a worker that is silent: others wait for the end of its lease.
WAIT_SILENT = 3.0
#: For a dispatcher that is killed and restarted: the consumer reads leased splits meanwhile.
WAIT_DISPATCHER = 1.0
#: For the leader of several dispatchers that is killed: its lease in etcd expires, and another takes over.
WAIT_LEADER = 5.0
#: If no worker was left: from the time at which the last restarted process listens.
RESUME = 2.0
SUCCESSIVE_FAULTS = 5


@dataclass(frozen=True)
class Bound:
    """The most that a fault may cost the consumer.

    Attributes:
        seconds: The limit.
        since_restart: Whether they count from the time at which the last restarted process listens, and not for a whole
            wait.
    """

    seconds: float
    since_restart: bool = False

    def __str__(self) -> str:
        """For people.

        >>> str(Bound(0.5)), str(Bound(2.0, since_restart=True))
        ('wait < 500 ms', 'resumes < 2000 ms after the restart')
        """
        most = f"< {1e3 * self.seconds:.0f} ms"
        return f"resumes {most} after the restart" if self.since_restart else f"wait {most}"


ALONE = Bound(RESUME, since_restart=True)


@dataclass(frozen=True)
class Scenario:
    """A fault and its repair.

    Attributes:
        name: Its name; the one of the published suite, if that has it.
        fault: The fault, for display.
        strike: Applies the fault; returns how many splits may then be computed again.
        mend: The repair, in the background; returns the time at which the last process listened, or was continued.
        bound: The bound if other workers go on.
        workers_min: The least number of workers.
        alone: The bound if the only worker is struck.
        relayed: Whether the first worker is behind relays.
        lasting: Whether it takes seconds: a quick sweep runs it at one place.
        dispatchers: The number of dispatchers, of which one leads; several need an etcd on this machine.
        of_cache: Whether it strikes a cache, which needs a pipeline with one.
    """

    name: str
    fault: str
    strike: Callable[[Fleet], int]
    mend: Callable[[Fleet], float | None]
    bound: Bound
    workers_min: int = 1
    alone: Bound = ALONE
    relayed: bool = False
    lasting: bool = False
    dispatchers: int = 1
    of_cache: bool = False

    def bound_for(self, workers: int) -> Bound:
        """Returns the bound with so many workers."""
        return self.alone if workers == 1 else self.bound


def _nothing(_: Fleet) -> None:
    return None


def _kill_one(fleet: Fleet) -> int:
    return fleet.kill_workers([0])


def _kill_reading(fleet: Fleet) -> int:
    """Kills a worker while it reads cached rows, and deletes every second block of them, too."""
    held = fleet.kill_workers([0])
    blocks = sorted(fleet.kept.rglob("*.arrow"))
    if not blocks:
        raise RuntimeError("nothing was kept, so nothing can be lost")
    for block in blocks[::2]:
        block.unlink()
    return held


def _restart_one(fleet: Fleet) -> float:
    fleet.restart_workers([0])
    return fleet.workers[0].listening


def _stop_one(fleet: Fleet) -> int:
    fleet.workers[0].signal(signal.SIGSTOP)
    # Its requests are granted to it until its lease is over, and the messages lie in its socket when it continues.
    return WINDOW


def _continue_one(fleet: Fleet) -> float:
    time.sleep(STOPPED_SECONDS)
    fleet.workers[0].signal(signal.SIGCONT)
    return time.perf_counter()


def _kill_dispatcher(fleet: Fleet) -> int:
    fleet.dispatcher.kill()
    return 0


def _restart_dispatcher(fleet: Fleet) -> float:
    fleet.restart_dispatcher()
    return fleet.dispatcher.listening


def _kill_leader(fleet: Fleet) -> int:
    fleet.dispatchers[fleet.leader()].kill()
    return 0


def _restart_dead_dispatcher(fleet: Fleet) -> float:
    (dead,) = [number for number, dispatcher in enumerate(fleet.dispatchers) if not dispatcher.runs]
    fleet.restart_dispatcher(dead)
    return fleet.dispatchers[dead].listening


def _kill_workers(fleet: Fleet) -> int:
    return fleet.kill_workers(list(range(len(fleet.workers))))


def _kill_all(fleet: Fleet) -> int:
    held = sum(fleet.leases().values())
    fleet.dispatcher.kill()
    for worker in fleet.workers:
        worker.kill()
    return held


def _restart_all(fleet: Fleet) -> float:
    fleet.restart_dispatcher()
    return _restart_workers(fleet)


def _restart_workers(fleet: Fleet) -> float:
    fleet.restart_workers(list(range(len(fleet.workers))))
    return max(worker.listening for worker in fleet.workers)


def _restart_workers_late(fleet: Fleet) -> float:
    time.sleep(NOTHING_SECONDS)
    return _restart_workers(fleet)


def _terminate_one(fleet: Fleet) -> int:
    fleet.workers[0].signal(signal.SIGTERM)
    return 0


def _replace_one(fleet: Fleet) -> float:
    """Starts a worker in the place of one that leaves, which ends by itself."""
    fleet.start_workers(["127.0.0.1:0"])
    leaving, fleet.workers[0] = fleet.workers[0], fleet.workers.pop()
    code = leaving.popen.wait()
    if code != 0:
        raise RuntimeError(f"a worker that was told to leave ended with code {code}")
    return fleet.workers[0].listening


def _cut(relay: int) -> Callable[[Fleet], int]:
    def strike(fleet: Fleet) -> int:
        fleet.relays[relay].cut()
        # It goes on computing its splits, and after the time of a lease it gets splits once more.
        return 2 * WINDOW

    return strike


def _heal(fleet: Fleet) -> None:
    time.sleep(CUT_SECONDS)
    for relay in fleet.relays:
        relay.heal()


_CUT = "no network from a worker to the {} for 6 s"
KILLED, SILENT = Bound(WAIT_KILLED), Bound(WAIT_SILENT)
ANSWERED = Bound(WAIT_DISPATCHER)
_ALL = (
    Scenario("failover", "SIGKILL a worker; the others go on", _kill_one, _nothing, KILLED, workers_min=2),
    Scenario("recover", "SIGKILL a worker; it is started again", _kill_one, _restart_one, KILLED),
    Scenario(
        "zombie", "SIGSTOP a worker; SIGCONT once its lease is over", _stop_one, _continue_one, SILENT, lasting=True
    ),
    Scenario(
        "dispatcher",
        "SIGKILL the dispatcher; it is started again",
        _kill_dispatcher,
        _restart_dispatcher,
        ANSWERED,
        alone=ANSWERED,
    ),
    Scenario(
        "leader",
        "SIGKILL the leader of two dispatchers; it is started again",
        _kill_leader,
        _restart_dead_dispatcher,
        Bound(WAIT_LEADER),
        alone=Bound(WAIT_LEADER),
        lasting=True,
        dispatchers=2,
    ),
    Scenario("killall", "SIGKILL all but the client; all are started again", _kill_all, _restart_all, ALONE),
    Scenario(
        "none-left",
        "SIGKILL all workers; 1.5 s later, new ones",
        _kill_workers,
        _restart_workers_late,
        ALONE,
        lasting=True,
    ),
    Scenario("cut-client", _CUT.format("consumer"), _cut(1), _heal, SILENT, workers_min=2, relayed=True, lasting=True),
    Scenario(
        "cut-dispatcher", _CUT.format("dispatcher"), _cut(0), _heal, SILENT, workers_min=2, relayed=True, lasting=True
    ),
    Scenario(
        "getfail",
        "SIGKILL a worker, and half of the blocks are lost",
        _kill_reading,
        _restart_one,
        KILLED,
        of_cache=True,
    ),
    Scenario("putfail", "SIGKILL a worker", _kill_one, _restart_one, KILLED, of_cache=True),
    Scenario("drain", "SIGTERM a worker; another takes its place", _terminate_one, _replace_one, KILLED),
)
SCENARIOS = {scenario.name: scenario for scenario in _ALL}
#: The scenarios that run in a different way.
NOFAIL, CLIENT, SUCCESSIVE = "nofail", "client", "successive"
NAMES = (NOFAIL, *SCENARIOS, CLIENT, SUCCESSIVE)


def successive(rng: random.Random, batches: int) -> dict[int, Scenario]:
    """Returns random faults that follow each other, and their places among so many batches.

    >>> successive(random.Random(1), 100) == successive(random.Random(1), 100)
    True
    """
    places = sorted(rng.sample(range(1, batches), min(SUCCESSIVE_FAULTS, batches - 1)))
    choices = [
        s
        for s in _ALL
        if not s.relayed
        and not s.of_cache
        and s.dispatchers == 1
        and s.name not in ("failover", "killall", "none-left")
    ]
    return {place: rng.choice(choices) for place in places}
