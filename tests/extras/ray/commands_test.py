"""The flags with which Ray starts a run."""

import pytest

from tests.extras.removal_test import without

ON_RAY = "train catch/vtrace --launcher=ray"
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
    ],
)
def test_a_mistake_gets_one_sentence(line, sentence, refused):
    refused(line, sentence)


def test_without_the_neighbour_that_connects_learners_ray_starts_a_single_one(tmp_path):
    python = without(["hosts"], tmp_path)
    words = [*ON_RAY.split(), "--insecure", "--num_learners=2"]
    program = f"import sys; sys.stderr = sys.stdout; from seed_rl.cli.main import main; assert main({words}) == 2"
    sentence = "--num_learners needs seed_rl.extras.hosts, which is not installed here"
    assert python("-c", program) == f"seed_rl train: {sentence}\n"
