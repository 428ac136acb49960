"""The weights that a new run takes from another one."""

import dataclasses
import shutil

import numpy as np
import pytest

from seed_rl.agents.pqn import PQN
from seed_rl.experiment import config_files
from seed_rl.specs import DiscreteSpec, EnvSpec
from seed_rl.weights import checkpoints
from seed_rl.weights.checkpoints import CheckpointError
from seed_rl.weights.warm_start import warm_start
from tests.evaluation import conftest as evaluation

saved_run = evaluation.saved_run

PIXELS = ("catch/vtrace", "VTrace.core = 'lstm'", "VTrace.core_units = 8")
WORDS = ("memory/r2d2",)


def started(saved_agent, init_from, config, *bindings, actions=None, strict=True):
    """Whether a new agent has taken each variable of the saved one, with its path, and the sentence."""
    experiment = dataclasses.replace(config_files.load([config], bindings), init_from=init_from)
    spec = experiment.env_spec()
    agent = experiment.agent.build(EnvSpec(spec.observation, DiscreteSpec(actions or spec.action.n)), 4, seed=1)
    sentence = warm_start(agent, experiment)
    pairs = zip(agent.variables, saved_agent.variables, strict=strict)
    return [(own.path, np.array_equal(own, other)) for own, other in pairs], sentence


def test_the_same_network_gets_all_weights_of_a_run_or_a_checkpoint(saved_run):
    logdir, agent = saved_run(*PIXELS)
    newest = "checkpoint-000000000007.npz"
    shutil.copy(f"{logdir}/checkpoints/{newest}", f"{logdir}/checkpoints/best.npz")
    for place, name in (("/", newest), ("/best", "best.npz"), (f"/checkpoints/{newest}", newest)):
        variables, sentence = started(agent, logdir + place, *PIXELS, "Optimizer.learning_rate = 0.1")
        assert len(variables) == 9
        assert all(taken for _, taken in variables)
        assert sentence == f"starting with all weights of {logdir}/checkpoints/{name} (700 frames)"


def test_another_number_of_actions_leaves_those_parts_of_the_trunk_that_match(saved_run):
    logdir, agent = saved_run(*WORDS)
    agent.after_update(0)
    variables, sentence = started(agent, logdir, *WORDS, actions=6)
    assert {path.split("/")[2] for path, taken in variables if taken} == {"torso_0", "core"}
    assert all(taken == ("/trunk/" in path) for path, taken in variables), "in both networks"
    assert sentence == (
        f"starting with the trunk's core, torso_0 of {logdir}/checkpoints/checkpoint-000000000007.npz (700 frames); "
        "everything else is new: q_network/advantage/kernel has shape [32, 4] there and [32, 6] here"
    )


def test_weights_that_lack_the_target_network_set_it(saved_run):
    logdir, agent = saved_run(*WORDS)
    path, arrays, state = checkpoints.chosen(logdir, None)
    names = checkpoints.variables_for(agent)
    assert 0 < len(names) < len(arrays)
    checkpoints.write(path, {name: arrays[name] for name in names}, state)
    agent.after_update(0)  # sets its target network
    variables, sentence = started(agent, logdir, *WORDS)
    assert [taken for _, taken in variables] == [True] * len(arrays)
    assert sentence == f"starting with all weights of {path} (700 frames)"


EXPLORES = ("catch/vtrace", f"Experiment.agent = @{PQN.__name__}()")
FALLS, STAYS = ((*WORDS, f"R2D2.epsilon_updates = {updates}") for updates in (100, 0))


@pytest.mark.parametrize(("there", "here"), [(EXPLORES, EXPLORES), (FALLS, STAYS), (STAYS, FALLS)])
def test_exploration_starts_anew_and_may_fall_in_one_run_alone(saved_run, there, here):
    logdir, agent = saved_run(*there)
    agent.after_update(0)
    variables, sentence = started(agent, logdir, *here, strict=False)
    assert all(taken for _, taken in variables)
    assert sentence.startswith("starting with all weights of ")


def test_what_does_not_fit_is_refused(saved_run):
    logdir, agent = saved_run(*PIXELS)
    for place, config, word in (
        ("/no/where/at/all", PIXELS, "is not a log directory"),
        ("/no.npz", PIXELS, "can't be read"),
        ("", WORDS, "'VTrace', expected R2D2"),
        ("", ("catch/vtrace",), "other layers"),
        ("", (*PIXELS, "VTrace.hidden = 9", "VTrace.core_units = 9"), r"\[50, 64\]"),
    ):
        with pytest.raises(CheckpointError, match=word):
            started(agent, logdir + place, *config)
