"""What `forebay bench` measures: pipelines of images and of small records, here, on a worker, and by the rivals.

`data` makes what is read, `clock` measures, `ours` and `rivals` are the pipelines, `rounds` runs them in turns.
Nothing here is imported by the rest of the package.
"""

from forebay._src.bench.rounds import bench

__all__ = ["bench"]
