"""The benchmark of `forebay bench`: pipelines of images and of small records, here, on a worker, and by the rivals.

`data` makes the input, `clock` measures, `ours` and `rivals` are the pipelines, `rounds` runs them in turns. No other
part of the package imports this one.
"""

from forebay._src.bench.rounds import bench

__all__ = ["bench"]
