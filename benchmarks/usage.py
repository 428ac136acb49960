"""What processes and their threads use: CPU seconds, memory, file descriptors, from /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping
from typing import NamedTuple

import psutil

TRANSPORT = "transport"
INFERENCE = "inference"
TENSORFLOW = "tensorflow"
LEARNER = "learner"
OTHER = "other"
KINDS = (TRANSPORT, INFERENCE, TENSORFLOW, LEARNER, OTHER)
"""Kinds of threads of a learner's process."""

SERVER_THREAD = "actor-server"
"""Name of the server's thread, which takes and decodes all messages; answers are sent by the inference thread."""

_NAMED = {SERVER_THREAD: TRANSPORT, "inference": INFERENCE, "learner": LEARNER}
_NATIVE = {"grpc": TRANSPORT, "event_engine": TRANSPORT, "tf_": TENSORFLOW}


class ThreadUse(NamedTuple):
    """One thread of a process."""

    kind: str
    name: str
    """Python's name of it, or the kernel's."""
    cpu_seconds: float


def kind_of(python_name: str, native_name: str, from_tensorflow: bool) -> str:
    """The kind of a thread.

    Args:
      python_name: as `threading` knows it; empty for a thread that a native library made.
      native_name: as the kernel knows it; threads without a name of their own inherit their maker's.
      from_tensorflow: whether it is one that TensorFlow made, should its names not tell.
    """
    for part, kind in _NAMED.items():
        if part in python_name:
            return kind
    if python_name:
        return OTHER
    for prefix, kind in _NATIVE.items():
        if native_name.startswith(prefix):
            return kind
    return TENSORFLOW if from_tensorflow else OTHER


def own_threads(of_tensorflow: Collection[int] = ()) -> dict[int, ThreadUse]:
    """This process's threads by the kernel's number.

    Args:
      of_tensorflow: threads without names that TensorFlow is known to have made: those of its pools carry none.
    """
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    uses = {}
    for entry in os.listdir("/proc/self/task"):
        number = int(entry)
        try:
            with open(f"/proc/self/task/{entry}/stat", encoding="utf-8", errors="replace") as file:
                native, seconds = parse_stat(file.read())
        except FileNotFoundError:  # ended meanwhile
            continue
        name = names.get(number, "")
        uses[number] = ThreadUse(kind_of(name, native, number in of_tensorflow), name or native, seconds)
    return uses


def parse_stat(line: str) -> tuple[str, float]:
    """Name and CPU seconds (user and system) from a `stat` file of /proc; the name may hold any character."""
    name = line[line.index("(") + 1 : line.rindex(")")]
    fields = line[line.rindex(")") + 2 :].split()
    return name, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_by_kind(before: Mapping[int, ThreadUse], after: Mapping[int, ThreadUse]) -> dict[str, float]:
    """CPU seconds that each kind of thread used between two looks; threads that ended in between are not seen."""
    used = dict.fromkeys(KINDS, 0.0)
    for number, use in after.items():
        used[use.kind] += use.cpu_seconds - (before[number].cpu_seconds if number in before else 0.0)
    return used


def cpu_of_thread(before: Mapping[int, ThreadUse], after: Mapping[int, ThreadUse], name: str) -> float:
    """CPU seconds that the threads of this name used between two looks."""
    return sum(
        use.cpu_seconds - (before[number].cpu_seconds if number in before else 0.0)
        for number, use in after.items()
        if use.name == name
    )


def machine_busy_seconds() -> float:
    """CPU seconds that all cores of the machine have been busy since it started, with whatever."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice  # guests are in user time already


class ProcessUse(NamedTuple):
    """One process, or several added up."""

    processes: int
    cpu_seconds: float
    rss_bytes: int
    """Resident memory; pages shared by several processes count in each."""
    pss_bytes: int
    """Resident memory, with shared pages divided by the number of processes that have them."""

    def plus(self, other: ProcessUse) -> ProcessUse:
        """Both."""
        return ProcessUse(
            self.processes + other.processes,
            self.cpu_seconds + other.cpu_seconds,
            self.rss_bytes + other.rss_bytes,
            self.pss_bytes + other.pss_bytes,
        )


NOTHING = ProcessUse(0, 0.0, 0, 0)


def process_use(process: psutil.Process) -> ProcessUse:
    """What a process has used of the CPU so far, and its memory now; nothing if it has ended."""
    try:
        with process.oneshot():
            times, memory = process.cpu_times(), process.memory_full_info()
    except psutil.NoSuchProcess:
        return NOTHING
    return ProcessUse(1, times.user + times.system, memory.rss, memory.pss)


def children_use(process: psutil.Process) -> ProcessUse:
    """The same of all processes below one, added up."""
    use = NOTHING
    for child in process.children(recursive=True):
        use = use.plus(process_use(child))
    return use
