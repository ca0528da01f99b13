"""Services on a Kubernetes or Ray cluster, started, shown and ended from a machine outside of it.

`forebay cluster` is the same as a command; see docs/kubernetes.md and docs/ray.md. On Kubernetes, PyYAML reads the
kubeconfig (`pip install 'forebay[kubernetes]'`); for Ray, Ray is needed. Neither is a requirement of Forebay.
"""

from forebay._src.cluster.clusters import ClusterService, find, start, status, stop
from forebay._src.cluster.status import ClusterStatus

__all__ = ["ClusterService", "ClusterStatus", "find", "start", "status", "stop"]
