"""An actor whose numbers could spoil updates, beside an honest one; and weights that spoil them all."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from seed_rl.experiment import config_files
from seed_rl.learner.actor_server import server_of
from seed_rl.learner.learner import PATIENCE
from seed_rl.reporting.learning import Diverged
from seed_rl.transport.client import Disconnected, LearnerClient, Rejected
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from seed_rl.types import EnvOutput
from tests.support.deadlines import within
from tests.support.learners import learner_of

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


def play(experiment, address, observation):
    """Sends one observation again and again; returns what ended it."""
    spec, done = experiment.env_spec(), np.ones(2, bool)  # every step begins an episode
    output = EnvOutput(np.ones(2, np.float32), done, ~done, np.full((2, 4), observation, np.float32))
    with contextlib.closing(LearnerClient(address, ClientSecurity())) as client:
        stream = client.open(client.join("run", spec, [2], timeout=within(30)), 0, spec)
        try:
            while True:
                stream.step(output)
        except (Disconnected, Rejected) as error:
            return error


def test_numbers_beyond_the_bounds_end_their_actor_and_weights_beyond_help_the_run(tmp_path, caplog):
    experiment = config_files.load(["gym/cartpole"], SMALL)
    server = server_of(experiment, f"unix:{tmp_path}/learner.sock", ServerSecurity())
    learner = learner_of(experiment, tmp_path)
    server.service = learner.service
    address = server.start()
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as cleanup:
        cleanup.callback(server.stop, grace=0.5)
        cleanup.callback(learner.service.stop)
        honest = pool.submit(play, experiment, address, 0.1)
        rows = learner.train(threading.Event())
        next(row for row in rows if row["learner_updates"] > 3)
        evil = play(experiment, address, 2e8)
        assert isinstance(evil, Rejected)
        assert str(evil).startswith("observation must be in [-1e+08, 1e+08], got 2e+08")
        row = next(row for row in rows if row["updates_per_second"] > 0)
        assert all(np.isfinite(value) for value in row.values())
        assert row["left_out_steps"] == 0
        assert not honest.done()

        for variable in learner.agent.model.trainable_variables:
            variable.assign(np.full(variable.shape, 1e30))
        with pytest.raises(Diverged, match=f"gradients of {PATIENCE} updates in a row were not finite"):
            list(rows)
        assert learner.counters.left_out_steps == PATIENCE
        assert caplog.text.count("were left out: their gradients are not finite") == 1
    assert isinstance(honest.result(), Disconnected)
