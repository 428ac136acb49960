#!/usr/bin/env python3
"""Prints the configuration of a Vertex AI custom job: render_vertex.py FLAGS; docker/cloud/vertex.sh submits it."""

import argparse
import pathlib
import sys

from templates import Mistake, Parser, check_form, check_gin, check_name, fill

TEMPLATE = pathlib.Path(__file__).parent / "vertex" / "job.yaml"


def main() -> int:
    arguments = _parser().parse_args()
    try:
        print(job(arguments), end="")
    except Mistake as error:
        print(f"render_vertex.py: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> Parser:
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("--name", required=True, help="of the run")
    add("--project", required=True)
    add("--bucket", required=True, help="where the run is kept: gs://BUCKET/runs/NAME")
    add("--service_account", required=True, help="e-mail address; it may read the secrets and write into the bucket")
    add("--learner_image", required=True)
    add("--actor_image", required=True)
    add("--gin_file", required=True)
    add("--gin_param", action="append", default=[])
    add("--total_frames", type=int)
    add("--actors", type=int, required=True)
    add("--learner_machine", default="g2-standard-8")
    add("--actor_machine", default="n2-standard-4")
    add("--accelerator_type", default="", help="such as NVIDIA_L4; none if left out")
    add("--accelerator_count", type=int, default=1)
    add("--spot", action="store_true", help="machines that may be taken away")
    add("--days", type=int, default=7, help="after which the job is ended")
    return parser


def job(asked: argparse.Namespace) -> str:
    """The configuration, in YAML.

    Raises:
      Mistake: a flag's value can't be.
    """
    _check(asked)
    machine: dict[str, object] = {"machineType": asked.learner_machine}
    if asked.accelerator_type:
        machine |= {"acceleratorType": asked.accelerator_type, "acceleratorCount": asked.accelerator_count}
    start = [f"--project={asked.project}", f"--secret={asked.name}"]
    experiment = [f"--gin_file={asked.gin_file}", *(f"--gin_param={check_gin(text)}" for text in asked.gin_param)]
    experiment += [] if asked.total_frames is None else [f"--total_frames={asked.total_frames}"]
    experiment += [f"--logdir=gs://{asked.bucket}/runs/{asked.name}", f"--num_actors={asked.actors}"]
    return fill(
        TEMPLATE,
        {
            "learner_machine": machine,
            "learner_image": asked.learner_image,
            "learner_arguments": [*start, "learner", *experiment],
            "actors": asked.actors,
            "actor_machine": {"machineType": asked.actor_machine},
            "actor_image": asked.actor_image,
            "actor_arguments": [*start, "actor"],
            "service_account": asked.service_account,
            "strategy": "SPOT" if asked.spot else "STANDARD",
            "timeout": f"{asked.days * 24 * 3600}s",
        },
    )


def _check(asked: argparse.Namespace) -> None:
    check_name("--name", asked.name)
    check_form("--bucket", asked.bucket, r"[a-z0-9][a-z0-9._-]+", "a bucket's name without gs://")
    check_form("--service_account", asked.service_account, r"[\w.-]+@[\w.-]+", "an e-mail address")
    check_form("--gin_file", asked.gin_file, r"[\w./-]+", "an experiment such as atari/vtrace")
    check_form("--learner_machine", asked.learner_machine, r"[a-z0-9-]+", "a machine type such as g2-standard-8")
    check_form("--actor_machine", asked.actor_machine, r"[a-z0-9-]+", "a machine type such as n2-standard-4")
    check_form("--accelerator_type", asked.accelerator_type, r"[A-Z0-9_]*", "a type such as NVIDIA_L4")
    for flag in ("actors", "accelerator_count", "days", "total_frames"):
        value = getattr(asked, flag)
        if value is not None and value < 1:
            raise Mistake(f"--{flag} must be at least 1, got {value}")


if __name__ == "__main__":
    sys.exit(main())
