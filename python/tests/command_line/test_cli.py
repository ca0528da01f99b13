"""The `forebay` command of the Python package."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import forebay as fb
import pytest
from secured import Fleet


def forebay(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env={**os.environ, **env})


def test_version_and_help():
    assert fb.__version__ in forebay("version").stdout
    done = forebay("--help")
    assert done.returncode == 0
    assert "dispatcher" in done.stdout
    assert forebay("no-such-command").returncode == 2


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import os, sys\n"
        "import forebay as fb\n"
        "from helper import double\n"
        "ds = fb.range(10).map(double).batch(4)\n"
        "if __name__ == '__main__':\n"
        "    total = sum(int(b['x'].sum()) for b in ds)\n"
        "    print(total, sys.argv[1:], os.environ.get('FOREBAY_SERVICE'))\n"
        "    sys.exit(5 if 'fail' in sys.argv else 0)\n"
    )
    (tmp_path / "helper.py").write_text("def double(row):\n    return {'x': row['id'] * 2}\n")
    return path


def test_run_runs_a_script_as_main(script):
    done = forebay("run", script, "--", "a", "b")
    assert (done.returncode, done.stdout) == (0, "90 ['a', 'b'] None\n"), done.stderr
    assert forebay("run", script, "--", "fail").returncode == 5


def test_a_script_in_place_of_a_command_is_told_how_to_run_it(script):
    done = forebay(script, "a")
    assert (done.returncode, f"forebay run {script}" in done.stderr) == (2, True), done


def test_explain_shows_every_dataset(script):
    done = forebay("explain", script)
    assert done.returncode == 0, done.stderr
    assert "map(double)" in done.stdout
    assert "ds" in done.stdout
    assert "as it runs" in done.stdout
    assert "ds" in json.loads(forebay("explain", script, "--json").stdout)


def test_a_script_without_a_dataset_at_its_top_level_is_told_so(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("import forebay as fb\ndef main():\n    ds = fb.range(3)\nif __name__ == '__main__':\n    main()\n")
    for options in ((), ("--json",)):
        done = forebay("explain", path, *options)
        assert (done.returncode, done.stdout) == (4, "")
        assert "defines no dataset at its top level" in done.stderr


MAKES_DATASETS = """
import forebay as fb

SIZE = 3
small = fb.range(SIZE)

def one(rows=4):
    return fb.range(rows).batch(2)

def both():
    return {"train": fb.range(9), "test": fb.range(2)}

def sized(rows, *, seed):
    return fb.range(rows)

if __name__ == "__main__":
    raise SystemExit("run as a script")
"""


def test_a_name_behind_the_script_is_a_dataset_or_a_function_that_returns_some(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(MAKES_DATASETS)
    found = {}
    for name in ("small", "one", "both"):
        done = forebay("explain", f"{path}:{name}", "--json")
        assert done.returncode == 0, done.stderr
        found |= json.loads(done.stdout)
    assert list(found) == ["small", "one", "both['train']", "both['test']"]
    assert [found[name]["source"]["stop"] for name in found] == [3, 4, 9, 2]
    for command in ("lint", "quality"):
        done = forebay(command, f"{path}:one", *(["--no-run"] if command == "lint" else []))
        assert (done.returncode, "one:" in done.stdout) == (0, True), done
    for name, message in {
        "none": "it has small, one, both, sized",
        "SIZE": "is no dataset, but int",
        "sized": "cannot be called without rows, seed",
    }.items():
        done = forebay("explain", f"{path}:{name}")
        assert (done.returncode, message in done.stderr) == (4, True), done


def test_a_dispatcher_without_a_state_folder_leaves_nothing_behind(tmp_path):
    """A script that names its job can therefore run twice in one folder, as with `forebay up`."""
    (tmp_path / "here").mkdir()
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "forebay", "dispatcher", "--listen", "127.0.0.1:0", "--announce"]
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    pipe = subprocess.PIPE
    for _ in range(2):
        dispatcher = subprocess.Popen(command, cwd=tmp_path / "here", env=env, stdout=pipe, stderr=pipe, text=True)
        fleet = Fleet(tmp_path)
        try:
            assert dispatcher.stdout is not None
            address = json.loads(dispatcher.stdout.readline())["address"]
            fleet.worker(address)
            assert len(list(fb.range(8).distribute(f"forebay://{address}", job="same"))) == 8
            dispatcher.terminate()
            assert "give --state-dir" in dispatcher.communicate(timeout=90)[1]
        finally:
            fleet.close()
            dispatcher.kill()
            dispatcher.communicate()
    assert [*(tmp_path / "here").iterdir(), *(tmp_path / "tmp").iterdir()] == []


def test_up_listens_on_this_machine_alone():
    done = forebay("up", "--listen", "0.0.0.0:0")
    assert (done.returncode, "forebay dispatcher" in done.stderr) == (2, True), done.stderr


def test_a_script_that_raises_shows_its_traceback(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    raise ValueError('not so')\nf()\n")
    done = forebay("run", path)
    assert done.returncode == 6
    assert "ValueError: not so" in done.stderr
    assert "in f" in done.stderr
    assert forebay("run", tmp_path / "none.py").returncode not in (0, 6)


def test_a_local_module_travels_to_the_workers(script):
    with fb.up(workers=1, threads=1) as service:
        code = script.read_text().replace(
            "for b in ds)", "for b in ds.distribute(os.environ['FOREBAY_SERVICE'], job='cli'))"
        )
        script.write_text(code)
        done = forebay("run", "--service", service.address, script)
        assert done.stdout == f"90 [] {service.address}\n", done.stderr
        assert "cli" in forebay("jobs", "--service", service.address).stdout
        jobs = json.loads(forebay("jobs", "--service", service.address, "--json").stdout)
        assert any(job["name"] == "cli" for job in jobs)
        assert len(json.loads(forebay("workers", "--service", service.address, "--json").stdout)) == 1


def test_what_does_not_go_together_is_a_mistake_on_the_command_line(tmp_path: Path) -> None:
    state = ["--state-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    for wrong in (
        ["dispatcher", *state, "--lease-ms", "100", "--heartbeat-ms", "5000"],
        ["dispatcher", *state, "--policy", "static:2", "--objective", "cost"],
        ["up", "--max-workers", "2", "--workers", "2"],
        ["up", "--workers", "auto", "--policy", "static:2", "--objective", "cost"],
        ["worker", "--dispatcher", "127.0.0.1:1", "--cache", "/a", "--cache", "/b"],
    ):
        done = forebay(*wrong)
        assert (done.returncode, "hint" in done.stderr) == (2, True), (wrong, done.stderr)
    done = forebay("dispatcher", *state, FOREBAY_LOG="nonsense")
    assert (done.returncode, "FOREBAY_LOG" in done.stderr) == (2, True), done.stderr


def test_a_folder_for_temporary_files_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = forebay("up", "--listen", "127.0.0.1:0", TMPDIR=str(tmp_path / "none"))
    assert (done.returncode, str(tmp_path / "none") in done.stderr, "TMPDIR" in done.stderr) == (4, True, True), done


def test_too_few_open_files_have_a_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "forebay", "dispatcher", "--listen", "127.0.0.1:0", "--state-dir", str(tmp_path)]

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    done = subprocess.run(command, capture_output=True, text=True, timeout=180, preexec_fn=few)
    assert done.returncode != 0
    assert "ulimit -n" in done.stderr, done.stderr
