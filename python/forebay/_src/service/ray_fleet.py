"""Workers as actors of a Ray cluster, as many as the dispatcher requests.

A thread of the driver asks the dispatcher for the number, looks at the actors, and obeys the reconciler, which `up`
uses too. Ray places the actors. An actor that waits for room stays until it is no longer needed, because Ray's
autoscaler sees it. Invariants: there are at most `max_workers` actors; a failed start is retried after a pause, which
doubles each time; actors end with the driver, and workers with their actors. Bounds: `EVENTS_MAX` events are kept.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from forebay import _native
from forebay.errors import ForebayError

State: TypeAlias = Literal["waiting", "starting", "running", "leaving"]
Kind: TypeAlias = Literal["waiting", "started", "leaving", "ended", "failed", "unknown", "known"]

#: Events that are kept; the oldest are dropped first.
EVENTS_MAX = 256
#: Actors that may start or leave at the same time: on a cluster they start in parallel.
AT_ONCE = 16
#: Seconds between two checks of the actors.
LOOK_SECONDS = 0.25
#: Seconds that the dispatcher may take to answer.
ANSWER_SECONDS = 2.0
#: Seconds that an actor may wait for room before an event reports it.
ROOM_SECONDS = 5.0
#: Seconds from an actor's placement until the dispatcher must know its worker.
START_SECONDS = 30.0
#: A worker that has run for so many seconds counts as able to run.
LIVES_SECONDS = 10.0
#: Seconds that a worker may take to leave: longer than it waits for its consumers.
LEAVE_SECONDS = 15.0
#: Seconds that an actor may take to end its worker.
END_SECONDS = 5.0

_log = logging.getLogger("forebay")
_LEVELS = {"failed": logging.ERROR, "waiting": logging.WARNING, "unknown": logging.WARNING}


@dataclass(frozen=True)
class RayWorker:
    """A worker on the cluster.

    Attributes:
        state: `waiting` (for room on the cluster), `starting`, `running`, or `leaving`: then it serves the rest of its
            data.
        node: The address of its node; empty while it waits.
        pid: Its process there; 0 while it waits.
        address: The address at which it serves; empty before that.
    """

    state: State
    node: str = ""
    pid: int = 0
    address: str = ""


@dataclass(frozen=True)
class RayEvent:
    """A change of the workers.

    Attributes:
        ago: Seconds since then.
        kind: `waiting` (there is no room for a worker), `started`, `leaving`, `ended` (on command), `failed` (another
            is started after a pause), `unknown` (the dispatcher does not say how many it needs) or `known` (it does
            again).
        message: The event, in words.
        cause: The known cause, if the message does not give it: the last output of a worker that failed, for example.
    """

    ago: float
    kind: Kind
    message: str
    cause: str = ""


@dataclass
class _Place:
    """An actor, and the pending calls on it. Times are those of `time.monotonic`."""

    actor: Any
    asked: float
    placed: Any
    announced: Any
    ended: Any
    since: float
    shown: RayWorker = field(default_factory=lambda: RayWorker("waiting"))

    def become(self, state: State, now: float) -> None:
        self.shown, self.since = replace(self.shown, state=state), now

    def __str__(self) -> str:
        return f"the worker on {self.shown.node} (process {self.shown.pid})" if self.shown.node else "the worker"


class Fleet:
    """The actors, and the thread that keeps their number right: it alone starts and ends them.

    Args:
        ray: The module, connected to a cluster.
        asks: The dispatcher, which answers within a bound.
        max_workers: The most actors at a time.
        actor: Requests an actor from Ray.
        needs: The resources that Ray reserves for each, by name.
        kind: The dispatcher's kind of worker for these actors, and whether they may be preempted.
        count: The number of workers. Default: what the dispatcher wants.
    """

    def __init__(
        self,
        ray: Any,
        asks: _native.ServiceClient,
        max_workers: int,
        actor: Callable[[], Any],
        needs: Mapping[str, float],
        kind: tuple[str, bool] | None = None,
        count: int | None = None,
    ) -> None:
        self._ray, self._asks, self._actor, self._needs, self._kind = ray, asks, actor, needs, kind or (None, False)
        self._count = count
        self._reconciler = _native.Reconciler(0 if kind else 1, max_workers, AT_ONCE)
        self._places: list[_Place] = []
        self._events: deque[tuple[float, RayEvent]] = deque(maxlen=EVENTS_MAX)
        self._lock, self._stop, self._drain = threading.Lock(), threading.Event(), False
        self._pid = os.getpid()
        #: Whether events have reported that the dispatcher does not answer, and that there is no room.
        self._gap, self._no_room = False, False
        #: The workers that other threads see, replaced as a whole.
        self.shown: tuple[RayWorker, ...] = ()
        self._thread = threading.Thread(target=self._run, name="forebay-ray", daemon=True)
        self._thread.start()

    def events(self) -> list[RayEvent]:
        """Returns the events, the oldest first."""
        now = time.monotonic()
        with self._lock:
            return [replace(event, ago=now - at) for at, event in self._events]

    def stop(self) -> None:
        """Makes the thread end the actors at once, and then itself. Does not wait for that."""
        self._stop.set()

    def close(self, drain: bool) -> None:
        """Ends the actors, and waits for that; a second call only waits."""
        # A forked copy of this process owns no actors.
        if os.getpid() == self._pid:
            self._drain = drain
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            if not self._ray.is_initialized():
                # Ray ends a driver's actors with its connection.
                self._tell("failed", "this program has left the Ray cluster, and the workers with it")
                break
            try:
                self._step(time.monotonic())
                pause = LOOK_SECONDS
            except Exception as error:
                # Ray's own error: the cluster does not answer. Consumers continue with the workers that there are.
                pause = self._failed("the Ray cluster does not do as it is asked", f"{type(error).__name__}: {error}")
            self.shown = tuple(place.shown for place in self._places)
        if self._ray.is_initialized():
            self._end_all()
        self.shown = ()

    def _step(self, now: float) -> None:
        wanted = self._wanted()
        self._look(now)
        states = [place.shown.state for place in self._places]
        leaving, running = states.count("leaving"), states.count("running")
        starting = len(states) - leaving - running
        match self._reconciler.next(now, wanted, starting, running, leaving):
            case "start":
                self._start(now)
            case "end":
                self._end_one(now)

    def _wanted(self) -> int | None:
        """Returns the dispatcher's number, or `None` if it has none yet or does not answer."""
        if self._count is not None:
            return self._count
        try:
            wanted = self._asks.wanted(*self._kind)
        except ForebayError as error:
            if not self._gap:
                said = error.context.get("cause", "")
                self._tell("unknown", f"{error.message}; as many workers as were wanted last are kept", said)
            self._gap = True
            return None
        if self._gap:
            self._tell("known", "the dispatcher says again how many workers are wanted")
        self._gap = False
        return wanted

    def _start(self, now: float) -> None:
        actor = self._actor()
        refs = actor.placed.remote(), actor.announced.remote(), actor.ended.remote()
        self._places.append(_Place(actor, now, *refs, since=now))

    def _end_one(self, now: float) -> None:
        """Ends the newest actor in the earliest state: the oldest have the most in their caches."""
        of: tuple[State, ...] = ("waiting", "starting", "running")
        place = next(p for state in of for p in reversed(self._places) if p.shown.state == state)
        if place.shown.state == "waiting":
            self._drop(place)
            self._tell("ended", "a worker that waited for room on the cluster is not wanted any more")
            return
        place.actor.leave.remote()
        place.become("leaving", now)
        self._tell("leaving", f"{place} is not wanted any more, and told to leave")

    def _look(self, now: float) -> None:
        refs = [ref for p in self._places for ref in (p.placed, p.announced, p.ended)]
        ready = set(self._ray.wait(refs, num_returns=len(refs), timeout=0)[0]) if refs else set()
        registered: set[str] | None = None
        for place in list(self._places):
            if place.shown.state == "waiting" and place.placed in ready and (found := self._get(place.placed)):
                place.shown = replace(place.shown, node=found[0], pid=found[1])
                place.become("starting", now)
            state = place.shown.state
            if place.ended in ready:
                self._ended(place)
            elif state == "starting":
                if not place.shown.address and place.announced in ready and (found := self._get(place.announced)):
                    place.shown = replace(place.shown, address=found)
                if place.shown.address and registered is None:
                    registered = self._registered()
                if place.shown.address in (registered or ()):
                    place.become("running", now)
                    self._tell("started", f"{place} serves at {place.shown.address}")
                elif now - place.since > START_SECONDS:
                    self._overdue(place)
            elif state == "running" and now - place.since > LIVES_SECONDS:
                self._reconciler.lives(place.asked)
            elif state == "leaving" and now - place.since > LEAVE_SECONDS:
                self._drop(place)
                self._tell("ended", f"{place} took longer than {LEAVE_SECONDS:.0f} s to leave, and was killed")
        self._tell_of_room(now)

    def _registered(self) -> set[str]:
        """Returns the addresses of the workers that the dispatcher knows."""
        try:
            return {row[1] for row in self._asks.workers() if row[3] != "lost"}
        except ForebayError:
            return set()

    def _overdue(self, place: _Place) -> None:
        within = f"within {START_SECONDS:.0f} s"
        what = f"{place} did not listen {within}"
        if place.shown.address:
            what = f"{place} listens, and the dispatcher at {self._asks.address} did not hear of it {within}"
            what += ": the node must be able to reach it"
        self._drop(place)
        self._failed(what)

    def _ended(self, place: _Place) -> None:
        try:
            code, said = self._ray.get(place.ended)
        except self._ray.exceptions.RayError as error:
            code, said = None, str(error)
        self._drop(place)
        if place.shown.state == "leaving":
            self._tell("ended", f"{place} has left")
        elif code is None:
            gone = "is lost with its actor" if place.shown.node else "could not be started"
            self._failed(f"{place} {gone}", said)
        else:
            how = f"{signal.strsignal(-code)}, signal {-code}" if code < 0 else f"exit code {code}"
            self._failed(f"{place} ended ({how})", said)

    def _tell_of_room(self, now: float) -> None:
        """Reports, once while it lasts, that there is no room for workers, and why."""
        waiting = [p for p in self._places if p.shown.state == "waiting"]
        if not waiting:
            self._no_room = False
        elif not self._no_room and now - waiting[0].asked > ROOM_SECONDS:
            self._no_room = True
            why = _why_no_room(self._ray, self._needs)
            self._tell("waiting", "the Ray cluster has no room for another worker; it waits", why)

    def _get(self, ref: Any) -> Any:
        """Returns an actor's answer, or `None` if it has died, which is noted as its end."""
        try:
            return self._ray.get(ref)
        except self._ray.exceptions.RayError:
            return None

    def _drop(self, place: _Place) -> None:
        """Forgets an actor and kills it; its worker ends with it."""
        self._places.remove(place)
        self._ray.kill(place.actor)

    def _failed(self, message: str, cause: str = "") -> float:
        """Reports a failure, and returns the seconds until another worker is started."""
        pause = self._reconciler.failed(time.monotonic())
        self._tell("failed", f"{message}; another is started in {pause:.3g} s", cause)
        return pause

    def _tell(self, kind: Kind, message: str, cause: str = "") -> None:
        with self._lock:
            self._events.append((time.monotonic(), RayEvent(0.0, kind, message, cause)))
        _log.log(_LEVELS.get(kind, logging.INFO), "ray: %s%s", message, f"\n{cause}" if cause else "")

    def _end_all(self) -> None:
        """Ends all actors together. An actor that waits for room has no worker to end."""
        placed = [p for p in self._places if p.shown.state != "waiting"]
        told = [p.actor.leave.remote() if self._drain else p.actor.end.remote() for p in placed]
        ended = [p.ended for p in placed] if self._drain else told
        if ended:
            seconds = LEAVE_SECONDS if self._drain else END_SECONDS
            self._ray.wait(ended, num_returns=len(ended), timeout=seconds)
        for place in list(self._places):
            self._drop(place)


def _why_no_room(ray: Any, needs: Mapping[str, float]) -> str:
    """Returns the resource that a worker needs and that no node has, or has free."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    asked = ", ".join(f"{amount:g} {name}" for name, amount in needs.items())
    if not any(all(node.get(name, 0.0) >= amount for name, amount in needs.items()) for node in nodes):
        most = ", ".join(f"{max((n.get(name, 0.0) for n in nodes), default=0.0):g} {name}" for name in needs)
        return f"a worker takes {asked} on one node, and no node has that: the most that one has is {most}"
    free = ray.available_resources()
    left = ", ".join(f"{free.get(name, 0.0):g} {name}" for name in needs)
    return f"a worker takes {asked}, and of all that the cluster has {left} is free"
