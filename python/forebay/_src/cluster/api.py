"""A client of the Kubernetes API with the few calls that services need: get, list, create, replace, apply, delete.

Objects are JSON, as the API has them. A call takes at most `CALL_SECONDS`, and an answer has at most `ANSWER_MAX`
bytes. This module repeats no call. A refusal of the API becomes an error of `forebay.errors` with the API's own words.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forebay._src.cluster.kubeconfig import Access, Json
from forebay.errors import (
    ConflictError,
    DataError,
    ForebayError,
    InvalidPipelineError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)

#: Seconds that a call may take.
CALL_SECONDS = 15.0
#: Calls of one apply, where other clients change the same object.
APPLY_MAX = 5
#: The most bytes of an answer.
ANSWER_MAX = 64 << 20
#: The most objects of a list. A service has some tens of objects, and as many pods as workers.
LIST_MAX = 2000
#: The name under which the API notes who wrote a field.
MANAGER = "forebay-cluster"

_TYPES = {"PATCH": "application/apply-patch+yaml"}
_ERRORS: Mapping[int, type[ForebayError]] = {
    400: InvalidPipelineError,
    401: PermissionDeniedError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    422: InvalidPipelineError,
}
_HINTS = {
    401: "log in anew: the API server does not know these credentials",
    403: "ask the administrator for the right",
}


@dataclass(frozen=True)
class Kind:
    """A kind of objects.

    Attributes:
        version: Group and version, as `apiVersion` has them.
        kind: The kind.
        plural: Its name in paths.
    """

    version: str
    kind: str
    plural: str

    def path(self, namespace: str, name: str = "") -> str:
        """Returns the path of an object, or of all of a namespace.

        >>> Kind("apps/v1", "Deployment", "deployments").path("ml", "a")
        '/apis/apps/v1/namespaces/ml/deployments/a'
        """
        root = "/api" if "/" not in self.version else "/apis"
        quoted = urllib.parse.quote(namespace, safe="")
        last = f"/{urllib.parse.quote(name, safe='')}" if name else ""
        return f"{root}/{self.version}/namespaces/{quoted}/{self.plural}{last}"


class Api:
    """The API of one cluster.

    Args:
        access: How to reach it.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        proxies = urllib.request.ProxyHandler({"https": access.proxy, "http": access.proxy} if access.proxy else None)
        self._open = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=access.tls), proxies, _NoRedirect()
        ).open

    def serves(self, path: str) -> bool:
        """Returns whether the API has a group and version: whether a definition is installed."""
        try:
            self.call("GET", path)
        except NotFoundError:
            return False
        return True

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Returns an object, or `None` if there is none."""
        try:
            return self.call("GET", kind.path(namespace, name))
        except NotFoundError:
            return None

    def list(self, kind: Kind, namespace: str, **selectors: str) -> list[Json]:
        """Returns the objects that the selectors choose, `labelSelector` and `fieldSelector`."""
        query = urllib.parse.urlencode({**selectors, "limit": LIST_MAX})
        found = self.call("GET", f"{kind.path(namespace)}?{query}")
        return [{"kind": kind.kind, **it} for it in found.get("items") or []]

    def create(self, kind: Kind, namespace: str, body: Json) -> Json:
        """Makes an object; a `ConflictError` if there is one of its name."""
        return self.call("POST", f"{kind.path(namespace)}?fieldManager={MANAGER}", body)

    def replace(self, kind: Kind, namespace: str, body: Json) -> Json:
        """Replaces an object that was read before; a `ConflictError` if it has changed since."""
        return self.call("PUT", f"{kind.path(namespace, body['metadata']['name'])}?fieldManager={MANAGER}", body)

    def apply(self, kind: Kind, namespace: str, body: Json) -> Json:
        """Makes the object be as described, by server-side apply."""
        path = f"{kind.path(namespace, body['metadata']['name'])}?fieldManager={MANAGER}&force=true"
        for _ in range(APPLY_MAX - 1):
            try:
                return self.call("PATCH", path, body)
            except ConflictError:
                # Another client made or changed the object in the same moment: the next call finds it.
                continue
        return self.call("PATCH", path, body)

    def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        """Deletes this very object; the cluster then deletes the objects that it owns. A missing object is no error."""
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        try:
            self.call("DELETE", kind.path(namespace, name), body)
        except NotFoundError:
            return

    def call(self, verb: str, path: str, body: Json | None = None) -> Json:
        """Sends one request, and returns the answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {
            **self.access.headers,
            "accept": "application/json",
            "content-type": _TYPES.get(verb, "application/json"),
            "user-agent": MANAGER,
        }
        try:
            asked = urllib.request.Request(self.access.server + path, data, headers, method=verb)
            with self._open(asked, timeout=CALL_SECONDS) as answer:
                said = answer.read(ANSWER_MAX + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error.code, error.read(1 << 16), verb, path) from None
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from None
        if len(said) > ANSWER_MAX:
            raise DataError(f"cluster: {self._where()} answered with more than {ANSWER_MAX} bytes", {"request": path})
        try:
            found = json.loads(said)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            context = {"answer": said[:200].decode(errors="replace"), "hint": "is this the address of an API server?"}
            raise DataError(f"cluster: {self._where()} answered with something that is no object", context)
        return found

    def _where(self) -> str:
        return f"the API server at {self.access.server}"

    def _refused(self, code: int, said: bytes, verb: str, path: str) -> ForebayError:
        try:
            message = str(json.loads(said)["message"])
        except (ValueError, KeyError, TypeError):
            message = said[:500].decode(errors="replace") or f"HTTP status {code}"
        context = {"request": f"{verb} {path.partition('?')[0]}", "context": self.access.context}
        if hint := _HINTS.get(code):
            context["hint"] = hint
        return _ERRORS.get(code, UnavailableError)(f"cluster: {self._where()} refuses: {message}", context)

    def _unreachable(self, error: Exception) -> ForebayError:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        context = {"cause": str(reason) or type(reason).__name__, "context": self.access.context}
        if isinstance(reason, ssl.SSLCertVerificationError):
            context["hint"] = "the kubeconfig must have the authority that signed the server's certificate"
            return PermissionDeniedError(f"cluster: {self._where()} has a certificate that is not trusted", context)
        context["hint"] = "is the context the right one, and the cluster reachable from here (VPN, proxy)?"
        return UnavailableError(f"cluster: {self._where()} does not answer", context)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """API servers do not redirect, and credentials must not go to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None
