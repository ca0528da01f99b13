"""The process that users' functions run in: `forebay` starts it, and it ends with the process that started it."""

from __future__ import annotations

import contextlib
import os
import resource
import signal

from forebay import _native


def main() -> None:
    """Serves calls over standard input, a socket, until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    socket = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    limit_memory()
    # The output of users' functions must not mix with the output of the program that they run in.
    os.dup2(2, 1)
    _native.serve_functions(socket)


def limit_memory() -> None:
    """Bounds the memory of a function: one that needs more gets a MemoryError, and other processes are not harmed.

    `FOREBAY_FUNCTION_MEMORY` is the limit in bytes; 0 is none. Default: three quarters of the memory of this machine
    (or container). If the kernel still runs out of memory, it ends this process before any other of ours.
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("900")
    limit = int(os.environ.get("FOREBAY_FUNCTION_MEMORY") or _memory() * 3 // 4)
    if limit > 0:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        bound = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))


def _memory() -> int:
    """Returns the memory of the machine, or the limit of a control group if that is less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            found = min(found, int(file.read()))
    return found


if __name__ == "__main__":
    main()
