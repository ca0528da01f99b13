"""The error of a consumer when processes that `up` started have ended: at once, with the cause and a hint."""

from __future__ import annotations

import os
import signal
import time
import warnings

import forebay as fb
import forebay.errors as E
import pytest

#: Longer than a consumer is silent before it checks, shorter than it waits for a dispatcher elsewhere.
SOON = 55.0


def slow(row):
    time.sleep(0.002)
    return row


DS = fb.range(6000).map(slow, schema={"id": "int64"}).batch(50)


def read_on(batches: fb.DatasetIterator, seen: list[int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen.extend(int(i) for batch in batches for i in batch["id"])


def test_workers_that_are_gone_are_told_of_and_the_state_goes_on_elsewhere():
    seen: list[int] = []
    with fb.up(workers=2, threads=1) as service:
        batches = DS.distribute(service, job="killed").iter()
        seen.extend(int(i) for i in next(batches)["id"])
        pids = service.worker_pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        begun = time.monotonic()
        with pytest.raises(E.UnavailableError, match="no worker is left") as caught:
            read_on(batches, seen)
        assert time.monotonic() - begun < SOON
        state = batches.state_dict()
    assert all(f"process {pid}" in str(caught.value) for pid in pids)
    assert "SIGKILL" in caught.value.message
    assert all(word in caught.value.hint for word in ("up()", "load_state_dict()", 'workers="auto"'))
    rest = DS.iter()
    rest.load_state_dict(state)
    read_on(rest, seen)
    assert seen == list(range(6000))


@pytest.mark.parametrize("known", ["service", "address"])
def test_a_dispatcher_that_is_gone_is_told_of(known: str):
    with fb.up(workers=1, threads=1) as service:
        batches = DS.distribute(service if known == "service" else service.address, job="alone").iter()
        next(batches)
        pid = service.dispatcher_pid
        os.kill(pid, signal.SIGKILL)
        begun = time.monotonic()
        with pytest.raises(E.UnavailableError, match=r"ended .*SIGKILL") as caught:
            read_on(batches, [])
        assert time.monotonic() - begun < SOON
        assert f"process {pid}" in caught.value.message
        assert "up()" in caught.value.hint
        assert "state" in caught.value.hint
        # Later requests do not wait either.
        begun = time.monotonic()
        for call in (service.jobs, service.workers, lambda: next(DS.distribute(service, job="more").iter())):
            with pytest.raises(E.UnavailableError, match=r"ended .*SIGKILL"):
                call()
        assert time.monotonic() - begun < SOON
        # But it can be restarted, over its state.
        service.restart_dispatcher()
        assert [job.name for job in service.jobs()] == ["alone"]


# A local worker runs at idle priority: on cores that other tests keep busy it gets no time at all.
@pytest.mark.alone
def test_another_worker_of_the_service_is_waited_for(until):
    with fb.up(workers=1, threads=1) as service:
        batches = DS.distribute(service, job="beside", local=1).iter()
        next(batches)
        until(lambda: any(worker.local for worker in service.workers()))
        service.kill_worker()
        seen: list[int] = []
        read_on(batches, seen)
        assert seen[-1] == 5999


def test_workers_that_are_started_by_need_are_waited_for():
    with fb.up(workers="auto", max_workers=1) as service:
        batches = DS.distribute(service, job="auto").iter()
        seen = [int(i) for i in next(batches)["id"]]
        for pid in service.worker_pids:
            os.kill(pid, signal.SIGKILL)
        read_on(batches, seen)
        assert seen == list(range(6000))
