"""Trains with one backend of Keras. Writes the means of the targets that it was given to the file that is named."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

os.environ["KERAS_BACKEND"] = sys.argv[1]
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import forebay as fb
import keras

assert keras.backend.backend() == sys.argv[1]
# Keras warns that data ran out if an epoch has another length than the first one.
warnings.filterwarnings("ignore", message=".*ran out of data.*")
out: dict[str, object] = {}


class Seen(keras.callbacks.Callback):
    """Computes the mean of the targets of each batch from the mean of all batches so far."""

    def __init__(self, data=None, stop_after=None) -> None:
        super().__init__()
        self.data, self.stop_after = data, stop_after
        self.batches, self.epochs, self.states, self.validated = [], [], [], []

    def on_epoch_begin(self, _epoch, logs=None):
        self.batches, self.before = [], 0.0

    def on_train_batch_end(self, batch, logs=None):
        total = float(logs["loss"]) * (batch + 1)
        self.batches.append(round(total - self.before, 2))
        self.before = total
        if self.data is not None:
            self.states.append(self.data.state_dict())
        if len(self.states) == self.stop_after:
            self.model.stop_training = True

    def on_epoch_end(self, _epoch, logs=None):
        self.epochs.append(self.batches)
        self.validated.append(float(logs.get("val_loss", 0.0)))


def model() -> keras.Model:
    """Returns a model that Keras builds at the first batch."""
    made = keras.Sequential([keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.0), lambda y, p: keras.ops.mean(y) + 0 * keras.ops.mean(p))
    return made


def fitted(data, seen=None, **options) -> list:
    seen = seen or Seen()
    model().fit(data, verbose=0, callbacks=[seen], **options)
    return seen.epochs


def data(rows=24, size=4, **options):
    ds = fb.range(rows).shuffle().with_column("y", fb.col("id") / 2)
    ds = ds.filter(fb.col("id") < 20) if options.pop("unknown", False) else ds
    ds = ds.with_column("x", fb.stack([fb.col("y"), fb.col("y")]))
    ds = ds.with_column("w", fb.lit(1.0)) if "weight" in options else ds
    return ds.batch(size, drop_remainder=True).to_keras(x="x", y="y", seed=3, **options)


out["three epochs"] = fitted(data(), epochs=3)
out["weights"] = fitted(data(weight="w"), epochs=1)
out["one batch"] = fitted(data(7), epochs=3)
out["unknown"] = fitted(data(unknown=True), epochs=2)
out["steps"] = fitted(data(), epochs=4, steps_per_epoch=3)
first = data()
out["again"] = [fitted(first, epochs=1), fitted(first, epochs=1)]
seen = Seen()
validation = data()
model().fit(data(), validation_data=validation, validation_steps=2, epochs=3, verbose=0, callbacks=[seen])
out["validated"] = seen.validated
first, again = data(), data()
before = fitted(first, epochs=2)
again.load_state_dict(first.state_dict())
out["resumed after an epoch"] = before + fitted(again, epochs=3, initial_epoch=2)
out["predicted"] = list(model().predict(data(), verbose=0).shape)
if sys.argv[1] != "tensorflow":
    out["resumed within"] = []
    for cut in (1, 5):
        first, again = data(), data()
        seen = Seen(first, stop_after=cut)
        fitted(first, seen, epochs=1)
        again.load_state_dict(seen.states[-1])
        rest = fitted(again, epochs=2)
        out["resumed within"].append([seen.epochs[0] + rest[0], rest[1]])
Path(sys.argv[2]).write_text(json.dumps(out))
