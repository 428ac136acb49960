"""The flags with which Ray starts a run."""

import http.server
import re
import sys
import threading

import pytest

from seed_rl.cli.main import main
from tests.extras.removal_test import without

ON_RAY = "train catch/vtrace --launcher=ray"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("train catch/vtrace --min_actors=1", "--min_actors needs --launcher=ray"),
        ("learner catch/vtrace --launcher=ray", "--launcher=ray starts the actors of `seed_rl train`"),
        (ON_RAY, "opens a port to other nodes: add --tls_cert and --tls_key, or --insecure if you trust the network"),
        (f"{ON_RAY} --server_address=unix:/x", "must be HOST:PORT to be reached from other nodes, got unix:/x"),
        (f"{ON_RAY} --tls_key=x", "--tls_cert is missing"),
        (f"{ON_RAY} --min_actors=2", "--min_actors=2 exceeds the maximum, Actors.num_actors = 1"),
        (f"{ON_RAY} --insecure --num_learners=2", "--num_learners=2 needs --trusted_network: learner hosts neither"),
        (
            f"{ON_RAY} --insecure --num_learners=2 --learner_hosts=localhost:1,localhost:2 --learner_host=0",
            "--num_learners starts all learner hosts, and --learner_hosts names them: give one",
        ),
    ],
)
def test_a_mistake_gets_one_sentence(line, sentence, refused):
    refused(line, sentence)


def test_without_ray_it_is_named_with_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in [name for name in sys.modules if re.match(r"seed_rl\.extras\.ray\.(?!commands)", name)]:
        monkeypatch.delitem(sys.modules, name)
    assert main([*ON_RAY.split(), "--insecure"]) == 2
    assert capsys.readouterr().err == "seed_rl train: --launcher=ray needs Ray: pip install 'ray[default]'\n"


def test_a_place_without_a_cluster_is_reported_in_a_sentence(capsys):
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as dashboard:
        threading.Thread(target=dashboard.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{dashboard.server_port}"
        for flag, sentence in (
            ("--ray_address=ray://head:10001", "(from elsewhere, use `ray job submit -- seed_rl train"),
            ("--ray_address=127.0.0.1:1", "train: can't reach a Ray cluster at 127.0.0.1:1: Connection refused"),
            (f"--ray_address={address}", f"the server at {address} is not the head of a Ray cluster"),
        ):
            assert main([*ON_RAY.split(), "--insecure", flag]) == 1
            assert sentence in capsys.readouterr().err
        dashboard.shutdown()


def test_without_the_neighbour_that_connects_learners_ray_starts_a_single_one(tmp_path):
    python = without(["hosts"], tmp_path)
    words = [*ON_RAY.split(), "--insecure", "--num_learners=2"]
    program = f"import sys; sys.stderr = sys.stdout; from seed_rl.cli.main import main; assert main({words}) == 2"
    sentence = "--num_learners needs seed_rl.extras.hosts, which is not installed here"
    assert python("-c", program) == f"seed_rl train: {sentence}\n"
