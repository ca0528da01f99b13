"""The command `forebay cluster`: start, status and stop of services on a cluster. Progress goes to stderr."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forebay._src.cluster import clusters, kubeconfig
from forebay._src.cluster.status import ClusterStatus
from forebay.errors import InvalidPipelineError

_EPILOG = """Examples:
  forebay cluster start pipes --workers 4 --image registry.example/forebay:0.1
  forebay cluster start pipes --on ray --workers 4 --address ray://head:10001
  forebay cluster status
  forebay cluster stop pipes

A service goes on when the command has ended. See docs/kubernetes.md and docs/ray.md."""


def run(arguments: list[str]) -> int:
    """Runs the command, and returns its exit code; errors are raised."""
    given = _parser().parse_args(arguments)
    action: Callable[[argparse.Namespace], int] = {"start": _start, "status": _status, "stop": _stop}[given.action]
    return action(given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="forebay cluster",
        description="Start, show and end services on a Kubernetes or Ray cluster, from a machine outside of it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="start|status|stop")
    start = actions.add_parser("start", help="start a service, and wait until it serves; repeated, it only waits")
    start.add_argument("name", help="its name: at most 30 of a-z, 0-9 and -")
    start.add_argument("--workers", default="4", help="number of workers, or auto: as many as the jobs need [4]")
    start.add_argument("--max-workers", type=int, help="the most workers with --workers auto [16]")
    start.add_argument("--threads", type=int, default=1, help="threads of a worker, and cores reserved for it [1]")
    start.add_argument("--image", help="Kubernetes: image of the pods, with this version of Forebay")
    start.add_argument("--spec", type=Path, help="Kubernetes: a YAML file with more fields of a ForebayService")
    start.add_argument("--plain", action="store_true", help="Kubernetes: plain objects, even with forebay-operator")
    start.add_argument("--update", action="store_true", help="Kubernetes: change a running service to these arguments")
    start.add_argument("--timeout", type=float, default=clusters.START_SECONDS, help="seconds to wait; 0: do not [600]")
    status = actions.add_parser("status", help="show a service, or all")
    status.add_argument("name", nargs="?", help="its name [all]")
    stop = actions.add_parser("stop", help="end a service with the state of its jobs, and wait until it is gone")
    stop.add_argument("name", help="its name")
    stop.add_argument("--timeout", type=float, default=clusters.STOP_SECONDS, help="seconds to wait [120]")
    for action in (start, status, stop):
        action.add_argument("--on", choices=("kubernetes", "ray"), default="kubernetes", help="kind of cluster")
        action.add_argument("--namespace", "-n", help="Kubernetes: the namespace [that of the context]")
        action.add_argument("--context", help="Kubernetes: the context of the kubeconfig [the current one]")
        action.add_argument("--address", help="Ray: the address of the cluster, as ray://head:10001 [$RAY_ADDRESS]")
    for action in (start, status):
        action.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _place(given: argparse.Namespace) -> dict[str, Any]:
    return {"on": given.on, "namespace": given.namespace, "context": given.context, "address": given.address}


def _start(given: argparse.Namespace) -> int:
    spec = None if given.spec is None else kubeconfig.of_yaml(given.spec)
    found = clusters.start(
        given.name,
        **_place(given),
        workers=_count(given.workers),
        max_workers=given.max_workers,
        threads=given.threads,
        image=given.image,
        spec=spec,
        plain=given.plain,
        update=given.update,
        timeout=given.timeout,
        progress=_tell,
    )
    if given.json:
        print(_json(found._started))
    else:
        # Scripts take the address: FOREBAY_SERVICE=$(forebay cluster start pipes ...).
        print(found.address)
    return 0


def _count(workers: str) -> Any:
    if workers == "auto":
        return workers
    try:
        return int(workers)
    except ValueError:
        raise InvalidPipelineError(f"--workers {workers} is no number", {"hint": "write a number, or auto"}) from None


def _status(given: argparse.Namespace) -> int:
    if given.name is None:
        found = clusters.status(**_place(given))
        if given.json:
            print(json.dumps([dataclasses.asdict(it) for it in found], indent=2))
        else:
            print(_table(found))
        return 0
    one = clusters.find(given.name, **_place(given))._started
    print(_json(one) if given.json else _page(one))
    return 0


def _stop(given: argparse.Namespace) -> int:
    clusters.stop(given.name, **_place(given), timeout=given.timeout, progress=_tell)
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _json(found: ClusterStatus) -> str:
    return json.dumps(dataclasses.asdict(found), indent=2)


def _table(found: list[ClusterStatus]) -> str:
    """Returns a table of services.

    >>> print(_table([ClusterStatus("pipes", "ray", "head:6379", "actors", "forebay://a:1", True, "1/1", "4/4")]))
    NAME   READY  DISPATCHERS  WORKERS  KIND    ADDRESS
    pipes  yes    1/1          4/4      actors  forebay://a:1
    """
    if not found:
        return "no services"
    rows = [("NAME", "READY", "DISPATCHERS", "WORKERS", "KIND", "ADDRESS")]
    rows += [(it.name, "yes" if it.ready else "no", it.dispatchers, it.workers, it.kind, it.address) for it in found]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def _page(found: ClusterStatus) -> str:
    lines = [_table([found])]
    if found.image:
        lines.append(f"image: {found.image}")
    if not found.ours:
        lines.append("it was not made by `forebay cluster`, which does not stop it")
    return "\n".join([*lines, *(f"- {reason}" for reason in found.reasons)])
