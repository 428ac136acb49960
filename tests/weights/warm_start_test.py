"""The weights that a new run takes from another one."""

import dataclasses
import os

import numpy as np
import pytest

from seed_rl.experiment import config_files
from seed_rl.specs import DiscreteSpec, EnvSpec
from seed_rl.weights import checkpoints
from seed_rl.weights.checkpoints import CheckpointError
from seed_rl.weights.warm_start import warm_start

PIXELS = ("catch/vtrace", "VTrace.core = 'lstm'", "VTrace.core_units = 8")
WORDS = ("memory/r2d2",)


@pytest.fixture
def saved(tmp_path):
    """The log directory of a run whose weights are all 0.5, 700 frames old."""

    def save(config, *bindings):
        experiment, logdir = config_files.load([config], bindings), str(tmp_path / "run")
        config_files.save_config(experiment, logdir)
        variables = checkpoints.name_variables("agent", experiment.build_agent().variables)
        arrays = {name: np.full(variable.shape, 0.5, np.float32) for name, variable in variables.items()}
        (tmp_path / "run/checkpoints").mkdir()
        checkpoints.save(f"{logdir}/checkpoints", 7, arrays, {"counters": {"env_frames": 700}}, keep=3)
        checkpoints.write(f"{logdir}/checkpoints/best.npz", arrays, {"counters": {"env_frames": 600}})
        return logdir

    return save


def started(init_from, config, *bindings, actions=None):
    """Whether a new agent has taken each variable, with its path, and the sentence."""
    experiment = dataclasses.replace(config_files.load([config], bindings), init_from=init_from)
    spec = experiment.env_spec()
    agent = experiment.agent.build(EnvSpec(spec.observation, DiscreteSpec(actions or spec.action.n)), 4, seed=1)
    sentence = warm_start(agent, experiment)
    return [(variable.path, np.all(variable.numpy() == 0.5)) for variable in agent.variables], sentence


@pytest.mark.parametrize("place", ["", "/", "/best", "/checkpoints/checkpoint-000000000007.npz", "/best.npz"])
def test_the_same_network_gets_all_weights_of_a_run_or_a_checkpoint(saved, place):
    logdir = saved(*PIXELS)
    variables, sentence = started(logdir + place, *PIXELS, "Optimizer.learning_rate = 0.1")
    assert len(variables) == 9
    assert all(taken for _, taken in variables)
    frames = "best.npz (600 frames)" if "best" in place else "checkpoint-000000000007.npz (700 frames)"
    assert sentence == f"starting with all weights of {logdir}/checkpoints/{frames}"


def test_another_number_of_actions_leaves_those_parts_of_the_trunk_that_match(saved):
    logdir = saved(*WORDS)
    variables, sentence = started(logdir, *WORDS, actions=6)
    assert {path.split("/")[2] for path, taken in variables if taken} == {"torso_0", "core"}
    assert all(taken == ("/trunk/" in path) for path, taken in variables), "in both networks"
    assert sentence == (
        f"starting with the trunk's core, torso_0 of {logdir}/checkpoints/checkpoint-000000000007.npz (700 frames); "
        "everything else is new: q_network/advantage/kernel has shape [32, 4] there and [32, 6] here"
    )


def test_published_weights_lack_the_target_network_and_set_it(saved):
    logdir = saved(*WORDS)
    path, arrays, state = checkpoints.chosen(logdir, None)
    names = checkpoints.variables_for(config_files.load(WORDS).build_agent())
    assert 0 < len(names) < len(arrays)
    checkpoints.write(f"{logdir}/model.safetensors", {name: arrays[name] for name in names}, state)
    os.remove(path)
    variables, sentence = started(logdir, *WORDS)
    assert [taken for _, taken in variables] == [True] * len(arrays)
    assert sentence == f"starting with all weights of {logdir}/model.safetensors (700 frames)"


@pytest.mark.parametrize(
    ("place", "config", "sentence"),
    [
        (
            "/no/where/at/all",
            PIXELS,
            "{}/no/where/at/all is not a log directory, a checkpoint in one, or a pretrained",
        ),
        ("/no.npz", PIXELS, "{}/checkpoints/no.npz can't be read: .*No such file"),
        ("", WORDS, "the agent of {} is 'VTrace', expected R2D2"),
        ("", ("catch/vtrace",), r"has other layers: 9 arrays of weights, expected 6"),
        (
            "",
            (*PIXELS, "VTrace.hidden = 9", "VTrace.core_units = 9"),
            r"fits: .*/kernel has shape \[50, 64\] there and",
        ),
    ],
)
def test_what_does_not_fit_is_a_sentence(saved, place, config, sentence):
    logdir = saved(*PIXELS)
    with pytest.raises(CheckpointError, match=sentence.format(logdir)):
        started(logdir + place, *config)
