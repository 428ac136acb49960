"""Memory of the host: what is free, within the limits of the control groups too, and how the allocator keeps it."""

import contextlib
import ctypes
import os
import resource
from collections.abc import Iterator

_OF_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
_LARGEST = 32 << 20  # bytes; glibc takes no more
_KEPT = 128 << 20  # bytes at the end of a heap


def reuse_freed_blocks() -> None:
    """Lets glibc reuse freed blocks of up to 32 MiB instead of returning each to the kernel.

    A block that comes from the kernel costs a page fault per 4 KiB. Does nothing with another C library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)


def free_host_memory(root: str = "/") -> int:
    """Bytes that this process can still allocate: the machine's available memory, or less in a limited control group.

    The directory `root` has /proc and /sys.
    """
    available = _fields(os.path.join(root, "proc/meminfo"))["MemAvailable:"] * 1024
    return max(0, min([available, *_left_in_control_groups(root)]))


@contextlib.contextmanager
def allocating_at_most(nbytes: int) -> Iterator[None]:
    """Limits the memory that this process, in all its threads, may allocate meanwhile; beyond it allocations fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = _fields("/proc/self/status")
    limit = used.get("VmData:", used["VmSize:"]) * 1024 + nbytes  # some containers have only the second
    resource.setrlimit(resource.RLIMIT_DATA, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _left_in_control_groups(root: str) -> Iterator[int]:
    """Bytes left in each control group around this process that has a limit.

    Usage is counted without the file cache, which the kernel would drop first.
    """
    for group, is_unified in control_groups(root, "memory"):
        names = ("memory.max", "memory.current", "inactive_file")
        left = _left_in(group, *(names if is_unified else _OF_VERSION_1))
        if left is not None:
            yield left


def control_groups(root: str, controller: str) -> Iterator[tuple[str, bool]]:
    """Yield the directory of each control group around this process, and whether it is of version 2.

    Args:
      root: directory that has /proc and /sys.
      controller: name such as `memory`, for groups of version 1.
    """
    try:
        with open(os.path.join(root, "proc/self/cgroup"), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = os.path.join("sys/fs/cgroup", controller) if controllers else "sys/fs/cgroup"
        # Enclosing groups have limits too. Inside a container the path may be the one outside, of which only the mount
        # itself, the container's own group, is visible.
        parts = [part for part in group.split("/") if part]
        for depth in range(len(parts), -1, -1):
            yield os.path.join(root, mount, *parts[:depth]), not controllers


def _left_in(group: str, limit_name: str, usage_name: str, cache_name: str) -> int | None:
    """The limit of one group minus its usage, in bytes; None if it has no limit or doesn't exist."""
    try:
        with open(os.path.join(group, limit_name), encoding="utf-8") as file:
            limit = file.read().strip()
        with open(os.path.join(group, usage_name), encoding="utf-8") as file:
            usage = int(file.read())
        cache = _fields(os.path.join(group, "memory.stat")).get(cache_name, 0)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if limit == "max" else int(limit) - (usage - cache)


def _fields(path: str) -> dict[str, int]:
    """The numbers in a file of lines "name number ..."."""
    with open(path, encoding="utf-8") as file:
        rows = (line.split() for line in file)
        return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}
