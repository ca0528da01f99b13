"""The HTTP API of a dispatcher, against its description, and the commands that show a job. The jobs are real."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import forebay as fb
import jsonschema
import pytest
from secured import Fleet, clean, forebay, new_token

JOB = "<script>alert(1)</script>"
SLOW = "slow é שלום"


def slow(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.02)
    return row


class Served:
    """A dispatcher with a dashboard and tokens, and two workers. Each of two tenants reads a job."""

    def __init__(self, folder: Path) -> None:
        self.tokens = folder / "tokens.json"
        self.token = {tenant: new_token(self.tokens, "client", tenant) for tenant in ("vision", "speech")}
        self.token["admin"] = new_token(self.tokens, "admin")
        self.token["worker"] = worker = new_token(self.tokens, "worker")
        self.fleet = Fleet(folder)
        self.address = self.fleet.dispatcher("--tokens", self.tokens, "--http", "127.0.0.1:0")
        self.http = f"http://{self.fleet.announced[0]['http']}"
        for _ in range(2):
            self.fleet.worker(self.address, "--price", "0.5", token=worker)
        self.done = threading.Event()
        self.threads = []
        ds = fb.range(2_000).map(slow).batch(4)  # a split takes half a second: the other job waits for one to end
        self.read("vision", JOB, ds)
        self.read("speech", SLOW, fb.range(100_000).batch(4), pause=0.05)

    def has(self, job: str) -> bool:
        return any(listed["name"] == job for listed in self.get("jobs")["jobs"])

    def read(self, tenant: str, job: str, ds: fb.Dataset, pause: float = 0.0, **options: Any) -> None:
        service = fb.connect(f"forebay://{self.address}", token=self.token[tenant])

        def train() -> None:
            for _ in ds.distribute(service, job=job, epochs=None, **options):
                if self.done.wait(pause):
                    return

        self.threads.append(threading.Thread(target=train, daemon=True))
        self.threads[-1].start()
        deadline = time.monotonic() + 90
        while not self.has(job):
            assert time.monotonic() < deadline, "the job was not opened in time"
            time.sleep(0.05)

    def get(self, path: str, who: str | None = "admin", **params: object) -> Any:
        """An answer of the API."""
        headers = {} if who is None else {"Authorization": f"Bearer {self.token[who]}"}
        url = f"{self.http}/api/v1/{path}?{urlencode(params)}"
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=90) as answer:
            return json.load(answer)

    def status(self, path: str, who: str | None = "admin", **params: object) -> int:
        try:
            self.get(path, who, **params)
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    def close(self) -> None:
        self.done.set()
        for thread in self.threads:
            thread.join(90)
        self.fleet.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("dashboard"))
    yield served
    served.close()


def test_answers_are_as_described(served: Served, until: Callable[..., None]) -> None:
    described = served.get("openapi.json", None)
    until(lambda: len(served.get("history", name=JOB)["fine"]) > 2)

    def runs() -> bool:
        job = served.get("job", name=JOB)
        workers = served.get("workers")["counts"]["live"]
        return bool(job["ops"] and job["consumers"][0]["batches"] and job["in_flight"]) and workers == 2

    until(runs)
    answers = {
        "/overview": served.get("overview"),
        "/jobs": served.get("jobs", search="SCRIPT", sort="waited", limit=1),
        "/job": served.get("job", name=JOB, tenant="vision"),
        "/history": served.get("history", name=SLOW),
        "/workers": served.get("workers"),
        "/scale": served.get("scale"),
        "/cache": served.get("cache"),
        "/events": served.get("events"),
    }
    assert set(described["paths"]) == {*answers, "/live", "/openapi.json"}
    for path, answer in answers.items():
        schema = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(answer, {**schema, "components": described["components"]})
    assert [job["name"] for job in answers["/jobs"]["jobs"]] == [JOB]
    job = answers["/job"]
    assert [op["op"] for op in job["written"]] == ["range", "map", "batch"], job["written"]
    # Each op has its share, and all shares add up to 1.
    assert sum(op["share"] for op in job["ops"]) == pytest.approx(1.0)


def test_a_tenant_sees_its_jobs_and_the_same_as_over_grpc(served: Served) -> None:
    assert [job["name"] for job in served.get("jobs", "vision")["jobs"]] == [JOB]
    assert served.get("overview", "speech")["scale"] is None
    for path in ("job", "history"):
        assert served.status(path, "vision", name=JOB) == 200
        assert served.status(path, "vision", name=SLOW) == 404
        assert served.status(path, "vision", name=SLOW, tenant="speech") == 404
        assert served.status(path, None, name=JOB) == 401
    assert served.status("scale", "vision") == 403
    assert all(event["tenant"] == "vision" for event in served.get("events", "vision"))
    listed = fb.connect(f"forebay://{served.address}", token=served.token["vision"]).jobs()
    assert [job.name for job in listed] == [JOB]


def test_the_sentence_names_the_bottleneck(served: Served, until: Callable[..., None]) -> None:
    def verdict(job: str, tenant: str) -> dict[str, Any]:
        return served.get("job", tenant, name=job)["why"]

    until(lambda: verdict(JOB, "vision")["bound"] == "data" and verdict(SLOW, "speech")["bound"] == "training")
    until(lambda: verdict(JOB, "vision")["op"] == "map")
    said = forebay("jobs", "why", JOB, "--service", served.address, FOREBAY_TOKEN=served.token["vision"])
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("Data is the bottleneck: training waited "), said.stdout
    assert "map takes 9" in said.stdout or "map takes 100 %" in said.stdout, said.stdout
    none = forebay("jobs", "why", SLOW, "--service", served.address, FOREBAY_TOKEN=served.token["vision"])
    assert none.returncode == 4
    assert "there is no job" in none.stderr
    # An administrator learns which tenant has a job of that name.
    for what in (["cancel"], ["forget"], ["trace", "--out", os.devnull]):
        done = forebay("jobs", *what, SLOW, "--service", served.address, FOREBAY_TOKEN=served.token["admin"])
        assert (done.returncode, "--tenant speech" in done.stderr) == (4, True), done.stderr


def test_top_prints_one_look_with_the_tenants_of_the_jobs(served: Served) -> None:
    env = {"FOREBAY_TOKEN": served.token["admin"]}
    look = json.loads(forebay("top", "--once", "--json", "--service", served.address, **env).stdout)
    described = served.get("openapi.json", None)
    jsonschema.validate(look, {"$ref": "#/components/schemas/Overview", "components": described["components"]})
    shown = forebay("top", "--once", "--service", served.address, **env)
    assert f"speech/{SLOW}" in shown.stdout, shown
    piped = forebay("top", "--service", served.address, **env)
    assert (piped.returncode, "--once" in piped.stderr) == (1, True)


@pytest.mark.parametrize("columns", [20, 120])
def test_top_runs_in_a_terminal_of_any_width(served: Served, columns: int) -> None:
    """Opens a job, goes back and ends. Afterwards the terminal is as before."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 12, columns, 0, 0))
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "forebay", "top", "--service", served.address]
    env = {**clean(), "FOREBAY_TOKEN": served.token["vision"], "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=env)
    try:
        shown = read_until(ours, b"<scrip")
        os.write(ours, b"\r")
        shown += read_until(ours, b"CONSUMER")
        os.write(ours, b"\x1b")
        shown += read_until(ours, b"JOB")
        os.write(ours, b"q")
        # The earlier screen is back.
        read_until(ours, b"\x1b[?1049l")
        assert process.wait(90) == 0, process.stderr
        assert termios.tcgetattr(theirs) == before
    finally:
        process.kill()
        with process:
            process.wait(90)
        os.close(ours)
        os.close(theirs)


def read_until(terminal: int, text: bytes) -> bytes:
    """Reads the output of a program in a terminal until this text has come."""
    deadline, found = time.monotonic() + 90, b""
    while text not in found:
        assert time.monotonic() < deadline, found
        if select.select([terminal], [], [], 0.1)[0]:
            found += os.read(terminal, 65536)
    return found


def test_a_dashboard_by_itself_has_the_rights_of_its_visitors(served: Served, until: Callable[..., None]) -> None:
    """The dashboard's own token samples the history, and gives no visitor any rights."""
    own = Served.__new__(Served)
    own.token = served.token
    env = {"FOREBAY_TOKEN": served.token["admin"]}
    own.http = f"http://{served.fleet.start('dashboard', '--service', served.address, '--http', '127.0.0.1:0', **env)}"
    assert own.status("jobs", None) == 401
    assert [job["name"] for job in own.get("jobs", "vision")["jobs"]] == [JOB]
    until(lambda: len(own.get("history", "vision", name=JOB)["fine"]) > 0)


def test_a_dashboard_outlives_its_dispatcher_and_says_so(tmp_path: Path, until: Callable[..., None]) -> None:
    fleet = Fleet(tmp_path)
    try:
        address = fleet.dispatcher()
        http = fleet.start("dashboard", "--service", address, "--http", "127.0.0.1:0")

        def answer() -> tuple[int, Any]:
            try:
                with urllib.request.urlopen(f"http://{http}/api/v1/overview", timeout=90) as found:
                    return found.status, json.load(found)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        assert answer()[0] == 200
        fleet.processes[0].kill()
        until(lambda: answer()[0] == 503)
        assert "error" in answer()[1]
        fleet.start("dispatcher", "--listen", address, "--state-dir", tmp_path / "again")
        until(lambda: answer()[0] == 200)
    finally:
        fleet.close()
