"""The native module: everything here is private to the package."""

from collections.abc import Sequence
from typing import Any, final

VERSION: str

def bytes_of(text: str) -> int: ...
def encode_jpeg(pixels: bytes, height: int, width: int, quality: int) -> bytes: ...

@final
class Memory:
    """One buffer of the engine, behind the buffer protocol: NumPy arrays over it keep it alive."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Pipeline:
    """An immutable, checked graph of ops, and the blobs that travel with it."""

    @staticmethod
    def from_files(json: str, name: str, file: str | None, line: int) -> Pipeline: ...
    @staticmethod
    def from_memory(columns: dict[str, Any], name: str, file: str | None, line: int) -> Pipeline: ...
    @staticmethod
    def from_source(json: str, pickle: bytes | None, name: str, file: str | None, line: int) -> Pipeline: ...
    @staticmethod
    def combine(
        json: str, parts: Sequence[tuple[str, Pipeline]], name: str, file: str | None, line: int
    ) -> Pipeline: ...
    @staticmethod
    def from_json(json: str, blobs: Sequence[bytes]) -> Pipeline: ...
    def then(
        self,
        json: str,
        pickle: bytes | None,
        label: str | None,
        keep_position: bool,
        file: str | None,
        line: int,
    ) -> Pipeline: ...
    @property
    def schema(self) -> list[tuple[str, str, list[int | None] | None, bool, bool]]: ...
    @property
    def dataset_id(self) -> str: ...
    @property
    def batch_size(self) -> int | None: ...
    def tolerate(self, on_error: str) -> Pipeline: ...
    def reorder(self, order: str) -> Pipeline: ...
    def optimize(self, order: str, samples: int) -> Pipeline: ...
    def kept(self) -> Pipeline | None: ...
    def to_json(self) -> str: ...
    def explain(self, plan: bool, consumers: int, even: bool | None, coordinated: bool) -> str: ...
    def files(self) -> list[str]: ...
    def cardinality(self) -> int | None: ...
    def uneven(self, consumers: int) -> str | None: ...
    def share(self, consumer: int, consumers: int, even: bool | None, coordinated: bool) -> int | None: ...
    def probe(self, function: str, pickle: bytes, makes_rows: bool) -> str: ...
    def iterate(
        self,
        *,
        seed: int,
        epoch: int,
        epochs: int | None,
        threads: int,
        consumer: int,
        consumers: int,
        even: bool | None,
        coordinated: bool,
        ordered: bool,
        executor: str,
        budget: int | float,
        memory: str | None,
        state: str | None,
    ) -> NativeIterator: ...
    def op_blobs(self) -> list[tuple[str, bytes]]: ...
    def blobs(self) -> list[tuple[str, bytes]]: ...

@final
class NativeIterator:
    """One stream of batches (a dictionary) or of samples (a list of dictionaries)."""

    def next(self) -> dict[str, Any] | list[dict[str, Any]] | None: ...
    def write(self, writer: SavedWriter) -> tuple[bool, int | None]: ...
    def losses(self) -> list[tuple[int, int, int, int, Any, bytes | None]]: ...
    def saved(self, rows: int | None = None) -> str: ...
    def stats(self) -> str | None: ...
    @property
    def epoch(self) -> int: ...
    def close(self) -> None: ...

@final
class SavedWriter:
    """Writes the files of `save` to a folder."""

    @staticmethod
    def begin(
        folder: str,
        pipeline: Pipeline,
        seed: int,
        epochs: int,
        consumer: tuple[int, int] | None,
        format: str,
        compression: str | None,
        file_bytes: int,
        overwrite: bool,
    ) -> SavedWriter: ...
    @property
    def state(self) -> str | None: ...
    @property
    def complete(self) -> bool: ...
    @property
    def rows(self) -> int: ...
    def end_part(self, state: str) -> None: ...
    def finish(self, state: str) -> tuple[int, int]: ...
    def close(self) -> None: ...

@final
class SavedFolder:
    """The contents of a folder of `save`."""

    format: str
    patterns: list[str]
    files: int
    rows: int
    complete: bool

def saved(folder: str) -> SavedFolder | None: ...
def cores() -> int: ...
def why_in_process(waited_s: float, step_s: float, batches: int, ops: Sequence[tuple[str, float]]) -> str: ...

@final
class Reconciler:
    """Decides whether to start or to end a worker. Times are seconds of one monotonic clock."""

    def __init__(self, workers_min: int, workers_max: int, at_once: int) -> None: ...
    def next(self, now_s: float, wanted: int | None, starting: int, running: int, leaving: int) -> str: ...
    def failed(self, now_s: float) -> float: ...
    def lives(self, since_s: float) -> None: ...

@final
class ServiceClient:
    """A dispatcher that has answered."""

    @staticmethod
    def connect(
        address: str,
        timeout_s: float,
        *,
        tls: tuple[str, str | None, str | None, str | None] | None = None,
        token: str | None = None,
        token_file: str | None = None,
    ) -> ServiceClient: ...
    @property
    def address(self) -> str: ...
    def jobs(
        self, name: str | None = None
    ) -> list[
        tuple[
            tuple[int, int, int, int, int, int],
            str,
            str,
            str,
            list[tuple[int, bool, int, int, int, int, int]],
            str,
            str,
            list[tuple[int, int, int, str, str, str]],
            list[tuple[str, str]],
            list[tuple[str, str, str, tuple[int, int, int], float, tuple[int, int], float, bool]],
            str,
            list[tuple[str, bool, float, float, float, float]],
        ]
    ]: ...
    def scale(
        self,
    ) -> tuple[int, int, int, str, list[tuple[str, bool, float, int, int | None, int, int, float, str]]]: ...
    def why(self, job: str) -> str: ...
    def wanted(self, kind: str | None = None, spot: bool = False) -> int | None: ...
    def workers(
        self,
    ) -> list[
        tuple[
            str,
            str,
            int,
            str,
            int,
            int | None,
            int | None,
            int | None,
            int,
            bool,
            str,
            tuple[str, float, bool, dict[str, str]],
        ]
    ]: ...
    def cancel(self, job: str, tenant: str | None = None) -> None: ...
    def forget(self, job: str, tenant: str | None = None) -> None: ...
    def open(
        self,
        pipeline: Pipeline,
        *,
        job: str,
        seed: int,
        epochs: int | None,
        consumer: int,
        consumers: int,
        even: bool | None,
        ending: str | None,
        absence_s: float,
        coordinated: bool,
        ordered: bool,
        weight: int,
        priority: int,
        budget: int | float,
        local: int | None,
        memory: str | None,
        state: str | None,
    ) -> NativeIterator: ...

@final
class Up:
    """A dispatcher and workers, as child processes."""

    @staticmethod
    def start(
        workers: int | None,
        max_workers: int,
        threads: int,
        state_dir: str | None,
        policy: str,
        objective: str,
        prices: tuple[float | None, float | None],
        cache: list[str],
        cache_memory: str | None,
        cache_disk: str | None,
        cache_store: str | None,
        cache_source: bool | None,
        cache_prices: str | None,
    ) -> Up: ...
    @property
    def address(self) -> str: ...
    def worker_pids(self) -> list[int]: ...
    def dispatcher_pid(self) -> int: ...
    def kill_worker(self, index: int) -> int: ...
    def add_worker(self) -> int: ...
    def restart_dispatcher(self) -> int: ...
    def notice(self) -> str | None: ...
    def close(self) -> None: ...

@final
class Progress:
    """A line on a terminal's stderr with the progress of long work."""

    def __init__(self, what: str, unit: str = "") -> None: ...
    def show(self, done: int, total: int) -> None: ...
    def end(self) -> None: ...

def fields_of_rows(samples: Sequence[Any]) -> str: ...
def take_row(value: Any) -> Any: ...
def retry(graph: str, blobs: dict[str, bytes], seed: int, record: bytes, part: str | None = None) -> None: ...
def record_row(graph: str, record: bytes, part: str | None = None) -> dict[str, Any]: ...
def serve_functions(fd: int) -> None: ...
def close_all() -> None: ...
def ease_cache() -> None: ...
def flush_cache() -> None: ...
def raise_error(json: str) -> Exception: ...
def cli_main(arguments: Sequence[str]) -> int: ...
