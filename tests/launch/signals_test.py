"""Signals that end a run."""

import signal
import subprocess
import sys
import time

import pytest

WAITS_IN_NATIVE_CODE = """
import ctypes
from seed_rl.launch.signals import signals

with signals():
    lock, native = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    native.pthread_mutex_lock(lock)
    print("waiting", flush=True)
    native.pthread_mutex_lock(lock)
"""
WAITS_IN_PYTHON = """
from seed_rl.launch.signals import signals

with signals() as stopped:
    print("waiting", flush=True)
    while not stopped.is_set():
        pass
print("after the run", flush=True)
raise SystemExit(stopped.exit_code)
"""


@pytest.fixture
def start():
    """Starts a program, and waits until it waits."""
    processes = []

    def start(program):
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout.readline() == "waiting\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_the_run_to_end(start, number):
    process = start(WAITS_IN_PYTHON)
    process.send_signal(number)
    assert process.communicate(timeout=30)[0] == "after the run\n"
    assert process.returncode == 128 + number


def test_a_later_signal_ends_the_process_even_in_native_code(start):
    process = start(WAITS_IN_NATIVE_CODE)
    deadline = time.monotonic() + 30
    while process.poll() is None:
        assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)  # a signal within a second is taken for the same one
    assert process.returncode == 128 + signal.SIGINT
