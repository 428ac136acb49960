"""What actors can do while their learner is still loading."""

import contextlib

import pytest

from seed_rl.experiment import config_files
from seed_rl.learner.actor_server import server_of
from seed_rl.specs import ActorSettings
from seed_rl.transport.client import Disconnected, LearnerClient
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from tests.support.deadlines import within


def test_actors_learn_which_environments_to_build_and_wait_to_join(tmp_path):
    experiment = config_files.load(["catch/vtrace"])
    server = server_of(experiment, f"unix:{tmp_path}/learner.sock", ServerSecurity())
    with contextlib.closing(LearnerClient(server.start(), ClientSecurity())) as client:
        spec = experiment.env_spec()
        assert client.describe(timeout=within(5)) == ActorSettings(experiment.env.describe(), 2, 16, spec)
        with pytest.raises(Disconnected, match="the learner is still loading"):
            client.join("run", experiment.env_spec(), [2], timeout=1.6)  # more tries than a host may have refused
    server.stop(grace=0.5)
