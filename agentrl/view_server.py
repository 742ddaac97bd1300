"""The page on this machine alone: it follows a training that runs, and draws episodes when they are opened."""

from __future__ import annotations

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentrl.errors import UserError
from agentrl.view import View

HOST = "127.0.0.1"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class Handler(SimpleHTTPRequestHandler):
    """Files of the page's folder. Asking for the index brings it up to date, asking for pictures draws them."""

    def __init__(self, *args: Any, view: View, lock: threading.Lock, **kwargs: Any) -> None:
        self._view = view
        self._lock = lock
        super().__init__(*args, directory=str(view.out), **kwargs)

    def do_GET(self) -> None:
        # A name that somebody else's domain resolves to this address must not read the page.
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        if host not in (HOST, "localhost"):
            self.send_error(403)
            return
        path = self.path.partition("?")[0]
        with self._lock:
            if path == "/data/index.js":
                self._view.refresh(live=True)
            elif drawn := re.fullmatch(r"/data/(\d+)/(\d+)/(\d+)\.frames\.js", path):
                source, file, number = map(int, drawn.groups())
                if source < len(self._view.sources):
                    self._view.sources[source].draw(file, number)
        super().do_GET()

    def list_directory(self, path: Any) -> None:
        self.send_error(404)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """No line for each request."""


def make_server(view: View, port: int) -> ThreadingHTTPServer:
    """A server on 127.0.0.1; port 0 takes a free one.

    Raises:
        UserError: the port is taken.
    """
    try:
        return ThreadingHTTPServer((HOST, port), partial(Handler, view=view, lock=threading.Lock()))
    except OSError as error:
        raise UserError(f"--port {port}: {error.strerror}; give another, or 0 for a free one") from error
