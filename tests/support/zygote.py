"""Forks programs from a process that has imported TensorFlow, half of the work of a start of `seed_rl train`.

This module is both sides: `start` is for tests; as a program it is the process that forks, one for all workers.
"""

import contextlib
import errno
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile

import psutil

from tests.support.deadlines import within

_ADDRESS = f"\0seed_rl-zygote-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"


class Forked:
    """A process of the zygote, with as much of the interface of `subprocess.Popen` as tests use."""

    def __init__(self, status):
        """Args: a file with the process's number in a line, and in another its exit code once it has ended."""
        self._status = status
        self.pid, self.returncode = int(status.readline()), None

    def poll(self):
        """The exit code; None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout=None):
        """Wait for the process to exit, and return its exit code."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("seed_rl", timeout)
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode

    def send_signal(self, number):
        """Send a signal to the process if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """End the process."""
        self.send_signal(signal.SIGKILL)


def start(arguments, output, env=None, cwd=None, module="seed_rl"):
    """Starts a module with these arguments and both of its outputs in a file; returns it as a `Forked`."""
    request = {"module": module, "arguments": [*map(str, arguments)]}
    request |= {"env": dict(env or os.environ), "cwd": str(cwd or os.getcwd())}
    status, theirs = os.pipe()
    with _connected() as connection:
        socket.send_fds(connection, [json.dumps(request).encode()], [output.fileno(), theirs])
    os.close(theirs)
    return Forked(open(status, "rb", buffering=0))


def _connected():
    """A connection to the zygote, which is started by the first worker that needs it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with listener, contextlib.suppress(OSError):  # another worker has bound it
        listener.bind(_ADDRESS)
        listener.listen(16)
        run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
        command = [sys.executable, "-m", __name__, str(listener.fileno()), str(run)]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[listener.fileno()])
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    while connection.connect_ex(_ADDRESS) == errno.ECONNREFUSED:
        pass  # bound by another worker, which listens at once
    return connection


def run(arguments, module):
    """Runs a module to its end, which must be a good one."""
    with tempfile.TemporaryFile() as output:
        code = start(arguments, output, module=module).wait(within(240))
        output.seek(0)
        assert code == 0, output.read()[-2000:].decode(errors="replace")


def _next_command(listener, run):
    """Returns module and arguments of the next command, in a process made for it; None at the end of the test run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    listener.settimeout(1.0)
    while psutil.pid_exists(run):
        with contextlib.suppress(TimeoutError):
            connection, _ = listener.accept()
            message, (output, status), _, _ = socket.recv_fds(connection, 1 << 20, 2)
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                if (pid := os.fork()) != 0:
                    os.close(output)
                    os.write(status, b"%d\n" % pid)
                    os.write(status, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    os._exit(0)
                request = json.loads(message)
                for target in (1, 2):
                    os.dup2(output, target)
                for descriptor in (output, status):
                    os.close(descriptor)
                connection.close()
                listener.close()
                os.environ.clear()
                os.environ.update(request["env"])
                os.chdir(request["cwd"])
                paths = request["env"].get("PYTHONPATH", "").split(os.pathsep)
                sys.path[:0] = [request["cwd"], *filter(None, paths)]  # as `python -m` does
                return request["module"], request["arguments"]
            connection.close()
            for descriptor in (output, status):
                os.close(descriptor)
    return None


if __name__ == "__main__":
    import seed_rl.cli.main
    from seed_rl.system.native_output import load_tensorflow

    load_tensorflow()
    import seed_rl.learner.learner  # noqa: F401

    command = _next_command(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    if command is not None:
        module, sys.argv[1:] = command
        runpy.run_module(module, run_name="__main__", alter_sys=True)
