"""Ctrl-C ends at once and leaves nothing behind; so does the end of a script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

FUNCTIONS = {
    "python": "lambda row: (time.sleep(0.01), row)[1]",
    "endless": "forever",
    "native": "None",
}


def script(executor: str, function: str) -> str:
    return textwrap.dedent(
        f"""
        import os, signal, sys, time
        # Whoever runs the tests in the background may have had it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import forebay as fb
        def forever(row):
            while row["id"] > 100: time.sleep(0.05)
            return row
        ds = fb.range(10**9)
        function = {FUNCTIONS[function]}
        if function is not None:
            ds = ds.map(function, schema={{"id": "int64"}})
        it = ds.batch(8).iter(executor={executor!r}, threads=2)
        next(it)
        print("running", flush=True)
        for batch in it:
            pass
        """
    )


@pytest.mark.parametrize("executor", ["thread", "process"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_ctrl_c_ends_at_once(executor, function, until):
    command = [sys.executable, "-c", script(executor, function)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n"
        children = [int(p) for t in os.listdir(f"/proc/{process.pid}/task") for p in read_children(process.pid, t)]
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=20)[1]
        assert "KeyboardInterrupt" in error
        assert "panicked" not in error
        assert process.returncode in (1, 130, -signal.SIGINT)
    until(lambda: not any(os.path.exists(f"/proc/{p}") for p in children))


def read_children(pid: int, task: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/task/{task}/children") as file:
            return file.read().split()
    except FileNotFoundError:
        return []


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_a_script_may_end_in_the_middle_of_an_iteration(executor):
    code = script(executor, "python").replace("for batch in it:\n    pass", "")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "running\n", "")


def test_importing_is_light():
    code = "import sys, forebay; print(sorted({'cloudpickle', 'torch', 'pyarrow', 'PIL'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
