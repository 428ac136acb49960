"""A network between a server and its clients that breaks."""

from __future__ import annotations

import contextlib
import socket
import threading


class Cable:
    """Carries TCP connections to a server until they break, with or without a word to both ends."""

    def __init__(self, server):
        host, _, port = server.rpartition(":")
        self._server = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.bytes_up = 0
        """Number of bytes that clients have sent."""
        self._ends = []
        self._is_silent = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._server)
                self._ends += [near, far]
                threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, source, sink, is_up):
        with contextlib.suppress(OSError):  # broken or closed
            while data := source.recv(1 << 16):
                self.bytes_up += len(data) if is_up else 0
                if not self._is_silent.is_set():
                    sink.sendall(data)

    def fall_silent(self):
        """Loses everything from now on."""
        self._is_silent.set()

    def break_connections(self):
        """Ends all connections, losing the bytes under way; returns how many there were."""
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):  # by its peer already
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        return len(ends) // 2

    def close(self):
        """Ends all connections and takes no more."""
        self._listener.close()
        self.break_connections()
