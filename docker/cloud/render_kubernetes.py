#!/usr/bin/env python3
"""Prints the Kubernetes manifests of a run: render_kubernetes.py FLAGS | kubectl apply -f -

Works with any cluster; --help lists the flags. The secrets are not in the manifests: NAME-learner must hold cert.pem,
key.pem and token, NAME-actors cert.pem and token, as docker/make_secrets.sh makes them:

  kubectl create secret generic NAME-learner --from-file=DIRECTORY
  kubectl create secret generic NAME-actors --from-file=DIRECTORY/cert.pem --from-file=DIRECTORY/token
"""

import argparse
import pathlib

from rendering import RunParser, count, device, fill, form, learner_arguments, name, pair

TEMPLATES = pathlib.Path(__file__).parent / "kubernetes"
_HOSTS_PORT = 9000
_HEALTH = ["python3", "/usr/local/lib/seed_rl/health.py"]
# The certificate of docker/make_secrets.sh always names "learner".
_TRUST = ["--tls_server_name=learner", "--tls_ca=/secrets/cert.pem", "--token_file=/secrets/token"]
_SERVE = [
    "--server_address=0.0.0.0:8686",
    "--tls_cert=/secrets/cert.pem",
    "--tls_key=/secrets/key.pem",
    "--token_file=/secrets/token",
]


def main() -> None:
    parser = _parser()
    asked = parser.parse_args()
    if (asked.least_actors or 0) > asked.actors:
        parser.error(f"--least_actors ({asked.least_actors}) must not exceed --actors ({asked.actors})")
    if asked.bucket and asked.claim:
        parser.error("--bucket and --claim are two places for one run: give one")
    if asked.learners > 1 and not (asked.bucket or asked.claim):
        parser.error("--learners needs --bucket, or a --claim of a volume that all of their nodes can mount")
    if asked.bucket and asked.service_account == "default":
        parser.error("--bucket needs --service_account, one that may write into the bucket")
    print(manifests(asked), end="")


def _parser() -> RunParser:
    parser = RunParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--namespace", type=name, default="default")
    add("--least_actors", type=count, metavar="N", help="scale between this number and --actors by their CPU usage")
    add("--learners", type=count, default=1, metavar="N", help="learner hosts, which share the batch and the actors")
    quantity = form(r"([1-9][0-9]*|0(?=\.0*[1-9]))(\.[0-9]+)?(m|[KMGT]i?)?", "a quantity such as 4, 0.5, 500m or 16Gi")
    add("--learner_cpu", type=quantity, default="4", metavar="CORES")
    add("--learner_memory", type=quantity, default="16Gi", metavar="SIZE")
    add("--actor_cpu", type=quantity, default="1", metavar="CORES")
    add("--actor_memory", type=quantity, default="2Gi", metavar="SIZE")
    add("--learner_device", type=device, action="append", default=[], metavar="KEY=N", help="such as nvidia.com/gpu=1")
    for flag, text in (
        ("--learner_node", "a label of the learner's node; may be repeated"),
        ("--actor_node", "a label of the actors' nodes; may be repeated"),
        ("--learner_taint", "a taint (NoSchedule) that the learner tolerates; may be repeated"),
        ("--actor_taint", "a taint (NoSchedule) that the actors tolerate; may be repeated"),
    ):
        add(flag, type=pair, action="append", default=[], metavar="KEY=VALUE", help=text)
    add("--days", type=count, default=7, metavar="N", help="after which the learner is ended (default: 7)")
    add("--storage_size", type=quantity, default="50Gi", metavar="SIZE", help="of the volume for the run")
    place = form(r"[a-z0-9][a-z0-9._-]*", "a name in lower case")
    add("--storage_class", type=place, metavar="CLASS", help="of the volume; default: the cluster's")
    add("--claim", type=place, metavar="NAME", help="an existing volume claim; default: a new one, NAME-runs")
    bucket = form(r"(gs|s3)://[a-z0-9][\w./-]*\w", "gs://BUCKET or s3://BUCKET")
    add("--bucket", type=bucket, metavar="URL", help="keep the run there instead; needs --service_account")
    add("--service_account", type=name, default="default", help="Kubernetes service account of the learner")
    return parser


def manifests(asked: argparse.Namespace) -> str:
    """All of them, as one text of YAML."""
    learner, claim = f"{asked.name}-learner", asked.claim or f"{asked.name}-runs"
    devices, several = dict(asked.learner_device), asked.learners > 1
    of_each = argparse.Namespace(**vars(asked) | {"actors": -(-asked.actors // asked.learners)})
    hosts = ",".join(f"{learner}-{index}.{learner}:{_HOSTS_PORT}" for index in range(asked.learners))
    # With a bucket, the learner works on a local copy in its cache.
    volume = {"emptyDir": {}} if asked.bucket else {"persistentVolumeClaim": {"claimName": claim}}
    made = {
        "learner": learner,
        "learner_arguments": [
            *learner_arguments(of_each, f"{asked.bucket or ''}/runs/{asked.name}"),
            *_SERVE,
            *([f"--learner_hosts={hosts}", "--trusted_network"] if several else []),
        ],
        # Kubernetes tells each pod of an Indexed Job which one it is, and names it in the subdomain.
        "completion_mode": "Indexed" if several else None,
        "subdomain": learner if several else None,
        "by_name_at_once": True if several else None,
        "hosts_port": _HOSTS_PORT if several else None,
        "retries": 10 * asked.learners,
        "longest_seconds": 86_400 * asked.days,
        "learner_tolerations": _tolerations(asked.learner_taint),
        "learner_requests": {"cpu": asked.learner_cpu, "memory": asked.learner_memory, **devices},
        "learner_limits": {"memory": asked.learner_memory, **devices},
        "learner_node": dict(asked.learner_node),
        "ask": [*_HEALTH, "--ask", *_TRUST],
        "mount": "/home/seed_rl/.cache" if asked.bucket else "/runs",
        "volume": {"name": "runs", **volume},
        "claim": claim,
        "actors": f"{asked.name}-actors",
        "actor_arguments": ["actor", f"--server_address={learner}:8686", *_TRUST],
        "actor_tolerations": _tolerations(asked.actor_taint),
        "actor_requests": {"cpu": asked.actor_cpu, "memory": asked.actor_memory},
        "actor_limits": {"memory": asked.actor_memory},
        "actor_node": dict(asked.actor_node),
        "look": _HEALTH,
        "most_actors": asked.actors,
        # Without the number, applying the manifest again leaves the autoscaler's choice alone.
        "replicas": None if asked.least_actors else asked.actors,
    }
    templates = ["learner.yaml", "actors.yaml", *(["network_policy.yaml"] if several else [])]
    templates += [] if asked.bucket or asked.claim else ["claim.yaml"]
    templates += ["autoscaler.yaml"] if asked.least_actors else []
    return "".join(fill(TEMPLATES / template, vars(asked) | made) for template in templates)


def _tolerations(taints: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"} for key, value in taints]


if __name__ == "__main__":
    main()
