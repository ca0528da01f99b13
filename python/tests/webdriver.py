"""A browser for tests: Chromium, driven by the WebDriver protocol (W3C) over HTTP."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

#: The names of Debian's programs and of others.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"]


class Browser:
    """One window. Skips the test if there is no browser."""

    def __init__(self) -> None:
        if CHROMIUM is None or DRIVER is None:
            pytest.skip("no chromium and chromedriver: apt-get install chromium chromium-driver")
        self.folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True)
        assert self.driver.stdout is not None
        line = next(line for line in self.driver.stdout if "started successfully on port" in line)
        self.url = f"http://127.0.0.1:{line.rstrip().rstrip('.').split()[-1]}"
        options = {"binary": CHROMIUM, "args": [*OPTIONS, f"--user-data-dir={self.folder.name}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = self._call("POST", "/session", capabilities={"alwaysMatch": wanted})["sessionId"]

    def _call(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from None

    def call(self, method: str, path: str, **body: Any) -> Any:
        """Calls a command of the session."""
        return self._call(method, f"/session/{self.session}{path}", **body)

    def open(self, url: str) -> None:
        self.call("POST", "/url", url=url)

    def js(self, script: str, *arguments: Any) -> Any:
        """Runs a function's body in the page."""
        return self.call("POST", "/execute/sync", script=script, args=list(arguments))

    def until(self, script: str, *arguments: Any, seconds: float = 90.0) -> Any:
        """Waits until an expression is true in the page, and returns it."""
        deadline = time.monotonic() + seconds
        while not (found := self.js(f"return {script}", *arguments)):
            assert time.monotonic() < deadline, f"{script}: {self.text()[:2000]}"
            time.sleep(0.02)
        return found

    def text(self) -> str:
        """The text that a visitor sees."""
        return self.js("return document.body.innerText")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.cdp("Emulation.setDeviceMetricsOverride", **size)

    def cdp(self, command: str, **params: Any) -> Any:
        return self.call("POST", "/goog/cdp/execute", cmd=command, params=params)

    def keys(self, *keys: str) -> None:
        """Presses keys, one after the other."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def complaints(self) -> list[str]:
        """Returns the page's errors since the last call, without refused and broken calls."""
        log = self.call("POST", "/se/log", type="browser")
        return [one["message"] for one in log if "Failed to load resource" not in one["message"]]

    def close(self) -> None:
        try:
            self.call("DELETE", "")
        finally:
            self.driver.kill()
            with self.driver:
                self.driver.wait(90)
            self.folder.cleanup()
