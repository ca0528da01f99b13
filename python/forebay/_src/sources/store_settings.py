"""Settings of stores for processes that use several of them: credentials and endpoints by address."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from forebay._src import arguments
from forebay._src.usage import explained
from forebay.errors import InvalidPipelineError

#: The variable that has them, as JSON or as the path of a file. The engine reads it when it opens a store.
VARIABLE = "FOREBAY_STORES"

_ADDRESS = re.compile(r"(s3a?|r2|gs|az|abfss?|adl|azure)://[^/*?\[\]{}]+(/[^*?\[\]{}]*)?")
#: Names of fsspec's file systems, as pandas and Hugging Face's datasets pass them.
_OF_FSSPEC = {
    "account_url": "account_name",
    "anon": "skip_signature",
    "client_kwargs": "endpoint_url and region",
    "key": "access_key_id",
    "secret": "secret_access_key",
}


@explained('storage_options("s3://bucket", {"region": "eu-central-1", "profile": "lab"})')
def storage_options(address: str, options: Mapping[str, str | bool] | None) -> None:
    """Sets the credentials, the endpoint or the region of a bucket, for this process and its children.

    Sources and `save` use them for every path at or below the address; for others, and for settings that are not named,
    they use the environment. Credentials are a whole: with one of an address, none of the environment is used. The
    settings are kept in the environment variable `FOREBAY_STORES` of this process. They do not travel with pipelines:
    on a service, set that variable for the dispatcher and the workers.

    Args:
        address: A bucket, or a folder in it: `s3://bucket`, `r2://bucket/folder`, `gs://bucket`, `az://container`.
        options: The settings, by the names that Polars and delta-rs use. Of `s3://` and `r2://`: `access_key_id`,
            `secret_access_key`, `session_token`, `region`, `endpoint_url`, `skip_signature` for public buckets, and
            `profile` of `~/.aws`. Of `gs://`: `service_account` (a file), `skip_signature`. Of `az://`: `account_name`,
            `account_key`, `sas_token`. They replace earlier ones of the same address; `None` removes these.

    Raises:
        InvalidPipelineError: The address is not one of a store, or an option has no text.

    >>> storage_options("s3://mine", {"endpoint_url": "https://minio.example", "profile": "lab"})
    >>> storage_options("s3://mine", None)
    """
    op = "storage_options"
    address = arguments.text(address, op, "address")
    if not _ADDRESS.fullmatch(address):
        hint = 'name a bucket or a folder in it, without a pattern: "s3://bucket"'
        raise InvalidPipelineError(f"{op}: {address!r} is no address of a store", {"hint": hint})
    kept = _kept()
    kept.pop(address.rstrip("/"), None)
    if options is not None:
        arguments.mapping(options, op, "options", 'storage_options("s3://bucket", {"region": "eu-central-1"})')
        kept[address.rstrip("/")] = {name: _checked(name, value) for name, value in options.items()}
    if kept:
        os.environ[VARIABLE] = json.dumps(kept)
    else:
        os.environ.pop(VARIABLE, None)


def _checked(name: object, value: object) -> str | bool:
    # A message never has a value, which may be a secret.
    if not isinstance(name, str) or not isinstance(value, str | bool):
        kind = type(value).__name__
        hint = {"hint": f"write {_OF_FSSPEC[name]}"} if isinstance(name, str) and name in _OF_FSSPEC else {}
        raise InvalidPipelineError(f"storage_options: {name!r} is {kind}, and must be a text or a truth value", hint)
    if name in _OF_FSSPEC:
        what = f"storage_options: {name!r} is a name of fsspec"
        raise InvalidPipelineError(what, {"hint": f"write {_OF_FSSPEC[name]}"})
    return value


def _kept() -> dict[str, dict[str, str | bool]]:
    text = os.environ.get(VARIABLE, "").strip()
    if text and not text.startswith("{"):
        hint = f"add the address to that file; or unset {VARIABLE}"
        raise InvalidPipelineError(f"storage_options: {VARIABLE} names a file", {"hint": hint})
    try:
        kept = json.loads(text or "{}")
    except json.JSONDecodeError:
        raise InvalidPipelineError(
            f"storage_options: {VARIABLE} is not JSON", {"hint": "correct or unset it"}
        ) from None
    return dict(kept)
