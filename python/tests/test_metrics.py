"""What a dispatcher tells Prometheus and KEDA, as they read it."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import forebay as fb
import pytest
from forebay._src.selftest.relay import free_port
from secured import Fleet, forebay

SAMPLE = re.compile(r"(\w+) (\d+)")


def read(url: str) -> dict[str, int]:
    """The samples; every line must be one, or a comment."""
    with urllib.request.urlopen(url, timeout=10) as response:
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = response.read().decode().splitlines()
    found = [SAMPLE.fullmatch(line) for line in lines if not line.startswith("# ")]
    assert None not in found, lines
    return {match[1]: int(match[2]) for match in found if match}


def test_the_wanted_count_is_a_metric_and_absent_while_it_is_not_known(
    tmp_path: Path, until: Callable[..., None]
) -> None:
    fleet, at = Fleet(tmp_path), f"localhost:{free_port()}"
    try:
        address = fleet.dispatcher("--metrics", at, "--policy", "static:2", "--max-workers", "3")
        url = f"http://{at}/metrics"
        assert read(url) == {"forebay_workers_wanted": 1, "forebay_workers": 0, "forebay_workers_max": 3}
        fleet.worker(address)
        with fb.range(10**9).batch(8).distribute(f"forebay://{address}", job="endless").iter() as batches:
            next(batches)
            # Nothing is measured yet.
            assert read(url) == {"forebay_workers": 1, "forebay_workers_max": 3}

            def wanted() -> bool:
                next(batches)
                return read(url).get("forebay_workers_wanted") == 2

            until(wanted)
        for path, method, status in (("/", "GET", 404), ("/metrics", "POST", 405)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(f"http://{at}{path}", method=method), timeout=10)
            with refused.value:
                assert refused.value.code == status
        taken = forebay("dispatcher", "--listen", "127.0.0.1:0", "--state-dir", tmp_path / "other", "--metrics", at)
        assert taken.returncode != 0
        assert "choose another --metrics" in taken.stderr
        for wrong in ("7070", "localhost", ":7070", "localhost:99999", "no.such.host.invalid:7070"):
            assert forebay("dispatcher", "--listen", wrong, "--state-dir", tmp_path / "other").returncode == 2, wrong
    finally:
        fleet.close()
