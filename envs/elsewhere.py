"""Environments of a config in another process: to read their spaces, to try them out, to evaluate and to film."""

import contextlib
import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from seed_rl.envs import base
from seed_rl.envs.base import CannotBuild, EnvConfig, EnvironmentFailed, Watchable
from seed_rl.envs.vector.processes import ProcessVectorEnv
from seed_rl.specs import ArraySpec, ContinuousSpec, EnvSpec, MixedSpec, choices_of
from seed_rl.system.files import explained
from seed_rl.types import EnvOutput

_log = logging.getLogger(__name__)

_PROBED_STEPS = 5
_ENOUGH_STEPS = 1000  # random ones in which most episodes end
_PATIENCE = 5.0  # seconds of a trial after which to say what it waits for
_FAR = 1e6  # magnitude of action bounds that deserves a warning
_LARGE = 1 << 17  # bytes of a frame that deserve one


def probed_spec(config: EnvConfig) -> EnvSpec:
    """The spec of a config's environments, checked by a few random steps of one of them in another process.

    If the suite knows its spec without building an environment, nothing is checked.

    Raises:
      CannotBuild: an environment can't be built, or its outputs don't match its spaces.
      EnvironmentFailed: the environment raised an error.
    """
    if type(config).spec is not EnvConfig.spec:
        return config.spec()
    with _tried(config) as env:
        spec = base.spec_of(env)
        list(itertools.islice(_checked_outputs(config.title, env, spec), _PROBED_STEPS))
    if isinstance(spec.action, ContinuousSpec | MixedSpec) and max(map(abs, spec.action.low + spec.action.high)) > _FAR:
        _log.warning("%s has action bounds %s: initial actions will be that large", config.title, spec.action)
    for name, part in spec.observation_tensors():
        if hasattr(config, "frame_size") and part.dtype == "uint8" and len(part.shape) == 3 and part.nbytes > _LARGE:
            what = f"{config.title}: frames {name}".rstrip()
            setting = f"{type(config).__name__}.frame_size = 84"
            _log.warning("%s are %s, which are slow to send and to learn from; %s shrinks them", what, part, setting)
    return spec


def findings(config: EnvConfig, seconds: float = 1.0) -> list[str]:
    """Describes a config's environments in a few lines, after random steps.

    Raises the errors of `probed_spec`, and of `check_several` for two in one process and one in another.
    """
    spec = probed_spec(config)
    check_several(config, 2 * config.players, config.players)
    count = sum(choices_of(spec.action))
    masks = f"; action masks of {count} values" if spec.has_mask else "; no action masks" if count else ""
    players = f"; {config.players} players" if config.players > 1 else ""
    with _tried(config) as env:
        outputs = _checked_outputs(config.title, env, spec)
        next(outputs)
        began, steps, ends, low, high = time.monotonic(), 0, 0, np.inf, -np.inf
        while not steps or time.monotonic() < began + seconds:
            output = next(outputs)
            steps, ends = steps + 1, ends + int(output.done[0] and not output.last[0])
            low, high = min(low, *output.reward), max(high, *output.reward)
        rate = steps / (time.monotonic() - began)
    speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    limit = "" if ends or steps < _ENOUGH_STEPS else f": {config.without_ends}"
    taken = f"{steps} random steps, {speed} a second, with rewards from {low:g} to {high:g}"
    return [f"{spec}{masks}{players}", taken, f"{ends} ends of episodes{limit}"]


def check_several(config: EnvConfig, *sizes: int) -> None:
    """Checks that environments can exist at the same time, in processes of these numbers of rows.

    If the suite knows its spec without building an environment, nothing is checked.

    Raises:
      CannotBuild: they can't; the message says whether it is too many for a process or for the machine.
    """
    one = config.players
    if type(config).spec is not EnvConfig.spec or sizes == (one,):
        return
    try:
        _side_by_side(config, *sizes)
    except CannotBuild as error:
        _side_by_side(config, one)  # raises its own error
        try:
            _side_by_side(config, one, one)
        except CannotBuild as again:
            raise CannotBuild(
                f"there can be only one of {config.title} on a machine: {again}. If what they share has a number, "
                '`"{index}"` in the options gives each its own; a run with one has Actors.num_actors = 1, '
                f"Actors.groups_per_actor = 1 and Actors.envs_per_group = {one}"
            ) from again
        cure = "; with Gym.vectorization = 'async' each has its own" if hasattr(config, "vectorization") else ""
        raise CannotBuild(f"there can't be {sizes[0]} of {config.title} in one process{cure}: {error}") from error


def _side_by_side(config: EnvConfig, *sizes: int) -> None:
    with explained(CannotBuild, config.title, EnvironmentFailed), contextlib.ExitStack() as made:
        for size in sizes:
            made.enter_context(contextlib.closing(make_elsewhere(config, size))).reset(seed=0)


class _Tried(VectorWrapper):
    """Remembers the rewards of the last step as they came."""

    rewards: Any = 0.0

    def __init__(self, env: VectorEnv, begins: Callable[[str], None]):
        """`begins` is called with the name of each call that begins."""
        super().__init__(env)
        self._begins, self._numbers = begins, itertools.count(1)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self._begins("the reset")
        return self.env.reset(**options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._begins(f"step {next(self._numbers)}")
        results = self.env.step(actions)
        self.rewards = results[1]
        return results


@contextlib.contextmanager
def _tried(config: EnvConfig) -> Iterator[_Tried]:
    """Builds an environment, or game, to try out; as long as that takes, logs now and then what it waits for."""
    calls, over = ["the construction or first reset"], threading.Event()

    def remind() -> None:
        seconds = _PATIENCE
        while not over.wait(seconds):
            _log.info("waiting for %s of %s", calls[-1], config.title)
            seconds *= 2

    threading.Thread(target=remind, daemon=True).start()
    try:
        with contextlib.closing(make_elsewhere(config, config.players)) as env:
            yield _Tried(env, lambda call: calls.__setitem__(-1, call))
    finally:
        over.set()


def _checked_outputs(title: str, env: _Tried, spec: EnvSpec) -> Iterator[EnvOutput]:
    """Yields the outputs of random play after checking each.

    Raises:
      CannotBuild: an output does not match the spec, or is not finite.
    """
    for output in base.random_play(env, spec):
        tensors = output.observation if isinstance(output.observation, dict) else {"": output.observation}
        parts = [(f"observation {name}".rstrip(), tensors[name], part) for name, part in spec.observation_tensors()]
        for subject, values, part in [*parts, ("reward", output.reward, ArraySpec((), "float32"))]:
            tensor = np.asarray(values)
            came = f"{tensor.dtype}[{', '.join(map(str, tensor.shape[1:]))}]"
            if came != str(part):
                raise CannotBuild(f"{title}: {subject} is declared as {part}, but came as {came}")
            if not (finite := np.isfinite(tensor)).all():
                own = np.broadcast_to(env.rewards, tensor.shape) if subject == "reward" else tensor
                raise CannotBuild(f"{title}: {subject} must be finite in {tensor.dtype}, but came as {own[~finite][0]}")
        yield output


def make_elsewhere(config: EnvConfig, num_envs: int) -> VectorEnv:
    """Builds environments in another process, or in this one if their config is only defined here.

    Raises:
      CannotBuild, EnvironmentFailed: see `ProcessVectorEnv`.
    """
    try:
        return ProcessVectorEnv([functools.partial(config.make, num_envs)], config.title)
    except CannotBuild:
        return config.make(num_envs)


def watch_elsewhere(config: EnvConfig) -> Watchable:
    """Builds an environment that can be filmed, where `make_elsewhere` would build it."""
    try:
        return _Pictures(ProcessVectorEnv([config.watch], config.title))
    except CannotBuild:
        return config.watch()


class _Pictures(Watchable):
    def picture(self, observation: Any) -> np.ndarray:
        return self.env.picture(observation)  # type: ignore[attr-defined]
