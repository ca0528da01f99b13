"""`forebay cluster`: services on a Kubernetes or Ray cluster, started, shown and ended from a client machine."""
