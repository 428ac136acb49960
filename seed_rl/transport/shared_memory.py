"""Memory shared by an actor and a learner on the same machine, which replaces sending the steps.

The actor allocates the memory and offers it in the metadata of its stream; the learner accepts if it can open it. The
memory has no name in any file system, so it is freed once both processes are gone, however they end.
"""

import fcntl
import mmap
import os
import re
import secrets

_NAME = "seed_rl-step"
_TOKEN_BYTES = 32  # proves that the opened memory is the offered one: containers reuse process ids
_STEP_OFFSET = 64  # bytes; steps begin on a cache line
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class OfferedMemory:
    """The actor's side of the memory of a step."""

    def __init__(self, num_bytes: int):
        """Allocate the memory; raise OSError on a machine without sealed memory."""
        token = secrets.token_bytes(_TOKEN_BYTES)
        self._file = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self._file, _STEP_OFFSET + num_bytes)
            # Seal its size: reading beyond the end would kill the learner.
            fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, _SEALS)
            memory = mmap.mmap(self._file, _STEP_OFFSET + num_bytes)
        except OSError:
            os.close(self._file)
            raise
        memory[:_TOKEN_BYTES] = token
        self.step = memoryview(memory)[_STEP_OFFSET:]
        """The memory, `num_bytes`."""
        self.offer = f"{os.getpid()}/{self._file}/{token.hex()}"
        """The argument of `open_offered`, in ASCII."""

    def close(self) -> None:
        """Withdraw the offer, once; opened memory stays open."""
        os.close(self._file)


def open_offered(offer: str, num_bytes: int) -> memoryview:
    """Return a read-only view of the step in the memory that an untrusted process offers, or raise an OSError."""
    match = re.fullmatch(rf"([0-9]{{1,10}})/([0-9]{{1,10}})/([0-9a-f]{{{2 * _TOKEN_BYTES}}})", offer)
    if match is None:
        raise OSError("the offer isn't process/file/token")
    process, file, token = match.groups()
    # Without O_NONBLOCK, opening a pipe that is offered instead would wait for its writer. A pipe has no seals.
    opened = os.open(f"/proc/{process}/fd/{file}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if fcntl.fcntl(opened, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
            raise OSError("its size isn't sealed")
        if os.fstat(opened).st_size != _STEP_OFFSET + num_bytes:
            raise OSError("its size isn't that of a step")
        memory = mmap.mmap(opened, _STEP_OFFSET + num_bytes, prot=mmap.PROT_READ)
    finally:
        os.close(opened)
    if not secrets.compare_digest(memory[:_TOKEN_BYTES], bytes.fromhex(token)):
        raise OSError("it belongs to another process")
    return memoryview(memory)[_STEP_OFFSET:]
