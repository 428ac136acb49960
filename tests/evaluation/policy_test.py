import pathlib

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.evaluation.policy import experiment_of, load_policy
from seed_rl.types import EnvOutput


def outputs(steps, batch):
    """Random outputs of B environments: episodes begin at once, and again every few steps."""
    rng = np.random.default_rng(0)
    return [
        EnvOutput(
            reward=rng.normal(size=batch).astype(np.float32),
            done=np.full(batch, step % 7 == 0),
            last=np.zeros(batch, bool),
            observation=rng.integers(0, 256, (batch, 10, 5, 1), np.uint8),
        )
        for step in range(steps)
    ]


def test_a_policy_acts_in_evaluation_environments_as_the_agent_that_wrote_its_checkpoint(saved_run):
    network = ("R2D2.core = 'lstm'", "R2D2.core_units = 16", "R2D2.frame_stack = 3")
    logdir, agent = saved_run("catch/r2d2", *network, "R2D2.epsilon_base = 0.0", "R2D2.eval_epsilon = 0.5")
    path = f"{logdir}/checkpoints/checkpoint-000000000007.npz"
    policy = load_policy(pathlib.Path(logdir), pathlib.Path(path), seed=5)
    assert (policy.checkpoint, policy.env_frames) == (path, 700)
    for ours, theirs in zip(policy.agent.variables, agent.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    policy.act(outputs(1, 1)[0])
    policy.reset(4)
    first_eval_env = experiment_of(logdir).actors.num_training_envs
    env_ids = tf.range(first_eval_env, first_eval_env + 4)
    previous, state = tf.zeros([4], tf.int32), agent.initial_state(4)
    chosen = set()
    for call, output in enumerate(outputs(8, 4), start=1):
        arguments = tf.nest.map_structure(tf.convert_to_tensor, output)
        previous, _, state = agent.act(previous, arguments, state, env_ids, tf.constant([5, call]))
        actions = policy.act(output)
        np.testing.assert_array_equal(actions, previous)
        chosen |= set(actions.tolist())
    assert len(chosen) > 1, "a policy that always does the same shows nothing"


def test_a_step_of_another_shape_or_dtype_is_refused(saved_run):
    policy = load_policy(saved_run("catch/vtrace")[0])
    policy.reset(3)
    (output,), (fewer,) = outputs(1, 3), outputs(1, 2)
    for wrong, word in ((fewer, r"reward float32\[3\]"), (output.observation, "EnvOutput.*, got ndarray")):
        with pytest.raises(ValueError, match=word):
            policy.act(wrong)
    with pytest.raises(ValueError, match="num_envs"):
        policy.reset(0)
