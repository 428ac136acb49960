"""docker/cloud without a cloud: the manifests, and a run as its jobs would have it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import kubernetes_validate
import pytest
import yaml

from seed_rl.cli.main import main
from tests.support.ports import free_addresses

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ("--project=lab-1", "--repository=registry.example/rl", "--tag=v1", "--name=pong", "--actors=20")
GKE = ("cloud/gke.sh", *RUN, "--gin_file=atari/vtrace", "--location=europe-west4", "--cluster=rl")
EXPERIMENT = ("--gin_param=Atari.game = 'breakout'", "--total_frames=12M")
IMAGES = ("--learner_image=r/gpu:1", "--actor_image=r/actor:1", "--name=a", "--gin_file=catch/vtrace")
VERSIONS = ("1.31", "1.34", kubernetes_validate.latest_version())


def valid(text):
    """The objects of a manifest by kind and component; they fit the schemas of Kubernetes, strictly."""
    found = {}
    for document in yaml.safe_load_all(text):
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)
        name = document["metadata"]["name"]
        found[f"{document['kind']} {name.rpartition('-')[2]}"] = document
    return found


@pytest.fixture
def objects(script, secrets):
    """The valid manifests of a dry run of gke.sh, and the pods and containers of learner and actors."""

    def render(*flags):
        printed = script.done(*GKE, f"--secrets={secrets}", "--dry_run", *flags)
        found = valid(printed[printed.index("<<'EOF'\n") + 8 : printed.rindex("EOF")])
        pods = [found[f"Job {role}"]["spec"]["template"]["spec"] for role in ("learner", "actors")]
        return found, *pods, *(pod["containers"][0] for pod in pods)

    return render


def test_a_run_executes_what_a_dry_run_prints_and_shows_no_secret(script, secrets, has_no_secret):
    command = (*GKE, "--create_cluster", "--namespace=rl")
    printed, pasted, done = script.printed_and_done(*command, f"--secrets={secrets}", *EXPERIMENT)
    assert len(done) > 10
    assert sorted(pasted, key=str) == sorted(done, key=str), "the two ends of a pipe run at the same time"
    assert has_no_secret(printed + json.dumps(done))
    assert "breakout" in done[-1]["input"]


def test_seed_rl_and_the_health_check_parse_the_command_lines_of_kubernetes(objects, capsys):
    found, _, _, learner, actor = objects(*EXPERIMENT)
    assert {*EXPERIMENT, "--num_actors=20", "--logdir=/runs/pong"} <= set(learner["args"])
    assert f"--server_address={found['Service learner']['metadata']['name']}:8686" in actor["args"]
    for container, probe in ((learner, "startup"), (actor, "readiness")):
        assert main([*container["args"], "--help"]) == 0, capsys.readouterr().err
        for kind in (probe, "liveness"):
            program, path, *flags = container[f"{kind}Probe"]["exec"]["command"]
            assert (program, path) == ("python3", "/usr/local/lib/seed_rl/health.py")
            assert ("--ask" in flags) == (container is learner)
            subprocess.run([sys.executable, ROOT / "docker/health.py", *flags, "--help"], check=True)


def test_a_preempted_learner_comes_back_to_its_run_and_a_mistake_does_not(objects):
    found, pod, actors, learner, _ = objects()
    rules = {rule["action"]: rule for rule in found["Job learner"]["spec"]["podFailurePolicy"]["rules"]}
    assert rules["Ignore"]["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert rules["FailJob"]["onExitCodes"]["values"] == [main(["learner", "--gin_file=none"])]
    assert (pod["restartPolicy"], found["Job learner"]["spec"]["podReplacementPolicy"]) == ("Never", "Failed")
    assert found["Job learner"]["spec"]["activeDeadlineSeconds"] == 7 * 86_400
    claim = {"claimName": found["PersistentVolumeClaim runs"]["metadata"]["name"]}
    assert {"name": "runs", "persistentVolumeClaim": claim} in pod["volumes"]
    assert {"name": "runs", "mountPath": "/runs"} in learner["volumeMounts"]
    secrets = [v["secret"]["secretName"] for p in (pod, actors) for v in p["volumes"] if "secret" in v]
    assert secrets == ["pong-learner", "pong-actors"]

    found, pod, _, learner, _ = objects(
        "--bucket=lab-runs", "--service_account=writer", "--days=2", "--learner_cpu=0.5"
    )
    assert found["Job learner"]["spec"]["activeDeadlineSeconds"] == 2 * 86_400
    assert learner["resources"]["requests"]["cpu"] == "0.5"
    assert "PersistentVolumeClaim runs" not in found
    assert {"name": "runs", "emptyDir": {"sizeLimit": "10Gi"}} in pod["volumes"], "a copy, which goes away with the pod"
    assert learner["resources"]["requests"]["ephemeral-storage"] == "10Gi"
    assert learner["env"] == [{"name": "XDG_CACHE_HOME", "value": "/runs"}]
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
    for part in (learner, actor):
        assert part["securityContext"]["readOnlyRootFilesystem"]
        assert {"/tmp", "/home/seed_rl"} <= {mount["mountPath"] for mount in part["volumeMounts"]}
    assert actors["nodeSelector"] == {"cloud.google.com/gke-spot": "true"}
    expected = [f"--accelerator={kind.rpartition('/')[2]}" for kind in devices]
    assert [word for word in learner["args"] if word.startswith("--accelerator")] == expected
    assert ("--gin_param=Football.backend='gfootball'" in learner["args"]) == ("football" in images)


def test_the_deletion_that_is_shown_leaves_the_volume(script, secrets):
    shown = script.run(*GKE, f"--secrets={secrets}", "--dry_run", "--namespace=rl").stderr
    script.done("cloud/gke.sh", *shlex.split(re.search(r"gke\.sh (--delete .*)", shown, re.DOTALL)[1]))
    delete = script.records()[-1]["command"]
    assert delete[:3] == ["kubectl", "--namespace=rl", "delete"]
    assert {"job/pong-learner", "job/pong-actors", "secret/pong-actors", "networkpolicy/pong-learner"} <= set(delete)
    assert not re.search("volume|pvc", " ".join(delete))


def test_any_cluster_gets_manifests_with_its_own_nodes(script):
    nodes = ("--learner_device=nvidia.com/gpu=2", "--learner_taint=gpu=present", "--claim=mine")
    text = script.done("cloud/render_kubernetes.py", *IMAGES, "--actors=3", *nodes)
    found = valid(text)
    assert set(found) == {"Service learner", "Job learner", "Job actors", "NetworkPolicy learner"}
    assert not re.search("gke|google", text)
    pod = found["Job learner"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert pod["tolerations"] == [{"key": "gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}]
    assert {"name": "runs", "persistentVolumeClaim": {"claimName": "mine"}} in pod["volumes"]


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
    assert (
        "--learners needs --bucket"
        in script.run("cloud/render_kubernetes.py", *IMAGES, "--actors=5", "--learners=2").stderr
    )
    found = valid(script.done("cloud/render_kubernetes.py", *IMAGES, "--actors=5", "--learners=2", "--claim=nfs"))
    job, service = found["Job learner"]["spec"], found["Service learner"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    pod = job["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"], "they meet before they serve actors"
    names = [f"{found['Job learner']['metadata']['name']}-{index}.{pod['subdomain']}:9000" for index in range(2)]
    arguments = pod["containers"][0]["args"]
    assert {f"--learner_hosts={','.join(names)}", "--trusted_network", "--num_actors=3"} <= set(arguments)
    assert main([*arguments, "--help"]) == 0, capsys.readouterr().err
    ours = found["NetworkPolicy learner"]["spec"]["podSelector"]
    assert ours["matchLabels"].items() <= job["template"]["metadata"]["labels"].items()
    of_actors, of_hosts = found["NetworkPolicy learner"]["spec"]["ingress"]
    assert of_actors == {"ports": [{"port": "actors"}]}
    assert of_hosts == {"from": [{"podSelector": ours}], "ports": [{"port": "hosts"}]}
    assert found["Job actors"]["spec"]["parallelism"] == 5


class Job:
    """A Job of Kubernetes without completions, with processes of this machine in place of its pods."""

    def __init__(self, spec, start):
        self._spec, self._start = spec, start
        self.pods = []

    def is_complete(self):
        """Replaces pods that have failed, unless one has succeeded; returns whether the job has, and no pod is left."""
        assert self._spec["template"]["spec"]["restartPolicy"] == "Never"
        codes = [pod.process.poll() for pod in self.pods]
        if 0 not in codes:
            missing = self._spec["parallelism"] - codes.count(None)
            self.pods += [self._start() for _ in range(missing)]
        return 0 in codes and None not in codes


def test_a_run_that_is_over_leaves_no_process_and_one_that_is_not_gets_its_actors_back(
    script, secrets, runs, rows, wait_for, tmp_path
):
    logdir = tmp_path / "runs/a"
    frames, often = "--total_frames=60000", "--gin_param=Logs.metrics_interval_s=0.1"
    found = valid(script.done("cloud/render_kubernetes.py", *IMAGES, "--actors=2", frames, often))
    (address,) = free_addresses(1)

    def job(role, **options):
        spec = found[f"Job {role}"]["spec"]
        text = json.dumps(spec["template"]["spec"]["containers"][0]["args"])
        for here, there in (
            ("/secrets/", f"{secrets}/"),
            ("=/runs/", f"={tmp_path}/runs/"),
            ("a-learner:8686", address),
        ):
            text = text.replace(here, there)
        return Job(spec, lambda: runs.start(*json.loads(text.replace("0.0.0.0:8686", address)), **options))

    learner, actors = job("learner", env={**os.environ, "JOB_COMPLETION_INDEX": "0"}), job("actors")
    learner.is_complete()
    actors.is_complete()
    wait_for(lambda: any(row["environments"] == 64 for row in rows(logdir)), learner.pods[0])
    actors.pods[0].process.kill()
    wait_for(lambda: [learner.is_complete(), actors.is_complete()] == [True, True])
    assert [pod.process.returncode for pod in learner.pods] == [0], learner.pods[0].text()
    assert [pod.process.returncode for pod in actors.pods] == [-9, 0, 0], actors.pods[-1].text()
    assert "is over" in actors.pods[-1].text()
    assert rows(logdir)[-1]["env_frames"] >= 60_000
