"""What `forebay selftest faults` runs: real processes are killed and stopped, and the stream must not change.

`data` writes what is read, `pipelines` say what is computed of it, `oracle` knows what must come out, `fleet` has the
processes, `scenarios` what is done to them, `reading` and `trainer` are the consumer, `remains` looks for what was left
behind, `sweep` runs it all and judges. Nothing here is imported by the rest of the package.
"""

from forebay._src.selftest.sweep import faults

__all__ = ["faults"]
