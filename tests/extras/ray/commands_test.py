"""The flags with which Ray starts a run."""

from types import SimpleNamespace

import pytest

from seed_rl.cli import flags
from seed_rl.errors import UsageError
from seed_rl.extras.ray.commands import OPTION
from seed_rl.runs.fleet import PROCESSES

ON_RAY = "train catch/vtrace --launcher=ray"
TWO_ON_RAY = "--insecure --num_learners=2 --trusted_network"
TWO_HOSTS = "--learner_hosts=localhost:1,localhost:2 --learner_host=0"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("train catch/vtrace --min_actors=1", "--min_actors needs --launcher=ray"),
        ("learner catch/vtrace --launcher=ray", "seed_rl train"),
        (ON_RAY, "--insecure"),
        (f"{ON_RAY} --server_address=unix:/x", "HOST:PORT"),
        (f"{ON_RAY} --tls_key=x", "--tls_cert is missing"),
        (f"{ON_RAY} --min_actors=2", "--min_actors=2 exceeds"),
        (f"{ON_RAY} --insecure --num_learners=2", "--trusted_network"),
        (f"{ON_RAY} --insecure --num_learners=2 {TWO_HOSTS}", "give one"),
        (f"{ON_RAY} {TWO_ON_RAY} --record", "--record needs a single learner host"),
        (f"train pettingzoo/connect_four --launcher=ray {TWO_ON_RAY}", "a league needs a single learner host"),
    ],
)
def test_a_mistake_gets_one_sentence(line, sentence, refused):
    refused(line, sentence)


def test_without_the_neighbour_that_connects_learners_ray_starts_a_single_one(small_catch):
    values = flags.FlagValues()
    for define in (OPTION.flags, flags.SECURITY, flags.integer("num_actors", None, "")):
        define(flag_values=values, module_name="flags")
    values(["seed_rl train", "--launcher=ray", "--num_learners=2"])
    run = SimpleNamespace(experiment=small_catch, actors=PROCESSES, address="host:1", security=None)
    with pytest.raises(UsageError, match="seed_rl.extras.hosts, which is not installed"), OPTION.apply(values, run):
        pass
