"""`forebay bench` runs, and prints all details of its figures."""

from __future__ import annotations

import json
import subprocess
import sys

import forebay as fb
import pytest
from forebay._src.bench import rivals

SMALL = ["--seconds", "0.01", "--rounds", "1", "--images", "4", "--records", "64", "--splits", "100"]


def test_figures_as_json_and_as_a_table(tmp_path):
    def bench(*options):
        command = [sys.executable, "-m", "forebay", "bench", *SMALL, "--dir", str(tmp_path), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    report = json.loads(bench("--json"))
    assert list(report) == ["forebay", "command", "machine", "versions", "figures", "notes"]
    assert report["forebay"] == fb.__version__
    assert "--images 4 " in report["command"]
    assert report["machine"]["cores"] >= 1
    assert {"numpy", "python", "tensorflow", "torch"} == set(report["versions"])
    figures = {f["name"]: f for f in report["figures"]}
    for name, unit in [
        ("images, in process", "images/s"),
        ("images, one worker", "images/s"),
        ("first batch of images, in process", "ms"),
        ("records, in process", "records/s"),
        ("records, one worker", "records/s"),
        ("epoch of one element, in process", "ms"),
        ("epoch of one element, one worker", "ms"),
        ("dispatcher: durable grants", "splits/s"),
        ("dispatcher: restart after 100 grants", "ms"),
    ]:
        assert figures[name]["unit"] == unit
        assert figures[name]["value"] > 0
    table = bench()
    assert all(name in table for name in figures)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", rivals.NAMES)
def test_a_rival_that_cannot_run_says_why(name, tmp_path):
    if rivals.version(name) is not None:
        pytest.skip(f"{name} is installed")
    assert name in rivals.run(name, "one", tmp_path, 256, 0.01)
