"""A proxy before the API server that answers some writes with errors, or not at all."""

from __future__ import annotations

import http.client
import http.server
import json
import random
import ssl
import threading
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from secured import Authority

WRITES = ("POST", "PUT", "PATCH", "DELETE")
#: What happens to a write: refused with a status; not carried out and not answered; or carried out and not answered.
FAULTS = ("409", "500", "429", "lost", "done")
REASONS = {"409": "Conflict", "500": "InternalError", "429": "TooManyRequests"}
#: Paths without faults: an operator that is not elected writes nothing.
SPARED = ("/leases", "/tokenreviews", "/subjectaccessreviews")
HOP = {"connection", "transfer-encoding", "content-length", "host", "accept-encoding", "keep-alive"}


class Proxy:
    """See the module's documentation."""

    def __init__(self, server: str, folder: Path, share: float, seed: int) -> None:
        self.target, self.share, self.random = urlsplit(server), share, random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.writes = 0
        own = Authority(folder / "proxy").issue("proxy")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(own.cert, own.key)
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                proxy.pass_on(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        # A client that is killed in its handshake must not delay other clients.
        self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _fault(self, verb: str, path: str) -> str | None:
        if verb not in WRITES or any(spared in path for spared in SPARED):
            return None
        self.writes += 1
        if self.random.random() >= self.share:
            return None
        fault = self.random.choice(FAULTS)
        self.faults[fault] += 1
        return fault

    def pass_on(self, asked: http.server.BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers.get("content-length", 0)))
        fault = self._fault(asked.command, asked.path)
        if fault in REASONS:
            self._refuse(asked, fault)
            return
        if fault == "lost":
            asked.close_connection = True
            return
        context = ssl._create_unverified_context()
        server = http.client.HTTPSConnection(str(self.target.hostname), self.target.port, context=context, timeout=600)
        try:
            headers = {name: value for name, value in asked.headers.items() if name.lower() not in HOP}
            server.request(asked.command, asked.path, body or None, headers)
            answer = server.getresponse()
            if fault == "done":
                answer.read()
                asked.close_connection = True
                return
            asked.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP:
                    asked.send_header(name, value)
            asked.send_header("transfer-encoding", "chunked")
            asked.end_headers()
            # A watch never ends, so the proxy forwards each part at once.
            while part := answer.read1(1 << 16):
                asked.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            asked.wfile.write(b"0\r\n\r\n")
        except (OSError, http.client.HTTPException):
            asked.close_connection = True
        finally:
            server.close()

    def _refuse(self, asked: http.server.BaseHTTPRequestHandler, fault: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": int(fault)}
        said = json.dumps({**status, "reason": REASONS[fault], "message": "a fault of the test"}).encode()
        asked.send_response(int(fault))
        asked.send_header("content-type", "application/json")
        asked.send_header("content-length", str(len(said)))
        asked.end_headers()
        asked.wfile.write(said)
