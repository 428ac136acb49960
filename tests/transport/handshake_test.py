"""Describe, Join and the opening of streams over real connections: the good case, and each refusal by name."""

import contextlib
import socket
import ssl

import grpc
import pytest

from seed_rl.specs import GroupLease, Lease
from seed_rl.transport.address import AddressError
from seed_rl.transport.client import Disconnected, Rejected
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import (
    ClientSecurity,
    SecurityError,
    ServerSecurity,
    read_authorities,
    read_certificate,
)
from seed_rl.transport.protocol import Refusal, Refused
from tests.hostile.http2 import PREFACE, SETTINGS, frame
from tests.support.deadlines import within
from tests.transport import peers


@pytest.mark.parametrize(
    ("address", "host"),
    [("unix:{}/a #%41?.sock", "unix:"), ("127.0.0.1:0", "ipv4:127.0.0.1:"), ("[::1]:0", "ipv6:%5B::1%5D:")],
)
def test_an_actor_learns_what_to_build_and_gets_room(house, address, host, tmp_path):
    learner = house.serve(address.format(tmp_path))
    assert not learner.address.endswith(":0")
    client = house.connect(learner.address)
    assert client.describe(timeout=within(5)) == peers.SETTINGS
    lease = client.join("run-1", peers.SPEC, [3, 2], timeout=within(5))
    assert lease == Lease("0", (GroupLease((0, 1, 2), 100), GroupLease((3, 4), 103)))
    ((run_id, spec, sizes, peer),) = learner.service.joined
    assert (run_id, spec, sizes) == ("run-1", peers.SPEC, (3, 2))
    assert peer.startswith(host)


@pytest.mark.parametrize(
    ("method", "request_message", "code"),
    [("Join", b"\xff\xff\xff", "INVALID_ARGUMENT"), ("Dance", b"", "UNIMPLEMENTED"), ("Act", b"", "INVALID_ARGUMENT")],
)
def test_a_bad_request_is_refused_in_a_short_sentence(house, method, request_message, code):
    learner = house.serve()
    unnamed = (("seed-rl-session", "0"), ("seed-rl-group", "9" * 10))
    with grpc.insecure_channel(house.path) as channel:
        call = channel.unary_unary(f"/seed_rl.Learner/{method}")
        with pytest.raises(grpc.RpcError) as error:
            call(request_message, timeout=within(5), metadata=unnamed)
    assert error.value.code().name == code
    assert len(error.value.details()) <= 1000
    assert learner.service.closed.empty()
    assert house.connect().describe(timeout=within(5)) == peers.SETTINGS


def test_joins_of_a_host_that_was_refused_several_times_within_a_second_are_not_read(house):
    learner = house.serve()
    client = house.connect()
    client.join("run", peers.SPEC, [1], timeout=within(5))
    learner.service.failures["join"] = Refused(Refusal.FAILED_PRECONDITION, "why")
    refused = []
    while not refused or isinstance(refused[-1], Rejected):
        with pytest.raises((Rejected, Disconnected)) as error:
            client.join("run", peers.SPEC, [1], timeout=within(5))
        refused.append(error.value)
    assert len(refused) > 10
    assert "10 joins from this host were refused within a second: try again later" in str(refused[-1])
    assert house.connect().describe(timeout=within(5)) == peers.SETTINGS


def test_groups_whose_steps_are_too_large_may_not_join(house):
    learner = house.serve(max_message_bytes=1000)
    largest = 45  # 2 + 1 + 45 * 22 = 993
    assert StepCodec(peers.SPEC, largest).step_bytes <= 1000 < StepCodec(peers.SPEC, largest + 1).step_bytes
    client = house.connect()
    client.join("run", peers.SPEC, [largest], timeout=within(5))
    with pytest.raises(Rejected, match=r"a step of 46 environments is a message of 1015 bytes .* up to 1000: make"):
        client.join("run", peers.SPEC, [1, largest + 1], timeout=within(5))
    assert len(learner.service.joined) == 1


@pytest.mark.parametrize(
    ("method", "refusal", "kind"),
    [
        ("join", Refusal.FAILED_PRECONDITION, Rejected),
        ("join", Refusal.NOT_FOUND, Disconnected),
        ("open", Refusal.PERMISSION_DENIED, Rejected),
        ("step", Refusal.UNAVAILABLE, Disconnected),
        ("step", None, Disconnected),  # a fault of the learner
    ],
)
def test_a_refusal_ends_one_call_and_says_whether_to_try_again(house, caplog, method, refusal, kind):
    failure = Refused(refusal, "why") if refusal else KeyError("why")
    learner, client = house.serve(), house.connect()
    lease = client.join("run", peers.SPEC, [1, 1], timeout=within(5))
    other = client.open(lease, 0, peers.SPEC)
    other.step(peers.output(1))
    learner.service.failures[method] = failure
    calls = {
        "join": lambda: client.join("run", peers.SPEC, [1], timeout=1.0),
        "open": lambda: client.open(lease, 1, peers.SPEC).step(peers.output(1)),
        "step": lambda: client.open(lease, 1, peers.SPEC).step(peers.output(1)),
    }
    with pytest.raises(kind, match="why") as error:
        calls[method]()
    code = (refusal or Refusal.INTERNAL).name
    assert str(error.value).endswith("why" if kind is Rejected else f"({code})")
    assert ("KeyError" in caplog.text) == (refusal is None)
    if method == "step":
        assert learner.service.closed.get(timeout=within(5))[3] == str(failure)
    assert learner.service.closed.empty()
    learner.service.failures.clear()
    assert other.step(peers.output(1)).tolist() == [4]


def test_tls_with_a_token(house, tmp_path):
    cert, key = peers.self_signed("localhost", tmp_path)
    other_cert, other_key = peers.self_signed("elsewhere", tmp_path)
    with pytest.raises(SecurityError, match="aren't a certificate and its"):
        read_certificate(cert, other_key)
    address = house.serve("localhost:0", ServerSecurity(*read_certificate(cert, key), "swordfish")).address
    trusted = read_authorities(cert)

    client = house.connect(address, ClientSecurity(trusted, "swordfish"))
    assert client.describe(timeout=within(5)) == peers.SETTINGS
    _, (stream,) = house.streams(client, [2])
    assert stream.step(peers.output(2)).tolist() == [4, 5]
    by_number = address.replace("localhost", "127.0.0.1")
    client = house.connect(by_number, ClientSecurity(trusted, "swordfish", server_name="localhost"))
    assert client.describe(timeout=within(5)) == peers.SETTINGS

    with pytest.raises(Rejected, match="the learner asks for a token"):
        house.connect(address, ClientSecurity(trusted)).describe(timeout=within(5))
    plain = house.serve("localhost:0").address
    for to, authorities, hint in [
        (by_number, trusted, "give --tls_server_name"),
        (address, read_authorities(other_cert), "vouched for by --tls_ca"),
        (plain, trusted, "actors do without --tls_ca"),
    ]:
        with pytest.raises(Rejected, match=hint):
            house.connect(to, ClientSecurity(authorities, "swordfish")).describe(timeout=within(5))
    with pytest.raises(Disconnected, match=r"Then actors need --tls_ca"):
        house.connect(address, ClientSecurity(None, "swordfish")).describe(timeout=within(1))


def test_without_a_certificate_that_the_learner_asks_for_nobody_gets_beyond_the_handshake(house, tmp_path):
    certificate, key = read_certificate(*peers.self_signed("localhost", tmp_path))
    known, other = (peers.self_signed(name, tmp_path) for name in ("actor", "other"))
    security = ServerSecurity(certificate, key, client_authorities=read_authorities(known[0]))
    address = house.serve("localhost:0", security).address

    def describe(own):
        return house.connect(address, ClientSecurity(certificate, None, False, None, *own)).describe(within(1))

    assert describe(read_certificate(*known)) == peers.SETTINGS
    for refused in [house.threads.submit(describe, own) for own in (read_certificate(*other), (None, None))]:
        with pytest.raises(Disconnected, match="and --tls_cert if it has --tls_client_ca"):
            refused.result()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificate.decode())
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), within(10)) as plain,
        context.wrap_socket(plain, server_hostname=host) as stranger,
        contextlib.suppress(ConnectionError, ssl.SSLError),  # as a flood is cut
    ):
        while True:
            stranger.sendall(PREFACE + 1000 * frame(SETTINGS, 0, 0))
            assert stranger.recv(9) == b"", "the learner answered"


def test_a_proxy_is_used_only_when_asked_for_finds_the_learner_by_name_and_has_its_say(house, proxy):
    address = proxy.places["learner.invalid:1"] = house.serve("127.0.0.1:0").address
    assert house.connect(address).describe(timeout=within(5)) == peers.SETTINGS
    assert proxy.asked == []
    through = ClientSecurity(proxy=True)
    assert house.connect("learner.invalid:1", through).describe(timeout=within(5)) == peers.SETTINGS
    assert proxy.asked == [("CONNECT", "learner.invalid:1")]
    with pytest.raises(Disconnected, match="other.invalid:1: .*HTTP proxy returned response code 403"):
        house.connect("other.invalid:1", through).describe(timeout=1.0)


def test_an_address_in_use_is_refused(house):
    address = house.serve("127.0.0.1:0").address
    with pytest.raises(AddressError, match=f"cannot listen on {address}: Address already in use"):
        house.serve(address)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AddressError, match=f"localhost:{port}: Address already in use .*127.0.0.1"):
            house.serve(f"localhost:{port}")
    house.serve()
    with pytest.raises(AddressError, match=f"cannot listen on {house.path}: another process serves there"):
        house.serve()
    assert house.connect().describe(timeout=within(5)) == peers.SETTINGS


def test_a_peer_that_says_nothing_does_not_hang_an_actor(house):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        described = house.threads.submit(house.connect("{}:{}".format(*listener.getsockname())).describe, 0.5)
        connection, _ = listener.accept()
        with connection:
            assert isinstance(described.exception(timeout=3.0), Disconnected)
