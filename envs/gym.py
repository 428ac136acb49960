"""Any environment registered with Gymnasium or built into EnvPool."""

import contextlib
import dataclasses
import functools
import importlib
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import gin
import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from seed_rl.envs.base import CannotBuild, EnvConfig, Watchable
from seed_rl.envs.checks import Checked, sentences_of
from seed_rl.envs.vector.pool import INSTALL, EnvPoolVectorEnv
from seed_rl.envs.vector.rendering import make_watchable
from seed_rl.envs.vector.workers import WorkersVectorEnv
from seed_rl.envs.vector.wrappers import FlatVectorEnv
from seed_rl.foreign import JsonObject
from seed_rl.settings import Count, OneOf, Within
from seed_rl.system.files import explaining


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Gym(EnvConfig):
    """An environment given by its id, such as `CartPole-v1`, or by `module:id`."""

    suite: ClassVar[str] = "gym"
    task_setting: ClassVar[str] = "id"

    id: str = "CartPole-v1"
    """The registered id, prefixed with `module:` if a module must be imported first (actors on other machines need
    `--import_module` for that), as in `minigrid:MiniGrid-DoorKey-5x5-v0`; with `envpool`, an EnvPool id."""
    vectorization: Annotated[str, OneOf("sync", "async", "vector_entry_point")] = "sync"
    """`sync`: environments step in sequence in the actor; `async`: one process per environment; `vector_entry_point`:
    the environment's own vector implementation; if that has a fixed size, set `Actors.envs_per_group` to it."""
    envpool: bool = False
    """Use EnvPool's implementation, which steps all environments in native threads and ignores `vectorization`."""
    options: Annotated[str, JsonObject()] = "{}"
    """Keyword arguments of the environment, a JSON object."""
    wrappers: tuple = ()
    """Wrappers of each environment, the innermost first: `'module:Class'`, or `('module:Class', {'name': value})` with
    keyword arguments, such as `('gymnasium.wrappers:FrameStackObservation', {'stack_size': 4})`. Actors on other
    machines need `--import_module` for their modules."""
    keys: tuple[str, ...] = ()
    """Names of the observations to keep of a Dict or Tuple, such as `('image',)`, or of those to drop, with a minus in
    front: `('-mission',)`. By default, all are kept."""
    frame_size: Annotated[int, Within(0)] = 0
    """Height and width to which larger frames are shrunk, in the actor; 0: they keep their size."""
    grayscale: bool = False
    """Turn RGB frames into gray ones, in the actor."""
    frames_per_step: Count = 1
    """Number of frames to count per step: the environment's built-in action repeat."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "wrappers", tuple(map(_wrapper_text, self.wrappers)))
        if self.wrappers and (self.envpool or self.vectorization == "vector_entry_point"):
            native = "Gym.envpool" if self.envpool else "Gym.vectorization = 'vector_entry_point'"
            raise ValueError(f"Gym.wrappers must be () with {native}: they wrap single environments")
        if self.id.startswith("ALE/") and not self.envpool:
            raise ValueError(
                f"Gym.id must be of another suite: {self.id} is a game of Atari, as in --gin_file=atari/vtrace_fast "
                "--gin_param=Atari.game=pong ('ale_py:ALE/...' runs it here, slower)"
            )

    @classmethod
    def tasks(cls) -> list[str]:
        return sorted(gymnasium.registry)

    @property
    def packages(self) -> dict[str, str]:
        return {"envpool": INSTALL} if self.envpool else {}

    @property
    def action_repeat(self) -> int:
        return self.frames_per_step

    @property
    def reward_threshold(self) -> float | None:
        return getattr(gymnasium.registry.get(self.id.rpartition(":")[2]), "reward_threshold", None)

    @property
    def modules(self) -> tuple[str, ...]:
        if self.envpool:
            return ()
        # Gymnasium's wrappers of older environments take an id, possibly with `module:`, as an option.
        names = (self.id, str(json.loads(self.options).get("env_id", "")), *self.wrappers)
        return tuple(dict.fromkeys(name.partition(":")[0] for name in names if ":" in name))

    def watch(self) -> Watchable:
        """Draws the environment's own rendering; without one, its observations if they are pictures."""
        return make_watchable(self.make, 1, self.id)

    def make(self, num_envs: int, **more_options: Any) -> VectorEnv:
        self.check_packages()
        options = json.loads(self.options) | more_options
        env = EnvPoolVectorEnv(self.id, num_envs, options) if self.envpool else self._make_gymnasium(num_envs, options)
        return FlatVectorEnv(env, self.keys, self.frame_size, self.grayscale, name=self.id)

    def _make_gymnasium(self, num_envs: int, options: dict[str, Any]) -> VectorEnv:
        if self.vectorization == "vector_entry_point":
            with sentences_of(self.id):
                return gymnasium.make_vec(self.id, num_envs, vectorization_mode="vector_entry_point", **options)
        make = functools.partial(_make_one, self.id, options, self.wrappers)
        ids = [f"environment {n} of {num_envs} of {self.id}" for n in range(num_envs)] if num_envs > 1 else [self.id]
        checked = [functools.partial(Checked, make, name) for name in ids]
        if self.vectorization == "async":
            with explaining(CannotBuild, f"{self.id} can't have a process for each environment", ValueError):
                return WorkersVectorEnv(checked, self.id)
        return SyncVectorEnv(checked, autoreset_mode=AutoresetMode.SAME_STEP)


def _make_one(env_id: str, options: dict[str, Any], wrappers: Sequence[str]) -> gymnasium.Env:
    """Build one environment, or raise CannotBuild."""
    with sentences_of(env_id):
        env = gymnasium.make(env_id, **{"disable_env_checker": True, **options})
        for text in wrappers:
            name, _, arguments = text.partition(" ")
            module, _, attribute = name.partition(":")
            kind = getattr(importlib.import_module(module), attribute, None)
            if not (isinstance(kind, type) and issubclass(kind, gymnasium.Wrapper)):  # a learner may send this name
                raise CannotBuild(f"{env_id} can't be made: {name} is not a subclass of gymnasium.Wrapper")
            env = kind(env, **json.loads(arguments or "{}"))
        return env


def _wrapper_text(wrapper: Any) -> str:
    """A wrapper as text that can be sent: `module:Class`, or `module:Class {"name": value}`."""
    text = wrapper
    with contextlib.suppress(TypeError, ValueError):  # of arguments that JSON doesn't have
        if isinstance(wrapper, tuple | list) and len(wrapper) == 2 and isinstance(wrapper[1], dict):
            text = f"{wrapper[0]} {json.dumps(wrapper[1])}"
        if isinstance(text, str) and re.fullmatch(r"[\w.]+:\w+( \{.*\})?", text):
            return text
    raise ValueError(f"Gym.wrappers must hold 'module:Class' or ('module:Class', {{'name': value}}), got {wrapper!r}")
