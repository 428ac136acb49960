"""A proxy on loopback that knows nothing but HTTP's CONNECT."""

import contextlib
import socket
import threading


class ConnectProxy:
    """Tunnels to the addresses of known names, and refuses all others; `asked` has what clients asked for.

    While it `is_silent`, it loses everything without a word to either end.
    """

    def __init__(self, places):
        self.asked, self.places, self.is_silent = [], places, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError):
            request = b""
            while not request.endswith(b"\r\n\r\n"):
                request += client.recv(1)
            method, place, _ = request.split(b"\r\n")[0].decode().split()
            self.asked.append((method, place))
            if place not in self.places:
                client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            host, port = self.places[place].rsplit(":", 1)
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=self._copy, args=(server, client), daemon=True)
                back.start()
                self._copy(client, server)
                back.join()

    def close(self):
        """Take no more clients."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _copy(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not self.is_silent:
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)
