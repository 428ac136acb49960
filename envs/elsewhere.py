"""Environments of a config in a process without TensorFlow: to read their spaces, try them out, evaluate and film.

OpenGL's drivers and TensorFlow may need other versions of the same native library, and simulators may crash.
"""

import contextlib
import functools
import itertools
import logging
import multiprocessing
import os
import pickle
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from seed_rl.envs import base
from seed_rl.envs.base import CannotBuild, EnvConfig, EnvironmentFailed, UniformVectorEnv, Watchable
from seed_rl.envs.vector.steps import random_play
from seed_rl.envs.vector.workers import CLOSE_SECONDS
from seed_rl.specs import ArraySpec, EnvSpec, choices_of
from seed_rl.system import children
from seed_rl.system.files import explaining
from seed_rl.types import MAX_OBSERVATION, MAX_REWARD, EnvOutput

_log = logging.getLogger(__name__)

ENOUGH_STEPS = 1000
"""Random steps in which most episodes end."""
LARGE_FRAME = 1 << 17
"""Bytes of a frame that deserve a warning."""
_PROBED_STEPS = 5
_PATIENCE_SECONDS = 60.0


def probe_spec(config: EnvConfig) -> EnvSpec:
    """Return the spec of a config's environments, checked by a few random steps of one of them in another process.

    If the suite knows its spec without building an environment, nothing is checked. Raises CannotBuild if an
    environment can't be built or its outputs don't match its spaces, EnvironmentFailed if it raised an error.
    """
    if type(config).spec is not EnvConfig.spec:
        return config.spec()
    with contextlib.closing(make_elsewhere(config, config.players)) as env:
        spec = base.spec_of(env)
        list(itertools.islice(_checked_outputs(config.title, env, spec), _PROBED_STEPS))
    is_large = any(part.kind == "frame" and part.nbytes > LARGE_FRAME for _, part in spec.observation_tensors())
    if is_large and hasattr(config, "frame_size"):
        setting = f"{type(config).__name__}.frame_size = 84"
        _log.warning("%s has large frames, slow to send and to learn from; %s shrinks them", config.title, setting)
    return spec


def findings(config: EnvConfig, seconds: float = 1.0) -> list[str]:
    """Describe a config's environments in a few lines, after random steps; raises the errors of `probe_spec`."""
    spec = probe_spec(config)
    count = sum(choices_of(spec.action))
    masks = f"; action masks of {count} values" if spec.has_mask else "; no action masks" if count else ""
    players = f"; {config.players} players" if config.players > 1 else ""
    steps, ends, rewards = 0, 0, []
    with contextlib.closing(make_elsewhere(config, config.players)) as env:
        outputs = _checked_outputs(config.title, env, spec)
        next(outputs)
        began = time.monotonic()
        while not steps or time.monotonic() < began + seconds:
            output = next(outputs)
            steps, ends = steps + 1, ends + int(output.done[0] and not output.last[0])
            rewards += [output.reward.min(), output.reward.max()]
        rate = steps / (time.monotonic() - began)
    speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    limit = "" if ends or steps < ENOUGH_STEPS else ": if episodes never end, limit their steps"
    taken = f"{steps} random steps, {speed} a second, with rewards from {min(rewards):g} to {max(rewards):g}"
    return [f"{spec}{masks}{players}", taken, f"{ends} ends of episodes{limit}"]


def _checked_outputs(title: str, env: VectorEnv, spec: EnvSpec) -> Iterator[EnvOutput]:
    """Yield the outputs of random play; raise CannotBuild if one does not match the spec, or a learner refuses it."""
    for output in random_play(env, spec):
        tensors = output.observation if isinstance(output.observation, dict) else {"": output.observation}
        observed = spec.observation_tensors()
        parts = [(f"observation {name}".rstrip(), tensors[name], part, MAX_OBSERVATION) for name, part in observed]
        for subject, values, part, limit in [*parts, ("reward", output.reward, ArraySpec((), "float32"), MAX_REWARD)]:
            tensor = np.asarray(values)
            came = f"{tensor.dtype}[{', '.join(map(str, tensor.shape[1:]))}]"
            if came != str(part):
                raise CannotBuild(f"{title}: {subject} is declared as {part}, but came as {came}")
            if not (finite := np.isfinite(tensor)).all():
                raise CannotBuild(f"{title}: {subject} must be finite in {tensor.dtype}, but is {tensor[~finite][0]}")
            if tensor.dtype.kind == "f" and (huge := abs(tensor) > limit).any():
                raise CannotBuild(f"{title}: {subject} must be at most {limit:g} in size, but is {tensor[huge][0]:g}")
        yield output


def make_elsewhere(config: EnvConfig, num_envs: int) -> VectorEnv:
    """Build environments in another process, or in this one if their config is only defined here.

    Raises CannotBuild if they can't be built, and EnvironmentFailed if the process ended.
    """
    try:
        return _Elsewhere(config.title, config.make, num_envs)
    except CannotBuild:
        return config.make(num_envs)


def watch_elsewhere(config: EnvConfig) -> Watchable:
    """Build an environment that can be filmed, where `make_elsewhere` would build it."""
    try:
        env = _Elsewhere(config.title, config.watch)
    except CannotBuild:
        return config.watch()
    return Watchable(env, functools.partial(env.ask, "picture"))


class _Elsewhere(UniformVectorEnv):
    """The vector environment that a function makes in a new process, which ends with this one."""

    def __init__(self, name: str, make: Callable[..., VectorEnv], *arguments: Any):
        self._name = name
        self._pipe, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = subprocess.Popen(
                children.python(f"from seed_rl.envs.elsewhere import serve; serve({theirs.fileno()})"),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what an environment prints is not this program's result
                start_new_session=True,  # Ctrl-C is for this process to handle
            )
        try:
            with explaining(
                CannotBuild, f"{name} can't be sent to another process", AttributeError, pickle.PickleError
            ):
                num_envs, *made = self.ask("make", make, *arguments)
        except BaseException:
            self.close_extras()
            raise
        super().__init__(num_envs, *made)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.ask("reset", seed=seed)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        return self.ask("step", actions)

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the environments; what it returns has an empty `info`."""
        try:
            self._pipe.send((method, arguments, options))
            if not self._pipe.poll(_PATIENCE_SECONDS):
                _log.warning("%s: its %s has not returned for %g s", self._name, method, _PATIENCE_SECONDS)
            answer = self._pipe.recv()
        except (EOFError, OSError) as lost:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_SECONDS)
            code: Any = self._process.returncode
            how = {-number: number.name for number in signal.Signals}.get(code, f"exit code {code}")
            raise EnvironmentFailed(f"the process of {self._name} ended in {method}: {how}") from lost
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close_extras(self, **unused: Any) -> None:
        """End the process, and all that it has started."""
        self._pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def serve(descriptor: int) -> None:
    """Answer the requests that come through a pipe until it is closed, in a process that leads a new process group."""
    threading.Thread(target=_end_with, args=[descriptor], daemon=True).start()
    method, env = "make", None
    with Connection(descriptor) as pipe, contextlib.ExitStack() as at_end:
        while True:
            try:
                method, arguments, options = pipe.recv()
                if method == "make":
                    make, *rest = arguments
                    env = at_end.enter_context(contextlib.closing(make(*rest)))
                    spaces = env.single_observation_space, env.single_action_space
                    answer: Any = env.num_envs, *spaces, base.autoreset_mode(env)
                else:
                    answer = getattr(env, method)(*arguments, **options)
                    answer = (*answer[:-1], {}) if isinstance(answer, tuple) else answer
            except EOFError:
                return
            except (Exception, SystemExit) as error:  # an environment may raise anything
                kind = CannotBuild if method == "make" else EnvironmentFailed
                answer = base.failure(f"an environment failed in {method}", error, kind)
            pipe.send(answer)


def _end_with(descriptor: int) -> None:
    """Kill this process's group some seconds after the other end of its pipe was closed: an environment may hang."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)
    hung_up.poll()
    time.sleep(CLOSE_SECONDS)
    os.killpg(0, signal.SIGKILL)
