"""The distribution `seed_rl-actor`: the package `seed_rl` with the requirements of an actor, without TensorFlow.

    pip install 'seed_rl-actor @ git+https://github.com/YOU/seed_rl#subdirectory=requirements/actor'

Its source is the whole of `seed_rl`, and its metadata come from the `pyproject.toml` of the repository.
"""

import pathlib
import re
import runpy
import tomllib

from setuptools import setup

ROOT = "../.."
SUITES = ("box2d", "dmlab", "envpool", "gfootball", "mujoco", "pettingzoo")
"""Extras for environments."""

pyproject = tomllib.loads(pathlib.Path(ROOT, "pyproject.toml").read_text(encoding="utf-8"))
project = pyproject["project"]
needed = re.findall(r"^[\w-]+$", pathlib.Path("../actor.in").read_text(encoding="utf-8"), re.MULTILINE)

setup(
    name="seed_rl-actor",
    description="Actors of seed_rl, without TensorFlow",
    version=runpy.run_path(f"{ROOT}/seed_rl/__init__.py")["__getattr__"]("__version__"),
    license_expression=project["license"],
    python_requires=project["requires-python"],
    install_requires=[each for each in project["dependencies"] if re.match(r"[\w-]+", each)[0] in needed],
    extras_require={name: project["optional-dependencies"][name] for name in SUITES},
    entry_points={
        "console_scripts": [f"{name} = {place}" for name, place in project["scripts"].items()],
        **{
            group: [f"{name} = {place}" for name, place in entries.items()]
            for group, entries in project["entry-points"].items()
        },
    },
    package_data=pyproject["tool"]["setuptools"]["package-data"],
    data_files=[("share/seed_rl", ["../actor.lock"])],
    **runpy.run_path(f"{ROOT}/setup.py")["locations"](ROOT),
)
