"""That the benchmark of the wire counts what goes through; how fast it is, is not for a test."""

import pytest

from seed_rl.bench import transport
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.transport.codec import StepCodec

ENV_SPEC = EnvSpec(ArraySpec((4,), "uint8"), DiscreteSpec(3))


@pytest.mark.parametrize(("streams", "group_size"), [(3, 2), (1, 1)])
def test_rates_are_of_messages_that_were_answered(streams, group_size):
    sent = transport.measure(ENV_SPEC, streams, group_size, seconds=0.3)
    assert sent["messages"] > 0
    assert sent["observations"] == pytest.approx(group_size * sent["messages"])
    assert sent["bytes"] == pytest.approx(sent["messages"] * StepCodec(ENV_SPEC, group_size).step_bytes, rel=0.2)
    assert sent["server_cpu_us"] > 0
    assert sent["client_cpu_us"] >= 0


def test_the_plain_copy_ends():
    assert transport.socket_rate(ENV_SPEC, 4, seconds=0.1) > 0
