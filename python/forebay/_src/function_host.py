"""The process that users' functions run in: `forebay` starts it, and it ends with the process that started it."""

from __future__ import annotations

import os
import signal

from forebay import _native


def main() -> None:
    """Serves calls over standard input, a socket, until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    socket = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # What users print must not get into the output of the program that they run in.
    os.dup2(2, 1)
    _native.serve_functions(socket)


if __name__ == "__main__":
    main()
