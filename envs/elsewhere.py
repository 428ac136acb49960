"""Vector environments in another process.

What they load and how they end stays there: OpenGL's drivers contain another LLVM than TensorFlow, of which a process
takes only one, and native code may crash.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import logging
import os
import pickle
import subprocess
import time
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from seed_rl.envs import base
from seed_rl.envs.base import CannotBuild, EnvConfig, EnvironmentFailed, UniformVectorEnv, Watchable, failure
from seed_rl.envs.processes import CLOSE_SECONDS, Output
from seed_rl.specs import ArraySpec, ContinuousSpec, EnvSpec
from seed_rl.system import children
from seed_rl.system.children import guard_of
from seed_rl.types import EnvOutput

_log = logging.getLogger(__name__)

_PROBED_STEPS = 5
_FAR = 1e6  # from zero, for an action


def probed_spec(config: EnvConfig) -> EnvSpec:
    """The spec of a config's environments, of which one, in another process, takes a few random steps.

    A suite that knows its spec without an environment is believed.

    Raises:
      CannotBuild: an environment can't be made, or is not what its spaces declare.
      EnvironmentFailed: it raised an error.
    """
    if type(config).spec is not EnvConfig.spec:
        return config.spec()
    with contextlib.closing(make_elsewhere(config, 1)) as env:
        spec = base.spec_of(env)
        collections.deque(itertools.islice(_checked_outputs(config.title, env, spec), _PROBED_STEPS), maxlen=0)
    if isinstance(spec.action, ContinuousSpec) and max(map(abs, spec.action.low + spec.action.high)) > _FAR:
        _log.warning("%s takes actions within %s: learning begins with as large ones", config.title, spec.action)
    return spec


def findings(config: EnvConfig, seconds: float = 1.0) -> list[str]:
    """What random steps tell about a config's environments, a line each; errors as of `probed_spec`."""
    spec = probed_spec(config)
    with contextlib.closing(make_elsewhere(config, 1)) as env:
        outputs, began = _checked_outputs(config.title, env, spec), time.monotonic()
        steps, ends, low, high = 0, 0, np.inf, -np.inf
        next(outputs)
        while not steps or time.monotonic() < began + seconds:
            output = next(outputs)
            steps, ends = steps + 1, ends + int(output.done[0])
            low, high = min(low, output.reward[0]), max(high, output.reward[0])
        rate = steps / (time.monotonic() - began)
    limit = "" if ends else ": if there never is one, set `max_episode_steps`"
    taken = f"{steps} random steps, {rate:,.0f} a second, with rewards from {low:g} to {high:g}"
    return [str(spec), taken, f"{ends} ends of episodes{limit}"]


def _checked_outputs(title: str, env: VectorEnv, spec: EnvSpec) -> Iterator[EnvOutput]:
    """The outputs of a reset and of random actions without end: as the spec says, all numbers finite.

    Raises:
      CannotBuild: one isn't.
    """
    rng, output = np.random.default_rng(0), base.reset(env, seed=0)
    while True:
        parts = [(f"observation {name}".rstrip(), name, part) for name, part in spec.observation_tensors()]
        for subject, name, part in [*parts, ("reward", None, ArraySpec((), "float32"))]:
            got = output.reward if name is None else output.observation[name] if name else output.observation
            tensor = np.asarray(got)[0]
            came = f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"
            if came != str(part):
                raise CannotBuild(f"{title}: {subject} is declared as {part}, but came as {came}")
            if not np.isfinite(tensor).all():
                raise CannotBuild(f"{title}: {subject} must be finite, but came as {tensor[~np.isfinite(tensor)][0]}")
        yield output
        output = base.step(env, base.random_actions(spec.action, rng, 1))


def make_elsewhere(config: EnvConfig, num_envs: int) -> VectorEnv:
    """Environments of a config in another process; in this one, if they are only defined here.

    Raises:
      CannotBuild, EnvironmentFailed: see `Elsewhere`.
    """
    try:
        return Elsewhere(config, "make", num_envs)
    except CannotBuild:
        return config.make(num_envs)


def watch_elsewhere(config: EnvConfig) -> Watchable:
    """An environment of a config that can be filmed, made like those of `make_elsewhere`."""
    try:
        return _Pictures(Elsewhere(config, "watch"))
    except CannotBuild:
        return config.watch()


class Elsewhere(UniformVectorEnv):
    """A vector environment that another process makes and steps; it has no `info`.

    The process and all that it starts end with this one, however that ends. After an error only `close` may be called.
    """

    def __init__(self, config: EnvConfig, method: str, *arguments: Any):
        """
        Args:
          config: of the environment.
          method: the config's, which makes it.
          arguments: of the method.

        Raises:
          CannotBuild: raised by the method, or the config isn't known in another process.
          EnvironmentFailed: the method raised another error, or its process died.
        """
        self._name = config.title
        try:
            maker = pickle.dumps((getattr(config, method), arguments))
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise CannotBuild(f"{self._name} can't be described to another process: {error}") from error
        self._output = Output()
        self._process = subprocess.Popen(
            children.python("from seed_rl.envs.elsewhere import serve; serve()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output.descriptor,
            start_new_session=True,  # Ctrl-C is this process's to handle
        )
        self._output.given()
        self._guard = guard_of([self._process.pid])
        try:
            super().__init__(*self.ask("make", (self._name, maker)))
        except BaseException:
            self.close_extras()
            raise

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes."""
        return self.ask("reset", seed), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all environments."""
        return (*self.ask("step", actions), {})

    def ask(self, what: str, argument: Any) -> Any:
        """The other process's answer to `make`, `reset`, `step` or `picture`.

        Raises:
          CannotBuild, EnvironmentFailed: raised there.
          EnvironmentFailed: the process has ended.
        """
        requests: Any = self._process.stdin
        answers: Any = self._process.stdout
        try:
            pickle.dump((what, argument), requests)
            requests.flush()
            answer, where = pickle.load(answers)
        except (EOFError, OSError, pickle.UnpicklingError) as lost:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_SECONDS)
            how = self._output.end(self._process.returncode)
            raise EnvironmentFailed(f"the process of {self._name} ended in {what}: {how}") from lost
        if where:
            raise answer from RuntimeError(f"in another process\n{where}")
        return answer

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the process, and kills it if it doesn't end by itself."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.stdin.close()  # type: ignore[union-attr]
            self._process.wait(CLOSE_SECONDS)
        self._guard.communicate()
        self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]


class _Pictures(Watchable):
    def picture(self, observation: Any) -> np.ndarray:
        return self.env.ask("picture", observation)  # type: ignore[attr-defined]


def serve() -> None:
    """Answers the requests of an `Elsewhere` on standard input until it is closed."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what an environment prints is no answer
    env: Any = None
    with contextlib.ExitStack() as at_end:
        while True:
            try:
                what, argument = pickle.load(requests)
            except EOFError:
                return
            try:
                if what == "make":
                    name, maker = argument
                    method, arguments = _known(maker, name)
                    env = at_end.enter_context(contextlib.closing(method(*arguments)))
                    spaces = env.single_observation_space, env.single_action_space
                    answer: Any = (env.num_envs, *spaces, env.metadata["autoreset_mode"])
                elif what == "reset":
                    answer = env.reset(seed=argument)[0]
                else:
                    answer = env.step(argument)[:4] if what == "step" else env.picture(argument)
                reply = pickle.dumps((answer, ""))
            except (Exception, SystemExit) as error:
                kind = CannotBuild if isinstance(error, CannotBuild) else EnvironmentFailed
                reply = pickle.dumps((kind(str(failure(f"{name} failed in {what}", error))), traceback.format_exc()))
            answers.write(reply)
            answers.flush()


def _known(maker: bytes, name: str) -> Any:
    try:
        return pickle.loads(maker)
    except (AttributeError, ImportError) as error:
        raise CannotBuild(f"{name} isn't known in another process: {error}") from error
