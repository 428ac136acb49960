"""A machine that has IPv6 alone."""

import re
import signal
import sys

from tests.docker.conftest import ROOT
from tests.integration.devices_test import CATCH
from tests.transport import peers


def test_train_needs_nothing_but_ipv6_its_actors_show_its_certificate_and_it_is_healthy(runs, rows, wait_for, tmp_path):
    (tmp_path / "hosts").write_text("::1 localhost\n")
    (tmp_path / "token").write_text("swordfish\n")
    certificate, key = peers.self_signed("localhost", tmp_path)
    network = "ip link set lo up && ip address del 127.0.0.1/8 dev lo"
    shell = f'{network} && mount --bind {tmp_path}/hosts /etc/hosts && exec "$@"'
    apart = ("unshare", "--map-root-user", "--net", "--mount", "sh", "-c", shell, "ipv6_only")
    own = (f"--tls_cert={certificate}", f"--tls_key={key}", f"--token_file={tmp_path}/token")
    flags = (*CATCH, "--total_frames=1000000000", f"--logdir={tmp_path}/run", "--server_address=0.0.0.0:0")
    run = runs.start(
        "train", *flags, *own, f"--tls_client_ca={certificate}", program=(*apart, sys.executable, "-m", "seed_rl")
    )
    port = wait_for(lambda: re.search(r"serving actors at \S+:(\d+) ", run.text()), run)[1]
    wait_for(lambda: rows(tmp_path / "run") and rows(tmp_path / "run")[-1]["env_frames"] >= 800, run)
    beside = ("nsenter", f"--target={run.pid}", "--user", "--net", "--mount", "--preserve-credentials")
    health = (*beside, sys.executable, str(ROOT / "docker/health.py"), f"--port={port}")
    checked = runs.run("--ask", f"--tls_ca={certificate}", *own, program=health)
    assert checked.returncode == 0, checked.text()
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 128 + signal.SIGINT, run.text()
