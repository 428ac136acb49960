"""docker/cloud without a cloud. images_test.py starts a run with the command lines of its manifests."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import subprocess
import sys

import kubernetes_validate
import pytest
import yaml

from seed_rl.cli.main import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ("--project=lab-1", "--repository=registry.example/rl", "--tag=v1", "--name=pong", "--actors=20")
GKE = ("cloud/gke.sh", *RUN, "--gin_file=atari/vtrace", "--location=europe-west4", "--cluster=rl")
EXPERIMENT = ("--gin_param=Atari.game = 'breakout'", "--total_frames=12M")
BUCKET = ("--bucket=lab-runs", "--service_account=writer", "--days=2")
IMAGES = ("--learner_image=r/gpu:1", "--actor_image=r/actor:1", "--name=a", "--gin_file=catch/vtrace")


def objects_of(text):
    """The objects of a manifest by kind and component."""
    documents = yaml.safe_load_all(text)
    return {f"{each['kind']} {each['metadata']['name'].rpartition('-')[2]}": each for each in documents}


@pytest.fixture
def objects(script, secrets):
    """The objects of a dry run of gke.sh, and the pods and containers of learner and actors."""

    def render(*flags):
        printed = script.done(*GKE, f"--secrets={secrets}", "--dry_run", *flags)
        found = objects_of(printed[printed.index("<<'EOF'\n") + 8 : printed.rindex("EOF")])
        pods = [found[f"Job {role}"]["spec"]["template"]["spec"] for role in ("learner", "actors")]
        return found, *pods, *(pod["containers"][0] for pod in pods)

    return render


def test_manifests_fit_the_schemas_of_kubernetes(script, objects):
    hosts = ("--actors=5", "--learners=2", "--claim=nfs", "--learner_taint=gpu=present", "--learner_cpu=0.5")
    rendered = objects_of(script.done("cloud/render_kubernetes.py", *IMAGES, *hosts))
    for found in (objects()[0], objects(*BUCKET)[0], rendered):
        for document in found.values():
            for version in ("1.31", kubernetes_validate.latest_version()):
                kubernetes_validate.validate(document, version, strict=True)


def test_a_run_executes_what_a_dry_run_prints_and_shows_no_secret(script, secrets, has_no_secret):
    command = (*GKE, "--create_cluster", "--namespace=rl")
    printed, pasted, done = script.printed_and_done(*command, f"--secrets={secrets}", *EXPERIMENT)
    assert len(done) > 10
    assert sorted(pasted, key=str) == sorted(done, key=str), "the two ends of a pipe run at the same time"
    assert has_no_secret(printed + json.dumps(done))
    assert "breakout" in done[-1]["input"]
    old_ends, new_starts = printed.index("delete --cascade=foreground"), printed.rindex("kubectl apply --filename=-")
    assert old_ends < new_starts, "a new learner starts when the old one has written its checkpoint"


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
    job = found["Job learner"]["spec"]
    rules = {rule["action"]: rule for rule in job["podFailurePolicy"]["rules"]}
    assert rules["Ignore"]["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert rules["FailJob"]["onExitCodes"]["values"] == [main(["learner", "--gin_file=none"])]
    assert (pod["restartPolicy"], actors["restartPolicy"], job["podReplacementPolicy"]) == ("Never", "Never", "Failed")
    assert job["activeDeadlineSeconds"] == 7 * 86_400
    claim = {"claimName": found["PersistentVolumeClaim runs"]["metadata"]["name"]}
    assert {"name": "runs", "persistentVolumeClaim": claim} in pod["volumes"]
    assert {"name": "runs", "mountPath": "/runs"} in learner["volumeMounts"]
    secrets = [v["secret"]["secretName"] for p in (pod, actors) for v in p["volumes"] if "secret" in v]
    assert secrets == ["pong-learner", "pong-actors"]


def test_a_run_in_a_bucket_has_a_local_copy_that_goes_away_with_its_pod(objects):
    found, pod, _, learner, _ = objects(*BUCKET)
    assert found["Job learner"]["spec"]["activeDeadlineSeconds"] == 2 * 86_400
    assert "PersistentVolumeClaim runs" not in found
    assert {"name": "runs", "emptyDir": {"sizeLimit": "10Gi"}} in pod["volumes"]
    assert learner["resources"]["requests"]["ephemeral-storage"] == "10Gi"
    assert learner["env"] == [{"name": "XDG_CACHE_HOME", "value": "/runs"}]
    assert "--logdir=gs://lab-runs/runs/pong" in learner["args"]
    assert pod["serviceAccountName"] == "writer"


@pytest.mark.parametrize(
    ("flags", "devices", "node", "images"),
    [
        ("", {"nvidia.com/gpu": "1"}, "gke-accelerator=nvidia-l4", ("gpu", "actor")),
        ("--accelerator=none --gin_file=football/academy --spot_learner", {}, "gke-spot=true", ("cpu", "football")),
        (
            "--accelerator=tpu --tpu_topology=2x4 --suite=mujoco",
            {"google.com/tpu": "8"},
            "gke-tpu-topology=2x4",
            ("tpu-mujoco", "actor-mujoco"),
        ),
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
    command = ("cloud/render_kubernetes.py", *IMAGES, "--actors=5", "--learners=2")
    assert "--learners needs --bucket" in script.run(*command).stderr
    text = script.done(*command, "--claim=nfs", "--learner_taint=gpu=present")
    assert not re.search("gke|google", text), "any cluster will do"
    found = objects_of(text)
    job, service = found["Job learner"]["spec"], found["Service learner"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    pod = job["template"]["spec"]
    assert pod["tolerations"] == [{"key": "gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}]
    assert {"name": "runs", "persistentVolumeClaim": {"claimName": "nfs"}} in pod["volumes"]
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
