"""Rewards measured in running deviations of discounted returns, for any agent (`AgentConfig.reward_norm`)."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from seed_rl.agents.base import ActOutput, Agent, LossOutput, VariableGroup
from seed_rl.networks.normalisation import RunningMoments
from seed_rl.types import EnvOutput, Unroll


class NormalisedRewards(Agent):
    """An agent that gets all rewards divided by a standard deviation, in its losses and as inputs of its network.

    It is that of the discounted returns g_t = discount g_{t-1} + r_t since the start of each episode, as in Gymnasium's
    `NormalizeReward`, over roughly the last hundred thousand agent steps. The state of an environment is the pair of
    g_{t-1} and the `agent`'s own state. Unrolls hold the environments' rewards.
    """

    def __init__(self, agent: Agent, discount: float):
        self.env_spec, self.unroll_length, self.overlap = agent.env_spec, agent.unroll_length, agent.overlap
        self.behaviour_spec = agent.behaviour_spec
        self._agent = agent
        self._discount = discount
        self._returns = RunningMoments((), name="discounted_returns")

    @property
    def variables(self) -> Sequence[Any]:
        return [*self._agent.variables, *self._returns.variables]

    @property
    def groups(self) -> Mapping[str, VariableGroup]:
        return self._agent.groups

    @property
    def model(self) -> Any:
        return self._agent.model

    @property
    def copies(self) -> Sequence[Any]:
        return self._agent.copies

    def initial_state(self, batch_size: int) -> tuple[tf.Tensor, Any]:
        return tf.zeros([batch_size]), self._agent.initial_state(batch_size)

    def act(
        self,
        prev_action: tf.Tensor,
        env_output: EnvOutput,
        state: tuple[tf.Tensor, Any],
        env_ids: tf.Tensor,
        seed: tf.Tensor,
        greedy: bool | tf.Tensor = False,
    ) -> ActOutput:
        (after, _), measured = self._step(state[0], env_output), self._measured(env_output)
        answer = self._agent.act(prev_action, measured, state[1], env_ids, seed, greedy)
        return answer._replace(state=(after, answer.state))

    def loss(self, unroll: Unroll, importance_weights: tf.Tensor, seed: Any = (0, 0)) -> LossOutput:
        output = self._agent.loss(self._own(unroll), importance_weights, seed)
        return output._replace(metrics={**output.metrics, "rewards/unit": self._returns.deviation})

    def initial_priorities(self, unroll: Unroll) -> tf.Tensor | None:
        return self._agent.initial_priorities(unroll._replace(env_output=self._measured(unroll.env_output)))

    def moments(self, unroll: Unroll) -> tuple[tf.Tensor, Any]:
        outputs = unroll.env_output._replace(observation=())
        start = unroll.initial_state[0]
        _, returns = tf.scan(lambda before, output: self._step(before[0], output), outputs, (start, start))
        # No action leads to the first step after an episode that was cut off: its return is not one.
        after_last = tf.concat([tf.zeros_like(outputs.last[:1]), outputs.last[:-1]], axis=0)
        own = self._returns.moments(returns[self.overlap :], after_last[self.overlap :])
        # The losses will use the unit after this update, which the first rewards may change a thousandfold.
        unit = self._returns.deviation_after(own, tf.size(returns[self.overlap :], tf.float32))
        return own, self._agent.moments(self._own(unroll, unit))

    def update_statistics(self, moments: tuple[tf.Tensor, Any], steps: float) -> None:
        self._returns.update(moments[0], steps)
        self._agent.update_statistics(moments[1], steps)

    def targets(self, unroll: Unroll) -> Any:
        return self._agent.targets(self._own(unroll))

    def learned_enough(self, metrics: Mapping[str, tf.Tensor]) -> tf.Tensor | bool:
        return self._agent.learned_enough(metrics)

    def after_update(self, learner_updates: int) -> None:
        self._agent.after_update(learner_updates)

    def _step(self, before: tf.Tensor, output: EnvOutput) -> tuple[tf.Tensor, tf.Tensor]:
        """Return what the next step starts from, zero where an episode is over, and the return, float32 [B] each."""
        returned = self._discount * before + output.reward
        return tf.where(output.done, 0.0, returned), returned

    def _measured(self, env_output: EnvOutput, unit: tf.Tensor | None = None) -> EnvOutput:
        """Return the output with its reward in a unit, by default the deviation of the returns so far."""
        return env_output._replace(reward=env_output.reward / (self._returns.deviation if unit is None else unit))

    def _own(self, unroll: Unroll, unit: tf.Tensor | None = None) -> Unroll:
        """Return the unroll that the agent gets."""
        measured = self._measured(unroll.env_output, unit)
        return unroll._replace(initial_state=unroll.initial_state[1], env_output=measured)
