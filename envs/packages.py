"""Packages of environments, found by the ids that they register with Gymnasium when they are imported."""

from __future__ import annotations

import importlib
import re
from typing import NamedTuple

import gymnasium


class Package(NamedTuple):
    """A package that registers environments, or that they need."""

    module: str
    """Module whose import registers the environments."""
    install: str
    """How to install the package."""


_HIGHWAY = "highway|merge|roundabout|parking|intersection|racetrack|exit|lane-keeping|two-way|u-turn"
_ROBOTICS = "AdroitHand|AntMaze|Fetch|FrankaKitchen|HandManipulate|HandReach|PointMaze"
_MULTI_OBJECTIVE = "mo-|breakable-bottles|deep-sea-treasure|fishwood|four-room|fruit-tree|minecart|resource-|water-res"
_BY_ID = {
    "MiniGrid-|BabyAI-": Package("minigrid", "pip install minigrid"),
    "Vizdoom": Package("vizdoom.gymnasium_wrapper", "pip install vizdoom"),
    "dm_control/": Package("shimmy", "pip install shimmy dm-control 'mujoco<3.15'"),
    "bsuite/": Package("shimmy", "pip install shimmy bsuite"),
    "Meta-World/": Package("metaworld", "pip install metaworld"),
    "popgym-": Package("popgym", "pip install popgym"),
    "Panda(Flip|PickAndPlace|Push|Reach|Slide|Stack)": Package("panda_gym", "pip install panda-gym"),
    f"({_HIGHWAY})[-\\w]*-v": Package("highway_env", "pip install highway-env"),
    _ROBOTICS: Package("gymnasium_robotics", "pip install gymnasium-robotics"),
    _MULTI_OBJECTIVE: Package("mo_gymnasium", "pip install mo-gymnasium"),
}
_BY_ENTRY_POINT = {
    r"gymnasium\.envs\.mujoco": Package("mujoco", "pip install 'gymnasium[mujoco]' 'mujoco<3.15'"),
    r"gymnasium\.envs\.box2d": Package("Box2D", "pip install box2d"),
}
"""Packages that Gymnasium's own environments need."""


def import_package_of(env_id: str) -> None:
    """Imports the package that registers an id, if it is a known one; raises ImportError."""
    if (package := package_of(env_id)) is not None:
        importlib.import_module(package.module)


def package_of(env_id: str) -> Package | None:
    """The package that an id without `module:` needs besides Gymnasium; None if it is not known to need any."""
    entry_point = str(getattr(gymnasium.registry.get(env_id), "entry_point", ""))
    table, text = (_BY_ENTRY_POINT, entry_point) if env_id in gymnasium.registry else (_BY_ID, env_id)
    return next((package for pattern, package in table.items() if re.match(pattern, text)), None)
