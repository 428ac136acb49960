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
print("in good order", flush=True)
raise SystemExit(stopped.exit_code)
"""


@pytest.fixture
def started():
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


def test_the_first_signal_asks(started):
    process = started(WAITS_IN_PYTHON)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[0] == "in good order\n"
    assert process.returncode == 128 + signal.SIGTERM


def test_one_that_comes_later_ends_the_process_even_while_it_waits_in_native_code(started):
    process = started(WAITS_IN_NATIVE_CODE)
    process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + 30
    while process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 128 + signal.SIGINT
