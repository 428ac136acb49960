import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.evaluation.policy import NoPolicy, Policy, experiment_of, load_policy
from seed_rl.types import EnvOutput
from seed_rl.weights import checkpoints

CATCH = (10, 5, 1)
VTRACE = ("catch/vtrace", "VTrace.core = 'lstm'", "VTrace.core_units = 16", "VTrace.frame_stack = 3")
R2D2 = ("catch/r2d2", "R2D2.frame_stack = 3")


def outputs(steps, batch, shape=CATCH, done_every=7, seed=0):
    """Random outputs of B environments: episodes begin at once, and again every few steps."""
    rng = np.random.default_rng(seed)
    return [
        EnvOutput(
            reward=rng.normal(size=batch).astype(np.float32),
            done=np.full(batch, step % done_every == 0),
            last=np.zeros(batch, bool),
            observation=rng.integers(0, 256, (batch, *shape), np.uint8),
        )
        for step in range(steps)
    ]


def only_file(logdir):
    (name,) = os.listdir(f"{logdir}/checkpoints")
    return f"{logdir}/checkpoints/{name}"


@pytest.mark.parametrize(("config", "greedy"), [(VTRACE, False), (R2D2, True)], ids=["vtrace", "r2d2"])
def test_a_policy_acts_as_the_agent_that_wrote_its_checkpoint(saved_run, config, greedy):
    logdir, agent = saved_run(*config)
    policy = load_policy(logdir, greedy=greedy, seed=5)
    assert (policy.checkpoint, policy.env_frames) == (only_file(logdir), 700)
    policy.reset(4)
    first_eval_env = experiment_of(logdir).actors.num_training_envs
    env_ids = tf.range(first_eval_env, first_eval_env + 4)
    previous, state = tf.zeros([4], tf.int32), agent.initial_state(4)
    restored = previous, state
    chosen = set()
    for call, output in enumerate(outputs(10, 4), start=1):
        arguments = tf.nest.map_structure(tf.convert_to_tensor, output)
        seed = tf.constant([5, call])
        answer = agent.act(previous, arguments, state, env_ids, seed, greedy)
        same = policy.agent.act(restored[0], arguments, restored[1], env_ids, seed, greedy)
        for ours, theirs in zip(tf.nest.flatten(same.behaviour), tf.nest.flatten(answer.behaviour), strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg="logits, or values")
        actions = policy.act(output)
        np.testing.assert_array_equal(actions, answer.action)
        previous, state, restored = answer.action, answer.state, (same.action, same.state)
        chosen |= set(actions.tolist())
    assert len(chosen) > 1, "a policy that always does the same shows nothing"


def act_all(policy, steps):
    return np.array([policy.act(output) for output in steps])


def test_a_step_of_another_shape_or_dtype_is_refused(saved_run):
    policy = load_policy(saved_run("catch/vtrace")[0])
    policy.reset(3)
    (output,), (fewer,) = outputs(1, 3), outputs(1, 2)
    for wrong, sentence in (
        (fewer, r"reward must be float32 \[3\], got float32 \[2\], where the first dimension was set by `reset"),
        (output._replace(observation=output.observation[0]), r"must be uint8 \[3, 10, 5, 1\], got uint8 \[10, 5, 1\]"),
        (output._replace(done=[0, 1, 0]), r"done must be bool \[3\], got int64 \[3\]"),
    ):
        with pytest.raises(ValueError, match=sentence):
            policy.act(wrong)


@pytest.mark.parametrize("name", ["checkpoint-000000000007.npz", "7", "newest"])
def test_a_checkpoint_is_found_by_its_name_alone(saved_run, name):
    logdir, _ = saved_run("catch/vtrace")
    assert checkpoints.chosen(logdir, name)[0] == only_file(logdir)


def test_the_state_is_reset_where_an_episode_begins(saved_run):
    # Without the previous action as an input: it is all that an agent may know of the previous episode.
    bindings = ("R2D2.frame_stack = 3", "R2D2.previous_step_inputs = False")
    policy = load_policy(saved_run("catch/r2d2", *bindings)[0], greedy=True)
    steps = outputs(10, 32, done_every=100)
    policy.reset(32)
    alone = act_all(policy, steps)

    def after_another_episode(first):
        policy.reset(32)
        act_all(policy, outputs(10, 32, seed=1))
        return act_all(policy, [steps[0]._replace(done=np.full(32, first)), *steps[1:]])

    np.testing.assert_array_equal(after_another_episode(True), alone)
    assert (after_another_episode(False) != alone).any(), "it does depend on what was before"


def test_r2d2_explores_as_little_as_in_its_evaluation_environments(saved_run):
    logdir, agent = saved_run(*R2D2, "R2D2.epsilon_base = 1.0", "R2D2.eval_epsilon = 0.0")
    steps = outputs(20, 8)

    def actions(policy):
        policy.reset(8)
        return act_all(policy, steps)

    best = actions(load_policy(logdir, greedy=True))
    np.testing.assert_array_equal(actions(load_policy(logdir)), best)
    in_training = Policy(agent, experiment_of(logdir).env.spec(), first_eval_env=0)
    assert (actions(in_training) != best).mean() > 0.3, "in training environments it only explores"


@pytest.mark.parametrize("prefix", ["", "file://"], ids=["here", "in a store"])
def test_anything_missing_is_named(saved_run, prefix):
    here, _ = saved_run("catch/vtrace")
    logdir = f"{prefix}{here}"
    with pytest.raises(NoPolicy, match=f"^{logdir}/no is not the log .* of a run: {logdir}/no/config.json is missing"):
        load_policy(f"{logdir}/no")
    with pytest.raises(NoPolicy, match=f"^{logdir}/none.npz can't be read: .*No such file"):
        load_policy(logdir, f"{logdir}/none.npz")
    damaged = only_file(here).replace("0007", "0008")
    pathlib.Path(damaged).write_bytes(pathlib.Path(only_file(here)).read_bytes()[:-1000])
    with pytest.raises(NoPolicy, match=f"^{prefix}{damaged} is damaged"):
        load_policy(logdir, f"{prefix}{damaged}")
    shutil.rmtree(f"{here}/checkpoints")
    with pytest.raises(NoPolicy, match=f"^{logdir} has no checkpoint yet: the first is written after .* of training"):
        load_policy(logdir)
    pathlib.Path(here, "config.json").write_text('{"novelty": 1}')
    with pytest.raises(NoPolicy, match=f"^{logdir}/config.json can't be used: "):
        load_policy(logdir)


def test_a_checkpoint_of_another_agent_is_refused(saved_run):
    logdir, _ = saved_run("catch/vtrace")
    larger, _ = saved_run("catch/vtrace", "VTrace.hidden = 32")
    with pytest.raises(NoPolicy, match=r"shape \(50, 32\), needed is \(50, 64\)"):
        load_policy(logdir, only_file(larger))
    other, _ = saved_run("catch/r2d2")
    with pytest.raises(NoPolicy, match="is of another agent"):
        load_policy(logdir, only_file(other))
