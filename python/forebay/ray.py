"""Workers on a Ray cluster: as many actors as the service wants workers.

See `workers`, and docs/ray.md. Ray itself is imported when it is needed, and is no requirement of Forebay.
"""

from forebay._src.service.ray_fleet import RayEvent, RayWorker
from forebay._src.service.ray_workers import RayWorkers, workers

__all__ = ["RayEvent", "RayWorker", "RayWorkers", "workers"]
