"""docker/cloud without a cloud: Kubernetes' manifests, Vertex AI's job, and the commands of the guide."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import kubernetes_validate
import pytest
import yaml

from seed_rl.launch.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ("--project=lab-1", "--repository=registry.example/rl", "--tag=v1", "--name=pong", "--actors=20")
GKE = ("cloud/gke.sh", *RUN, "--gin_file=atari/vtrace", "--location=europe-west4", "--cluster=rl")
BUCKET = ("--bucket=lab-runs", "--service_account=rl@lab-1.iam.gserviceaccount.com")
VERTEX = ("cloud/vertex.sh", *RUN, "--gin_file=atari/vtrace", "--region=europe-west4", *BUCKET)
EXPERIMENT = ("--gin_param=Atari.game = 'breakout'", "--total_frames=1000")


@pytest.fixture
def objects(script, secrets):
    """The valid manifests of a dry run of gke.sh, by kind, and the containers and pods among them."""

    def render(*flags):
        printed = script.done(*GKE, f"--secrets={secrets}", "--dry_run", *flags)
        found = {o["kind"]: o for o in yaml.safe_load_all(printed[printed.index("\n---") : printed.rindex("EOF")])}
        for document in found.values():
            for version in ("1.31", kubernetes_validate.latest_version()):
                kubernetes_validate.validate(document, version, strict=True)
        pods = [found[kind]["spec"]["template"]["spec"] for kind in ("Job", "Deployment")]
        return found, *pods, *(pod["containers"][0] for pod in pods)

    return render


@pytest.mark.parametrize("command", [(*GKE, "--create_cluster", "--namespace=rl"), VERTEX], ids=["gke", "vertex"])
def test_a_run_executes_what_a_dry_run_prints_and_shows_no_secret(script, secrets, has_no_secret, command):
    printed, pasted, done = script.printed_and_done(*command, f"--secrets={secrets}", *EXPERIMENT)
    assert len(done) > 10
    assert sorted(pasted, key=str) == sorted(done, key=str), "the two ends of a pipe run at the same time"
    assert has_no_secret(printed + json.dumps(done))
    assert "breakout" in done[-1]["input"]


def test_seed_rl_and_the_health_check_parse_the_command_lines_of_kubernetes(objects, capsys):
    found, _, _, learner, actor = objects(*EXPERIMENT)
    assert {*EXPERIMENT, "--num_actors=20", "--logdir=/runs/pong"} <= set(learner["args"])
    assert f"--server_address={found['Service']['metadata']['name']}:8686" in actor["args"]
    for container, probes in (
        (learner, ("startupProbe", "livenessProbe")),
        (actor, ("readinessProbe", "livenessProbe")),
    ):
        assert main([*container["args"], "--help"]) == 0, capsys.readouterr().err
        for probe in probes:
            program, path, *flags = container[probe]["exec"]["command"]
            assert (program, path) == ("python3", "/usr/local/lib/seed_rl/health.py")
            assert ("--ask" in flags) == (container is learner)
            subprocess.run([sys.executable, ROOT / "docker/health.py", *flags, "--help"], check=True)


def test_a_preempted_learner_comes_back_to_its_volume_and_a_mistake_does_not(objects):
    found, pod, actors, learner, _ = objects()
    rules = {rule["action"]: rule for rule in found["Job"]["spec"]["podFailurePolicy"]["rules"]}
    assert rules["Ignore"]["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert rules["FailJob"]["onExitCodes"]["values"] == [main(["learner", "--gin_file=none"])]
    assert (pod["restartPolicy"], found["Job"]["spec"]["podReplacementPolicy"]) == ("Never", "Failed")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["runs"]["persistentVolumeClaim"]["claimName"] == found["PersistentVolumeClaim"]["metadata"]["name"]
    assert {"name": "runs", "mountPath": "/runs"} in learner["volumeMounts"]
    assert volumes["secrets"]["secret"]["secretName"] == "pong-learner"
    assert actors["volumes"][0]["secret"]["secretName"] == "pong-actors"
    labels = [found[kind]["spec"]["template"]["metadata"]["labels"].items() for kind in ("Job", "Deployment")]
    assert [found["Service"]["spec"]["selector"].items() <= each for each in labels] == [True, False]


def test_a_bucket_takes_the_place_of_the_volume(objects):
    found, pod, _, learner, _ = objects("--bucket=lab-runs", "--service_account=writer")
    assert "PersistentVolumeClaim" not in found
    assert {"name": "runs", "emptyDir": {}} in pod["volumes"], "a copy, which goes away with the pod"
    assert {"name": "runs", "mountPath": "/home/seed_rl/.cache"} in learner["volumeMounts"]
    assert "--logdir=gs://lab-runs/runs/pong" in learner["args"]
    assert pod["serviceAccountName"] == "writer"


@pytest.mark.parametrize(
    ("flags", "device", "label", "images"),
    [
        ((), {"nvidia.com/gpu": "1"}, ("gke-accelerator", "nvidia-l4"), ("gpu", "actor")),
        (
            ("--accelerator=none", "--gin_file=dmlab/small", "--spot_learner"),
            {},
            ("gke-spot", "true"),
            ("cpu", "dmlab"),
        ),
        (
            ("--accelerator=tpu", "--tpu_topology=2x4", "--gin_file=football/academy"),
            {"google.com/tpu": "8"},
            ("gke-tpu-topology", "2x4"),
            ("tpu", "football"),
        ),
    ],
)
def test_processes_get_their_devices_nodes_and_images(objects, flags, device, label, images):
    _, pod, actors, learner, actor = objects(*flags)
    assert learner["resources"]["limits"] == {"memory": "16Gi", **device}
    assert pod["nodeSelector"][f"cloud.google.com/{label[0]}"] == label[1]
    assert [c["image"] for c in (learner, actor)] == [f"registry.example/rl/seed_rl-{name}:v1" for name in images]
    assert actors["nodeSelector"] == {"cloud.google.com/gke-spot": "true"}
    assert ("--gin_param=Football.backend='gfootball'" in learner["args"]) == ("football" in images)


def test_actors_scale_between_limits(objects):
    fixed, scaled = objects()[0], objects("--least_actors=2")[0]
    assert fixed["Deployment"]["spec"]["replicas"] == 20
    assert "replicas" not in scaled["Deployment"]["spec"], "or it would be reset whenever it is applied"
    spec = scaled["HorizontalPodAutoscaler"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"], spec["scaleTargetRef"]["name"]) == (2, 20, "pong-actors")


def test_the_deletion_that_is_shown_leaves_the_volume(script, secrets):
    shown = script.run(*GKE, f"--secrets={secrets}", "--dry_run", "--namespace=rl").stderr
    script.done("cloud/gke.sh", *shlex.split(re.search(r"gke\.sh (--delete .*)", shown, re.DOTALL)[1]))
    delete = script.records()[-1]["command"]
    assert delete[:3] == ["kubectl", "--namespace=rl", "delete"]
    assert {"job/pong-learner", "deployment/pong-actors", "secret/pong-learner"} < set(delete)
    assert not re.search("volume|pvc", " ".join(delete))


def test_any_cluster_gets_manifests_with_its_own_nodes(script):
    images = ("--learner_image=r/gpu:1", "--actor_image=r/actor:1", "--name=a", "--gin_file=catch/vtrace", "--actors=3")
    nodes = ("--learner_device=nvidia.com/gpu=2", "--learner_taint=gpu=present", "--actor_node=pool=cheap")
    text = script.done("cloud/render_kubernetes.py", *images, *nodes, "--claim=mine")
    found = {document["kind"]: document for document in yaml.safe_load_all(text)}
    assert set(found) == {"Service", "Job", "Deployment"}
    assert not re.search("gke|google", text)
    pod = found["Job"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert pod["tolerations"] == [{"key": "gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}]
    assert {"name": "runs", "persistentVolumeClaim": {"claimName": "mine"}} in pod["volumes"]


@pytest.mark.parametrize(
    ("command", "flag", "sentence"),
    [
        (GKE, "--name=Pong!", "--name must be at most 40 of a-z, 0-9 and -, beginning with a letter, got 'Pong!'"),
        (GKE, "--actors=many", "--actors must be a whole number from 1 on, got 'many'"),
        (GKE, "--actors=", "the following arguments are required: --actors"),
        (GKE, "--gin_file=atari/vtrase", "there is no experiment atari/vtrase in configs/"),
        (GKE, "--tpu_topology=4x4", "2x4 or 2x2x1, since a learner uses the chips of one host, got '4x4'"),
        (GKE, "--bucket=gs://lab-runs", "--bucket must be a bucket's name without gs://, got 'gs://lab-runs'"),
        (GKE, "--bucket=lab-runs", "--bucket needs --service_account"),
        (GKE, "--least_actors=21", "--least_actors (21) must not exceed --actors (20)"),
        (GKE, "--learner_memory=lots", "--learner_memory must be a quantity such as 4, 500m or 16Gi, got 'lots'"),
        (GKE, "--gin_param=A.b='x'\n- evil", "--gin_param must be a gin binding"),
        (GKE, f"--secrets={ROOT}", "--secrets must be a directory of docker/make_secrets.sh or a new one"),
        (GKE, "--gpus=1", "there is no --gpus; --help lists the flags"),
        (VERTEX, "--service_account=me", "--service_account must be an e-mail address, got 'me'"),
        (VERTEX, "--accelerator_type=l4", "--accelerator_type must be a type such as NVIDIA_L4, got 'l4'"),
    ],
)
def test_a_mistake_gets_a_sentence_and_touches_nothing(script, command, flag, sentence):
    flags = ("--accelerator=tpu", flag) if "topology" in flag else (flag,)
    assert sentence in script.mistake(*command, *flags)


def test_the_job_of_vertex_ai_has_a_learner_and_actors(script, secrets, capsys):
    printed = script.done(*VERTEX, f"--secrets={secrets}", "--dry_run", "--spot", "--days=2", *EXPERIMENT)
    job = yaml.safe_load(printed[printed.index("<<'EOF'\n") + 8 : printed.rindex("EOF")])
    assert job["serviceAccount"] == BUCKET[1].partition("=")[2]
    assert job["scheduling"] == {"strategy": "SPOT", "timeout": "172800s"}
    learner, actors = job["workerPoolSpecs"]
    assert (learner["replicaCount"], actors["replicaCount"]) == (1, 20)
    assert learner["machineSpec"]["acceleratorType"] == "NVIDIA_L4"
    assert actors["machineSpec"] == {"machineType": "n2-standard-4"}
    for pool, image in ((learner, "gpu"), (actors, "actor")):
        container = pool["containerSpec"]
        assert container["imageUri"] == f"registry.example/rl/seed_rl-{image}:v1"
        assert container["command"] == ["python3", "/usr/local/lib/seed_rl/vertex_start.py"]
        assert container["args"][:2] == ["--project=lab-1", "--secret=pong"]
        assert main([*container["args"][2:], "--help"]) == 0, capsys.readouterr().err
    assert {*EXPERIMENT, "--logdir=gs://lab-runs/runs/pong"} <= set(learner["containerSpec"]["args"])


@pytest.fixture
def worker(script, secrets):
    """Runs vertex_start.py in a worker, with a server that answers as the metadata server and Secret Manager do."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            secret = re.fullmatch(r"/v1/projects/lab-1/secrets/pong-(\w+)/versions/latest:access", self.path)
            if self.path.startswith("/computeMetadata/") and self.headers["Metadata-Flavor"] == "Google":
                reply = {"access_token": "bearer"}
            elif secret and self.headers["Authorization"] == "Bearer bearer":
                (path,) = secrets.glob(f"{secret[1]}*")
                reply = {"payload": {"data": base64.b64encode(path.read_bytes()).decode()}}
            else:
                return self.send_error(403)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"127.0.0.1:{server.server_port}"
        start = (ROOT / "docker/cloud/vertex_start.py", "--project=lab-1", f"--endpoint=http://{address}")
        variables = {"GCE_METADATA_HOST": address, "CLUSTER_SPEC": '{"cluster": {"workerpool0": ["learner-0:2222"]}}'}
        yield lambda *words, **changed: script.run(sys.executable, *start, *words, **variables | changed)
        server.shutdown()


@pytest.mark.parametrize(
    ("role", "address", "files"),
    [
        ("learner", "0.0.0.0:2222", {"tls_cert": "cert.pem", "tls_key": "key.pem", "token_file": "token"}),
        ("actor", "learner-0:2222", {"tls_ca": "cert.pem", "token_file": "token"}),
    ],
)
def test_a_worker_starts_its_process_with_secrets_in_private_files(script, secrets, worker, role, address, files):
    assert worker("--secret=pong", role, "--gin_file=catch/vtrace", TMPDIR=str(script.directory)).returncode == 0
    (call,) = script.records()
    assert call["command"][:2] == ["seed_rl", role]
    assert call["command"][-1] == "--gin_file=catch/vtrace"
    flags = dict(word.removeprefix("--").split("=") for word in call["command"][2:])
    assert flags["server_address"] == address
    for flag, name in files.items():
        assert pathlib.Path(flags[flag]).read_bytes() == (secrets / name).read_bytes()
        assert os.stat(pathlib.Path(flags[flag]).parent).st_mode & 0o077 == 0
    (directory,) = script.directory.glob("seed_rl-secrets-*")
    assert len(list(directory.iterdir())) == len(files)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"CLUSTER_SPEC": '{"cluster": {}}'}, "CLUSTER_SPEC must name the workers of Vertex AI's workerpool0"),
        ({}, "secrets/other-token/versions/latest:access can't be read: Forbidden"),
    ],
)
def test_a_worker_that_lacks_its_address_or_secrets_fails_with_a_sentence(worker, variables, sentence):
    done = worker("--secret=other", "actor", **variables)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert sentence in done.stderr


def guide():
    text = (ROOT / "docs/cloud.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)).replace("\\\n", " ")
    lines = [line.partition(" | ")[0] for line in blocks.splitlines() if line.startswith("docker/")]
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("words", guide(), ids=" ".join)
def test_the_commands_of_the_guide_work(script, words):
    dry = [] if re.search("make_secrets|render_kubernetes", words[0]) else ["--dry_run"]
    script.done(words[0].removeprefix("docker/"), *words[1:], *dry)
    assert script.records() == []
