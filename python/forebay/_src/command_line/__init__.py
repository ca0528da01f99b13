"""The `forebay` command: the parts that are written in Python."""
