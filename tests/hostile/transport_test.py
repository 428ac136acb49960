"""Attacks on a learner's port: with no token, with a wrong one, and from an actor that has joined."""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import random
import threading

import grpc
import pytest

from seed_rl.transport import messages, protocol
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.client import Rejected
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.shared_memory import OfferedMemory, open_offered
from tests.hostile import http2, victim
from tests.hostile.conftest import MEGABYTE
from tests.transport import peers

AUTHORIZED = (("authorization", f"Bearer {victim.TOKEN}"),)


def test_calls_that_are_opened_and_cancelled_at_once(siege, full):
    block = http2.request(protocol.ACT)
    for _ in range(20 if full else 2):
        with http2.connect(siege.address, timeout=1.0) as connection:
            http2.begin(connection)
            http2.rapid_reset(connection, block, 100_000 if full else 2_000)
            siege.goes_on()
    siege.ends_well(megabytes=100)
    assert siege.log().count("the learner asks for a token") in range(1, 3 if full else 2)


@pytest.mark.parametrize("token", ["", "wrong"])
def test_strangers_that_come_again_and_again_fill_neither_the_log_nor_the_memory(siege, full, token):
    credentials = [("authorization", f"Bearer {token}")] if token else []
    block = http2.request(protocol.DESCRIBE, *credentials)
    for _ in range(6_000 if full else 60):
        with http2.connect(siege.address) as connection:
            http2.begin(connection)
            connection.sendall(b"".join(http2.call(stream, block) for stream in range(1, 17, 2)))
            assert http2.receives(connection, b"token")
    siege.ends_well(megabytes=20)
    assert "was refused" in siege.log()
    assert len(siege.log()) < (100_000 if full else 1_000)


def test_a_wrong_token_is_reported_with_the_address_once(siege):
    for _ in range(3):
        client = siege.connect("wrong")
        with pytest.raises(Rejected, match="the actor's token isn't the learner's"):
            client.describe(timeout=5.0)
        client.close()
    assert siege.log().count("ipv4:127.0.0.1:") == 1
    assert "the actor's token isn't the learner's" in siege.log()
    siege.ends_well(megabytes=20)


def test_silent_connections_are_limited(siege):
    connections = [http2.connect(siege.address) for _ in range(200)]
    siege.goes_on()
    siege.wait_for(lambda: "64 connections are open, the maximum" in siege.log())
    assert siege.files() < 100
    for connection in connections:
        connection.close()
    siege.ends_well(megabytes=20)
    assert siege.log().count("connections are open") == 1


def test_messages_of_any_content_end_only_their_own_stream(siege, full):
    codec, rng = StepCodec(peers.SPEC, 2), random.Random(1)
    good = codec.encode_step(peers.output(2))
    lease = siege.client.join("run", peers.SPEC, [2] * 8, timeout=10.0)
    codes = collections.Counter()
    with grpc.insecure_channel(siege.address) as channel:
        for number in range(125_000 if full else 150):
            mutant = mutated(good, rng)
            if number % 8 == 0:
                lease = siege.client.join("run", peers.SPEC, [2] * 8, timeout=10.0)
            metadata = (*AUTHORIZED, *protocol.Opening(lease.session, number % 8).metadata())
            call = channel.stream_stream(protocol.ACT)(iter([good, mutant]), metadata=metadata, timeout=20.0)
            try:
                codes["answered"] += len(list(call)) == 2
            except grpc.RpcError as error:
                codes[error.code().name] += 1
    assert codes.keys() <= {"answered", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
    assert codes["INVALID_ARGUMENT"] > number / 2
    siege.ends_well(megabytes=100 if full else 30)


def mutated(message, rng):
    """A message with some bytes changed, cut, repeated or replaced."""
    data = bytearray(message)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        change = rng.randrange(4)
        if change == 0:
            data[at:] = b""
        elif change == 1:
            data[at:at] = rng.randbytes(rng.randint(1, 100))
        elif change == 2:
            data[at : at + 1] = rng.randbytes(1)
        else:
            data = bytearray(rng.randbytes(rng.randint(0, 2000)))
    return bytes(data)


def test_handshakes_of_any_content_are_refused(siege, full):
    rng, codes = random.Random(2), set()
    good = messages.join_request("run", peers.SPEC, [2])
    with grpc.insecure_channel(siege.address) as channel:
        for number in range(20_000 if full else 100):
            method = (protocol.DESCRIBE, protocol.JOIN)[number % 2]
            try:
                channel.unary_unary(method)(mutated(good, rng), metadata=AUTHORIZED, timeout=20.0)
            except grpc.RpcError as error:
                codes.add(error.code().name)
        with pytest.raises(grpc.RpcError, match="larger than max") as error:
            channel.unary_unary(protocol.JOIN)(bytes(2 << 20), metadata=AUTHORIZED, timeout=20.0)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "INVALID_ARGUMENT" in codes
    assert codes <= {refusal.name for refusal in protocol.Refusal if refusal.is_final} | {"RESOURCE_EXHAUSTED"}
    siege.ends_well(megabytes=100 if full else 30)


def test_large_joins_take_no_time(siege):
    observation = {str(number): pb.TensorSpec(dtype="uint8") for number in range(55_000)}
    spec = pb.EnvSpec(observation=observation, discrete=pb.DiscreteAction(n=2))
    request = pb.JoinRequest(protocol_version=5, run_id="run", env_spec=spec, group_sizes=[1]).SerializeToString()
    assert 0.9 * MEGABYTE < len(request) < MEGABYTE
    before = siege.seconds()
    with grpc.insecure_channel(siege.address) as channel:
        for _ in range(20):
            with pytest.raises(grpc.RpcError, match="up to 65536 bytes|refused within a second"):
                channel.unary_unary(protocol.JOIN)(request, metadata=AUTHORIZED, timeout=20.0)
    assert siege.seconds() - before < 2.0
    siege.ends_well(megabytes=30)


def test_calls_whose_requests_never_come_make_room_for_others(siege):
    block = http2.request(protocol.JOIN, *AUTHORIZED)
    with http2.connect(siege.address) as connection:
        http2.begin(connection)
        connection.sendall(b"".join(http2.call(stream, block) for stream in range(1, 400, 2)))
        received = b""
        while b"newer calls" not in received:
            received += connection.recv(1 << 16)
        siege.client.describe(timeout=10.0)
    siege.ends_well(megabytes=30)


def test_answers_that_are_not_read(siege):
    codec = StepCodec(peers.SPEC, 2)
    step = codec.encode_step(peers.output(2))
    lease = siege.client.join("run", peers.SPEC, [2], timeout=10.0)
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


def test_memory_that_is_swapped_for_a_fifo_never_blocks(tmp_path, full):
    os.mkfifo(tmp_path / "fifo")
    fifo = os.open(tmp_path / "fifo", os.O_RDWR)
    offered = OfferedMemory(64)
    file = int(offered.offer.split("/")[1])
    memory, done = os.dup(file), threading.Event()

    def swap():
        while not done.is_set():
            os.dup2(fifo, file)
            os.dup2(memory, file)

    def open_repeatedly():
        for _ in range(20_000 if full else 1_000):
            try:
                outcomes.add(bytes(open_offered(offered.offer, 64)))
            except OSError as error:
                outcomes.add(str(error))

    outcomes = set()
    swapping = threading.Thread(target=swap)
    opening = threading.Thread(target=open_repeatedly, daemon=True)
    swapping.start()
    opening.start()
    opening.join(60)
    done.set()
    swapping.join()
    assert not opening.is_alive()
    assert outcomes <= {bytes(64), "it isn't memory for steps"}, outcomes
    for descriptor in (fifo, memory):
        os.close(descriptor)
    offered.close()
