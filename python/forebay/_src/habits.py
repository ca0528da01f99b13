"""Names of ops in other libraries, and what to write here instead: what an `AttributeError` says."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

_CHAIN = (
    "name the files of both in one source; of two datasets, itertools.chain(a, b) iterates over one after the other"
)
_PAIRS = "zip(a, b) of Python goes through two datasets side by side; columns of one file are one dataset"

#: Of datasets.
METHODS: Mapping[str, str] = {
    "apply": "call the function: fn(ds)",
    "as_numpy_iterator": "iterate over the dataset: its batches are NumPy arrays",
    "bucket_by_sequence_length": "write bucket_by_length",
    "concat": _CHAIN,
    "concatenate": _CHAIN,
    "group_by_window": "bucket_by_length groups by length",
    "interleave": "name the files of all in one source, whose shuffle goes through many at once",
    "map_batches": "write map(fn, batched=True)",
    "num_rows": "write len(ds)",
    "padded_batch": "write batch(n, pad=0): pad= is padding_values, pad_to= padded_shapes",
    "random_split": "write split(0.9, seed=0)",
    "ragged_batch": "write batch(n, pad=0, lengths=...), which pads and tells the lengths",
    "rebatch": "give batch the size that you want",
    "remove_columns": "write drop(...)",
    "rename_column": "write rename(old='new')",
    "rename_columns": "write rename(old='new')",
    "sample_from_datasets": "iterate over each, and draw between them",
    "scan": "keep the state where you iterate: ops see single samples",
    "select_columns": "write select(...)",
    "set_epoch": "give iter() epoch=, or call set_epoch of ds.to_torch()",
    "set_format": "batches are NumPy arrays; to_torch() gives tensors",
    "sort": "sort the files once; select_rows takes places in any order",
    "take_while": "itertools.takewhile(fn, ds) stops where you iterate",
    "to_tf_dataset": "tf.data.Dataset.from_generator takes a function that iterates",
    "train_test_split": "write train, test = ds.split(0.9, seed=0)",
    "unique": "filter by a column that tells repeated samples",
    "window": "batch(n) takes n samples without overlap; windows that overlap are cut by a function before, with map",
    "with_format": "batches are NumPy arrays; to_torch() gives tensors",
    "with_indices": "write enumerate(), which adds a column of numbers",
    "zip": _PAIRS,
}

#: Of the package.
FUNCTIONS: Mapping[str, str] = {
    "AUTOTUNE": "leave it out: threads and prefetching are chosen here",
    "concatenate": _CHAIN,
    "concatenate_datasets": _CHAIN,
    "from_list": "write from_dict({'x': [...]}), or from_map_dataset(rows)",
    "from_tensor_slices": "write from_numpy({'x': x, 'y': y})",
    "interleave_datasets": "iterate over each, and draw between them",
    "load_dataset": "write from_parquet, from_jsonl or from_map_dataset(dataset)",
    "mix": "iterate over each dataset, and draw between them",
    "sample_from_datasets": "iterate over each, and draw between them",
    "zip": _PAIRS,
}


def missing(owner: str, name: str, known: Mapping[str, str], names: list[str]) -> AttributeError:
    """Returns the error for a name that is not there, with what to write instead or the nearest name.

    >>> missing("Dataset", "padded_batch", METHODS, [])
    AttributeError('Dataset has no padded_batch; write batch(n, pad=0): pad= is padding_values, pad_to= padded_shapes')
    >>> missing("Dataset", "shufle", METHODS, ["shuffle"])
    AttributeError('Dataset has no shufle; did you mean shuffle?')
    """
    near = difflib.get_close_matches(name, names, 1)
    hint = known.get(name) or (f"did you mean {near[0]}?" if near else "")
    return AttributeError(f"{owner} has no {name}" + (f"; {hint}" if hint else ""))
