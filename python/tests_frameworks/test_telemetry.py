"""OpenTelemetry, TensorBoard, MLflow and tqdm, with the real libraries, and the notebook."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path

import forebay as fb
import pytest
from opentelemetry import trace as otel
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

NOTEBOOK = Path(__file__).parents[2] / "examples" / "quickstart.ipynb"


def dataset():
    return fb.range(2000).map(lambda row: {"x": row["id"] * 2}, reads=["id"], writes=["x"]).batch(100)


@pytest.fixture
def collector():
    """The address of an OTLP receiver, and the requests that it got, read by the official protobuf."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            requests.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
        server.shutdown()


def test_a_collector_gets_sampled_batches_below_the_span_of_the_program_that_started_this_one(collector, monkeypatch):
    address, requests = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "trainer-of-cats")
    monkeypatch.setenv("TRACEPARENT", f"00-{'ab' * 16}-{'cd' * 8}-01")
    with fb.trace_otel(every=5) as sent:
        assert len(list(dataset())) == 20
    assert sent.sampled == 4
    assert {path for path, _ in requests} == {"/v1/traces"}
    resources = [resource for _, request in requests for resource in request.resource_spans]
    assert "trainer-of-cats" in str(resources[0].resource)
    spans = [span for resource in resources for scope in resource.scope_spans for span in scope.spans]
    batches = [span for span in spans if span.name == "forebay.batch"]
    assert len(batches) == 4
    for batch in batches:
        assert batch.trace_id.hex() == "ab" * 16
        assert batch.parent_span_id.hex() == "cd" * 8
        below = [span for span in spans if span.parent_span_id == batch.span_id]
        assert {"forebay.morsel", "forebay.wait"} <= {span.name for span in below}
        morsel = next(span for span in below if span.name == "forebay.morsel")
        ops = [span for span in spans if span.parent_span_id == morsel.span_id]
        assert "forebay.read" in {span.name for span in ops}
        assert len(ops) >= 2
        for span in [*below, *ops]:
            assert batch.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
            assert span.end_time_unix_nano <= batch.end_time_unix_nano


def test_the_span_that_the_trainer_is_in_is_the_parent():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("trainer")
    with fb.trace_otel(every=1, tracer=tracer), dataset().iter() as batches, tracer.start_as_current_span("step"):
        next(batches)
        step = otel.get_current_span().get_span_context()
    batch = next(span for span in exporter.get_finished_spans() if span.name == "forebay.batch")
    assert batch.parent.span_id == step.span_id
    assert batch.context.trace_id == step.trace_id


def test_a_collector_that_is_not_there_costs_no_batch(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with fb.trace_otel(every=1):
        assert len(list(dataset())) == 20


def test_tensorboard_has_the_figures_of_a_loader(tmp_path):
    writer = SummaryWriter(str(tmp_path))
    loader = dataset().to_torch()
    monitor = fb.callbacks.Monitor(loader, fb.callbacks.tensorboard(writer), every=5)
    for step, _ in enumerate(loader):
        monitor(step)
    writer.close()
    found = EventAccumulator(str(tmp_path))
    found.Reload()
    assert [point.step for point in found.Scalars("forebay/waiting")] == [0, 5, 10, 15]
    assert all(point.value > 0 for point in found.Scalars("forebay/samples_per_second"))
    assert any(name.startswith("forebay/why") for name in found.Tags()["tensors"])


def test_mlflow_and_wandb_get_names_that_they_allow():
    got = []

    class Client:
        def log_metric(self, name, value, step):
            got.append((name, step))

        def set_tag(self, name, value):
            got.append((name, value))

        def log(self, figures):
            got.append(figures)

    fb.callbacks.mlflow(Client())("forebay/op_share/map(<lambda>)", 0.5, 3)
    fb.callbacks.mlflow(Client())("forebay/why", "Data.", 3)
    fb.callbacks.wandb(Client())("forebay/waiting", 0.5, 3)
    expected = [
        ("forebay/op_share/map__lambda__", 3),
        ("forebay/why", "Data."),
        {"forebay/waiting": 0.5, "forebay/step": 3},
    ]
    assert got == expected


def test_tqdm_has_its_total():
    for batches in (dataset(), dataset().iter(), dataset().to_torch()):
        assert tqdm(batches, disable=True).total == 20


def test_the_notebook_runs_and_keeps_no_output():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    done = NotebookClient(notebook, timeout=180, kernel_name="python3").execute()
    shown = "".join(str(cell.get("outputs")) for cell in done.cells)
    assert "<table" in shown
    # A loop of less than a second says so.
    assert any(words in shown for words in ("bottleneck", "Nothing is known yet"))


def test_a_cell_of_a_notebook_shows_progress(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    slow = "fb.range(4).map(lambda row: (time.sleep(0.5), {'x': row['id']})[1])"
    cell = nbformat.v4.new_code_cell(f"import time\nimport forebay as fb\n{slow}.save({str(tmp_path / 'out')!r}).rows")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    done = NotebookClient(notebook, timeout=180, kernel_name="python3").execute()
    written = "".join(output.get("text", "") for output in done.cells[0].outputs if output.get("name") == "stderr")
    assert "forebay: saving to" in written
