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

import dataclasses
import errno
import hashlib
import io
import itertools
import os
import re
import threading
import time
import zlib
from collections.abc import Iterator
from typing import IO

from seed_rl.foreign import open_file, shortened
from seed_rl.system.files import explained

NAME = "journal.gz"
"""Name of the file in a log directory."""
_CHUNK_SECONDS = 10.0
_CHUNK_BYTES = 64 * 1024  # before compression
_GZIP = 31  # `wbits` of zlib for a gzip member
_MOST_BYTES = 2**28  # of memory for what all lines say
_MOST_TEXT = 2**24  # bytes of a chunk's text
_USUAL_BYTES = 2**23  # of memory for a chunk, more than usual
_WINDOW = 2**16  # bytes read at a time


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
        self._end, self._count, self._link, self._left = 0, 0, "", _MOST_BYTES
        if os.path.exists(path):
            with open(path, "rb") as file:
                for self._end, self._link, text in _chunks(file, path):
                    self._count += 1
                    self._left -= _memory(text)
        if self._count and self._left < _USUAL_BYTES:  # it ended before: a small chunk must not follow the gap
            self._left = 0
        self._file = open(path, "ab")  # noqa: SIM115
        self._file.truncate(self._end)

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
            text = "\n".join([f"chunk {self._count} {self._link}".rstrip(), *lines, ""])
            if (left := self._left - _memory(text)) <= 0 or len(text) > _MOST_TEXT:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            packer = zlib.compressobj(wbits=_GZIP)
            data = packer.compress(text.encode()) + packer.flush()
            self._count, self._left = self._count + 1, left
            self._link = hashlib.sha256(data).hexdigest()[:16]
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Write all lines and close the file."""
        self.flush()
        self._file.close()


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines of a journal's complete chunks. Each iteration reads the file anew, and holds one chunk in memory.

    Raises:
      JournalError: there is no journal, a chunk is damaged or missing, or what the lines say needs too much memory.
    """

    path: str

    def __iter__(self) -> Iterator[str]:
        left, line = _MOST_BYTES, ""
        with (
            explained(JournalError, f"there is no journal {self.path}, as `--record` writes it"),
            open_file(self.path) as file,
        ):
            for _, _, text in _chunks(file, self.path):
                left -= _memory(text)
                if left <= 0:
                    raise JournalError(f"{self.path} needs more than {_MOST_BYTES:,} bytes of memory")
                for line in itertools.islice(io.StringIO(text), 1, None):
                    yield line.removesuffix("\n")
        if not line:
            raise JournalError(f"{self.path} has no complete chunk")


def _memory(text: str) -> int:
    """Estimate the memory that the lines of a chunk take at most once they are understood, bytes."""
    objects = sum(len(match[0]) for match in re.finditer(r"\n(?:run|join) [^\n]*", text))
    return 2 * len(text) + 25 * objects + 200 * text.count("\ndigest ")


def _chunks(file: IO[bytes], path: str) -> Iterator[tuple[int, str, str]]:
    """Yield the end of each complete chunk, its link and its text, after checking that it follows the one before."""
    number, link, end, data = 0, "", 0, b""
    while data := data or file.read(_WINDOW):
        unpacker, own, text = zlib.decompressobj(wbits=_GZIP), hashlib.sha256(), bytearray()
        with explained(JournalError, f"chunk {number} of {path} is damaged", zlib.error, UnicodeDecodeError):
            while data and not unpacker.eof:
                text += unpacker.decompress(data, _MOST_TEXT + 1 - len(text))
                if len(text) > _MOST_TEXT:
                    raise JournalError(f"chunk {number} of {path} has more than {_MOST_TEXT:,} bytes of text")
                rest = unpacker.unused_data or unpacker.unconsumed_tail
                own.update(data[: len(data) - len(rest)])
                end += len(data) - len(rest)
                data = rest or (b"" if unpacker.eof else file.read(_WINDOW))
            head, _, _ = (content := text.decode()).partition("\n")
        if not unpacker.eof:  # cut off by a kill
            return
        if head != f"chunk {number} {link}".rstrip():
            expected = f"chunk {number} after {link or 'nothing'}"
            raise JournalError(
                f"{path} has {shortened(head)} where {expected} was expected: a chunk is missing or changed"
            )
        number, link = number + 1, own.hexdigest()[:16]
        yield end, link, content
