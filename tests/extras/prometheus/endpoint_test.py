"""What Prometheus reads from a run."""

import socket
import urllib.request
from types import SimpleNamespace

from prometheus_client.parser import text_string_to_metric_families

from seed_rl.experiment import config_files
from seed_rl.extras.prometheus.commands import OPTION
from seed_rl.runs.assembly import Assembly
from seed_rl.runs.run import Run
from tests.support.deadlines import within
from tests.support.ports import free_addresses


def read(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=within(5)) as page:
        families = text_string_to_metric_families(page.read().decode())
        return {family.name: family.samples[0].value for family in families}


def test_the_newest_row_is_served_until_the_run_ends_and_several_names_may_become_one(tmp_path):
    (address,) = free_addresses(1)
    port = int(address.rpartition(":")[2])
    run, others = Run(config_files.load(["catch/vtrace"]), str(tmp_path)), ["another sink"]
    with OPTION.apply(SimpleNamespace(metrics_address=f"[::1]:{port}"), run):
        assert read(f"[::1]:{port}") == {}
        (change,) = run.changes
        gauges, *rest = change(Assembly(sinks=lambda parts, resumed: others)).sinks(None, None)
        assert rest == others
        for row in ({"env_frames": 1.0}, {"a/b": 1.0, "a.b": 2.0}):
            gauges.write(row, 0.0)
        assert read(f"[::1]:{port}") == {"seed_rl_a_b": 2.0}
    socket.create_server(("::1", port), family=socket.AF_INET6).close()


def test_an_address_that_cannot_be_used_is_named(refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flag = f"--metrics_address=127.0.0.1:{taken.getsockname()[1]}"
        refused(f"train --gin_file=catch/vtrace {flag}", f"{flag} can't be listened on: Address already in use")
    refused("train --gin_file=catch/vtrace --metrics_address=unix:x", "--metrics_address must be HOST:PORT, got unix:x")
