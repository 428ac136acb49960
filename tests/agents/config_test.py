"""Settings and environments that an agent can't work with are refused by name."""

import pytest

from seed_rl.agents.ppo import PPO
from seed_rl.agents.pqn import PQN
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.sac import SAC
from seed_rl.agents.vtrace import VTrace
from seed_rl.specs import CannotAct, EnvSpec
from tests.support.experience import CHOICES, FORCES, MIXED, NUMBERS


@pytest.mark.parametrize(
    ("agent", "settings", "message"),
    [
        (VTrace, {"torso": "deeper"}, "torso must be one of auto, .* mlp, module:Class, got 'deeper'"),
        (VTrace, {"channels": ()}, "channels must not be empty"),
        (VTrace, {"convolutions": ()}, "convolutions must not be empty"),
        (VTrace, {"target_entropy": 1.0, "entropy_cost": 0.0}, "target_entropy needs a positive VTrace.entropy_cost"),
        (PPO, {"clip_ratio": 0.0}, "clip_ratio must be positive, got 0"),
        (SAC, {"core": "lstm"}, "core must be 'none' because its critics have no recurrent state, got 'lstm'"),
        (SAC, {"observation_norm": True}, "observation_norm must be False"),
        (PQN, {"critic_keys": ("state",)}, r"critic_keys must be \(\), got .*: only VTrace, PPO and SAC have a critic"),
    ],
)
def test_impossible_settings_are_named(agent, settings, message):
    with pytest.raises(ValueError, match=f"^{agent.__name__}.{message}"):
        agent(**settings)


@pytest.mark.parametrize(
    ("agent", "action", "kind"),
    [(R2D2, CHOICES, "discrete"), (PQN, FORCES, "discrete"), (PQN, MIXED, "discrete"), (SAC, MIXED, "continuous")],
)
def test_environments_that_an_agent_cannot_act_in_are_named(agent, action, kind):
    with pytest.raises(CannotAct, match=f"^{agent.__name__} needs {kind} actions, got .*; VTrace and PPO accept any$"):
        agent().build(EnvSpec(NUMBERS, action), num_training_envs=1, seed=1)
