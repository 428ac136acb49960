"""Runs whose learner and actor reach each other in one way only."""

import os
import re
import sys

import pytest

from tests.docker.conftest import ROOT
from tests.integration.devices_test import CATCH
from tests.support.connect_proxy import ConnectProxy
from tests.transport.peers import self_signed


@pytest.fixture
def serving(runs, wait_for, tmp_path):
    """Starts a learner that ends after 800 frames; returns it and its port."""

    def start(*flags, **options):
        run = runs.start("learner", *CATCH, "--total_frames=800", f"--logdir={tmp_path}/run", *flags, **options)
        served = wait_for(lambda: re.search(r"serving actors at \S+:(\d+) ", run.text()), run)
        return run, int(served[1])

    return start


def test_an_actor_trains_through_a_proxy_as_the_only_way_to_its_learner(runs, rows, serving, tmp_path):
    token, (certificate, key) = tmp_path / "token", self_signed("learner.invalid", tmp_path)
    token.write_text("swordfish\n")
    secret = f"--token_file={token}"
    run, port = serving("--server_address=127.0.0.1:0", secret, f"--tls_cert={certificate}", f"--tls_key={key}")
    place = f"learner.invalid:{port}"
    proxy = ConnectProxy({place: f"127.0.0.1:{port}"})
    variables = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    flags = (f"--server_address={place}", "--proxy", f"--tls_ca={certificate}", secret)
    actor = runs.start("actor", *flags, env={**variables, "https_proxy": proxy.url})
    assert actor.wait() == 0, actor.text()
    assert run.wait() == 0, run.text()
    assert rows(tmp_path / "run")[-1]["env_frames"] >= 800
    assert set(proxy.asked) == {("CONNECT", place)}
    proxy.close()


@pytest.fixture
def ipv6_only(tmp_path):
    """A program that runs another one where there is only the IPv6 address of loopback."""
    hosts = tmp_path / "hosts"
    hosts.write_text("::1 localhost\n")
    network = "ip link set lo up && ip address del 127.0.0.1/8 dev lo"
    shell = f'{network} && mount --bind {hosts} /etc/hosts && exec "$@"'
    return ("unshare", "--map-root-user", "--net", "--mount", "sh", "-c", shell, "ipv6_only")


SEED_RL = (sys.executable, "-m", "seed_rl")
HEALTH = (sys.executable, str(ROOT / "docker/health.py"))


def test_learner_actor_and_health_check_need_nothing_but_ipv6(runs, rows, serving, ipv6_only, tmp_path):
    run, port = serving("--server_address=0.0.0.0:0", "--insecure", program=(*ipv6_only, *SEED_RL))
    beside = ("nsenter", f"--target={run.pid}", "--user", "--net", "--mount", "--preserve-credentials")
    for flags in ([], ["--ask"]):
        health = runs.run(f"--port={port}", *flags, program=(*beside, *HEALTH))
        assert health.returncode == 0, health.text()
    actor = runs.run("actor", f"--server_address=localhost:{port}", program=(*beside, *SEED_RL))
    assert actor.returncode == 0, actor.text()
    assert run.wait() == 0, run.text()
    assert rows(tmp_path / "run")[-1]["env_frames"] >= 800


def test_train_needs_nothing_but_ipv6_and_its_actors_show_its_certificate(runs, rows, ipv6_only, tmp_path):
    certificate, key = self_signed("localhost", tmp_path)
    (tmp_path / "token").write_text("swordfish\n")
    flags = (f"--tls_cert={certificate}", f"--tls_key={key}", f"--tls_client_ca={certificate}")
    flags += ("--server_address=0.0.0.0:0", f"--token_file={tmp_path}/token")
    arguments = (*CATCH, "--total_frames=800", f"--logdir={tmp_path}/run", *flags)
    run = runs.run("train", *arguments, program=(*ipv6_only, *SEED_RL))
    assert run.returncode == 0, run.text()
    assert rows(tmp_path / "run")[-1]["env_frames"] >= 800
