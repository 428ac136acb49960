"""Memory between two processes: only the offered memory is opened, and it outlives the process that allocated it."""

import fcntl
import mmap
import os
import subprocess
import sys

import pytest

from seed_rl.transport.shared_memory import OfferedMemory, open_offered

SIZE = 100
TOKEN = "00" * 32


@pytest.fixture
def offered():
    memory = OfferedMemory(SIZE)
    yield memory
    memory.close()


def test_a_written_step_is_visible_at_once_and_read_only(offered):
    step = open_offered(offered.offer, SIZE)
    offered.step[:] = bytes(range(SIZE))
    assert bytes(step) == bytes(range(SIZE))
    with pytest.raises(TypeError, match="read-only"):
        step[0] = 1
    offered.close()
    offered.step[0] = 77
    assert step[0] == 77
    with pytest.raises(FileNotFoundError):
        open_offered(offered.offer, SIZE)
    offered.close()


def test_it_cannot_become_smaller_under_its_reader(offered):
    with pytest.raises(PermissionError):
        os.ftruncate(int(offered.offer.split("/")[1]), 1)


OFFER_AND_WAIT = """
import sys
from seed_rl.transport.shared_memory import OfferedMemory
memory = OfferedMemory(100)
memory.step[:3] = b"end"
print(memory.offer, flush=True)
sys.stdin.read()
"""


def test_it_outlives_a_process_that_is_killed():
    command = [sys.executable, "-c", OFFER_AND_WAIT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        offer = process.stdout.readline().strip()
        step = open_offered(offer, SIZE)
        process.kill()
    assert bytes(step[:3]) == b"end"
    with pytest.raises(FileNotFoundError):
        open_offered(offer, SIZE)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda process, file, token: f"{process}/{file}", "the offer isn't process/file/token"),
        (lambda process, file, token: f"{process}/-1/{token}", "the offer isn't process/file/token"),
        (lambda process, file, token: f"../{file}/{token}", "the offer isn't process/file/token"),
        (lambda process, file, token: f"{process}/{file}/xyz", "the offer isn't process/file/token"),
        (lambda process, file, token: f"{process}/{file}/{token[::-1]}", "it belongs to another process"),
        (lambda process, file, token: f"{process}/9999999/{token}", "No such file or directory"),
    ],
)
def test_another_offer_is_refused(offered, change, sentence):
    with pytest.raises(OSError, match=sentence):
        open_offered(change(*offered.offer.split("/")), SIZE)


@pytest.mark.parametrize("size", [SIZE - 1, SIZE + 1])
def test_another_size_is_refused(offered, size):
    with pytest.raises(OSError, match="its size isn't that of a step"):
        open_offered(offered.offer, size)


def test_other_files_are_not_opened(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    file = os.open(fifo, os.O_RDWR)
    with pytest.raises(OSError, match="it isn't memory for steps"):
        open_offered(f"{os.getpid()}/{file}/{TOKEN}", SIZE)
    os.close(file)


def test_what_was_checked_is_opened_even_if_it_is_swapped_for_a_fifo(offered, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    fifo = os.open(tmp_path / "fifo", os.O_RDWR)
    _, file, _ = offered.offer.split("/")
    offered.step[:3] = b"now"
    saved, readlink = os.dup(int(file)), os.readlink

    def swapped(path):
        os.dup2(fifo, int(file))
        return readlink(path)

    monkeypatch.setattr(os, "readlink", swapped)
    assert bytes(open_offered(offered.offer, SIZE)[:3]) == b"now"
    monkeypatch.undo()
    with pytest.raises(OSError, match="it isn't memory for steps"):
        open_offered(offered.offer, SIZE)
    os.dup2(saved, int(file))
    for descriptor in (saved, fifo):
        os.close(descriptor)


def test_memory_that_may_shrink_is_refused():
    file = os.memfd_create("seed_rl-step", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, mmap.PAGESIZE)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    with pytest.raises(OSError, match="its size isn't sealed"):
        open_offered(f"{os.getpid()}/{file}/{TOKEN}", mmap.PAGESIZE - 64)
    os.close(file)
