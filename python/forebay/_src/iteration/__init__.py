"""Iterators over a dataset, in this process and on a service, and what is done with their rows."""
