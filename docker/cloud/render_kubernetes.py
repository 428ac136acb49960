#!/usr/bin/env python3
"""Prints the Kubernetes manifests of a run: render_kubernetes.py FLAGS | kubectl apply -f -

Works with any cluster. The secrets are not in the manifests: NAME-learner must hold cert.pem, key.pem and token,
NAME-actors cert.pem and token, as docker/make_secrets.sh makes them (docs/cloud.md).
"""

import argparse
import json
import pathlib
import shlex
import string
import sys
from collections.abc import Sequence

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import launch
from launch import count, form

MANIFESTS = pathlib.Path(__file__).parent / "kubernetes.yaml"
# The certificate of docker/make_secrets.sh always names "learner".
_TRUST = ["--tls_server_name=learner", "--tls_ca=/secrets/cert.pem", "--token_file=/secrets/token"]
_SERVE = ["--server_address=0.0.0.0:8686", "--tls_cert=/secrets/cert.pem", "--tls_key=/secrets/key.pem", _TRUST[-1]]
_SPOT = ("cloud.google.com/gke-spot", "true")
_CHIPS = {"1x1": 1, "2x2": 4, "2x4": 8, "2x2x1": 4}  # of one host
_MEANINGLESS = {"none": ("accelerator_type", "accelerator_count", "tpu_topology"), "gpu": ("tpu_topology",), "tpu": ()}

device = form(r"[\w./-]+=[1-9][0-9]*", "a kind of device and how many, such as nvidia.com/gpu=1")
name = form(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", "at most 40 of a-z, 0-9 and -, beginning with a letter")


def pair(text: str) -> tuple[str, str]:
    """The type of a flag that is a label or a taint: its key and its value."""
    key, _, value = form(r"[A-Za-z0-9][\w./-]*=[\w.-]*", "KEY=VALUE")(text).partition("=")
    return key, value


def parser_of(prog: str, description: str) -> launch.Parser:
    """A parser with the flags that every cluster has."""
    parser = launch.Parser(prog, description)
    add = parser.add_argument
    add("--name", type=name, required=True, help="of the run: all objects are named after it")
    add("--namespace", type=name, default="default")
    frames = form(r"[1-9][\w.]*", "a number of frames such as 12M")
    add("--total_frames", type=frames, metavar="N", help="environment frames; default: the experiment's")
    add("--actors", type=count, metavar="N", help="actors that the learner has room for")
    quantity = form(r"([1-9][0-9]*|0(?=\.0*[1-9]))(\.[0-9]+)?(m|[KMGT]i?)?", "a quantity such as 4, 0.5, 500m or 16Gi")
    for flag, default in (("learner", ("4", "16Gi")), ("actor", ("1", "2Gi"))):
        add(f"--{flag}_cpu", type=quantity, default=default[0], metavar="CORES", help=f"default: {default[0]}")
        add(f"--{flag}_memory", type=quantity, default=default[1], metavar="SIZE", help=f"default: {default[1]}")
    add("--days", type=count, default=7, metavar="N", help="after which the run is ended; default: 7")
    size = "of the run's volume (default: 50Gi), or of the learner's local copy of a bucket (10Gi)"
    add("--storage_size", type=quantity, metavar="SIZE", help=size)
    add("--service_account", type=name, default="default", help="of Kubernetes, which may write into --bucket")
    return parser


def render(arguments: Sequence[str]) -> None:
    parser = parser_of("render_kubernetes.py", __doc__)
    add = parser.add_argument
    image = form(r"[a-z0-9][\w./:-]*(:[\w.-]+|@sha256:[0-9a-f]{64})", "an image with its tag or digest")
    add("--learner_image", type=image, required=True, metavar="IMAGE:TAG", help="docker/build.sh cpu, gpu or tpu")
    add("--actor_image", type=image, required=True, metavar="IMAGE:TAG", help="docker/build.sh actor or a suite")
    add("--gin_file", type=form(r"[\w./-]+", "an experiment such as atari/vtrace"), required=True)
    add("--gin_param", type=launch.binding, action="append", default=[], help="a setting; may be repeated")
    add("--learners", type=count, default=1, metavar="N", help="learner hosts, which share the batch and the actors")
    add("--learner_device", type=device, action="append", default=[], metavar="KEY=N", help="such as nvidia.com/gpu=1")
    for flag in ("learner_node", "actor_node", "learner_taint", "actor_taint"):
        what = "a label of its node" if flag.endswith("node") else "a taint (NoSchedule) that it tolerates"
        add(f"--{flag}", type=pair, action="append", default=[], metavar="KEY=VALUE", help=f"{what}; may be repeated")
    place = form(r"[a-z0-9][a-z0-9._-]*", "a name in lower case")
    add("--storage_class", type=place, metavar="CLASS", help="of the volume; default: the cluster's")
    add("--claim", type=place, metavar="NAME", help="an existing volume claim; default: a new one, NAME-runs")
    bucket = form(r"(gs|s3)://[a-z0-9][\w./-]*\w", "gs://BUCKET or s3://BUCKET")
    add("--bucket", type=bucket, metavar="URL", help="keep the run there instead; needs --service_account")
    asked = parser.parse_args(arguments)
    if asked.bucket and asked.claim:
        parser.error("--bucket and --claim are two places for one run: give one")
    if asked.learners > 1 and not (asked.bucket or asked.claim):
        parser.error("--learners needs --bucket, or a --claim of a volume that all of their nodes can mount")
    print(manifests(parser, asked), end="")


def manifests(parser: launch.Parser, asked: argparse.Namespace) -> str:
    """All of them, as one text of YAML."""
    if asked.actors is None:
        parser.error("--actors is needed")
    if asked.bucket and asked.service_account == "default":
        parser.error("--bucket needs --service_account, one that may write into the bucket")
    learner, claim = f"{asked.name}-learner", asked.claim or f"{asked.name}-runs"
    size = asked.storage_size or ("10Gi" if asked.bucket else "50Gi")
    devices = dict(each.split("=") for each in asked.learner_device)
    hosts = [f"{learner}-{n}.{learner}:9000" for n in range(asked.learners)]
    flags = [f"--gin_file={asked.gin_file}", *(f"--gin_param={each}" for each in asked.gin_param)]
    flags += [f"--total_frames={asked.total_frames}"] if asked.total_frames else []
    flags += [f"--logdir={asked.bucket or ''}/runs/{asked.name}", f"--num_actors={-(-asked.actors // asked.learners)}"]
    flags += [f"--accelerator={kind.rpartition('/')[2]}" for kind in devices if kind.endswith(("/gpu", "/tpu"))]
    flags += [f"--learner_hosts={','.join(hosts)}", "--trusted_network"] if asked.learners > 1 else []
    limits = {"memory": asked.learner_memory, **({"ephemeral-storage": size} if asked.bucket else {}), **devices}
    taints = {"operator": "Equal", "effect": "NoSchedule"}
    values = {
        **{key: value for key, value in vars(asked).items() if isinstance(value, int | str | None)},
        "learner": learner,
        "learner_arguments": ["learner", *flags, *_SERVE],
        "learner_retries": 10 * asked.learners,
        "learner_tolerations": [{"key": key, "value": value, **taints} for key, value in asked.learner_taint],
        "learner_requests": {"cpu": asked.learner_cpu, **limits},
        "learner_limits": limits,
        "learner_node": dict(asked.learner_node),
        "ask": ["python3", "/usr/local/lib/seed_rl/health.py", "--ask", *_TRUST],
        "longest_seconds": 86_400 * asked.days,
        "volume_kind": "emptyDir" if asked.bucket else "persistentVolumeClaim",
        "volume": {"sizeLimit": size} if asked.bucket else {"claimName": claim},
        "claim": claim,
        "storage_size": size,
        "actors_name": f"{asked.name}-actors",
        "actor_arguments": ["actor", f"--server_address={learner}:8686", *_TRUST],
        "actor_retries": 30 * asked.actors,
        "actor_tolerations": [{"key": key, "value": value, **taints} for key, value in asked.actor_taint],
        "actor_requests": {"cpu": asked.actor_cpu, "memory": asked.actor_memory},
        "actor_limits": {"memory": asked.actor_memory},
        "actor_node": dict(asked.actor_node),
    }
    text = MANIFESTS.read_text(encoding="utf-8")
    text = text.rpartition("---\n")[0] if asked.bucket or asked.claim else text
    if not asked.storage_class:  # null would clear what the cluster has filled in, which it refuses
        text = text.replace("  storageClassName: ${storage_class}\n", "")
    return string.Template(text).substitute({key: json.dumps(value) for key, value in values.items()})


def gke(arguments: Sequence[str]) -> None:
    """Starts a run on Google Kubernetes Engine: builds and pushes the images, stores the secrets, and applies the
    manifests of render_kubernetes.py. Started again with the same --name, it replaces the processes, and the run
    continues. Needs docker, gcloud and kubectl."""
    parser = parser_of("gke.sh", gke.__doc__ or "")
    add = parser.add_argument
    add("--project", type=form("[a-z][-a-z0-9.:]*", "a project's id"), required=True, help="Google Cloud project")
    zone = form("[a-z]+-[a-z]+[0-9]+(-[a-z])?", "a region or zone such as europe-west4-a")
    add("--location", type=zone, required=True, help="zone or region of the cluster, such as europe-west4")
    add("--cluster", type=name, required=True, help="Autopilot, or with node pools for the machines requested below")
    add("--create_cluster", action="store_true", help="create it first, as an Autopilot cluster")
    add("--repository", type=launch.repository, help="of images, such as europe-west4-docker.pkg.dev/PROJECT/images")
    add("--tag", type=launch.tag, help="of the images; default: the commit, with a hash of what has been changed")
    add("--no_build", action="store_true", help="the images exist already")
    add("--gin_file", help="experiment, such as atari/vtrace")
    launch.add_common_flags(parser)
    add("--accelerator", choices=("none", "gpu", "tpu"), default="gpu", help="the learner's; default: gpu")
    add("--accelerator_type", type=form(r"[\w-]+", "a type"), help="default: nvidia-l4, or tpu-v5-lite-podslice (v5e)")
    add("--accelerator_count", type=count, metavar="N", help="GPUs; default: 1")
    add("--tpu_topology", choices=_CHIPS, help="chips of one host; default: 1x1")
    add("--learner_image", help="instead of this repository's")
    add("--spot_learner", action="store_true", help="the learner on a spot machine, too: it continues when preempted")
    bucket = form(r"[a-z0-9][a-z0-9._-]+", "a bucket's name without gs://")
    add("--bucket", type=bucket, help="keep the run in gs://BUCKET/runs/NAME; needs --service_account")
    add("--delete", action="store_true", help="delete the run's processes and secrets instead; its volume stays")
    asked = parser.parse_args(arguments)

    run = launch.Runner(asked.dry_run, "gcloud", "kubectl")
    where = [f"--project={asked.project}", f"--location={asked.location}"]
    connect = ["gcloud", "container", "clusters", "get-credentials", asked.cluster, *where]
    kubectl = ["kubectl", f"--namespace={asked.namespace}"]
    learner, actors = names = [f"{asked.name}-learner", f"{asked.name}-actors"]
    jobs = [f"job/{each}" for each in names]
    if asked.delete:
        objects = [*jobs, f"service/{learner}", f"networkpolicy/{learner}", *(f"secret/{each}" for each in names)]
        run(*connect)
        run(*kubectl, "delete", "--cascade=foreground", "--ignore-not-found", *objects)
        return

    for flag in _MEANINGLESS[asked.accelerator]:
        if getattr(asked, flag) is not None:
            parser.error(f"--{flag} has no meaning with --accelerator={asked.accelerator}")
    if not asked.repository or not asked.gin_file:
        parser.error("--repository and --gin_file are needed")
    asked.gin_file = asked.gin_file if asked.no_build else launch.check_experiment(asked.gin_file)
    launch.Runner(asked.dry_run, "openssl", *["docker"] * (not asked.no_build))
    launch.check_secrets(asked.secrets)
    asked.tag = asked.tag or launch.commit() or parser.error("--tag is needed outside a git repository")
    kind = asked.accelerator.replace("none", "cpu")
    ours, actor, settings = launch.choose_images(asked.suite or asked.gin_file, kind)
    images = [actor] if asked.learner_image else [actor, ours]
    asked.actor_image = launch.image_name(actor, asked.repository, asked.tag)
    asked.learner_image = asked.learner_image or launch.image_name(ours, asked.repository, asked.tag)
    asked.gin_param = settings + asked.gin_param
    asked.learner_device, asked.learner_node = [], []
    if kind == "gpu":
        asked.learner_device = [f"nvidia.com/gpu={asked.accelerator_count or 1}"]
        asked.learner_node = [("cloud.google.com/gke-accelerator", asked.accelerator_type or "nvidia-l4")]
    if kind == "tpu":
        topology = asked.tpu_topology or "1x1"
        chips = _CHIPS[topology]
        if asked.accelerator_count not in (None, chips):
            parser.error(f"--accelerator_count must be the {chips} chips of --tpu_topology, or left out")
        asked.learner_device, kind = [f"google.com/tpu={chips}"], asked.accelerator_type or "tpu-v5-lite-podslice"
        asked.learner_node = [("cloud.google.com/gke-tpu-accelerator", kind)]
        asked.learner_node += [("cloud.google.com/gke-tpu-topology", topology)]
    asked.actor_node = asked.actor_taint = [_SPOT]
    asked.learner_taint = [_SPOT] * asked.spot_learner
    asked.learner_node += asked.learner_taint
    asked.bucket = asked.bucket and f"gs://{asked.bucket}"
    asked.learners, asked.claim, asked.storage_class = 1, None, None
    text = manifests(parser, asked)  # reports any other mistake before the first change

    if asked.create_cluster:
        run("gcloud", "container", "clusters", "create-auto", asked.cluster, *where)
    if not asked.no_build:
        run("gcloud", "auth", "configure-docker", asked.repository.partition("/")[0], "--quiet")
        launch.build_images(run, images, asked.repository, asked.tag, push=True)
    if not asked.secrets.exists():
        run(launch.DOCKER / "make_secrets.sh", asked.secrets)
    run(*connect)
    dry, words = "--dry-run=client --output=yaml | kubectl", shlex.join(kubectl)
    if asked.namespace != "default":
        run.shell(f"kubectl create namespace {asked.namespace} {dry} apply --filename=-")
    # New or changed secrets, whose contents go through a pipe.
    for secret, files in ((learner, ("cert.pem", "key.pem", "token")), (actors, ("cert.pem", "token"))):
        sources = shlex.join(f"--from-file={asked.secrets / file}" for file in files)
        create = f"{words} create secret generic {secret} {sources}"
        run.shell(f"{create} {dry} {kubectl[1]} apply --server-side --filename=-")
    # A job can't be changed. This waits for the old learner's end with a checkpoint, from which a new one continues.
    run(*kubectl, "delete", "--cascade=foreground", "--ignore-not-found", *jobs)
    run("kubectl", "apply", "--filename=-", text=text)
    same = shlex.join([kubectl[1], f"--cluster={asked.cluster}", *where, f"--name={asked.name}"])
    message = f"""The run: {words} logs --follow {jobs[0]}
Curves:  {words} exec {jobs[0]} -- tensorboard --logdir=/runs, and
         {words} port-forward {jobs[0]} 6006
Actors:  {words} patch {jobs[1]} --patch='{{"spec": {{"parallelism": N}}}}'   (up to {asked.actors})
Delete:  docker/cloud/gke.sh --delete {same}"""
    print(message, file=sys.stderr)


if __name__ == "__main__":
    command, skip = (gke, 2) if sys.argv[1:2] == ["gke"] else (render, 1)
    launch.main(command, sys.argv[skip:])
