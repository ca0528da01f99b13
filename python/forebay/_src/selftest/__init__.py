"""`forebay selftest faults`: it kills and stops real processes, and checks that the stream does not change.

`data` writes the input, `pipelines` are the pipelines over it, `oracle` has the expected stream, `fleet` the processes,
`scenarios` the faults, `reading` and `trainer` are the consumer, `remains` finds leftovers, `sweep` runs everything and
judges. No other part of the package imports this one.
"""

from forebay._src.selftest.sweep import faults

__all__ = ["faults"]
