"""Which part of the project may import which: an ordered list of layers, a checker that reads the source, its tests."""

from __future__ import annotations

import ast
import graphlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = {"seed_rl": "seed_rl", **{name: f"seed_rl.{name}" for name in ("agents", "envs", "configs")}}
"""Folders at the root, and the packages that they install as."""

LAYERS = (
    ("seed_rl", "seed_rl.errors", "seed_rl.types", "seed_rl.settings", "seed_rl.foreign"),
    ("seed_rl.system",),
    ("seed_rl.specs",),
    ("seed_rl.own_classes",),
    ("seed_rl.experiment.optimizer",),
    ("seed_rl.rl",),
    ("seed_rl.networks",),
    ("seed_rl.envs", "seed_rl.envs.spaces"),
    ("seed_rl.envs.base",),
    ("seed_rl.envs.registry", "seed_rl.envs.references"),
    ("seed_rl.envs.vector",),
    ("seed_rl.envs.conformance", "seed_rl.envs.checks", "seed_rl.envs.elsewhere"),
    ("seed_rl.envs.show",),
    ("seed_rl.envs.*",),  # suites
    ("seed_rl.transport",),
    ("seed_rl.actor",),
    ("seed_rl.agents", "seed_rl.agents.base"),
    ("seed_rl.agents.config",),
    ("seed_rl.agents.epsilon", "seed_rl.agents.transitions"),
    ("seed_rl.agents.actor_critic",),
    ("seed_rl.agents.*",),
    ("seed_rl.buffers",),
    ("seed_rl.experiment", "seed_rl.configs"),
    ("seed_rl.inference",),
    ("seed_rl.reporting",),
    ("seed_rl.weights",),
    ("seed_rl.learner",),
    ("seed_rl.evaluation",),
    ("seed_rl.runs",),
    ("seed_rl.cli",),
    ("seed_rl.api", "seed_rl.__main__"),
    ("seed_rl.extras", "seed_rl.extras.*"),  # neighbours
)
"""Rooms by layer, lowest first. A module imports its own room and rooms of lower layers. `package.*` makes every other
member of a package a room that nothing else imports: gin files and entry points name agents and suites."""

EXCEPTIONS = {
    ("seed_rl.envs.mujoco", "seed_rl.envs.gym"): "its tasks are Gymnasium's",
}

THIRD_PARTY = {
    "seed_rl.types": {"numpy"},
    "seed_rl.specs": {"numpy"},
    "seed_rl.rl": {"numpy", "tensorflow"},
    "seed_rl.networks": {"keras", "numpy", "tensorflow"},
    "seed_rl.buffers": {"numpy", "tensorflow"},
    "seed_rl.inference": {"numpy", "tensorflow"},
    "seed_rl.transport": {"google", "grpc", "numpy"},
    "seed_rl.actor": {"gymnasium", "numpy"},
}
"""The only libraries that these rooms may import."""

WITHOUT_TENSORFLOW = (
    "seed_rl.actor",
    "seed_rl.envs",
    "seed_rl.transport",
    "seed_rl.experiment.config_files",
    "seed_rl.experiment.experiment",
    "seed_rl.experiment.saved_config",
    "seed_rl.__main__",
)
"""Loaded in actors, or before the learner is known to be needed."""


LEVELS = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def is_inside(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def room_of(module: str) -> tuple[str, str] | None:
    """The room of a module, or of something in it, and its entry in `LAYERS`; None if it has no layer."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        room = ".".join(parts[:end])
        for entry in (room, f"{room.rpartition('.')[0]}.*"):
            if entry in LEVELS and (entry != "seed_rl" or module == "seed_rl"):
                return room, entry
    return None


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Line and full name of every import in a module, late ones and those for types too; `from a import b` is `a.b`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = f"{'.' * node.level}{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
            yield from ((node.lineno, f"{origin}{alias.name}") for alias in node.names)


def violations(source: str, module: str) -> list[str]:
    """The imports of a module that break a rule, one line each."""
    own = room_of(module)
    if own is None:
        return [f"{module} is in no layer: add it to LAYERS in {pathlib.Path(__file__).name}"]
    libraries = next((names for room, names in THIRD_PARTY.items() if is_inside(module, room)), None)
    return [
        f"{module}, line {line}: {own[0]} may not import {name}"
        for line, name in imports(source)
        if not _may_import(*own, name, libraries)
    ]


def _may_import(room: str, entry: str, name: str, libraries: set[str] | None) -> bool:
    top = name.partition(".")[0]
    if top != "seed_rl":
        if top in ("agents", "envs", "configs", "benchmarks", "tests", ""):  # no relative imports
            return False
        return libraries is None or top in sys.stdlib_module_names or top in libraries
    if (target := room_of(name)) is None:
        return name == "seed_rl.__version__"
    if target[0] == room or (room, target[0]) in EXCEPTIONS:
        return True
    return LEVELS[target[1]] < LEVELS[entry] and not target[1].endswith(".*")


def project_modules() -> dict[str, pathlib.Path]:
    """Path of every module of the project by its name; the links in `seed_rl/` are not followed."""
    paths = {}
    for folder, package in SOURCES.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder != "seed_rl" or parts[0] not in SOURCES:
                names = parts[:-1] if parts[-1] == "__init__" else parts
                paths[".".join([package, *names])] = path
    return paths


def assert_loads_no_tensorflow(modules: list[str]) -> None:
    """In a fresh interpreter; the message names the first module that does."""
    probe = f"""
import importlib, sys
for module in {modules!r}:
    importlib.import_module(module)
    assert not {{"tensorflow", "keras"}} & set(sys.modules), module
"""
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_module_keeps_to_its_layer():
    modules = project_modules()
    assert {"seed_rl", "seed_rl.types", "seed_rl.agents.base", "seed_rl.envs.base", "seed_rl.configs"} <= set(modules)
    wrong = [
        sentence
        for module, path in sorted(modules.items())
        for sentence in violations(path.read_text(encoding="utf-8"), module)
    ]
    assert not wrong, "\n".join(["", *wrong])
    for module, source in (
        ("seed_rl.rl.vtrace", "from absl import flags"),
        ("seed_rl.transport.client", "def f():\n  import tensorflow"),
        ("seed_rl.actor.loop", "from ..learner import loop"),
        ("seed_rl.envs.atari", "from seed_rl.envs import football"),
        ("seed_rl.actor.loop", "from seed_rl.learner import learner"),
        ("seed_rl.novelty.x", "import os"),
    ):
        assert len(violations(source, module)) == 1, "it would be found"


def test_no_modules_import_each_other():
    modules = project_modules()
    graph = {
        module: {found for _, name in imports(path.read_text(encoding="utf-8")) if (found := _module(name, modules))}
        for module, path in modules.items()
    }
    graphlib.TopologicalSorter({module: others - {module} for module, others in graph.items()}).prepare()


def _module(name: str, modules: dict[str, pathlib.Path]) -> str | None:
    """The module that an import names, or that has what it names."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def test_layers_name_only_what_exists():
    named = {room.removesuffix(".*") for layer in LAYERS for room in layer} | set(THIRD_PARTY) | set(WITHOUT_TENSORFLOW)
    assert sorted(named - set(project_modules())) == []


def test_actors_load_no_tensorflow(pytestconfig):
    quick = pytestconfig.getoption("quick")  # the football engine isn't there
    modules = sorted(
        module
        for module in project_modules()
        if any(is_inside(module, name) for name in WITHOUT_TENSORFLOW)
        or (is_inside(module, "seed_rl.agents") and module.endswith(".config"))
        if not (quick and is_inside(module, "seed_rl.envs.football"))
    )
    assert {"seed_rl.actor.loop", "seed_rl.agents.config", "seed_rl.envs.atari"} <= set(modules)
    assert_loads_no_tensorflow(modules)
