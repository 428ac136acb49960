"""Exports: SavedModels, and what becomes of them."""

import contextlib
import json
import os
import pathlib

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from seed_rl.cli.main import main
from seed_rl.evaluation.episodes import play
from seed_rl.evaluation.policy import experiment_of, load_policy
from seed_rl.extras.sharing.export import export, new_directory
from seed_rl.extras.sharing.published import ABOUT


def signatures(directory):
    return tf.saved_model.load(str(directory)).signatures


def test_an_export_and_the_onnx_model_of_it_act_as_the_policy(saved_run, tmp_path):
    settings = ("R2D2.frame_stack = 3", "R2D2.dtype = 'mixed_bfloat16'")  # of which ONNX's runtime has no convolution
    logdir, agent = saved_run("catch/r2d2", *settings)
    policy = load_policy(logdir, greedy=True, float32=True)
    steps = []
    play(policy, experiment_of(logdir).env.make(3), 3 * 3, 1, steps.append)
    assert sum(step.done.sum() for step in steps) >= 3 * 3, "states are reset on the way"
    policy.reset(3)
    expected = [policy.act(step) for step in steps]
    assert len(np.unique(expected)) > 1

    exported, onnx = str(tmp_path / "export"), str(tmp_path / "policy.onnx")
    export(policy, exported, batch=3)
    served = signatures(exported)
    about = json.loads(pathlib.Path(exported, ABOUT).read_text())
    assert (about["checkpoint"], about["env_frames"], about["batch"]) == (os.path.basename(policy.checkpoint), 700, 3)
    variables = tf.train.list_variables(f"{exported}/variables/variables")
    saved = sum(int(np.prod(shape)) for name, shape in variables if "CHECKPOINTABLE" not in name)
    assert saved == agent.model.count_params(), "no target network, and no optimizer"
    assert main(["export", f"--logdir={logdir}", "--format=onnx", f"--output={onnx}", "--batch_size=3"]) == 0
    session = onnxruntime.InferenceSession(onnx)
    names = [output.name.removeprefix("next_") for output in session.get_outputs()]

    def on_onnx(**inputs):
        arrays = {name: np.array(value) for name, value in inputs.items()}
        return dict(zip(names, session.run(None, arrays), strict=True))

    first = served["initial_state"]()
    for act, memory in ((served["greedy"], first), (on_onnx, {name: np.zeros_like(x) for name, x in first.items()})):
        for step, actions in zip(steps, expected, strict=True):
            given = {name: tf.constant(getattr(step, name)) for name in ("reward", "done", "observation")}
            memory = act(**given, **memory)
            memory["prev_action"] = memory.pop("action")
            np.testing.assert_array_equal(memory["prev_action"], actions)


def test_a_policy_whose_critic_reads_more_is_exported_and_acts_without_that(run_with_critic_keys, tmp_path):
    logdir = run_with_critic_keys(("mode", "camera/left"))
    policy = load_policy(logdir, greedy=True)
    seen = [name for name, _ in policy.env_spec.observation_tensors()]
    assert seen == ["camera/right", "pair/0", "pair/1"]
    steps = []
    play(policy, experiment_of(logdir).env.make(3), 3, 1, steps.append)
    policy.reset(3)
    expected = policy.act(steps[0])
    policy.reset(3)
    less = steps[0]._replace(observation={name: steps[0].observation[name] for name in seen})
    np.testing.assert_array_equal(policy.act(less), expected)
    export(policy, str(tmp_path / "export"), batch=3)
    inputs = signatures(tmp_path / "export")["greedy"].structured_input_signature[1]
    served = {name.replace("/", "_") for name in seen}
    assert {name.removeprefix("observation_") for name in inputs if name.startswith("observation")} == served


def test_sampled_actions_depend_on_the_seed_and_greedy_ones_do_not_take_one(saved_run, tmp_path):
    export(load_policy(saved_run("catch/vtrace")[0]), str(tmp_path / "export"), batch=64)
    served = signatures(tmp_path / "export")
    begin, observation = tf.ones([64], tf.bool), tf.zeros([64, 10, 5, 1], tf.uint8)
    inputs = {"reward": tf.zeros([64]), "done": begin, "observation": observation, **served["initial_state"]()}
    seeds = map(tf.constant, ([1, 1], [1, 1], [1, 2]))
    first, again, other = (served["sample"](seed=seed, **inputs)["action"].numpy() for seed in seeds)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert "seed" not in served["greedy"].structured_input_signature[1]
    assert len(set(served["greedy"](**inputs)["action"].numpy())) == 1


def test_a_directory_appears_when_it_is_complete_and_replaces_only_an_export(tmp_path):
    directory = tmp_path / "new" / "export"
    for text in ("first", "second"):
        with new_directory(str(directory)) as new:
            pathlib.Path(new, ABOUT).write_text(text)
    with contextlib.suppress(KeyError), new_directory(str(directory)):
        raise KeyError
    assert os.listdir(tmp_path / "new") == ["export"]
    assert (directory / ABOUT).read_text() == "second"
    (directory / ABOUT).rename(directory / "thesis")
    with pytest.raises(OSError, match="is not an export"):
        new_directory(str(directory)).__enter__()
    assert os.listdir(directory) == ["thesis"]
