"""Which part of the project may import which: the rules, a checker that reads the source, and its own tests."""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOVED = ("agents", "envs", "configs")
"""Folders at the root that install inside `seed_rl`."""


class Room(NamedTuple):
    """What the modules of one part of the project may import, besides one another and the standard library."""

    project: tuple[str, ...] = ()
    """Modules and packages of the project, with all they hold."""
    third_party: tuple[str, ...] = ()
    """Top-level names of other packages."""


DATA = ("seed_rl.types", "seed_rl.specs")
SETTINGS = "seed_rl.settings"
FILES = "seed_rl.files"
OBJECT_STORE = "seed_rl.object_store"
AGENT_INTERFACE = ("seed_rl.agents.base", "seed_rl.agents.config")
AGENT_PARTS = (*AGENT_INTERFACE, "seed_rl.agents.trunk")
ENV_INTERFACE = ("seed_rl.envs.base", "seed_rl.envs.registry")
ENV_ERRORS = "seed_rl.envs.errors"
ENV_PICTURES = "seed_rl.envs.pictures"
ENV_PARTS = ("seed_rl.envs.autoreset", "seed_rl.envs.flatten", "seed_rl.envs.pool", "seed_rl.envs.processes")
"""What suites are made from; they know of no suite."""

PLANNING = ("seed_rl.launch.plan", "seed_rl.launch.rates")
"""They use what benchmarks know of the parts."""

TENSORS = ("keras", "numpy", "tensorflow")
TOOLS = ("absl", "gin", "numpy", "psutil", "rich")
SUITES = ("ale_py", "deepmind_lab", "envpool", "gfootball", "gym_notices")

# A rule holds for the module or package it names and for all that is inside, where no longer name has its own.
# "package.*" makes each member of the package a room of its own: members may not import one another.
ROOMS = {
    "seed_rl": Room(),
    # Data and pure mathematics: no gin, no absl.
    "seed_rl.types": Room(third_party=("numpy",)),
    "seed_rl.specs": Room(("seed_rl.types",), ("numpy",)),
    SETTINGS: Room(),
    FILES: Room(),
    OBJECT_STORE: Room(third_party=("fsspec",)),
    "seed_rl.capacity": Room(),
    "seed_rl.devices": Room(third_party=("tensorflow",)),
    "seed_rl.rl": Room(DATA, ("numpy", "tensorflow")),
    "seed_rl.networks": Room((*DATA, "seed_rl.rl"), TENSORS),
    # Environments and actors: no TensorFlow. Only a suite's own module imports the suite.
    "seed_rl.envs": Room(),
    ENV_ERRORS: Room(),
    ENV_PICTURES: Room((ENV_ERRORS,), ("gymnasium", "numpy")),
    "seed_rl.envs.base": Room((*DATA, ENV_ERRORS, ENV_PICTURES), ("gymnasium", "numpy")),
    "seed_rl.envs.registry": Room((*DATA, ENV_ERRORS, "seed_rl.envs.base")),
    **dict.fromkeys(ENV_PARTS, Room((*DATA, "seed_rl.envs.registry"), ("envpool", "gymnasium", "numpy"))),
    "seed_rl.envs.*": Room((*DATA, SETTINGS, *ENV_INTERFACE, *ENV_PARTS, ENV_PICTURES), (*TOOLS, "gymnasium", *SUITES)),
    "seed_rl.envs.atari": Room(
        (*DATA, SETTINGS, "seed_rl.envs.base", "seed_rl.envs.atari_scores", ENV_PICTURES),
        ("ale_py", "gin", "gymnasium", "numpy"),
    ),
    "seed_rl.envs.atari_scores": Room(),
    "seed_rl.envs.dmlab": Room(
        (
            *DATA,
            SETTINGS,
            *ENV_INTERFACE,
            "seed_rl.envs.dmlab_cache",
            "seed_rl.envs.dmlab_levels",
            "seed_rl.envs.dmlab_scores",
            *ENV_PARTS,
        ),
        ("deepmind_lab", "gin", "gymnasium", "numpy"),
    ),
    "seed_rl.envs.dmlab_cache": Room(("seed_rl.envs.registry",), ("fsspec",)),
    "seed_rl.envs.dmlab_levels": Room(),
    "seed_rl.envs.dmlab_scores": Room(("seed_rl.envs.dmlab_levels",), ("numpy",)),
    "seed_rl.transport": Room(DATA, (*TOOLS, "google", "grpc")),
    "seed_rl.actor": Room((*DATA, "seed_rl.transport", *ENV_INTERFACE), (*TOOLS, "gymnasium", "grpc")),
    # Agents: only through their interface does anything else know them. The gin files choose one.
    "seed_rl.agents": Room(),
    "seed_rl.agents.base": Room((*DATA, "seed_rl.agents.config"), TENSORS),
    "seed_rl.agents.config": Room((*DATA, SETTINGS, "seed_rl.agents.base")),
    "seed_rl.agents.trunk": Room((*DATA, "seed_rl.agents.config", "seed_rl.networks")),
    "seed_rl.agents.*": Room((*DATA, SETTINGS, "seed_rl.rl", "seed_rl.networks", *AGENT_PARTS), (*TENSORS, "gin")),
    "seed_rl.configs": Room(),
    "seed_rl.config_files": Room((FILES, "seed_rl.experiment")),
    "seed_rl.experiment": Room((*DATA, SETTINGS, FILES, *AGENT_INTERFACE, "seed_rl.envs.base"), ("gin",)),
    # The learner's side.
    "seed_rl.buffers": Room((*DATA, "seed_rl.devices"), ("numpy", "tensorflow")),
    "seed_rl.inference": Room(
        (*DATA, "seed_rl.devices", "seed_rl.experiment", "seed_rl.buffers", "seed_rl.transport", *AGENT_INTERFACE),
        (*TOOLS, "grpc", "tensorflow"),
    ),
    # Without TensorFlow: hosts meet before it is loaded.
    "seed_rl.learner.hosts": Room(("seed_rl.experiment", "seed_rl.learner.ending", "seed_rl.transport.address")),
    "seed_rl.learner.ending": Room(),
    "seed_rl.learner": Room(
        (
            *DATA,
            FILES,
            OBJECT_STORE,
            "seed_rl.devices",
            "seed_rl.experiment",
            "seed_rl.config_files",
            "seed_rl.rl",
            "seed_rl.buffers",
            "seed_rl.inference",
            "seed_rl.transport.credentials",
            "seed_rl.transport.server",
            "seed_rl.learner.hosts",
            "seed_rl.learner.ending",
            *AGENT_INTERFACE,
        ),
        (*TOOLS, "keras", "tensorboard", "tensorflow", "wandb"),
    ),
    # What a run has learned, without a learner or actors.
    "seed_rl.evaluation": Room(
        (
            *DATA,
            FILES,
            OBJECT_STORE,
            "seed_rl.experiment",
            "seed_rl.agents.base",
            "seed_rl.learner.checkpoints",
            ENV_PICTURES,
        ),
        ("PIL", "gymnasium", "imageio_ffmpeg", "numpy", "tensorflow"),
    ),
    # What puts the parts together.
    "seed_rl.launch": Room(
        (
            *DATA,
            FILES,
            OBJECT_STORE,
            "seed_rl.experiment",
            "seed_rl.config_files",
            "seed_rl.agents.config",
            "seed_rl.envs.errors",
            "seed_rl.envs.registry",
            "seed_rl.transport",
            "seed_rl.actor",
            "seed_rl.buffers.placement",
            "seed_rl.learner",
            "seed_rl.evaluation",
            "seed_rl.launch.doctor",
            *PLANNING,
            "seed_rl.launch.on_ray",
            "seed_rl.bench.command",
        ),
        (*TOOLS, "matplotlib"),
    ),
    **dict.fromkeys(
        PLANNING,
        Room(
            (
                *PLANNING,
                "seed_rl.bench.env",
                "seed_rl.bench.networks",
                "seed_rl.bench.text",
                "seed_rl.capacity",
                "seed_rl.experiment",
                "seed_rl.learner.split",
                "seed_rl.learner.store_size",
                "seed_rl.transport.codec",
            )
        ),
    ),
    "seed_rl.launch.on_ray": Room(
        (
            FILES,
            OBJECT_STORE,
            "seed_rl.experiment",
            "seed_rl.envs.errors",
            "seed_rl.transport",
            "seed_rl.actor",
            "seed_rl.learner.ending",
            "seed_rl.launch",
        ),
        ("absl", "cryptography", "grpc", "ray"),
    ),
    "seed_rl.launch.doctor": Room(
        (
            FILES,
            OBJECT_STORE,
            "seed_rl.envs.atari",
            "seed_rl.envs.registry",
            "seed_rl.launch.flags",
            "seed_rl.launch.native_output",
        ),
        (*TOOLS, "tensorflow"),
    ),
    "seed_rl.bench": Room(
        (
            *DATA,
            FILES,
            "seed_rl.capacity",
            "seed_rl.experiment",
            *ENV_INTERFACE,
            *AGENT_INTERFACE,
            "seed_rl.transport",
            "seed_rl.buffers",
            "seed_rl.inference",
            "seed_rl.launch.local_actors",
            "seed_rl.launch.native_output",
            "seed_rl.learner",
        ),
        ("grpc", "gymnasium", "numpy", "psutil", "tensorflow"),
    ),
    # Environments that actors start.
    "seed_rl.bench.paced": Room((*DATA, SETTINGS, *ENV_INTERFACE), ("gin", "gymnasium", "numpy")),
    "seed_rl.__main__": Room(
        (*DATA, "seed_rl.experiment", "seed_rl.transport", "seed_rl.actor", "seed_rl.learner", "seed_rl.launch"), TOOLS
    ),
    # For programs and notebooks.
    "seed_rl.api": Room(
        (
            *DATA,
            OBJECT_STORE,
            "seed_rl.experiment",
            "seed_rl.envs.errors",
            *ENV_INTERFACE,
            *AGENT_INTERFACE,
            "seed_rl.evaluation",
            "seed_rl.learner",
            "seed_rl.launch",
        )
    ),
    # What tests need that must be importable; actors start the environments.
    "seed_rl.testing": Room(
        (
            *DATA,
            SETTINGS,
            "seed_rl.testing.catch",
            "seed_rl.testing.counting",
            "seed_rl.testing.memory",
            "seed_rl.learner",
            *AGENT_INTERFACE,
            *ENV_INTERFACE,
        ),
        (*TENSORS, "gin", "gymnasium"),
    ),
    "seed_rl.testing.catch": Room((*DATA, SETTINGS, "seed_rl.envs.base"), (*TOOLS, "gymnasium")),
    "seed_rl.testing.counting": Room((*DATA, SETTINGS, "seed_rl.envs.base"), (*TOOLS, "gymnasium")),
    "seed_rl.testing.memory": Room((*DATA, SETTINGS, "seed_rl.envs.base"), (*TOOLS, "gymnasium")),
    "seed_rl.testing.failing_env": Room(("seed_rl.envs.registry",), ("gymnasium", "numpy")),
    "seed_rl.testing.fake_deepmind_lab": Room(third_party=("numpy",)),
}

ACTOR_SIDE = ("seed_rl.actor", "seed_rl.envs", "seed_rl.transport", "seed_rl.experiment", "seed_rl.__main__")
"""What loads in an actor or before it is known which process this is: never with TensorFlow."""


def room_of(module: str) -> tuple[str, Room] | None:
    """The name and rule of the room that a module is in; None if it is in none."""
    name = module
    while name:
        parent = name.rpartition(".")[0]
        if name in ROOMS and (name != "seed_rl" or module == "seed_rl"):
            return name, ROOMS[name]
        if f"{parent}.*" in ROOMS:
            return name, ROOMS[f"{parent}.*"]
        name = parent
    return None


def imports(source: str, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and full name of all that a module imports, in functions too; `from a import b` is `a.b`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                parts = module.split(".")
                package = ".".join(parts[: len(parts) - node.level + is_package])
                origin = f"{package}.{origin}".rstrip(".")
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def is_inside(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    """What is wrong with a module's imports, a sentence each."""
    found = room_of(module)
    if found is None:
        return [f"{module} is in no room: add it to ROOMS in {pathlib.Path(__file__).name}"]
    own, room = found
    wrong = []
    for line, name in imports(source, module, is_package):
        top = name.partition(".")[0]
        if top == "seed_rl":
            target = room_of(name)
            allowed = (
                name == "seed_rl.__version__"
                or (target is not None and target[0] == own)
                or any(is_inside(name, other) for other in room.project)
            )
        else:
            allowed = top in sys.stdlib_module_names or top in room.third_party
        if not allowed:
            wrong.append(f"{module}, line {line}: {own} may not import {name}")
    return wrong


def project_modules() -> dict[str, pathlib.Path]:
    """Path of every module of the project by its name; the links in `seed_rl/` are not followed."""
    paths = {}
    for folder, prefix in (("seed_rl", ""), *((name, "seed_rl.") for name in MOVED)):
        for directory, _, files in os.walk(ROOT / folder):
            for file in files:
                path = pathlib.Path(directory, file)
                if path.suffix == ".py":
                    parts = path.relative_to(ROOT).with_suffix("").parts
                    name = prefix + ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                    assert name not in paths, f"{name} has two files: {paths[name]} and {path}"
                    paths[name] = path
    return paths


def first_with_tensorflow(modules: list[str], python_path: str = "") -> str:
    """The first of the modules whose import loads TensorFlow or Keras into a fresh interpreter; "" if none does."""
    probe = f"""
import importlib, sys
for module in {modules!r}:
    importlib.import_module(module)
    if {{"tensorflow", "keras"}} & set(sys.modules):
        print(module)
        break
"""
    environment = {**os.environ, "PYTHONPATH": python_path}
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_module_keeps_to_its_room():
    modules = project_modules()
    assert {"seed_rl", "seed_rl.types", "seed_rl.agents.base", "seed_rl.envs.base", "seed_rl.configs"} <= set(modules)
    wrong = [
        sentence
        for module, path in sorted(modules.items())
        for sentence in violations(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_rules_name_only_what_exists():
    modules = project_modules()
    named = {name.removesuffix(".*") for name in ROOMS} | {name for room in ROOMS.values() for name in room.project}
    assert sorted(named - set(modules)) == []


def test_actor_side_loads_no_tensorflow():
    modules = sorted(
        module
        for module in project_modules()
        if any(is_inside(module, name) for name in ACTOR_SIDE)
        or (is_inside(module, "seed_rl.agents") and module.endswith(".config"))
    )
    assert {"seed_rl.actor.loop", "seed_rl.agents.config", "seed_rl.experiment", "seed_rl.envs.atari"} <= set(modules)
    assert first_with_tensorflow(["seed_rl.actor.loop"]) == ""
    environments = [f"seed_rl.testing.{name}" for name in ("catch", "counting", "memory")] + ["seed_rl.bench.paced"]
    assert first_with_tensorflow([*modules, *environments]) == ""


def test_a_module_that_loads_tensorflow_is_found(tmp_path):
    (tmp_path / "tensorflow.py").touch()
    (tmp_path / "culprit.py").write_text("import tensorflow")
    assert first_with_tensorflow(["json", "culprit", "csv"], python_path=str(tmp_path)) == "culprit"


@pytest.mark.parametrize(
    ("module", "source", "imported"),
    [
        ("seed_rl.types", "import tensorflow as tf", "tensorflow"),
        ("seed_rl.specs", "import gymnasium.spaces", "gymnasium.spaces"),
        ("seed_rl.rl.vtrace", "import gin", "gin"),
        ("seed_rl.rl.vtrace", "from absl import flags", "absl.flags"),
        ("seed_rl.rl.vtrace", "from seed_rl import settings", "seed_rl.settings"),
        ("seed_rl.networks.torsos", "from absl import logging", "absl.logging"),
        ("seed_rl.transport.client", "def f():\n  import tensorflow", "tensorflow"),
        ("seed_rl.actor.loop", "from keras import layers", "keras.layers"),
        ("seed_rl.actor.loop", "import ale_py", "ale_py"),
        ("seed_rl.actor.loop", "from seed_rl.envs import atari", "seed_rl.envs.atari"),
        ("seed_rl.actor.loop", "from ..learner import loop", "seed_rl.learner.loop"),
        ("seed_rl.envs.atari", "import tensorflow", "tensorflow"),
        ("seed_rl.envs.atari", "from . import football", "seed_rl.envs.football"),
        ("seed_rl.envs.dmlab", "def f():\n  import tensorflow", "tensorflow"),
        ("seed_rl.envs.dmlab_scores", "from seed_rl.envs.dmlab import DMLab", "seed_rl.envs.dmlab.DMLab"),
        ("seed_rl.envs.registry", "from seed_rl.envs.atari import Atari", "seed_rl.envs.atari.Atari"),
        ("seed_rl.agents.vtrace.agent", "from seed_rl.learner import loop", "seed_rl.learner.loop"),
        ("seed_rl.agents.vtrace.agent", "from seed_rl.inference.batcher import Batcher", None),
        ("seed_rl.agents.vtrace.agent", "import seed_rl.buffers", "seed_rl.buffers"),
        ("seed_rl.agents.vtrace.agent", "from seed_rl.agents.r2d2 import loss", "seed_rl.agents.r2d2.loss"),
        ("seed_rl.agents.base", "from seed_rl.agents import vtrace", "seed_rl.agents.vtrace"),
        ("seed_rl.buffers.unroll_store", "from seed_rl.inference import batcher", "seed_rl.inference.batcher"),
        ("seed_rl.inference.act_step", "from seed_rl.agents.vtrace import agent", "seed_rl.agents.vtrace.agent"),
        ("seed_rl.learner.loop", "import seed_rl.agents.vtrace.loss", "seed_rl.agents.vtrace.loss"),
        ("seed_rl.learner.loop", "from seed_rl.transport import client", "seed_rl.transport.client"),
        ("seed_rl.learner.loop", "import agents.base", "agents.base"),
        ("seed_rl.learner.loop", "from seed_rl.testing import catch", "seed_rl.testing.catch"),
        ("seed_rl.testing.catch", "import tensorflow", "tensorflow"),
        ("seed_rl", "from seed_rl import types", "seed_rl.types"),
    ],
)
def test_a_forbidden_import_is_reported(module, source, imported):
    found = violations(source, module)
    assert len(found) == 1
    assert found[0].startswith(module)
    if imported is not None:
        assert found[0].endswith(f"may not import {imported}")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("seed_rl.rl.vtrace", "import math\nimport tensorflow as tf\nfrom seed_rl.rl import checks"),
        (
            "seed_rl.networks.torsos",
            "import keras\nfrom seed_rl.rl import categorical\nfrom seed_rl import __version__",
        ),
        ("seed_rl.transport.client", "import grpc\nfrom google.protobuf import message\nfrom . import codec"),
        ("seed_rl.envs.atari", "import ale_py\nfrom seed_rl.envs.base import EnvConfig"),
        ("seed_rl.actor.loop", "from seed_rl.envs import registry\nfrom ..transport.client import Client"),
        ("seed_rl.agents.vtrace.agent", "from .networks import ActorCritic\nfrom ..base import Agent"),
        ("seed_rl.learner.loop", "from seed_rl.transport import credentials\nfrom seed_rl.agents.base import Agent"),
    ],
)
def test_an_allowed_import_is_not_reported(module, source):
    assert violations(source, module) == []


def test_relative_imports_in_a_package_start_at_the_package():
    assert list(imports("from . import a\nfrom ..types import B", "seed_rl.rl", is_package=True)) == [
        (1, "seed_rl.rl.a"),
        (2, "seed_rl.types.B"),
    ]


def test_a_new_top_level_module_needs_a_room():
    assert "seed_rl.novelty.x is in no room" in violations("import os", "seed_rl.novelty.x")[0]
