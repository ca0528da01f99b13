"""The native module: everything here is private to the package."""

from collections.abc import Sequence
from typing import Any, final

VERSION: str

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
    def schema(self) -> list[tuple[str, str, list[int | None] | None, bool]]: ...
    @property
    def dataset_id(self) -> str: ...
    @property
    def batch_size(self) -> int | None: ...
    def tolerate(self, on_error: str) -> Pipeline: ...
    def kept(self) -> Pipeline | None: ...
    def to_json(self) -> str: ...
    def explain(self, plan: bool, consumers: int, even: bool | None, coordinated: bool) -> str: ...
    def cardinality(self) -> int | None: ...
    def probe(self, function: str, pickle: bytes) -> str: ...
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
        executor: str,
        budget: int | float,
        state: str | None,
    ) -> NativeIterator: ...
    def op_blobs(self) -> list[tuple[str, bytes]]: ...
    def blobs(self) -> list[tuple[str, bytes]]: ...

@final
class NativeIterator:
    """One stream of batches (a dictionary) or of samples (a list of dictionaries)."""

    def next(self) -> dict[str, Any] | list[dict[str, Any]] | None: ...
    def losses(self) -> list[tuple[int, int, int, int, Any, bytes | None]]: ...
    def saved(self, rows: int | None = None) -> str: ...
    def caching(self) -> str | None: ...
    @property
    def epoch(self) -> int: ...
    def close(self) -> None: ...

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
            str,
            str,
            str,
            int,
            int,
            int,
            list[tuple[int, bool, int, int, int, int, int]],
            str,
            str,
            int,
            list[tuple[int, int, int, str, str]],
        ]
    ]: ...
    def scale(self) -> tuple[int, int, int, str]: ...
    def workers(self) -> list[tuple[str, str, int, str, int, int, int, int]]: ...
    def cancel(self, job: str, tenant: str | None = None) -> None: ...
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
        coordinated: bool,
        budget: int | float,
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
        cache: str | None,
        cache_memory: str | None,
        cache_disk: str | None,
    ) -> Up: ...
    @property
    def address(self) -> str: ...
    def worker_pids(self) -> list[int]: ...
    def dispatcher_pid(self) -> int: ...
    def kill_worker(self, index: int) -> int: ...
    def add_worker(self) -> int: ...
    def restart_dispatcher(self) -> int: ...
    def close(self) -> None: ...

@final
class Progress:
    """A line on a terminal's stderr that says how far long work is."""

    def __init__(self, what: str) -> None: ...
    def show(self, done: int, total: int) -> None: ...
    def end(self) -> None: ...

def fields_of_rows(samples: Sequence[Any]) -> str: ...
def retry(graph: str, blobs: dict[str, bytes], seed: int, record: bytes) -> None: ...
def record_row(graph: str, record: bytes) -> dict[str, Any]: ...
def serve_functions(fd: int) -> None: ...
def close_all() -> None: ...
def flush_cache() -> None: ...
def raise_error(json: str) -> Exception: ...
def cli_main(arguments: Sequence[str]) -> int: ...
