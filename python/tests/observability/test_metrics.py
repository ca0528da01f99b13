"""The metrics of dispatchers and workers for Prometheus and KEDA, as Prometheus' own parser reads them."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from buckets import credentials
from forebay._src.selftest.relay import free_port
from mounts import FILES, cannot_mount, mounted
from prometheus_client.parser import text_string_to_metric_families
from secured import Authority, Fleet, forebay, is_forgotten

OPERATIONS = Path(__file__).resolve().parents[3] / "docs" / "operations.md"
DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
RULES, DASHBOARD = DEPLOY / "prometheus" / "forebay.rules.yaml", DEPLOY / "grafana" / "forebay.json"
METRIC = re.compile(r"\b(?:forebay|process)_\w+")
ROW = re.compile(r"^\| `((?:forebay|process)_\w+)(?:\{([\w,]+)\})?` \| (gauge|counter) \|", re.MULTILINE)


def text(at: str, timeout: float = 90) -> str:
    with urllib.request.urlopen(f"http://{at}/metrics", timeout=timeout) as response:
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        return response.read().decode()


def read(at: str) -> dict[str, float]:
    """Returns the samples by name, with the values of their labels: `forebay_jobs/running`."""
    families = text_string_to_metric_families(text(at))
    samples = [sample for family in families for sample in family.samples]
    found = {"/".join([sample.name, *sample.labels.values()]): sample.value for sample in samples}
    assert len(found) == len(samples), "a sample is there once"
    return found


def expressions(file: Path) -> list[str]:
    """Returns the queries of a file of rules, or of a dashboard."""
    if file == RULES:
        return re.findall(r"^    expr: (.+)$", file.read_text(), re.MULTILINE)
    panels = json.loads(file.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def kinds(of: str) -> dict[str, tuple[frozenset[str], str]]:
    """Returns the labels and the kind of each metric."""
    found = {}
    for family in text_string_to_metric_families(of):
        assert family.samples, family.name
        assert family.documentation, family.name
        for sample in family.samples:
            found[sample.name] = (frozenset(sample.labels), family.type)
    return found


def waits_for(gate: Path) -> Callable[[dict[str, object]], dict[str, object]]:
    """A function that returns its row once a file exists."""

    def wait(row: dict[str, object]) -> dict[str, object]:
        while not gate.exists():
            time.sleep(0.005)
        return row

    return wait


def test_the_wanted_count_is_a_metric_and_absent_while_it_is_not_known(fleet, until: Callable[..., None]) -> None:
    at = f"localhost:{free_port()}"
    address = fleet.dispatcher("--metrics", at, "--policy", "static:2", "--max-workers", "3")

    def workers() -> dict[str, float]:
        return {
            name: value for name, value in read(at).items() if re.fullmatch(r"forebay_workers(_wanted|_max)?", name)
        }

    until(lambda: workers() == {"forebay_workers_wanted": 1, "forebay_workers": 0, "forebay_workers_max": 3})
    fleet.worker(address)
    gate = fleet.folder / "gate"
    ds = fb.range(10**9).map(waits_for(gate), schema={"id": "int64"}).batch(8)
    with ds.distribute(f"forebay://{address}", job="endless").iter() as batches, ThreadPoolExecutor() as pool:
        first = pool.submit(next, batches)
        # Nothing is measured, for no batch is made.
        until(lambda: workers() == {"forebay_workers": 1, "forebay_workers_max": 3})
        gate.touch()
        first.result()

        def wanted() -> bool:
            next(batches)
            return workers().get("forebay_workers_wanted") == 2

        until(wanted)
    for path, method, status in (("/", "GET", 404), ("/metrics", "POST", 405)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(f"http://{at}{path}", method=method), timeout=90)
        with refused.value:
            assert refused.value.code == status
    taken = forebay("dispatcher", "--listen", "127.0.0.1:0", "--state-dir", fleet.folder / "other", "--metrics", at)
    assert taken.returncode != 0
    assert "choose another --metrics" in taken.stderr
    for wrong in ("7070", "localhost", ":7070", "localhost:99999", "no.such.host.invalid:7070"):
        assert forebay("dispatcher", "--listen", wrong, "--state-dir", fleet.folder / "other").returncode == 2, wrong


def test_the_documented_metrics_are_those_that_there_are(fleet, until: Callable[..., None]) -> None:
    written = {
        name: (frozenset(filter(None, labels.split(","))), kind)
        for name, labels, kind in ROW.findall(OPERATIONS.read_text())
        if not name.startswith("forebay_mount_")
    }
    authority = Authority(fleet.folder / "pki")
    own, trust = authority.issue("one"), ["--tls-ca", authority.ca]
    ats = [f"localhost:{free_port()}" for _ in range(2)]
    offer = ["--offer", "kind=any,price=1,threads=1"]
    address = fleet.dispatcher("--metrics", ats[0], *offer, *own.flags())
    fleet.worker(address, "--metrics", ats[1], "--cache", fleet.folder / "cache", *trust, *own.flags())
    until(lambda: read(ats[1])["forebay_worker_connected"] == 1)
    until(lambda: "forebay_workers_wanted_by_kind{" in text(ats[0]))
    service = fb.connect(address, tls=fb.Tls(authority.ca, own.cert, own.key))
    assert len(list(fb.range(8).distribute(service, job="one"))) == 8
    service.cancel("one")
    until(lambda: is_forgotten(service, "one"))
    until(lambda: set(written) <= {name for at in ats for name in kinds(text(at))})
    there = [kinds(text(at)) for at in ats]
    assert there[0] | there[1] == written
    common = {
        name
        for name in written
        if name.startswith("process_") or name in ("forebay_build_info", "forebay_certificate_expiry_timestamp_seconds")
    }
    assert set(there[0]) & set(there[1]) == common
    left = read(ats[0])["forebay_certificate_expiry_timestamp_seconds"] - time.time()
    assert 0 < left <= 86_400, "it is good for a day"
    alerts = set(re.findall(r"\bforebay_\w+", OPERATIONS.read_text().split("```yaml")[1].split("```")[0]))
    assert len(alerts) > 5
    assert alerts <= set(written)
    for file, least in ((RULES, 14), (DASHBOARD, 30)):
        named = set(METRIC.findall("\n".join(expressions(file))))
        assert len(named) >= least
        assert named <= set(written), "each is exported by the processes above"


def check_mount_metrics(at: str, until: Callable[..., None]) -> None:
    """Checks the metrics of a mount whose prefetch reads all files."""
    until(lambda: read(at)["forebay_mount_prefetch_state/done"] == 1)
    found = read(at)
    size = sum(map(len, FILES.values()))
    assert found["forebay_mount_prefetch_files"] == found["forebay_mount_prefetch_files_cached"] == len(FILES)
    assert found["forebay_mount_prefetch_bytes"] == found["forebay_mount_prefetch_bytes_cached"] == size
    assert found["forebay_mount_up"] == 1
    assert found["forebay_mount_prefetch_failed"] == found["forebay_mount_prefetch_unlisted"] == 0
    documented = {name for name, _, _ in ROW.findall(OPERATIONS.read_text()) if name.startswith("forebay_mount_")}
    assert {name for name in kinds(text(at)) if name.startswith("forebay_mount_")} == documented


@pytest.mark.skipif(cannot_mount() is not None, reason=str(cannot_mount()))
def test_a_mount_tells_its_state_and_so_does_a_process_beside_it(
    moto: str, mount_bucket: str, tmp_path: Path, until: Callable[..., None]
) -> None:
    ats = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    options = (mount_bucket, "--prefetch", "--cache", tmp_path / "cache", "--metrics", ats[0])
    with mounted(tmp_path / "mnt", *options, **credentials(moto)) as mount:
        command = [sys.executable, "-m", "forebay", "mount", "--status", str(mount.folder), "--metrics", ats[1]]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as beside:
            try:
                assert beside.stdout is not None
                assert beside.stdout.readline() == f"serving http://{ats[1]}/metrics of the mount at {mount.folder}\n"
                for at in ats:
                    check_mount_metrics(at, until)
            finally:
                beside.terminate()
                assert beside.wait(90) == 0
    taken = forebay("mount", "--status", tmp_path, "--metrics", ats[1])
    assert "is in no mount of Forebay" in taken.stderr


def test_what_is_delivered_is_counted_on_both_sides(fleet, until: Callable[..., None]) -> None:
    ats = [f"localhost:{free_port()}" for _ in range(2)]
    address = fleet.dispatcher("--metrics", ats[0])
    fleet.worker(address, "--metrics", ats[1], "--no-lend")
    ds = fb.range(6400).map(lambda row: {"id": row["id"] * 2}).cache().batch(64)
    read_all = lambda job: sum(len(batch["id"]) for batch in ds.distribute(f"forebay://{address}", job=job))  # noqa: E731
    assert read_all("one") == 6400
    until(lambda: read(ats[0])["forebay_readers"] == 0)
    of, by = read(ats[0]), read(ats[1])
    splits = of["forebay_splits_granted_total"]
    assert splits == of["forebay_splits_accepted_total"] == by["forebay_worker_splits_computed_total"] > 0
    assert by["forebay_worker_rows_computed_total"] == by["forebay_cache_misses_total"] == 6400
    assert by["forebay_cache_hits_total/memory"] == 0
    assert by["forebay_worker_sent_bytes_total/sent"] >= 6400 * 8
    assert by["forebay_worker_busy_seconds_total"] > 0
    assert by["forebay_worker_send_cpu_seconds_total"] > 0
    assert (of["forebay_jobs/finished"], of["forebay_jobs/running"]) == (1, 0)
    assert of["forebay_ledger_writes_total"] > 0
    assert of["forebay_ledger_write_failures_total"] == 0
    until(lambda: read(ats[0])["forebay_ledger_pending_write_seconds"] == 0)
    assert read_all("two") == 6400
    by = read(ats[1])
    assert (by["forebay_cache_hits_total/memory"], by["forebay_cache_misses_total"]) == (6400, 6400)
    assert by["forebay_cache_rows/memory"] == 6400


def slow(batch: dict[str, Any]) -> dict[str, Any]:
    """Takes time without a core, so that an endless job takes none from the tests beside it."""
    time.sleep(0.01)
    return {"id": batch["id"]}


def test_a_reader_that_waits_is_seen_and_what_it_took_is_counted(fleet, until: Callable[..., None]) -> None:
    at = f"localhost:{free_port()}"
    address = fleet.dispatcher("--metrics", at)
    worker = len(fleet.processes)
    fleet.worker(address)

    def consume() -> None:
        rows = fb.range(10**9).batch(8).map(slow, schema={"id": "int64"})
        with pytest.raises(fb.errors.ClosedError):
            for _ in rows.distribute(f"forebay://{address}", job="endless"):
                pass

    service = fb.connect(address)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(consume)
        try:
            until(lambda: read(at)["forebay_rows_delivered_total"] > 0)
            of = read(at)
            assert of["forebay_bytes_delivered_total"] >= 8 * of["forebay_rows_delivered_total"]
            assert (of["forebay_readers"], of["forebay_jobs/running"]) == (1, 1)
            fleet.processes[worker].kill()
            until(lambda: read(at)["forebay_readers_longest_wait_seconds"] > 1)
            until(lambda: read(at)["forebay_jobs/waiting for workers"] == 1)
            until(lambda: read(at)["forebay_splits_recomputed_total"] > 0)
            of = read(at)
            assert of["forebay_workers_lost_total"] == 1
            # Its consumer may have noticed it first, split by split.
            assert of["forebay_splits_recomputed_total"] >= of["forebay_leases_lapsed_total"]
        finally:
            service.cancel("endless")
        reading.result(90)
    until(lambda: read(at)["forebay_readers_longest_wait_seconds"] == 0)


def test_connections_that_do_nothing_do_not_hold_up_who_reads(fleet) -> None:
    port = free_port()
    fleet.dispatcher("--metrics", f"127.0.0.1:{port}")
    with contextlib.ExitStack() as idle:
        for _ in range(100):
            idle.enter_context(socket.create_connection(("127.0.0.1", port), timeout=90))
        # The dispatcher closes them after 30 s.
        assert "forebay_workers" in text(f"127.0.0.1:{port}", timeout=25)


def test_the_rules_of_the_docs_are_those_of_the_file() -> None:
    written = OPERATIONS.read_text().split("```yaml")[1].split("```")[0]
    assert set(re.findall(r"^    expr: (.+)$", written, re.MULTILINE)) <= set(expressions(RULES))
    alerts = re.findall(r"^  - alert: (\w+)$", RULES.read_text(), re.MULTILINE)
    assert set(re.findall(r"- alert: (\w+)", written)) <= set(alerts)
    assert len(set(alerts)) == len(alerts) == len(expressions(RULES))


def test_panels_of_the_dashboard_are_complete_and_do_not_overlap() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    places = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        squares = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert not squares & places
        assert at["x"] + at["w"] <= 24
        places |= squares
        assert panel["type"] == "row" or all(target["expr"] and target["legendFormat"] for target in panel["targets"])
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Starts a Prometheus that reads an address, with our rules, and returns its address."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    started = []

    def start(target: str) -> str:
        at = f"127.0.0.1:{free_port()}"
        config = tmp_path / "prometheus.yaml"
        config.write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: ['{RULES}']\n"
            f"scrape_configs: [{{job_name: forebay, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        subprocess.run(["promtool", "check", "config", config], check=True, capture_output=True, timeout=90)
        options = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}", f"--web.listen-address={at}"]
        with open(tmp_path / "prometheus.log", "w") as log:
            started.append(subprocess.Popen(["prometheus", *options], stdout=log, stderr=log, cwd=tmp_path))
        return at

    yield start
    for process in started:
        process.terminate()
        process.wait(90)


def asked(at: str, path: str, **parameters: str) -> dict[str, object]:
    with urllib.request.urlopen(
        f"http://{at}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=90
    ) as answer:
        said = json.load(answer)
    assert said["status"] == "success", said
    data: dict[str, object] = said["data"]
    return data


def test_a_real_prometheus_loads_the_rules_and_answers_the_dashboard(
    fleet: Fleet, prometheus: Callable[[str], str], until: Callable[..., None]
) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    fleet.dispatcher("--metrics", metrics)
    at = prometheus(metrics)

    def found(query: str) -> list[object]:
        try:
            result = asked(at, "query", query=query)["result"]
        except OSError:
            return []
        assert isinstance(result, list)
        return result

    until(lambda: found("forebay_workers_max"))
    groups = asked(at, "rules")["groups"]
    assert isinstance(groups, list)
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(expressions(RULES))
    until(lambda: all(r["health"] == "ok" for g in asked(at, "rules")["groups"] for r in g["rules"]))  # type: ignore[attr-defined]
    for expression in expressions(DASHBOARD):
        query = expression.replace("$job", ".+").replace("$__rate_interval", "1m")
        asked(at, "query", query=query)
    # A dispatcher that leads and has no jobs raises no alarm.
    assert found('ALERTS{alertstate="firing"}') == []
    assert found("sum(forebay_workers)") != []
