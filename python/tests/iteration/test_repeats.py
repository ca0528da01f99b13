"""A loop that yields epoch 0 again and again is warned of once, at its line; what is right is not."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from forebay._src.iteration import repeats
from forebay._src.random_ops import is_random_op

SHUFFLED = fb.range(12).shuffle().batch(4)
OPS = Path(__file__).resolve().parents[3] / "crates/plan/src/ops"


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[warnings.WarningMessage]]:
    """The warnings of a test."""
    monkeypatch.setattr(repeats, "_warned", {})
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def test_a_loop_over_epochs_that_repeats_epoch_0_is_warned_of_once(warned: list[warnings.WarningMessage]) -> None:
    for _ in range(4):
        for _batch in SHUFFLED:  # The line of the warning.
            pass
    (warning,) = warned
    assert warning.category is fb.RepeatedEpochWarning
    line = Path(__file__).read_text().splitlines().index("        for _batch in SHUFFLED:  # The line of the warning.")
    assert (warning.filename, warning.lineno) == (__file__, line + 1)
    assert "write iter(epoch=e)" in str(warning.message)


def noisy(row: dict[str, np.int64], rng: np.random.Generator) -> dict[str, float]:
    return {"x": rng.random()}


@pytest.mark.parametrize(
    "ds",
    [
        fb.range(9).map(noisy),
        fb.range(9).filter(lambda row, rng: rng.random() < 0.5),
        fb.mix({"a": fb.range(9), "b": fb.range(9)}, weights={"a": 0.5, "b": 0.5}),
        fb.concatenate([fb.range(9), fb.range(9).shuffle()]),
    ],
)
def test_any_random_pipeline_is_warned_of(ds: fb.Dataset, warned: list[warnings.WarningMessage]) -> None:
    for _ in range(2):
        next(iter(ds))
    assert [one.category for one in warned] == [fb.RepeatedEpochWarning]


@pytest.mark.parametrize(
    "loop",
    [
        lambda epoch: list(SHUFFLED.iter(epoch=epoch)),
        lambda _: list(SHUFFLED.iter(epoch=0)),
        lambda epoch: list(SHUFFLED.iter(seed=epoch)),
        lambda epoch: list(SHUFFLED.iter(consumers=(epoch, 3))),
        lambda epoch: list(SHUFFLED.iter(threads=epoch + 1)),
        lambda _: list(SHUFFLED.iter(epochs=2)),
        lambda _: list(fb.range(9).batch(3)),
        lambda _: (SHUFFLED[0], len(SHUFFLED), SHUFFLED.describe(), SHUFFLED.schema),
        lambda _: SHUFFLED.iter(),
    ],
)
def test_what_is_right_is_not_warned_of(loop: Callable[[int], object], warned: list[warnings.WarningMessage]) -> None:
    for epoch in range(3):
        loop(epoch)
    assert warned == []


def test_other_lines_and_resumed_iterations_are_not_warned_of(warned: list[warnings.WarningMessage]) -> None:
    next(iter(SHUFFLED))
    state = SHUFFLED.iter().state_dict()
    assert len([*SHUFFLED]) == len([*SHUFFLED])
    for _ in range(2):
        it = SHUFFLED.iter()
        it.load_state_dict(state)
        next(it)
    assert warned == []


def test_jobs_that_repeat_an_epoch_are_warned_of(
    warned: list[warnings.WarningMessage], service: fb.Service, tmp_path: Path
) -> None:
    for n in range(2):
        next(SHUFFLED.distribute(service, job=f"longer-{n}", epochs=2).iter())
        fb.range(9).shuffle().save(tmp_path / f"{n}", service=service, job=f"saved-{n}")
    assert warned == []
    for n in range(3):
        next(SHUFFLED.distribute(service, job=f"epoch-{n}").iter())
    assert [one.category for one in warned] == [fb.RepeatedEpochWarning]
    assert "epochs=n" in str(warned[0].message)


def test_a_job_that_a_loop_leaves_and_begins_again_is_warned_of(
    warned: list[warnings.WarningMessage], service: fb.Service
) -> None:
    job = SHUFFLED.distribute(service, job="left", epochs=2)
    for _ in range(3):
        for _batch in job:
            break
    assert [one.category for one in warned] == [fb.RepeatedEpochWarning]
    assert "it = job.iter()" in str(warned[0].message)


def test_the_memory_of_iterations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "_KNOWN_MAX", 3)
    monkeypatch.setattr(repeats, "_begun", {})
    for seed in range(9):
        next(SHUFFLED.iter(seed=seed))
    assert len(repeats._begun) == 3


def test_each_op_that_draws_is_known_here() -> None:
    text = "".join(file.read_text() for file in sorted(OPS.rglob("*.rs")))
    names = re.findall(r'name: "(\w+)",[^{}]*?is_random: true', text)
    assert len(names) > 20
    assert [name for name in names if not is_random_op(name)] == []
    fixed = re.findall(r'name: "(\w+)",[^{}]*?is_random: false', text)
    assert len(fixed) > 20
    assert [name for name in fixed if is_random_op(name)] == []
