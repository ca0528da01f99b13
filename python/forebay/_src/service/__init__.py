"""A service: its processes on this machine, its status, and workers on a Ray cluster."""
