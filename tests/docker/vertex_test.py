"""docker/cloud/vertex.sh without Google Cloud, and vertex_start.py with a server that answers as Google's do."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psutil
import pytest
import yaml

from seed_rl.launch.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
START = ROOT / "docker/cloud/vertex_start.py"
ACCOUNT = "rl@lab-1.iam.gserviceaccount.com"
LAUNCH = (
    "--project=lab-1",
    "--region=europe-west4",
    "--repository=europe-west4-docker.pkg.dev/lab-1/images",
    "--tag=v1",
    "--bucket=lab-runs",
    f"--service_account={ACCOUNT}",
    "--name=pong",
    "--gin_file=atari/vtrace",
    "--actors=20",
)


def printed(script, secrets, *flags):
    return script.done("cloud/vertex.sh", "--dry_run", *LAUNCH, f"--secrets={secrets}", *flags)


def job(text):
    (found,) = re.findall(r"custom-jobs create .* <<'EOF'\n(.*?)^EOF$", text, re.DOTALL | re.MULTILINE)
    return yaml.safe_load(found)


def test_the_job_has_a_learner_and_actors(script, secrets):
    found = job(printed(script, secrets, "--spot", "--days=2"))
    # The fields of Vertex AI's CustomJobSpec that are used.
    assert set(found) == {"workerPoolSpecs", "serviceAccount", "scheduling"}
    assert found["serviceAccount"] == ACCOUNT
    assert found["scheduling"] == {"strategy": "SPOT", "timeout": "172800s"}
    learner, actors = found["workerPoolSpecs"]
    for pool in (learner, actors):
        assert set(pool) == {"replicaCount", "machineSpec", "diskSpec", "containerSpec"}
        assert set(pool["containerSpec"]) == {"imageUri", "command", "args"}
        assert pool["containerSpec"]["command"] == ["python3", "/usr/local/lib/seed_rl/vertex_start.py"]
    assert learner["replicaCount"] == 1, "Vertex AI takes one replica in the first pool"
    assert actors["replicaCount"] == 20
    assert learner["machineSpec"] == {
        "machineType": "g2-standard-8",
        "acceleratorType": "NVIDIA_L4",
        "acceleratorCount": 1,
    }
    assert actors["machineSpec"] == {"machineType": "n2-standard-4"}
    assert learner["containerSpec"]["imageUri"] == "europe-west4-docker.pkg.dev/lab-1/images/seed_rl-gpu:v1"
    assert actors["containerSpec"]["imageUri"] == "europe-west4-docker.pkg.dev/lab-1/images/seed_rl-actor:v1"


def test_a_learner_without_accelerator_has_the_cpu_image(script, secrets):
    learner, _ = job(printed(script, secrets, "--accelerator_type=none"))["workerPoolSpecs"]
    assert learner["machineSpec"] == {"machineType": "g2-standard-8"}
    assert learner["containerSpec"]["imageUri"].endswith("seed_rl-cpu:v1")


def test_seed_rl_knows_the_flags(script, secrets, capsys):
    text = printed(script, secrets, "--gin_param=Atari.game = 'breakout'", "--total_frames=1000")
    for pool in job(text)["workerPoolSpecs"]:
        arguments = pool["containerSpec"]["args"]
        assert arguments[:2] == ["--project=lab-1", "--secret=pong"]
        assert main([*arguments[2:], "--help"]) == 0, capsys.readouterr().err
    learner = job(text)["workerPoolSpecs"][0]["containerSpec"]["args"]
    assert {"--logdir=gs://lab-runs/runs/pong", "--num_actors=20", "--gin_param=Atari.game = 'breakout'"} <= set(
        learner
    )


def test_what_runs_is_what_was_printed_without_a_secret(script, secrets, has_no_secret):
    flags = (*LAUNCH, f"--secrets={secrets}")
    text = script.done("cloud/vertex.sh", "--dry_run", *flags)
    assert script.records() == []
    assert has_no_secret(text)
    script.done("cloud/vertex.sh", *flags)
    records = script.records()
    lines = text[: text.index(" <<'EOF'")].splitlines()
    # A secret that is there already is not made again: the recorder says that it is.
    expected = [shlex.split(line.partition(" >/dev/null")[0]) for line in lines]
    assert [record["command"] for record in records] == [
        words[words.index("docker") :] if words[0] == "env" else words for words in expected
    ]
    assert records[-1]["input"] == text[text.index("<<'EOF'\n") + 8 : text.rindex("EOF\n")]
    for record in records:
        assert has_no_secret(" ".join(record["command"]) + record["input"])
    created = [line for line in lines if " secrets create " in line]
    stored = [line for line in lines if " secrets versions add " in line]
    assert len(created) == len(stored) == 3
    assert [re.search(r"--data-file=(\S+)", line)[1] for line in stored] == [
        f"{secrets}/{name}" for name in ("cert.pem", "key.pem", "token")
    ]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--bucket=gs://lab-runs",), "--bucket must be a bucket's name without gs://, got 'gs://lab-runs'"),
        (("--service_account=me",), "--service_account must be an e-mail address, got 'me'"),
        (("--region=europe-west4-a",), "--region must be a region such as europe-west4"),
        (("--accelerator_type=l4",), "--accelerator_type must be a type such as NVIDIA_L4, got 'l4'"),
        (("--actors=0",), "--actors must be a whole number from 1 on, got '0'"),
        (("--gin_file=",), "--gin_file is needed"),
        (("--gin_file=Atari/vtrace",), "there is no experiment Atari/vtrace in configs/"),
        (("--zone=a",), "there is no --zone"),
    ],
)
def test_a_mistake_gets_a_sentence_and_touches_nothing(script, flags, sentence):
    assert sentence in script.mistake("cloud/vertex.sh", *LAUNCH, *flags)


@pytest.fixture
def google(secrets):
    """A server that is both the metadata server and Secret Manager; gives its address and what it was asked."""
    files = {"cert": "cert.pem", "key": "key.pem", "token": "token"}
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            secret = re.fullmatch(r"/v1/projects/lab-1/secrets/pong-(\w+)/versions/latest:access", self.path)
            if self.path.startswith("/computeMetadata/") and self.headers["Metadata-Flavor"] == "Google":
                self._reply({"access_token": "of-the-account"})
            elif secret and self.headers["Authorization"] == "Bearer of-the-account":
                data = base64.b64encode((secrets / files[secret[1]]).read_bytes()).decode()
                self._reply({"payload": {"data": data}})
            else:
                self.send_error(403)

        def _reply(self, content):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()
        serving.join()


def variables(address, port):
    """Those of a container of Vertex AI."""
    cluster = {
        "cluster": {"workerpool0": [f"127.0.0.1:{port}"], "workerpool1": ["127.0.0.2:2222", "127.0.0.3:2222"]},
        "environment": "cloud",
        "task": {"type": "workerpool1", "index": 1},
    }
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"CLUSTER_SPEC": json.dumps(cluster), "GCE_METADATA_HOST": address, "PATH": path}


def test_learner_and_actors_find_each_other_with_secrets_that_nobody_sees(
    runs, rows, wait_for, google, has_no_secret, tmp_path
):
    address, asked = google
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = [sys.executable, START, "--project=lab-1", "--secret=pong", f"--endpoint=http://{address}"]
    options = {"program": program, "env": variables(address, port) | {"TMPDIR": str(tmp_path)}}
    logdir = tmp_path / "runs"
    settings = ("--gin_file=catch/vtrace", "--total_frames=1000000000", "--gin_param=Logs.metrics_interval_s=0.5")
    learner = runs.start("learner", *settings, f"--logdir={logdir}", **options)
    actor = runs.start("actor", **options)
    wait_for(lambda: any(row["environments"] == 32 for row in rows(logdir)), learner)
    for process in (learner, actor):
        command = psutil.Process(process.pid).cmdline()
        assert any(word.startswith("--token_file=") for word in command)
        assert has_no_secret(" ".join(command))
        assert has_no_secret(process.text())
    assert len([path for path in asked if "secrets/pong-token/" in path]) == 2
    assert len([path for path in asked if "secrets/pong-key/" in path]) == 1, "only the learner has the key"
    directories = list(tmp_path.glob("seed_rl-secrets-*"))
    assert len(directories) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in directories)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"CLUSTER_SPEC": ""}, "CLUSTER_SPEC must name the workers of Vertex AI's workerpool0, got ''"),
        ({"CLUSTER_SPEC": '{"cluster": {}}'}, "CLUSTER_SPEC must name the workers of Vertex AI's workerpool0"),
        ({}, "secrets/other-cert/versions/latest:access can't be read: Forbidden"),
    ],
)
def test_what_is_missing_is_told_in_a_sentence(google, changed, sentence):
    address, _ = google
    done = subprocess.run(
        [sys.executable, START, "--project=lab-1", "--secret=other", f"--endpoint=http://{address}", "actor"],
        env=variables(address, 1) | changed,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert sentence in line
