"""Signals that end a run."""

import functools
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from seed_rl.system import children, signals
from tests.support.deadlines import within

WAITS_IN_PYTHON = """
from seed_rl.system.signals import signals, stop_with_parent

with signals() as stopped:
    stop_with_parent(stopped)
    print("waiting", flush=True)
    while not stopped.is_set():
        pass
print("after the run", flush=True)
raise SystemExit(stopped.exit_code)
"""
NOTHING_TO_LOSE = """
from seed_rl.system.signals import signals, stop_with_parent

with signals() as stopped:
    stopped.raises = True
    stop_with_parent(stopped)
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
        # As from a parent that has blocked them: a TPU's compiler, for one, blocks SIGHUP.
        block = functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK, signals.ALL)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen([sys.executable, "-c", program], **pipes, preexec_fn=block)
        processes.append(process)
        assert process.stdout.readline() == "waiting\n"
        return process

    yield start
    for process in processes:
        with process:
            process.kill()


@pytest.mark.parametrize(
    ("program", "number", "words", "code"),
    [
        (WAITS_IN_PYTHON, signal.SIGINT, "after the run\n", 128 + signal.SIGINT),
        (WAITS_IN_PYTHON, signal.SIGHUP, "after the run\n", 128 + signal.SIGHUP),
        (WAITS_IN_PYTHON, None, "after the run\n", 0),
        (NOTHING_TO_LOSE, signal.SIGTERM, "cleans up\n", 128 + signal.SIGTERM),
        (NOTHING_TO_LOSE, None, "cleans up\n", 128 + signal.SIGTERM),
    ],
    ids=["Ctrl-C", "no terminal", "end of input", "nothing to lose", "nothing to lose, end of input"],
)
def test_a_signal_or_the_end_of_the_input_asks_a_run_to_end_or_raises_before_there_is_anything_to_save(
    start, program, number, words, code
):
    process = start(program)
    process.stdin.close() if number is None else process.send_signal(number)
    assert process.wait(within(30)) == code
    assert process.stdout.read() == words


def test_hanging_up_ends_no_run_under_nohup(start):
    process = start(f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN){WAITS_IN_PYTHON}")
    for number in (signal.SIGHUP, signal.SIGTERM):
        process.send_signal(number)
    assert process.wait(within(30)) == 128 + signal.SIGTERM, "the first signal counts"


def test_a_later_signal_ends_what_does_not_end_when_it_is_asked_to(start):
    ends = "import os, sys; sys.excepthook = lambda kind, error, _: os._exit(error.args[0])"
    process = start(f"{ends}{WAITS_IN_PYTHON}".replace("not stopped.is_set()", "True"))
    deadline = time.monotonic() + within(30)
    while process.poll() is None:
        assert time.monotonic() < deadline
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)  # a signal within a second is taken for the same one
    assert (process.returncode, process.stdout.read()) == (128 + signal.SIGTERM, "")


def test_ctrl_c_is_kept_for_a_caller_that_leaves_a_loop_early():
    def rows():
        with signals.ctrl_c_asks() as stopped:
            while not stopped.is_set():
                yield

    left = rows()
    next(left)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        left.close()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_programs_end_with_the_process_that_started_them(tmp_path):
    log = tmp_path / "log"
    script = "trap '' TERM; sleep 300 & echo $!; kill -KILL $$"
    children.run_logged(["sh", "-c", script], str(log), lambda process: process.wait())
    assert not psutil.wait_procs([p for p in psutil.process_iter() if p.pid == int(log.read_text())], within(20))[1]


def test_a_process_learns_of_the_end_of_its_parent_although_a_fork_of_that_lives(tmp_path, wait_for):
    program = """
import os, sys, time
from seed_rl.system import children
waits = "import time; from seed_rl.system import signals as s; s.stop_with_parent(stop := s.StopFlag())"
waits += "\\nprint('waiting', flush=True)\\nwhile not stop.is_set(): time.sleep(0.01)\\nprint('gone', flush=True)"
children.start_logged(children.python(waits), sys.argv[1])
while not os.path.getsize(sys.argv[1]):
    time.sleep(0.01)
if os.fork() == 0:
    time.sleep(60)
os._exit(0)
"""
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", program, str(log)], start_new_session=True) as parent:
        parent.wait(within(20))
        wait_for(lambda: log.read_text() == "waiting\ngone\n")
        os.killpg(parent.pid, signal.SIGKILL)
