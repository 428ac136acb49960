"""Forks `seed_rl train` and `seed_rl learner` from a process that has imported TensorFlow, half of the work of a start.

This module is both sides: `start` is for tests, and as a program it is the process that forks.
"""

import contextlib
import ctypes
import functools
import json
import os
import socket
import subprocess
import sys

import psutil

_SET_CHILD_SUBREAPER = 36  # of prctl(2)


class Forked(psutil.Process):
    """A child process, with as much of the interface of `subprocess.Popen` as tests use."""

    returncode = None

    def poll(self):
        """The exit code; None while it runs."""
        with contextlib.suppress(psutil.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        """Wait for the process to exit, and return its exit code."""
        self.returncode = super().wait(timeout)
        return self.returncode


def start(arguments, output, env=None, cwd=None):
    """Starts `seed_rl` with these arguments and both of its outputs in a file; returns it as a `Forked`."""
    connection = _zygote()
    request = {"arguments": [*map(str, arguments)], "env": dict(env or os.environ), "cwd": str(cwd or os.getcwd())}
    prctl = ctypes.CDLL(None).prctl
    prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # an orphan becomes a child of this process
    try:
        socket.send_fds(connection, [json.dumps(request).encode()], [output.fileno()])
        pid = int(connection.recv(100))
        assert connection.recv(100) == b"orphaned"
    finally:
        prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    return Forked(pid)


@functools.cache
def _zygote():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )  # ends when `ours` is closed
    return ours


def _next_command(connection):
    """Returns the arguments of the next command, in a process made for it; None when there are no more."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 1)
        if not message:
            return None
        if (middle := os.fork()) == 0:
            if (pid := os.fork()) != 0:
                connection.send(str(pid).encode())
                os._exit(0)
            request = json.loads(message)
            connection.close()
            for target in (1, 2):
                os.dup2(descriptors[0], target)
            os.close(descriptors[0])
            os.environ.clear()
            os.environ.update(request["env"])
            os.chdir(request["cwd"])
            sys.path[:0] = [path for path in request["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
            return request["arguments"]
        os.waitpid(middle, 0)
        connection.send(b"orphaned")
        os.close(descriptors[0])


if __name__ == "__main__":
    from seed_rl.cli import main as cli
    from seed_rl.system.native_output import load_tensorflow

    load_tensorflow()
    import seed_rl.learner.learner  # noqa: F401

    command = _next_command(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(0 if command is None else cli.main(command))
