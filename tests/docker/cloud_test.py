"""docker/cloud without a cloud: Kubernetes' manifests and Vertex AI's job."""

from __future__ import annotations

import base64
import json
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

from seed_rl.cli.main import main

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
    for container, probe in ((learner, "startup"), (actor, "readiness")):
        assert main([*container["args"], "--help"]) == 0, capsys.readouterr().err
        for kind in (probe, "liveness"):
            program, path, *flags = container[f"{kind}Probe"]["exec"]["command"]
            assert (program, path) == ("python3", "/usr/local/lib/seed_rl/health.py")
            assert ("--ask" in flags) == (container is learner)
            subprocess.run([sys.executable, ROOT / "docker/health.py", *flags, "--help"], check=True)


def test_a_preempted_learner_comes_back_to_its_run_and_a_mistake_does_not(objects):
    found, pod, actors, learner, _ = objects()
    rules = {rule["action"]: rule for rule in found["Job"]["spec"]["podFailurePolicy"]["rules"]}
    assert rules["Ignore"]["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert rules["FailJob"]["onExitCodes"]["values"] == [main(["learner", "--gin_file=none"])]
    assert (pod["restartPolicy"], found["Job"]["spec"]["podReplacementPolicy"]) == ("Never", "Failed")
    assert found["Job"]["spec"]["activeDeadlineSeconds"] == 7 * 86_400
    claim = {"claimName": found["PersistentVolumeClaim"]["metadata"]["name"]}
    assert {"name": "runs", "persistentVolumeClaim": claim} in pod["volumes"]
    assert {"name": "runs", "mountPath": "/runs"} in learner["volumeMounts"]
    assert [p["volumes"][-1]["secret"]["secretName"] for p in (pod, actors)] == ["pong-learner", "pong-actors"]

    found, pod, _, learner, _ = objects(
        "--bucket=lab-runs", "--service_account=writer", "--days=2", "--learner_cpu=0.5"
    )
    assert found["Job"]["spec"]["activeDeadlineSeconds"] == 2 * 86_400
    assert learner["resources"]["requests"]["cpu"] == "0.5"
    assert "PersistentVolumeClaim" not in found
    assert {"name": "runs", "emptyDir": {}} in pod["volumes"], "a copy, which goes away with the pod"
    assert {"name": "runs", "mountPath": "/home/seed_rl/.cache"} in learner["volumeMounts"]
    assert "--logdir=gs://lab-runs/runs/pong" in learner["args"]
    assert pod["serviceAccountName"] == "writer"


@pytest.mark.parametrize(
    ("flags", "devices", "node", "images"),
    [
        ("", {"nvidia.com/gpu": "1"}, "gke-accelerator=nvidia-l4", ("gpu", "actor")),
        ("--accelerator=none --gin_file=dmlab/small --spot_learner", {}, "gke-spot=true", ("cpu", "dmlab")),
        ("--accelerator=tpu --tpu_topology=2x4", {"google.com/tpu": "8"}, "gke-tpu-topology=2x4", ("tpu", "actor")),
        ("--gin_file=football/academy", {"nvidia.com/gpu": "1"}, "gke-accelerator=nvidia-l4", ("gpu", "football")),
        ("--accelerator=none --spot_learner --suite=mujoco", {}, "gke-spot=true", ("cpu-mujoco", "actor-mujoco")),
    ],
)
def test_processes_get_their_devices_nodes_and_images(objects, flags, devices, node, images):
    _, pod, actors, learner, actor = objects(*flags.split())
    assert learner["resources"]["limits"] == {"memory": "16Gi", **devices}
    assert f"cloud.google.com/{node}" in ["=".join(label) for label in pod["nodeSelector"].items()]
    assert [c["image"] for c in (learner, actor)] == [f"registry.example/rl/seed_rl-{name}:v1" for name in images]
    assert actors["nodeSelector"] == {"cloud.google.com/gke-spot": "true"}
    assert ("--gin_param=Football.backend='gfootball'" in learner["args"]) == ("football" in images)


def test_the_deletion_that_is_shown_leaves_the_volume(script, secrets):
    shown = script.run(*GKE, f"--secrets={secrets}", "--dry_run", "--namespace=rl").stderr
    script.done("cloud/gke.sh", *shlex.split(re.search(r"gke\.sh (--delete .*)", shown, re.DOTALL)[1]))
    delete = script.records()[-1]["command"]
    assert delete[:3] == ["kubectl", "--namespace=rl", "delete"]
    assert "job/pong-learner" in delete
    assert not re.search("volume|pvc", " ".join(delete))


def test_any_cluster_gets_manifests_with_its_own_nodes_and_an_autoscaler_if_wanted(script):
    images = ("--learner_image=r/gpu:1", "--actor_image=r/actor:1", "--name=a", "--gin_file=catch/vtrace", "--actors=3")
    nodes = ("--learner_device=nvidia.com/gpu=2", "--learner_taint=gpu=present", "--claim=mine", "--least_actors=2")
    text = script.done("cloud/render_kubernetes.py", *images, *nodes)
    found = {document["kind"]: document for document in yaml.safe_load_all(text)}
    assert set(found) == {"Service", "Job", "Deployment", "HorizontalPodAutoscaler"}
    assert not re.search("gke|google", text)
    pod = found["Job"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert pod["tolerations"] == [{"key": "gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}]
    assert {"name": "runs", "persistentVolumeClaim": {"claimName": "mine"}} in pod["volumes"]
    kubernetes_validate.validate(found["HorizontalPodAutoscaler"], "1.31", strict=True)
    scaling = found["HorizontalPodAutoscaler"]["spec"]
    assert (scaling["minReplicas"], scaling["maxReplicas"], scaling["scaleTargetRef"]["name"]) == (2, 3, "a-actors")
    assert "replicas" not in found["Deployment"]["spec"], "or it would be reset whenever it is applied"


def test_a_job_of_kuberay_ends_with_its_run(capsys):
    job = yaml.safe_load((ROOT / "docker/cloud/ray_job.yaml").read_text())["spec"]
    assert job["shutdownAfterJobFinishes"]
    command, *arguments = shlex.split(job["entrypoint"])
    assert command == "seed_rl"
    assert main([*arguments, "--help"]) == 0, capsys.readouterr().err
    groups = {group["groupName"]: group for group in job["rayClusterSpec"]["workerGroupSpecs"]}
    room = groups["actors"]["maxReplicas"] * int(groups["actors"]["rayStartParams"]["num-cpus"])
    assert f"--num_actors={room}" in arguments
    for group in (job["rayClusterSpec"]["headGroupSpec"], *groups.values()):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, **group["template"]}
        kubernetes_validate.validate(pod, "1.31", strict=True)
        gpus = int(pod["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu", 0))
        assert gpus == (job["entrypointNumGpus"] if group is groups["learner"] else 0)


def test_learner_hosts_are_the_pods_of_an_indexed_job_which_others_do_not_reach(script, capsys):
    images = ("--learner_image=r/gpu:1", "--actor_image=r/actor:1", "--name=a", "--gin_file=catch/vtrace", "--actors=5")
    assert "--learners needs --bucket" in script.run("cloud/render_kubernetes.py", *images, "--learners=2").stderr
    found = {}
    for document in yaml.safe_load_all(
        script.done("cloud/render_kubernetes.py", *images, "--learners=2", "--claim=nfs")
    ):
        kubernetes_validate.validate(document, "1.31", strict=True)
        found[document["kind"]] = document
    job, service = found["Job"]["spec"], found["Service"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    pod = job["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"], "they meet before they serve actors"
    names = [f"{found['Job']['metadata']['name']}-{index}.{pod['subdomain']}:9000" for index in range(2)]
    arguments = pod["containers"][0]["args"]
    assert {f"--learner_hosts={','.join(names)}", "--trusted_network", "--num_actors=3"} <= set(arguments)
    assert main([*arguments, "--help"]) == 0, capsys.readouterr().err
    ours = found["NetworkPolicy"]["spec"]["podSelector"]
    assert ours["matchLabels"].items() <= job["template"]["metadata"]["labels"].items()
    of_actors, of_hosts = found["NetworkPolicy"]["spec"]["ingress"]
    assert of_actors == {"ports": [{"port": "actors"}]}
    assert of_hosts == {"from": [{"podSelector": ours}], "ports": [{"port": 9000}]}
    assert found["Deployment"]["spec"]["replicas"] == 5


def test_the_job_of_vertex_ai_has_a_learner_and_actors(script, secrets, capsys):
    printed = script.done(*VERTEX, f"--secrets={secrets}", "--dry_run", "--spot", "--days=2", *EXPERIMENT)
    job = yaml.safe_load(printed[printed.index("<<'EOF'\n") + 8 : printed.rindex("EOF")])
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
def google(secrets):
    """The address of a server that answers as the metadata server and Secret Manager do."""

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
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_workers_of_vertex_ai_start_their_process_with_secrets_in_private_files(script, secrets, google, tmp_path):
    cluster = '{"cluster": {"workerpool0": ["learner-0:2222"]}}'
    variables = {"CLUSTER_SPEC": cluster, "GCE_METADATA_HOST": google, "TMPDIR": str(tmp_path)}
    start = (sys.executable, ROOT / "docker/cloud/vertex_start.py", "--project=lab-1", f"--endpoint=http://{google}")
    for role, address, files in (
        ("learner", "0.0.0.0:2222", {"tls_cert": "cert.pem", "tls_key": "key.pem", "token_file": "token"}),
        ("actor", "learner-0:2222", {"tls_ca": "cert.pem", "token_file": "token"}),
    ):
        assert script.run(*start, "--secret=pong", role, "--gin_file=catch/vtrace", **variables).returncode == 0
        ((_, called, *words, last),) = [call["command"] for call in script.records()]
        assert (called, last) == (role, "--gin_file=catch/vtrace")
        flags = dict(word.removeprefix("--").split("=") for word in words)
        assert flags["server_address"] == address
        for flag, name in files.items():
            assert pathlib.Path(flags[flag]).read_bytes() == (secrets / name).read_bytes()
        directory = pathlib.Path(flags["token_file"]).parent
        assert (directory.stat().st_mode & 0o077, len(list(directory.iterdir()))) == (0, len(files))
    refused = script.run(*start, "--secret=other", role, **variables)
    assert refused.stderr.endswith("/versions/latest:access can't be read: Forbidden\n")
    lost = script.run(*start, "--secret=pong", role, **variables | {"CLUSTER_SPEC": "{}"})
    assert lost.stderr == "vertex_start.py: CLUSTER_SPEC must name the workers of Vertex AI's workerpool0, got '{}'\n"
