"""That the benchmark of the wire counts what goes through; how fast it is, is not for a test."""

import pytest

from benchmarks import transport
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.transport.codec import StepCodec

ENV_SPEC = EnvSpec(ArraySpec((4,), "uint8"), DiscreteSpec(3))


@pytest.mark.parametrize(("streams", "group_size", "through"), [(3, 2, "wire"), (1, 2, "memory")])
def test_rates_are_of_messages_that_were_answered(streams, group_size, through):
    sent = transport.measure_streams(ENV_SPEC, streams, group_size, through, seconds=0.4, repeats=2)
    assert all(len(sent[name]["repeats"]) == 2 for name in ("messages", "observations", "bytes"))
    messages = sent["messages"]["median"]
    assert messages > 0
    assert sent["observations"]["median"] == pytest.approx(group_size * messages)
    assert sent["bytes"]["median"] == pytest.approx(messages * StepCodec(ENV_SPEC, group_size).payload_bytes)
    assert sent["server_cpu_us"]["median"] > 0
    assert sent["client_cpu_us"]["median"] >= 0


def test_the_plain_copy_ends():
    rates = transport.socket_rates(ENV_SPEC, 4, seconds=0.1, repeats=2)
    assert len(rates) == 2
    assert min(rates) > 0
