"""A rule on parts of a shuffled dataset: places behind a shuffle are other samples in each epoch."""

from __future__ import annotations

from collections.abc import Iterator

from forebay._src.lint.finding import Finding
from forebay._src.written import Written

#: Ops that choose samples by their place, as a train and a test part are made by hand. `take` alone is no such part:
#: `shuffle().take(n)` draws n samples for each epoch.
_BY_PLACE = ("skip", "select_rows")


def by_place(written: Written, dataset: str) -> Iterator[Finding]:
    """Yields a finding for each op that chooses samples by place behind a shuffle.

    >>> import forebay as fb
    >>> [found.rule for found in by_place(Written.of(fb.range(9).shuffle().skip(2)), "train")]
    ['part-behind-shuffle']
    >>> list(by_place(Written.of(fb.range(9).skip(2).shuffle()), "train"))
    []
    """
    shuffled = False
    for step in written.steps:
        shuffled = shuffled or step.kind == "shuffle"
        if shuffled and step.kind in _BY_PLACE:
            said = f"skip({step.op['count']})" if step.kind == "skip" else "select_rows"
            message = (
                f"{said} comes after shuffle, which puts other samples at these places in each epoch and with each "
                "seed: samples of a test part that was made this way are trained on from the second epoch on"
            )
            write = "train, test = ds.split(0.9, seed=0), and then train.shuffle(): each sample keeps its part for ever"
            yield Finding.at(step, dataset, "part-behind-shuffle", "warning", message, write)
