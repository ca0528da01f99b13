"""Writes TensorFlow 2.21's output for the rows of `rows()` to `expected.json`; needs TensorFlow."""

from __future__ import annotations

import json
import random
from pathlib import Path

BOUNDARIES, SIZES = [4, 9, 20], [6, 4, 3, 2]
CASES = {
    "longest": {},
    "boundary": {"pad_to_bucket_boundary": True},
    "drop": {"drop_remainder": True},
}


def rows(longest: int) -> list[list[int]]:
    """Returns token lists of many lengths, some empty; every token encodes its list and its place."""
    lengths = random.Random(5).choices(range(longest + 1), k=151)
    return [[100 * (i + 1) + k for k in range(n)] for i, n in enumerate(lengths)]


def main() -> None:
    """Writes the batches of each case: the ids of their rows and the padded lists."""
    import tensorflow as tf

    expected = {}
    for name, options in CASES.items():
        lists = rows(19 if name == "boundary" else 30)
        signature = (tf.TensorSpec((), tf.int64), tf.TensorSpec((None,), tf.int32))
        ds = tf.data.Dataset.from_generator(lambda lists=lists: enumerate(lists), output_signature=signature)
        padding = (tf.constant(0, tf.int64), tf.constant(-1, tf.int32))
        ds = ds.bucket_by_sequence_length(
            lambda _, ids: tf.shape(ids)[0], BOUNDARIES, SIZES, padding_values=padding, **options
        )
        expected[name] = [(i.tolist(), ids.tolist()) for i, ids in ds.as_numpy_iterator()]
    Path(__file__).with_name("expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
