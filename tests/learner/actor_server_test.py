"""What actors can do while their learner is still loading."""

import contextlib

import pytest

from seed_rl.experiment import ConfigError, config_files
from seed_rl.learner.actor_server import server_of
from seed_rl.specs import ActorSettings
from seed_rl.transport.client import Disconnected, LearnerClient
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from tests.support.deadlines import within


def test_actors_learn_which_environments_to_build_and_wait_to_join(tmp_path):
    experiment = config_files.load(["catch/vtrace"], ["Catch.rows = 300", "Catch.columns = 300"])  # a large step
    server = server_of(experiment, f"unix:{tmp_path}/learner.sock", ServerSecurity())
    with contextlib.closing(LearnerClient(server.start(), ClientSecurity())) as client:
        spec = experiment.env_spec()
        assert client.describe(timeout=within(5)) == ActorSettings(experiment.env.describe(), 2, 16, spec)
        with pytest.raises(Disconnected, match="the learner is still loading"):
            client.join("run", experiment.env_spec(), [2], timeout=1.6)  # more tries than a host may have refused
    server.stop(grace=0.5)


def test_actors_learn_in_which_environments_to_evaluate(tmp_path):
    evaluating = ["Actors.num_eval_envs = 16", 'Actors.eval_options = {"rows": 12}']
    experiment = config_files.load(["catch/vtrace"], [*evaluating, "Catch.rows = 12", "Catch.columns = 3"])
    assert experiment.eval_env == experiment.env
    with pytest.raises(ConfigError, match=r"keep spaces and players: .*\[10, 5, 1\].* in training, .*\[12, 5, 1\]"):
        server_of(config_files.load(["catch/vtrace"], evaluating), f"unix:{tmp_path}/other.sock", ServerSecurity())
    evaluating[1] = 'Actors.eval_options = {"delay": 3}'
    server = server_of(config_files.load(["memory/r2d2"], evaluating), f"unix:{tmp_path}/l.sock", ServerSecurity())
    with contextlib.closing(LearnerClient(server.start(), ClientSecurity())) as client:
        settings = client.describe(timeout=within(5))
    assert (settings.env.options["delay"], settings.eval_env.options["delay"], settings.first_eval_id) == (10, 3, 16)
    server.stop(grace=0.5)
