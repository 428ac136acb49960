"""Memory between two processes: only the offered memory is opened, and its size is final."""

import fcntl
import mmap
import os

import pytest

from seed_rl.transport.shared_memory import OfferedMemory, open_offered

SIZE = 100


def test_a_written_step_is_visible_at_once_read_only_and_of_fixed_size():
    offered = OfferedMemory(SIZE)
    step = open_offered(offered.offer, SIZE)
    with pytest.raises(PermissionError):
        os.ftruncate(int(offered.offer.split("/")[1]), 1)
    offered.step[:] = bytes(range(SIZE))
    assert bytes(step) == bytes(range(SIZE))
    with pytest.raises(TypeError, match="read-only"):
        step[0] = 1
    offered.close()
    offered.step[0] = 77
    assert step[0] == 77
    with pytest.raises(FileNotFoundError):
        open_offered(offered.offer, SIZE)


@pytest.mark.parametrize(
    ("change", "size", "sentence"),
    [
        (lambda process, file, token: f"../{file}/{token}", SIZE, "the offer isn't process/file/token"),
        (lambda process, file, token: f"{process}/{file}/{token[::-1]}", SIZE, "it belongs to another process"),
        (lambda process, file, token: f"{process}/9999999/{token}", SIZE, "No such file or directory"),
        (lambda process, file, token: f"{process}/{file}/{token}", SIZE + 1, "its size isn't that of a step"),
    ],
)
def test_another_offer_is_refused(change, size, sentence):
    offered = OfferedMemory(SIZE)
    with pytest.raises(OSError, match=sentence):
        open_offered(change(*offered.offer.split("/")), size)
    offered.close()


def test_a_pipe_is_refused_without_waiting_for_its_writer():
    for file in os.pipe():
        with pytest.raises(OSError, match="Invalid argument"):
            open_offered(f"{os.getpid()}/{file}/{'00' * 32}", SIZE)
        os.close(file)


def test_memory_that_may_shrink_is_refused():
    file = os.memfd_create("seed_rl-step", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, mmap.PAGESIZE)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    with pytest.raises(OSError, match="its size isn't sealed"):
        open_offered(f"{os.getpid()}/{file}/{'00' * 32}", mmap.PAGESIZE - 64)
    os.close(file)
