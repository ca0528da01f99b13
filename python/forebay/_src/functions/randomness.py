"""The random numbers of a sample in a Python function.

The rule, which never changes: the generator of a sample is NumPy's Philox (4x64, 10 rounds) with key `(op_key(seed,
epoch, op), 0)` and counter `(0, 0, sample id, 0)`, where `op_key` is the engine's function and `op` the op's place
among the random ops of the pipeline. So it depends on the seed, the epoch, the op and the sample, and not on threads,
workers, or the numbers that other samples drew.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Generators:
    """Returns the generator of each sample. It moves one generator from sample to sample, because a new one costs more.

    >>> a = Generators().at(1, 2).random(3)
    >>> bits = np.random.Philox(key=np.array([1, 0], np.uint64), counter=np.array([0, 0, 2, 0], np.uint64))
    >>> bool((a == np.random.Generator(bits).random(3)).all())
    True
    """

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)

    def at(self, key: int, sample: int) -> np.random.Generator:
        """Returns the generator of a sample."""
        state: Any = {
            "bit_generator": "Philox",
            "state": {
                "counter": np.array([0, 0, sample, 0], np.uint64),
                "key": np.array([key, 0], np.uint64),
            },
            "buffer": np.zeros(4, np.uint64),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }
        self._bits.state = state
        return self._generator
