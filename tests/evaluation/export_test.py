"""Exports are served by a process that can't import seed_rl."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from seed_rl.agents.vtrace.config import VTrace
from seed_rl.envs.gym import Gym
from seed_rl.evaluation.episodes import play
from seed_rl.evaluation.export import ABOUT, WEIGHTS, export
from seed_rl.evaluation.policy import Policy, experiment_of, load_policy
from tests.support.full_disk import largest_file

ONNX_EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "onnx_policy.py"
SERVING = """
import runpy, sys
sys.modules["seed_rl"] = None  # importing it would fail
import numpy as np
import tensorflow as tf

example, *directories = sys.argv[1:]
for directory in directories:
    steps = dict(np.load(f"{directory}/recorded.npz"))
    served = tf.saved_model.load(f"{directory}/export").signatures
    memory = served["initial_state"]()
    actions = []
    for step in range(len(steps["done"])):
        memory = served["greedy"](**{name: tf.constant(tensors[step]) for name, tensors in steps.items()}, **memory)
        memory["prev_action"] = memory.pop("action")
        actions.append(memory["prev_action"].numpy())
    np.save(f"{directory}/actions.npy", actions)
sys.argv[1:] = [f"{directories[0]}/export", f"{directories[0]}/policy.onnx"]
runpy.run_path(example, run_name="__main__")
"""


def record(policy, env, num_envs):
    """The outputs of some episodes, arrays [T, B, ...], and a policy's actions."""
    outputs = []
    play(policy, env.make(num_envs), 3 * num_envs, 1, outputs.append)
    policy.reset(num_envs)
    recorded = {
        name: np.array([getattr(output, name) for output in outputs]) for name in ("reward", "done", "observation")
    }
    return recorded, np.array([policy.act(output) for output in outputs])


def test_an_export_acts_as_the_policy_without_seed_rl_also_as_an_onnx_model(saved_run, tmp_path):
    acted = {}
    for config in (
        (
            *("catch/vtrace", "VTrace.core = 'lstm'", "VTrace.core_units = 16", "VTrace.frame_stack = 3"),
            "VTrace.dtype = 'mixed_bfloat16'",  # of which ONNX's runtime has no convolution
        ),
        ("catch/r2d2", "R2D2.frame_stack = 3"),
    ):
        logdir, _ = saved_run(*config)
        policy = load_policy(logdir, greedy=True, float32=True)
        recorded, actions = record(policy, experiment_of(logdir).env, num_envs=3)
        assert recorded["done"].sum() >= 3 * 3, "states are reset on the way"
        assert len(np.unique(actions)) > 1
        np.savez(f"{logdir}/recorded.npz", **recorded)
        export(policy, f"{logdir}/export", batch=3)
        acted[logdir] = recorded, actions
    empty = tmp_path / "empty"
    empty.mkdir()
    command = [sys.executable, "-I", "-c", SERVING, ONNX_EXAMPLE, *acted]
    done = subprocess.run(command, cwd=empty, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for logdir, (_, actions) in acted.items():
        np.testing.assert_array_equal(np.load(f"{logdir}/actions.npy"), actions)

    logdir, (recorded, actions) = next(iter(acted.items()))
    session = onnxruntime.InferenceSession(f"{logdir}/policy.onnx")
    memory = {name: tensor.numpy() for name, tensor in signatures(f"{logdir}/export")["initial_state"]().items()}
    names = [output.name for output in session.get_outputs()]
    for step, expected in enumerate(actions):
        inputs = {name: tensors[step] for name, tensors in recorded.items()} | memory
        outputs = dict(zip(names, session.run(None, inputs), strict=True))
        np.testing.assert_array_equal(outputs["action"], expected)
        memory = {name.removeprefix("next_"): value for name, value in outputs.items() if name != "action"}
        memory["prev_action"] = outputs["action"]


def signatures(directory):
    return tf.saved_model.load(str(directory)).signatures


def test_sampled_actions_depend_on_the_seed_and_greedy_ones_do_not_take_one(saved_run, tmp_path):
    export(load_policy(saved_run("catch/vtrace")[0]), str(tmp_path / "export"), batch=64)
    served = signatures(tmp_path / "export")
    inputs = {
        "reward": tf.zeros([64]),
        "done": tf.ones([64], tf.bool),
        "observation": tf.zeros([64, 10, 5, 1], tf.uint8),
        **served["initial_state"](),
    }
    first, again, other = (
        served["sample"](seed=tf.constant(seed), **inputs)["action"].numpy() for seed in ([1, 1], [1, 1], [1, 2])
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert "seed" not in served["greedy"].structured_input_signature[1]
    assert len(set(served["greedy"](**inputs)["action"].numpy())) == 1


def test_tensors_are_named_after_those_of_the_environment(tmp_path):
    env = Gym("tests.support.registered_envs:Echo-v0", options='{"senses": "nested", "levers": "choices"}')
    spec = env.spec()
    policy = Policy(VTrace(hidden=8).build(spec, 1, 0), spec, 1, greedy=True)
    export(policy, str(tmp_path / "export"), batch=1)
    served = signatures(tmp_path / "export")["serving_default"]
    names = {name for name in served.structured_input_signature[1] if name.startswith("observation")}
    assert names == {
        *("observation_camera_left", "observation_camera_right"),
        *("observation_mode", "observation_pair_0", "observation_pair_1"),
    }


def test_the_weights_fit_into_the_network_of_the_same_configuration(saved_run, tmp_path):
    logdir, agent = saved_run("catch/r2d2")
    export(load_policy(logdir), str(tmp_path / "export"), batch=1)
    fresh = experiment_of(logdir).build_agent()
    fresh.model.load_weights(tmp_path / "export" / WEIGHTS)
    for loaded, saved in zip(fresh.model.variables, agent.model.variables, strict=True):
        np.testing.assert_array_equal(loaded.numpy(), saved.numpy())
    variables = tf.train.list_variables(str(tmp_path / "export" / "variables" / "variables"))
    exported = sum(int(np.prod(shape)) for name, shape in variables if "CHECKPOINTABLE" not in name)
    assert exported == agent.model.count_params(), "no target network, and no optimizer"


def test_an_export_says_where_it_is_from_and_a_newer_one_replaces_it(saved_run, tmp_path):
    policy = load_policy(saved_run("catch/vtrace")[0])
    directory = tmp_path / "new" / "export"
    export(policy, str(directory), batch=2)
    about = json.loads((directory / ABOUT).read_text())
    assert (about["checkpoint"], about["env_frames"], about["batch"]) == (policy.checkpoint, 700, 2)
    export(policy, str(directory), batch=5)
    assert json.loads((directory / ABOUT).read_text())["batch"] == 5
    assert os.listdir(directory.parent) == ["export"], "nothing is left behind"
    assert directory.stat().st_mode & 0o777 == 0o755


def test_other_directories_are_not_overwritten(saved_run, tmp_path):
    policy = load_policy(saved_run("catch/vtrace")[0])
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis").touch()
    with pytest.raises(FileExistsError, match="precious already exists and is not an export"):
        export(policy, str(tmp_path / "precious"), batch=1)
    with pytest.raises(OSError, match="thesis"):
        export(policy, str(tmp_path / "precious" / "thesis" / "export"), batch=1)
    assert os.listdir(tmp_path / "precious") == ["thesis"]


def test_an_export_that_fails_leaves_nothing(saved_run, tmp_path):
    policy = load_policy(saved_run("catch/vtrace")[0])
    with largest_file(5_000), pytest.raises(OSError, match="File too large|can't be written"):
        export(policy, str(tmp_path / "export"), batch=1)
    assert [name for name in os.listdir(tmp_path) if "export" in name] == []
