"""Streams over real connections: every step answered once, and what happens when either side goes away."""

import gc
import threading
import time

import grpc
import numpy as np
import pytest

from seed_rl.transport import calls, messages, protocol, server
from seed_rl.transport.calls import CallServer
from seed_rl.transport.client import Disconnected, Rejected, RunOver
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ClientSecurity
from seed_rl.transport.protocol import MEMORY_ACCEPTED, Opening
from seed_rl.transport.shared_memory import OfferedMemory
from seed_rl.types import EnvOutput
from tests.hostile import http2
from tests.support.deadlines import within
from tests.transport import peers


def test_every_step_is_answered_once_with_its_groups_answer(house):
    sizes, num_steps = [1, 2, 3, 8] * 8, 20
    learner = house.serve()
    clients = [house.connect(share_memory=share_memory) for share_memory in (False, True) * 2]
    runs = []
    for index, client in enumerate(clients):
        lease, streams = house.streams(client, sizes[index::4])
        for group, stream in zip(lease.groups, streams, strict=True):
            runs.append(house.threads.submit(run_steps, group, stream, num_steps))
    assert [run.result(timeout=within(20)) for run in runs] == [num_steps] * len(sizes)

    assert len(learner.service.steps) == len(sizes) * num_steps
    assert sum(first for _, first, _ in learner.service.steps) == len(sizes)
    assert all((output.reward == lease.env_ids).all() for lease, _, output in learner.service.steps)
    assert all((output.last == (output.reward % 4 == 3)).all() for _, _, output in learner.service.steps)
    assert [learner.service.closed.get(timeout=within(5))[3] for _ in sizes] == ["the actor left"] * len(sizes)
    assert not learner.server.streams


def run_steps(group, stream, num_steps):
    """Counts right answers to random observations."""
    rng = np.random.default_rng(group.seed)
    size = len(group.env_ids)
    right = 0
    for _ in range(num_steps):
        ids = np.array(group.env_ids)
        output = EnvOutput(ids.astype(np.float32), ids >= 0, ids % 4 == 3, rng.integers(0, 2000, (size, 4), np.int32))
        actions = stream.step(output)
        right += actions.dtype == np.int32 and np.array_equal(actions, peers.answer(group.env_ids, output.observation))
    stream.close()
    return right


BEGINS, GOES_ON, ENDS, TERMINAL = (1, 0), (0, 0), (0, 1), (1, 1)


def steps_of(*flags):
    """Steps of environments with these pairs of done and last."""
    done, last = np.array(flags, bool).T
    return peers.output(len(flags))._replace(done=done, last=last)


@pytest.mark.parametrize("share_memory", [False, True])
def test_environments_whose_episodes_end_go_on_alone_or_with_all_others_and_report_numbers(house, share_memory):
    learner = house.serve()
    _, (_, stream) = house.streams(house.connect(share_memory=share_memory), [2, 3])
    for step, numbers, actions in [
        (steps_of(BEGINS, BEGINS, BEGINS), [], [6, 7, 8]),
        (steps_of(ENDS, GOES_ON, ENDS), [(0, "is_success", 1.0), (2, "terms/speed", -0.5)], [6, 7, 8]),
        (steps_of(BEGINS, BEGINS), [(1, "late", 3.0)], [6, 8]),
        (steps_of(GOES_ON, TERMINAL, BEGINS), [], [6, 7, 8]),
        (steps_of(BEGINS, BEGINS, BEGINS), [], [6, 7, 8]),
        (steps_of(ENDS, ENDS, ENDS), [], [6, 7, 8]),
        (steps_of(BEGINS, BEGINS, BEGINS), [], [6, 7, 8]),
    ]:
        assert stream.step(step, numbers).tolist() == actions
    assert [len(output.done) for _, _, output in learner.service.steps] == [3, 3, 2, 3, 3, 3, 3]
    assert learner.service.numbers == [(2, "is_success", 1.0), (4, "terms/speed", -0.5), (4, "late", 3.0)]


@pytest.mark.parametrize("share_memory", [False, True])
def test_an_episode_begins_where_it_must(house, share_memory):
    house.serve()
    client = house.connect(share_memory=share_memory)
    first = steps_of(BEGINS, BEGINS, BEGINS)
    two_end = steps_of(ENDS, ENDS, GOES_ON)
    for *steps, wrong in [
        [steps_of(GOES_ON, BEGINS, BEGINS)],
        [first, two_end, steps_of(BEGINS, GOES_ON)],
        [first, two_end, steps_of(BEGINS, GOES_ON, GOES_ON)],
        [first, two_end, steps_of(BEGINS)],  # too few
        [first, steps_of(BEGINS, BEGINS)],  # none has ended
    ]:
        _, (stream,) = house.streams(client, [3])
        for step in steps:
            stream.step(step)
        with pytest.raises(Rejected, match="done must be 1 in an environment's first step|expected a"):
            stream.step(wrong)


@pytest.mark.parametrize(
    ("change", "code", "sentence", "reason"),
    [
        (lambda message: message[:-1], "INVALID_ARGUMENT", "a payload of 44 bytes, got 43", "44 bytes, got 43"),
        (
            lambda message: message + messages.episode_numbers([(2, "x", 1.0)]),
            *("INVALID_ARGUMENT", "environment 0 .. 1, got env: 2", "got env: 2"),
        ),
        (lambda _: bytes(100_000), "RESOURCE_EXHAUSTED", "larger than max", "the actor vanished"),
    ],
)
def test_a_bad_message_ends_its_own_stream_only(house, change, code, sentence, reason):
    learner = house.serve(max_message_bytes=1000)
    client = house.connect()
    lease = client.join("run", peers.SPEC, [2, 2], timeout=within(5))
    good = client.open(lease, 1, peers.SPEC)
    good.step(peers.output(2))
    codec = StepCodec(peers.SPEC, 2)
    message = codec.encode_step(peers.output(2))
    call = house.act(Opening(lease.session, 0), message, change(message))
    assert codec.decode_actions(next(call)).tolist() == [4, 5]
    with pytest.raises(grpc.RpcError, match=sentence) as error:
        next(call)
    assert error.value.code().name == code
    assert reason in learner.service.closed.get(timeout=within(5))[3]
    assert good.step(peers.output(2)).tolist() == [6, 7]


def test_steps_in_shared_memory_are_checked_and_sent_where_the_learner_cannot_open_it(house, caplog):
    caplog.set_level("INFO")
    house.serve()
    codec = StepCodec(peers.SPEC, 2)
    lease = house.connect().join("run", peers.SPEC, [2, 2], timeout=within(5))
    memory = OfferedMemory(codec.payload_bytes)
    step = peers.output(2)._replace(reward=np.full(2, np.nan, np.float32))
    StepCodec(peers.SPEC, 2, memory=memory.step).encode_step(step)
    call = house.act(Opening(lease.session, 0, memory.offer), b"")
    assert MEMORY_ACCEPTED in call.initial_metadata()
    with pytest.raises(grpc.RpcError, match="reward must be finite, got nan in environment 0"):
        next(call)
    memory.close()
    call = house.act(Opening(lease.session, 1, f"1/999/{'0' * 64}"), codec.encode_step(peers.output(2)))
    assert MEMORY_ACCEPTED not in call.initial_metadata()
    assert codec.decode_actions(next(call)).tolist() == [6, 7]
    assert "offers shared memory, but" in caplog.text


def test_streams_leave_neither_memory_nor_threads_behind(house, wait_for):
    learner = house.serve()
    client = house.connect()
    client.describe(timeout=within(5))
    gc.collect()
    memory, threads = shared_memory_in_use(), threading.active_count()
    _, streams = house.streams(client, [2, 2])
    for stream in streams:
        stream.step(peers.output(2))
    assert shared_memory_in_use() == memory + 4  # of both ends
    assert threading.active_count() > threads
    learner.service.steps.clear()  # it has kept views
    for stream in streams:
        stream.close()
    del stream, streams
    # The server's side is given up on its own thread.
    wait_for(lambda: gc.collect() >= 0 and shared_memory_in_use() <= memory, timeout=within(5))
    wait_for(lambda: gc.collect() >= 0 and threading.active_count() <= threads, timeout=within(5))


def shared_memory_in_use():
    """Mappings of memory for steps in this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sum("seed_rl-step" in line for line in maps)


def test_a_connection_that_has_reached_its_age_takes_no_more_calls_and_keeps_its_streams(house, monkeypatch):
    monkeypatch.setattr(protocol, "AGE_SECONDS", 0.5)
    learner = house.serve("127.0.0.1:0")
    client = house.connect(learner.address)
    _, (stream,) = house.streams(client, [2])
    stream.step(peers.output(2))
    with http2.connect(learner.address) as younger:
        http2.begin(younger)
        assert http2.receives(younger, b"max_age")
    assert stream.step(peers.output(2)).tolist() == [4, 5]
    assert client.describe(timeout=within(5)) == peers.SETTINGS
    assert learner.service.closed.empty()


@pytest.mark.parametrize(
    ("end", "kind", "sentence", "reason"),
    [
        (lambda server, client: server.stop(5.0), Disconnected, r" \(UNAVAILABLE\)", "the learner is stopping"),
        (lambda server, client: server.stop(5.0, over=True), RunOver, "is over", "the run is over"),
        (lambda server, client: client.close(), Disconnected, None, "the actor vanished"),
    ],
    ids=["stopping", "over", "closed"],
)
def test_stopping_the_server_or_closing_the_client_ends_waiting_steps(house, end, kind, sentence, reason):
    learner, client = house.serve(), house.connect()
    lease, (waiting, idle) = house.streams(client, [1, 2])
    waiting.step(peers.output(1))
    idle.step(peers.output(2))
    held, result = house.hold(learner, waiting, 1)
    started = time.monotonic()
    end(learner.server, client)
    assert time.monotonic() - started < 4.0
    with pytest.raises(kind, match=sentence):
        result.result(timeout=within(5))
    with pytest.raises(kind):
        idle.step(peers.output(2))
    ends = sorted(learner.service.closed.get(timeout=within(5))[1::2] for _ in range(2))
    assert ends == [(0, reason), (1, reason)]
    held.answer(np.zeros(1, np.int32))  # nobody is there any more
    waiting.close()
    end(learner.server, client)
    client.close()
    for call in (lambda: client.describe(1.0), lambda: client.open(lease, 0, peers.SPEC)):
        with pytest.raises(Disconnected, match="the client is closed"):
            call()


def test_a_stream_without_a_step_for_long_is_ended_unless_the_learner_has_its_step(house, monkeypatch):
    monkeypatch.setattr(server, "SILENCE_SECONDS", 0.5)
    learner = house.serve()
    _, (silent, waiting) = house.streams(house.connect(), [1, 1])
    held, result = house.hold(learner, waiting, 1)
    _, group, _, reason = learner.service.closed.get(timeout=within(5))
    assert (group, reason) == (0, "there was no step for 0.5 s: join again")
    with pytest.raises(Disconnected, match="join again"):
        silent.step(peers.output(1))
    held.answer(np.zeros(1, np.int32))
    assert result.result(timeout=within(5)).tolist() == [0]


def test_an_actor_that_is_killed_is_noticed_and_its_memory_outlives_it(house):
    learner = house.serve()
    process, line = house.start("act", learner.address)
    assert line == "[4 5]"
    learner.service.hold = True
    learner.service.held.get(timeout=within(5))
    assert shared_memory_in_use()
    process.kill()
    session, group, lease, reason = learner.service.closed.get(timeout=within(5))
    assert (session, group, lease.env_ids, reason) == ("0", 0, (0, 1), "the actor vanished")
    assert learner.service.closed.empty()
    _, _, output = learner.service.steps[-1]
    assert output.observation.tolist() == peers.output(2).observation.tolist()


def test_a_fault_of_the_service_at_the_end_of_a_stream_leaves_the_others_alone(house, caplog):
    learner = house.serve()
    client = house.connect()
    _, (bad, good) = house.streams(client, [1, 1])
    bad.step(peers.output(1))
    learner.service.failures["close"] = KeyError("why")
    bad.close()
    assert good.step(peers.output(1)).tolist() == [5]
    assert "KeyError: 'why'" in caplog.text
    learner.service.failures.clear()


def test_stopping_the_server_cuts_calls_that_do_not_end(house):
    learner = house.serve()
    silent = threading.Event()
    with grpc.insecure_channel(house.path) as channel:
        requests = iter(silent.wait, True)  # none arrives
        call = channel.stream_unary(protocol.DESCRIBE).future(requests, timeout=within(10))
        # On the same connection, so that the silent call has arrived once this one is answered.
        channel.unary_unary(protocol.DESCRIBE)(messages.describe_request("me"), timeout=within(5))
        learner.server.stop(grace=0.05)
        assert call.exception(timeout=within(5)).code() is not grpc.StatusCode.DEADLINE_EXCEEDED
        silent.set()


def test_a_stuck_thread_does_not_keep_the_learner_from_ending(house, monkeypatch, caplog):
    monkeypatch.setattr(calls, "STUCK_SECONDS", 0.1)
    stuck, release = threading.Event(), threading.Event()
    server = CallServer(lambda call: stuck.set() or release.wait(), ())
    assert server.start(house.path, None)
    house.threads.submit(house.connect().describe, 1.0)
    assert stuck.wait(within(10))
    server.stop(grace=0.1)
    assert "the server's thread is stuck" in caplog.text
    release.set()


def test_both_sides_notice_a_cut_cable(house, proxy, monkeypatch):
    monkeypatch.setattr(protocol, "KEEPALIVE_SECONDS", 0.5)
    learner = house.serve("127.0.0.1:0")
    proxy.places["learner:1"] = learner.address
    _, (stream,) = house.streams(house.connect("learner:1", ClientSecurity(proxy=True)), [1])
    stream.step(peers.output(1))
    _, result = house.hold(learner, stream, 1)
    assert learner.service.closed.empty()
    proxy.is_silent = True
    assert isinstance(result.exception(timeout=within(10)), Disconnected)
    assert learner.service.closed.get(timeout=within(10))[3] == "the actor vanished"
