"""Packages of environments, found by the ids that they register with Gymnasium when they are imported."""

from __future__ import annotations

import importlib
import re

import gymnasium

_HIGHWAY = "(highway|merge|roundabout|parking|intersection|racetrack|exit|lane-keeping|two-way|u-turn)[-\\w]*-v"
_ROBOTICS = "AdroitHand|AntMaze|Fetch|FrankaKitchen|HandManipulate|HandReach|PointMaze"
_MULTI_OBJECTIVE = "mo-|breakable-bottles|deep-sea-treasure|fishwood|four-room|fruit-tree|minecart|resource-|water-res"
_BY_ID = {
    "MiniGrid-|BabyAI-": ("minigrid", "pip install minigrid"),
    "Vizdoom": ("vizdoom.gymnasium_wrapper", "pip install vizdoom"),
    "dm_control/": ("shimmy", "pip install shimmy dm-control 'mujoco<3.15'"),
    "bsuite/": ("shimmy", "pip install shimmy bsuite"),
    "Meta-World/": ("metaworld", "pip install metaworld"),
    "popgym-": ("popgym", "pip install popgym"),
    "Panda(Flip|PickAndPlace|Push|Reach|Slide|Stack)": ("panda_gym", "pip install panda-gym"),
    _HIGHWAY: ("highway_env", "pip install highway-env"),
    _ROBOTICS: ("gymnasium_robotics", "pip install gymnasium-robotics 'mujoco<3.15'"),
    _MULTI_OBJECTIVE: ("mo_gymnasium", "pip install mo-gymnasium"),
}
_BY_ENTRY_POINT = {  # of Gymnasium's own environments
    r"gymnasium\.envs\.mujoco": ("mujoco", "pip install 'gymnasium[mujoco]' 'mujoco<3.15'"),
    r"gymnasium\.envs\.box2d": ("Box2D", "pip install box2d"),
}


def package_of(env_id: str) -> tuple[str, str] | None:
    """The module that an id without `module:` needs, and how to install that; None if it isn't known to need any."""
    entry_point = str(getattr(gymnasium.registry.get(env_id), "entry_point", ""))
    table, text = (_BY_ENTRY_POINT, entry_point) if env_id in gymnasium.registry else (_BY_ID, env_id)
    return next((package for pattern, package in table.items() if re.match(pattern, text)), None)


def import_package_of(env_id: str) -> None:
    """Imports the package that registers an id, if it is a known one; raises ImportError."""
    if (package := package_of(env_id)) is not None:
        importlib.import_module(package[0])
