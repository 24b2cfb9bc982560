"""HTTP servers on loopback that run for the time of a block."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["LoopbackServer", "serving"]


class LoopbackServer(ThreadingHTTPServer):
    """A server on a free port, each request in a thread of its own."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        """URL that it answers at."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextlib.contextmanager
def serving(server: LoopbackServer) -> Iterator[None]:
    """Has a server answer until the block ends."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
