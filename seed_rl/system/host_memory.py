"""Memory of the host: what is free, within the limits of process and control groups, and how the allocator keeps it."""

import contextlib
import ctypes
import os
import pathlib
import resource
import threading
from collections.abc import Iterator

_OF_VERSION_2 = ("memory.max", "memory.current", "inactive_file")
_OF_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
_LARGEST = 32 << 20  # bytes; glibc takes no more
_KEPT = 128 << 20  # bytes at the end of a heap
_limiting = threading.RLock()  # the limit is the whole process's


def reuse_freed_blocks() -> None:
    """Lets glibc reuse freed blocks of up to 32 MiB: one that comes from the kernel costs a page fault per 4 KiB."""
    glibc = ctypes.CDLL(None)  # TensorFlow needs it
    glibc.mallopt(_M_MMAP_THRESHOLD, _LARGEST)
    glibc.mallopt(_M_TRIM_THRESHOLD, _KEPT)


def free_host_memory(root: str = "/") -> int:
    """Bytes that this process can still allocate: the machine's available memory, or less within a limit.

    Limits are those of control groups, and of the address space (`ulimit -v`). The directory `root` has /proc and /sys.
    The file cache of a group, which the kernel would drop first, isn't used.
    """
    left = [_fields(os.path.join(root, "proc/meminfo"))["MemAvailable:"] * 1024]
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        left.append(address_space - _fields("/proc/self/status")["VmSize:"] * 1024)
    for group, is_unified in control_groups(root, "memory"):
        limit, usage, cache = _OF_VERSION_2 if is_unified else _OF_VERSION_1
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            most, used = (pathlib.Path(group, name).read_text().strip() for name in (limit, usage))
            if most != "max":
                left.append(int(most) - int(used) + _fields(os.path.join(group, "memory.stat")).get(cache, 0))
    return max(0, min(left))


@contextlib.contextmanager
def allocating_at_most(nbytes: int) -> Iterator[None]:
    """Limits the memory that this process, in all its threads, may allocate meanwhile; beyond it allocations fail."""
    with _limiting:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        used = _fields("/proc/self/status")
        limit = used.get("VmData:", used["VmSize:"]) * 1024 + nbytes  # some containers have only the second
        resource.setrlimit(resource.RLIMIT_DATA, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def control_groups(root: str, controller: str) -> Iterator[tuple[str, bool]]:
    """Yield the directory of each control group around this process, and whether it is of version 2.

    Those of version 1 belong to a controller, such as `memory`. The directory `root` has /proc and /sys.
    """
    groups = pathlib.Path(root, "proc/self/cgroup")
    for line in groups.read_text().splitlines() if groups.exists() else ():
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = os.path.join(root, "sys/fs/cgroup", controller if controllers else "")
        # Enclosing groups have limits too. Inside a container the path may be the one outside, of which only the mount
        # itself, the container's own group, is visible.
        parts = [part for part in group.split("/") if part]
        for depth in range(len(parts), -1, -1):
            yield os.path.join(mount, *parts[:depth]), not controllers


def _fields(path: str) -> dict[str, int]:
    """The numbers in a file of lines "name number ..."."""
    rows = map(str.split, pathlib.Path(path).read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}
