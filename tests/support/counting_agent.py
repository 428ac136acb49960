"""An agent whose recurrent state counts, the companion of the counting environment."""

import dataclasses

import gin
import keras
import tensorflow as tf

from seed_rl.agents.base import ActOutput, Agent, LossOutput, VariableGroup
from seed_rl.agents.config import AgentConfig
from seed_rl.settings import Count
from tests.support.counting import CountingVectorEnv


@gin.configurable
@dataclasses.dataclass(frozen=True)
class CountingAgentConfig(AgentConfig):
    """Unrolls of `unroll_length` + `overlap` steps."""

    unroll_length: int = 4
    overlap: Count = 1
    checks: bool = False
    """End the learner if an unroll isn't exactly a piece of one environment's run."""

    def build(self, env_spec, num_training_envs, seed):
        return CountingAgent(self, env_spec)


class CountingAgent(Agent):
    """Its state is the number of steps it has acted in the current episode, int32 [B].

    Each action is a function of the observation alone (`action_of`); `behaviour` is the state after the step. The loss
    is the sum of one weight, so that updates can be counted.
    """

    behaviour_spec = tf.TensorSpec([], tf.int32)

    def __init__(self, config, env_spec):
        self.env_spec = env_spec
        self.unroll_length = config.unroll_length
        self.overlap = config.overlap
        self._checks = config.checks
        self._weight = keras.Variable(0.0, dtype="float32", name="weight")

    @property
    def variables(self):
        return [self._weight]

    @property
    def groups(self):
        return {"model": VariableGroup([self._weight])}

    def initial_state(self, batch_size):
        return tf.zeros([batch_size], tf.int32)

    def act(self, prev_action, env_output, state, env_ids, seed, greedy=False):
        state = tf.where(env_output.done, 0, state) + 1
        return ActOutput(action_of(env_output.observation), state, state)

    def loss(self, unroll, importance_weights, seed=(0, 0)):
        held = relations(unroll) if self._checks else {}
        is_blank = tf.reduce_all(unroll.env_output.observation == 0)  # for which the learner compiles
        checks = [tf.debugging.Assert(tf.reduce_all(holds) | is_blank, [name]) for name, holds in held.items()]
        with tf.control_dependencies(checks):
            return LossOutput({"model": self._weight.value}, {"loss/total": self._weight.value})


def action_of(counters):
    """The action [...] for counters int32 [..., 4], of tensors and arrays alike."""
    return (7 * counters[..., 3] + 3 * counters[..., 1] + counters[..., 2]) % CountingVectorEnv.NUM_ACTIONS


def place(counters):
    """The number [...] of an environment's step in its run; a truncated episode, every other one, has one more."""
    return counters[..., 3] + counters[..., 1] // 2


def relations(unroll):
    """What holds between the steps [L, ...] of an unroll that is a piece of one environment's run: names and bools."""
    counters, last = unroll.env_output.observation, unroll.env_output.last
    begins, rewards = counters[..., 2] == 0, tf.where(last[:-1], 0, unroll.action[:-1])
    return {
        "steps are consecutive": place(counters[1:]) - place(counters[:-1]) == 1,
        "all are of one environment's run": counters[..., 0] == counters[0, ..., 0],
        "ends come from the environment": unroll.env_output.done == begins,
        "truncated episodes have a last step": last[:-1] == begins[1:] & (counters[:-1, ..., 1] % 2 == 1),
        "actions follow from the observations": unroll.action == action_of(counters),
        "rewards follow their actions": unroll.env_output.reward[1:] == tf.cast(rewards, tf.float32),
        "previous actions are those before": unroll.prev_action[1:] == unroll.action[:-1],
        "the state has counted the steps": unroll.behaviour == counters[..., 2] + 1,
    }
