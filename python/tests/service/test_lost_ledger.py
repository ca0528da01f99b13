"""A dispatcher that lost its ledger reuses job numbers: a consumer from before gets an error, and no others' rows."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import forebay as fb

READER = textwrap.dedent(
    """
    import sys, time
    import forebay as fb
    # Far longer than the test takes.
    ds = fb.range(10**8).shuffle().map(lambda row: {"x": row["id"]}, schema={"x": "int64"}).batch(100)
    for batch in ds.distribute(sys.argv[1], job="ours", seed=3):
        if (batch["x"] < 0).any():
            print("foreign", flush=True)
        print("read", flush=True)
        time.sleep(0.01)
    """
)


def test_a_reader_gets_no_rows_of_the_job_that_has_its_number_now(tmp_path) -> None:
    others = fb.range(10**8).shuffle().map(lambda row: {"x": -1 - row["id"]}, schema={"x": "int64"}).batch(100)
    with fb.up(workers=1, threads=1, state_dir=tmp_path / "state") as service:
        command = [sys.executable, "-c", READER, service.address]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "read\n"
            reader.send_signal(signal.SIGSTOP)
            for file in (tmp_path / "state").glob("ledger*"):
                file.unlink()
            service.restart_dispatcher()
            other = others.distribute(service, job="other", seed=3).iter()
            next(other)
            other.close()
            reader.send_signal(signal.SIGCONT)
            out, error = reader.communicate(timeout=120)
        finally:
            reader.kill()
        assert "foreign" not in out
        assert reader.returncode != 0
        assert "NotFoundError: the dispatcher does not know job 'ours' any more" in error.replace('"', "'")
