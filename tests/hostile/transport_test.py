"""Attacks on a learner's port: with no token, with a wrong one, and from an actor that has joined."""

from __future__ import annotations

import collections
import contextlib
import itertools
import random

import grpc

from seed_rl.transport import messages, protocol
from seed_rl.transport.codec import StepCodec
from tests.hostile import http2
from tests.hostile.conftest import TOKEN
from tests.support.deadlines import within
from tests.transport import peers

AUTHORIZED = (("authorization", f"Bearer {TOKEN}"),)


def test_calls_that_are_opened_and_cancelled_at_once(siege, full):
    block = http2.request(protocol.ACT)
    for _ in range(20 if full else 2):
        with http2.connect(siege.address, timeout=1.0) as connection:
            http2.begin(connection)
            http2.rapid_reset(connection, block, 100_000 if full else 2_000)
            siege.goes_on()
    siege.ends_well(megabytes=100)
    assert siege.log().count("the learner asks for a token") in range(1, 3 if full else 2)


def test_strangers_that_come_again_and_again_fill_neither_the_log_nor_the_memory(siege, full):
    block = http2.request(protocol.DESCRIBE, ("authorization", "Bearer wrong"))
    for _ in range(6_000 if full else 60):
        with http2.connect(siege.address) as connection:
            http2.begin(connection)
            connection.sendall(b"".join(http2.call(stream, block) for stream in range(1, 17, 2)))
            assert http2.receives(connection, b"token")
    siege.ends_well(megabytes=20)
    assert "was refused: the actor's token isn't the learner's" in siege.log()
    assert len(siege.log()) < (100_000 if full else 1_000)


def test_silent_connections_are_limited(siege):
    connections = [http2.connect(siege.address) for _ in range(200)]
    siege.goes_on()
    siege.wait_for(lambda: "64 connections are open, the maximum" in siege.log())
    assert siege.files() < 100
    for connection in connections:
        connection.close()
    siege.ends_well(megabytes=20)
    assert siege.log().count("connections are open") == 1


def status(call):
    """The name of the status with which a call ends."""
    with contextlib.suppress(grpc.RpcError):
        list(call)
    return call.code().name


def test_messages_of_any_content_end_only_their_own_call(siege, full):
    rng, codes = random.Random(1), collections.Counter()
    step, join = StepCodec(peers.SPEC, 2).encode_step(peers.output(2)), messages.join_request("run", peers.SPEC, [2])
    with grpc.insecure_channel(siege.address) as channel:
        for number in range(125_000 if full else 150):
            if number % 8 == 0:
                lease = siege.client.join("run", peers.SPEC, [2] * 8, timeout=within(10))
            metadata = (*AUTHORIZED, *protocol.Opening(lease.session, number % 8).metadata())
            steps = iter([step, peers.mutated(step, rng)])
            codes[status(channel.stream_stream(protocol.ACT)(steps, metadata=metadata, timeout=within(20)))] += 1
        assert codes.keys() <= {"OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
        assert codes["INVALID_ARGUMENT"] > number / 2
        codes.clear()
        for number in range(20_000 if full else 100):
            method, request = (protocol.DESCRIBE, protocol.JOIN)[number % 2], peers.mutated(join, rng)
            codes[status(channel.unary_stream(method)(request, metadata=AUTHORIZED, timeout=within(20)))] += 1
        assert codes.keys() <= {"OK", "RESOURCE_EXHAUSTED"} | {each.name for each in protocol.Refusal if each.is_final}
        assert codes["INVALID_ARGUMENT"]
    siege.ends_well(megabytes=100 if full else 30)


def test_calls_whose_requests_never_come_make_room_for_others(siege):
    block = http2.request(protocol.JOIN, *AUTHORIZED)
    with http2.connect(siege.address) as connection:
        http2.begin(connection)
        connection.sendall(b"".join(http2.call(stream, block) for stream in range(1, 400, 2)))
        assert http2.receives(connection, b"newer calls")
        siege.client.describe(timeout=within(10))
    siege.ends_well(megabytes=30)


def test_answers_that_are_not_read(siege):
    step = StepCodec(peers.SPEC, 2).encode_step(peers.output(2))
    lease = siege.client.join("run", peers.SPEC, [2], timeout=within(10))
    opening = protocol.Opening(lease.session, 0).metadata()
    message = http2.frame(http2.DATA, 0, 1, b"\0" + len(step).to_bytes(4, "big") + step)
    with http2.connect(siege.address) as connection:
        http2.begin(connection)
        connection.sendall(http2.call(1, http2.request(protocol.ACT, *AUTHORIZED, *opening)))
        connection.sendall(message * (65_535 // len(message)))  # as much as may be sent before an answer is read
        siege.goes_on()
    siege.ends_well(megabytes=30)


def test_frames_of_any_content(siege, full):
    rng = random.Random(0)
    block = http2.request(protocol.ACT, *AUTHORIZED)
    for _ in range(6_000 if full else 15):
        with http2.connect(siege.address) as connection, contextlib.suppress(OSError):  # closed by the learner
            http2.begin(connection)
            for stream in itertools.islice(itertools.count(1, 2), rng.randint(1, 20)):
                payload = block if rng.random() < 0.3 else rng.randbytes(rng.randint(0, 200))
                frame = http2.frame(rng.randint(0, 12), rng.randint(0, 255), rng.choice([0, stream]), payload)
                connection.sendall(frame)
    siege.ends_well(megabytes=100 if full else 30)
