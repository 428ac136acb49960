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
import gzip
import hashlib
import io
import itertools
import os
import threading
import time
import zlib
from collections.abc import Iterator
from typing import IO

from seed_rl.errors import Failure
from seed_rl.foreign import open_file, short_repr
from seed_rl.system.files import explaining

NAME = "journal.gz"  # name of the file in a log directory
MOST_BYTES = 2**28  # text of all lines, bytes
_CHUNK_SECONDS = 10.0
_CHUNK_LINES = 4096
_MOST_TEXT = 2**24  # bytes of a chunk's text
_WINDOW = 2**16  # bytes read at a time


class JournalError(Failure):
    """A journal that can't be used; the message names it and the reason."""


class Writer:
    """Appends lines to a journal. Thread-safe."""

    def __init__(self, path: str):
        """Open a journal after its last complete chunk, or raise a JournalError or OSError."""
        self._lock = threading.RLock()
        self._lines: list[str] = []
        self._due = time.monotonic() + _CHUNK_SECONDS
        self._count, self._link, self._left, end = 0, "", MOST_BYTES, 0
        if os.path.exists(path):
            with open(path, "rb") as file:
                for complete, self._link, text in _chunks(file, path):
                    end, self._count, self._left = complete, self._count + 1, self._left - len(text)
        self._file = open(path, "ab")  # noqa: SIM115
        self._file.truncate(end)

    def write(self, line: str) -> None:
        """Append a line, which is in the file after the next `flush` or a few seconds; raises as `flush` does."""
        with self._lock:
            self._lines.append(line)
            if len(self._lines) >= _CHUNK_LINES or time.monotonic() >= self._due:
                self.flush()

    def flush(self) -> None:
        """Write all lines to the disk, or raise an OSError, also if there would be more text than can be read."""
        with self._lock:
            lines, self._lines = self._lines, []
            self._due = time.monotonic() + _CHUNK_SECONDS
            if not lines or self._file.closed:
                return
            text = "\n".join([f"chunk {self._count} {self._link}".rstrip(), *lines, ""])
            self._left -= len(text)
            if self._left <= 0 or len(text) > _MOST_TEXT:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            data = gzip.compress(text.encode(), mtime=0)  # the same lines give the same file
            self._count, self._link = self._count + 1, hashlib.sha256(data).hexdigest()[:16]
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Write all lines and close the file."""
        self.flush()
        self._file.close()


def read(path: str) -> Iterator[str]:
    """Yield the lines of a journal's complete chunks, of which one is held in memory, or raise a JournalError."""
    left, line = MOST_BYTES, ""
    with explaining(JournalError, f"there is no journal {path}, as `--record` writes it"), open_file(path) as file:
        for _, _, text in _chunks(file, path):
            left -= len(text)
            if left <= 0:
                raise JournalError(f"{path} has more than {MOST_BYTES:,} bytes of text")
            for line in itertools.islice(io.StringIO(text), 1, None):
                yield line.removesuffix("\n")
    if not line:
        raise JournalError(f"{path} has no complete chunk")


def _chunks(file: IO[bytes], path: str) -> Iterator[tuple[int, str, str]]:
    """Yield the end of each complete chunk, its link and its text, after checking that it follows the one before."""
    number, link, end, data = 0, "", 0, b""
    while data := data or file.read(_WINDOW):
        unpacker, own, text = zlib.decompressobj(wbits=31), hashlib.sha256(), bytearray()  # 31: a member of gzip
        with explaining(JournalError, f"chunk {number} of {path} is damaged", zlib.error, UnicodeDecodeError):
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
            expected = f"where chunk {number} after {link or 'nothing'} was expected"
            raise JournalError(f"{path} has {short_repr(head)} {expected}: a chunk is missing or changed")
        number, link = number + 1, own.hexdigest()[:16]
        yield end, link, content
