import resource
import subprocess
import sys
import threading
import time

import pytest

from seed_rl.system.host_memory import allocating_at_most, free_host_memory
from tests.support.deadlines import within

AVAILABLE = 16_000 * 1024


def root_of(root, files):
    """A directory with such files in place of /proc and /sys."""
    meminfo = "MemTotal: 99 kB\nMemAvailable: 16000 kB\nHugePages_Total: 0\n"
    for name, text in {"proc/meminfo": meminfo, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def v2(path, limit, usage, cache):
    """A group of version 2."""
    return {
        f"sys/fs/cgroup{path}/memory.max": f"{limit}\n",
        f"sys/fs/cgroup{path}/memory.current": f"{usage}\n",
        f"sys/fs/cgroup{path}/memory.stat": f"anon 1\nfile 77\ninactive_file {cache}\nactive_file 5\n",
    }


V1_LINES = "5:cpu,cpuacct:/a\n4:memory:/a\n1:name=systemd:/a\n"
V1 = {
    "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "5000\n",
    "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1200\n",
    "sys/fs/cgroup/memory/a/memory.stat": "cache 1\ninactive_file 9\ntotal_inactive_file 200\n",
}


@pytest.mark.parametrize(
    ("groups", "files", "free"),
    [
        pytest.param(None, {}, AVAILABLE, id="no groups"),
        pytest.param("0::/a\n", v2("/a", "max", 9, 0), AVAILABLE, id="v2, unlimited"),
        pytest.param("0::/a\n", v2("/a", 5000, 1200, 200), 4000, id="v2, limited"),
        pytest.param("0::/a/b\n", v2("/a/b", "max", 100, 0) | v2("/a", 5000, 2000, 0), 3000, id="v2, group around it"),
        pytest.param("0::/host/x\n", v2("", 5000, 1000, 0), 4000, id="v2, inside a container"),
        pytest.param(V1_LINES, V1, 4000, id="v1, limited"),
        pytest.param(V1_LINES + "0::/a\n", V1, 4000, id="v1 for memory beside v2"),
    ],
)
def test_free_memory_is_within_the_limits_of_control_groups(tmp_path, groups, files, free):
    own = {} if groups is None else {"proc/self/cgroup": groups}
    assert free_host_memory(root_of(tmp_path, {**own, **files})) == free


def test_free_memory_is_within_the_limit_of_the_address_space():
    program = "from seed_rl.system.host_memory import free_host_memory; print(free_host_memory())"
    command = ["bash", "-c", 'ulimit -v 1000000; exec "$@"', "limited", sys.executable, "-c", program]
    assert 0 < int(subprocess.check_output(command)) < 1_000_000 * 1024


def test_allocations_beyond_a_limit_fail_and_later_ones_do_not():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(MemoryError), allocating_at_most(100 << 20):
        bytearray(1 << 30)
    with allocating_at_most(100 << 20):
        bytearray(10 << 20)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_threads_take_turns_in_limiting_the_process():
    before, began, ended = resource.getrlimit(resource.RLIMIT_DATA), threading.Event(), threading.Event()

    def limit():
        began.set()
        with allocating_at_most(100 << 20):
            ended.wait(within(1))

    other = threading.Thread(target=limit)
    with allocating_at_most(100 << 20):
        other.start()
        assert began.wait(within(10))
        time.sleep(0.05)
    ended.set()
    other.join()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
