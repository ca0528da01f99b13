"""Settings of stores: profiles of AWS's tools, settings by address, and no secret in a pipeline or an error."""

from __future__ import annotations

import http.server
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import forebay as fb
import pytest
from pipelines import name

E = fb.errors
BODY = b'{"n": 1}\n{"n": 2}\n'
SECRET = "do-not-print-me"


class Seen(NamedTuple):
    """A server, and the keys and regions of its requests."""

    url: str
    signed: set[tuple[str, str]]


@contextmanager
def store() -> Iterator[Seen]:
    """A server that has every object, and notes who asks."""
    signed: set[tuple[str, str]] = set()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = re.search(r"Credential=([^/]+)/[0-9]+/([^/]+)/", self.headers.get("Authorization", ""))
            signed.add((found[1], found[2]) if found else ("", ""))
            first, last = 0, len(BODY) - 1
            if span := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
                first, last = int(span[1]), min(int(span[2]), last)
            self.send_response(206 if span else 200)
            for header, value in {
                "Content-Length": last + 1 - first,
                "Content-Range": f"bytes {first}-{last}/{len(BODY)}",
                "ETag": '"1"',
                "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
            }.items():
                self.send_header(header, str(value))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(BODY[first : last + 1])

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Seen(f"http://127.0.0.1:{server.server_port}", signed)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def aws(monkeypatch, tmp_path) -> Path:
    """An empty `~/.aws`, and no setting in the environment."""
    for variable in [*os.environ]:
        if variable.startswith(("AWS_", "FOREBAY_STORES")):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("FOREBAY_STORES", "")
    monkeypatch.setenv("FOREBAY_CACHE_SOURCE", "off")
    monkeypatch.setenv("FOREBAY_STORE_PATIENCE", "1")
    for variable, file in (("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")):
        monkeypatch.setenv(variable, str(tmp_path / file))
    return tmp_path


def read(address: str) -> list[int]:
    return [int(row["n"]) for row in fb.from_jsonl(address, schema={"n": "int64"})]


def profiles(folder: Path, url: str) -> None:
    (folder / "config").write_text(
        "[default]\nregion = us-east-9\n\n"
        f"[profile default]\nregion = us-west-1\nendpoint_url = {url}\n\n[profile lab]\nregion = eu-central-1\n"
        f"endpoint_url = {url}\ns3 =\n  max_concurrent_requests = 20\n\n[profile office]\nsso_session = office\n"
    )
    (folder / "credentials").write_text(
        f"[default]\naws_access_key_id = DEFAULT\naws_secret_access_key = {SECRET}\n\n"
        f"[lab]\naws_access_key_id = LAB\naws_secret_access_key = {SECRET}\n"
    )


def test_a_profile_gives_what_the_environment_lacks(aws, monkeypatch):
    with store() as seen:
        profiles(aws, seen.url)
        assert read("s3://bucket/a.jsonl") == [1, 2]
        assert seen.signed == {("DEFAULT", "us-west-1")}
        seen.signed.clear()
        monkeypatch.setenv("AWS_PROFILE", "lab")
        assert read("s3://bucket/a.jsonl") == [1, 2]
        assert seen.signed == {("LAB", "eu-central-1")}
        seen.signed.clear()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "MINE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_REGION", "us-east-2")
        assert read("s3://bucket/a.jsonl") == [1, 2]
        assert seen.signed == {("MINE", "us-east-2")}


def test_a_profile_that_cannot_be_used_says_why(aws, monkeypatch):
    profiles(aws, "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(E.NotFoundError, match='there is no AWS profile "nobody"'):
        read("s3://bucket/a.jsonl")
    monkeypatch.setenv("AWS_PROFILE", "office")
    with pytest.raises(E.InvalidPipelineError, match='"office" has no keys, but sso_session') as caught:
        read("s3://bucket/a.jsonl")
    assert "aws configure export-credentials --profile office" in (caught.value.hint or "")


def test_each_address_has_its_own_settings_here_and_on_workers(aws, monkeypatch):
    with store() as one, store() as two:
        profiles(aws, two.url)
        keys = {"access_key_id": "ONE", "secret_access_key": SECRET, "region": "us-east-2"}
        fb.storage_options("s3://one/", {**keys, "endpoint_url": one.url})
        fb.storage_options("s3://one/deep", {"endpoint_url": one.url, "skip_signature": True})
        fb.storage_options("s3://two", {"profile": "lab"})
        assert [read("s3://one/a.jsonl"), read("s3://two/a.jsonl"), read("s3://onemore/a.jsonl")] == [[1, 2]] * 3
        assert one.signed == {("ONE", "us-east-2")}
        assert two.signed == {("LAB", "eu-central-1"), ("DEFAULT", "us-west-1")}
        one.signed.clear()
        assert read("s3://one/deep/a.jsonl") == [1, 2]
        assert one.signed == {("", "")}
        one.signed.clear()
        ds = fb.from_jsonl("s3://one/a.jsonl", schema={"n": "int64"})
        with fb.up(workers=1) as service:
            assert [int(row["n"]) for row in ds.distribute(service, job=name())] == [1, 2]
        assert one.signed == {("ONE", "us-east-2")}
        told = ds._pipeline.to_json() + repr(ds) + ds.explain()
        assert SECRET not in told
        assert "ONE" not in told
        before = ds.dataset_id
        fb.storage_options("s3://one/", {**keys, "access_key_id": "ANOTHER", "endpoint_url": one.url})
        assert fb.from_jsonl("s3://one/a.jsonl", schema={"n": "int64"}).dataset_id == before
        for address in ("s3://one", "s3://one/deep", "s3://two/"):
            fb.storage_options(address, None)
        assert "FOREBAY_STORES" not in os.environ
        (aws / "stores.json").write_text(json.dumps({"s3://one": {**keys, "endpoint_url": one.url}}))
        monkeypatch.setenv("FOREBAY_STORES", str(aws / "stores.json"))
        one.signed.clear()
        assert read("s3://one/a.jsonl") == [1, 2]
        assert one.signed == {("ONE", "us-east-2")}


def test_r2_needs_the_address_of_its_account(aws):
    with pytest.raises(E.InvalidPipelineError, match="the account of this bucket is not known") as caught:
        read("r2://bucket/a.jsonl")
    assert "r2.cloudflarestorage.com" in (caught.value.hint or "")
    with store() as seen:
        own = {"endpoint_url": seen.url, "access_key_id": "R2", "secret_access_key": SECRET}
        fb.storage_options("r2://bucket", own)
        assert read("r2://bucket/a.jsonl") == [1, 2]
        assert {key for key, _ in seen.signed} == {"R2"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"s3://bucket": {"secret_access_key": "%s"', "not JSON at line 1"),
        ('{"s3://bucket": "%s"}', "are no object"),
        ('{"s3://bucket": {"secret_access_key": ["%s"]}}', "is no text"),
        ('{"s3://bucket": {"secret": "%s"}}', 'has no setting "secret"'),
        ('\'{"s3://bucket": {"secret_access_key": "%s"}}\'', "it is JSON in quotes"),
        ("/nowhere/stores.json", "No such file"),
    ],
)
def test_settings_that_cannot_be_used_are_told_without_their_values(text, says, aws, monkeypatch):
    monkeypatch.setenv("FOREBAY_STORES", text.replace("%s", SECRET))
    with pytest.raises(E.InvalidPipelineError, match=says) as caught:
        read("s3://bucket/a.jsonl")
    assert SECRET not in f"{caught.value} {caught.value.hint} {caught.value.context}"


@pytest.mark.parametrize(
    ("address", "options", "says"),
    [
        ("s3://bucket", {"endpoint_url": "localhost:9000"}, "the setting endpoint_url is no address of a server"),
        ("s3://bucket", {"access_key_id": "ID", "region": "us-east-1"}, "cannot be used: .* Missing SecretAccessKey"),
        ("gs://bucket", {"service_account_key": f'"{SECRET}"'}, "cannot be used: .* invalid type: string …"),
    ],
)
def test_settings_of_which_no_store_can_be_made_are_told_without_secrets(address, options, says, aws):
    fb.storage_options(address, options)
    with pytest.raises(E.InvalidPipelineError, match=says) as caught:
        read(f"{address}/a.jsonl")
    assert SECRET not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("address", "options", "says"),
    [
        ("bucket", {}, "no address of a store"),
        ("s3://bucket/*.tar", {}, "no address of a store"),
        ("s3://bucket", {"secret": SECRET}, "write secret_access_key"),
        ("s3://bucket", {"client_kwargs": {"endpoint_url": SECRET}}, "endpoint_url"),
        ("s3://bucket", {"region": 7}, "must be a text"),
        ("s3://bucket", SECRET, "not str"),
    ],
)
def test_wrong_options_say_what_to_write(address, options, says, aws):
    with pytest.raises(E.InvalidPipelineError) as caught:
        fb.storage_options(address, options)
    told = f"{caught.value} {caught.value.hint}"
    assert says in told
    assert SECRET not in told
