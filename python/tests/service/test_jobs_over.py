"""Jobs that are cancelled, forgotten, or over: by the command line and from Python. Tenants see only their own jobs."""

from __future__ import annotations

import json
from collections.abc import Callable

import forebay as fb
import pytest
from secured import forebay, is_forgotten, new_token


def read(address: str, job: str, **shown: str) -> int:
    service = fb.connect(address, **shown)
    return sum(1 for _ in fb.range(64).batch(8).distribute(service, job=job))


def names(address: str, **shown: str) -> list[str]:
    return [job.name for job in fb.connect(address, **shown).jobs()]


def test_a_job_is_cancelled_and_forgotten_from_the_command_line(fleet, until: Callable[..., None]) -> None:
    address = fleet.dispatcher()
    fleet.worker(address)
    jobs = ["jobs", "--service", address]
    with fb.range(10**9).batch(8).distribute(address, job="endless").iter() as batches:
        next(batches)
        early = forebay("jobs", "forget", "endless", "--service", address)
        assert (early.returncode, "goes on" in early.stderr) == (1, True), early.stderr
        assert "forebay jobs cancel endless" in early.stderr
        done = forebay("jobs", "cancel", "endless", "--service", address)
        assert (done.returncode, done.stdout) == (0, "cancelled endless\n"), done.stderr
        with pytest.raises(fb.errors.ClosedError, match="endless"):
            for _ in batches:
                pass
    done = forebay("jobs", "forget", "endless", "--service", address, "--json")
    assert json.loads(done.stdout) == {"job": "endless", "tenant": None, "done": "forgotten"}
    assert names(address) == []
    for what in ("cancel", "forget"):
        missing = forebay("jobs", what, "endless", "--service", address)
        assert (missing.returncode, "no job" in missing.stderr) == (4, True), missing.stderr
    assert read(address, "short") == 8
    service = fb.connect(address)
    until(lambda: service.jobs("short")[0].state == "finished")
    until(lambda: is_forgotten(service, "short"))
    assert names(address) == []
    assert forebay(*jobs).stdout == ""
    assert read(address, "short") == 8, "its name is free, and it begins anew"


def test_each_tenant_forgets_its_own(fleet, until: Callable[..., None]) -> None:
    tokens = fleet.folder / "tokens.json"
    a, b = (new_token(tokens, "client", tenant) for tenant in "ab")
    worker, admin = new_token(tokens, "worker"), new_token(tokens, "admin")
    address = fleet.dispatcher("--tokens", tokens)
    fleet.worker(address, token=worker)
    for token in (a, b):
        assert read(address, "job", token=token) == 8
    for tenants in ("a", "b", "ab", "c"):
        of_one = ("--tenant", tenants) if len(tenants) == 1 else ()
        done = forebay("jobs", "show", "job", "--json", *of_one, "--service", address, FOREBAY_TOKEN=admin)
        if tenants == "c":
            assert 'there is no job "job" of tenant "c"' in done.stderr
        else:
            assert [job["tenant"] for job in json.loads(done.stdout)] == list(tenants)
    with pytest.raises(fb.errors.PermissionDeniedError):
        fb.connect(address, token=a).forget("job", tenant="b")
    fb.connect(address, token=a).cancel("job")
    until(lambda: is_forgotten(fb.connect(address, token=a), "job"))
    assert (names(address, token=a), names(address, token=b)) == ([], ["job"])
    with pytest.raises(fb.errors.ForebayError, match="no job"):
        fb.connect(address, token=a).forget("job")
    for what in ("cancel", "forget"):
        done = forebay("jobs", what, "job", "--tenant", "b", "--service", address, FOREBAY_TOKEN=admin)
        assert done.returncode == 0, done.stderr
    assert names(address, token=b) == []


def test_a_dispatcher_remembers_as_many_as_it_is_told(fleet, until: Callable[..., None]) -> None:
    address = fleet.dispatcher("--keep-jobs", "2")
    fleet.worker(address)
    for job in "abcd":
        assert read(address, job) == 8
    until(lambda: names(address) == ["c", "d"])
    short = fleet.dispatcher("--keep-jobs-for", "100ms")
    fleet.worker(short)
    assert read(short, "a") == 8
    until(lambda: names(short) == [])
    for wrong in ("7", "-1d", "soon"):
        assert forebay("dispatcher", "--keep-jobs-for", wrong).returncode == 2, wrong
