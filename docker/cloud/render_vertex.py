#!/usr/bin/env python3
"""Prints the configuration of a Vertex AI custom job: render_vertex.py FLAGS; docker/cloud/vertex.sh submits it."""

import argparse
import pathlib

from rendering import RunParser, count, fill, form, learner_arguments

TEMPLATE = pathlib.Path(__file__).parent / "vertex" / "job.yaml"


def main() -> None:
    parser = RunParser(description=__doc__)
    add = parser.add_argument
    add("--project", required=True)
    bucket = form(r"[a-z0-9][a-z0-9._-]+", "a bucket's name without gs://")
    add("--bucket", type=bucket, required=True, help="keep the run in gs://BUCKET/runs/NAME")
    account = form(r"[\w.-]+@[\w.-]+", "an e-mail address")
    add("--service_account", type=account, required=True, help="may read the secrets and write into the bucket")
    machine = form(r"[a-z0-9-]+", "a machine type such as g2-standard-8")
    add("--learner_machine", type=machine, default="g2-standard-8")
    add("--actor_machine", type=machine, default="n2-standard-4")
    accelerator = form("[A-Z0-9_]+", "a type such as NVIDIA_L4")
    add("--accelerator_type", type=accelerator, help="such as NVIDIA_L4; default: none")
    add("--accelerator_count", type=count, default=1)
    add("--spot", action="store_true", help="preemptible machines")
    add("--days", type=count, default=7, help="after which the job is ended")
    print(job(parser.parse_args()), end="")


def job(asked: argparse.Namespace) -> str:
    """The configuration, in YAML."""
    machine: dict[str, object] = {"machineType": asked.learner_machine}
    if asked.accelerator_type:
        machine |= {"acceleratorType": asked.accelerator_type, "acceleratorCount": asked.accelerator_count}
    start = [f"--project={asked.project}", f"--secret={asked.name}"]
    logdir = f"gs://{asked.bucket}/runs/{asked.name}"
    made = {
        "learner_machine": machine,
        "learner_arguments": [
            *start,
            *learner_arguments(asked, logdir),
            *(["--accelerator=gpu"] if asked.accelerator_type else []),
        ],
        "actor_machine": {"machineType": asked.actor_machine},
        "actor_arguments": [*start, "actor"],
        "strategy": "SPOT" if asked.spot else "STANDARD",
        "timeout": f"{asked.days * 24 * 3600}s",
    }
    return fill(TEMPLATE, vars(asked) | made)


if __name__ == "__main__":
    main()
