"""Signals that end a run."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

WAITS_IN_NATIVE_CODE = """
import ctypes, threading
from seed_rl.system.signals import signals

with signals():
    lock, native = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    native.pthread_mutex_lock(lock)
    threading.Timer(0.2, print, ["waiting"], {"flush": True}).start()
    native.pthread_mutex_lock(lock)
"""
WAITS_IN_PYTHON = """
from seed_rl.system.signals import signals

with signals() as stopped:
    print("waiting", flush=True)
    while not stopped.is_set():
        pass
print("after the run", flush=True)
raise SystemExit(stopped.exit_code)
"""

NOTHING_TO_LOSE = """
from seed_rl.system.signals import signals

with signals() as stopped:
    stopped.raises = True
    try:
        print("waiting", flush=True)
        while True:
            pass
    finally:
        print("cleans up", flush=True)
        raise ValueError("made of KeyboardInterrupt")
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


def test_before_there_is_anything_to_save_a_signal_raises(start):
    process = start(NOTHING_TO_LOSE)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[0] == "cleans up\n"
    assert process.returncode == 128 + signal.SIGTERM


def test_and_then_ends_the_process_in_native_code(start):
    process = start(WAITS_IN_NATIVE_CODE.replace("signals():", "signals() as stopped:\n    stopped.raises = True"))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 128 + signal.SIGINT


def test_before_there_is_anything_to_save_the_end_of_the_input_raises():
    program = NOTHING_TO_LOSE.replace("signals import", "signals import stop_at_end_of_input,").replace(
        'print("waiting"', 'stop_at_end_of_input(stopped); print("waiting"'
    )
    done = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stdout.endswith(b"cleans up\n"), "perhaps amid the line before"


def test_a_run_ends_when_its_input_does():
    program = WAITS_IN_PYTHON.replace("signals import", "signals import stop_at_end_of_input,").replace(
        'print("waiting"', 'stop_at_end_of_input(stopped); print("waiting"'
    )
    done = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, b"waiting\nafter the run\n")


STARTS_A_PROGRAM = """
import subprocess
import sys
import time
from seed_rl.system.signals import StopFlag, stop_at_end_of_input

stop_at_end_of_input(StopFlag())
program = subprocess.Popen(["sh", "-c", "trap '' TERM; echo $$; sleep 300; exit"])
if "waits" in sys.argv:
    time.sleep(300)
time.sleep(0.5)
"""


@pytest.mark.parametrize("how", ["waits", "ends"])
def test_programs_end_with_the_process_that_started_them(how):
    command = [sys.executable, "-c", STARTS_A_PROGRAM, how]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, start_new_session=True) as started:
        engine = psutil.Process(int(started.stdout.readline()))
        if how == "waits":
            started.kill()
        assert started.wait(20) == (-signal.SIGKILL if how == "waits" else 0)
    assert not psutil.wait_procs([engine], timeout=20)[1]
