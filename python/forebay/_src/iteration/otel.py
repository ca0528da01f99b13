"""The way of sampled batches as OpenTelemetry spans, from the trainer's process.

OpenTelemetry's own library makes and sends the spans. The recording keeps the newest spans in a ring of bounded size,
and a sampled batch takes those of its chunks out of it.
"""

from __future__ import annotations

import itertools
import os
import time
from types import TracebackType
from typing import Any, NamedTuple

from forebay import _native
from forebay._src import arguments
from forebay._src.iteration import iterator
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

#: The spans that are kept for the batches to come.
RING = 20_000
#: How long the end waits until all spans are sent.
FLUSH_MS = 10_000


class _Span(NamedTuple):
    name: str
    worker: str
    track: str | None
    start: int
    end: int
    chunk: tuple[int, int, int] | None


class OtelTrace:
    """Sends the spans of every n-th batch of each iterator, while it is open.

    Attributes:
        sampled: The number of batches whose spans were handed to OpenTelemetry.
    """

    def __init__(self, *, every: int = 100, tracer: Any = None) -> None:
        self._every = arguments.whole(every, "trace_otel", "every", 1)
        self._given = tracer
        self._provider: Any = None
        self.sampled = 0

    def __enter__(self) -> OtelTrace:
        """Begins to record.

        Raises:
            InvalidPipelineError: The library is missing, or another trace is being recorded.
        """
        self._api, self._tracer = self._found()
        _native.trace_start(RING, True)
        #: What turns times of spans into nanoseconds since 1970.
        self._epoch = time.time_ns() - _native.trace_now()
        self._counts: dict[int, itertools.count[int]] = {}
        iterator.observe(self._batch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the recording. Sends the last spans, for at most 10 s."""
        iterator.observe(None)
        _native.trace_stop("")
        if self._provider is not None:
            self._provider.force_flush(FLUSH_MS)
            self._provider.shutdown()

    def _found(self) -> tuple[Any, Any]:
        try:
            from opentelemetry import trace as api
        except ImportError:
            raise _missing("opentelemetry") from None
        if self._given is not None:
            return api, self._given
        if isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
            # The program has set up no export, so this does, by the standard variables.
            self._provider = _provider()
            return api, self._provider.get_tracer("forebay")
        return api, api.get_tracer("forebay")

    def _batch(self, native: _native.NativeIterator) -> None:
        stream, asked = native.traced
        number = next(self._counts.setdefault(stream, itertools.count()))
        if number % self._every == 0 and asked:
            found = _native.trace_of_batch(asked, stream)
            spans = [_Span(n, worker, track, at, at + nanos, chunk) for n, worker, track, at, nanos, chunk in found]
            if spans:
                self._send(spans, native.epoch, number)
                self.sampled += 1

    def _send(self, spans: list[_Span], epoch: int, number: int) -> None:
        """Makes a span of the batch, below the span that the trainer is in, and the others below that."""
        start, end = min(span.start for span in spans), max(span.end for span in spans)
        about = {"forebay.epoch": epoch, "forebay.batch": number}
        whole = self._tracer.start_span(
            "forebay.batch", context=self._context(), start_time=self._epoch + start, attributes=about
        )
        # Of one track, a span that contains another one comes first.
        spans.sort(key=lambda span: (span.worker, span.track or "", span.start, -span.end))
        open_spans: list[tuple[_Span, Any]] = []
        for span in spans:
            while open_spans and not _contains(open_spans[-1][0], span):
                self._end(*open_spans.pop())
            parent = open_spans[-1][1] if open_spans else whole
            made = self._tracer.start_span(
                f"forebay.{span.name}",
                context=self._api.set_span_in_context(parent),
                start_time=self._epoch + span.start,
                attributes=_attributes(span),
            )
            open_spans.append((span, made))
        for one in reversed(open_spans):
            self._end(*one)
        whole.end(self._epoch + end)

    def _end(self, span: _Span, made: Any) -> None:
        made.end(self._epoch + span.end)

    def _context(self) -> Any:
        """Returns the context of the trainer's span; without one, that of the process that started this one."""
        if self._api.get_current_span().get_span_context().is_valid:
            return None
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        names = {name.lower(): os.environ[name] for name in ("TRACEPARENT", "TRACESTATE") if name in os.environ}
        return TraceContextTextMapPropagator().extract(names)


def _contains(outer: _Span, inner: _Span) -> bool:
    return (outer.worker, outer.track) == (inner.worker, inner.track) and inner.end <= outer.end


def _attributes(span: _Span) -> dict[str, Any]:
    named: dict[str, Any] = {"forebay.worker": span.worker} if span.worker else {}
    if span.track is not None:
        named["thread.name"] = span.track
    if span.chunk is not None:
        named.update(zip(("forebay.epoch", "forebay.split", "forebay.chunk"), span.chunk, strict=True))
    return named


def _provider() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise _missing("opentelemetry-sdk with its OTLP exporter") from None
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _missing(what: str) -> InvalidPipelineError:
    hint = "pip install 'forebay[otel]'"
    return InvalidPipelineError(f"trace_otel: {what} is not installed", {"hint": hint})


@explained()
def trace_otel(*, every: int = 100, tracer: Any = None) -> OtelTrace:
    """Sends the spans of sampled batches to OpenTelemetry while its context is open: `pip install 'forebay[otel]'`.

    A sampled batch is a span `forebay.batch`. Below it are the loop's wait, and for each chunk of rows in the batch:
    read, each op, merge, and of a job on a service the lease, the wait for the worker and the transfer. The parent is
    the span in which the loop requests the batch; where there is none, that of the variable `TRACEPARENT`. What the
    workers did is sent by this process, so workers need no endpoint.

    If the program has set up no tracer provider, the spans go to the collector of `OTEL_EXPORTER_OTLP_ENDPOINT`
    (http/protobuf); `OTEL_SERVICE_NAME` and the other standard variables count. An endpoint that does not answer costs
    spans, never a batch.

    Args:
        every: Of each iterator, one batch in so many is sampled, beginning with the first.
        tracer: The tracer that gets the spans. Default: that of the program's tracer provider.

    >>> import forebay as fb
    >>> from opentelemetry.sdk.trace import TracerProvider  # doctest: +SKIP
    >>> with fb.trace_otel(every=10):  # doctest: +SKIP
    ...     for batch in fb.range(1000).batch(10):
    ...         pass
    """
    return OtelTrace(every=every, tracer=tracer)
