"""Kinds of workers: their names and prices, and the costs of jobs by kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import forebay as fb
import pytest
from secured import forebay


def test_a_job_costs_what_the_workers_of_each_kind_took(fleet, until: Callable[..., None]) -> None:
    address = fleet.dispatcher()
    fleet.worker(address, "--kind", "big", "--price", "3600")
    fleet.worker(address, "--kind", "big", "--price", "1800", "--spot")
    fleet.worker(address)
    service = fb.connect(address)
    until(lambda: len(service.workers()) == 3)
    kinds = sorted((w.kind, w.price, w.spot) for w in service.workers())
    assert kinds == [("big", 1800.0, True), ("big", 3600.0, False), ("fleet", 0.0, False)]
    with fb.range(10**9).batch(8).distribute(service, job="job").iter() as batches:

        def all_worked() -> bool:
            for _ in range(100):
                next(batches)
            [job] = service.jobs("job")
            return len(job.worked) == 3 and all(w.seconds > 0 for w in job.worked)

        until(all_worked)
        [job] = service.jobs("job")
    by_kind = {(w.kind, w.spot): w for w in job.worked}
    for (kind, spot), price in ((("big", False), 1.0), (("big", True), 0.5), (("fleet", False), 0.0)):
        worked = by_kind[kind, spot]
        assert worked.cost == pytest.approx(worked.seconds * price)
    shown = forebay("jobs", "show", "job", "--service", address)
    assert "h of big (spot)" in shown.stdout, shown
    assert "h of it idle" in shown.stdout, shown
    assert all(w.idle_cost == pytest.approx(w.idle_seconds * w.cost / w.seconds) for w in job.worked)
    listed = json.loads(forebay("workers", "--service", address, "--json").stdout)
    assert {(w["kind"], w["spot"]) for w in listed} == {("big", False), ("big", True), ("fleet", False)}
    for wrong in (["--kind", "a b"], ["--kind", "local"]):
        done = forebay("worker", "--dispatcher", address, *wrong)
        assert (done.returncode, "kind of workers" in done.stderr) == (2, True), done.stderr
    assert forebay("worker", "--dispatcher", address, "--price", "-1").returncode == 2


def test_kinds_that_are_offered_are_wanted_by_their_price(fleet, until: Callable[..., None]) -> None:
    big, spot = "kind=big,price=3600,threads=1", "kind=big,price=1800,threads=1,max=1,spot"
    address = fleet.dispatcher("--policy", "static:2", "--offer", big, "--offer", spot)
    service = fb.connect(address)
    until(lambda: [kind.wanted for kind in service.scale().kinds] == [0, 1])
    fleet.worker(address, "--kind", "big", "--price", "1800", "--spot")
    until(lambda: [kind.workers for kind in service.scale().kinds] == [0, 1])
    with fb.range(10**9).batch(8).distribute(service, job="job").iter() as batches:

        def wanted() -> list[int | None]:
            for _ in range(100):
                next(batches)
            return [kind.wanted for kind in service.scale().kinds]

        until(lambda: wanted() == [1, 1])
        until(lambda: service.scale().wanted == 2)
    kinds = service.scale().kinds
    assert [(k.kind, k.spot, k.price, k.max_workers, k.pace) for k in kinds] == [
        ("big", False, 3600.0, 1000, 1.0),
        ("big", True, 1800.0, 1, 1.0),
    ]
    shown = forebay("scale", "--service", address).stdout
    assert "big (spot)" in shown, shown
    assert "the cheapest for what jobs want" in shown, shown

    def agrees() -> bool:
        """What is wanted changes once the job has no reader."""
        listed = json.loads(forebay("scale", "--service", address, "--json").stdout)
        return [kind["wanted"] for kind in listed["kinds"]] == [kind.wanted for kind in service.scale().kinds]

    until(agrees)


@pytest.mark.parametrize(
    ("offers", "said"),
    [
        (["kind=a,price=1"], "threads"),
        (["kind=a,price=-1,threads=1"], "price"),
        (["kind=a b,price=1,threads=1"], "kind of workers"),
        (["kind=a,price=1,threads=1", "kind=a,price=2,threads=1"], "offered twice"),
    ],
)
def test_offers_that_make_no_sense_are_refused(offers: list[str], said: str, tmp_path: Path) -> None:
    flags = [word for offer in offers for word in ("--offer", offer)]
    done = forebay("dispatcher", "--state-dir", tmp_path, "--listen", "127.0.0.1:0", *flags)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
