"""Attacks on a learner's port: with no token, with a wrong one, and from an actor that has joined."""

import collections
import contextlib
import random

import grpc

from seed_rl.transport import protocol
from seed_rl.transport.codec import StepCodec
from tests.hostile import http2
from tests.hostile.conftest import TOKEN
from tests.support.deadlines import within
from tests.transport import peers

AUTHORIZED = (("authorization", f"Bearer {TOKEN}"),)


def test_calls_that_are_opened_and_cancelled_at_once_take_neither_memory_nor_the_log(siege):
    block = http2.request(protocol.ACT)
    for _ in range(2):
        with http2.connect(siege.address, timeout=1.0) as connection:
            http2.begin(connection)
            http2.rapid_reset(connection, block, 2_000)
            siege.goes_on()
    siege.ends_well(megabytes=100)
    assert siege.log().count("the learner asks for a token") == 1


def test_silent_connections_are_limited(siege):
    connections = [http2.connect(siege.address) for _ in range(200)]
    siege.goes_on()
    siege.wait_for(lambda: "64 connections are open, the maximum" in siege.log())
    assert siege.files() < 100
    for connection in connections:
        connection.close()
    siege.ends_well(megabytes=20)
    assert siege.log().count("connections are open") == 1


def test_messages_of_any_content_end_only_their_own_call(siege, request):
    full = request.config.getoption("hostile")
    rng, codes = random.Random(1), collections.Counter()
    step = StepCodec(peers.SPEC, 2).encode_step(peers.output(2))
    with grpc.insecure_channel(siege.address) as channel:
        for number in range(125_000 if full else 150):
            if number % 8 == 0:
                lease = siege.client.join("run", peers.SPEC, [2] * 8, timeout=within(10))
            metadata = (*AUTHORIZED, *protocol.Opening(lease.session, number % 8).metadata())
            steps = iter([step, peers.mutated(step, rng)])
            call = channel.stream_stream(protocol.ACT)(steps, metadata=metadata, timeout=within(20))
            with contextlib.suppress(grpc.RpcError):
                list(call)
            codes[call.code().name] += 1
    assert codes.keys() <= {"OK", "INVALID_ARGUMENT"}
    assert codes["INVALID_ARGUMENT"] > number / 2
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
