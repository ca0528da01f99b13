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


def of(address: str) -> dict[str, str | bool]:
    """Returns the settings of the longest address at or above this one, from the variable or its file."""
    text = os.environ.get(VARIABLE, "").strip()
    if text and not text.startswith("{"):
        try:
            with open(text, encoding="utf-8") as file:
                kept = dict(json.load(file))
        except (OSError, ValueError) as error:
            context = {"file": text, "cause": str(error), "hint": f"correct or unset {VARIABLE}"}
            raise InvalidPipelineError(f"{VARIABLE} names a file that cannot be read", context) from None
    else:
        kept = _kept()
    above = [each for each in kept if address == each or address.startswith(each.rstrip("/") + "/")]
    return dict(kept[max(above, key=len)]) if above else {}


def for_deltalake(address: str) -> dict[str, str] | None:
    """Returns the settings of an address as `deltalake` takes them, which reads the environment, too."""
    if "://" not in address or address.startswith("file://"):
        return None
    found = {name: str(value).lower() if isinstance(value, bool) else value for name, value in of(address).items()}
    endpoint = found.get("endpoint_url") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if (endpoint or "").startswith("http://"):
        found["allow_http"] = "true"
    return found or None


#: The names of `pyiceberg` for settings of `s3://`.
_OF_PYICEBERG = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "region": "s3.region",
    "endpoint_url": "s3.endpoint",
    "profile": "s3.profile-name",
    "skip_signature": "s3.anonymous",
}


def for_pyiceberg(address: str) -> dict[str, str]:
    """Returns the settings of an address as `pyiceberg` takes them."""
    found = {_OF_PYICEBERG[name]: str(value) for name, value in of(address).items() if name in _OF_PYICEBERG}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return {**({"s3.endpoint": endpoint} if endpoint and address.startswith("s3") else {}), **found}


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
