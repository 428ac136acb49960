"""docker/cloud/gke.sh and the manifests for any cluster, without a cluster."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
import sys

import kubernetes_validate
import pytest
import yaml

from seed_rl.launch.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSIONS = ("1.31", kubernetes_validate.latest_version())
CLUSTER = ("--project=lab-1", "--location=europe-west4", "--cluster=rl")
RUN = ("--name=pong", "--gin_file=atari/vtrace", "--actors=20", "--repository=europe-west4-docker.pkg.dev/lab-1/images")
LAUNCH = (*CLUSTER, *RUN, "--tag=v1")

VARIANTS = {
    "gpu": (),
    "no accelerator": ("--accelerator=none",),
    "tpu": ("--accelerator=tpu", "--tpu_topology=2x4"),
    "bucket": ("--bucket=lab-runs", "--service_account=learner"),
    "autoscaled": ("--least_actors=2",),
    "spot learner": ("--spot_learner", "--namespace=rl", "--storage_size=100Gi"),
    "football": ("--gin_file=football/vtrace_large", "--gin_param=Football.rewards='scoring'", "--total_frames=1000"),
}


def printed(script, secrets, *flags):
    return script.done("cloud/gke.sh", "--dry_run", *LAUNCH, f"--secrets={secrets}", *flags)


def manifests(text):
    """The objects in a dry run, by kind."""
    (found,) = re.findall(r"^kubectl apply --filename=- <<'EOF'\n(.*?)^EOF$", text, re.DOTALL | re.MULTILINE)
    documents = list(yaml.safe_load_all(found))
    assert len({document["kind"] for document in documents}) == len(documents)
    return {document["kind"]: document for document in documents}


def pod(workload):
    return workload["spec"]["template"]["spec"]


def container(workload):
    (only,) = pod(workload)["containers"]
    return only


@pytest.mark.parametrize("flags", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_are_valid(script, secrets, flags, version):
    found = manifests(printed(script, secrets, *flags))
    assert {"Service", "Job", "Deployment"} <= set(found)
    for document in found.values():
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("flags", VARIANTS.values(), ids=VARIANTS)
def test_nothing_is_touched_and_no_secret_is_shown(script, secrets, has_no_secret, flags):
    assert has_no_secret(printed(script, secrets, *flags))
    assert script.records() == []


def test_what_runs_is_what_was_printed(script, secrets, has_no_secret):
    flags = (
        *LAUNCH,
        f"--secrets={secrets}",
        "--create_cluster",
        "--namespace=rl",
        "--gin_param=Atari.game = 'breakout'",
    )
    text = script.done("cloud/gke.sh", "--dry_run", *flags)
    script.done("cloud/gke.sh", *flags)
    records = script.records()
    applied = text[text.index("<<'EOF'\n") + len("<<'EOF'\n") : text.rindex("EOF\n")]
    expected = []
    for line in text[: text.index("<<'EOF'")].splitlines():
        words = shlex.split(line)
        for part in " ".join(map(shlex.quote, words)).split(" '|' "):
            part = shlex.split(part)
            expected.append(part[part.index("docker") :] if part[0] == "env" else part)
    ran = [record["command"] for record in records]
    assert sorted(ran) == sorted(expected), "the two ends of a pipe run at the same time"
    assert ran[0] == [
        "gcloud",
        "container",
        "clusters",
        "create-auto",
        "rl",
        "--project=lab-1",
        "--location=europe-west4",
    ]
    assert ran[-1] == ["kubectl", "apply", "--filename=-"]
    assert records[-1]["input"] == applied
    assert [record["input"] for record in records if "--server-side" in record["command"]] == ["of-kubectl\n"] * 2
    for record in records:
        assert has_no_secret(" ".join(record["command"]) + record["input"])


def test_secrets_are_made_from_files_and_actors_get_no_key(script, secrets):
    text = printed(script, secrets)
    lines = [line for line in text.splitlines() if "create secret" in line]
    files = {re.search(r"generic (\S+)", line)[1]: re.findall(rf"--from-file={secrets}/(\S+)", line) for line in lines}
    assert files == {"pong-learner": ["cert.pem", "key.pem", "token"], "pong-actors": ["cert.pem", "token"]}
    found = manifests(text)
    for workload, secret in ((found["Job"], "pong-learner"), (found["Deployment"], "pong-actors")):
        volumes = {volume["name"]: volume for volume in pod(workload)["volumes"]}
        assert volumes["secrets"]["secret"] == {"secretName": secret, "defaultMode": 0o440}
        paths = re.findall(r"=/secrets/(\S+)", " ".join(container(workload)["args"]))
        assert set(paths) <= set(files[secret])
        assert len(paths) == len(files[secret])
        assert "env" not in container(workload)


@pytest.mark.parametrize("kind", ["Job", "Deployment"])
def test_seed_rl_knows_the_flags(script, secrets, kind, capsys):
    found = manifests(printed(script, secrets, "--gin_param=Atari.game = 'breakout'", "--total_frames=1000"))
    arguments = container(found[kind])["args"]
    assert main([*arguments, "--help"]) == 0, capsys.readouterr().err
    if kind == "Job":
        assert "--gin_param=Atari.game = 'breakout'" in arguments
        assert {"--num_actors=20", "--total_frames=1000", "--logdir=/runs/pong"} <= set(arguments)


def test_the_probes_are_flags_that_the_health_check_has(script, secrets):
    found = manifests(printed(script, secrets))
    for workload, kinds in (
        (found["Job"], ("startup", "liveness")),
        (found["Deployment"], ("readiness", "liveness")),
    ):
        for kind in kinds:
            program, path, *flags = container(workload)[f"{kind}Probe"]["exec"]["command"]
            assert (program, path) == ("python3", "/usr/local/lib/seed_rl/health.py")
            from_here = [sys.executable, ROOT / "docker/health.py", *flags, "--help"]
            assert subprocess.run(from_here, capture_output=True).returncode == 0
            assert ("--ask" in flags) == (workload is found["Job"])


def test_actors_find_the_learner_by_the_service(script, secrets):
    found = manifests(printed(script, secrets))
    service, learner = found["Service"], found["Job"]
    assert service["spec"]["clusterIP"] == "None"
    selected = service["spec"]["selector"]
    assert selected.items() <= learner["spec"]["template"]["metadata"]["labels"].items()
    assert not selected.items() <= found["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    (port,) = container(learner)["ports"]
    assert port["containerPort"] == service["spec"]["ports"][0]["port"] == 8686
    arguments = container(found["Deployment"])["args"]
    assert f"--server_address={service['metadata']['name']}:8686" in arguments
    assert "--server_address=0.0.0.0:8686" in container(learner)["args"]


def test_a_learner_that_is_taken_away_comes_back_to_its_volume_and_a_mistake_does_not(script, secrets):
    found = manifests(printed(script, secrets))
    job = found["Job"]["spec"]
    assert pod(found["Job"])["restartPolicy"] == "Never"
    rules = {rule["action"]: rule for rule in job["podFailurePolicy"]["rules"]}
    assert rules["Ignore"]["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert rules["FailJob"]["onExitCodes"]["values"] == [2]
    assert main(["learner", "--gin_file=none"]) == 2, "the code of a mistake"
    assert job["podReplacementPolicy"] == "Failed", "never two learners on one volume"
    assert pod(found["Job"])["terminationGracePeriodSeconds"] >= 60
    (mount,) = (m for m in container(found["Job"])["volumeMounts"] if m["name"] == "runs")
    assert mount["mountPath"] == "/runs"
    (volume,) = (v for v in pod(found["Job"])["volumes"] if v["name"] == "runs")
    assert volume["persistentVolumeClaim"]["claimName"] == found["PersistentVolumeClaim"]["metadata"]["name"]


def test_a_bucket_takes_the_place_of_the_volume(script, secrets):
    found = manifests(printed(script, secrets, *VARIANTS["bucket"]))
    assert "PersistentVolumeClaim" not in found
    (volume,) = (v for v in pod(found["Job"])["volumes"] if v["name"] == "runs")
    assert volume == {"name": "runs", "emptyDir": {}}, "a copy, which goes away with the pod"
    assert "--logdir=gs://lab-runs/runs/pong" in container(found["Job"])["args"]
    (mount,) = (m for m in container(found["Job"])["volumeMounts"] if m["name"] == "runs")
    home = re.search(r"useradd --create-home .* (\w+) ", (ROOT / "docker/Dockerfile").read_text())[1]
    assert mount["mountPath"] == f"/home/{home}/.cache", "where the learner makes its copy"
    assert pod(found["Job"])["serviceAccountName"] == "learner"


def test_actors_are_on_spot_machines_and_the_learner_is_if_asked(script, secrets):
    spot = ("cloud.google.com/gke-spot", "true")
    for flags, expected in (((), False), (VARIANTS["spot learner"], True)):
        found = manifests(printed(script, secrets, *flags))
        for kind, is_spot in (("Deployment", True), ("Job", expected)):
            assert (spot in pod(found[kind])["nodeSelector"].items()) == is_spot
            assert (spot[0] in [taint["key"] for taint in pod(found[kind])["tolerations"]]) == is_spot


@pytest.mark.parametrize(
    ("variant", "device", "label"),
    [
        ("gpu", {"nvidia.com/gpu": "1"}, {"cloud.google.com/gke-accelerator": "nvidia-l4"}),
        ("no accelerator", {}, {}),
        (
            "tpu",
            {"google.com/tpu": "8"},
            {
                "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
                "cloud.google.com/gke-tpu-topology": "2x4",
            },
        ),
    ],
)
def test_the_learner_gets_its_accelerator(script, secrets, variant, device, label):
    found = manifests(printed(script, secrets, *VARIANTS[variant]))
    resources = container(found["Job"])["resources"]
    assert resources["requests"] == {"cpu": "4", "memory": "16Gi", **device}
    assert resources["limits"] == {"memory": "16Gi", **device}
    assert pod(found["Job"])["nodeSelector"] == label
    images = {"gpu": "gpu:v1", "no accelerator": "cpu:v1", "tpu": "tpu:v1"}
    assert container(found["Job"])["image"].endswith(images[variant])
    assert container(found["Deployment"])["image"] == "europe-west4-docker.pkg.dev/lab-1/images/seed_rl-actor:v1"


@pytest.mark.parametrize(
    ("flags", "image"),
    [
        ((), "actor"),
        (("--gin_file=memory/r2d2.gin",), "actor"),
        (("--gin_file=football/academy",), "football"),
        (("--gin_file=dmlab/small",), "dmlab"),
        (("--gin_file=theirs/doom", "--no_build", "--suite=dmlab"), "dmlab"),
    ],
)
def test_actors_get_the_image_of_their_suite(script, secrets, flags, image):
    found = manifests(printed(script, secrets, *flags))
    assert container(found["Deployment"])["image"].endswith(f"/seed_rl-{image}:v1")
    backend = "--gin_param=Football.backend='gfootball'"
    assert (backend in container(found["Job"])["args"]) == (image == "football"), "the one that the image has"


def test_actors_scale_between_the_limits_that_are_asked_for(script, secrets):
    fixed, scaled = (manifests(printed(script, secrets, *flags)) for flags in ((), VARIANTS["autoscaled"]))
    assert fixed["Deployment"]["spec"]["replicas"] == 20
    assert "HorizontalPodAutoscaler" not in fixed
    assert "replicas" not in scaled["Deployment"]["spec"], "or it would be reset whenever it is applied"
    spec = scaled["HorizontalPodAutoscaler"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 20)
    assert spec["scaleTargetRef"]["name"] == scaled["Deployment"]["metadata"]["name"]
    assert container(scaled["Deployment"])["resources"]["requests"]["cpu"], "what the share is of"


def test_processes_have_no_rights(script, secrets):
    found = manifests(printed(script, secrets))
    for workload in (found["Job"], found["Deployment"]):
        assert pod(workload)["securityContext"]["runAsNonRoot"] is True
        assert pod(workload)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod(workload)["automountServiceAccountToken"] is False
        assert container(workload)["securityContext"]["allowPrivilegeEscalation"] is False
        assert container(workload)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_delete_leaves_the_volume(script):
    script.done("cloud/gke.sh", "--delete", *CLUSTER, "--name=pong")
    delete = script.records()[-1]["command"]
    assert {"job/pong-learner", "deployment/pong-actors", "secret/pong-learner", "secret/pong-actors"} < set(delete)
    assert not [word for word in delete if "persistentvolumeclaim" in word or "pvc" in word]


def test_the_end_that_is_told_is_of_this_run(script, secrets):
    told = script.run("cloud/gke.sh", "--dry_run", *LAUNCH, f"--secrets={secrets}", "--namespace=rl").stderr
    (end,) = re.findall(r"^The end: .*gke\.sh (.*)$", told, re.MULTILINE)
    script.done("cloud/gke.sh", *shlex.split(end))
    delete = script.records()[-1]["command"]
    assert delete[:3] == ["kubectl", "--namespace=rl", "delete"]
    assert "job/pong-learner" in delete


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--name=Pong!",), "--name must be at most 40 of a-z, 0-9 and -, beginning with a letter, got 'Pong!'"),
        (("--name=" + "a" * 41,), "--name must be at most 40"),
        (("--actors=many",), "--actors must be a whole number from 1 on, got 'many'"),
        (("--actors=",), "--actors is needed"),
        (("--location=mars",), "--location must be a region or zone"),
        (("--gin_file=atari/vtrase",), "there is no experiment atari/vtrase in configs/"),
        (("--suite=doom",), "--suite must be atari, football or dmlab, got 'doom'"),
        (("--accelerator=npu",), "--accelerator must be none, gpu or tpu, got 'npu'"),
        (
            ("--accelerator=tpu", "--tpu_topology=4x4"),
            "2x4 or 2x2x1, since a learner uses the chips of one host, got '4x4'",
        ),
        (
            ("--accelerator=tpu", "--tpu_topology=2x4", "--accelerator_count=4"),
            "--accelerator_count must be the 8 chips of",
        ),
        (("--bucket=gs://lab-runs",), "--bucket must be a bucket's name without gs://, got 'gs://lab-runs'"),
        (("--namespace=my_rl",), "--namespace must be at most 40 of a-z, 0-9 and -"),
        (("--name",), "--name needs a value"),
        (("--learner_memory=lots",), "--learner_memory must be a quantity such as 4, 500m or 16Gi, got 'lots'"),
        (("--least_actors=21",), "--least_actors (21) must not exceed --actors (20)"),
        (("--bucket=lab-runs",), "--bucket needs --service_account"),
        (("--total_frames=1e6",), "--total_frames must be a whole number from 1 on, got '1e6'"),
        (("--gin_param=oops",), "--gin_param must be a gin binding such as Atari.game='pong', got 'oops'"),
        (("--gin_param=A.b='x'\n- evil",), "--gin_param must be a gin binding"),
        (("pong",), "there are only flags, got 'pong'"),
        ((f"--secrets={ROOT}",), "--secrets must be a directory of docker/make_secrets.sh or a new one"),
        (("--gpus=1",), "there is no --gpus; --help lists the flags"),
    ],
)
def test_a_mistake_gets_a_sentence_and_touches_nothing(script, flags, sentence):
    assert sentence in script.mistake("cloud/gke.sh", *LAUNCH, *flags)


def test_the_renderer_tells_a_wrong_flag_in_a_sentence(script):
    mistake = script.mistake("cloud/render_kubernetes.py", "--actors=many")
    assert mistake.startswith("render_kubernetes.py: argument --actors: invalid int value: 'many'")


def test_templates_are_strict(tmp_path):
    namespace = {"__name__": "templates"}
    exec(compile((ROOT / "docker/cloud/templates.py").read_text(encoding="utf-8"), "templates.py", "exec"), namespace)
    template = tmp_path / "template.yaml"
    template.write_text("# What it is.\nname: ${name}\nsize: ${size}\n")
    assert namespace["fill"](template, {"name": 'a"b', "size": None}) == 'name: "a\\"b"\n'
    for values in ({"name": "a"}, {"name": "a", "size": 1, "more": 2}):
        with pytest.raises(KeyError, match=r"differ in \['(size|more)'\]"):
            namespace["fill"](template, values)


def test_a_bucket_may_be_at_another_provider(script):
    images = ("--learner_image=r/cpu:1", "--actor_image=r/actor:1")
    run = ("cloud/render_kubernetes.py", "--name=a", "--gin_file=catch/vtrace", "--actors=3", *images)
    text = script.done(*run, "--bucket=s3://lab-runs/rl", "--service_account=writer")
    (job,) = (document for document in yaml.safe_load_all(text) if document["kind"] == "Job")
    assert "--logdir=s3://lab-runs/rl/runs/a" in container(job)["args"]
    mistake = script.mistake(*run, "--bucket=lab-runs", "--service_account=writer")
    assert "--bucket must be gs://BUCKET or s3://BUCKET, got 'lab-runs'" in mistake


def test_other_clusters_get_the_same_manifests_with_their_own_nodes(script):
    images = ("--learner_image=registry.example/seed_rl-gpu:1", "--actor_image=registry.example/seed_rl-actor:1")
    nodes = ("--learner_device=nvidia.com/gpu=2", "--learner_taint=nvidia.com/gpu=present", "--actor_node=pool=cheap")
    text = script.done(
        "cloud/render_kubernetes.py",
        "--name=a",
        "--gin_file=catch/vtrace",
        "--actors=3",
        *images,
        *nodes,
        "--claim=mine",
    )
    found = {document["kind"]: document for document in yaml.safe_load_all(text)}
    assert set(found) == {"Service", "Job", "Deployment"}, "the claim is there already"
    for document in found.values():
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)
    assert "gke" not in text
    assert "google" not in text
    assert container(found["Job"])["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert pod(found["Job"])["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]
    assert pod(found["Deployment"])["nodeSelector"] == {"pool": "cheap"}
    assert {"name": "runs", "persistentVolumeClaim": {"claimName": "mine"}} in pod(found["Job"])["volumes"]
