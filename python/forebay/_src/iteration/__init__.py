"""Iterators over a dataset, in this process and on a service, and the uses of their rows."""
