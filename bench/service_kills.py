"""One of two workers is killed in the middle of a finite epoch: the results of tf.data service and of Forebay.

    python bench/service_kills.py --tf-python VENV/bin/python [--json FILE]

4,000 elements in 40 splits, two workers as separate processes, a consumer that takes an element each millisecond. After
1,000 of them a worker is killed with SIGKILL; it stays away, or is restarted at its address. The same script runs in
TensorFlow's Python for each of its processes. An iteration that yields nothing for 30 s counts as hung, and is ended.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

ELEMENTS, SPLITS, KILL_AFTER, WORKERS = 4000, 40, 1000, 2
LINE = "{:34}{:34}{:>10}{:>6}{:>6}  {:8}{:6}{:>12}"
STEP_SECONDS, HANG_SECONDS, AWAY_SECONDS = 0.001, 30.0, 2.0


@dataclass
class Result:
    """The results of a consumer.

    Attributes:
        system: The system of the service.
        killed: The fate of the worker.
        delivered: Elements that came.
        lost: Of 4,000, the elements that never came.
        duplicated: Elements that came more than once.
        in_order: Whether they came in the same order as without the kill; `None` if no order is promised.
        hung: Whether the iteration had to be ended.
        longest_wait_ms: The longest wait between two elements, without a hang.
    """

    system: str
    killed: str
    delivered: int
    lost: int
    duplicated: int
    in_order: bool | None
    hung: bool
    longest_wait_ms: float


def free_port() -> int:
    """Returns a port that no process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Fleet:
    """Processes of one service. Each role is this script again, in the Python that has its library."""

    def __init__(self, system: str, python: str, folder: Path) -> None:
        self.system, self.python, self.folder = system, python, folder
        self.dispatcher, self.ports = free_port(), [free_port() for _ in range(WORKERS)]
        self.children = [self.start("dispatcher", self.dispatcher, str(folder / "state"))]
        wait_for(self.dispatcher)
        self.workers = [self.worker(i) for i in range(WORKERS)]
        for port in self.ports:
            wait_for(port)

    def worker(self, i: int) -> subprocess.Popen[str]:
        """Starts worker `i` at its address."""
        child = self.start("worker", self.dispatcher, self.ports[i])
        self.children.append(child)
        return child

    def start(self, role: str, *arguments: object) -> subprocess.Popen[str]:
        """Starts a process in a role."""
        command = [self.python, __file__, "--role", f"{self.system}-{role}", *map(str, arguments)]
        with (self.folder / "stderr.txt").open("a") as errors:
            pipe = subprocess.PIPE
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True)

    def close(self) -> None:
        """Ends them all."""
        for child in self.children:
            child.kill()
            child.wait()


def wait_for(port: int) -> None:
    """Waits until a process listens."""
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def measure(system: str, python: str, again: bool) -> Result:
    """Runs one epoch, and kills a worker in the middle of it."""
    with tempfile.TemporaryDirectory(prefix="service-kills-") as folder:
        fleet = Fleet(system, python, Path(folder))
        try:
            consumer = fleet.start("consumer", fleet.dispatcher)
            fleet.children.append(consumer)
            got, waits, hung = read(consumer, lambda: strike(fleet, again))
        finally:
            fleet.close()
    times = Counter(got)
    return Result(
        {"tf": "tf.data service, dynamic sharding", "fb": "Forebay"}[system],
        "is started again at its address" if again else "stays away",
        len(got),
        ELEMENTS - len(times),
        sum(n > 1 for n in times.values()),
        got == list(range(ELEMENTS)) if system == "fb" else None,
        hung,
        1e3 * max(waits[10:], default=0.0),
    )


def strike(fleet: Fleet, again: bool) -> None:
    """Kills the first worker."""
    fleet.workers[0].kill()
    fleet.workers[0].wait()
    if again:
        threading.Timer(AWAY_SECONDS, lambda: fleet.worker(0)).start()


def read(consumer: subprocess.Popen[str], kill: object) -> tuple[list[int], list[float], bool]:
    """Reads the numbers and `end` that a consumer prints; returns them, the waits, and whether it hung."""
    lines: queue.Queue[str] = queue.Queue()
    assert consumer.stdout is not None
    threading.Thread(target=pump, args=(consumer.stdout, lines), daemon=True).start()
    got: list[int] = []
    waits: list[float] = []
    while True:
        before = time.perf_counter()
        try:
            line = lines.get(timeout=HANG_SECONDS)
        except queue.Empty:
            return got, waits, True
        if line == "end\n":
            return got, waits, False
        if not line:
            raise RuntimeError("the consumer ended early")
        waits.append(time.perf_counter() - before)
        got.append(int(line))
        if len(got) == KILL_AFTER:
            kill()  # type: ignore[operator]


def pump(file: IO[str], lines: queue.Queue[str]) -> None:
    """Passes lines on, and an empty one at the end."""
    for line in file:
        lines.put(line)
    lines.put("")


def consume(elements: object) -> None:
    """Prints elements, one each millisecond."""
    for element in elements:  # type: ignore[attr-defined]
        print(int(element), flush=True)
        time.sleep(STEP_SECONDS)
    print("end", flush=True)


def tf_role(role: str, arguments: list[str]) -> None:
    """Runs as a process of tf.data service."""
    import tensorflow as tf

    service = tf.data.experimental.service
    if role == "dispatcher":
        config = service.DispatcherConfig(port=int(arguments[0]), work_dir=arguments[1], fault_tolerant_mode=True)
        service.DispatchServer(config).join()
    elif role == "worker":
        dispatcher, port = arguments
        config = service.WorkerConfig(
            dispatcher_address=f"localhost:{dispatcher}",
            worker_address=f"localhost:{port}",
            port=int(port),
            heartbeat_interval_ms=1000,
        )
        service.WorkerServer(config).join()
    else:
        each = ELEMENTS // SPLITS
        ds = tf.data.Dataset.range(SPLITS).flat_map(lambda i: tf.data.Dataset.range(i * each, (i + 1) * each))
        mode = service.ShardingPolicy.DYNAMIC
        consume(ds.apply(service.distribute(mode, f"grpc://localhost:{arguments[0]}")).as_numpy_iterator())


def fb_role(role: str, arguments: list[str]) -> None:
    """Runs as a process of Forebay: its own command, or a consumer."""
    import forebay as fb

    command = [sys.executable, "-m", "forebay", role]
    if role == "dispatcher":
        os.execv(sys.executable, [*command, "--listen", f"127.0.0.1:{arguments[0]}", "--state-dir", arguments[1]])
    if role == "worker":
        dispatcher, port = arguments
        where = ["--dispatcher", f"127.0.0.1:{dispatcher}", "--listen", f"127.0.0.1:{port}", "--threads", "1"]
        os.execv(sys.executable, [*command, *where])
    rows = fb.range(ELEMENTS).distribute(f"forebay://127.0.0.1:{arguments[0]}", job="kills")
    consume(row["id"] for row in rows)


def versions(tf_python: str | None) -> dict[str, str]:
    """Returns the versions of the software."""
    import forebay as fb

    found = {
        "forebay": fb.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": str(os.cpu_count()),
    }
    if tf_python:
        ask = "import tensorflow as tf; print(tf.__version__)"
        done = subprocess.run([tf_python, "-c", ask], capture_output=True, text=True, check=True)
        found["tensorflow"] = done.stdout.strip()
    return found


def main() -> None:
    """Runs the chosen systems, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf-python", help="a Python with tensorflow; without it only Forebay runs")
    parser.add_argument("--json", type=Path, help="where to write the results")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        system, _, role = options.role.partition("-")
        return {"tf": tf_role, "fb": fb_role}[system](role, options.arguments)
    systems = [("tf", options.tf_python)] if options.tf_python else []
    results = []
    heading = ("system", "the killed worker", "delivered", "lost", "twice", "order", "ends", "longest wait")
    print(LINE.format(*heading))
    for system, python in [*systems, ("fb", sys.executable)]:
        for again in (False, True):
            r = measure(system, python, again)
            order = "-" if r.in_order is None else "same" if r.in_order else "CHANGED"
            ends, wait = "HANGS" if r.hung else "yes", f"{r.longest_wait_ms:.0f} ms"
            counts = (r.delivered, r.lost, r.duplicated)
            print(LINE.format(r.system, r.killed, *counts, order, ends, wait), flush=True)
            results.append(asdict(r))
    if options.json:
        report = {"versions": versions(options.tf_python), "elements": ELEMENTS, "results": results}
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return None


if __name__ == "__main__":
    main()
