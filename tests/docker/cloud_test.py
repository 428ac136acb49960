"""docker/cloud without a cloud. images_test.py starts a run with the command lines of its manifests."""

from __future__ import annotations

import json
import pathlib
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
    rules = {rule["action"]: rule for rule in found["Job learner"]["spec"]["podFailurePolicy"]["rules"]}
    assert rules["FailJob"]["onExitCodes"]["values"] == [main(["learner", "--gin_file=none"])]
    for container, probe in ((learner, "startup"), (actor, "readiness")):
        assert main([*container["args"], "--help"]) == 0, capsys.readouterr().err
        for kind in (probe, "liveness"):
            program, path, *flags = container[f"{kind}Probe"]["exec"]["command"]
            assert (program, path) == ("python3", "/usr/local/lib/seed_rl/health.py")
            assert ("--ask" in flags) == (container is learner)
            subprocess.run([sys.executable, ROOT / "docker/health.py", *flags, "--help"], check=True)
