"""docker/compose.yaml and docker/run_local.sh, without a container engine."""

from __future__ import annotations

import pathlib
import re
import shlex

import pytest
import yaml

from seed_rl.experiment import config_files

ROOT = pathlib.Path(__file__).resolve().parents[2]


def compose(variables):
    """The services of the file as compose reads it, with its variables replaced."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / "docker/compose.yaml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1], found[2]), text)
    return yaml.safe_load(text)["services"]


def command(service):
    words = service["command"]
    return shlex.split(words) if isinstance(words, str) else words


@pytest.mark.parametrize(
    ("gin_file", "images"),
    [("football/academy", ["cpu", "football"]), ("gym/lunar_lander", ["gpu-mujoco", "actor-mujoco"])],
)
def test_run_local_starts_the_experiment_in_its_images(script, secrets, has_no_secret, gin_file, images):
    flags = (f"--secrets={secrets}", "--runs=runs", "--gin_param=Experiment.seed = 7")
    gpu = images[0].startswith("gpu")
    flags += ("--gpu",) if gpu else ()
    printed, pasted, done = script.printed_and_done("run_local.sh", gin_file, "3", "16", *flags)
    assert has_no_secret(printed)
    assert [call for call in done if "ps" not in call["command"] and call["command"][1] != "inspect"] == pasted
    builds = [" ".join(call["command"]) for call in done if "build" in call["command"]]
    for image, built in zip(images, builds, strict=True):
        kind, _, extra = image.partition("-")
        assert f"--tag=seed_rl-{image}:latest" in built
        assert f"--target={kind if kind in ('football', 'dmlab') else 'image'} " in built
        assert f"--build-arg=IMAGE={kind if kind in ('cpu', 'gpu') else 'actor'} --build-arg=EXTRA={extra} " in built
    (up,) = (call for call in done if "up" in call["command"])
    assert up["command"][-4:] == ["up", "--detach", "--scale", "actor=3"]
    assert (str(ROOT / "docker/compose.gpu.yaml") in up["command"]) == gpu
    services = compose(up["variables"])
    assert [services[name]["image"] for name in ("learner", "actor")] == [f"seed_rl-{name}:latest" for name in images]
    assert f"--gin_file={gin_file}" in command(services["learner"])
    assert ("--accelerator=gpu" in command(services["learner"])) == gpu
    bindings = re.findall(r"^--gin_param=(.*)", "\n".join(command(services["learner"])), re.MULTILINE)
    loaded = config_files.load([gin_file], [*bindings, "Actors.num_actors = 3"])
    assert (loaded.actors.num_envs, loaded.seed) == (3 * 16, 7)
