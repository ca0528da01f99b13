"""How long training waited for data: `stats()["why"]`, and `headspace`."""

from __future__ import annotations

import forebay as fb
import pytest
from forebay._src.iteration import headspace, waits
from forebay.errors import InvalidPipelineError


class Clock:
    """A clock that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(waits, "clock", lambda: self.now)
        monkeypatch.setattr(headspace, "clock", lambda: self.now)

    def moves_for_data(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        """Lets each batch take this number of seconds."""
        got = waits.Waits.got

        def slow(of: waits.Waits) -> None:
            self.now += seconds
            got(of)

        monkeypatch.setattr(waits.Waits, "got", slow)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def why(clock: Clock, monkeypatch: pytest.MonkeyPatch, data_s: float, step_s: float) -> str:
    """Returns the verdict of the iterator if a batch and a step take these times."""
    clock.moves_for_data(monkeypatch, data_s)
    ds = fb.range(64).map(lambda row: {"x": row["id"] * 2}, name="double").batch(4)
    with ds.iter(threads=1) as batches:
        assert batches.stats() == {}
        for _ in range(10):
            next(batches)
            clock.now += step_s
        said = batches.stats()["why"]
    assert isinstance(said, str)
    return said


def test_an_iterator_says_that_data_is_the_bottleneck(clock, monkeypatch):
    said = why(clock, monkeypatch, 3.0, 1.0)
    assert said.startswith("Data is the bottleneck: training waited 75 % of the last 40 s. ")
    assert " % of the CPU; all of it runs in this process, and workers of a service would share the work." in said


def test_an_iterator_says_that_training_is_the_bottleneck(clock, monkeypatch):
    assert why(clock, monkeypatch, 0.02, 0.98) == "Training is the bottleneck: it waited 2 % of the last 10 s."


def test_too_little_is_known_at_first(clock, monkeypatch):
    assert why(clock, monkeypatch, 0.01, 0.01).startswith("Nothing is known yet")


def test_only_the_last_minute_counts(clock):
    of = waits.Waits()
    for waited, trained in [(5.0, 1.0)] * 20 + [(0.0, 1.0)] * 80:
        of.asked()
        clock.now += waited
        of.got()
        clock.now += trained
    waited, trained, batches = of.last_minute()
    assert waited == 0
    assert 59 <= batches <= 60
    assert trained == pytest.approx(60, abs=1)
    assert len(of._seconds) <= 61
    # A user who thinks for an hour is one minute of training.
    clock.now += 3600
    assert of.last_minute() == (0, 60, 0)
    of.asked()
    of.ended()
    clock.now += 100
    assert of.last_minute() == (0, 0, 0)


def test_a_service_says_the_sentence_of_its_dispatcher(service, until):
    ds = fb.range(64).batch(4)
    with ds.distribute(service, job="sentence").iter() as batches:
        next(batches)
        said = batches.stats()["why"]
        assert said.startswith(("Nothing is known yet", "Training is", "Data is"))
        assert said.endswith(".")
        # The verdict may change between two calls.
        until(lambda: batches.stats()["why"].partition(":")[0] == service.why("sentence").partition(":")[0])


def test_headspace_compares_batches_as_they_come_with_kept_ones(clock, monkeypatch):
    clock.moves_for_data(monkeypatch, 0.3)
    seen = []

    def step(batch):
        clock.now += 0.1
        seen.append(int(batch["id"][0]))

    found = fb.range(12).batch(4).headspace(step, seconds=10, keep=3)
    assert (found.with_data_s, found.replayed_s) == (pytest.approx(0.4), pytest.approx(0.1))
    assert found.factor == pytest.approx(4)
    assert str(found) == (
        "A step takes 400 ms with data and 100 ms with kept batches: "
        "training would be 4.00 times as fast if data cost nothing."
    )
    assert seen[: 2 + found.batches] == [0, 4, 8] * 5
    assert seen[2 + found.batches :] == ([0, 4, 8] * 20)[: found.replays]


def test_headspace_refuses_what_it_cannot_measure():
    with pytest.raises(InvalidPipelineError, match="cannot be called"):
        fb.range(4).batch(2).headspace(3)
    with pytest.raises(InvalidPipelineError, match="no batches"):
        fb.range(0).batch(2).headspace(len)
    with pytest.raises(InvalidPipelineError, match="out of range"):
        fb.range(4).batch(2).headspace(len, seconds=0)
    with pytest.raises(ZeroDivisionError):
        fb.range(4).batch(2).headspace(lambda batch: 1 / 0)
