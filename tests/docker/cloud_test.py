"""docker/cloud without a cloud. images_test.py starts a run with the command lines of its manifests."""

from __future__ import annotations

import json
import pathlib

import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ("--project=lab-1", "--repository=registry.example/rl", "--tag=v1", "--name=pong", "--actors=20")
GKE = ("cloud/gke.sh", *RUN, "--gin_file=atari/vtrace", "--location=europe-west4", "--cluster=rl")
EXPERIMENT = ("--gin_param=Atari.game = 'breakout'", "--total_frames=12M")
BUCKET = ("--bucket=lab-runs", "--service_account=writer", "--days=2")
IMAGES = ("--learner_image=r/gpu:1", "--actor_image=r/actor:1", "--name=a", "--gin_file=catch/vtrace")


def test_manifests_fit_the_schemas_of_kubernetes(script, secrets):
    hosts = ("--actors=5", "--learners=2", "--claim=nfs", "--learner_taint=gpu=present", "--learner_cpu=0.5")
    rendered = [script.done("cloud/render_kubernetes.py", *IMAGES, *hosts)]
    for flags in ((), BUCKET):
        printed = script.done(*GKE, f"--secrets={secrets}", "--dry_run", *flags)
        rendered.append(printed[printed.index("<<'EOF'\n") + 8 : printed.rindex("EOF")])
    for document in (each for text in rendered for each in yaml.safe_load_all(text)):
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
