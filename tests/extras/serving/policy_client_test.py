"""What a policy client sends, seen by a stream in place of a server's."""

from unittest import mock

import numpy as np
import pytest

from seed_rl.extras.serving import policy_client
from seed_rl.extras.serving.policy_client import PolicyClient
from seed_rl.specs import LEGAL_ACTIONS, ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.transport.client import Disconnected
from seed_rl.transport.codec import StepCodec
from tests.architecture_test import assert_loads_no_tensorflow

ONE = EnvSpec(ArraySpec((2,), "float32"), DiscreteSpec(9))
MASKED = EnvSpec({"observation": ONE.observation, LEGAL_ACTIONS: ArraySpec((2,), "uint8")}, DiscreteSpec(9))


@pytest.fixture
def connect(monkeypatch):
    """Make a client of a server with these spaces, which answers 0, 1, ...; returns it, its outputs and its calls."""

    def make(spec, num_envs=None):
        sent, server = [], mock.Mock()

        def step(output):
            StepCodec(spec, num_envs or 1).encode_step(output)
            sent.append(output)
            return np.arange(num_envs or 1, dtype=np.int32)

        server.describe.return_value.env_spec = spec
        server.join.return_value.groups = [mock.Mock(seed=7)]
        server.open.return_value.step = step
        monkeypatch.setattr(policy_client, "LearnerClient", lambda address, security: server)
        return PolicyClient("localhost:1", num_envs), sent, server.mock_calls

    return make


def test_a_client_loads_no_tensorflow():
    assert_loads_no_tensorflow([PolicyClient.__module__])


def test_a_single_simulator_needs_no_axis_and_plain_numbers_do(connect):
    client, sent, calls = connect(ONE)
    with client:
        assert client.reset([0.5, 1.0]) == 0
        assert client.act(np.array([2.0, 3.0]), reward=1, last=True) == 0
    assert [(output.reward.tolist(), output.done.tolist(), output.last.tolist()) for output in sent] == [
        ([0.0], [True], [False]),
        ([1.0], [False], [True]),
    ]
    np.testing.assert_array_equal([output.observation for output in sent], [[[0.5, 1.0]], [[2.0, 3.0]]])
    assert client.seed == 7
    assert calls[-2:] == [mock.call.open().close(), mock.call.close()]


def test_after_an_interrupted_step_the_next_reply_would_be_to_that_one(connect):
    client, _, calls = connect(ONE)
    client._stream.step = mock.Mock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        client.reset([0.5, 1.0])
    assert calls[-1] == mock.call.close()
    with pytest.raises(Disconnected, match="closed"):
        client.reset([0.5, 1.0])


def test_legal_actions_are_packed_beside_the_observation(connect):
    client, sent, _ = connect(MASKED, 2)
    legal = np.arange(18).reshape(2, 9) % 2 == 0
    assert client.act(np.zeros((2, 2)), [1.0, 2.0], legal=legal).tolist() == [0, 1]
    (output,) = sent
    assert (output.reward.tolist(), output.done.tolist()) == ([1.0, 2.0], [False, False])
    bits = np.unpackbits(output.observation[LEGAL_ACTIONS], axis=1, count=9, bitorder="little")
    np.testing.assert_array_equal(bits, legal)
