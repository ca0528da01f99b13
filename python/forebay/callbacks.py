"""The figures of an iterator in TensorBoard, MLflow, Weights & Biases, or anything with a function.

A *log* is a function `log(name, value, step)`, as in the protocol `Log`. A `Monitor` calls it every few steps:

    >>> import forebay as fb
    >>> seen = []
    >>> with fb.range(1000).batch(10).iter() as it:
    ...     monitor = fb.callbacks.Monitor(it, lambda name, value, step: seen.append((name, step)), every=50)
    ...     for step, batch in enumerate(it):
    ...         monitor(step)
    >>> [name for name, step in seen if step == 50][:3]
    ['forebay/waiting', 'forebay/batches_per_second', 'forebay/samples_per_second']
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from forebay._src import arguments
from forebay._src.iteration.waits import Totals
from forebay.errors import InvalidPipelineError

__all__ = ["Log", "Monitor", "mlflow", "tensorboard", "wandb"]


class Log(Protocol):
    """Writes one figure."""

    def __call__(self, name: str, value: float | str, step: int) -> None:
        """Writes one figure.

        Args:
            name: Its name, such as `forebay/waiting`.
            value: A number; for `forebay/why` a sentence.
            step: The training step.
        """


class Monitor:
    """Logs the figures of an iterator, when it is called with the number of a step.

    | name | value |
    |---|---|
    | `forebay/waiting` | the share of time for which training waited for data since the last log, 0.0 to 1.0 |
    | `forebay/batches_per_second` | batches delivered a second since then |
    | `forebay/samples_per_second` | samples delivered a second since then |
    | `forebay/op_share/<op>` | the share of the ops' time in this process that an op took since the start |
    | `forebay/why` | the sentence of `stats()["why"]`, where it has changed |

    Args:
        batches: A `DatasetIterator`, or a dataset of `to_torch()`, `to_jax()`, `to_keras()` and the like.
        log: Writes a figure: `tensorboard(writer)`, `mlflow()`, `wandb()`, or a function of your own.
        every: The steps from one log to the next.
    """

    def __init__(self, batches: Any, log: Log, *, every: int = 100) -> None:
        if not hasattr(batches, "_totals"):
            hint = "give the result of ds.iter(), or of ds.to_torch()"
            raise InvalidPipelineError(f"Monitor: {arguments.shown(batches)} is no iterator of Forebay", {"hint": hint})
        if not callable(log):
            hint = "give a function log(name, value, step)"
            raise InvalidPipelineError(f"Monitor: {arguments.shown(log)} cannot be called", {"hint": hint})
        self._batches, self._log = batches, log
        self._every = arguments.whole(every, "Monitor", "every", 1)
        self._last: Totals | None = None
        self._why = ""

    def __call__(self, step: int) -> None:
        """Logs if the step is a multiple of `every`."""
        if step % self._every == 0:
            self.log(step)

    def log(self, step: int) -> None:
        """Logs now."""
        now: Totals = self._batches._totals()
        # Another epoch may have an iterator of its own, which counts from 0.
        last = self._last if self._last is not None and self._last.batches <= now.batches else Totals()
        self._last = now
        waited, trained = now.waited - last.waited, now.trained - last.trained
        if (seconds := waited + trained) > 0:
            self._log("forebay/waiting", waited / seconds, step)
            self._log("forebay/batches_per_second", (now.batches - last.batches) / seconds, step)
            self._log("forebay/samples_per_second", (now.samples - last.samples) / seconds, step)
        stats = self._batches.stats()
        ops = stats.get("ops", [])
        total = sum(op["seconds"] for op in ops)
        for op in ops if total > 0 else ():
            self._log(f"forebay/op_share/{op['op']}", op["seconds"] / total, step)
        if (why := stats.get("why", "")) and why != self._why:
            self._why = why
            self._log("forebay/why", why, step)


def tensorboard(writer: Any) -> Log:
    """Returns a log that writes to a `SummaryWriter` of `torch.utils.tensorboard` or tensorboardX."""

    def log(name: str, value: float | str, step: int) -> None:
        if isinstance(value, str):
            writer.add_text(name, value, step)
        else:
            writer.add_scalar(name, value, step)

    return log


def mlflow(client: Any = None) -> Log:
    """Returns a log that writes metrics, and sentences as tags, to the active run of MLflow.

    Args:
        client: Has `log_metric` and `set_tag`. Default: the module `mlflow`.
    """
    found = importlib.import_module("mlflow") if client is None else client

    def log(name: str, value: float | str, step: int) -> None:
        # MLflow allows no other signs in names.
        known = "".join(sign if sign.isalnum() or sign in "_-. /" else "_" for sign in name)
        if isinstance(value, str):
            found.set_tag(known, value)
        else:
            found.log_metric(known, value, step=step)

    return log


def wandb(run: Any = None) -> Log:
    """Returns a log that writes to a run of Weights & Biases.

    Figures have a step of their own, `forebay/step`, because W&B refuses steps that are not in order.

    Args:
        run: Has `log`. Default: the module `wandb`, whose run is the active one.
    """
    found = importlib.import_module("wandb") if run is None else run

    def log(name: str, value: float | str, step: int) -> None:
        found.log({name: value, "forebay/step": step})

    return log
