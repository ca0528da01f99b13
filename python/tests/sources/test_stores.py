"""Files in an S3 bucket yield the rows of local files, with any network fault."""

from __future__ import annotations

import os
import threading
import uuid
from pathlib import Path

import forebay as fb
import pytest
from buckets import credentials, put
from faulty import FAULTS, FaultProxy, hang, reset_in_the_body
from forebay import _native
from pipelines import fingerprint

E = fb.errors
SOURCES = {
    "tar": lambda at: fb.from_tar(f"{at}/shards/train-{{000..002}}.tar"),
    "tar, listed and shuffled": lambda at: fb.from_tar(f"{at}/shards/*.tar").shuffle(window="4KiB"),
    "parquet": lambda at: fb.from_parquet(f"{at}/parquet/*.parquet", columns=["i", "name", "vec"]).shuffle(),
    "image folder": lambda at: fb.from_image_folder(f"{at}/images").drop("path").shuffle(),
    "jsonl": lambda at: fb.from_jsonl(f"{at}/lines.jsonl"),
    "csv": lambda at: fb.from_csv(f"{at}/table.csv").shuffle(window="4KiB"),
    "text": lambda at: fb.from_text(f"{at}/lines.jsonl").shuffle(window="4KiB"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, shards, parquet, images):
    """The files, here."""
    root = tmp_path_factory.mktemp("store")
    for name, path in {"shards": shards, "parquet": parquet, "images": images}.items():
        (root / name).symlink_to(path)
    (root / "lines.jsonl").write_text("".join(f'{{"n": {n}, "text": "{"é" * (n % 60)}"}}\n' for n in range(600)))
    (root / "table.csv").write_text("n,text\n" + "".join(f'{n},"say ""{n}"", é"\n' for n in range(600)))
    return root


@pytest.fixture(scope="module")
def bucket(moto, folder):
    """The same files in a bucket."""
    put(moto, "data")
    for parent, _, names in os.walk(folder, followlinks=True):
        for path in (Path(parent, name) for name in names):
            put(moto, f"data/{path.relative_to(folder)}", path.read_bytes())
    return "s3://data"


@pytest.fixture
def use(monkeypatch, tmp_path):
    """Sets the variables of a user's own store."""

    def use(url: str, timeout: float = 20, patience: float = 180) -> None:
        for name, value in {
            **credentials(url),
            "FOREBAY_STORE_TIMEOUT": str(timeout),
            "FOREBAY_STORE_PATIENCE": str(patience),
            "FOREBAY_CACHE": str(tmp_path / "cache"),
            # test_source_cache.py tests the cache of their bytes.
            "FOREBAY_CACHE_SOURCE": "off",
        }.items():
            monkeypatch.setenv(name, value)

    return use


def rows(ds: fb.Dataset) -> list[str]:
    return [fingerprint(b) for b in ds.batch(32).iter(seed=5)]


@pytest.fixture(scope="module")
def local(folder):
    """The streams of the files here."""
    return {name: rows(source(folder)) for name, source in SOURCES.items()}


def test_a_bucket_gives_what_the_files_give_here_and_on_a_service(moto, bucket, local, use):
    use(moto)
    with fb.up(workers=2, threads=1) as service:
        for name, source in SOURCES.items():
            ds = source(bucket)
            assert rows(ds) == local[name], name
            there = ds.batch(32).distribute(service, job=f"job-{uuid.uuid4()}", seed=5)
            assert [fingerprint(b) for b in there] == local[name], name
    with pytest.raises(E.NotFoundError) as caught:
        fb.from_tar(f"{bucket}/none.tar")
    assert caught.value.context["file"] == f"{bucket}/none.tar"


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_network_do_not_show(fault, moto, bucket, local, use):
    silent = fault in ("drip", "hang", "hang_in_the_body")
    with FaultProxy(moto, FAULTS[fault], every=5 if silent else 3) as proxy:
        use(proxy.url, timeout=1 if silent else 20)
        for name in ["tar", "text"] if silent else SOURCES:
            assert rows(SOURCES[name](bucket)) == local[name], name
        assert proxy.faults >= (2 if silent else 8)


@pytest.mark.parametrize("key", ["changing.jsonl", "changing.tar"])
def test_a_source_that_changes_under_the_job_is_never_mixed(key, moto, bucket, folder, use):
    """A body breaks in the middle, and when it resumes the object is another of the same size."""
    original = (folder / ("lines.jsonl" if key.endswith("jsonl") else "shards/train-000.tar")).read_bytes()
    put(moto, f"data/{key}", original)
    running = threading.Event()

    def replaced(client, answer):
        running.clear()
        put(moto, f"data/{key}", original.replace(b"1", b"2"))
        reset_in_the_body(client, answer)

    with FaultProxy(
        moto, replaced, every=1, only=lambda _, a: running.is_set() and "content-range" in a.headers
    ) as proxy:
        use(proxy.url)
        ds = fb.from_jsonl(f"{bucket}/{key}") if key.endswith("jsonl") else fb.from_tar(f"{bucket}/{key}")
        running.set()
        with pytest.raises(E.DataError, match="changed since it was indexed") as caught:
            rows(ds)
    assert caught.value.context["file"] == f"{bucket}/{key}"
    assert "etag" in caught.value.context["was"]


def test_an_answer_of_another_object_in_the_middle_of_a_body_is_refused(moto, bucket, use):
    """Half a body of one content, then the etag of another: the join is refused."""
    generation = iter(range(1, 1000))

    def cut_and_replaced(client, answer):
        if "content-range" in answer.headers:
            answer.headers["etag"] = f'"{next(generation)}"'
        client.sendall(answer.head() + answer.body)

    with FaultProxy(moto, cut_and_replaced, every=1) as proxy:
        use(proxy.url)
        with pytest.raises(E.DataError, match="changed since it was indexed"):
            rows(fb.from_tar(f"{bucket}/shards/train-000.tar"))


def test_a_store_that_stays_silent_is_given_up_with_what_was_seen(moto, bucket, use):
    use("http://127.0.0.1:1")
    with pytest.raises(E.UnavailableError, match="refused") as caught:
        fb.from_jsonl(f"{bucket}/lines.jsonl")
    assert caught.value.context["attempts"].startswith("4 in ")
    with FaultProxy(moto, hang, only=lambda method, answer: "content-range" in answer.headers, every=1) as proxy:
        use(proxy.url, timeout=1, patience=3)
        with pytest.raises(E.UnavailableError, match="nothing came in 1s") as caught:
            rows(fb.from_jsonl(f"{bucket}/lines.jsonl"))
    context = caught.value.context
    assert (context["file"], context["range"].split("..")[0]) == (f"{bucket}/lines.jsonl", "bytes 0")
    assert "FOREBAY_STORE_PATIENCE" in caught.value.hint
    assert proxy.requests < 20
    os.environ["FOREBAY_STORE_TIMEOUT"] = "soon"
    with pytest.raises(E.InvalidPipelineError, match="FOREBAY_STORE_TIMEOUT"):
        fb.from_jsonl("http://127.0.0.1:2/x")


@pytest.mark.parametrize("path", ["nowhere/a.txt", "nowhere/*.txt", "nowhere/"])
def test_a_bucket_that_is_not_there_is_said_in_a_sentence(moto, use, path):
    use(moto)
    with pytest.raises(E.NotFoundError) as caught:
        list((fb.from_image_folder if path.endswith("/") else fb.from_text)(f"s3://{path}"))
    said = str(caught.value)
    assert not any(part in said for part in ("<", "non-2xx")), said
    if "*" in path or path.endswith("/"):
        assert caught.value.message == 'there is no bucket "nowhere"'


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("s3://data/a.txt", "AWS_ACCESS_KEY_ID"),
        ("s3://data/*.txt", "AWS_ACCESS_KEY_ID"),
        ("gs://data/a.txt", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://data/a.txt", "AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_credentials_that_are_missing_are_named(monkeypatch, tmp_path, url, wanted):
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    # The address of a cloud machine's credentials: here no server answers.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    for name in ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"):
        monkeypatch.setenv(name, "127.0.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FOREBAY_STORE_TIMEOUT", "2")
    monkeypatch.setenv("FOREBAY_STORE_PATIENCE", "2")
    with pytest.raises((E.PermissionDeniedError, E.InvalidPipelineError)) as caught:
        fb.from_text(url)
    assert wanted in (caught.value.hint or "")
    assert not any(part in str(caught.value) for part in ("169.254", "metadata"))


def test_functions_in_processes_have_a_process_for_each_core_at_most(bucket, moto, use, tmp_path):
    use(moto)
    (tmp_path / "pids").mkdir()

    def note(row, folder=str(tmp_path / "pids")):
        Path(folder, str(os.getpid())).touch()
        return row

    ds = fb.from_jsonl(f"{bucket}/lines.jsonl").repeat(8).map(note, schema={"n": "int64", "text": "string"})
    assert len(list(ds.iter(executor="process"))) == 8 * 600
    assert 1 <= len(os.listdir(tmp_path / "pids")) <= _native.cores()
