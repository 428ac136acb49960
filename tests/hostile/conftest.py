"""A learner under attack, and an honest actor whose steps go on meanwhile."""

import functools
import resource
import threading

import psutil
import pytest

from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity
from tests.support.deadlines import within
from tests.transport import peers

_FILES = 128
TOKEN = "swordfish"


class Siege:
    """A learner in a separate process that may open 128 files, with one honest actor."""

    def __init__(self, directory):
        self._log = directory / "learner.log"
        bound = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (_FILES, _FILES))
        with open(self._log, "wb") as log:
            self.process, self.address = peers.start("learn", "127.0.0.1:0", TOKEN, stderr=log, preexec_fn=bound)
        self._learner = psutil.Process(self.process.pid)
        self.steps = 0
        self._ended = threading.Event()
        self.client = LearnerClient(self.address, ClientSecurity(token=TOKEN), share_memory=False)
        lease = self.client.join("run", peers.SPEC, [2], timeout=within(10))
        self._stream = self.client.open(lease, 0, peers.SPEC)
        self._step()
        self._thread = threading.Thread(target=self._act, daemon=True)
        self._thread.start()
        self.memory_before, self.files_before = self.memory(), self.files()

    def _step(self):
        assert self._stream.step(peers.output(2)).tolist() == [4, 5]
        self.steps += 1

    def _act(self):
        while not self._ended.wait(0.002):
            self._step()

    def memory(self):
        return self._learner.memory_info().rss

    def files(self):
        return self._learner.num_fds()

    def log(self):
        return self._log.read_text(errors="replace")  # gRPC quotes what it was sent

    def goes_on(self, count=20):
        """Waits for more steps of the honest actor."""
        enough = self.steps + count
        self.wait_for(lambda: self.steps >= enough)

    def wait_for(self, condition):
        """Waits until a condition holds; the honest actor must go on meanwhile."""
        pause = threading.Event()
        for _ in range(1000):
            if condition():
                return
            assert self.process.poll() is None, self.log()
            assert self._thread.is_alive(), self.log()
            pause.wait(0.02)
        raise AssertionError(f"not within 20 s:\n{self.log()}")

    def ends_well(self, megabytes):
        """The attack has left neither memory nor files behind, and the learner ends when asked to."""
        self.goes_on()
        self.wait_for(lambda: self.files() <= self.files_before)
        assert self.memory() - self.memory_before < megabytes << 20
        self._ended.set()
        self._thread.join()
        self._stream.close()
        self.client.close()
        self.process.communicate(timeout=within(10))
        assert self.process.returncode == 0, self.log()
        assert "Traceback" not in self.log()


@pytest.fixture
def siege(tmp_path):
    started = Siege(tmp_path)
    yield started
    started.process.kill()
    started._ended.set()
