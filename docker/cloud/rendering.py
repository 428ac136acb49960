"""Shared by the renderers of Kubernetes and Vertex AI: flags that check themselves, and strict templates."""

import argparse
import json
import pathlib
import re
import string
from collections.abc import Callable, Mapping
from typing import NoReturn


def form(pattern: str, description: str) -> Callable[[str], str]:
    """The type of a flag whose whole text must match a pattern."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"must be {description}, got {text!r}")
        return text

    return check


def count(text: str) -> int:
    """The type of a flag that is a number of things."""
    return int(form(r"[1-9][0-9]{0,14}", "a whole number from 1 on")(text))


def pair(text: str) -> tuple[str, str]:
    """The type of a flag that is a label, a taint or a device: its key and its value."""
    key, _, value = form(r"[A-Za-z0-9][\w./-]*=[\w.-]*", "KEY=VALUE")(text).partition("=")
    return key, value


def device(text: str) -> tuple[str, str]:
    """The type of a flag that is a kind of device and how many."""
    key, number = pair(text)
    return key, str(count(number))


name = form(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", "at most 40 of a-z, 0-9 and -, beginning with a letter")
"""A name that Kubernetes and Google Cloud accept, short enough for the suffixes of the run's objects."""

_image = form(
    r"[a-z0-9][\w./:-]*:[\w.-]+(@sha256:[0-9a-f]{64})?|[a-z0-9][\w./:-]*@sha256:[0-9a-f]{64}",
    "an image with its tag or digest",
)


class RunParser(argparse.ArgumentParser):
    """A parser with the flags of any run; it reports a mistake in one sentence and exits with 2."""

    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)
        add = self.add_argument
        add("--name", type=name, required=True, help="of the run: all objects are named after it")
        add("--learner_image", type=_image, required=True, metavar="IMAGE:TAG", help="docker/build.sh cpu, gpu or tpu")
        add("--actor_image", type=_image, required=True, metavar="IMAGE:TAG", help="docker/build.sh actor or a suite")
        experiment = form(r"[\w./-]+", "an experiment such as atari/vtrace")
        add("--gin_file", type=experiment, required=True, help="experiment, such as atari/vtrace")
        binding = form(r"[A-Za-z_][\w./]* *=[^\n\r]*", "a gin binding such as Atari.game='pong'")
        add("--gin_param", type=binding, action="append", default=[], help="a setting; may be repeated")
        add("--total_frames", type=count, metavar="N", help="environment frames; default: the experiment's")
        add("--actors", type=count, required=True, metavar="N", help="actors that the learner has room for")

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (--\w+): ", r"\1 ", message)
        self.exit(2, f"{self.prog}: {message}; --help lists the flags\n")


def learner_arguments(asked: argparse.Namespace, logdir: str) -> list[str]:
    """The flags of `seed_rl learner` that are the same everywhere."""
    flags = [f"--gin_file={asked.gin_file}", *(f"--gin_param={binding}" for binding in asked.gin_param)]
    flags += [f"--total_frames={asked.total_frames}"] if asked.total_frames else []
    return ["learner", *flags, f"--logdir={logdir}", f"--num_actors={asked.actors}"]


def fill(template: pathlib.Path, values: Mapping[str, object]) -> str:
    """The template's text with each `${name}` replaced by its value in JSON, which is also YAML.

    Comments at the beginning of a line, and lines with a value of None, are left out.

    Raises:
      KeyError: a placeholder has no value.
    """

    def kept(line: str) -> bool:
        return not line.startswith("#") and all(values[found] is not None for found in re.findall(r"\$\{(\w+)\}", line))

    text = "".join(filter(kept, template.read_text(encoding="utf-8").splitlines(keepends=True)))
    return string.Template(text).substitute({key: json.dumps(value) for key, value in values.items()})
