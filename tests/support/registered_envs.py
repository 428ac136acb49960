"""Registers small environments with Gymnasium, as a package of environments does when it is imported."""

import functools
import os
import threading

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class Counted(gymnasium.Env):
    """Episode e has 2 + e % 3 steps and terminates if e is even; its step t has reward 10 e + t.

    An observation is the seed (-1 in an episode without), the episode since the last seed, and the steps taken in it.
    """

    observation_space = spaces.Box(-1, 10_000, (3,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self._seed = self._episode = -1
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._seed = -1 if seed is None else seed
        self._episode = self._episode + 1 if seed is None else 0
        self._steps = 0
        return self._observe(), {}

    def step(self, action):
        assert action in (0, 1)
        self._steps += 1
        ends, even = self._steps == 2 + self._episode % 3, self._episode % 2 == 0
        return self._observe(), 10.0 * self._episode + self._steps, ends and even, ends and not even, {}

    def _observe(self):
        return np.array([self._seed, self._episode, self._steps], np.int64)


SENSES = {
    "flat": spaces.Box(-1, 1, (2,), np.float32),
    "nested": spaces.Dict(
        {
            "camera": spaces.Dict(
                {"right": spaces.Box(0, 255, (2, 3, 1), np.uint8), "left": spaces.Box(0, 255, (2, 3, 1), np.uint8)}
            ),
            "mode": spaces.Discrete(3, start=5),
            "pair": spaces.Tuple([spaces.Discrete(2), spaces.Box(-9, 9, (), np.float64)]),
        }
    ),
    "tuple": spaces.Tuple([spaces.Box(-1, 1, (1, 2), np.float16), spaces.Tuple([spaces.Discrete(4, start=-1)])]),
    "one part": spaces.Dict({"only": spaces.Discrete(4)}),
    "same names": spaces.Dict({"a/b": spaces.Box(0, 1, (1,)), "a": spaces.Dict({"b": spaces.Box(0, 1, (2,))})}),
    "no number": spaces.Box(-1, 1, (0,), np.float32),
    "many inside": spaces.Dict({"a": spaces.Box(0, 1, (1,)), "b": spaces.Discrete(70_000)}),
    "text": spaces.Text(5),
    "text inside": spaces.Dict({"a": spaces.Box(0, 1, (1,)), "b": spaces.Text(5)}),
    "bytes with a sign": spaces.Box(-1, 1, (2,), np.int8),
    "large": spaces.Box(0, 2**64 - 1, (2,), np.uint64),
    "choices": spaces.MultiDiscrete([2, 3], start=[0, 4]),
    "channels first": spaces.Box(0, 255, (2, 20, 30), np.uint8),
    "wide": spaces.Box(0, 255, (40, 60, 3), np.uint8),
    "stack": spaces.Box(0, 255, (2, 40, 60, 3), np.uint8),
    "gray": spaces.Box(0, 255, (20, 30), np.uint8),
    "board": spaces.Box(0, 5, (7, 7), np.uint8),
    "depth": spaces.Box(0, 60_000, (20, 30), np.uint16),
}
LEVERS = {
    "choices": spaces.MultiDiscrete([2, 3]),
    "table of choices": spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, -1], [0, 7]]),
    "from three": spaces.Discrete(4, start=3),
    "vector": spaces.Box(np.array([-1, 0], np.float32), np.array([1, 5], np.float32)),
    "matrix of doubles": spaces.Box(-0.1, 0.7, (2, 2), np.float64),
    "number": spaces.Box(-2, 3, (), np.float32),
    "unbounded": spaces.Box(-np.inf, 1, (2,), np.float32),
    "signed bytes": spaces.Box(-128, 127, (2,), np.int8),
    "integers": spaces.Box(0, 1000, (2,), np.int32),
    "one value": spaces.Box(1, 1, (2,), np.float32),
    "one value each": spaces.Box(np.array([-1, 2], np.float32), np.array([1, 2], np.float32)),
    "text": spaces.Text(5),
    "bits": spaces.MultiBinary(3),
    "pair": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
    "no part": spaces.Dict(),
    "text inside": spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple([spaces.Discrete(2), spaces.Text(5)])}),
}
LEVERS |= {
    "numbers": spaces.Tuple([LEVERS["vector"], LEVERS["number"]]),
    "tree": spaces.Dict(
        {
            "fixed": LEVERS["one value"],
            "place": LEVERS["number"],
            "tools": spaces.Tuple([LEVERS["from three"], spaces.MultiBinary(2)]),
        }
    ),
}


class Echo(gymnasium.Env):
    """Has the spaces that its options name, random observations, and the last action to show. Ends one time in four."""

    def __init__(self, senses="flat", levers="choices"):
        self.observation_space = SENSES[senses]
        self.action_space = LEVERS[levers]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        ends = self.np_random.random() < 0.25
        reward = self.np_random.normal()
        self._taken = np.array(self._leaves(action))
        return self.observation_space.sample(), reward, ends, False, {}

    def render(self):
        return self._taken

    def _leaves(self, action):
        parts = action.values() if isinstance(action, dict) else action if isinstance(action, tuple) else ()
        return [x for part in parts for x in self._leaves(part)] or np.ravel(action).tolist()


class Workshop(gymnasium.Env):
    """Asks for a place and a tool, eight times: the right tool earns 1 there, 0 from 0.4 on. One other is in use."""

    observation_space = spaces.Dict({"task": spaces.Box(-1, 1, (4,), np.float32), "action_mask": spaces.MultiBinary(3)})
    action_space = spaces.Dict({"place": spaces.Box(-1, 1, (1,), np.float32), "tool": spaces.Discrete(3)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._ask(), {}

    def step(self, action):
        assert action["tool"] != self._used
        distance = abs(float(action["place"][0]) - self._place)
        reward = max(0.0, 1.0 - 2.5 * distance) if action["tool"] == self._tool else 0.0
        self._steps += 1
        return self._ask(), reward, self._steps == 8, False, {}

    def _ask(self):
        self._place, (self._tool, self._used) = self.np_random.uniform(-0.8, 0.8), self.np_random.permutation(3)[:2]
        task = np.array([self._place, *(np.arange(3) == self._tool)], np.float32)
        return {"task": task, "action_mask": (np.arange(3) != self._used).astype(np.int8)}


class Masked(gymnasium.Env):
    """Allows each value of its choices, or the first of these, half of the time, and fails if another is taken.

    One episode in two is terminated, the others are truncated; the last action mask is zero. Masks are a part of the
    observation, or in `info`, also at ends, only before them or only once, or come by a method.
    """

    def __init__(self, levers="choices", allows="some", where="observation"):
        self.action_space = LEVERS[levers]
        self._allows, self._where = allows, where
        self._sizes = getattr(self.action_space, "nvec", [getattr(self.action_space, "n", 1)])
        parts = [spaces.Box(0, 1, (int(n),), np.int8) for n in self._sizes]
        mask = spaces.Tuple(parts) if len(parts) > 1 else parts[0]
        self.observation_space = spaces.Discrete(3)
        if where == "observation":
            self.observation_space = spaces.Dict({"board": spaces.Discrete(3), "action_mask": mask})
        if where == "method":
            self.action_masks = lambda: np.concatenate(self._mask)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(False)

    def step(self, action):
        starts = np.atleast_1d(self.action_space.start)
        for chosen, allowed, start in zip(np.atleast_1d(action), self._mask, starts, strict=True):
            assert allowed[chosen - start], f"{action} is illegal"
        ends, even = self.np_random.random() < 0.25, self.np_random.random() < 0.5
        observation, info = self._observe(ends)
        return observation, 1.0, bool(ends and even), bool(ends and not even), info

    def _observe(self, ends):
        self._mask = [self.np_random.random(n) < 0.5 for n in self._sizes]
        for number, allowed in enumerate(self._mask):
            allowed[self.np_random.integers(len(allowed))] = True
            allowed &= not ends and (self._allows == "some" or (self._allows == "first" and number == 0))
        mask = tuple(each.astype(np.int8) for each in self._mask)
        given, board = {"action_mask": mask if len(mask) > 1 else mask[0]}, self.np_random.integers(3)
        if self._where == "observation":
            return {"board": board} | given, {}
        is_there = self._where in ("info", "first info") or (self._where == "info before ends" and not ends)
        if self._where == "first info":
            self._where = "nowhere"
        return board, given if is_there else {}


class Hanging(Counted):
    """Hangs for ever in its 20th step, or in its ninth reset, if it finds the file `hang`, which it then removes."""

    def __init__(self, hang, what="step"):
        super().__init__()
        self._hang, self._what, self._left = hang, what, {"step": 20, "reset": 9}

    def reset(self, *, seed=None, options=None):
        self._come_to("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._come_to("step")
        return super().step(action)

    def _come_to(self, what):
        self._left[what] -= 1
        if what == self._what and not self._left[what]:
            try:
                os.remove(self._hang)
            except FileNotFoundError:
                return
            threading.Event().wait()


def bare():
    """An environment that says nothing about itself."""
    env = Counted()
    env.metadata = None
    return env


def many(num_envs, mode):
    """A vector environment with its own entry point."""
    return SyncVectorEnv([Counted] * num_envs, autoreset_mode=mode)


def undeclared(num_envs):
    """A vector environment that doesn't say that it begins the next episode at once."""
    env = many(num_envs, AutoresetMode.SAME_STEP)
    env.metadata = {}
    return env


for made in Counted, Echo, Hanging, Masked, Workshop:
    gymnasium.register(f"{made.__name__}-v0", made)
gymnasium.register("CountedBare-v0", bare)
gymnasium.register("Undeclared-v0", vector_entry_point=undeclared)
for name, mode in {"Next": AutoresetMode.NEXT_STEP, "Same": AutoresetMode.SAME_STEP}.items():
    gymnasium.register(f"Counted{name}-v0", vector_entry_point=functools.partial(many, mode=mode))
