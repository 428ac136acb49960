"""The file of a journal: lines of text in compressed chunks, each complete or absent.

Each chunk is a member of a gzip file (`zcat journal.gz` shows the whole), and so has a checksum. Its first line has its
number and the beginning of the SHA-256 of the chunk before it: none can be changed, removed or added in the middle. A
kill at any byte leaves all complete chunks usable.

    run {...}                  a learner starts: settings, versions, machine, and the update it continues from
    join [[ids, seed], ...]    an actor gets these groups of environments, numbered on from 0
    act 0 5 3                  inference device 0 acts for groups 5 and 3, in this order
    weights                    acting gets the weights, first those at the start, then those after each update
    digest 40 9f1c... 03e2...  digests of all variables after 40 updates, together and each
"""

import errno
import hashlib
import os
import threading
import time
import zlib
from collections.abc import Iterator

from seed_rl.foreign import shortened
from seed_rl.system.files import explained
from seed_rl.system.object_store import local_file

NAME = "journal.gz"
"""Name of the file in a log directory."""
_CHUNK_SECONDS = 10.0
_CHUNK_BYTES = 64 * 1024  # before compression
_GZIP = 31  # `wbits` of zlib for a gzip member
_MOST_BYTES = 2**30  # of text, uncompressed
_WINDOW = 2**16  # bytes, which unpack to at most 64 MB


class JournalError(Exception):
    """A journal that can't be used; the message names it and the reason."""


class Writer:
    """Appends lines to a journal. Thread-safe."""

    def __init__(self, path: str):
        """Open a journal after its last complete chunk.

        Raises:
          JournalError: a chunk is damaged.
          OSError: the file can't be written.
        """
        self._lock = threading.RLock()
        self._lines: list[str] = []
        self._bytes = 0
        self._due = time.monotonic() + _CHUNK_SECONDS
        end, self._count, self._link, self._left = 0, 0, "", _MOST_BYTES
        if os.path.exists(path):
            with open(path, "rb") as file:
                for data, _, size in _chunks(file.read(), path):
                    end, self._count, self._link = end + len(data), self._count + 1, _link(data)
                    self._left -= size
        if self._count and self._left < 2 * _CHUNK_BYTES:  # it ended before: a small chunk must not follow the gap
            self._left = 0
        self._file = open(path, "ab")  # noqa: SIM115
        self._file.truncate(end)

    def write(self, line: str) -> None:
        """Append a line, which is in the file after the next `flush` or a few seconds.

        Raises:
          OSError: the file can't be written.
        """
        with self._lock:
            self._lines.append(line)
            self._bytes += len(line)
            if self._bytes >= _CHUNK_BYTES or time.monotonic() >= self._due:
                self.flush()

    def flush(self) -> None:
        """Write all lines to the disk.

        Raises:
          OSError: the file can't be written, or would have more text than can be read.
        """
        with self._lock:
            lines, self._lines, self._bytes = self._lines, [], 0
            self._due = time.monotonic() + _CHUNK_SECONDS
            if not lines or self._file.closed:
                return
            text = "\n".join([f"chunk {self._count} {self._link}".rstrip(), *lines, ""]).encode()
            if (left := self._left - len(text)) <= 0:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            packer = zlib.compressobj(wbits=_GZIP)
            data = packer.compress(text) + packer.flush()
            self._count, self._link, self._left = self._count + 1, _link(data), left
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Write all lines and close the file."""
        self.flush()
        self._file.close()


def read(path: str) -> list[str]:
    """Return the lines of a journal's complete chunks.

    Raises:
      JournalError: there is no journal, or a chunk is damaged or missing.
    """
    try:
        with local_file(path) as local, open(local, "rb") as file:
            data = file.read()
    except OSError as error:
        raise JournalError(f"there is no journal {path} ({error.strerror}): `--record` writes one") from error
    lines = [line for _, own, _ in _chunks(data, path) for line in own]
    if not lines:
        raise JournalError(f"{path} has no complete chunk")
    return lines


def _chunks(data: bytes, path: str) -> Iterator[tuple[bytes, list[str], int]]:
    """Yield each complete chunk, its lines and the bytes of its text, and check that it follows the one before."""
    number, link, begin, left = 0, "", 0, _MOST_BYTES
    while begin < len(data):
        unpacker, end, pieces = zlib.decompressobj(wbits=_GZIP), begin, []
        with explained(JournalError, f"chunk {number} of {path} is damaged", zlib.error, UnicodeDecodeError):
            while not unpacker.eof and end < len(data) and left > 0:
                pieces.append(unpacker.decompress(data[end : end + _WINDOW]))
                left -= len(pieces[-1])
                end += _WINDOW
            head, *lines = b"".join(pieces).decode().splitlines() or [""]
        if left <= 0:
            raise JournalError(f"{path} has more than {_MOST_BYTES:,} bytes of text")
        if not unpacker.eof:  # cut off by a kill
            return
        end = min(end, len(data)) - len(unpacker.unused_data)
        own, begin = data[begin:end], end
        if head != f"chunk {number} {link}".rstrip():
            expected = f"chunk {number} after {link or 'nothing'}"
            raise JournalError(
                f"{path} has {shortened(head)} where {expected} was expected: a chunk is missing or changed"
            )
        yield own, lines, sum(map(len, pieces))
        number, link = number + 1, _link(own)


def _link(chunk: bytes) -> str:
    return hashlib.sha256(chunk).hexdigest()[:16]
