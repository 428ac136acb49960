"""The examples of the documentation run and learn."""

import importlib
import os
import pathlib
import signal
import subprocess
import sys

import nbformat
import numpy as np
import pytest
import tensorflow as tf

from scripts import outputs
from seed_rl.api import Run, evaluate_run, load_experiment
from seed_rl.buffers.samplers import sampler_class
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from tests.support.deadlines import within
from tests.support.experience import acted_unroll, move

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module
    for path in EXAMPLES.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_catch_is_trained_from_python(example, tmp_path, capsys):
    mean = example("train_catch").main(str(tmp_path), total_frames=3_000)
    assert f"greedy: {mean:.2f} on average over 100 episodes" in capsys.readouterr().out


def test_the_notebook_trains_plots_and_shows_a_film_as_it_is_stored():
    notebook = nbformat.read(EXAMPLES / "catch.ipynb", as_version=4)
    stored = [[output.output_type for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]
    training = next(cell for cell in notebook.cells if "200_000" in cell.source)
    training.source = training.source.replace("200_000", "4_000")
    outputs.run_cells(notebook, seconds=int(within(240)))
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert [[output.output_type for output in cell] for cell in cells] == stored
    shown = [kind for cell in cells for output in cell for kind in output.get("data", {})]
    assert {"image/png", "image/gif"} <= set(shown)


def test_examples_are_as_short_as_their_pages_say():
    most = {"custom_agent": 149, "impala_in_one_page": 249, "reward_prediction": 40, "two_inputs": 60}
    lines = {name: len((EXAMPLES / f"{name}.py").read_text().splitlines()) for name in most}
    assert [name for name in most if lines[name] > most[name]] == []


def test_impala_on_one_page_learns(example):
    assert example("impala_in_one_page").main(updates=90) > 0.0  # random play has -0.6


def test_a_custom_agent_learns(example, tmp_path):
    example("custom_agent")
    small = ["Experiment.total_frames = 24_000", "Catch.rows = 6", "Catch.columns = 3"]
    experiment = load_experiment([str(EXAMPLES / "custom_agent.gin")], small)
    with Run(experiment, str(tmp_path)) as run:
        rows = list(run.train())
    assert {"loss/policy", "policy/clipped"} <= set(rows[-1])
    assert evaluate_run(str(tmp_path), episodes=50, greedy=True).mean > 0.8


def test_an_auxiliary_loss_is_learned_and_not_stored_while_acting(example):
    example("reward_prediction")
    experiment = load_experiment([str(EXAMPLES / "reward_prediction.gin")])
    agent = experiment.build_agent()
    unroll = acted_unroll(agent, batch=4)
    assert unroll.behaviour._fields == ("policy", "baseline")
    update = TrainStep(agent, experiment.optimizer)
    first, *_, last = [update(unroll, 0.0, np.ones(4)).metrics for _ in range(50)]
    terms = {name: value for name, value in first.items() if name.startswith("loss/") and name != "loss/total"}
    assert {"loss/policy", "loss/reward"} < set(terms)
    assert first["loss/total"] == pytest.approx(sum(terms.values()), rel=1e-5)
    assert last["loss/reward"] < 0.8 * first["loss/reward"]


def test_a_network_sees_both_of_its_inputs(example):
    example("two_inputs")
    tensors = {"picture": ArraySpec((40, 40, 1), "uint8"), "vector": ArraySpec((3,), "float32")}
    bindings = ["Experiment.batch_size=4", "VTrace.fusion='two_inputs:Film'", "VTrace.torso='shallow'"]
    experiment = load_experiment(["catch/vtrace"], bindings)
    agent = experiment.agent.build(EnvSpec(tensors, DiscreteSpec(3)), num_training_envs=4, seed=1)
    parts = {v.path.split("/")[-2] for v in agent.model.trainable_variables if "/fusion/" in v.path}
    assert parts == {"picture", "scale", "shift"}
    unroll = acted_unroll(agent, batch=4)
    move(agent, seed=1, scale=0.05)

    def policy(**changed):
        steps = unroll.env_output._replace(observation=unroll.env_output.observation | changed)
        return agent.model(unroll.prev_action, steps, unroll.initial_state)[0].policy

    for name, tensor in unroll.env_output.observation.items():
        assert np.any(policy(**{name: tf.zeros_like(tensor)}) != policy()), f"{name} counts"


def test_a_sampler_of_ones_own_draws_by_rank(example):
    example("rank_sampler")
    replay = load_experiment(["catch/r2d2"], ["Replay.sampler='rank_sampler:RankSampler'"]).replay
    sampler = sampler_class(replay.sampler)(4, 6, 1, 1.0, 0.5)
    sampler.insert(np.array([0, 1], np.int32), np.array([9.0, 0.1]))
    sampler.insert(np.array([2, 3, 4], np.int32), np.array([1e9, 0.3, 0.2]))  # evicts the first
    slots, weights, _ = sampler.sample(4000)
    chances = {2: 12 / 25, 3: 6 / 25, 4: 4 / 25, 1: 3 / 25}
    for slot, chance in chances.items():
        assert np.mean(slots == slot) == pytest.approx(chance, abs=0.03)
        np.testing.assert_allclose(weights[slots == slot], np.sqrt(3 / 25 / chance), rtol=1e-5)


@pytest.mark.parametrize(
    ("script", "number", "code", "printed"),
    [
        ("slurm.sh", signal.SIGUSR1, 128 + signal.SIGUSR1, "requeue 7\n"),
        ("slurm.sh", signal.SIGUSR1, 1, ""),
        ("slurm.sh", signal.SIGTERM, 128 + signal.SIGTERM, ""),
        ("slurm_learner.sh", signal.SIGUSR1, 128 + signal.SIGUSR1, "requeue 7\ncancel 9\n"),
        ("slurm_learner.sh", signal.SIGTERM, 128 + signal.SIGTERM, "cancel 9\n"),
    ],
)
def test_a_job_of_slurm_passes_its_signal_on_and_is_queued_again_if_its_time_ended_the_run(
    tmp_path, script, number, code, printed
):
    for name, text in {
        "seed_rl": f"trap 'sleep 0.2; exit {code}' {number:d}; echo started; for n in {{1..600}}; do sleep 0.1; done",
        "scontrol": 'echo "$@"',
        "sbatch": "echo 9",
        "scancel": 'echo cancel "$@"',
    }.items():
        _stand_in(tmp_path / name, text)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    with subprocess.Popen(["bash", EXAMPLES / script], env=environment, stdout=-1, text=True) as job:
        assert job.stdout.readline() == "started\n"
        job.send_signal(number)
        assert job.communicate(timeout=within(20)) == (printed, None)
    assert job.returncode == code


def test_a_job_of_slurm_starts_an_actor_for_each_of_its_cores(tmp_path):
    _stand_in(tmp_path / "seed_rl", 'echo "$1 $2"')
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "2"}
    job = ["bash", EXAMPLES / "slurm_actors.sh", "node7:8686"]
    output = subprocess.run(job, env=environment, capture_output=True, text=True, check=True).stdout
    assert output == 2 * "actor --server_address=node7:8686\n"


def _stand_in(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
