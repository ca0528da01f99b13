"""Ctrl-C ends a program at once and leaves nothing behind; so does the end of a script."""

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
        # A shell that runs the tests in the background may ignore the signal.
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
        error = process.communicate(timeout=90)[1]
        assert "KeyboardInterrupt" in error
        assert "panicked" not in error
        assert process.returncode in (1, 130, -signal.SIGINT)
    until(lambda: not any(os.path.exists(f"/proc/{p}") for p in children))


@pytest.mark.parametrize("where", ["here", "service"])
def test_ctrl_c_ends_a_stream_whose_filter_keeps_nothing(where, tmp_path):
    """Such a stream never waits: chunks without a row come all the time."""
    code = textwrap.dedent(
        f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import forebay as fb
        ds = fb.range(10**9).filter(fb.col("id") < 8).batch(8)
        if {where!r} == "service":
            service = fb.up(workers=1, state_dir={str(tmp_path)!r})
            ds = ds.distribute(service, job="empty")
        it = iter(ds)
        next(it)
        print("running", flush=True)
        next(it)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        assert it.stdout.readline() == "running\n"
        it.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in it.communicate(timeout=90)[1]


def read_children(pid: int, task: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/task/{task}/children") as file:
            return file.read().split()
    except FileNotFoundError:
        return []


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_a_script_may_end_in_the_middle_of_an_iteration(executor):
    code = script(executor, "python").replace("for batch in it:\n    pass", "")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout, done.stderr) == (0, "running\n", "")


NEVER = {
    "python": "map",
    "sleeping": "map",
    "generator": "from_generator",
    "items": "from_map_dataset",
}


@pytest.mark.parametrize("kind", NEVER)
def test_a_script_may_end_while_its_functions_never_do(kind):
    code = textwrap.dedent(
        f"""
        import time
        import forebay as fb
        kind, schema, sets = {kind!r}, {{"id": "int64"}}, []
        def go_on(i):
            while i > 200:
                if kind != "python": time.sleep(0.001)
            return {{"id": i}}
        def generator():
            for i in range(300): yield go_on(i)
        class Items:
            def __len__(self): return 1000
            def __getitem__(self, i): return go_on(i)
        for _ in range(3):
            if kind == "generator": ds = fb.from_generator(generator, schema=schema)
            elif kind == "items": ds = fb.from_map_dataset(Items(), schema=schema)
            else: ds = fb.range(1000).map(lambda row: go_on(int(row["id"])), schema=schema)
            sets.append(ds.iter(threads=2))
            next(sets[-1])
        print("the end")
        raise SystemExit(3)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout, done.stderr) == (3, "the end\n", "")


CLOSED = """
import threading, time, warnings
import forebay as fb
import builtins
builtins.go, builtins.inside, builtins.ends = threading.Event(), threading.Semaphore(0), []
def function(row):
    import builtins
    try:
        if row["id"] > 100:
            builtins.inside.release()
            # Many places for an exception to come in, as between a C library's close and what notes that.
            while not builtins.go.is_set(): pass
            builtins.ends.append("returned")
        return row
    except BaseException as error:
        builtins.ends.append(repr(error))
        raise
for close in (lambda it: it.close(), lambda it: None):
    it = fb.range(1000).map(function, schema={"id": "int64"}).iter(threads=2)
    next(it)
    builtins.inside.acquire()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        close(it)
        del it
    print([str(w.message).splitlines()[:2] for w in said])
print(builtins.ends)
builtins.go.set()
deadline = time.monotonic() + 30
while len(builtins.ends) < 2 and time.monotonic() < deadline: time.sleep(0.01)
print(set(builtins.ends))
"""


def test_no_exception_comes_into_a_function_when_its_iterator_is_closed():
    done = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True, text=True, timeout=180)
    said = ["the iterator is closed, but a function of it has not returned yet: its thread ends when it does"]
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr, len(lines)) == (0, "", 4), done.stderr
    assert said[0] in lines[0]
    assert "function" in lines[0]
    assert lines[1:] == ["[]", "[]", "{'returned'}"]


def test_importing_is_light():
    """Above all in the processes of functions, dispatchers and workers, of which there are many."""
    heavy = "{'cloudpickle', 'torch', 'pyarrow', 'PIL'}"
    code = f"""
        import sys
        from forebay._src.command_line import cli
        from forebay._src.functions import function_host
        print(sorted({{'numpy', 'forebay._src.public', *{heavy}}} & set(sys.modules)))
        import forebay
        forebay.range
        print(sorted({heavy} & set(sys.modules)))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n[]\n"


@pytest.mark.parametrize("row", range(4))
def test_ctrl_c_ends_the_trial_of_a_function(row):
    code = textwrap.dedent(
        f"""
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import forebay as fb
        def function(sample):
            if sample["id"] == {row}: signal.raise_signal(signal.SIGINT)
            return sample
        fb.range(100).map(function)
        print("written")
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    assert "KeyboardInterrupt" in done.stderr
    assert done.stdout == ""
