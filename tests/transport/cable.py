"""A network between a server and its clients that falls silent."""

from __future__ import annotations

import contextlib
import socket
import threading


class Cable:
    """Carries TCP connections to a server, until it loses everything without a word to both ends."""

    def __init__(self, server):
        host, _, port = server.rpartition(":")
        self._server = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends = []
        self._is_silent = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._server)
                self._ends += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source, sink):
        with contextlib.suppress(OSError):  # broken or closed
            while data := source.recv(1 << 16):
                if not self._is_silent.is_set():
                    sink.sendall(data)

    def fall_silent(self):
        """Loses everything from now on."""
        self._is_silent.set()

    def close(self):
        """Ends all connections and takes no more."""
        self._listener.close()
        for end in self._ends:
            with contextlib.suppress(OSError):  # by its peer already
                end.shutdown(socket.SHUT_RDWR)
            end.close()
