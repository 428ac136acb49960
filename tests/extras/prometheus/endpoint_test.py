"""What Prometheus reads from a run."""

import socket
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from seed_rl.extras.prometheus.endpoint import serving
from seed_rl.transport.address import Address
from tests.integration.devices_test import CATCH
from tests.support.deadlines import within
from tests.support.ports import free_addresses


def read(address):
    """The gauges at an address, by name; none if nobody serves there yet."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=within(5)) as page:
            families = text_string_to_metric_families(page.read().decode())
            return {family.name: family.samples[0].value for family in families}
    except OSError:
        return {}


def test_a_run_serves_its_newest_row_until_it_ends(runs, wait_for, tmp_path):
    (address,) = free_addresses(1)
    logdir = f"--logdir={tmp_path}/run"
    run = runs.start("train", *CATCH, logdir, "--total_frames=1000000000", f"--metrics_address={address}")
    updates = wait_for(lambda: read(address).get("seed_rl_learner_updates"), run)
    later = wait_for(lambda: (found := read(address))["seed_rl_learner_updates"] > updates and found, run)
    assert {"seed_rl_env_frames", "seed_rl_loss_total", "seed_rl_time_learner_waiting"} < later.keys()
    run.process.terminate()
    run.wait()
    assert read(address) == {}


def test_several_names_may_become_one_and_nothing_is_left_behind():
    (address,) = free_addresses(1)
    port = int(address.rpartition(":")[2])
    with serving(Address(host="::1", port=port)) as gauges:
        assert read(f"[::1]:{port}") == {}
        gauges.write({"a/b": 1.0, "a.b": 2.0}, 0.0)
        assert read(f"[::1]:{port}") == {"seed_rl_a_b": 2.0}
    socket.create_server(("::1", port), family=socket.AF_INET6).close()


def test_an_address_that_cannot_be_used_is_named(refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flag = f"--metrics_address=127.0.0.1:{taken.getsockname()[1]}"
        refused(f"train --gin_file=catch/vtrace {flag}", f"{flag} can't be listened on: Address already in use")
    refused("train --gin_file=catch/vtrace --metrics_address=unix:x", "--metrics_address must be HOST:PORT, got unix:x")
