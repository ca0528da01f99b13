"""Runs Forebay and its rivals in turns on the rivals' harness, and writes the medians and a chart of them.

    python bench/compare.py --peers FOLDER [--rounds 5] [--only W1,W4] [--out bench/results]

`FOLDER` holds the harness (`peerlib.py`, `run_all.py`, the `peer_*.py`), its data and its venvs; a rival without a venv
is left out. Every run is a separate process: A B C A B C, so that a machine that changes its speed affects all of them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import platform
import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from chart import draw


class Peer(NamedTuple):
    """One line of a comparison: its interpreter, its script, and its name in the chart."""

    venv: str
    script: str
    workload: str
    variant: str
    name: str


OURS, SERVICE = "Forebay", "Forebay, through a service"
PEERS = [
    Peer("forebay", "peer_forebay.py", "W1", "local", OURS),
    Peer("torch", "peer_dali.py", "W1", "roi", "DALI (CPU)"),
    Peer("tf", "peer_tfdata.py", "W1", "default", "tf.data"),
    Peer("torch", "peer_torch.py", "W1", "tvio", "PyTorch DataLoader"),
    Peer("forebay", "peer_forebay.py", "W1", "service", SERVICE),
    Peer("tf", "peer_tfdata.py", "W1", "svc_nocomp", "tf.data service"),
    Peer("forebay", "peer_forebay.py", "W2", "local", OURS),
    Peer("tf", "peer_tfdata.py", "W2", "vec", "tf.data, vectorised by hand"),
    Peer("torch", "peer_torch.py", "W2", "vec", "PyTorch, vectorised by hand"),
    Peer("forebay", "peer_forebay.py", "W2", "service", SERVICE),
    Peer("forebay", "peer_forebay.py", "W2", "columns", "Forebay, Python on columns"),
    Peer("forebay", "peer_forebay.py", "W2", "python", "Forebay, Python on each record"),
    Peer("torch", "peer_torch.py", "W2", "map", "PyTorch, Python on each record"),
    Peer("forebay", "peer_forebay.py", "W3", "local", OURS),
    Peer("torch", "peer_torch.py", "W3", "default", "PyTorch DataLoader"),
    Peer("torch", "peer_loaders.py", "W3", "tokenizers_raw", "tokenizers alone"),
    Peer("tf", "peer_tfdata.py", "W3", "flat", "tf.data"),
    Peer("forebay", "peer_forebay.py", "W3", "service", SERVICE),
    Peer("forebay", "peer_forebay.py", "W4", "local", OURS),
    Peer("ray", "peer_ray.py", "W4", "polars", "Polars"),
    Peer("ray", "peer_ray.py", "W4", "arrow", "PyArrow"),
    Peer("tf", "peer_tfdata.py", "W4", "default", "tf.data"),
    Peer("forebay", "peer_forebay.py", "W4", "service", SERVICE),
]


def harness(folder: Path) -> ModuleType:
    """Copies Forebay's workloads next to the rivals' workloads, and loads the code that runs them."""
    shutil.copy(Path(__file__).with_name("peer_forebay.py"), folder)
    venv = folder / "venv" / "forebay"
    if not venv.exists():
        venv.symlink_to(sys.prefix)
    sys.path.insert(0, str(folder))
    return importlib.import_module("run_all")


def run(peers: list[Peer], folder: Path, rounds: int, seconds: float, warmup: float) -> Iterator[list[dict[str, Any]]]:
    """Runs every peer once a round; after each round yields the results of all runs so far."""
    runner = harness(folder)
    (folder / "logs").mkdir(exist_ok=True)
    told = folder / "runs.jsonl"
    begin = told.stat().st_size if told.exists() else 0
    how = argparse.Namespace(data=str(folder / "data"), seconds=seconds, warmup=warmup, gate=8.0)
    for turn in range(rounds):
        for peer in peers:
            runner.one((peer.venv, peer.script, peer.workload, peer.variant), turn, how)
        with told.open() as lines:
            lines.seek(begin)
            yield [json.loads(line) for line in lines]


def medians(peers: list[Peer], runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns one line for each peer that ran: the median of its runs' results."""
    rows = []
    for peer in peers:
        # A script of several rivals has the name of the rival that it ran.
        names = (peer.script.removeprefix("peer_").removesuffix(".py"), peer.variant)
        variant = [r for r in runs if (r["workload"], r["variant"]) == (peer.workload, peer.variant)]
        mine = [r for r in variant if r["peer"] in names]
        if not mine:
            continue

        def median(key: str, of: list[dict[str, Any]] = mine) -> float:
            return statistics.median(run[key] for run in of)

        rows.append(
            {
                "workload": peer.workload,
                "name": peer.name,
                "runs": len(mine),
                "items_per_s": median("items_per_s"),
                "least": min(r["items_per_s"] for r in mine),
                "most": max(r["items_per_s"] for r in mine),
                "cpu_s_per_1000": median("cpu_s_per_1000"),
                "pss_mb": median("pss_end_mb"),
                "first_batch_s": median("first_batch_s"),
                "versions": mine[-1]["versions"],
            }
        )
    return rows


def machine() -> str:
    """Returns the processor and the system, in words."""
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    cores = len([line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor")])
    return f"{cores} x {cpu.partition(':')[2].strip()}, {platform.platform()}, Python {platform.python_version()}"


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True, help="the folder of the rivals' harness")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="measured in each run")
    parser.add_argument("--warmup", type=float, default=2)
    parser.add_argument("--only", default="", help="workloads, separated by commas")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"))
    arguments = parser.parse_args()
    folder = arguments.peers.resolve()
    only = [w for w in arguments.only.split(",") if w]
    peers = [p for p in PEERS if not only or p.workload in only]
    peers = [p for p in peers if p.venv == "forebay" or (folder / "venv" / p.venv).exists()]
    shown = " ".join(["bench/compare.py", *(f"--{k} {getattr(arguments, k)}" for k in ("rounds", "seconds", "warmup"))])
    date = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d")
    arguments.out.mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = []
    for runs in run(peers, folder, arguments.rounds, arguments.seconds, arguments.warmup):
        rows = medians(peers, runs)
        result = {"date": date, "machine": machine(), "command": shown, "results": rows}
        (arguments.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
        (arguments.out / "comparison.svg").write_text(draw(result))
    for row in rows:
        least, most = row["least"], row["most"]
        print(
            f"{row['workload']} {row['name']:32} {row['items_per_s']:>13,.0f}/s ({least:,.0f} to {most:,.0f})"
            f"  {row['cpu_s_per_1000']:.4f} CPU-s/1000  {row['pss_mb']:.0f} MB"
        )


if __name__ == "__main__":
    main()
