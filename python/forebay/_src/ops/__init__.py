"""Ops of a dataset, in groups: each file is a class of methods, and `Dataset` is all of them."""
