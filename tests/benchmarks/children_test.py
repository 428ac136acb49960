"""That processes of benchmarks answer, fail in a sentence, and never outlive who started them."""

import math
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from benchmarks.children import Child, ChildFailed, _calling, ask_all, call_in_child


def test_a_function_runs_in_another_process():
    assert call_in_child(os.getpid) != os.getpid()


def test_a_failure_is_told_and_the_process_ends():
    with Child("the worker", _calling) as child:
        child.wait_until_ready(30)
        with pytest.raises(ChildFailed, match="the worker has failed: math domain error"):
            child.ask((math.sqrt, (-1.0,)), 30)
    assert not psutil.pid_exists(child.pid)


def test_a_process_that_ends_or_keeps_silent_is_told():
    with Child("the worker", _calling) as child:
        child.wait_until_ready(30)
        with pytest.raises(ChildFailed, match="has not answered"):
            child.ask((time.sleep, (0.3,)), 0.01)
        child.receive(10)
        with pytest.raises(ChildFailed, match="the worker has ended, exit code 3"):
            child.ask((os._exit, (3,)), 30)


def test_several_work_at_the_same_time():
    with Child("one", _calling) as one, Child("other", _calling) as other:
        for child in (one, other):
            child.wait_until_ready(30)
        assert ask_all([one, other], (os.getpid, ()), 30) == [one.pid, other.pid]


def test_a_child_ends_with_a_parent_that_is_killed():
    code = """
from benchmarks.children import Child, _calling
import time
if __name__ == "__main__":
    child = Child("the worker", _calling)
    child.wait_until_ready(30)
    print(child.pid, flush=True)
    time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    child.wait(20)
    assert not child.is_running()
