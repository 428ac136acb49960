"""An actor whose numbers could spoil updates, beside an honest one; and weights that spoil them all."""

import threading

import numpy as np
import pytest

from seed_rl.experiment import config_files
from seed_rl.learner.building import build_learner
from seed_rl.learner.learner import PATIENCE
from seed_rl.reporting.learning import Diverged
from seed_rl.transport.client import Disconnected, LearnerClient, Rejected
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from seed_rl.types import EnvOutput

SMALL = (
    "VTrace.hidden = 8",
    "VTrace.unroll_length = 4",
    "Experiment.batch_size = 4",
    "Experiment.passes = 1",
    "Experiment.minibatches = 1",
    "Actors.num_actors = 2",
    "Actors.groups_per_actor = 1",
    "Actors.envs_per_group = 2",
    "Inference.max_batch_size = 2",
    "Logs.metrics_interval_s = 0.2",
)


@pytest.fixture
def settings():
    return []


@pytest.fixture
def learner(settings, tmp_path):
    experiment = config_files.load(["gym/cartpole"], [*SMALL, *settings])
    learner = build_learner(experiment, str(tmp_path), f"unix:{tmp_path}/learner.sock", ServerSecurity())
    yield learner
    learner.close()


@pytest.fixture
def play(learner):
    """Starts an actor in a thread that sends one observation again and again; gives a list for what ended it."""
    address, threads, over = learner.listen(), [], threading.Event()

    def start(name, observation):
        client, ended = LearnerClient(address, ClientSecurity()), []

        def run():
            spec = config_files.load(["gym/cartpole"]).env_spec()
            done = np.ones(2, bool)  # every step begins an episode
            output = EnvOutput(np.ones(2, np.float32), done, ~done, np.full((2, 4), observation, np.float32))
            try:
                stream = client.open(client.join(name, spec, [2], timeout=30.0), 0, spec)
                while not over.is_set():
                    stream.step(output)
            except (Disconnected, Rejected) as error:
                ended.append(error)
            finally:
                client.close()

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return ended

    yield start
    over.set()
    learner.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_an_actor_whose_numbers_could_overflow_is_refused_while_the_run_goes_on(learner, play):
    honest = play("honest", 0.1)
    rows = learner.train(threading.Event())
    next(row for row in rows if row["learner_updates"] > 3)
    evil = play("evil", 3e38)  # finite, but no product with it is
    for row in rows:
        if evil and row["environments"] == 2 and row["updates_per_second"] > 0:
            break
    rows.close()
    assert isinstance(evil[0], Rejected), evil
    assert str(evil[0]).startswith("observation must be in [-1e+08, 1e+08] (Inference.max_observation), got 3e+38")
    assert not honest
    assert row["left_out_steps"] == 0
    assert all(np.isfinite(value) for value in row.values())


@pytest.mark.parametrize("settings", [["Optimizer.learning_rate = 1e30"]])
def test_weights_that_give_no_finite_gradient_end_the_run(learner, play, caplog):
    play("honest", 0.1)
    with pytest.raises(Diverged, match=f"gradients of {PATIENCE} updates in a row were not finite"):
        list(learner.train(threading.Event()))
    assert learner.counters.left_out_steps == PATIENCE
    assert caplog.text.count("were left out: their gradients are not finite") == 1
