#!/usr/bin/env python3
"""Prints the Kubernetes manifests of a run: render_kubernetes.py FLAGS | kubectl apply -f -

Works with any cluster; --help lists the flags. The secrets are not in the manifests: NAME-learner must hold cert.pem,
key.pem and token, NAME-actors cert.pem and token, as docker/make_secrets.sh makes them:

  kubectl create secret generic NAME-learner --from-file=DIRECTORY
  kubectl create secret generic NAME-actors --from-file=DIRECTORY/cert.pem --from-file=DIRECTORY/token
"""

import argparse
import pathlib
import sys

from templates import Mistake, Parser, check_form, check_gin, check_name, fill, pairs

TEMPLATES = pathlib.Path(__file__).parent / "kubernetes"
_QUANTITY = r"[1-9][0-9]*(\.[0-9]+)?(m|[KMGT]i?)?"
_IMAGE = r"[a-z0-9][\w./:-]*:[\w.-]+(@sha256:[0-9a-f]{64})?|[a-z0-9][\w./:-]*@sha256:[0-9a-f]{64}"
_CACHE = "/home/seed_rl/.cache"  # where a learner works whose log directory is in a bucket
_SERVER_NAME = "learner"  # in every certificate that docker/make_secrets.sh makes


def main() -> int:
    arguments = _parser().parse_args()
    try:
        print(manifests(arguments), end="")
    except Mistake as error:
        print(f"render_kubernetes.py: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> Parser:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--name", required=True, help="of the run: all objects are named after it")
    add("--namespace", default="default")
    add("--learner_image", required=True, metavar="IMAGE:TAG", help="docker/build.sh cpu, gpu or tpu")
    add("--actor_image", required=True, metavar="IMAGE:TAG", help="docker/build.sh actor, football or dmlab")
    add("--gin_file", required=True, help="experiment, such as atari/vtrace")
    add("--gin_param", action="append", default=[], metavar="BINDING", help="a setting; may be repeated")
    add("--total_frames", type=int, help="environment frames, if not the experiment's own number")
    add("--actors", type=int, required=True, metavar="N", help="actors that the learner has room for")
    add("--least_actors", type=int, metavar="N", help="scale between this number and --actors by the CPU that they use")
    add("--learner_cpu", default="4", metavar="CORES")
    add("--learner_memory", default="16Gi", metavar="SIZE")
    add("--actor_cpu", default="1", metavar="CORES")
    add("--actor_memory", default="2Gi", metavar="SIZE")
    for flag, text in (
        ("--learner_device", "a device and how many, such as nvidia.com/gpu=1"),
        ("--learner_node", "a label of the learner's node; may be repeated"),
        ("--actor_node", "a label of the actors' nodes; may be repeated"),
        ("--learner_taint", "a taint of the learner's node (NoSchedule) that it tolerates; may be repeated"),
        ("--actor_taint", "a taint of the actors' nodes (NoSchedule) that they tolerate; may be repeated"),
    ):
        add(flag, action="append", default=[], metavar="KEY=VALUE", help=text)
    add("--storage_size", default="50Gi", metavar="SIZE", help="of the volume that the run is kept on")
    add("--storage_class", metavar="CLASS", help="of the volume; default: the cluster's own")
    add("--claim", metavar="NAME", help="a volume claim that is there already, instead of one named after the run")
    add(
        "--bucket",
        metavar="URL",
        help="keep the run in gs://... or s3://... instead of a volume; needs --service_account",
    )
    add("--service_account", default="default", help="Kubernetes service account of the learner")
    return parser


def manifests(asked: argparse.Namespace) -> str:
    """All of them, as one text of YAML.

    Raises:
      Mistake: a flag's value can't be.
    """
    _check(asked)
    learner, actors = f"{asked.name}-learner", f"{asked.name}-actors"
    shared = {"name": asked.name, "namespace": asked.namespace}
    texts = []
    if not asked.bucket and not asked.claim:
        size = {"claim": f"{asked.name}-runs", "size": asked.storage_size, "storage_class": asked.storage_class}
        texts.append(fill(TEMPLATES / "claim.yaml", shared | size))
    texts.append(fill(TEMPLATES / "service.yaml", shared | {"learner": learner}))
    devices = pairs("--learner_device", asked.learner_device)
    texts.append(
        fill(
            TEMPLATES / "learner.yaml",
            shared
            | {
                "learner": learner,
                "secret": learner,
                "image": asked.learner_image,
                "arguments": learner_arguments(asked),
                "probe": _probe(),
                "service_account": asked.service_account,
                "mount": _CACHE if asked.bucket else "/runs",
                "node_selector": pairs("--learner_node", asked.learner_node),
                "tolerations": _tolerations("--learner_taint", asked.learner_taint),
                "requests": {"cpu": asked.learner_cpu, "memory": asked.learner_memory, **devices},
                "limits": {"memory": asked.learner_memory, **devices},
                "volume": _volume(asked),
            },
        )
    )
    texts.append(
        fill(
            TEMPLATES / "actors.yaml",
            shared
            | {
                "actors": actors,
                "secret": actors,
                "image": asked.actor_image,
                "arguments": actor_arguments(learner),
                # Left out, so that the autoscaler's number stays when the manifest is applied again.
                "replicas": None if asked.least_actors else asked.actors,
                "node_selector": pairs("--actor_node", asked.actor_node),
                "tolerations": _tolerations("--actor_taint", asked.actor_taint),
                "requests": {"cpu": asked.actor_cpu, "memory": asked.actor_memory},
                "limits": {"memory": asked.actor_memory},
            },
        )
    )
    if asked.least_actors:
        limits = {"actors": actors, "least": asked.least_actors, "most": asked.actors}
        texts.append(fill(TEMPLATES / "autoscaler.yaml", shared | limits))
    return "".join(texts)


def learner_arguments(asked: argparse.Namespace) -> list[str]:
    """Flags of `seed_rl learner`."""
    flags = ["learner", f"--gin_file={asked.gin_file}"]
    flags += [f"--gin_param={check_gin(binding)}" for binding in asked.gin_param]
    flags += [] if asked.total_frames is None else [f"--total_frames={asked.total_frames}"]
    logdir = f"{asked.bucket}/runs/{asked.name}" if asked.bucket else f"/runs/{asked.name}"
    flags += [f"--logdir={logdir}", f"--num_actors={asked.actors}", "--server_address=0.0.0.0:8686"]
    return [*flags, "--tls_cert=/secrets/cert.pem", "--tls_key=/secrets/key.pem", "--token_file=/secrets/token"]


def actor_arguments(learner: str) -> list[str]:
    """Flags of `seed_rl actor`."""
    flags = ["actor", f"--server_address={learner}:8686", f"--tls_server_name={_SERVER_NAME}"]
    return [*flags, "--tls_ca=/secrets/cert.pem", "--token_file=/secrets/token"]


def _probe() -> list[str]:
    flags = ["--ask", "--tls_ca=/secrets/cert.pem", f"--tls_server_name={_SERVER_NAME}", "--token_file=/secrets/token"]
    return ["python3", "/usr/local/lib/seed_rl/health.py", *flags]


def _volume(asked: argparse.Namespace) -> dict[str, object]:
    if asked.bucket:
        return {"name": "runs", "emptyDir": {}}  # the learner works in a copy of what the bucket holds
    return {"name": "runs", "persistentVolumeClaim": {"claimName": asked.claim or f"{asked.name}-runs"}}


def _tolerations(flag: str, taints: list[str]) -> list[dict[str, str]]:
    return [
        {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}
        for key, value in pairs(flag, taints).items()
    ]


def _check(asked: argparse.Namespace) -> None:
    for flag in ("name", "namespace", "service_account"):
        check_name(f"--{flag}", getattr(asked, flag))
    for flag in ("learner_image", "actor_image"):
        check_form(f"--{flag}", getattr(asked, flag), _IMAGE, "an image with its tag or digest")
    for flag in ("learner_cpu", "learner_memory", "actor_cpu", "actor_memory", "storage_size"):
        check_form(f"--{flag}", getattr(asked, flag), _QUANTITY, "a quantity such as 4, 500m or 16Gi")
    if asked.bucket:
        check_form("--bucket", asked.bucket, r"(gs|s3)://[a-z0-9][\w./-]*\w", "gs://BUCKET or s3://BUCKET")
    for flag in ("claim", "storage_class"):
        check_form(f"--{flag}", getattr(asked, flag) or "x", r"[a-z0-9][a-z0-9._-]*", "a name in lower case")
    check_form("--gin_file", asked.gin_file, r"[\w./-]+", "an experiment such as atari/vtrace")
    for device in pairs("--learner_device", asked.learner_device).values():
        check_form("--learner_device", device, r"[1-9][0-9]*", "a device and a number, such as nvidia.com/gpu=1")
    for flag in ("actors", "least_actors", "total_frames"):
        value = getattr(asked, flag)
        if value is not None and value < 1:
            raise Mistake(f"--{flag} must be at least 1, got {value}")
    if asked.least_actors and asked.least_actors > asked.actors:
        raise Mistake(f"--least_actors ({asked.least_actors}) must not exceed --actors ({asked.actors})")
    if asked.bucket and asked.claim:
        raise Mistake("--bucket and --claim are two places for one run: give one")
    if asked.bucket and asked.service_account == "default":
        raise Mistake("--bucket needs --service_account, one that may write into the bucket")


if __name__ == "__main__":
    sys.exit(main())
